"""Which state of an index a call saw, for whoever records the call.

Inside a block of an `Observation` the state of each snapshot that is opened is noted, in the block's context and those copied from it;
the last one is what answered. Where nobody observes, nothing is looked up. Importing this loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Observation:
    """What was seen of an index inside its `with` block, which is entered once."""

    __slots__ = ("_index", "_token")

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._index: dict[str, Any] | None = None
        self._token: Token[Observation | None] | None = None

    def __enter__(self) -> Self:
        """Observe from here on."""
        self._token = _observation.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave observing to the block around this one; contexts that were copied inside go on."""
        assert self._token is not None  # noqa: S101 - set on entering
        _observation.reset(self._token)

    def see(self, index: dict[str, Any]) -> None:
        """Take note of a snapshot's state; it counts until a later one is seen."""
        self._index = index

    def facts(self) -> dict[str, Any]:
        """Return ``{"index": {"generation": int, "content": hex or None, "embedder": text}}``, empty where no index was opened."""
        return {} if self._index is None else {"index": self._index}


_observation: ContextVar[Observation | None] = ContextVar("rag_stdlib_index_state", default=None)


def looked_at(describe: Callable[[], dict[str, Any]]) -> Callable[[], None]:
    """Look at a snapshot with `describe` if somebody observes, and return what takes note of it, to be called if it counts."""
    observation = _observation.get()
    if observation is None:
        return _nothing
    index = describe()
    return lambda: observation.see(index)


def _nothing() -> None:
    """Nobody observes."""
