"""Shards for tests.

Nodes on the mesh in memory whose acts are noted and can be made to fail, a clock that stands still, and a peer that writes as an Erlang
node does.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rag_stdlib.mesh.errors import CallError, ServeRefused
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.memory import MemoryMesh, MemorySubscription, MemoryTransport
from rag_stdlib.mesh.transport import Handler, PinnedReply, ProviderInfo, Request, Served, UnpinnedReply

REALM_NAME = "io.macula"
REALM = hashlib.sha256(REALM_NAME.encode()).digest()
NOMIC = Embedding("nomic-embed-text", 768)
MINILM = Embedding("all-minilm", 384)
PROCEDURE = "acme/rag.query_shard_v1"
TELLING = "acme/rag.shard_summary_v1"
SUMMARIZED = "io.macula/acme/rag/shard/shard_summarized_v1"
WITHDRAWN = "io.macula/acme/rag/shard/shard_withdrawn_v1"
A, B, C, ME = "aa" * 32, "bb" * 32, "cc" * 32, "ee" * 32

if TYPE_CHECKING:
    from typing_extensions import Self

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def options(embedding: Embedding = NOMIC, **more: Any) -> dict[str, Any]:
    """A configuration for the organisation acme."""
    return {"org": "acme", "shard_id": "s", "realm_name": REALM_NAME, "embedding": {"model": embedding.model, "dim": embedding.dim}, **more}


def hit(name: str, score: float, **more: Any) -> dict[str, Any]:
    return {"id": name, "score": score, **more}


def finding(*hits: Mapping[str, Any]) -> Callable[[dict[str, Any], int], Iterable[Mapping[str, Any]]]:
    """A search that finds the same hits for any query."""
    return lambda _query, _top_k: hits


async def settle() -> None:
    """Let everything run that needs no time to pass."""
    for _ in range(40):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for what happens in other tasks or threads."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it did not happen in time"
        await asyncio.sleep(0.002)


class StillClock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return round(self.now * 1_000)

    async def sleep(self, seconds: float) -> None:
        sleeper = self.now + seconds, asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    @property
    def sleepers(self) -> int:
        """How many wait for time to pass."""
        return len(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking each sleeper at its own time."""
        await settle()
        end = self.now + seconds
        while due := [at for at, future in self._sleepers if at <= end + 1e-9 and not future.done()]:
            self.now = max(self.now, min(due))
            for at, future in self._sleepers:
                if at <= self.now + 1e-9 and not future.done():
                    future.set_result(None)
            await settle()
        self.now = end


class _Watched:
    """Something served or listened to whose end is noted."""

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:
        self._inner, self._ended = inner, ended

    async def stop(self) -> None:
        self._ended()
        await self._inner.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Node:
    """A node on the mesh in memory. Lists tell what it did; the other attributes say what it is to fail with."""

    def __init__(self, inner: MemoryTransport) -> None:
        self.inner = inner
        self.node_id, self.profile = inner.node_id, inner.profile
        self.dialled: list[str] = []
        self.served: list[str] = []
        self.withdrawn: list[str] = []
        self.subscribed: list[MemorySubscription] = []
        self.unsubscribed: list[str] = []
        self.published: list[tuple[str, Any]] = []
        self.listed_again: list[str] = []
        self.serve_attempts = 0
        self.no_grant: Exception | None = None
        self.no_subscription: Exception | None = None
        self.no_publishing: Exception | None = None
        self.no_end: CallError | None = None
        self.no_listing: Exception | None = None
        self.no_call: dict[str, BaseException] = {}
        self.listing_takes: asyncio.Event | None = None
        self.serving_takes: asyncio.Event | None = None
        self.replies: dict[str, object] = {}

    async def call(self, *_: object, **__: object) -> UnpinnedReply:
        raise AssertionError("a federation never makes a call that is not pinned")

    async def call_pinned(self, procedure: str, payload: object = None, *, provider: str, timeout_s: float = 5.0) -> PinnedReply:
        self.dialled.append(provider)
        if provider in self.no_call:
            raise self.no_call[provider]
        if provider in self.replies:
            return self.replies[provider]  # type: ignore[return-value]
        return await self.inner.call_pinned(procedure, payload, provider=provider, timeout_s=timeout_s)

    async def providers(self, procedure: str) -> list[ProviderInfo]:
        if self.no_listing is not None:
            raise self.no_listing
        if self.listing_takes is not None:
            await self.listing_takes.wait()
        return [*await self.inner.providers(procedure), *map(ProviderInfo, self.listed_again)]

    async def serve(self, procedure: str, handler: Handler) -> Served:
        self.serve_attempts += 1
        if self.serving_takes is not None:
            await self.serving_takes.wait()
        if self.no_grant is not None:
            raise self.no_grant
        served = await self.inner.serve(procedure, handler)
        self.served.append(procedure)
        return _Watched(served, lambda: self._end(self.withdrawn, procedure))

    def _end(self, ended: list[str], what: str) -> None:
        ended.append(what)
        if self.no_end is not None:
            raise self.no_end

    async def publish(self, topic: str, payload: object, *, ttl_s: float = 600.0) -> None:
        if self.no_publishing is not None:
            raise self.no_publishing
        await self.inner.publish(topic, payload, ttl_s=ttl_s)
        self.published.append((topic, payload))

    async def subscribe(self, topic: str) -> Any:
        if self.no_subscription is not None:
            raise self.no_subscription
        subscription = await self.inner.subscribe(topic)
        self.subscribed.append(subscription)
        return _Watched(subscription, lambda: self._end(self.unsubscribed, topic))

    async def close(self) -> None:
        await self.inner.close()


