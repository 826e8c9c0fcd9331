"""From lexical and vector scores to one exact ranking.

Hybrid scores add up the two scores, each standardised over the whole collection: ``(score - mean) / deviation``, where a
chunk without any query word has BM25 0. The statistics (`rag_stdlib.index.collection.Moments`) come out the same in any order. A part
whose scores are all equal adds nothing. They are those of the index, or of the collection that it is a part of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rag_stdlib.index.collection import Moments
from rag_stdlib.index.scan import DECIMALS, Scan
from rag_stdlib.index.scratch import ROOM, ZEROS

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Positions = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_BLOCK: Final = 64  # rows whose greatest score stands for them where a bound of the k-th best will do
_GREATEST: Final = float(np.finfo(np.float64).max)
_TIE: Final = 2e-9  # scores that are further apart differ in their decimals


@dataclass(frozen=True, slots=True)
class Words:
    """BM25 of the chunks that hold a query word, by row, in no order, of `count` chunks in all.

    `positions` None: a score for every row, 0 where there is no query word.
    """

    positions: Positions | None
    scores: Floats
    count: int

    def add_to(self, sums: Floats, weight: float) -> None:
        """Add the weighted scores to the sums of all rows."""
        if self.positions is not None:
            np.add.at(sums, self.positions, self.scores * weight)
            return
        with ROOM.floats(len(sums)) as weighted:
            np.multiply(self.scores, weight, out=weighted)
            np.add(sums, weighted, out=sums)

    def at(self, rows: Positions, size: int) -> Floats:
        """Return the scores of some rows, of `size` in all."""
        if self.positions is None:
            return self.scores[rows]
        with ZEROS.floats(size) as by_row:
            by_row[self.positions] = self.scores
            found: Floats = by_row[rows]
            by_row[self.positions] = 0.0
        return found


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


def best_hybrid(scan: Scan, live: Mask | None, allowed: Positions | None, words: Words, k: int, by: tuple[Moments, Moments] | None = None) -> Ranked:
    """Keep the best k of the allowed rows by the sum of both standardised scores, and all ties with the last.

    `live` are the rows that count (None: all). The statistics are the whole collection's, whatever is allowed; a chunk
    without any query word has BM25 0. `by` are those of vectors and of words in a wider collection.
    """
    by_vector, by_words = by if by is not None else (vector_moments(scan, live), word_moments(words))
    scale = 1.0 / by_vector.deviation if by_vector.deviation else 0.0
    with ROOM.floats(len(scan.score)) as rough:  # but for a constant, which decides nothing between rows
        np.multiply(scan.score, scale, out=rough)
        if by_words.deviation:
            words.add_to(rough, 1.0 / by_words.deviation)
        near = _near(rough, scan, allowed, k, scale)
    lexical = words.at(near, len(scan.score))
    exact = scan.rescore(near)
    fused = (_standardised(exact, by_vector) + _standardised(lexical, by_words)).round(DECIMALS)
    keep = _reaching(fused, k, 0.0)
    lexical = lexical[keep]
    return Ranked(near[keep], fused[keep], np.where(lexical > 0.0, lexical.round(DECIMALS), np.nan), exact[keep])


def vector_moments(scan: Scan, live: Mask | None) -> Moments:
    """Sum up the scores by vectors of the rows that count (None: all)."""
    return Moments.of(scan.score if live is None else scan.score[live])


def word_moments(words: Words) -> Moments:
    """Sum up BM25 over all chunks."""
    return Moments.of(words.scores, words.count)


def _standardised(scores: Floats, moments: Moments) -> Floats:
    deviation = moments.deviation
    return (scores - moments.mean) / deviation if deviation else np.zeros(len(scores))


def _near(rough: Floats, scan: Scan, allowed: Positions | None, k: int, scale: float) -> Positions:
    """Return the allowed rows that can be among the best k, where a rough score is off by the scan's bound times `scale`."""
    scores = rough if allowed is None else rough[allowed]
    near = _reaching(scores, k, 2.0 * scan.worst * scale + _TIE)
    rows = near if allowed is None else allowed[near]
    if len(rows) <= k:
        return rows
    closer, bound = scan.closer(rows)
    scores, bound = scores[near] + (closer - scan.score[rows]) * scale, bound * scale + _TIE
    lower, upper = scores - bound, scores + bound
    near = np.flatnonzero(upper >= np.partition(lower, len(lower) - k)[len(lower) - k])
    return rows[near]


def _reaching(scores: Floats, k: int, slack: float) -> Positions:
    """Return the positions of all scores that reach the k-th greatest less `slack`, and maybe more; none that are -inf."""
    if len(scores) <= k:
        return np.flatnonzero(scores > -np.inf)
    blocks = len(scores) // _BLOCK
    if slack and blocks >= 4 * k:
        return _reaching_by_blocks(scores, blocks, k, slack)
    least = np.partition(scores, len(scores) - k)[len(scores) - k] - slack
    return np.flatnonzero(scores >= least if least > -np.inf else scores > -np.inf)


def _reaching_by_blocks(scores: Floats, blocks: int, k: int, slack: float) -> Positions:
    """Do so by the greatest score of each block: the k-th greatest of those is none above the k-th of all."""
    whole, rest = scores[:blocks * _BLOCK].reshape(blocks, _BLOCK), scores[blocks * _BLOCK:]
    tops = whole.max(axis=1)
    least = max(np.partition(tops, blocks - k)[blocks - k] - slack, -_GREATEST)
    high = np.flatnonzero(tops >= least)
    block, inside = np.nonzero(whole[high] >= least)
    return np.concatenate([high[block] * _BLOCK + inside, blocks * _BLOCK + np.flatnonzero(rest >= least)])
