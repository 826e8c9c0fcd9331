"""A value made once per process on first use: connections, sessions and thread pools do not survive a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Slot(Generic[T]):
    """The value of one process, with its own lock: a lock another thread held at the fork stays locked in the child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: list[T] = []


class PerProcess(Generic[T]):
    """Makes its value with `make` at the first `get()` in each process; safe from several threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Keep `make`; nothing is made yet."""
        self._make = make
        self._slots: dict[int, _Slot[T]] = {}

    def get(self) -> T:
        """Return this process's value, made now if need be; what `make` raises is raised, and the next call tries again."""
        slot = self._slots.setdefault(os.getpid(), _Slot())
        with slot.lock:
            if not slot.made:
                slot.made.append(self._make())
            return slot.made[0]

    def take(self) -> T | None:
        """Return this process's value and forget it, so that it can be closed; None if there is none."""
        slot = self._slots.setdefault(os.getpid(), _Slot())
        with slot.lock:
            return slot.made.pop() if slot.made else None
