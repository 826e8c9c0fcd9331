"""`@replay.tool`: makes any function, sync or async, a tool whose calls are recorded and replayed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast, overload

from replay.ambient import current
from replay.recorder import KINDS, Call, Kind, Ranking
from replay.redaction.patterns import names_a_secret

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
    others give `encode_args`, and `encode` with `decode`. A string given to a parameter whose name says that it is a secret
    (password, api_key, token …) counts as ``<redacted>``, and `encode_args` gets it so. `raises` are exception classes of your own that a replay may
    raise again. `kind` "llm" and "approval" write the events of a prompt and of an approval (whose function returns a bool).
    `ranking` reads [(item id, score)] out of an encoded result, for reports of what changed.

    Objects that can be called do as well: of a `functools.partial` the arguments that it holds do not count.

    Raises:
        TypeError: a generator function, whose values come outside any one call; encode without decode; something that
            cannot be called, or whose parameters cannot be told.
        ValueError: an unknown kind; a parameter in `ignore` that the function does not have.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, not one of {', '.join(KINDS)}")
    if (encode is None) != (decode is None):
        raise TypeError("encode and decode belong together: what one writes the other reads")

    def decorate(function: F) -> F:
        reader = _Arguments(function, ignore, encode_args)
        called = name or _name_of(function)

        def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
            bound = reader.bound(args, kwargs)
            return Call(called, lambda: reader.listed(bound), encode or _as_it_is, decode or _as_it_is, kind=kind,
                        raises=tuple(raises), ranking=ranking)

        return _wrapped(function, call_of)

    return decorate if function is None else decorate(function)


def _name_of(function: Any) -> str:  # noqa: ANN401 - anything that can be called
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _wrapped(function: F, call_of: Callable[[tuple[Any, ...], dict[str, Any]], Call[Any]]) -> F:
    if any(map(inspect.iscoroutinefunction, _bodies(function))):

        @_wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own types
            session = current()
            if session is None:
                return await function(*args, **kwargs)
            return await session.acall(call_of(args, kwargs), lambda: function(*args, **kwargs))

        return cast("F", awaited)

    @_wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own types
        session = current()
        if session is None:
            return function(*args, **kwargs)
        return session.call(call_of(args, kwargs), lambda: function(*args, **kwargs))

    return cast("F", called)


def _wraps(function: Callable[..., Any]) -> Callable[[F], F]:
    """Give a wrapper what the function says of itself; the attributes of an object that is called are its own affair."""

    def named(wrapper: F) -> F:
        updated = functools.WRAPPER_UPDATES if hasattr(function, "__name__") else ()
        functools.update_wrapper(wrapper, function, updated=updated)
        wrapper.__name__ = _name_of(function)
        wrapper.__qualname__ = getattr(function, "__qualname__", wrapper.__name__)
        return wrapper

    return named


def _bodies(function: Any) -> tuple[Any, ...]:  # noqa: ANN401 - anything that can be called
    """Return what may run when something is called: a function, or what an object's class says."""
    while isinstance(function, functools.partial):
        function = function.func
    return (function,) if isinstance(function, type) else (function, type(function).__call__)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called, so it cannot be a tool; @replay.tool stands below @classmethod and @staticmethod")
    try:
        return inspect.signature(function)
    except ValueError:
        msg = f"{_name_of(function)} does not say what its parameters are; write a function of your own that calls it"
        raise TypeError(msg) from None


class _Arguments:
    """Reads the arguments that count out of a call."""

    def __init__(self, function: Callable[..., Any], ignore: Sequence[str],
                 encode: Callable[[list[Any]], list[Any]] | None) -> None:
        self._signature = _signature(function)
        if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in _bodies(function)):
            raise TypeError(f"{_name_of(function)} is a generator; its values come outside any one call, so it cannot be a tool")
        parameters = self._signature.parameters
        unknown = [name for name in ignore if name not in parameters]
        if unknown:
            raise ValueError(f"{_name_of(function)} has no parameter {', '.join(unknown)} to ignore")
        first = next(iter(parameters), "")
        left_out = {*ignore, *([first] if first in _BOUND else [])}
        self._counted = tuple(name for name in parameters if name not in left_out)
        kinds = [parameters[name].kind for name in self._counted]
        self._sequences = tuple(index for index, kind in enumerate(kinds) if kind is inspect.Parameter.VAR_POSITIONAL)
        self._secrets = tuple(index for index, name in enumerate(self._counted) if names_a_secret(name.encode()))
        self._encode = encode

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Bind a call as Python would; `TypeError` where it does not fit."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def listed(self, bound: inspect.BoundArguments) -> list[Any]:
        """Return the arguments that count, in the order of the parameters, without those that are secrets by name."""
        arguments = bound.arguments
        found = [arguments[name] for name in self._counted]
        for index in self._sequences:
            found[index] = list(found[index])
        for index in self._secrets:
            found[index] = _without_secrets(found[index])
        return found if self._encode is None else self._encode(found)


def _without_secrets(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Do as the redactor does with what stands under a telling key: strings go, and strings in a list."""
    if isinstance(value, (list, tuple)):
        return [_without_secrets(item) if isinstance(item, str) else item for item in value]
    from replay.redaction.redactor import REDACTED  # a session has loaded it

    return REDACTED if isinstance(value, str) and value else value
