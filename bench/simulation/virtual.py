"""An event loop whose time passes only when everyone waits, and processors whose time it is.

Code that runs takes no time at all; what it would take is spent on `Cores`. So a run gives the same times on every machine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_THREAD_S = 10.0


class _Leap(selectors.DefaultSelector):
    """Instead of waiting, lets the time pass."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:  # only a thread can wake the loop
            return super().select(_THREAD_S)
        ready = super().select(0)
        if not ready:
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that begins at 0 seconds."""

    def __init__(self) -> None:
        """Begin."""
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        """Return the virtual time."""
        return self._leap.now


class VirtualClock:
    """The time of the running virtual loop, as a federation sees it."""

    def monotonic(self) -> float:
        """Return seconds."""
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        """Return milliseconds."""
        return round(self.monotonic() * 1_000)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


class Cores:
    """The processors of one node. Work waits for its turn; what is urgent goes before the rest. Work that is cancelled takes no more time."""

    def __init__(self, count: int) -> None:
        """Have so many, idle."""
        self.used_s = 0.0
        self._free = count
        self._waiting: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (deque(), deque())

    async def work(self, seconds: float, *, urgent: bool = False) -> None:
        """Use one processor for so long."""
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            self._waiting[not urgent].append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()
                raise
        begun = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.used_s += asyncio.get_running_loop().time() - begun
            self._next()

    def _next(self) -> None:
        for line in self._waiting:
            while line:
                turn = line.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
