"""The seam between a tool and what records or replays its calls: `Call`, the ways a call can end, and the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

R = TypeVar("R")

Kind: TypeAlias = Literal["tool", "llm", "approval"]
KINDS: tuple[Kind, ...] = ("tool", "llm", "approval")
Ranking: TypeAlias = Callable[[Any], "list[tuple[str, float | None]] | None"]


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call of a tool, as a recorder sees it.

    `arguments()` are the JSON arguments in order; `encode` turns the result into JSON (frozen dataclasses encode as
    objects) and `decode` turns it back, so that a recorded result can stand in for a live one. None of the three is called
    unless the recorder needs it.

    `kind` says which events the call becomes. `plain` vouches that `encode` gives JSON, which is then not walked to see.
    `raises` are exception classes that a replay may raise again, beside the builtin ones. `facts()`, asked after the run, says
    what state answered. `ranking` reads a ranked list of (item id, score), best first, out of an encoded result.
    """

    tool: str
    arguments: Callable[[], list[Any]]
    encode: Callable[[R], Any]
    decode: Callable[[Any], R]
    kind: Kind = "tool"
    plain: bool = False
    raises: tuple[type[BaseException], ...] = ()
    facts: Callable[[], dict[str, Any]] = dict
    ranking: Ranking | None = None


class Recorder(Protocol):
    """What stands between a tool's edge and its work."""

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        """Return the call's result: by running it, or from a trace without running anything."""

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:
        """Do the same for a call that is awaited."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The call returned this value (JSON)."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The call raised: the qualified name of the exception's class, its text, and its arguments where they are JSON."""

    type: str
    message: str
    args: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The call was cancelled before it came to an end."""


Ending: TypeAlias = "Returned | Raised | Cancelled"
