"""The signs of codes, a bit for each dimension: what an approximate search looks at first.

Vectors that agree in more signs have, on the whole, the larger product. A search by signs reads an eighth of what the codes
take and picks the rows that agree most; those are scored as in an exact search. What it misses, it misses without a word: it
is an option, never the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rag_stdlib.index.quantize import SHIFT, Asked

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.index.resident.codes import ResidentCodes
    from rag_stdlib.index.resident.rows import Mask

    Bits = npt.NDArray[np.uint8]
    Positions = npt.NDArray[np.int64]

_LEAST: Final = 512  # rows picked for a search of one hit
_PER_HIT: Final = 64  # and for each further one


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of rows 0 to `count`, one array a segment of codes, each of shape (rows, dim / 8 rounded up)."""

    segments: tuple[Bits, ...]
    count: int

    @classmethod
    def of(cls, codes: ResidentCodes, before: Signs | None = None) -> Signs:
        """Take the signs of codes; those of full segments are taken over from `before`, which is of the same rows when they were fewer."""
        segments: list[Bits] = []
        for place, (_, part) in enumerate(codes.parts()):
            old = before.segments[place] if before is not None and place < len(before.segments) else None
            fits = old is not None and len(old) == len(part)
            segments.append(old if old is not None and fits else np.packbits(part.code > SHIFT, axis=1))
        return cls(tuple(segments), codes.count)

    def nearest(self, asked: Asked, limit: int, passing: Mask | None) -> Positions:
        """Return the rows that agree with a query in most signs, ascending: enough for `limit` hits; only those that pass the mask."""
        query = np.packbits(asked.code > SHIFT, axis=1)
        apart = np.concatenate([np.empty(0, np.uint16), *(_differing(query, bits) for bits in self.segments)])
        if passing is not None:
            apart[~passing] = np.iinfo(np.uint16).max
        wanted = min(_LEAST + _PER_HIT * limit, len(apart))
        picked = np.argpartition(apart, wanted - 1)[:wanted] if wanted < len(apart) else np.arange(len(apart))
        return np.sort(picked if passing is None else picked[passing[picked]])


def _differing(query: Bits, bits: Bits) -> npt.NDArray[np.uint16]:
    """Count the bits in which each row differs from the query."""
    try:
        import simsimd
    except ImportError:
        counted: npt.NDArray[np.uint16] = np.unpackbits(bits ^ query, axis=1).sum(axis=1, dtype=np.uint16)
        return counted
    found: Any = simsimd.cdist(query, bits, "hamming", dtype="bin8", out_dtype="float64")
    return np.asarray(found).reshape(-1).astype(np.uint16)
