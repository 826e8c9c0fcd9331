"""The index as a corpus that anyone can check: what describe_corpus says (RAG service contract §3), from one snapshot of the index.

It names the repositories that the index serves whole, each at the commit that all its files are of, in the order of the list they
were synced from. The signature, where one is kept, is that of the operator over the corpus hash.
"""

from __future__ import annotations

import base64
from pathlib import PurePath
from typing import Any, Final

import apsw

from rag_stdlib.contract.corpus import corpus_hash
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index import corpora, schema, sharding
from rag_stdlib.index.store import Store

_REVISION_CHARS: Final = 12
_FACT: Final = "corpus_signature"  # HASH:BASE64


def model_name(identity: EmbedderIdentity) -> str:
    """Name an embedding model for the corpus hash: the model, and ``@REVISION`` (12 characters) where weights are told apart by one."""
    return f"{identity.model}@{identity.revision[:_REVISION_CHARS]}" if identity.revision else identity.model


def identity_of(connection: apsw.Connection, path: str, embedder: Embedder | None) -> EmbedderIdentity:
    """Return the identity of the embedding that the index holds, or else would get from `embedder`.

    Raises:
        Failure: `no_embed_model` without either, `embedding_mismatch` where they differ.
    """
    stored = schema.stored_identity(connection)
    given = boundary.identified(embedder, stored) if embedder is not None else None
    if stored is not None and given is not None and stored != given:
        raise fail("embedding_mismatch", path=path, stored=stored.describe(), given=given.describe())
    found = stored or given
    if found is None:
        raise fail("no_embed_model", path=path)
    return found


def describe(connection: apsw.Connection, identity: EmbedderIdentity) -> dict[str, Any]:
    """Return ``{"model", "dim", "repos": [{"id", "url", "branch", "commit"}, …], "corpus_hash"}`` of a snapshot.

    Raises:
        Failure: `index_is_shard` for one that holds repositories in part: nobody can say of it what a description says.
    """
    repos = [{"id": repo.id, "url": repo.url, "branch": repo.branch, "commit": repo.commit} for repo in corpora.repos(connection)]
    if repos:
        sharding.refuse_shard(connection, PurePath(connection.filename).name,
                              "it holds a part of each repository, so it is no corpus; describe, sign and serve the whole index as one")
    description: dict[str, Any] = {"model": model_name(identity), "dim": identity.dim, "repos": repos}
    return {**description, "corpus_hash": corpus_hash(description)}


def kept_signature(connection: apsw.Connection, hash_now: str) -> bytes | None:
    """Return the signature that is kept of this very corpus hash; None where there is none, or one of an earlier corpus."""
    kept = schema.get_fact(connection, _FACT)
    signed, _, encoded = kept.partition(":") if isinstance(kept, str) else ("", "", "")
    try:
        return base64.b64decode(encoded, validate=True) if signed == hash_now else None
    except ValueError:
        return None


def keep_signature(store: Store, path: str, hash_now: str, signature: bytes) -> None:
    """Keep a signature in the index, so that every provider of this file can hand it out."""
    with store.writing(path) as connection:
        schema.set_fact(connection, _FACT, f"{hash_now}:{base64.b64encode(signature).decode()}")
