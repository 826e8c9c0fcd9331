"""Serving a procedure that the organisation has to grant: asked for until it is granted, then advertised once (§4.6).

Over a `Transport` the grant is asked for by serving, which the mesh refuses without it. A link that drops and comes back needs nothing here,
since a transport makes its advertisements good again by itself.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from rag_stdlib.mesh.errors import CallError, ServeRefused
from rag_stdlib.mesh.federation.clock import Clock, Ending
from rag_stdlib.mesh.federation.settings import Settings
from rag_stdlib.mesh.transport import Handler, Served, Transport, served

_LOG: Final = logging.getLogger("rag_stdlib")


@runtime_checkable
class WaitingServed(Protocol):
    """What a `Served` has beside its own method where it may wait for a grant, which the transport then asks for by itself."""

    @property
    def refusal(self) -> CallError | None:
        """Why it is not advertised; None while it is."""

    @property
    def waiting_s(self) -> float:
        """For how many seconds it has not been advertised, without a break."""


@dataclass(frozen=True, slots=True)
class NotGranted:
    """The grant is refused, for `since_ms` milliseconds without a break; `reason` None: the first answer has not come yet."""

    reason: CallError | None
    since_ms: int


class Granting:
    """One procedure on its way to being served, and then served, until `stop`. An attempt that ends after that leaves nothing served."""

    def __init__(self, transport: Transport, settings: Settings, handler: Handler, clock: Clock, procedure: str | None = None) -> None:
        """Serve a procedure by `handler`, from `start` on; it is that of `settings` by default."""
        self._transport, self._settings, self._handler, self._clock = transport, settings, handler, clock
        self._procedure = settings.procedure if procedure is None else procedure
        self._ending = Ending(clock)
        self._answered = asyncio.Event()
        self._served: Served | None = None
        self._reason: CallError | None = None
        self._refused_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask; return once the mesh has answered for the first time."""
        self._task = asyncio.create_task(self._run(), name=f"serve {self._procedure}")
        await self._answered.wait()

    @property
    def state(self) -> NotGranted | None:
        """What is missing; None where the procedure is served."""
        if self._served is None:
            since = 0.0 if self._refused_at is None else self._clock.monotonic() - self._refused_at
            return NotGranted(self._reason, round(since * 1_000))
        if isinstance(self._served, WaitingServed) and self._served.refusal is not None:
            return NotGranted(self._served.refusal, round(self._served.waiting_s * 1_000))
        return None

    def serves(self, transport: Transport, settings: Settings) -> bool:
        """Tell whether this is what the configuration wants of a shard's search, and granted, so that nothing has to be asked."""
        mine = self._transport, self._procedure, self._settings.confidential
        return self.state is None and mine == (transport, settings.procedure, settings.confidential)

    async def stop(self) -> None:
        """Ask no more, and withdraw what is served; once this has returned, no handler of it runs."""
        self._ending.tell()
        if self._task is not None:
            await asyncio.wait([self._task])
        ending, self._served = self._served, None
        if ending is not None:
            try:
                await ending.stop()
            except CallError as error:
                _LOG.warning("%s could not be withdrawn: %s", self._procedure, error)

    async def _run(self) -> None:
        while not self._ending and self._served is None:
            try:
                self._served = await self._serve()
            except CallError as error:
                self._note(error)
            except Exception as error:  # noqa: BLE001 - the loop goes on, whatever one attempt fails with
                _LOG.exception("asking for %s failed", self._procedure)
                self._note(ServeRefused(self._procedure, str(error) or type(error).__name__))
            self._answered.set()
            if self._served is None:
                await self._ending.pause(self._settings.grant_retry_ms / 1_000)

    async def _serve(self) -> Served:
        return await served(self._transport, self._procedure, self._handler, self._settings.confidential)

    def _note(self, error: CallError) -> None:
        if self._refused_at is None:
            self._refused_at = self._clock.monotonic()
            _LOG.warning("this node does not serve %s yet: %s", self._procedure, error)
        self._reason = error
