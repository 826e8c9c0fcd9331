"""One query against all vectors: approximate scores with proven bounds, and exact ones for the rows that could be an answer.

The scores come from int8 codes in memory or, where there are none, from the file in one pass. Every row whose bound could put
it into the answer is scored again in float64, so the result is the float ranking itself, whichever way it came about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from rag_stdlib.index import quantize, vecread
from rag_stdlib.index.quantize import SLACK, Asked

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix
    from rag_stdlib.index.resident.cache import State

    Floats = npt.NDArray[np.float64]
    Seqs = npt.NDArray[np.int64]
    Positions = npt.NDArray[np.int64]

DECIMALS: Final = 9  # of every score that leaves the index
_PART: Final = 8_192  # rows scored exactly at once
_ROUNDING: Final = 2.0**-24  # of one float32 operation


def exact_scores(rows: Matrix, query: npt.NDArray[np.float32]) -> Floats:
    """Score rows against the query: THE function every final vector score comes from.

    Products of float32 are exact in float64; each row is summed by itself, so a score does not depend on the other rows.
    """
    products = rows.astype(np.float64) * query.astype(np.float64)
    scores: Floats = np.clip(products.sum(axis=1), -1.0, 1.0).round(DECIMALS)
    return scores


@dataclass(frozen=True, slots=True)
class Scan:
    """Approximate scores, one a row, at most `worst` from the true ones.

    `closer` gives closer scores of the rows at positions, and how far each can lie from the true one. `rows` gives the float
    rows at positions, from memory or from the file.
    """

    query: npt.NDArray[np.float32]
    score: Floats
    worst: float
    closer: Callable[[Positions], tuple[Floats, Floats]]
    rows: Callable[[Positions], Matrix]

    def rescore(self, positions: Positions) -> Floats:
        """Return the exact scores at the given positions, a part at a time: where many are equally good, all of them come here."""
        parts = [exact_scores(self.rows(positions[start:start + _PART]), self.query) for start in range(0, len(positions), _PART)]
        return np.concatenate(parts) if parts else np.empty(0)


def of_state(connection: apsw.Connection, state: State, asked: Asked, score: Floats) -> Scan:
    """Scan the codes in memory; `score` are their approximate scores."""
    codes = state.codes
    assert codes is not None  # noqa: S101 - asked for when the state was
    worst = float(asked.bound(np.array([codes.worst], np.float32))[0])

    def rows(positions: Positions) -> Matrix:
        if codes.floats is not None:
            return codes.vectors(positions)
        return vecread.pick(connection, state.rows.seqs[positions], codes.dim)

    return Scan(asked.vector, score, worst, lambda positions: asked.closer(codes.at(positions)), rows)


def of_some(connection: apsw.Connection, state: State, asked: Asked, allowed: Positions) -> Scan:
    """Scan some rows only, in memory; positions count among them."""
    codes = state.codes
    assert codes is not None  # noqa: S101 - asked for when the state was
    some = codes.at(allowed)
    score = np.empty(len(allowed))
    asked.score(some, score)
    worst = float(asked.bound(some.error).max(initial=0.0))
    return Scan(asked.vector, score, worst, lambda positions: asked.closer(some.at(positions)),
                lambda positions: vecread.pick(connection, state.rows.seqs[allowed[positions]], codes.dim))


def _finite(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(scores).all():
        raise apsw.CorruptError("a vector holds what is no finite number")
    return scores


def of_file(connection: apsw.Connection, asked: Asked, *, by_codes: bool) -> tuple[Seqs, Scan]:
    """Scan the vectors in the file, block by block: the seq of each row, ascending, and the scan.

    With `by_codes`, scores are those that codes in memory would give, as sums over all of them are to be the same; else they
    are float32 sums, which costs less.
    """
    dim = len(asked.vector)
    seqs, scores, bounds = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    for some, matrix in vecread.slabs(connection, dim):
        score = np.empty(len(some))
        if by_codes:
            with vecread.damage():
                codes = quantize.encode(matrix)
            asked.score(codes, score)
            bounds.append(asked.bound(codes.error))
        else:
            score[:] = _finite(np.einsum("ij,j->i", matrix, asked.vector))
        seqs.append(some.copy())
        scores.append(score)
    found, score = np.concatenate(seqs), np.concatenate(scores)
    bound = np.concatenate(bounds) if by_codes else np.broadcast_to((dim + 2) * _ROUNDING + SLACK, len(found))
    if (np.diff(found) <= 0).any():
        order = np.argsort(found)
        found, score, bound = found[order], score[order], bound[order]
        if (np.diff(found) == 0).any():
            raise apsw.CorruptError("a chunk has more than one vector")
    return found, Scan(asked.vector, score, float(bound.max(initial=0.0)), lambda positions: (score[positions], bound[positions]),
                       lambda positions: vecread.pick(connection, found[positions], dim))
