"""How a call came to its end: read off a run, written as fields of its result event, and delivered on replay.

A recorded exception is raised again as what it was where its class can be named without loading code a trace asks for: the
builtin classes and those the call lists in `raises`. Any other is a `RecordedError` with the same text. Stack traces are
never kept: they differ between machines.
"""

from __future__ import annotations

import builtins
from contextlib import suppress
from typing import Any, Final, TypeVar

from replay.errors import Divergence, NotRecordable, RecordedError
from replay.jsontext import checked
from replay.recorder import Call, Cancelled, Ending, Raised, Returned

R = TypeVar("R")

CANCEL_SECONDS: Final = 30.0
_OWN: Final = {f"{NotRecordable.__module__}.{NotRecordable.__qualname__}": NotRecordable}


def of_result(call: Call[R], result: R) -> Returned:
    """Return the ending of a call that returned; `NotRecordable` where its result is no JSON."""
    value = call.encode(result)
    if call.kind == "approval" and type(value) is not bool:
        raise NotRecordable(f"$ (type {type(value).__name__}) is no approval: {call.tool} must give True or False")
    return Returned(value if call.plain else checked(value))


def of_error(error: BaseException) -> Raised:
    """Return the ending of a call that raised."""
    arguments: list[Any] | None = None
    with suppress(NotRecordable):
        arguments = checked(list(error.args))
    kind = type(error)
    return Raised(f"{kind.__module__}.{kind.__qualname__}", str(error), arguments)


def to_fields(ending: Raised | Cancelled) -> dict[str, Any]:
    """Return the further fields by which a result event holds an ending without a result."""
    if isinstance(ending, Raised):
        return {"raised": {"type": ending.type, "message": ending.message, "args": ending.args}}
    return {"cancelled": True}


def deliver(call: Call[R], ending: Ending, step: int | None = None) -> R:
    """End a call as it ended when it was recorded: return its result, or raise its exception."""
    if isinstance(ending, Returned):
        return call.decode(ending.value)
    if isinstance(ending, Raised):
        raise rebuilt(ending, call.raises)
    raise Divergence("not_cancelled", f"replay divergence: {call.tool} was cancelled when it was recorded, and nothing can cancel "
                     "a call that is not awaited", step=step)


async def adeliver(call: Call[R], ending: Ending, step: int | None = None) -> R:
    """Do what `deliver` does for an awaited call; one that was cancelled waits until it is cancelled again."""
    if not isinstance(ending, Cancelled):
        return deliver(call, ending, step)
    import asyncio

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().create_future(), CANCEL_SECONDS)
    raise Divergence("not_cancelled", f"replay divergence: {call.tool} was cancelled when it was recorded; nobody cancelled it "
                     f"within {CANCEL_SECONDS:g} s", step=step)


def rebuilt(ending: Raised, classes: tuple[type[BaseException], ...] = ()) -> BaseException:
    """Make the recorded exception again, or a `RecordedError` in its place."""
    kind = _named(ending.type, classes)
    if kind is not None:
        with suppress(Exception):
            if ending.args is not None:
                error = kind(*ending.args)
                if type(error) is kind and str(error) == ending.message:
                    return error
        with suppress(Exception):
            error = kind.__new__(kind)
            error.args = (ending.message,)
            if str(error) == ending.message:
                return error
    return RecordedError(ending.type, ending.message)


def _named(name: str, classes: tuple[type[BaseException], ...]) -> type[BaseException] | None:
    for kind in classes:
        if f"{kind.__module__}.{kind.__qualname__}" == name:
            return kind
    module, _, own = name.rpartition(".")
    named = getattr(builtins, own, None) if module == "builtins" else _OWN.get(name)
    return named if isinstance(named, type) and issubclass(named, BaseException) else None
