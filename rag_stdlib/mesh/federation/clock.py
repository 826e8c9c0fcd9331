"""Time as a federation sees it, so that a test can let it pass; and how something that repeats itself is ended.

Nothing else in the package looks at a clock or sleeps. The time that a transport is given for a call goes by the transport's own clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from rag_stdlib.mesh.errors import CallTimeout

T = TypeVar("T")


class Clock(Protocol):
    """A source of time."""

    def monotonic(self) -> float:
        """Return seconds from some fixed point, never going back."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as facts name them."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Return seconds from some fixed point, never going back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Ending:
    """Tells a loop to end, and cuts its waiting short then; what it is doing just now comes to its own end."""

    def __init__(self, clock: Clock) -> None:
        """Let the loop go on for now."""
        self._clock = clock
        self._told = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether the loop is to end."""
        return self._told.is_set()

    def tell(self) -> None:
        """End it."""
        self._told.set()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until the loop is to end."""
        await self.first(self._clock.sleep(seconds))

    async def first(self, wait: Coroutine[Any, Any, T]) -> T | None:
        """Return what is waited for; None, and the wait is cancelled, where the loop is to end first."""
        told = asyncio.ensure_future(self._told.wait())
        task = asyncio.ensure_future(wait)
        try:
            await asyncio.wait([told, task], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await cancelled(told, task)


class Deadline:
    """A point in time that several acts share; `name` and the whole time stand in the `CallTimeout` of what came too late."""

    def __init__(self, clock: Clock, seconds: float, name: str) -> None:
        """Begin now."""
        self._clock = clock
        self._name = name
        self.seconds = seconds
        self._began = clock.monotonic()

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left; 0 where none are."""
        return max(0.0, self.seconds - self.passed)

    def part(self, share: float) -> Deadline:
        """Return an earlier one: this share, 0 to 1, of the time that is left."""
        return Deadline(self._clock, self.left * share, self._name)

    @property
    def timeout(self) -> CallTimeout:
        """What is raised of an act that was not done in time."""
        return CallTimeout(self._name, self.seconds)

    async def wait(self, *tasks: asyncio.Future[Any]) -> None:
        """Wait until all tasks are done, or the time is up."""
        if not tasks:
            return
        alarm = asyncio.ensure_future(self._clock.sleep(self.left))
        everyone = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await asyncio.wait([everyone, alarm], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(everyone, alarm)


class Stragglers:
    """Tasks that were cancelled and may take a while to end; nobody waits for them but `ended`."""

    def __init__(self) -> None:
        """Hold none."""
        self._tasks: set[asyncio.Future[Any]] = set()

    def drop(self, *tasks: asyncio.Future[Any]) -> None:
        """Cancel tasks, and take in those that are not done."""
        for task in tasks:
            if not task.done():
                task.cancel()
                self._tasks.add(task)
                task.add_done_callback(self._gone)
            elif not task.cancelled():
                task.exception()  # a failure that nobody asks for any more is no news

    def _gone(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def ended(self) -> None:
        """Wait for them."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


async def within(deadline: Deadline, stragglers: Stragglers, act: Coroutine[Any, Any, T]) -> T:
    """Await an act until the deadline.

    Raises:
        CallTimeout: it was not done by then; it is cancelled, and nobody waits for it.
    """
    task = asyncio.ensure_future(act)
    try:
        await deadline.wait(task)
        if not task.done():
            raise deadline.timeout
    except BaseException:
        stragglers.drop(task)
        raise
    return task.result()


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """End tasks that do nothing but wait."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