class SealingNode(Node):
    """A node that can be called under seal."""

    names_kem_key = True

    def __init__(self, inner: MemoryTransport) -> None:
        super().__init__(inner)
        self.modes: list[str] = []

    async def serve_sealed(self, procedure: str, handler: Handler, *, confidential: str) -> Served:
        self.modes.append(confidential)
        return await self.serve(procedure, handler)


class Shards:
    """A mesh, the nodes on it and their federations, all of which are closed in the end."""

    def __init__(self, clock: StillClock | None = None) -> None:
        self.mesh = MemoryMesh()
        self.clock = clock
        self.nodes: list[Any] = []
        self.federations: list[Federation] = []

    async def __aenter__(self) -> Self:
        """Hand out the mesh."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close federations first, then nodes."""
        for node in self.nodes:
            node.no_publishing = node.no_end = None
        for federation in self.federations:
            await federation.close()
        for node in self.nodes:
            await node.close()

    def node(self, node_id: str, kind: Callable[[MemoryTransport], Any] = Node) -> Any:
        """Join a node."""
        self.nodes.append(kind(self.mesh.node(node_id=node_id)))
        return self.nodes[-1]

    async def member(self, node: Any, embedding: Embedding = NOMIC, **more: Any) -> Federation:
        """A federation of one node, configured."""
        self.federations.append(Federation(self.clock))
        await self.federations[-1].configure(node, REALM, options(embedding, **{"query_timeout_ms": 20_000, **more}))
        return self.federations[-1]

    async def shard(self, node_id: str, *hits: Mapping[str, Any], embedding: Embedding = NOMIC, search: Any = None, bloom: bytes = b"",
                    shard_id: str = "") -> tuple[Node, Federation]:
        """A node that serves hits, and says so; it has to be made after those that are to know of it."""
        node = self.node(node_id)
        member = await self.member(node, embedding, shard_id=shard_id or f"shard-{node_id[:2]}")
        await member.register_responder(search or finding(*hits))
        await member.advertise(bloom=bloom)
        await settle()
        return node, member

    async def asker(self, node_id: str = ME, **more: Any) -> tuple[Node, Federation]:
        """A node that asks, and is no shard."""
        node = self.node(node_id)
        return node, await self.member(node, **more)


class ErlangPeer:
    """A node that knows macula_rag's contract alone: it writes strings as byte strings, and uses the four keys of a question."""

    def __init__(self, inner: MemoryTransport, embedding: Embedding = NOMIC, *hits: Mapping[str, Any]) -> None:
        self.inner = inner
        self.embedding = embedding
        self.hits = hits
        self.asked: list[Any] = []
        self._served: Served | None = None

    async def start(self) -> None:
        self._served = await self.inner.serve(PROCEDURE, self._answer)
        await self.inner.publish(SUMMARIZED, {"shard_id": b"erl", "model": self.embedding.model.encode(), "dim": self.embedding.dim,
                                              "topics": [], "bloom": b"", "at_ms": 1})

    def _answer(self, request: Request) -> object:
        self.asked.append(request.payload)
        return {"shard_id": b"erl", "model": self.embedding.model.encode(), "dim": self.embedding.dim, "hits": list(self.hits)}

    async def ask(self, provider: str, query: Mapping[str, object], top_k: int) -> Any:
        payload = {"query": query, "top_k": top_k, "model": self.embedding.model.encode(), "dim": self.embedding.dim}
        return (await self.inner.call_pinned(PROCEDURE, payload, provider=provider)).value

    async def close(self) -> None:
        await self.inner.close()


def no_grant() -> ServeRefused:
    """What the mesh says to a node that the organisation did not delegate."""
    return ServeRefused(PROCEDURE, "the procedure delegation of acme to this node: no record under that key")
