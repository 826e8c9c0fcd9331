"""`@replay.tool`: makes any function, sync or async, a tool whose calls are recorded and replayed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast, overload

from replay.ambient import current
from replay.recorder import KINDS, Call, Kind, Ranking

F = TypeVar("F", bound=Callable[..., Any])

_BOUND: Final = ("self", "cls")


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - JSON
    return value


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, kind: Kind = "tool", encode: Callable[[Any], Any] | None = None,
         decode: Callable[[Any], Any] | None = None, encode_args: Callable[[list[Any]], list[Any]] | None = None,
         raises: Sequence[type[BaseException]] = (), ignore: Sequence[str] = (),
         ranking: Ranking | None = None) -> Callable[[F], F]: ...


def tool(function: F | None = None, /, *, name: str | None = None, kind: Kind = "tool",
         encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None,
         encode_args: Callable[[list[Any]], list[Any]] | None = None, raises: Sequence[type[BaseException]] = (),
         ignore: Sequence[str] = (), ranking: Ranking | None = None) -> F | Callable[[F], F]:
    """Make a function a tool: inside a session its calls are recorded, or answered from the trace; outside it just runs.

    Arguments count in the order of the parameters, defaults filled in, so that ``f(1)`` and ``f(x=1)`` are one call; `self`,
    `cls` and the parameters named in `ignore` (clients, connections) do not count. Arguments and results are JSON; for
    others give `encode_args`, and `encode` with `decode`. `raises` are exception classes of your own that a replay may
    raise again. `kind` "llm" and "approval" write the events of a prompt and of an approval (whose function returns a bool).
    `ranking` reads [(item id, score)] out of an encoded result, for reports of what changed.

    Raises:
        TypeError: a generator function, whose values come outside any one call; encode without decode.
        ValueError: an unknown kind; a parameter in `ignore` that the function does not have.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, not one of {', '.join(KINDS)}")
    if (encode is None) != (decode is None):
        raise TypeError("encode and decode belong together: what one writes the other reads")

    def decorate(function: F) -> F:
        reader = _Arguments(function, ignore, encode_args)
        called = name or function.__name__

        def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
            bound = reader.bound(args, kwargs)
            return Call(called, lambda: reader.listed(bound), encode or _as_it_is, decode or _as_it_is, kind=kind,
                        raises=tuple(raises), ranking=ranking)

        return _wrapped(function, call_of)

    return decorate if function is None else decorate(function)


def _wrapped(function: F, call_of: Callable[[tuple[Any, ...], dict[str, Any]], Call[Any]]) -> F:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own types
            session = current()
            if session is None:
                return await function(*args, **kwargs)
            return await session.acall(call_of(args, kwargs), lambda: function(*args, **kwargs))

        return cast("F", awaited)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own types
        session = current()
        if session is None:
            return function(*args, **kwargs)
        return session.call(call_of(args, kwargs), lambda: function(*args, **kwargs))

    return cast("F", called)


class _Arguments:
    """Reads the arguments that count out of a call."""

    def __init__(self, function: Callable[..., Any], ignore: Sequence[str],
                 encode: Callable[[list[Any]], list[Any]] | None) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} is a generator; its values come outside any one call, so it cannot be a tool")
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters
        unknown = [name for name in ignore if name not in parameters]
        if unknown:
            raise ValueError(f"{function.__name__} has no parameter {', '.join(unknown)} to ignore")
        first = next(iter(parameters), "")
        self._left_out = {*ignore, *([first] if first in _BOUND else [])}
        self._encode = encode

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Bind a call as Python would; `TypeError` where it does not fit."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def listed(self, bound: inspect.BoundArguments) -> list[Any]:
        """Return the arguments that count, in the order of the parameters."""
        found = [list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
                 for name, value in bound.arguments.items()
                 if name not in self._left_out for kind in (self._signature.parameters[name].kind,)]
        return found if self._encode is None else self._encode(found)
