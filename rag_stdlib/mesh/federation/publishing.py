"""A node's own summary: published at once, and again each period until it is withdrawn (RAG service contract §4.7).

It is also told to whoever asks for it, by ``rag.shard_summary_v1``, so that a node which has just come need not wait for a period. That
procedure is ours; a peer that knows nothing of it hears the summaries that are published.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from rag_stdlib.mesh.errors import CallError, Refusal
from rag_stdlib.mesh.federation.clock import Clock, Ending
from rag_stdlib.mesh.federation.directory import Directory
from rag_stdlib.mesh.federation.granting import Granting
from rag_stdlib.mesh.federation.payloads import Summary, Withdrawn
from rag_stdlib.mesh.federation.settings import Settings
from rag_stdlib.mesh.transport import Request, Transport

_LEAST_TTL_S: Final = 1.0
_LONGEST_TTL_S: Final = 3_600.0
_LOG: Final = logging.getLogger("rag_stdlib")


class Publishing:
    """The summary of this node under one configuration; there is one loop for each of these, and `stop` ends it."""

    def __init__(self, transport: Transport, settings: Settings, summary: Summary, directory: Directory, clock: Clock) -> None:
        """Publish `summary`, each time with the clock's `at_ms`, and keep it in `directory` as this node's own, from `start` on."""
        self._transport, self._settings, self._summary = transport, settings, summary
        self._directory, self._clock = directory, clock
        self._ending = Ending(clock)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Publish, and go on doing so.

        Raises:
            CallError: it could not be published this time; it is kept all the same, and published again after a period.
        """
        self._task = asyncio.create_task(self._repeat(), name="republish a summary")
        await self._publish()

    async def stop(self) -> None:
        """Publish no more; an attempt under way comes to its end before."""
        self._ending.tell()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _repeat(self) -> None:
        while True:
            await self._ending.pause(self._settings.summary_republish_ms / 1_000)
            if self._ending:
                return
            try:
                await self._publish()
            except CallError as error:
                _LOG.warning("the summary of this shard could not be published: %s", error)
            except Exception:  # noqa: BLE001 - the loop goes on, whatever one attempt fails with
                _LOG.exception("the summary of this shard could not be published")

    async def _publish(self) -> None:
        now = replace(self._summary, at_ms=self._clock.wall_ms())
        self._directory.keep_own(self._transport.node_id, now)
        await self._transport.publish(self._settings.topics[0], now.payload(), ttl_s=min(max(self._settings.stale_s, _LEAST_TTL_S), _LONGEST_TTL_S))


def telling(transport: Transport, settings: Settings, directory: Directory, clock: Clock) -> Granting:
    """Make what tells the summary that `directory` keeps as this node's own, from its start on; it is served as soon as that is granted."""

    def tell(_request: Request) -> dict[str, object]:
        own = directory.summary(transport.node_id)
        if own is None:
            raise Refusal("no_summary")
        return replace(own, at_ms=clock.wall_ms()).payload()

    return Granting(transport, settings, tell, clock, settings.summary_procedure)


async def take_leave(transport: Transport, settings: Settings, clock: Clock) -> None:
    """Publish that this node's shard is withdrawn."""
    await transport.publish(settings.topics[1], Withdrawn(settings.shard_id, clock.wall_ms()).payload())
