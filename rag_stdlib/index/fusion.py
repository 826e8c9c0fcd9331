"""From lexical and vector scores to one exact ranking.

Hybrid scores add up the two scores, each standardised over the whole collection: ``(score - mean) / deviation``, where a
chunk without any query word has BM25 0. The statistics are counts, sums and sums of squares of scores rounded to
millionths, as whole numbers: they add up over shards and come out the same in any order. A part whose scores are all equal
adds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rag_stdlib.index.lexical import DECIMALS
from rag_stdlib.index.scan import Scan

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Seqs = npt.NDArray[np.int64]
    Positions = npt.NDArray[np.int64]

_UNIT: Final = 1_000_000
_INT32: Final = 2**31
_INT64: Final = 2**62


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares of scores in millionths; `+` merges collections."""

    count: int
    total: int
    squares: int

    def __add__(self, other: Moments) -> Moments:
        """Merge the statistics of two disjoint collections."""
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @classmethod
    def of(cls, scores: Floats, count: int | None = None) -> Moments:
        """Sum up `scores`; `count` adds chunks that are not listed and score 0."""
        millionths = np.rint(scores * _UNIT).astype(np.int64)
        peak = max(int(np.abs(millionths).max(initial=0)), 1)
        if peak >= _INT32:  # the square of a single score would not fit: take Python's own whole numbers
            millionths = millionths.astype(object)
        step = max(1, _INT64 // (peak * peak))  # so many squares fit a 64-bit sum
        parts = [millionths[start:start + step] for start in range(0, len(millionths), step)]
        total, squares = sum(int(part.sum()) for part in parts), sum(int(np.square(part).sum()) for part in parts)
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
class Ranked:
    """Chunks with their final scores, unordered: all that can be among the best k, ties at the cut included.

    `lexical` and `vector` are the parts; NaN where a part has no score.
    """

    seqs: Seqs
    score: Floats
    lexical: Floats
    vector: Floats


def best_lexical(seqs: Seqs, scores: Floats, k: int) -> Ranked:
    """Keep the best k of BM25 scores, and all that tie with the last of them."""
    keep = _at_least_kth(scores, scores, k)
    return Ranked(seqs[keep], scores[keep], scores[keep], np.full(len(keep), np.nan))


def best_vector(scan: Scan, allowed: Positions, k: int) -> Ranked:
    """Keep the best k of the allowed rows by exact cosine, and all that tie with the last of them."""
    score, bound = scan.score[allowed], scan.bound[allowed]
    near = allowed[_at_least_kth(score - bound, score + bound, k)]
    exact = scan.rescore(near)
    keep = _at_least_kth(exact, exact, k)
    return Ranked(scan.seqs[near[keep]], exact[keep], np.full(len(keep), np.nan), exact[keep])


def best_hybrid(scan: Scan, allowed: Positions, lexical: Floats, k: int) -> Ranked:
    """Keep the best k of the allowed rows by the sum of both standardised scores, and all ties with the last.

    `lexical` holds BM25 per row of the scan, 0 where no query word is in the chunk. The statistics are the whole
    collection's, whatever is allowed.
    """
    by_vector, by_words = Moments.of(scan.score), Moments.of(lexical)
    words = _standardised(lexical, by_words)
    spread = by_vector.deviation
    score = _standardised(scan.score, by_vector) + words
    bound = scan.bound / spread if spread else np.zeros(len(score))
    near = allowed[_at_least_kth((score - bound)[allowed], (score + bound)[allowed], k)]
    exact = scan.rescore(near)
    fused = (_standardised(exact, by_vector) + words[near]).round(DECIMALS)
    keep = _at_least_kth(fused, fused, k)
    rows = near[keep]
    return Ranked(scan.seqs[rows], fused[keep], np.where(lexical[rows] > 0.0, lexical[rows], np.nan), exact[keep])


def _standardised(scores: Floats, moments: Moments) -> Floats:
    deviation = moments.deviation
    return (scores - moments.mean) / deviation if deviation else np.zeros(len(scores))


def _at_least_kth(lower: Floats, upper: Floats, k: int) -> Positions:
    """Return the positions whose upper bound reaches the k-th largest lower bound."""
    if len(lower) <= k:
        return np.arange(len(lower))
    kth = np.partition(lower, len(lower) - k)[len(lower) - k]
    return np.flatnonzero(upper >= kth)
