"""A corpus, its description in the hands of a provider, and signed objects that say what no honest key would sign."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final

from fixed_keys import node_key
from hypothesis import strategies as st

from rag_stdlib.contract import cbor
from rag_stdlib.contract.corpus import LABEL, corpus_hash, sign_corpus
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.contract.signedobject import ALGORITHMS

ALPHA: Final = {"id": "alpha", "url": "https://example.org/alpha.git", "branch": "main", "commit": "a" * 40}
BETA: Final = {"id": "beta", "url": "/srv/mirrors/beta.git", "branch": "trunk", "commit": "b" * 40}
CORPUS: Final[dict[str, Any]] = {"model": "test/words:v1", "dim": 384, "repos": [ALPHA, BETA]}
HASH: Final = corpus_hash(CORPUS)
OTHER: Final[dict[str, Any]] = {**CORPUS, "repos": [BETA]}
OTHER_HASH: Final = corpus_hash(OTHER)
DESCRIPTION: Final[dict[str, Any]] = {**CORPUS, "corpus_hash": HASH}


@cache
def signature(profile: Profile = "pq_pure", number: int = 1, of: str = HASH) -> bytes:
    return sign_corpus(of, node_key(profile, number))


def signed_description(profile: Profile = "pq_pure", number: int = 1, **changes: object) -> dict[str, Any]:
    """Describe the corpus as a provider with one of the fixed keys does."""
    key = node_key(profile, number)
    return {**DESCRIPTION, "signature": signature(profile, number), "signed_by": key.node_id, **changes}


@cache
def crafted(tbs: bytes, profile: Profile = "pq_pure", number: int = 1, label: str = LABEL) -> bytes:
    """Sign any bytes as the `tbs` of an object, which `sign_corpus` would not."""
    key: NodeKey = node_key(profile, number)
    signed = label.encode() + b"\0" + hashlib.sha384(key.public).digest() + tbs
    return cbor.encode({"key": key.public, "tbs": tbs, "signature": key.sign(signed)})


def saying(profile: Profile = "pq_pure", number: int = 1, label: str = LABEL, **fields: object) -> bytes:
    """Sign fields, an `alg` of any kind among them."""
    return crafted(cbor.encode({"alg": ALGORITHMS[profile], **fields}), profile, number, label)


def altered(data: bytes) -> bytes:
    """Change the last byte, which is one of the signature's."""
    return data[:-1] + bytes([data[-1] ^ 1])


def as_bytes(value: Any) -> Any:
    """Write every text, keys too, as an Erlang peer's byte strings."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return {as_bytes(key): as_bytes(item) for key, item in value.items()}
    return [as_bytes(item) for item in value] if isinstance(value, list) else value


_NAMES: Final = ("model", "dim", "repos", "corpus_hash", "signature", "signed_by", "id", "url", "branch", "commit", "hits", "content",
                 "provenance", "kind", "path", "repo_id", "content_sha256", "index_content")
_LEAVES: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(2**53 - 2, 2**53 + 2), st.floats(), st.text(max_size=8), st.binary(max_size=8),
    st.sampled_from(["corpus", "deposit", "a" * 40, HASH, HASH.upper(), "\ud800", b"\xff", 2**70, object(), {1, 2}, ALPHA, [ALPHA]]))
_KEYS: Final = st.one_of(st.sampled_from(_NAMES), st.sampled_from([name.encode() for name in _NAMES]), st.integers(0, 3), st.binary(max_size=2))

GARBAGE: Final = st.recursive(
    _LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=8)), max_leaves=10)


def deep(levels: int) -> Any:
    """Nest maps and lists in each other."""
    value: Any = []
    for _ in range(levels):
        value = {"repos": [value]}
    return value


def cyclic() -> dict[str, Any]:
    """Describe a corpus, and answer with hits, that hold themselves."""
    value: dict[str, Any] = dict(DESCRIPTION)
    value.update(repos=[value], hits=[value], provenance=value)
    return value


def damaged(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Exchange some of a map's values for garbage, or take keys out."""
    return st.fixed_dictionaries({name: st.one_of(st.just(value), GARBAGE) for name, value in whole.items()}).flatmap(
        lambda parts: st.sets(st.sampled_from(sorted(parts)), max_size=1).map(
            lambda gone: {name: value for name, value in parts.items() if name not in gone}))
