"""Keeping an ear on the topics of a federation: a subscription that fails or that the mesh drops is made again (§4.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rag_stdlib.mesh.errors import CallError, TransportClosed
from rag_stdlib.mesh.federation.clock import Clock, Ending
from rag_stdlib.mesh.transport import Event, Subscription, Transport

RESUBSCRIBE_S: Final = 1.0

_LOG: Final = logging.getLogger("rag_stdlib")


class Listening:
    """One topic, listened to until `stop`."""

    def __init__(self, transport: Transport, topic: str, hear: Callable[[Event], None], clock: Clock) -> None:
        """Hand each event on the topic to `hear`, from `start` on."""
        self._transport, self._topic, self._hear = transport, topic, hear
        self._ending = Ending(clock)
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; return once the first attempt to subscribe has come to its end, whichever that is."""
        self._task = asyncio.create_task(self._run(), name=f"listen to {self._topic}")
        await self._tried.wait()

    async def stop(self) -> None:
        """End the subscription on the transport where it was made."""
        self._ending.tell()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        told = ""
        while not self._ending:
            try:
                await self._listen()
                told = ""
            except CallError as error:
                if str(error) != told:  # a mesh that is away says the same each second
                    _LOG.warning("no subscription to %s: %s", self._topic, error)
                told = str(error)
                if isinstance(error, TransportClosed):  # which is for good
                    self._ending.tell()
            except Exception:  # noqa: BLE001 - the loop goes on, whatever one attempt fails with
                _LOG.exception("listening to %s failed", self._topic)
            self._tried.set()
            if not self._ending:
                await self._ending.pause(RESUBSCRIBE_S)

    async def _listen(self) -> None:
        """Subscribe, and hear what comes until the subscription ends."""
        subscription = await self._transport.subscribe(self._topic)
        self._tried.set()
        try:
            while True:
                event = await self._ending.first(subscription.next())
                if event is None:
                    return
                self._hear(event)
        finally:
            await self._unsubscribe(subscription)

    async def _unsubscribe(self, subscription: Subscription) -> None:
        try:
            await subscription.stop()
        except CallError as error:
            _LOG.warning("the subscription to %s could not be ended: %s", self._topic, error)
