"""A mesh inside one process: nodes that call each other with all the rules of a real one, but no network and no signatures.

It models what callers and providers rely on: a pinned call reaches the node that was named or nobody, an unpinned one any provider without
saying which; payloads cross as CBOR, both ways; handlers run in threads; a withdrawn provider, a silent one and one that was never there
are told apart. Names belong to nodes as in Macula (``~<node id>/…`` is a node's own), but any node may serve for any organisation.

A mesh is used from one event loop at a time; when that has stopped, another one may go on.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from rag_stdlib.contract.cbor import Value
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.effects import carry
from rag_stdlib.mesh.errors import (
    HANDLER_ERROR,
    CallError,
    CallTimeout,
    InvalidCall,
    NoProvider,
    ProviderError,
    Refusal,
    RelayError,
    ServeRefused,
    TransportClosed,
    cut,
    words_of,
)
from rag_stdlib.mesh.inbox import Inbox
from rag_stdlib.mesh.transport import (
    CALL_TIMEOUT_S,
    FACT_TTL_S,
    HANDLERS,
    Event,
    Handler,
    PinnedReply,
    ProviderInfo,
    Request,
    Served,
    UnpinnedReply,
    checked_handler,
    checked_node,
    checked_procedure,
    checked_seconds,
    checked_topic,
    checked_ttl,
)
from rag_stdlib.mesh.wire import pack, unpack

if TYPE_CHECKING:
    from typing_extensions import Self

_LOG: Final = logging.getLogger("rag_stdlib")
_GONE: Final = "unknown_next_peer"


class MemoryMesh:
    """One realm of nodes in this process."""

    def __init__(self) -> None:
        """Begin without any node."""
        self._registry = _Registry()

    def node(self, *, key: NodeKey | None = None, profile: Profile | None = None, node_id: str | None = None) -> MemoryTransport:
        """Join a node, known by its key, by an id of 64 hex digits, or by a random one.

        `profile` is the key's, or ``pq_pure`` where none is said.

        Raises:
            InvalidCall: The id is malformed or taken, or id or profile are not the key's.
        """
        if key is not None and (profile not in (None, key.profile) or node_id not in (None, key.node_id)):
            raise InvalidCall("a node's id and profile are those of its key")
        name = key.node_id if key is not None else checked_node(node_id) if node_id is not None else secrets.token_hex(32)
        if name in self._registry.nodes:
            raise InvalidCall(f"the node {name} is on this mesh already")
        self._registry.nodes.add(name)
        return MemoryTransport(self._registry, name, key.profile if key is not None else profile or "pq_pure")


class _Registry:
    """Who is there, serves what and listens to what."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.services: set[_Service] = set()  # advertised, or withdrawn with handlers that still run
        self.subscriptions: set[MemorySubscription] = set()
        self._providers: dict[str, dict[str, _Service]] = {}  # by procedure, then by node, the freshest last
        self._withdrawn: set[tuple[str, str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def claim(self) -> None:
        """Take note of the running loop; refuse it where another one runs that uses the mesh."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and self._loop.is_running():
            raise InvalidCall("a mesh in memory is used from one event loop at a time")
        self._loop = loop

    def advertise(self, service: _Service) -> None:
        providers = self._providers.setdefault(service.procedure, {})
        if service.node in providers:
            raise ServeRefused(service.procedure, "this node serves it already")
        providers[service.node] = service
        self.services.add(service)
        self._withdrawn.discard((service.procedure, service.node))

    def withdraw(self, service: _Service) -> None:
        providers = self._providers[service.procedure]
        if providers.get(service.node) is service:
            del providers[service.node]
            self._withdrawn.add((service.procedure, service.node))

    def providers(self, procedure: str) -> list[_Service]:
        """List those who serve a procedure, the freshest first."""
        return list(reversed(self._providers.get(procedure, {}).values()))

    def provider(self, procedure: str, node: str) -> _Service:
        service = self._providers.get(procedure, {}).get(node)
        if service is not None:
            return service
        raise RelayError(_GONE) if (procedure, node) in self._withdrawn else NoProvider(procedure, node)


class MemoryTransport:
    """A node of a `MemoryMesh`; a `rag_stdlib.mesh.transport.Transport`. ``async with`` closes it in the end."""

    def __init__(self, registry: _Registry, node_id: str, profile: Profile) -> None:
        """Take its place on the mesh; `MemoryMesh.node` makes them."""
        self.node_id: Final = node_id
        self.profile: Final[Profile] = profile
        self._registry = registry
        self._pool = ThreadPoolExecutor(HANDLERS, thread_name_prefix=f"mesh-{node_id[:8]}")
        self._closed = False  # no call is taken any more
        self._left = False  # and none runs

    async def call(self, procedure: str, payload: object = None, *, timeout_s: float = CALL_TIMEOUT_S) -> UnpinnedReply:
        """Call the freshest provider of the procedure, without learning which that is.

        Raises:
            CallError: `NoProvider`, `ProviderError`, `CallTimeout`, `PayloadRefused`, `InvalidCall`, `TransportClosed`.
        """
        self._use()
        providers = self._registry.providers(checked_procedure(procedure))
        if not providers:
            raise NoProvider(procedure)
        return UnpinnedReply(await self._asked(providers[0], payload, timeout_s))

    async def call_pinned(
        self, procedure: str, payload: object = None, *, provider: str, timeout_s: float = CALL_TIMEOUT_S,
    ) -> PinnedReply:
        """Call exactly this provider.

        Raises:
            CallError: As `call`; and `RelayError` ``unknown_next_peer`` where the node served the procedure and has withdrawn.
        """
        self._use()
        service = self._registry.provider(checked_procedure(procedure), checked_node(provider))
        return PinnedReply(await self._asked(service, payload, timeout_s), service.node)

    async def _asked(self, service: _Service, payload: object, timeout_s: float) -> Value:
        seconds = checked_seconds(timeout_s)
        future = service.enter(pack(payload), self.node_id)
        try:
            outcome = await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except asyncio.TimeoutError:
            raise CallTimeout(service.procedure, seconds) from None
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    async def providers(self, procedure: str) -> list[ProviderInfo]:
        """List the nodes that serve the procedure, the one that began last first."""
        self._use()
        return [ProviderInfo(service.node) for service in self._registry.providers(checked_procedure(procedure))]

    async def serve(self, procedure: str, handler: Handler) -> Served:
        """Serve a procedure of any organisation, or of this node's own namespace.

        At most 8 handlers of a node run at a time; further calls wait for their turn, within their own time.

        Raises:
            CallError: `ServeRefused` for another node's namespace or a procedure this node serves already; `InvalidCall`,
                `TransportClosed`.
        """
        self._use()
        org = checked_procedure(procedure).partition("/")[0]
        if org.startswith("~") and org != f"~{self.node_id}":
            raise ServeRefused(procedure, "it is in the namespace of another node")
        service = _Service(self._registry, self._pool, self.node_id, procedure, carry(checked_handler(handler)))
        self._registry.advertise(service)
        return service

    async def publish(self, topic: str, payload: object, *, ttl_s: float = FACT_TTL_S) -> None:
        """Tell a fact to all who listen to the topic now, this node too if it does.

        Raises:
            CallError: `PayloadRefused`, `InvalidCall`, `TransportClosed`.
        """
        self._use()
        checked_topic(topic)
        checked_ttl(ttl_s)
        packed = pack(payload)
        for subscription in self._registry.subscriptions:
            if subscription.topic == topic:
                subscription.hear(Event(self.node_id, topic, unpack(packed)))

    async def subscribe(self, topic: str) -> MemorySubscription:
        """Listen to a topic from now on."""
        self._use()
        subscription = MemorySubscription(self._registry, self.node_id, checked_topic(topic))
        self._registry.subscriptions.add(subscription)
        return subscription

    async def __aenter__(self) -> Self:
        """Hand out the node."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Leave the mesh, and wait for handlers that run. Calling it again is harmless."""
        self._registry.claim()
        if self._left:
            return
        self._closed = True
        for subscription in [each for each in self._registry.subscriptions if each.node == self.node_id]:
            await subscription.stop()
        services = [each for each in self._registry.services if each.node == self.node_id]
        for service in services:
            service.withdraw()
        for service in services:
            await service.stop()
        if not self._left:  # another close() may have come to its end while this one waited
            self._left = True
            self._pool.shutdown()
            self._registry.nodes.discard(self.node_id)

    def _use(self) -> None:
        if self._closed:
            raise TransportClosed("this node has left the mesh")
        self._registry.claim()


class _Service:
    """A procedure as one node serves it."""

    def __init__(self, registry: _Registry, pool: ThreadPoolExecutor, node: str, procedure: str, handler: Handler) -> None:
        self.node: Final = node
        self.procedure: Final = procedure
        self._registry = registry
        self._pool = pool
        self._handler = handler
        self._withdrawn = False
        self._entered: set[Future[Value | CallError]] = set()

    def enter(self, payload: bytes, caller: str) -> Future[Value | CallError]:
        """Have a thread answer the call; the future holds the reply, or what the caller is to get instead, and no exception."""
        future = self._pool.submit(self._answer, payload, caller)
        self._entered.add(future)
        future.add_done_callback(self._entered.discard)
        return future

    def _answer(self, payload: bytes, caller: str) -> Value | CallError:
        if self._withdrawn:
            return RelayError(_GONE)
        try:
            return unpack(pack(self._handler(Request(self.procedure, unpack(payload), caller))))
        except Refusal as refusal:
            return ProviderError(HANDLER_ERROR, refusal.detail)
        except BaseException as error:  # noqa: BLE001 - a handler ends its own call only, even by sys.exit()
            _LOG.exception("the handler of %s failed", self.procedure)
            return ProviderError(HANDLER_ERROR, cut(words_of(error)))

    def withdraw(self) -> None:
        """Take no further call; those that wait for a thread are refused there."""
        self._withdrawn = True
        self._registry.withdraw(self)

    async def stop(self) -> None:
        """Withdraw the procedure: calls that wait are refused, and those that run are waited for."""
        self.withdraw()
        entered = [asyncio.wrap_future(future) for future in tuple(self._entered)]
        if entered:
            await asyncio.wait(entered)
        self._registry.services.discard(self)


class MemorySubscription(Inbox):
    """The facts of a topic; where 256 wait already, each new one displaces the oldest."""

    def __init__(self, registry: _Registry, node: str, topic: str) -> None:
        """Wait for facts; `MemoryTransport.subscribe` makes them."""
        super().__init__()
        self.node: Final = node
        self.topic: Final = topic
        self._registry = registry

    async def stop(self) -> None:
        """End it; events that wait can still be taken."""
        self._registry.subscriptions.discard(self)
        self.end()
