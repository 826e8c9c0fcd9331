"""From the hits of many shards to one list, the same one in whatever order the shards answered.

A strategy orders the hits; then those with one text become one, and the best `top_k` stay. Scores of one embedding compare, so `BY_SCORE`
is for vector search. BM25 scores of different shards do not: each counts its own documents. `BY_RANK` goes by the place in each shard's own
order and is for lexical shards that exchange no statistics. The result of a question names the strategy.

A strategy of one's own is a `Merger`. It finds what a shard sent beside its hits (`responder.Hits`) in `Answered.statistics`, and may give
hits another `score`. Shards that sent no statistics are for it to place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.payloads import Hit


class Merger(Protocol):
    """A strategy of merging."""

    @property
    def name(self) -> str:
        """What results call it."""

    def order(self, answers: Sequence[Answered]) -> list[Hit]:
        """Return all hits of the answers, best first; `answers` come by node id, and the result must depend on them alone."""


@dataclass(frozen=True, slots=True)
class ByScore:
    """Score descending, then node id, then hit id."""

    name: str = "score"

    def order(self, answers: Sequence[Answered]) -> list[Hit]:
        """Order all hits by their scores."""
        return sorted((hit for answer in answers for hit in answer.hits), key=_by_score)


@dataclass(frozen=True, slots=True)
class ByRank:
    """Place in the shard's own order by score, then node id, then hit id."""

    name: str = "rank"

    def order(self, answers: Sequence[Answered]) -> list[Hit]:
        """Take the first of every shard, then the second of every shard, and so on."""
        placed = [(place, hit) for answer in answers for place, hit in enumerate(sorted(answer.hits, key=_by_score))]
        return [hit for _, hit in sorted(placed, key=lambda pair: (pair[0], pair[1]["node_id"], pair[1]["id"]))]


BY_SCORE: Final = ByScore()
BY_RANK: Final = ByRank()


def merge(answers: Iterable[Answered], top_k: int, merger: Merger = BY_SCORE) -> list[Hit]:
    """Merge the answers of shards to the best `top_k` hits.

    Hits whose `content` is the same text are one hit, the first of them; the paths of the others stand in its `also_in`, in order and
    without its own. A text is known by its own SHA-256, whatever the hit says it is. All hits are looked at for copies, also those
    that come after the cut.
    """
    ordered = merger.order(sorted(answers, key=lambda answer: answer.node))
    hits: list[Hit] = []
    copies: list[list[Hit]] = []
    places: dict[bytes, int] = {}
    for hit in ordered:
        digest = _digest(hit)
        if digest is not None and digest in places:
            copies[places[digest]].append(hit)
            continue
        if digest is not None:
            places[digest] = len(hits)
        hits.append(hit)
        copies.append([])
    return [_with_copies(hit, others) for hit, others in zip(hits[:top_k], copies[:top_k], strict=True)]


def _by_score(hit: Hit) -> tuple[Any, ...]:
    return -hit["score"], hit["node_id"], hit["id"]


def _digest(hit: Hit) -> bytes | None:
    """Hash the text of a hit; None where it carries none."""
    content = hit.get("content")
    return hashlib.sha256(content.encode()).digest() if isinstance(content, str) else None


def _with_copies(hit: Hit, others: Sequence[Hit]) -> Hit:
    if not others:
        return hit
    paths = [*_also_in(hit)]
    for other in others:
        paths += [_path(other), *_also_in(other)]
    elsewhere = [path for path in dict.fromkeys(paths) if path != _path(hit)]
    kept = {name: value for name, value in hit.items() if name != "also_in"}
    return {**kept, "also_in": elsewhere} if elsewhere else kept


def _path(hit: Hit) -> str:
    """Return where a hit's text stands: its path, or where it names none, its id."""
    path = hit.get("source_path")
    return path if isinstance(path, str) else str(hit["id"])


def _also_in(hit: Hit) -> list[str]:
    listed = hit.get("also_in")
    return [path for path in listed if isinstance(path, str)] if isinstance(listed, list) else []
