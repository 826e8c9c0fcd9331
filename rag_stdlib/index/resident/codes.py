"""The int8 codes of an index's vectors, in memory, a row each; of a small index the float vectors too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from rag_stdlib.index import quantize, vecread
from rag_stdlib.index.quantize import Asked, Codes

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix
    from rag_stdlib.index.resident.rows import Rows

    Positions = npt.NDArray[np.int64]

SEGMENT: Final = 16_384  # rows; the scores of a segment stay in the second-level cache from one step to the next
FLOAT_BYTES: Final = 32 * 1024 * 1024  # up to here float vectors are kept too; of more, those to rescore are read from the file
_PER_ROW: Final = 28  # bytes beside the code: scale, shift, error, seq


def size(rows: int, dim: int, *, signs: bool = False) -> int:
    """Return about how many bytes the codes of so many rows take, and their signs."""
    floats = rows * dim * 4
    return rows * (dim + _PER_ROW + (-(-dim // 8) if signs else 0)) + (floats if floats <= FLOAT_BYTES else 0)


@dataclass(frozen=True, slots=True)
class ResidentCodes:
    """Codes of rows 0 to `count`, in segments with room for more; `worst` is the largest error among them.

    Later codes go into the free room of the last segment, which no earlier object looks at. Only the latest may be added to.
    """

    dim: int
    segments: tuple[Codes, ...]
    floats: tuple[Matrix, ...] | None
    count: int
    worst: float

    @classmethod
    def none(cls, dim: int, *, floats: bool) -> ResidentCodes:
        """Begin without rows; `floats` keeps the vectors themselves too."""
        return cls(dim, (), () if floats else None, 0, 0.0)

    @classmethod
    def read(cls, connection: apsw.Connection, dim: int, rows: Rows) -> ResidentCodes:
        """Read and quantise the vectors of all rows, none of which is gone.

        Raises:
            apsw.CorruptError: vectors of other chunks, or damaged ones.
        """
        floats = len(rows) * dim * 4 <= FLOAT_BYTES
        segments = tuple(quantize.empty(SEGMENT, dim) for _ in range(-(-len(rows) // SEGMENT)))
        kept = tuple(np.empty((SEGMENT, dim), np.float32) for _ in segments) if floats else None
        filled, worst = np.zeros(len(rows), np.bool_), 0.0
        count = 0
        for seqs, matrix in vecread.slabs(connection, dim):
            at = rows.positions(seqs)
            if not np.array_equal(rows.seqs.take(at, mode="clip"), seqs):
                raise apsw.CorruptError("vectors are stored that belong to no chunk")
            with vecread.damage():
                worst = max(worst, _encode(segments, kept, at, matrix))
            filled[at] = True
            count += len(seqs)
        if count != len(rows) or not filled.all():
            raise apsw.CorruptError("a chunk has no vector, or more than one")
        return cls(dim, segments, kept, count, worst)

    def appended(self, matrix: Matrix) -> ResidentCodes:
        """Return codes with these vectors as further rows."""
        segments, floats = self.segments, self.floats
        if floats is not None and (self.count + len(matrix)) * self.dim * 4 > FLOAT_BYTES:
            floats = None
        more = -(-(self.count + len(matrix)) // SEGMENT) - len(segments)
        segments += tuple(quantize.empty(SEGMENT, self.dim) for _ in range(more))
        if floats is not None:
            floats += tuple(np.empty((SEGMENT, self.dim), np.float32) for _ in range(more))
        with vecread.damage():
            worst = _encode(segments, floats, np.arange(self.count, self.count + len(matrix)), matrix)
        return ResidentCodes(self.dim, segments, floats, self.count + len(matrix), max(self.worst, worst))

    def only(self, positions: Positions) -> ResidentCodes:
        """Return the codes of some rows, ascending, in new segments."""
        made = ResidentCodes.none(self.dim, floats=self.floats is not None)
        room = -(-len(positions) // SEGMENT)
        segments = tuple(quantize.empty(SEGMENT, self.dim) for _ in range(room))
        kept = None if self.floats is None else tuple(np.empty((SEGMENT, self.dim), np.float32) for _ in range(room))
        for start in range(0, len(positions), SEGMENT):
            some = positions[start:start + SEGMENT]
            _store(segments, kept, np.arange(start, start + len(some)), self.at(some),
                   None if self.floats is None else self.vectors(some))
        return ResidentCodes(made.dim, segments, kept, len(positions), self.worst)

    def score(self, asked: Sequence[Asked], scores: npt.NDArray[np.float64]) -> None:
        """Write the approximate scores of every row for each query to `scores`, of shape (queries, count)."""
        if len(asked) == 1:
            for start, codes in self.parts():
                asked[0].score(codes, scores[0, start:start + len(codes)])
            return
        for start, codes in self.parts(8):
            quantize.score_many(asked, codes, scores[:, start:start + len(codes)])

    def at(self, positions: Positions) -> Codes:
        """Copy the codes of some rows."""
        found = quantize.empty(len(positions), self.dim)
        for place, segment, inside in self._by_segment(positions):
            codes = self.segments[segment].at(inside)
            found.code[place], found.scale[place] = codes.code, codes.scale
            found.shifted[place], found.error[place] = codes.shifted, codes.error
        return found

    def vectors(self, positions: Positions) -> Matrix:
        """Copy the float vectors of some rows, where they are kept."""
        found = np.empty((len(positions), self.dim), np.float32)
        for place, segment, inside in self._by_segment(positions):
            found[place] = self.floats[segment][inside]  # type: ignore[index] # asked only where they are kept
        return found

    def parts(self, pieces: int = 1) -> Iterator[tuple[int, Codes]]:
        """Give the codes, each segment in so many pieces, which divide it evenly, each with its first row."""
        step = SEGMENT // pieces
        for start in range(0, self.count, step):
            segment, inside = divmod(start, SEGMENT)
            yield start, self.segments[segment].take(inside, inside + min(step, self.count - start))

    def _by_segment(self, positions: Positions) -> Iterator[tuple[npt.NDArray[np.intp], int, Positions]]:
        if len(self.segments) == 1:
            yield np.arange(len(positions)), 0, positions
            return
        segments = positions // SEGMENT
        for segment in np.unique(segments).tolist():
            place = np.flatnonzero(segments == segment)
            yield place, segment, positions[place] - segment * SEGMENT


def _encode(segments: tuple[Codes, ...], floats: tuple[Matrix, ...] | None, at: Positions, matrix: Matrix) -> float:
    """Quantise vectors into their places, mostly one after the other; return the largest error."""
    start = int(at[0]) if len(at) else 0
    segment, inside = divmod(start, SEGMENT)
    if len(at) and inside + len(at) <= SEGMENT and np.array_equal(at, np.arange(start, start + len(at))):
        codes = segments[segment].take(inside, inside + len(at))
        quantize.encode_into(codes, matrix)
        if floats is not None:
            floats[segment][inside:inside + len(at)] = matrix
    else:
        codes = quantize.encode(matrix)
        _store(segments, floats, at, codes, matrix)
    return float(codes.error.max(initial=0.0))


def _store(segments: tuple[Codes, ...], floats: tuple[Matrix, ...] | None, at: Positions, codes: Codes, matrix: Matrix | None) -> None:
    """Put the codes of some rows in their places, and their vectors where those are kept."""
    for segment in np.unique(at // SEGMENT).tolist():
        which = np.flatnonzero(at // SEGMENT == segment)
        inside = at[which] - segment * SEGMENT
        into = segments[segment]
        into.code[inside], into.scale[inside] = codes.code[which], codes.scale[which]
        into.shifted[inside], into.error[inside] = codes.shifted[which], codes.error[which]
        if floats is not None and matrix is not None:
            floats[segment][inside] = matrix[which]
