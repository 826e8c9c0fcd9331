"""From the hits of many shards to one list, the same one in whatever order the shards answered.

A strategy orders the hits; then those with one text become one, and the best `top_k` stay. Scores of one embedding compare, so `BY_SCORE`
is for vector search, and so is `AS_ONE`, where the order of hits with one score is that of one index over all documents. BM25 scores of
different shards do not compare: each counts its own documents. `BY_RANK` goes by the place in each shard's own order and is for shards that
exchange no statistics; `ByStatistics` merges those that do as one index, and places the others by rank among them. The result of a
question names the strategy.

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
from rag_stdlib.mesh.procedures.shapes import MOST_ELSEWHERE


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


@dataclass(frozen=True, slots=True)
class AsOne:
    """Score descending, then document and place in it where hits name them, then node id, then hit id."""

    name: str = "score"

    def order(self, answers: Sequence[Answered]) -> list[Hit]:
        """Order all hits as one index over the documents of all shards does."""
        return sorted((hit for answer in answers for hit in answer.hits), key=_as_one)


@dataclass(frozen=True, slots=True)
class ByStatistics:
    """The shards of `scored`, whose scores are those of the whole collection, as one; every other one by rank beside them."""

    scored: frozenset[str]
    others: bool

    @property
    def name(self) -> str:
        """What is merged how."""
        return ("statistics and rank" if self.others else "statistics") if self.scored else BY_RANK.name

    def order(self, answers: Sequence[Answered]) -> list[Hit]:
        """Take the first of every order, then the second of every order, and so on."""
        orders = [AS_ONE.order([answer for answer in answers if answer.node in self.scored])]
        orders += [sorted(answer.hits, key=_by_score) for answer in answers if answer.node not in self.scored]
        placed = [(place, rank, hit) for rank, hits in enumerate(orders) for place, hit in enumerate(hits)]
        return [hit for *_, hit in sorted(placed, key=lambda triple: triple[:2])]


_MOST_COPIES: Final = 2**44  # that a shard can have left out; sums of those are whole numbers to everyone

BY_SCORE: Final = ByScore()
BY_RANK: Final = ByRank()
AS_ONE: Final = AsOne()


def merge(answers: Iterable[Answered], top_k: int, merger: Merger = BY_SCORE) -> list[Hit]:
    """Merge the answers of shards to the best `top_k` hits.

    Hits whose `content` is the same text are one hit, the first of them; the paths of the others stand in its `also_in`, sorted and
    without its own: the first 1,000, and `also_in_left_out` counts the rest. A text is known by its own SHA-256, whatever the hit says it
    is. All hits are looked at for copies, also those that come after the cut.
    """
    ordered = merger.order(sorted(answers, key=lambda answer: answer.node))
    hits: list[Hit] = []
    copies: list[list[Hit]] = []
    places: dict[str, int] = {}
    for hit in ordered:
        digest = text_digest(hit)
        if digest is not None and digest in places:
            copies[places[digest]].append(hit)
            continue
        if digest is not None:
            places[digest] = len(hits)
        hits.append(hit)
        copies.append([])
    return [_with_copies(hit, others) for hit, others in zip(hits[:top_k], copies[:top_k], strict=True)]


def _as_one(hit: Hit) -> tuple[Any, ...]:
    doc_id, ordinal = hit.get("doc_id"), hit.get("ordinal")
    named = isinstance(doc_id, str) and type(ordinal) is int
    return -hit["score"], *((0, doc_id, ordinal) if named else (1, "", 0)), hit["node_id"], hit["id"]


def _by_score(hit: Hit) -> tuple[Any, ...]:
    return -hit["score"], hit["node_id"], hit["id"]


def text_digest(hit: Hit) -> str | None:
    """Hash the text of a hit with SHA-256, as hex digits; None where it carries none."""
    content = hit.get("content")
    return hashlib.sha256(content.encode()).hexdigest() if isinstance(content, str) else None


def _with_copies(hit: Hit, others: Sequence[Hit]) -> Hit:
    paths = {path for other in others for path in (_path(other), *_also_in(other))}
    return also_in(hit, paths, sum(map(_left_out, others))) if others else hit


def also_in(hit: Hit, paths: Iterable[str], left_out: int = 0) -> Hit:
    """Return a hit whose text stands at these paths as well, and at `left_out` more that nobody named."""
    everywhere = sorted({*_also_in(hit), *paths} - {_path(hit)})
    unnamed = max(0, len(everywhere) - MOST_ELSEWHERE) + _left_out(hit) + left_out
    kept = {name: value for name, value in hit.items() if name not in ("also_in", "also_in_left_out")}
    return {**kept, **({"also_in": everywhere[:MOST_ELSEWHERE]} if everywhere else {}), **({"also_in_left_out": unnamed} if unnamed else {})}


def _path(hit: Hit) -> str:
    """Return where a hit's text stands: its path, or where it names none, its id."""
    path = hit.get("source_path")
    return path if isinstance(path, str) else str(hit["id"])


def _also_in(hit: Hit) -> list[str]:
    listed = hit.get("also_in")
    return [path for path in listed if isinstance(path, str)] if isinstance(listed, list) else []


def _left_out(hit: Hit) -> int:
    count = hit.get("also_in_left_out")
    return count if type(count) is int and 0 < count <= _MOST_COPIES else 0
