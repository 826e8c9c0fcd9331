"""The chunks of an index, in memory: a row for each, in the order of their seqs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Seqs = npt.NDArray[np.int64]
    Positions = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

N = TypeVar("N", bound="np.generic")


class Column(Generic[N]):
    """An array that grows at its end: earlier views stay as they are, whatever is appended later.

    Only the latest column may be appended to, and by one thread at a time.
    """

    __slots__ = ("_room", "values")

    def __init__(self, values: npt.NDArray[N], room: npt.NDArray[N] | None = None) -> None:
        """Begin with `values`; `room` is the larger array that they begin, if there is one."""
        self.values = values
        self._room = values if room is None else room

    def appended(self, more: npt.NDArray[Any]) -> Column[N]:
        """Return a column with `more` at its end."""
        size = len(self.values)
        room = self._room
        if len(room) < size + len(more):
            room = np.empty((size + len(more)) * 5 // 4, room.dtype)
            room[:size] = self.values
        room[size:size + len(more)] = more
        return Column(room[:size + len(more)], room)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one generation: `seqs` ascending, and which of them are still there (`alive` None: all)."""

    column: Column[np.int64]
    alive: Mask | None
    live: int

    @classmethod
    def of(cls, seqs: Seqs) -> Rows:
        """Begin with the chunks that an index holds; `seqs` are ascending."""
        return cls(Column(seqs), None, len(seqs))

    @property
    def seqs(self) -> Seqs:
        """The seqs, ascending, shape (n,), of rows that are gone too."""
        return self.column.values

    def __len__(self) -> int:
        """Count the rows, with those that are gone."""
        return len(self.column.values)

    def kept(self) -> Positions:
        """Return the rows that are still there, ascending."""
        return np.arange(len(self)) if self.alive is None else np.flatnonzero(self.alive)

    def positions(self, seqs: Seqs) -> Positions:
        """Find the rows of chunks that all have one."""
        mine = self.seqs
        if len(mine) and mine[-1] - mine[0] + 1 == len(mine):  # no gaps, as in an index that was filled once
            found: Positions = seqs - mine[0]
            return found
        return np.searchsorted(mine, seqs)

    def changed(self, gone: Iterable[range], come: Seqs) -> Rows:
        """Return the rows after chunks went, given as ranges of seqs, and others came, whose seqs are all higher."""
        column = self.column.appended(come)
        seqs = column.values
        alive = np.ones(len(seqs), np.bool_)
        if self.alive is not None:
            alive[:len(self)] = self.alive
        for some in gone:
            first, last = np.searchsorted(seqs, (some.start, some.stop))
            alive[first:last] = False
        live = int(np.count_nonzero(alive))
        return Rows(column, None if live == len(seqs) else alive, live)
