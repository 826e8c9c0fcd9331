"""The mesh as a provider and a caller see it, whatever carries it: calls, served procedures, and facts on topics.

A reply's type says whether the call was pinned. `PinnedReply` names the node that was addressed, and a transport may only make one
from a reply that this node's key is bound to; `UnpinnedReply` names nobody, since the mesh picked the provider and does not tell which.
A check that needs to know who answered takes the former, and the latter cannot be mistaken for it (RAG service contract §3.4).

One transport is one node in one realm. Its methods are used from one event loop. What they raise for a mesh's or a peer's fault is of
the family `rag_stdlib.mesh.errors.CallError`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, runtime_checkable

from rag_stdlib.contract.cbor import Value
from rag_stdlib.contract.nodekeys import Profile
from rag_stdlib.mesh.errors import InvalidCall, NotConfidential

if TYPE_CHECKING:
    from typing_extensions import Self

NAME_BYTES: Final = 512  # of a procedure or a topic
CALL_TIMEOUT_S: Final = 5.0
FACT_TTL_S: Final = 600.0
HANDLERS: Final = 8  # of one node, at a time
INBOX: Final = 256  # events that wait for a subscriber

_LONGEST_S: Final = 86_400.0
_LONGEST_TTL_S: Final = 3_600.0
_NODE_ID: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Request:
    """A call as its handler sees it; `caller` is the verified node id as 64 lowercase hex digits, None where there is none."""

    procedure: str
    payload: Value
    caller: str | None


@dataclass(frozen=True, slots=True)
class PinnedReply:
    """The reply of a call that named its provider; `provider` is that node's id, and the reply is bound to its key."""

    value: Value
    provider: str


@dataclass(frozen=True, slots=True)
class UnpinnedReply:
    """The reply of a call that went to any provider; nobody knows which."""

    value: Value


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """A node that serves a procedure, by its id: 64 lowercase hex digits."""

    node: str


@dataclass(frozen=True, slots=True)
class Event:
    """A fact on a topic; `publisher` is the verified node id."""

    publisher: str
    topic: str
    payload: Value


Handler: TypeAlias = Callable[[Request], object]
Confidential: TypeAlias = Literal["off", "preferred", "required"]
"""Whether calls of a procedure are sealed to its provider's key: never, where the provider names one, or else they are refused."""


class Served(Protocol):
    """A procedure that is being served."""

    async def stop(self) -> None:
        """Withdraw it; once this has returned, no handler of it runs. Calling it again is harmless."""


class Subscription(Protocol):
    """The facts of a topic as they come; iterate it, or take them one by one."""

    @property
    def dropped(self) -> int:
        """Events lost because 256 were waiting already."""

    async def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None where none came in time (None waits for ever) or the subscription has ended."""

    async def stop(self) -> None:
        """End it; events that wait can still be taken."""

    def __aiter__(self) -> Self:
        """Iterate over the events until the subscription ends."""

    async def __anext__(self) -> Event:
        """Return the next event."""


class Transport(Protocol):
    """A node on the mesh."""

    @property
    def node_id(self) -> str:
        """This node's id: 64 lowercase hex digits."""

    @property
    def profile(self) -> Profile:
        """The key profile of the realm's nodes, which signatures are judged under."""

    async def call(self, procedure: str, payload: object = None, *, timeout_s: float = CALL_TIMEOUT_S) -> UnpinnedReply:
        """Call any provider of the procedure."""

    async def call_pinned(
        self, procedure: str, payload: object = None, *, provider: str, timeout_s: float = CALL_TIMEOUT_S,
    ) -> PinnedReply:
        """Call exactly this provider (64 hex digits); a reply that its key is not bound to does not count."""

    async def providers(self, procedure: str) -> list[ProviderInfo]:
        """List the nodes that serve the procedure, each once, the freshest advertisement first."""

    async def serve(self, procedure: str, handler: Handler) -> Served:
        """Advertise a procedure and answer its calls by `handler`, a plain function.

        Handlers run in threads of a bounded pool, in the context of this call (grants, runtime), never on the event loop. A
        `Refusal` that a handler raises becomes the caller's provider error; so does any other exception, which is logged as well.
        """

    async def publish(self, topic: str, payload: object, *, ttl_s: float = FACT_TTL_S) -> None:
        """Tell a fact to those who listen to the topic; it is worth nothing after `ttl_s` seconds (at most an hour)."""

    async def subscribe(self, topic: str) -> Subscription:
        """Listen to a topic."""

    async def close(self) -> None:
        """Leave the mesh: withdraw everything, end subscriptions, wait for handlers that run. Further calls fail."""


