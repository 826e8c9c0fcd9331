"""Effects: what a tool may do, said on the tool and enforced at each call.

A tool carries a row of effects (``rag_search.__effects__ == (RAG_READ,)``). What may run in a context is the *grant*:
the effects that corvid.toml grants, narrowed by the `grant(...)` blocks and `@uses` functions around the call. Blocks
only ever intersect. A thread that was started without a context carries no grant at all; start it through `carry`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, cast

from rag_stdlib.errors import rag_error
from rag_stdlib.result import RagError

P = ParamSpec("P")
R = TypeVar("R")

Trust: TypeAlias = Literal["autonomous", "supervisor_required", "human_required"]
_TRUST_ORDER: Final = ("autonomous", "supervisor_required", "human_required")


@dataclass(frozen=True, slots=True)
class Effect:
    """A named effect with its profile in Corvid's dimensions; the defaults are the neutral elements of `compose`.

    `cost` is in dollars, `latency_ms` in milliseconds; `confidence` lies in [0, 1].
    """

    name: str
    reversible: bool = True
    data: frozenset[str] = field(default_factory=frozenset)
    trust: Trust = "autonomous"
    cost: float = 0.0
    tokens: int = 0
    latency_ms: float = 0.0
    confidence: float = 1.0


RAG_READ: Final = Effect("rag_read")
RAG_WRITE: Final = Effect("rag_write", reversible=False, data=frozenset({"external"}))
EFFECTS: Final[dict[str, Effect]] = {effect.name: effect for effect in (RAG_READ, RAG_WRITE)}


def compose(*effects: Effect) -> Effect:
    """Compose the profiles of calls that happen one after another.

    Cost, tokens and latency add up; trust takes the strictest; data is the union; one irreversible part makes the whole
    irreversible; confidence is the least. The name joins the distinct names in sorted order.
    """
    names = sorted({name for effect in effects for name in effect.name.split("+") if name})
    return Effect(
        "+".join(names),
        reversible=all(effect.reversible for effect in effects),
        data=frozenset().union(*(effect.data for effect in effects)),
        trust=max((effect.trust for effect in effects), key=_TRUST_ORDER.index, default="autonomous"),
        cost=sum(effect.cost for effect in effects),
        tokens=sum(effect.tokens for effect in effects),
        latency_ms=sum(effect.latency_ms for effect in effects),
        confidence=min((effect.confidence for effect in effects), default=1.0),
    )


_EVERYTHING: Final = frozenset({"*"})  # no block around the call: only corvid.toml decides
_NOTHING: Final[frozenset[str]] = frozenset()
_grant: ContextVar[frozenset[str]] = ContextVar("rag_stdlib_grant")
_deterministic: ContextVar[bool] = ContextVar("rag_stdlib_deterministic", default=False)

if threading.current_thread() is threading.main_thread():
    _grant.set(_EVERYTHING)  # so that contexts copied from the main thread carry it


def _current() -> frozenset[str]:
    granted = _grant.get(None)
    if granted is not None:
        return granted
    return _EVERYTHING if threading.current_thread() is threading.main_thread() else _NOTHING


def _narrow(names: frozenset[str]) -> frozenset[str]:
    current = _current()
    return names if current == _EVERYTHING else current & names


@contextmanager
def grant(*effects: Effect | str) -> Iterator[None]:
    """Allow at most these effects inside the block; what an outer block took away stays away.

    Raises:
        ValueError: a name that is no effect.
    """
    token = _grant.set(_narrow(_names(effects)))
    try:
        yield
    finally:
        _grant.reset(token)


def _names(effects: Iterable[Effect | str]) -> frozenset[str]:
    names = frozenset(effect if isinstance(effect, str) else effect.name for effect in effects)
    unknown = names - EFFECTS.keys()
    if unknown:
        msg = f"no such effect: {', '.join(sorted(unknown))} (there are: {', '.join(sorted(EFFECTS))})"
        raise ValueError(msg)
    return names


@contextmanager
def deterministic() -> Iterator[None]:
    """Refuse every tool call inside the block, as Corvid's ``@deterministic`` does."""
    token = _deterministic.set(True)
    try:
        yield
    finally:
        _deterministic.reset(token)


def uses(*effects: Effect | str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Tag a function, sync or async, with its effect row and hold it to the row.

    The row is readable as ``fn.__effects__``. While the function runs, a tool that needs an effect outside the row is
    refused, even where the caller would be granted it.

    Raises:
        ValueError: a name that is no effect.
        TypeError: a generator function, whose body runs outside any one call; put `grant(...)` inside it.
    """
    names = _names(effects)
    row = tuple(EFFECTS[name] for name in sorted(names))

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator cannot be held to an effect row; put grant(...) inside it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - the coroutine's own type
                with grant(*names):
                    return await function(*args, **kwargs)
        else:

            @functools.wraps(function)
            def wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - the function's own type
                with grant(*names):
                    return function(*args, **kwargs)

        tagged = cast("Callable[P, R]", wrapper)
        tagged.__effects__ = row  # type: ignore[attr-defined]
        return tagged

    return decorate


@contextmanager
def authority() -> Iterator[None]:
    """Give a context that carries no grant the one that corvid.toml allows: for whoever holds a `Runtime`."""
    token = _grant.set(_EVERYTHING) if _grant.get(None) is None else None
    try:
        yield
    finally:
        if token is not None:
            _grant.reset(token)


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the calling context, to run it in another thread: its grant, its runtime, its other variables."""
    context = copy_context()
    context.run(_grant.set, _current())

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)  # a copy, since a context runs in one thread at a time

    return wrapper


def refusal(tool: str, row: Iterable[Effect], configured: frozenset[str]) -> RagError | None:
    """Say why `tool` may not run here, or None if it may. `configured` is corvid.toml's grant."""
    if _deterministic.get():
        return rag_error("deterministic_context", tool=tool)
    current = _current()
    for effect in row:
        if effect.name not in configured:
            return rag_error("effect_not_granted", tool=tool, effect=effect.name,
                             hint="; see [effects] grant in corvid.toml")
        if current != _EVERYTHING and effect.name not in current:
            bare = _grant.get(None) is None
            hint = "; this thread carries no context: start its function through rag_stdlib.carry, and import rag_stdlib before tasks start" if bare else ""
            return rag_error("effect_not_granted", tool=tool, effect=effect.name, hint=hint)
    return None
