"""What a certificate says of a retrieval from one index: the hits of `rag_query`, and the state of the index that they are of.

Both are calls that a replay session records, so that a recorded run can be certified again without the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib import tools
from rag_stdlib.corpus import describe
from rag_stdlib.effects import RAG_READ, refusal
from rag_stdlib.errors import Failure
from rag_stdlib.index import corpora
from rag_stdlib.options import QueryOptions
from rag_stdlib.proof.certificate import Item, Retrieval, SearchedIndex
from rag_stdlib.proof.provenance import fitting
from rag_stdlib.proof.recording import recorded
from rag_stdlib.records import Mode, RagChunkEnvelope
from rag_stdlib.result import Err
from rag_stdlib.runtime import Runtime, current_runtime
from rag_stdlib.values import MAX_QUERY_BYTES, check_text

if TYPE_CHECKING:
    import apsw

    from rag_stdlib.embed.protocol import EmbedderIdentity

_TRIES: Final = 3
_DEPOSITS: Final = ("deposit:", "upload:")


def retrieve(index_path: str, question: str, limit: int, mode: Mode | None = None) -> Retrieval:
    """Search an index for a certificate.

    Where the index changes meanwhile it is searched again, three times at most; after that its state is not known, and the certificate
    says so (`SearchedIndex.content` None).

    Raises:
        Failure: what `rag_query` fails with.
    """
    tries = _TRIES
    while True:
        before = searched(index_path, mode)
        found = tools.rag_query(index_path, question, limit, QueryOptions(mode=before["mode"]))
        if isinstance(found, Err):
            raise Failure(found.error)
        after, tries = searched(index_path, mode), tries - 1
        if before == after or not tries:
            break
    return _retrieval(after, limit, tuple(map(_item, found.value)), content=after["content"] if before == after else None)


def retrieve_nothing(index_path: str, question: str, limit: int, mode: Mode | None = None) -> Retrieval:
    """Retrieve nothing, so that nothing is answered; which state of the index was there is certified all the same. It is the floor of an ablation.

    Raises:
        Failure: what `rag_query` fails with, but for what fails in the midst of a search.
    """
    check_text("query", question, MAX_QUERY_BYTES)
    state = searched(index_path, mode)
    if state["mode"] != "lexical" and state["model"] is None:
        return replace(retrieve(index_path, question, limit, mode), items=())  # which says what there is not to search by
    return _retrieval(state, limit, (), content=state["content"])


def _retrieval(state: Mapping[str, Any], limit: int, items: tuple[Item, ...], *, content: str | None) -> Retrieval:
    embedder = None if state["mode"] == "lexical" else (state["model"], state["dim"])
    return Retrieval(state["mode"], limit, items, (SearchedIndex(content),), embedder, state["corpus_hash"])


def searched(index_path: str, mode: Mode | None) -> dict[str, Any]:
    """Say what an index is, for a search in this mode (None: the configured one): mode, content, corpus_hash, model and dim.

    Raises:
        Failure: `effect_not_granted`, and every refusal of the file.
    """
    return recorded("rag_searched", [index_path, mode], lambda: _searched(index_path, mode))


def _searched(index_path: str, mode: Mode | None) -> dict[str, Any]:
    runtime = _reading()
    chosen = mode or runtime.mode
    with runtime.store.snapshot(index_path) as snapshot:
        connection = snapshot.connection
        facts: dict[str, Any] = {"mode": chosen, "content": snapshot.describe()["content"], "corpus_hash": None, "model": None, "dim": None}
        of_corpus = bool(corpora.repos(connection))
        identity = _identity(connection, index_path, runtime) if chosen != "lexical" or of_corpus else None
        if identity is not None:
            facts["corpus_hash"] = _corpus_hash(connection, identity) if of_corpus else None
            if chosen != "lexical":
                facts["model"], facts["dim"] = describe.model_name(identity), identity.dim
    return facts


def _identity(connection: apsw.Connection, index_path: str, runtime: Runtime) -> EmbedderIdentity | None:
    """Return the identity of the embedding; None where there is none or another, which a search that needs it says in its own words."""
    try:
        return describe.identity_of(connection, index_path, runtime.embedder)
    except Failure as failure:
        if failure.error.code not in ("no_embed_model", "embedding_mismatch"):
            raise
        return None


def _corpus_hash(connection: apsw.Connection, identity: EmbedderIdentity) -> str | None:
    """Return the hash of the corpus; None for a part of one, which has none."""
    try:
        found: str = describe.describe(connection, identity)["corpus_hash"]
    except Failure as failure:
        if failure.error.code != "index_is_shard":
            raise
        return None
    return found


def _reading() -> Runtime:
    """Return the runtime, where reading is granted."""
    runtime = current_runtime()
    forbidden = refusal("rag_searched", (RAG_READ,), runtime.config.grant)
    if forbidden is not None:
        raise Failure(forbidden)
    return runtime


def still_stored(retrieval: Mapping[str, Any], index_path: str) -> list[bool]:
    """Tell for each item of a certificate's `retrieval` whether the index still holds its text at its place in its document.

    Raises:
        Failure: `effect_not_granted`, and every refusal of the file.
    """
    with _reading().store.reading(index_path) as connection:
        return [bool(connection.execute(
            "SELECT 1 FROM rag_chunks WHERE doc_id = ? AND start_char = ? AND end_char = ? AND text = ? LIMIT 1",
            (item["doc_id"], item["start"], item["end"], item["text"])).fetchall()) for item in retrieval["items"]]


def _item(chunk: RagChunkEnvelope) -> Item:
    return Item(chunk.chunk_id, chunk.doc_id, chunk.source, chunk.start_char, chunk.end_char, chunk.text, chunk.score or 0.0, 0, _provenance(chunk))


def _provenance(chunk: RagChunkEnvelope) -> dict[str, Any] | None:
    """Give the provenance of a chunk that a repository or a deposit brought in, which the document's id shows; others name their source.

    The lines of a deposit are its caller's, and may be none that a certificate can say.
    """
    kind = chunk.metadata.get("kind")
    if not (kind == "corpus" and chunk.doc_id.startswith(corpora.PREFIX)) and not (kind == "deposit" and chunk.doc_id.startswith(_DEPOSITS)):
        return None
    of_corpus = {name: chunk.metadata.get(name) for name in ("repo_id", "commit")} if kind == "corpus" else {}
    return fitting({"kind": kind, "path": chunk.source, "start_line": chunk.start_line, "end_line": chunk.end_line, **of_corpus})
