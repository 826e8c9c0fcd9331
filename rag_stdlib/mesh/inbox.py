"""Where events wait for the one who listens: bounded, so that a listener that is slow loses the oldest and is told how many."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from rag_stdlib.mesh.transport import INBOX, Event, checked_seconds

if TYPE_CHECKING:
    from typing_extensions import Self


class Inbox:
    """Events as they come, to be taken one by one or iterated over; it is used from one event loop."""

    def __init__(self) -> None:
        """Make room for the 256 events that may wait."""
        self._events: Final[deque[Event]] = deque(maxlen=INBOX)
        self._waiters: Final[set[asyncio.Future[None]]] = set()
        self._ended = False
        self._displaced = 0

    @property
    def dropped(self) -> int:
        """Events lost because 256 were waiting already."""
        return self._displaced

    def hear(self, event: Event) -> None:
        """Take an event in; where the inbox is full, it displaces the oldest."""
        self._displaced += len(self._events) == INBOX
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        """Let nobody wait any longer; events that wait can still be taken."""
        self._ended = True
        self._wake()

    async def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None where none came within `timeout_s` seconds, or there will be none."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + checked_seconds(timeout_s)
        while not self._events:
            left = None if deadline is None else deadline - loop.time()
            if self._ended or (left is not None and left <= 0):
                return None
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait([waiter], timeout=left)
            finally:
                self._waiters.discard(waiter)
        return self._events.popleft()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __aiter__(self) -> Self:
        """Iterate over the events until there are no more."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event."""
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event
