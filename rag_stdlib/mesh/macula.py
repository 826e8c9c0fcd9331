"""A node on the real mesh: macula-py's links to its stations as a `rag_stdlib.mesh.transport.Transport`.

    transport = await MaculaTransport.connect("node.key", [Seed("station.example.org", 4433, station_id)], realm_id("io.example"), realm_key)
    serving = await provider.serve(transport)

A pinned call's reply counts only when it is signed by the node that was named, for this very request, whatever the stations in between do;
the library checks that. Who may serve what is checked by every node against the realm's key (Macula's provider authorization, D25): an
organisation grants its procedures to nodes, and a node's own namespace ``~<node id>/…`` needs no grant and no realm key.

A call is sealed whenever its provider names a key for that, so that no station in between can read it or its reply. A node names one with
``kem_advertise=True``, and `serve_sealed` says how a single procedure is to be called.

The library links again by itself when a station comes back, and then advertises and subscribes again. A station that closes its links
is missed at once; one that dies without a word is noticed after about a minute, and until then calls over it end in `CallTimeout`.

Needs the extra ``mesh``: macula-py, and so Python 3.11.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args

from rag_stdlib.contract.cbor import Value
from rag_stdlib.contract.nodekeys import PUZZLE_BITS, NodeKey, Profile, well_formed
from rag_stdlib.keyfile import load_key
from rag_stdlib.mesh.errors import CallTimeout, InvalidCall, NoProvider, RelayError, ServeRefused, TransportClosed
from rag_stdlib.mesh.macula_errors import GONE, not_confidential, serve_refused, within
from rag_stdlib.mesh.macula_facts import MaculaSubscription
from rag_stdlib.mesh.macula_library import Starts, library, native_key
from rag_stdlib.mesh.macula_serving import MaculaServed, carried
from rag_stdlib.mesh.transport import (
    CALL_TIMEOUT_S,
    FACT_TTL_S,
    HANDLERS,
    Confidential,
    Handler,
    PinnedReply,
    ProviderInfo,
    UnpinnedReply,
    checked_node,
    checked_procedure,
    checked_seconds,
    checked_topic,
    checked_ttl,
)

if TYPE_CHECKING:
    import macula_py
    from typing_extensions import Self

CONNECT_TIMEOUT_S: Final = 30.0
GRANT_RETRY_S: Final = 30.0

_REGISTRATION_S: Final = 35.0  # the library itself gives a station 30 s to accept a registration
_MAX_PORT: Final = 65_535
_NODE_ID_BITS: Final = 256


class Seed(NamedTuple):
    """A station to link to; nothing is believed that does not prove this node id."""

    host: str
    port: int
    node_id: str


def realm_id(name: str) -> str:
    """Compute the id of the realm of this name, ``io.example``, say: 64 lowercase hex digits."""
    return hashlib.sha256(name.encode()).hexdigest()


class MaculaTransport:
    """A node of one realm. ``async with`` closes it in the end. It is used from one event loop.

    Attributes:
        node_id: Its id.
        profile: The profile of its key.
        realm: The realm's id.
        names_kem_key: Whether its advertisements name a key that callers can seal to.
    """

    def __init__(
        self, key: NodeKey, native: macula_py.NodeKey, pool: macula_py.Pool, realm: str, grant_retry_s: float, names_kem_key: bool,
    ) -> None:
        """Take over links that are up; `connect` makes them."""
        self.node_id: Final = key.node_id
        self.profile: Final[Profile] = key.profile
        self.realm: Final = realm
        self.names_kem_key: Final = names_kem_key
        self._native_key = native
        self._pool = pool
        self._grant_retry_s = grant_retry_s
        self._threads = ThreadPoolExecutor(HANDLERS, thread_name_prefix=f"mesh-{key.node_id[:8]}")
        self._starts = Starts()
        self._served: dict[str, MaculaServed] = {}
        self._subscriptions: set[MaculaSubscription] = set()
        self._leaving: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls, key: NodeKey | str | os.PathLike[str], seeds: Sequence[tuple[str, int, str]], realm: str, realm_key: bytes | None = None, *,
        profile: Profile | None = None, timeout_s: float = CONNECT_TIMEOUT_S, grant_retry_s: float = GRANT_RETRY_S, kem_advertise: bool = False,
    ) -> Self:
        """Link to stations, and return when one link is up; the others follow.

        Args:
            key: The node's key, or the file that holds it (`rag_stdlib.keyfile`).
            seeds: The stations, each as host, port and node id.
            realm: The realm's id, 64 hex digits (`realm_id`).
            realm_key: The realm's public key as carried. Without it, only nodes' own namespaces can be served and called.
            profile: The profile that the key must be of; any by default.
            timeout_s: How long to wait for a link.
            grant_retry_s: How long to wait between two questions for a grant that is not there.
            kem_advertise: Make a key, kept in memory alone, and name it in advertisements, so that callers seal to it. It has to wait until
                every station of the realm runs macula 12.11 or later.

        Raises:
            Failure: `mesh_not_installed`, or what `rag_stdlib.keyfile.load_key` says of a file.
            CallError: `CallTimeout` where no station answers and proves its id in time, `InvalidCall` for malformed arguments.
        """
        stations, seconds = _checked_seeds(seeds), checked_seconds(timeout_s)
        realm, retry = _checked_realm(realm), checked_seconds(grant_retry_s)
        macula = library()
        loaded = key if isinstance(key, NodeKey) else await asyncio.to_thread(load_key, key, profile)
        _check_key(loaded, profile, realm_key)
        native = await within(seconds, asyncio.to_thread(native_key, loaded), "macula-py, which reads the key")
        trust = {} if realm_key is None else {realm: realm_key}
        try:
            pool = await within(seconds, macula.Pool.connect(
                native, [macula.Seed(*station) for station in stations], realm_trust=trust, timeout_ms=_milliseconds(seconds),
                kem_advertise=bool(kem_advertise),
            ), f"any station of {', '.join(f'{host}:{port}' for host, port, _ in stations)} that proves its node id")
        except BaseException:
            native.free()
            raise
        return cls(loaded, native, pool, realm, retry, bool(kem_advertise))

    @property
    def linked(self) -> bool:
        """Whether a link to a station is up, as far as is known."""
        import macula_py

        try:
            return any(link.up for link in self._pool.status())
        except macula_py.ClosedError:
            return False

    @property
    def ungranted(self) -> dict[str, str]:
        """The procedures that wait to be granted to this node, each with the reason why they are not advertised."""
        return {name: served.reason for name, served in self._served.items() if served.reason is not None}

    async def call(self, procedure: str, payload: object = None, *, timeout_s: float = CALL_TIMEOUT_S) -> UnpinnedReply:
        """Call any provider of the procedure that the realm trusts, without learning which.

        Raises:
            CallError: `NoProvider`, `ProviderError`, `RelayError`, `CallTimeout`, `PayloadRefused`, `ReplyRefused`, `NotConfidential`,
                `InvalidCall`, `TransportClosed`, `MeshFailure`.
        """
        return UnpinnedReply(await self._asked(procedure, payload, None, timeout_s))

    async def call_pinned(
        self, procedure: str, payload: object = None, *, provider: str, timeout_s: float = CALL_TIMEOUT_S,
    ) -> PinnedReply:
        """Call exactly this provider; raises as `call`."""
        node = checked_node(provider)
        return PinnedReply(await self._asked(procedure, payload, node, timeout_s), node)

    async def _asked(self, procedure: str, payload: object, provider: str | None, timeout_s: float) -> Value:
        """Call; where the library remembered a provider that is gone, look who serves now and call once more. No handler was entered."""
        self._check_open()
        checked_procedure(procedure)
        body, seconds, loop = carried(payload), checked_seconds(timeout_s), asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            return await self._called(procedure, body, provider, seconds, seconds)
        except RelayError as error:
            if error.code != GONE:
                raise
            listed = await self._listed(procedure, end - loop.time(), seconds)
            if not listed or provider not in (None, *listed):
                raise
        return await self._called(procedure, body, provider or listed[0], end - loop.time(), seconds)

    async def _called(self, procedure: str, body: Value, provider: str | None, left: float, given: float) -> Value:
        if left <= 0:
            raise CallTimeout(procedure, given)
        reply = self._pool.call(self.realm, procedure, body, provider=provider, timeout_ms=_milliseconds(left))
        return cast("Value", await within(left, reply, procedure, provider, given_s=given))

    async def providers(self, procedure: str) -> list[ProviderInfo]:
        """List the nodes whose advertisement the realm's key vouches for, the freshest first; a `CallError` within 5 seconds otherwise."""
        self._check_open()
        checked_procedure(procedure)
        return [ProviderInfo(node) for node in await self._listed(procedure, CALL_TIMEOUT_S, CALL_TIMEOUT_S)]

    async def _listed(self, procedure: str, left: float, given: float) -> list[str]:
        """List providers, each once though it serves through several stations."""
        if left <= 0:
            raise CallTimeout(procedure, given)
        listing = self._pool.providers(self.realm, procedure, timeout_ms=_milliseconds(left))
        try:
            found = await within(left, listing, procedure, given_s=given)
        except NoProvider:
            return []
        return list(dict.fromkeys(provider.node for provider in found))

    async def serve(self, procedure: str, handler: Handler) -> MaculaServed:
        """Advertise a procedure and answer its calls, at most 8 of a node at a time; more wait, as long as their callers do.

        Where the organisation has not granted its procedures to this node, that is asked for again every `grant_retry_s` seconds, and the
        procedure is advertised when it has (`ungranted` and the result's `reason` tell). A reply of more than 16,760,831 bytes is refused.

        Calls are sealed where this node names a key (`names_kem_key`) and their caller can seal.

        Raises:
            CallError: `ServeRefused` for any other reason the mesh has, for another node's namespace, and for a procedure that this node
                serves already; `InvalidCall`, `TransportClosed`.
        """
        return await self._serve(procedure, handler, None)

    async def serve_sealed(self, procedure: str, handler: Handler, *, confidential: Confidential) -> MaculaServed:
        """Serve as `serve` does, with a mode of sealing in the advertisement.

        Args:
            procedure: Its name.
            handler: What answers.
            confidential: ``off`` names no key, so that calls come in the clear; ``preferred`` is what `serve` does; ``required`` has
                every call refused that comes in the clear, as ``sealed_required``. So are those of callers that remember an advertisement
                without a key, for up to five minutes; to serve as ``preferred`` for as long before spares them that.

        Raises:
            CallError: As `serve`; `NotConfidential` ``kem_advertise_disabled`` for ``required`` of a node that names no key.
        """
        if confidential not in get_args(Confidential):
            raise InvalidCall(f"a mode of sealing is {', '.join(get_args(Confidential))}, not {confidential!r:.100}")
        return await self._serve(procedure, handler, confidential)

    async def _serve(self, procedure: str, handler: Handler, confidential: Confidential | None) -> MaculaServed:
        self._check_open()
        org = checked_procedure(procedure).partition("/")[0]
        if org.startswith("~") and org != f"~{self.node_id}":
            raise ServeRefused(procedure, "it is in the namespace of another node")
        if procedure in self._served:
            raise ServeRefused(procedure, "this node serves it already")

        async def advertise(answer: Callable[[Any], Awaitable[Value]]) -> macula_py.Served:
            return await self._advertised(procedure, answer, confidential)

        served = MaculaServed(procedure, handler, advertise, self._threads, self._grant_retry_s, lambda: self._served.pop(procedure, None))
        self._served[procedure] = served
        try:
            await served.begin()
        except BaseException:
            self._served.pop(procedure, None)
            raise
        return served

    async def _advertised(
        self, procedure: str, answer: Callable[[Any], Awaitable[Value]], confidential: Confidential | None,
    ) -> macula_py.Served:
        import macula_py

        begun = self._starts.run(self._pool.serve(self.realm, procedure, answer, confidential=confidential), lambda served: served.stop())
        try:
            return await asyncio.wait_for(begun, _REGISTRATION_S)
        except asyncio.TimeoutError:
            raise ServeRefused(procedure, f"no station has accepted it within {_REGISTRATION_S:g} s") from None
        except macula_py.ClosedError:
            raise TransportClosed("this node has left the mesh") from None
        except macula_py.ConfidentialityError as error:
            raise not_confidential(error) from None
        except macula_py.MaculaError as error:
            raise serve_refused(error, procedure, self.node_id) from None

    async def publish(self, topic: str, payload: object, *, ttl_s: float = FACT_TTL_S) -> None:
        """Tell a fact to those who listen to the topic.

        Raises:
            CallError: `PayloadRefused`, `InvalidCall`, `TransportClosed`, `CallTimeout`, `MeshFailure`.
        """
        self._check_open()
        checked_topic(topic)
        body, life = carried(payload), _milliseconds(checked_ttl(ttl_s))
        await within(CALL_TIMEOUT_S, self._pool.publish(self.realm, topic, body, ttl_ms=life), topic)

    async def subscribe(self, topic: str) -> MaculaSubscription:
        """Listen to a topic; a subscription that the mesh drops is made again after a second.

        Raises:
            CallError: `InvalidCall`, `TransportClosed`, `CallTimeout`, `MeshFailure` with a station's reason for refusing it.
        """
        self._check_open()
        checked_topic(topic)

        async def listen() -> macula_py.Subscription:
            begun = self._starts.run(self._pool.subscribe(self.realm, topic), lambda source: source.stop())
            return await within(_REGISTRATION_S, begun, topic)

        subscription = MaculaSubscription(topic, listen, lambda: self._subscriptions.discard(subscription))
        await subscription.begin()
        self._subscriptions.add(subscription)
        if self._leaving is not None:
            await subscription.stop()
        self._check_open()
        return subscription

    async def __aenter__(self) -> Self:
        """Hand out the node."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Leave the mesh: refuse new calls, wait for handlers that run and for their replies, and cut the links. Harmless if done again."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())
        await asyncio.shield(self._leaving)

    async def _leave(self) -> None:
        for subscription in tuple(self._subscriptions):
            await subscription.stop()
        await asyncio.gather(*(served.stop() for served in tuple(self._served.values())))
        await self._pool.close()
        await self._starts.settle()
        self._native_key.free()
        self._threads.shutdown()

    def _check_open(self) -> None:
        if self._leaving is not None:
            raise TransportClosed("this node has left the mesh")


def _checked_realm(realm: str) -> str:
    try:
        return checked_node(realm)
    except InvalidCall:
        raise InvalidCall(f"a realm's id is 64 hex digits (realm_id makes it of the name), not {realm!r:.100}") from None


def _checked_seeds(seeds: Sequence[tuple[str, int, str]]) -> list[Seed]:
    if not seeds:
        raise InvalidCall("a node links to at least one station")
    return [_checked_seed(*seed) for seed in seeds]


def _checked_seed(host: str, port: int, node_id: str) -> Seed:
    if not isinstance(host, str) or not host or not host.isascii() or not host.isprintable() or " " in host:
        raise InvalidCall(f"a station's host is a name or an address, not {host!r:.100}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= _MAX_PORT:
        raise InvalidCall(f"a station's port is 1 to {_MAX_PORT}, not {port!r:.100}")
    return Seed(host, port, checked_node(node_id))


def _check_key(key: NodeKey, profile: Profile | None, realm_key: bytes | None) -> None:
    """Check what a station would refuse without a word, or with it every advertisement of the realm."""
    if profile not in (None, key.profile):
        raise InvalidCall(f"the node's key is of the profile {key.profile}, not {profile}")
    if int(key.node_id, 16) >> (_NODE_ID_BITS - PUZZLE_BITS):
        raise InvalidCall(f"stations admit node ids that begin with {PUZZLE_BITS} zero bits, as NodeKey.generate makes them, and not {key.node_id}")
    if realm_key is not None and not well_formed(realm_key, key.profile):
        raise InvalidCall(f"the realm's key is no public key of the profile {key.profile}, which the node's key is of")


def _milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1_000))
