"""The recorder protocol, and the recorder that records nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call of a tool, as a recorder sees it.

    `arguments()` are the JSON arguments in order; `encode` turns the result into JSON and `decode` turns it back, so that
    a recorded result can stand in for a live one. None of the three is called unless the recorder needs it.
    """

    tool: str
    arguments: Callable[[], list[Any]]
    encode: Callable[[R], Any]
    decode: Callable[[Any], R]


class Recorder(Protocol):
    """What stands between a tool's edge and its work."""

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        """Return the call's result: by running it, or from a trace without running anything."""


class Live:
    """Runs every call and keeps nothing."""

    def call(self, call: Call[R], run: Callable[[], R]) -> R:  # noqa: ARG002 - the protocol's signature
        """Run the call."""
        return run()


LIVE: Final[Recorder] = Live()
