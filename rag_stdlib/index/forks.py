"""SQLite must have no file open when a process forks: the child would inherit its table of locks, but none of the locks.

A connection that the child opened on such a file would rely on locks that only the parent holds. So a fork waits for calls
that are under way in other threads, and the idle connections are closed before it. A child that was forked from inside
a call, or after waiting in vain, refuses to open an index.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rag_stdlib.errors import fail

WAIT_SECONDS: Final = 10.0


class Closable(Protocol):
    """What holds idle connections."""

    def close_idle(self) -> None:
        """Close them."""


class ForkGate:
    """Lets calls on indexes and forks of the process exclude each other."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """`wait_seconds` bounds how long a fork waits for calls of other threads."""
        self._wait_seconds = wait_seconds
        self._condition = threading.Condition()
        self._users: Counter[int] = Counter()  # calls under way, by thread
        self._forking = False
        self._torn = False
        self._holders: weakref.WeakSet[Closable] = weakref.WeakSet()

    @property
    def torn(self) -> bool:
        """Whether this process was forked while an index was in use; no index can be opened in it safely."""
        return self._torn

    def watch(self, holder: Closable) -> None:
        """Close the idle connections of `holder` before each fork."""
        with self._condition:
            self._holders.add(holder)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Hold off forks by other threads for the length of the block."""
        me = threading.get_ident()
        with self._condition:
            self._condition.wait_for(lambda: not self._forking or me in self._users)
            self._users[me] += 1
        try:
            yield
        finally:
            with self._condition:
                self._users[me] -= 1
                self._users += Counter()  # drops zeros
                self._condition.notify_all()

    def before_fork(self) -> None:
        """Wait for the calls of other threads, then close what is idle."""
        with self._condition:
            self._forking = True
            self._condition.wait_for(lambda: not self._others(), self._wait_seconds)
            holders = list(self._holders)
        for holder in holders:
            holder.close_idle()

    def after_fork_in_parent(self) -> None:
        """Let the calls pass again."""
        with self._condition:
            self._forking = False
            self._condition.notify_all()

    def after_fork_in_child(self) -> None:
        """Begin anew, with a lock that no thread of the parent holds."""
        self._torn = self._torn or bool(self._users)
        self._condition = threading.Condition()
        self._users = Counter()
        self._forking = False

    def _others(self) -> bool:
        return any(thread != threading.get_ident() for thread in self._users)


GATE: Final = ForkGate()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=GATE.before_fork, after_in_parent=GATE.after_fork_in_parent,
                        after_in_child=GATE.after_fork_in_child)


@contextmanager
def unforked(path: str) -> Iterator[None]:
    """Hold off forks for the block; refuse it in a process whose locks are not its own."""
    with GATE.passing():
        if GATE.torn:
            raise fail("index_io", path=path, detail="this process was forked while an index was in use; spawn it instead")
        yield
