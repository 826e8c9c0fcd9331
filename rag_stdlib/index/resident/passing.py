"""Which rows pass a filter, kept for the next search with the same one: programs tend to ask with few different filters."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from rag_stdlib.index.filters import Filters, allowed_chunks

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.index.resident.rows import Rows

    Positions = npt.NDArray[np.int64]

_MOST_BYTES: Final = 16 * 1024 * 1024
_PER_ENTRY: Final = 500  # bytes beside the rows and the key


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows that pass among the first `upto`; what was gone in the generation `born` may be missing."""

    born: int
    upto: int
    positions: Positions

    def bytes(self, key: str) -> int:
        """The memory it takes with its key."""
        return self.positions.nbytes + 4 * len(key) + _PER_ENTRY


class Passing:
    """The rows that passed filters, shared by the threads of a process; what is kept ends at the row it was looked up to.

    A document's chunks never change, and later ones have higher seqs: what passed still passes, and only later rows are looked at.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._held = 0

    def rows(self, connection: apsw.Connection, filters: Filters, rows: Rows, generation: int) -> Positions:
        """Return the rows of a generation that pass and are still there, ascending; `filters` is not empty."""
        key = repr(filters)  # which tells True from 1, as filters do and equality does not
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is None or kept.born > generation or kept.upto > len(rows):
            kept = _Kept(generation, 0, np.empty(0, np.int64))
        if kept.upto < len(rows):
            later = allowed_chunks(connection, filters, int(rows.seqs[kept.upto - 1]) if kept.upto else 0)
            kept = _Kept(generation, len(rows), np.concatenate([kept.positions, rows.positions(later)]))
            self._keep(key, kept)
        return kept.positions if rows.alive is None else kept.positions[rows.alive[kept.positions]]

    def _keep(self, key: str, kept: _Kept) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._held += kept.bytes(key) - (old.bytes(key) if old is not None else 0)
            self._kept[key] = kept
            while self._held > _MOST_BYTES and len(self._kept) > 1:
                oldest, gone = self._kept.popitem(last=False)
                self._held -= gone.bytes(oldest)
