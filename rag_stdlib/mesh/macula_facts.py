"""A subscription on the real mesh that goes on when the mesh drops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rag_stdlib.mesh.errors import CallError
from rag_stdlib.mesh.inbox import Inbox
from rag_stdlib.mesh.transport import Event

if TYPE_CHECKING:
    import macula_py

RESUBSCRIBE_S: Final = 1.0

_LOG: Final = logging.getLogger("rag_stdlib")


class MaculaSubscription(Inbox):
    """The facts of a topic; where 256 wait already, each new one displaces the oldest. `MaculaTransport.subscribe` makes them."""

    def __init__(self, topic: str, listen: Callable[[], Awaitable[macula_py.Subscription]], on_stop: Callable[[], object]) -> None:
        """Prepare to take in what a subscription of the library hears; `listen` makes one."""
        super().__init__()
        self.topic: Final = topic
        self._listen = listen
        self._on_stop = on_stop
        self._lost = 0  # by the library, in subscriptions that have ended
        self._source: macula_py.Subscription | None = None
        self._pump: asyncio.Task[None] | None = None

    @property
    def dropped(self) -> int:
        """Events lost because 256 were waiting already, here or in the library."""
        return super().dropped + self._lost + _lost_in(self._source)

    async def begin(self) -> None:
        """Listen from now on; raises what `listen` does."""
        self._source = await self._listen()
        self._pump = asyncio.create_task(self._go_on(self._source), name=f"listening to {self.topic}")

    async def stop(self) -> None:
        """End it; events that wait can still be taken. Calling it again is harmless."""
        self.end()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        self._on_stop()

    async def _go_on(self, source: macula_py.Subscription) -> None:
        import macula_py

        while True:
            try:
                if self._ended:  # while it was being made again
                    return
                await self._take_all(source)
            finally:
                self._lost, self._source = self._lost + _lost_in(source), None
                with suppress(macula_py.MaculaError):
                    await source.stop()
            _LOG.warning("the subscription to %s was dropped, and is made again", self.topic)
            source = self._source = await self._listened_again()

    async def _take_all(self, source: macula_py.Subscription) -> None:
        """Take events in until the subscription ends."""
        import macula_py

        while not source.closed:
            try:
                event = await source.next()
            except macula_py.MaculaError:
                return
            except ValueError as error:
                _LOG.warning("a fact on %s cannot be read and is passed over: %s", self.topic, error)
                continue
            if event is not None and event.unopened is None:
                self.hear(Event(event.publisher, self.topic, event.payload))

    async def _listened_again(self) -> macula_py.Subscription:
        told = ""
        while True:
            await asyncio.sleep(RESUBSCRIBE_S)
            try:
                return await self._listen()
            except CallError as error:
                if str(error) != told:  # a mesh that is away says the same each second
                    _LOG.warning("the subscription to %s cannot be made: %s", self.topic, error)
                told = str(error)


def _lost_in(source: macula_py.Subscription | None) -> int:
    import macula_py

    if source is None:
        return 0
    try:
        return source.dropped()
    except macula_py.MaculaError:  # it has ended
        return 0
