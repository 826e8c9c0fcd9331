"""The face of a federation: one node that is a shard, or asks the shards of its organisation, or both.

    async with Federation() as federation:
        await federation.configure(transport, realm_id, {"org": "acme", "shard_id": "library-1", "realm_name": "io.macula",
                                                         "embedding": {"model": "nomic-embed-text", "dim": 768}})
        await federation.register_responder(search)
        await federation.advertise(["library/books"], Bloom.of(topics, terms).to_bytes())
        found = await federation.query({"text": "federated search"}, top_k=10)

Everything that changes a node's state is done to its end, also where the call of it is cancelled, so that no half of it stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from rag_stdlib.mesh.errors import CallError, InvalidCall
from rag_stdlib.mesh.federation.clock import Clock, Stragglers, SystemClock
from rag_stdlib.mesh.federation.directory import SUMMARY_BYTES, Directory, Shard, fits
from rag_stdlib.mesh.federation.failures import NotConfigured
from rag_stdlib.mesh.federation.granting import Granting, NotGranted
from rag_stdlib.mesh.federation.listening import Listening
from rag_stdlib.mesh.federation.merging import BY_SCORE, Merger
from rag_stdlib.mesh.federation.payloads import Summary, read_summary
from rag_stdlib.mesh.federation.publishing import Publishing, take_leave, telling
from rag_stdlib.mesh.federation.query import TOP_K, FederatedAnswer, Place, ask
from rag_stdlib.mesh.federation.responder import Responder, Search
from rag_stdlib.mesh.federation.settings import Settings, settings
from rag_stdlib.mesh.transport import Event, SealingTransport, Transport
from rag_stdlib.mesh.wire import outgoing

if TYPE_CHECKING:
    from typing_extensions import Self

ResponderState: TypeAlias = Literal["not_registered", "granted"] | NotGranted

_LOG: Final = logging.getLogger("rag_stdlib")


@dataclass(frozen=True, slots=True)
class Status:
    """How a node stands in its federation: its responder, whether its summary is being published, how many shards are known."""

    responder: ResponderState
    advertised: bool
    shards: int
    configured: bool


class Federation:
    """A node of a federation. It is used from one event loop, and it does not close the transport that it is given.

    Whatever is asked of it without a configuration raises `NotConfigured`, and nothing of it is kept for later. What changes its state
    is done one at a time, in the order of the calls.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Stand alone, for now; `clock` is this machine's where none is given."""
        self._clock = clock if clock is not None else SystemClock()
        self._responder = Responder(self._clock)
        self._stragglers = Stragglers()
        self._place: Place | None = None
        self._listening: tuple[Listening, ...] = ()
        self._publishing: Publishing | None = None
        self._telling: Granting | None = None
        self._told: tuple[tuple[str, ...], bytes] | None = None  # what this shard says it holds
        self._turn = asyncio.Lock()
        self._acts: set[asyncio.Future[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        """Hand out the federation."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def configure(self, transport: Transport, realm: bytes, options: Mapping[str, object]) -> None:
        """Join the federation of an organisation, or move to another one, over `transport`.

        Subscriptions are made anew; the node's own summary is published again, and the grant asked for again, where there are such. Of
        another organisation, realm or transport before, everything is taken back: the summary, what was served, what was known of shards.

        Args:
            transport: This node on the mesh.
            realm: The id of its realm, 32 bytes.
            options: See `rag_stdlib.mesh.federation.settings.settings`.

        Raises:
            InvalidOptions, InvalidOrg, ConfidentialityRefused, RealmNameMismatch: the options are refused, and nothing has changed.
            NotConfigured: The federation is closed.
        """
        names_kem_key = isinstance(transport, SealingTransport) and transport.names_kem_key
        made = settings(realm, options, names_kem_key=names_kem_key)
        await self._in_turn(partial(self._configure, transport, made))

    async def register_responder(self, search: Search) -> None:
        """Be a shard: answer the questions of the organisation by `search`, as soon as the mesh grants that; `status` tells.

        Args:
            search: A plain function of a query (a dict, keys as text) and the number of hits; see `responder.Search`. It runs in
                threads, several at a time, in the context of this call. It takes the place of the one before.

        Raises:
            InvalidCall: it is no plain function.
            NotConfigured: And it is not kept.
        """
        await self._in_turn(partial(self._register, search))

    async def unregister_responder(self) -> None:
        """Be no shard any more; once this has returned, no search for the mesh runs. Harmless where there is none."""
        await self._in_turn(self._responder.unregister)

    async def advertise(self, topics: Iterable[str] = (), bloom: bytes = b"") -> None:
        """Publish what this shard holds, now and each period, until `withdraw`; it takes the place of what was said before.

        Args:
            topics: For people who list shards.
            bloom: A filter of `rag_stdlib.mesh.federation.bloom`, by which questions for other topics pass this shard by. It has to hold
                all topics of the index: advertise again when these change.

        Raises:
            CallError: The summary could not be published this time. It is kept, and published again after a period.
            InvalidCall, PayloadRefused: topics or filter are none; nothing has changed.
            NotConfigured: What it says.
        """
        listed = (topics,) if isinstance(topics, str) else tuple(topics)
        await self._in_turn(partial(self._advertise, listed, bloom))

    async def withdraw(self) -> None:
        """Publish that this shard is gone, and its summary no more.

        Raises:
            CallError: that could not be published; other nodes find the summary stale after three periods.
            NotConfigured: What it says.
        """
        await self._in_turn(self._withdraw)

    async def query(self, query: Mapping[str, object], *, top_k: int = TOP_K, timeout_ms: int | None = None,
                    merger: Merger = BY_SCORE) -> FederatedAnswer:
        """Ask every shard of the organisation, and merge what they find.

        Args:
            query: A map that the shards' callbacks understand. Where it has `topics`, a list of texts, shards whose filter holds none
                of them are not asked.
            top_k: How many hits to return, and to ask each shard for.
            timeout_ms: For everything together; the configuration's `query_timeout_ms` where none is given.
            merger: How hits are put in order.

        Raises:
            NoShards: The shards could not be listed.
            InvalidCall, PayloadRefused: There is nothing that shards could be asked.
            NotConfigured: What it says.
        """
        return await ask(self._configured(), query, top_k, timeout_ms, merger)

    @property
    def place(self) -> Place:
        """Where this node asks from, for strategies of asking; `NotConfigured` without a configuration."""
        return self._configured()

    def shards(self) -> list[Shard]:
        """List the shards that are known, by node id, this one among them; `NotConfigured` without a configuration."""
        return self._configured().directory.shards()

    def status(self) -> Status:
        """Tell how things stand."""
        state: ResponderState = "not_registered"
        if self._responder.registered:
            missing = self._responder.missing
            state = "granted" if missing is None else missing
        place = self._place
        return Status(state, self._publishing is not None, 0 if place is None else len(place.directory.shards()), place is not None)

    async def close(self) -> None:
        """Take leave: withdraw the summary and the procedure, end subscriptions, wait for searches that run. Harmless the second time."""
        await self._in_turn(self._close)

    async def _in_turn(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do one act after the other, each to its end, though its caller may be cancelled."""

        async def done() -> None:
            async with self._turn:
                await act()

        task = asyncio.ensure_future(done())
        self._acts.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._acts.discard)
        await asyncio.shield(task)

    async def _configure(self, transport: Transport, made: Settings) -> None:
        if self._closed:
            raise NotConfigured
        await self._move(transport, made)
        place = self._configured()
        hears = partial(_hear_summary, place), partial(_hear_withdrawal, place)
        self._listening = tuple(Listening(transport, topic, hear, self._clock) for topic, hear in zip(made.topics, hears, strict=True))
        await asyncio.gather(*(each.start() for each in self._listening))
        if self._told is not None:
            try:
                await self._publish(*self._told)
            except CallError as error:
                _LOG.warning("the summary of this shard could not be published: %s", error)
        if self._responder.registered:
            await self._responder.serve(transport, made)

    async def _register(self, search: Search) -> None:
        place = self._configured()
        self._responder.register(search)
        await self._responder.serve(place.transport, place.settings)

    async def _advertise(self, topics: tuple[str, ...], bloom: bytes) -> None:
        here = self._configured().settings
        summary = Summary(here.shard_id, here.embedding, topics, bloom, 0)
        if read_summary(summary.payload()) != summary:
            raise InvalidCall("a shard's topics are texts, and its filter is bytes")
        if not fits(summary):
            raise InvalidCall(f"a summary of more than {SUMMARY_BYTES:,} bytes is passed over by other nodes")
        outgoing(summary.payload())
        self._told = topics, bloom
        await self._publish(topics, bloom)

    async def _withdraw(self) -> None:
        place = self._configured()
        await self._stop_publishing()
        self._told = None
        await take_leave(place.transport, place.settings, self._clock)

    async def _close(self) -> None:
        self._closed = True
        place, told = self._place, self._publishing is not None
        await self._stop_publishing()
        leaving = [_leave(place, self._clock)] if place is not None and told else []
        await asyncio.gather(*leaving, self._responder.close(), self._stop_listening())  # where the mesh is silent, each takes its time
        self._place = None
        await self._stragglers.ended()

    async def _move(self, transport: Transport, made: Settings) -> None:
        """Take back what the configuration before leaves behind, and take up the new one."""
        before = self._place
        await self._stop_listening()
        moved = before is None or before.transport is not transport or before.settings.topics != made.topics
        if before is not None and moved:
            was_told = self._publishing is not None
            await self._stop_publishing()
            if was_told:
                await _leave(before, self._clock)
            await self._responder.stop_serving()
        elif before is not None and before.settings.confidential != made.confidential:
            await self._stop_telling()
        directory = Directory(self._clock, made.stale_s) if before is None or moved else before.directory
        directory.stale_s = made.stale_s
        self._place = Place(transport, made, directory, self._responder, self._clock, self._stragglers)
        self._responder.use(made)

    def _configured(self) -> Place:
        if self._place is None:
            raise NotConfigured
        return self._place

    async def _publish(self, topics: tuple[str, ...], bloom: bytes) -> None:
        place = self._configured()
        if self._publishing is not None:
            await self._publishing.stop()
        summary = Summary(place.settings.shard_id, place.settings.embedding, topics, bloom, self._clock.wall_ms())
        self._publishing = Publishing(place.transport, place.settings, summary, place.directory, self._clock)
        try:
            await self._publishing.start()
        finally:  # it is kept in any case, and told to those who ask
            if self._telling is None:
                self._telling = telling(place.transport, place.settings, place.directory, self._clock)
                await self._telling.start()

    async def _stop_publishing(self) -> None:
        await self._stop_telling()
        if self._publishing is not None:
            await self._publishing.stop()
            self._publishing = None
        if self._place is not None:
            self._place.directory.drop_own()

    async def _stop_telling(self) -> None:
        before, self._telling = self._telling, None
        if before is not None:
            await before.stop()

    async def _stop_listening(self) -> None:
        listening, self._listening = self._listening, ()
        await asyncio.gather(*(each.stop() for each in listening))


def _hear_summary(place: Place, event: Event) -> None:
    if event.publisher != place.transport.node_id:  # an echo that comes late would bring a summary back that was withdrawn
        place.directory.hear_summary(event.publisher, event.payload)


def _hear_withdrawal(place: Place, event: Event) -> None:
    place.directory.hear_withdrawal(event.publisher, event.payload)


async def _leave(place: Place, clock: Clock) -> None:
    try:
        await take_leave(place.transport, place.settings, clock)
    except CallError as error:
        _LOG.warning("the shard %s could not be withdrawn: %s", place.settings.shard_id, error)
