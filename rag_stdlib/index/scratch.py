"""Arrays as long as an index has rows, used again and again.

A new one for each search would have the system find and clear its pages each time, which takes as long as the work in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_KEPT: Final = 4  # arrays that nobody uses at the moment
_KEPT_BYTES: Final = 32 * 1024 * 1024  # of such an array; a longer one is rare, and its work outweighs making it


class Pool:
    """Arrays lent to one user at a time, from any thread."""

    def __init__(self, *, zeros: bool = False) -> None:
        """With `zeros`, what is lent is zero, and has to be so again when it is given back."""
        self._zeros = zeros
        self._free: list[Floats] = []
        self._lock = threading.Lock()

    @contextmanager
    def floats(self, size: int) -> Iterator[Floats]:
        """Lend an array of float64 for the length of the block; one that is left by an exception is not used again."""
        with self._lock:
            fitting = [place for place, room in enumerate(self._free) if len(room) >= size]
            room = self._free.pop(min(fitting, key=lambda place: len(self._free[place]))) if fitting else None
        if room is None:
            room = np.zeros(size * 9 // 8) if self._zeros else np.empty(size * 9 // 8)
        yield room[:size]
        with self._lock:
            if 0 < room.nbytes <= _KEPT_BYTES:
                self._free.append(room)
            if len(self._free) > _KEPT:
                self._free.pop(0)

    def clear(self) -> None:
        """Begin anew, in a child process, with a lock that no thread of the parent holds."""
        self._lock = threading.Lock()
        self._free = []


ROOM: Final = Pool()
ZEROS: Final = Pool(zeros=True)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ROOM.clear)
    os.register_at_fork(after_in_child=ZEROS.clear)
