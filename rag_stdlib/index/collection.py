"""Statistics of a collection of chunks, as whole numbers that add up over indexes.

An index can be searched as a part of a wider collection: scores are then those that one index over all chunks would give, to the last
bit. BM25 takes a `Collection`; a hybrid score also takes the `Moments` of the scores by vectors and by words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_UNIT: Final = 1_000_000
_INT64: Final = 2**62
_PIECE: Final = 16_384  # scores summed up at once: they stay in the second-level cache from one step to the next


@dataclass(frozen=True, slots=True)
class Collection:
    """How many chunks there are, how many terms they have together, and how many chunks hold each term of a query, in its order."""

    chunks: int
    terms: int
    holding: tuple[int, ...]

    def __add__(self, other: Collection) -> Collection:
        """Add up two disjoint collections, for one query."""
        both = zip(self.holding, other.holding, strict=True)
        return Collection(self.chunks + other.chunks, self.terms + other.terms, tuple(one + two for one, two in both))


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares of scores, each rounded to millionths: the same in any order; `+` merges collections."""

    count: int
    total: int
    squares: int

    def __add__(self, other: Moments) -> Moments:
        """Merge the statistics of two disjoint collections."""
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @classmethod
    def of(cls, scores: Floats, count: int | None = None) -> Moments:
        """Sum up `scores`; `count` adds chunks that are not listed and score 0."""
        total = squares = 0
        for start in range(0, len(scores), _PIECE):
            millionths = np.rint(scores[start:start + _PIECE] * _UNIT).astype(np.int64)
            total, squares = total + int(millionths.sum()), squares + _squares(millionths)
        return cls(len(scores) if count is None else count, total, squares)

    @property
    def mean(self) -> float:
        """The mean score."""
        return self.total / (self.count * _UNIT) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation over the collection (population); 0 where all scores are equal."""
        if not self.count:
            return 0.0
        variance = self.count * self.squares - self.total * self.total  # exact, times count² · unit²
        return math.sqrt(variance) / (self.count * _UNIT) if variance > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Wider:
    """The collection that an index is searched as a part of: what BM25 needs, and for a hybrid search the moments by vectors and by words."""

    words: Collection
    moments: tuple[Moments, Moments] | None = None


def _squares(numbers: npt.NDArray[np.int64]) -> int:
    """Sum up the squares of whole numbers, as many at once as fit 64 bits."""
    peak = max(int(numbers.max()), -int(numbers.min()), 1)
    step = _INT64 // (peak * peak)
    if not step:  # not even one fits
        return sum(number * number for number in numbers.tolist())
    parts = (numbers[start:start + step] for start in range(0, len(numbers), step))
    return sum(int(np.einsum("i,i->", part, part)) for part in parts)