@runtime_checkable
class SealingTransport(Protocol):
    """What a transport has beside the methods of `Transport` where calls of its procedures can be sealed."""

    @property
    def names_kem_key(self) -> bool:
        """Whether this node names a key that callers can seal to."""

    async def serve_sealed(self, procedure: str, handler: Handler, *, confidential: Confidential) -> Served:
        """Serve as `Transport.serve` does, with a mode of sealing in the advertisement."""


async def served(transport: Transport, procedure: str, handler: Handler, confidential: Confidential | None = None) -> Served:
    """Serve a procedure with a mode of sealing; by None, and where the transport cannot seal, as `Transport.serve` does.

    Raises:
        CallError: As `Transport.serve`; `NotConfidential` ``kem_advertise_disabled`` for ``required`` where the transport cannot seal.
    """
    if confidential is not None and isinstance(transport, SealingTransport):
        return await transport.serve_sealed(procedure, handler, confidential=confidential)
    if confidential == "required":
        raise NotConfidential("kem_advertise_disabled", "this mesh seals no calls")
    return await transport.serve(procedure, handler)


def own_procedure(node_id: str, name: str) -> str:
    """Name a procedure in a node's own namespace, which needs no organisation's grant: ``~<node id>/<name>``."""
    return f"~{node_id}/{name}"


def checked_procedure(procedure: str) -> str:
    """Return a procedure's name: ``<org>/<name>`` or ``~<node id>/<name>``, of at most 512 UTF-8 bytes.

    Raises:
        InvalidCall: another form.
    """
    _check_name("a procedure", procedure)
    org, slash, name = procedure.partition("/")
    if not slash or not name:
        raise InvalidCall(f"the procedure {procedure!r} is not named as <org>/<name>")
    checked_org(org)
    return procedure


def checked_org(org: str) -> str:
    """Return what stands before the slash of a procedure: an organisation's name, or ``~<node id>``.

    Raises:
        InvalidCall: It is empty, ``_``, or holds a slash.
    """
    _check_name("an organisation", org)
    if org == "_" or "/" in org:
        raise InvalidCall(f"{org!r} is no organisation; that is a name without a slash, and not _")
    if org.startswith("~"):
        checked_node(org[1:])
    return org


def checked_topic(topic: str) -> str:
    """Return a topic's name, of 1 to 512 UTF-8 bytes; `InvalidCall` otherwise."""
    return _check_name("a topic", topic)


def _check_name(kind: str, name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidCall(f"the name {name!r} of {kind} is no Unicode text") from None
    if not 0 < size <= NAME_BYTES:
        raise InvalidCall(f"the name of {kind} has 1 to {NAME_BYTES} bytes, not {size:,}")
    if "\0" in name:  # at which some peers would cut it off
        raise InvalidCall(f"the name {name!r} of {kind} holds a NUL")
    return name


def checked_node(node: str) -> str:
    """Return a node id in lower case.

    Raises:
        InvalidCall: it is not 64 hex digits.
    """
    lower = node.lower() if isinstance(node, str) else ""
    if not _NODE_ID.fullmatch(lower):
        raise InvalidCall(f"a node id is 64 hex digits, not {node!r:.100}")
    return lower


def checked_seconds(seconds: float, longest: float = _LONGEST_S) -> float:
    """Return a time in seconds as a float.

    Raises:
        InvalidCall: it is no number above 0, or more than `longest`.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= longest:
        raise InvalidCall(f"a time is a number of seconds above 0 and at most {longest:,.0f}")
    return float(seconds)


def checked_ttl(seconds: float) -> float:
    """Return the life of a fact in seconds, which is at most an hour; `InvalidCall` otherwise."""
    return checked_seconds(seconds, _LONGEST_TTL_S)


def checked_handler(handler: Handler) -> Handler:
    """Return a handler; `InvalidCall` for one that is no plain function, whose body would run outside its thread."""
    kinds = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if not callable(handler) or any(is_kind(body) for is_kind in kinds for body in (handler, type(handler).__call__)):
        raise InvalidCall("a handler is a plain function; it runs in a thread, where nothing awaits or iterates it")
    return handler
