"""How one ranked list became another: which items moved, got another score, went, and came.

Ranks count from 1. An item that stands in a list twice is two places: the first in one list is held against the first in
the other, the second against the second.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Score: TypeAlias = "float | None"
Ranked: TypeAlias = tuple[tuple[str, Score], ...]


@dataclass(frozen=True, slots=True)
class Move:
    """An item of both lists: its ranks, and its scores where there are any."""

    item: str
    was: int
    now: int
    was_score: Score
    now_score: Score

    @property
    def moved(self) -> bool:
        """Whether the rank is another."""
        return self.was != self.now

    @property
    def rescored(self) -> bool:
        """Whether the score is another."""
        return self.was_score != self.now_score


@dataclass(frozen=True, slots=True)
class Place:
    """An item of one of the lists only."""

    item: str
    rank: int
    score: Score


@dataclass(frozen=True, slots=True)
class Shift:
    """Two ranked lists held against each other: items of both by their present rank, those that went, those that came."""

    kept: tuple[Move, ...]
    gone: tuple[Place, ...]
    new: tuple[Place, ...]

    @classmethod
    def between(cls, was: Ranked, now: Ranked) -> Shift:
        """Compare two lists, best first."""
        places: defaultdict[str, deque[Place]] = defaultdict(deque)
        for place in _places(was):
            places[place.item].append(place)
        kept: list[Move] = []
        new: list[Place] = []
        for place in _places(now):
            if places[place.item]:
                old = places[place.item].popleft()
                kept.append(Move(place.item, old.rank, place.rank, old.score, place.score))
            else:
                new.append(place)
        gone = sorted((place for left in places.values() for place in left), key=lambda place: place.rank)
        return cls(tuple(kept), tuple(gone), tuple(new))

    @property
    def changed(self) -> tuple[Move, ...]:
        """The items of both lists whose rank or score is another."""
        return tuple(move for move in self.kept if move.moved or move.rescored)

    def counts(self) -> dict[str, int]:
        """Count the items that moved, kept their rank at another score, went and came."""
        moved = sum(move.moved for move in self.kept)
        return {"moved": moved, "rescored": len(self.changed) - moved, "gone": len(self.gone), "new": len(self.new)}


def _places(ranked: Ranked) -> Iterable[Place]:
    return (Place(item, rank, score) for rank, (item, score) in enumerate(ranked, 1))
