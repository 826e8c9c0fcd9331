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

from rag_stdlib.index.scan import DECIMALS, Scan

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Positions = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_UNIT: Final = 1_000_000
_BLOCK: Final = 64  # rows whose greatest score stands for them where a bound of the k-th best will do
_TIE: Final = 2e-9  # scores that are further apart differ in their decimals
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
        peak = max(int(millionths.max(initial=1)), -int(millionths.min(initial=-1)))
        if peak >= _INT32:  # the square of a single score would not fit: take Python's own whole numbers
            whole = millionths.tolist()
            return cls(len(scores) if count is None else count, sum(whole), sum(value * value for value in whole))
        step = max(1, _INT64 // (peak * peak))  # so many squares fit a 64-bit sum
        parts = [millionths[start:start + step] for start in range(0, len(millionths), step)]
        total, squares = sum(int(part.sum()) for part in parts), sum(int(np.einsum("i,i->", part, part)) for part in parts)
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
class Words:
    """BM25 of the chunks that hold a query word, by row, in no order, of `count` chunks in all.

    `positions` None: a score for every row, 0 where there is no query word.
    """

    positions: Positions | None
    scores: Floats
    count: int

    def by_row(self, rows: int) -> Floats:
        """Return a score for every row of so many."""
        if self.positions is None:
            return self.scores
        scores = np.zeros(rows)
        scores[self.positions] = self.scores
        return scores


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows with their final scores, unordered: all that can be among the best k, ties at the cut included.

    `lexical` and `vector` are the parts; NaN where a part has no score.
    """

    rows: Positions
    score: Floats
    lexical: Floats
    vector: Floats


def best_lexical(words: Words, allowed: Mask | None, k: int) -> Ranked:
    """Keep the best k of BM25 scores among the allowed rows, and all that tie with the last of them."""
    rows, scores = words.positions, words.scores
    if allowed is not None:
        passing = np.flatnonzero(allowed if rows is None else allowed[rows])
        rows, scores = passing if rows is None else rows[passing], scores[passing]
    near = _reaching(scores, k, _TIE)
    near = near[scores[near] > 0.0]
    rounded = scores[near].round(DECIMALS)
    keep = _reaching(rounded, k, 0.0)
    found = near[keep] if rows is None else rows[near[keep]]
    return Ranked(found, rounded[keep], rounded[keep], np.full(len(keep), np.nan))


def best_vector(scan: Scan, allowed: Positions | None, k: int) -> Ranked:
    """Keep the best k of the allowed rows by exact cosine, and all that tie with the last of them."""
    near = _near(scan.score, scan, allowed, k, 1.0)
    exact = scan.rescore(near)
    keep = _reaching(exact, k, 0.0)
    return Ranked(near[keep], exact[keep], np.full(len(keep), np.nan), exact[keep])


def best_hybrid(scan: Scan, live: Mask | None, allowed: Positions | None, words: Words, k: int) -> Ranked:
    """Keep the best k of the allowed rows by the sum of both standardised scores, and all ties with the last.

    `live` are the rows that count (None: all). The statistics are the whole collection's, whatever is allowed; a chunk
    without any query word has BM25 0.
    """
    by_vector = Moments.of(scan.score if live is None else scan.score[live])
    by_words = Moments.of(words.scores, words.count)
    scale = 1.0 / by_vector.deviation if by_vector.deviation else 0.0
    rough = scan.score * scale  # but for a constant, which decides nothing between rows
    lexical = words.by_row(len(rough))
    if by_words.deviation:
        rough += lexical * (1.0 / by_words.deviation)
    near = _near(rough, scan, allowed, k, scale)
    exact = scan.rescore(near)
    fused = (_standardised(exact, by_vector) + _standardised(lexical[near], by_words)).round(DECIMALS)
    keep = _reaching(fused, k, 0.0)
    rows = near[keep]
    parts = lexical[rows].round(DECIMALS)
    return Ranked(rows, fused[keep], np.where(lexical[rows] > 0.0, parts, np.nan), exact[keep])


def _standardised(scores: Floats, moments: Moments) -> Floats:
    deviation = moments.deviation
    return (scores - moments.mean) / deviation if deviation else np.zeros(len(scores))


def _near(rough: Floats, scan: Scan, allowed: Positions | None, k: int, scale: float) -> Positions:
    """Return the allowed rows that can be among the best k, where a rough score is off by the scan's bound times `scale`."""
    scores = rough if allowed is None else rough[allowed]
    near = _reaching(scores, k, 2.0 * scan.worst * scale + _TIE)
    rows = near if allowed is None else allowed[near]
    bound, scores = scan.bound(rows) * scale + _TIE, scores[near]
    lower, upper = scores - bound, scores + bound
    if len(rows) <= k:
        return rows
    near = np.flatnonzero(upper >= np.partition(lower, len(lower) - k)[len(lower) - k])
    return rows[near]


def _reaching(scores: Floats, k: int, slack: float) -> Positions:
    """Return the positions of all scores that reach the k-th greatest less `slack`, and maybe more; none that are -inf."""
    if len(scores) <= k:
        return np.flatnonzero(scores > -np.inf)
    blocks = len(scores) // _BLOCK
    tops = scores[:blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1) if slack and blocks >= 4 * k else scores
    least = np.partition(tops, len(tops) - k)[len(tops) - k] - slack
    return np.flatnonzero(scores >= least if least > -np.inf else scores > -np.inf)
