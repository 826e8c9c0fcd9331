"""An index on the mesh: its provider's procedures, its shard, a summary that follows what it holds, and an orderly end.

    shard = HostedShard(IndexShard(runtime, "docs.db"), Federation(), realm, {"org": "acme", "shard_id": "docs", "realm_name": "io.example"})
    host = Host(transport, provider=Provider(runtime, "docs.db", org="acme", key=key), shard=shard)
    await host.begin()
    ...
    await host.drain()

The index is read anew for every call, so another process may ingest into it, or put another file in its place, while it is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from rag_stdlib.errors import Failure
from rag_stdlib.mesh.errors import CallError
from rag_stdlib.mesh.federation.clock import Clock, Ending, SystemClock
from rag_stdlib.mesh.federation.granting import NotGranted
from rag_stdlib.mesh.federation.indexshard import IndexShard, ShardSummary
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.transport import Confidential, Transport

if TYPE_CHECKING:
    from rag_stdlib.mesh.provider import Provider, Serving

_LOG: Final = logging.getLogger("rag_stdlib")


@runtime_checkable
class WaitingTransport(Protocol):
    """What a transport has beside the methods of `Transport` where a procedure that is served may have to wait for a grant."""

    @property
    def ungranted(self) -> Mapping[str, str]:
        """The procedures that wait, each with the reason why it is not advertised."""


class HostedShard:
    """An index as a shard of its organisation's federation, named by the index's own embedding.

    The index is looked at once in each period (`summary_republish_ms`). Where it holds something else, the summary is made anew; where its
    vectors are of another embedding, the shard is one of that embedding from then on.
    """

    def __init__(self, shard: IndexShard, federation: Federation, realm: bytes, options: Mapping[str, object], clock: Clock | None = None) -> None:
        """Prepare to be a shard; nothing is opened or sent yet.

        Args:
            shard: What answers.
            federation: This node in its federation; it is configured here, and closed in the end.
            realm: The realm's id, 32 bytes.
            options: Those of `rag_stdlib.mesh.federation.settings.settings`, without the embedding.
            clock: By which the periods go; this machine's where none is given.
        """
        self.federation: Final = federation
        self._shard = shard
        self._realm = realm
        self._options = dict(options)
        self._clock = clock if clock is not None else SystemClock()
        self._ending = Ending(self._clock)
        self._transport: Transport | None = None
        self._embedding: Embedding | None = None
        self._told: ShardSummary | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def embedding(self) -> Embedding | None:
        """What the shard is of, once it has begun."""
        return self._embedding

    async def begin(self, transport: Transport) -> None:
        """Join the federation, answer its questions as soon as that is granted, and say what the index holds.

        Raises:
            Failure: The index is there and cannot be served; see `IndexShard.embedding`.
            FederationError: The options are refused.
        """
        self._transport = transport
        await self._configure(await asyncio.to_thread(self._shard.embedding))
        await self.federation.register_responder(self._shard)
        await self._tell(await asyncio.to_thread(self._shard.summary))
        self._task = asyncio.create_task(self._follow(), name="follow an index")

    async def refresh(self) -> None:
        """Look at the index now; what has changed is told.

        Raises:
            Failure: It cannot be read; what was told before stays.
        """
        embedding = await asyncio.to_thread(self._shard.embedding)
        if embedding != self._embedding:
            _LOG.warning("the index is of %s now, and so is its shard", embedding)
            await self._configure(embedding)
        content = await asyncio.to_thread(self._shard.content)
        if self._told is None or not content or content != self._told.content:
            await self._tell(await asyncio.to_thread(self._shard.summary))

    async def end(self) -> None:
        """Say that the shard is gone, withdraw it, and wait for the searches that run."""
        self._ending.tell()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.federation.close()

    async def _configure(self, embedding: Embedding) -> None:
        assert self._transport is not None  # noqa: S101 - `begin` has set it
        await self.federation.configure(self._transport, self._realm, {**self._options, "embedding": embedding})
        self._embedding = embedding

    async def _tell(self, summary: ShardSummary) -> None:
        before, self._told = self._told, summary
        if before is None or (before.topics, before.bloom) != (summary.topics, summary.bloom):
            try:
                await self.federation.advertise(summary.topics, summary.bloom)
            except CallError as error:
                _LOG.warning("the summary of this shard could not be published: %s", error)

    async def _follow(self) -> None:
        while True:
            await self._ending.pause(self.federation.place.settings.summary_republish_ms / 1_000)
            if self._ending:
                return
            try:
                await self.refresh()
            except (Failure, CallError) as error:
                _LOG.warning("the summary of this shard stays as it was: %s", error)
            except Exception:  # noqa: BLE001 - the loop goes on, whatever one look fails with
                _LOG.exception("the summary of this shard stays as it was")


class Host:
    """What a node serves of an index, from `begin` to `drain`. It takes over the transport, and closes it in the end."""

    def __init__(self, transport: Transport, *, provider: Provider | None = None, shard: HostedShard | None = None,
                 confidential: Confidential | None = None) -> None:
        """Prepare to serve a provider's procedures, by this mode of sealing, a shard, by that of its options, or both."""
        self.transport: Final = transport
        self._provider = provider
        self._shard = shard
        self._confidential: Confidential | None = confidential
        self._serving: Serving | None = None
        self._drained: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Serve; what the organisation has not granted yet is served when it has.

        Raises:
            CallError: The mesh does not let this node serve, for another reason than a grant that is not there. What was served until
                then is withdrawn; `drain` is left to do.
            Failure: The index cannot be served; as above.
        """
        try:
            if self._shard is not None:
                await self._shard.begin(self.transport)
            if self._provider is not None:
                self._serving = await self._provider.serve(self.transport, confidential=self._confidential)
        except BaseException:
            await self._withdraw()
            raise

    @property
    def ungranted(self) -> dict[str, str]:
        """The procedures that wait for the organisation's grant, each with the reason in words; nothing where all is served."""
        waiting = dict(self.transport.ungranted) if isinstance(self.transport, WaitingTransport) else {}
        if self._shard is not None and self._drained is None:
            state = self._shard.federation.status().responder
            if isinstance(state, NotGranted):
                waiting.setdefault(self._shard.federation.place.settings.procedure, str(state.reason or "not asked for yet"))
        return waiting

    async def drain(self) -> None:
        """Say that the shard is gone, take no further call, wait for those that run and for their replies, and leave the mesh.

        It is done to its end, also where its caller is cancelled. Calling it again is harmless.
        """
        if self._drained is None:
            self._drained = asyncio.create_task(self._drain(), name="drain a host")
        await asyncio.shield(self._drained)

    async def _drain(self) -> None:
        await self._withdraw()
        await self.transport.close()

    async def _withdraw(self) -> None:
        ends = [part.end() for part in (self._shard,) if part is not None] + [part.stop() for part in (self._serving,) if part is not None]
        for outcome in await asyncio.gather(*ends, return_exceptions=True):
            if outcome is not None:
                _LOG.warning("something could not be withdrawn: %s", outcome)
