"""What federated nodes tell and ask each other (RAG service contract §4.3), made here and read from peers of any make.

A peer may write its strings as text or as byte strings, and its keys in either form; further keys are ignored. Whatever has not the shape
of a payload is malformed, and its reader returns None for it: nothing that comes over the mesh raises here.

A query is the asking node's own map and goes as it is, keys as text. So do a shard's hits; only the fields that the RAG service contract
defines as text are made text, so that one text from two peers is one text. An answer may also carry `statistics`, a map that the
strategies of `rag_stdlib.mesh.federation.merging` may use; a peer that does not know them neither sends nor reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_stdlib.contract import loose

Hit: TypeAlias = "dict[str, Any]"

_TEXTS: Final = ("id", "chunk_id", "content", "source_path")


@dataclass(frozen=True, slots=True)
class Embedding:
    """What the vectors of an index are of; scores compare only where both parts are equal."""

    model: str
    dim: int

    def __str__(self) -> str:
        """Write it for people."""
        return f"{self.model} of dimension {self.dim}"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a shard says about itself. `bloom` is opaque here; `at_ms` is the publisher's own clock, in milliseconds since 1970."""

    shard_id: str
    embedding: Embedding
    topics: tuple[str, ...]
    bloom: bytes
    at_ms: int

    def payload(self) -> dict[str, object]:
        """Give the fact ``shard_summarized_v1``."""
        return {"shard_id": self.shard_id, **_flat(self.embedding), "topics": list(self.topics), "bloom": self.bloom, "at_ms": self.at_ms}


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A shard takes leave."""

    shard_id: str
    at_ms: int

    def payload(self) -> dict[str, object]:
        """Give the fact ``shard_withdrawn_v1``."""
        return {"shard_id": self.shard_id, "at_ms": self.at_ms}


@dataclass(frozen=True, slots=True)
class ShardQuery:
    """A question to one shard: the asking node's map, how many hits, and the embedding of the node that asks."""

    query: Mapping[str, object]
    top_k: int
    embedding: Embedding

    def payload(self) -> dict[str, object]:
        """Give the payload of the call."""
        return {"query": dict(self.query), "top_k": self.top_k, **_flat(self.embedding)}


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """The answer of one shard; each hit has a text `id` and a number `score`."""

    shard_id: str
    embedding: Embedding
    hits: tuple[Hit, ...]
    statistics: Mapping[str, Any] | None = None

    def payload(self) -> dict[str, object]:
        """Give the payload of the reply; `statistics` stand in it only where there are any."""
        more = {} if self.statistics is None else {"statistics": dict(self.statistics)}
        return {"shard_id": self.shard_id, **_flat(self.embedding), "hits": list(self.hits), **more}


def read_summary(value: object) -> Summary | None:
    """Read the fact ``shard_summarized_v1``; None where it is malformed."""
    fields = _fields(value)
    shard_id, embedding, at_ms = loose.text(fields.get("shard_id")), _embedding(fields), fields.get("at_ms")
    topics, bloom = _texts(fields.get("topics")), fields.get("bloom")
    if shard_id is None or embedding is None or topics is None or not isinstance(bloom, bytes) or type(at_ms) is not int:
        return None
    return Summary(shard_id, embedding, topics, bloom, at_ms)


def read_withdrawn(value: object) -> Withdrawn | None:
    """Read the fact ``shard_withdrawn_v1``; None where it is malformed."""
    fields = _fields(value)
    shard_id, at_ms = loose.text(fields.get("shard_id")), fields.get("at_ms")
    return None if shard_id is None or type(at_ms) is not int else Withdrawn(shard_id, at_ms)


def read_query(value: object) -> ShardQuery | None:
    """Read the payload of a call; None where it is malformed."""
    fields = _fields(value)
    query, top_k, embedding = fields.get("query"), fields.get("top_k"), _embedding(fields)
    if not isinstance(query, dict) or type(top_k) is not int or top_k < 1 or embedding is None:
        return None
    return ShardQuery(query, top_k, embedding)


def read_answer(value: object) -> ShardAnswer | None:
    """Read the reply of a shard; None where it is malformed, be it in a single hit. Statistics that are no map are as none."""
    fields = _fields(value)
    shard_id, embedding, listed = loose.text(fields.get("shard_id")), _embedding(fields), fields.get("hits")
    if shard_id is None or embedding is None or not isinstance(listed, list) or not all(map(valid_hit, listed)):
        return None
    statistics = fields.get("statistics")
    return ShardAnswer(shard_id, embedding, tuple(map(_hit, listed)), statistics if isinstance(statistics, dict) else None)


def valid_hit(value: object) -> bool:
    """Tell whether a value is a hit: a map with a text `id` and a finite number `score`; strings and keys may be bytes."""
    score = loose.field(value, "score")
    is_number = type(score) is int or (type(score) is float and math.isfinite(score))
    return is_number and loose.text(loose.field(value, "id")) is not None


def query_topics(query: Mapping[str, object]) -> tuple[str, ...]:
    """Return the topics that a query asks for, as §1.4 has them: a list of texts in its field `topics`; none where it is no such list."""
    return _texts(query.get("topics")) or ()


def _flat(embedding: Embedding) -> dict[str, object]:
    return {"model": embedding.model, "dim": embedding.dim}


def _fields(value: object) -> dict[str, Any]:
    loosened = loose.loosened(value)
    return loosened if isinstance(loosened, dict) else {}


def _embedding(fields: Mapping[str, object]) -> Embedding | None:
    model, dim = loose.text(fields.get("model")), fields.get("dim")
    return Embedding(model, dim) if model is not None and type(dim) is int and dim > 0 else None


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    texts = tuple(text for text in map(loose.text, value) if text is not None)
    return texts if len(texts) == len(value) else None


def _hit(value: Hit) -> Hit:
    """Write as text what the contract has as text: identity, content, path, the strings of a provenance, and the paths of `also_in`."""
    hit = dict(value)
    hit.update((name, _as_text(value[name])) for name in _TEXTS if name in value)
    if isinstance(hit.get("provenance"), dict):
        hit["provenance"] = {name: _as_text(part) for name, part in hit["provenance"].items()}
    if isinstance(hit.get("also_in"), list):
        hit["also_in"] = [_as_text(path) for path in hit["also_in"]]
    return hit


def _as_text(value: object) -> object:
    text = loose.text(value)
    return value if text is None else text
