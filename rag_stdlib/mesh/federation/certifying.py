"""What a certificate says of a search over shards: who answered, who did not and why, and what they found (docs/certificate.md).

`retriever` makes of it what a pipeline retrieves by. A question to a federation is a call that a session records, so that a recorded run can be
certified again without the mesh.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.mesh.errors import CallError
from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.payloads import Embedding, Hit
from rag_stdlib.mesh.federation.query import TOP_K, FederatedAnswer
from rag_stdlib.mesh.federation.searching import search
from rag_stdlib.proof.certificate import MOST_SCORE, Item, Retrieval, SearchedIndex
from rag_stdlib.proof.forms import Members, Text, Whole
from rag_stdlib.proof.provenance import fitting
from rag_stdlib.proof.recording import recorded
from rag_stdlib.records import Mode

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.shard import Federation
    from rag_stdlib.proof.pipeline import Retrieve

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_SHARD_CHARS: Final = 200
_REASON_CHARS: Final = 100
_PLACED: Final = Members({"id": Text(1, 4_096), "doc_id": Text(1, 4_096), "source_path": Text(0, 4_096), "content": Text(), "start_char": Whole(), "end_char": Whole()})


class SearchFailed(CallError):  # noqa: N818 - the family's way of naming
    """A question to a federation that came to nothing, now or when it was recorded; `name` and the words are those of its failure."""

    def __init__(self, name: str, words: str) -> None:
        """Keep both."""
        super().__init__(name, words)
        self.name = name
        self.words = words

    def __str__(self) -> str:
        """Give the words."""
        return self.words


def retriever(ask: Callable[[str], Retrieval], *asked: Any) -> Retrieve:  # noqa: ANN401 - JSON
    """Make what a pipeline retrieves by of a question to a federation.

    Args:
        ask: Asks; `certified_search`, say, run to its end. A replay does not call it.
        asked: What else than the question tells one call from another, as JSON: the limit, the mode as it was given, topics.

    Returns:
        A `Retrieve`. It raises `SearchFailed` for whatever of the family `CallError` `ask` fails with, and a `Failure` of `ask` as it is.
    """
    def retrieve(question: str) -> Retrieval:
        told = recorded("rag_federated_search", [question, *asked], lambda: _told(ask, question))
        if "error" in told:
            raise SearchFailed(told["error"], told["words"])
        return _read(told)

    return retrieve


async def certified_search(federation: Federation, text: str, *, mode: Mode, vector: Sequence[float] | None = None, topics: Sequence[str] = (),
                           top_k: int = TOP_K, timeout_ms: int | None = None) -> Retrieval:
    """Search all shards as `rag_stdlib.mesh.federation.searching.search` does, and return what is certified of it.

    Raises:
        CallError: As `search`.
    """
    found = await search(federation, text, mode=mode, vector=vector, topics=topics, top_k=top_k, timeout_ms=timeout_ms)
    named = (topics,) if isinstance(topics, str) else topics
    return retrieval_of(found, mode=mode, limit=top_k, embedding=federation.place.settings.embedding, topics=named)


def retrieval_of(answer: FederatedAnswer, *, mode: Mode, limit: int, embedding: Embedding, topics: Sequence[str] = ()) -> Retrieval:
    """Give what is certified of an answer of shards.

    Hits that do not say where in which document they stand, as those of peers of another make, are no evidence and are left out, and so is what
    a certificate has no room for: a place, an id or a score beyond its form, and a second hit of one shard under one id.

    Args:
        answer: What `rag_stdlib.mesh.federation.searching.search` returned.
        mode: How it searched.
        limit: How many hits it was asked for.
        embedding: What the vectors are of.
        topics: Which it asked for.
    """
    places = {answered.node: place for place, answered in enumerate(answer.answered)}
    return Retrieval(
        mode, limit, tuple(_items(answer.hits[:limit], places)), tuple(map(_index, answer.answered)),
        None if mode == "lexical" else (embedding.model, embedding.dim), None, answer.merged_by,
        tuple((failed.node, _reason(failed.reason.name)) for failed in answer.failed), tuple((passed.node, passed.reason) for passed in answer.not_asked), tuple(topics))


def _index(answered: Answered) -> SearchedIndex:
    content = (answered.statistics or {}).get("content")
    known = isinstance(content, str) and _DIGEST.fullmatch(content) is not None
    return SearchedIndex(content if known else None, answered.node, answered.shard_id[:_SHARD_CHARS])


def _reason(name: str) -> str:
    """Fit a reason to its form; it may be a word that a peer chose."""
    return name[:_REASON_CHARS] or CallError.name


def _items(hits: Iterable[Hit], places: Mapping[str, int]) -> Iterator[Item]:
    seen: set[tuple[int, str]] = set()
    for hit in hits:
        item = _item(hit, places)
        if item is not None and (item.index, item.chunk_id) not in seen:
            seen.add((item.index, item.chunk_id))
            yield item


def _item(hit: Hit, places: Mapping[str, int]) -> Item | None:
    placed = {name: hit.get(name) for name in _PLACED.always}
    if _PLACED.departs(placed) is not None or not abs(hit["score"]) < MOST_SCORE:
        return None
    text, start, end = hit["content"], hit["start_char"], hit["end_char"]
    if end - start != len(text):
        return None
    return Item(hit["id"], hit["doc_id"], hit["source_path"], start, end, text, float(hit["score"]), places[hit["node_id"]], fitting(hit.get("provenance")))


def _told(ask: Callable[[str], Retrieval], question: str) -> dict[str, Any]:
    """Ask, and write what came of it as JSON."""
    try:
        found = asdict(ask(question))
    except CallError as error:
        return {"error": error.name, "words": str(error).removeprefix(f"{error.name}: ")}
    written: dict[str, Any] = json.loads(json.dumps(found))  # which makes lists of tuples
    return written


def _read(told: Mapping[str, Any]) -> Retrieval:
    """Read what `_told` wrote."""
    pairs = {name: tuple((node, reason) for node, reason in told[name]) for name in ("failed", "not_asked")}
    items, indexes = (tuple(kind(**each) for each in told[name]) for name, kind in (("items", Item), ("indexes", SearchedIndex)))
    embedder = None if told["embedder"] is None else tuple(told["embedder"])
    return Retrieval(**{**told, **pairs, "items": items, "indexes": indexes, "embedder": embedder, "topics": tuple(told["topics"])})
