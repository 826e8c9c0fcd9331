"""How a call came to its end: read off a run, written as fields of its result event, and delivered on replay.

A recorded exception is raised again as what it was where its class can be named without loading code a trace asks for: the
builtin classes and those the call lists in `raises`. Any other is a `RecordedError` with the same text. Stack traces are
never kept: they differ between machines.

The arguments of an exception are kept as JSON. What JSON does not have stands in it as an object with one key:

    {"$tuple": […]}             a tuple
    {"$bytes": ["abc", 255]}    bytes: runs of UTF-8, so that secrets in them are seen, and single bytes that are none
    {"$text": ["abc", 56575]}   a string with lone surrogates, by their code points
    {"$error": {"type", "message", "args"}}   an exception, as in a group
    {"$object": {…}}            an object that itself has such a key
    {"$set": {"name": …}}       behind the last argument: attributes that are given by keyword
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from replay.errors import Divergence, NotRecordable, RecordedError
from replay.jsontext import checked
from replay.recorder import Call, Cancelled, Ending, Raised, Returned

R = TypeVar("R")
Classes: TypeAlias = "tuple[type[BaseException], ...]"

CANCEL_SECONDS: Final = 30.0
_OWN: Final = {f"{NotRecordable.__module__}.{NotRecordable.__qualname__}": NotRecordable}
_INTERRUPTS: Final = (KeyboardInterrupt, GeneratorExit)
_KEYWORDS: Final[tuple[tuple[type[BaseException], tuple[str, ...]], ...]] = (
    (AttributeError, ("name",)), (NameError, ("name",)), (ImportError, ("name", "path")))
_GROUP: Final = getattr(builtins, "BaseExceptionGroup", ())
_ROOM: Final = 40  # levels of an exception's arguments, exceptions in them included
_MOST: Final = 1000  # exceptions in one; one that holds itself has more
_LARGEST: Final = 1 << 20  # bytes, or characters with surrogates among them
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = 0xDC00  # surrogateescape: what a byte that is no UTF-8 is added to


# --- read off a run ---

def of_result(call: Call[R], result: R) -> Returned:
    """Return the ending of a call that returned; `NotRecordable` where its result is no JSON."""
    value = call.encode(result)
    if call.kind == "approval" and type(value) is not bool:
        raise NotRecordable(f"$ (type {type(value).__name__}) is no approval: {call.tool} must give True or False")
    return Returned(value if call.plain else checked(value))


def of_error(error: BaseException) -> Raised | Cancelled:
    """Return the ending of a call that raised; one that was interrupted did not come to an end of its own. Never raises."""
    return Cancelled() if isinstance(error, _INTERRUPTS) else _Writer().raised(error, _ROOM)


def text_of(error: BaseException) -> str:
    """Return the text of an exception, whatever its class makes of it; lone surrogates as escapes."""
    try:
        text = str(error)
    except Exception as problem:  # noqa: BLE001 - a __str__ of somebody else's
        text = f"(no text: {type(error).__name__}.__str__ raised {type(problem).__name__})"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Return what an exception is made of; an OSError leaves its file names out of `args`."""
    if isinstance(error, OSError):
        return tuple(OSError.__reduce__(error)[1])
    return error.args


def _keywords(kind: type[BaseException]) -> tuple[str, ...]:
    return next((names for base, names in _KEYWORDS if issubclass(kind, base)), ())


class _Writer:
    """Writes one exception, with those in its arguments."""

    def __init__(self) -> None:
        self._left = _MOST

    def raised(self, error: BaseException, room: int) -> Raised:
        kind = type(error)
        arguments: list[Any] | None = None
        with suppress(Exception):  # what is no JSON, and what a class of somebody else's does
            arguments = [self._value(argument, room - 1) for argument in _arguments(error)]
            keywords = {name: value for name in _keywords(kind) if type(value := getattr(error, name)) is str}
            if keywords:
                arguments.append({"$set": checked(keywords)})
        return Raised(f"{kind.__module__}.{kind.__qualname__}", text_of(error), arguments)

    def _value(self, value: Any, room: int) -> Any:  # noqa: ANN401 - anything
        """Write an argument as JSON; `NotRecordable` where that cannot be."""
        if room < 0:
            raise NotRecordable("$ is nested too deep")
        kind = type(value)
        if kind is str:
            return {"$text": _runs(value)} if _SURROGATES.search(value) else value
        if kind is list:
            return [self._value(item, room - 1) for item in value]
        if kind is dict:
            checked(dict.fromkeys(value))  # the keys
            members = {key: self._value(item, room - 1) for key, item in value.items()}
            return {"$object": members} if any(key.startswith("$") for key in members) else members
        return self._foreign(value, room)

    def _foreign(self, value: Any, room: int) -> Any:  # noqa: ANN401 - anything
        if type(value) is tuple:
            return {"$tuple": [self._value(item, room - 1) for item in value]}
        if type(value) is bytes:
            return {"$bytes": [run if isinstance(run, str) else run - _ESCAPED for run in _runs(value.decode("utf-8", "surrogateescape"))]}
        if isinstance(value, BaseException):
            self._left -= 1
            if self._left < 0:
                raise NotRecordable("$ holds too many exceptions")
            return {"$error": _fields(self.raised(value, room - 1))}
        return checked(value)


def _runs(text: str) -> list[str | int]:
    """Take a text apart into runs without surrogates, and the code points of those."""
    if len(text) > _LARGEST:
        raise NotRecordable("$ is too large")
    parts: list[str | int] = []
    last = 0
    for found in _SURROGATES.finditer(text):
        parts += [text[last:found.start()], ord(found[0])]
        last = found.end()
    return [part for part in (*parts, text[last:]) if part != ""]


# --- written ---

def to_fields(ending: Raised | Cancelled) -> dict[str, Any]:
    """Return the further fields by which a result event holds an ending without a result."""
    return {"raised": _fields(ending)} if isinstance(ending, Raised) else {"cancelled": True}


def _fields(ending: Raised) -> dict[str, Any]:
    return {"type": ending.type, "message": ending.message, "args": ending.args}


# --- delivered ---

def deliver(call: Call[R], ending: Ending, step: int | None = None) -> R:
    """End a call as it ended when it was recorded: return its result, or raise its exception."""
    if isinstance(ending, Returned):
        return call.decode(ending.value)
    if isinstance(ending, Raised):
        raise rebuilt(ending, call.raises)
    raise _not_cancelled(call.tool, step, "a replay can neither interrupt nor cancel a call that is not awaited")


async def adeliver(call: Call[R], ending: Ending, step: int | None = None) -> R:
    """Do what `deliver` does for an awaited call; one that was cancelled waits until it is cancelled again."""
    if not isinstance(ending, Cancelled):
        return deliver(call, ending, step)
    import asyncio

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().create_future(), CANCEL_SECONDS)
    raise _not_cancelled(call.tool, step, f"nobody cancelled it within {CANCEL_SECONDS:g} s now")


def _not_cancelled(tool: str, step: int | None, problem: str) -> Divergence:
    where = "" if step is None else f" at step {step}"
    return Divergence("not_cancelled", f"replay divergence{where}: the call to {tool} was cancelled or interrupted when it was recorded, "
                      f"and {problem}", step=step)


def rebuilt(ending: Raised, classes: Classes = ()) -> BaseException:
    """Make the recorded exception again, or a `RecordedError` in its place.

    Of a class that its arguments do not make, an object is made without its constructor.
    """
    kind = _named(ending.type, classes)
    if kind is None:
        return RecordedError(ending.type, ending.message)
    with suppress(Exception):
        arguments, keywords = _read_arguments(ending.args, classes)
        for make in (_constructed, _bare):
            with suppress(Exception):
                error = make(kind, arguments)
                for name in keywords.keys() & _keywords(kind):
                    setattr(error, name, keywords[name])
                if type(error) is kind and text_of(error) == ending.message:
                    return error
    with suppress(Exception):
        return _of_text(kind, ending)
    return RecordedError(ending.type, ending.message)  # a class that is made otherwise than all others


def _constructed(kind: type[BaseException], arguments: list[Any]) -> BaseException:
    return kind(*arguments)


def _bare(kind: type[BaseException], arguments: list[Any]) -> BaseException:
    """Make an object by what is builtin of its class, so that no code of a program's own constructor runs."""
    builtin: Any = kind
    while builtin.__module__ != "builtins":
        builtin = builtin.__base__  # the one that says what its objects are made of
    error: BaseException = builtin.__new__(kind, *arguments)
    builtin.__init__(error, *arguments)
    return error


def _of_text(kind: type[BaseException], ending: Raised) -> BaseException:
    """Make an exception of which no more than the text is known."""
    message = ending.message
    if issubclass(kind, _GROUP):
        within = RecordedError(ending.type, message) if issubclass(kind, Exception) else BaseException(message)
        return _bare(kind, [re.sub(r" \(\d+ sub-exceptions?\)\Z", "", message) or "?", [within]])
    if issubclass(kind, KeyError):  # its text is how its key is printed
        return _bare(kind, [_Verbatim(message)])
    unicode: dict[type[BaseException], list[Any]] = {UnicodeDecodeError: ["?", b"", 0, 0, message], UnicodeEncodeError: ["?", "", 0, 0, message],
                                                     UnicodeTranslateError: ["", 0, 0, message]}
    return _bare(kind, next((given for base, given in unicode.items() if issubclass(kind, base)), [message]))


class _Verbatim(str):
    """A text that is printed as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _named(name: str, classes: Classes) -> type[BaseException] | None:
    for kind in classes:
        if f"{kind.__module__}.{kind.__qualname__}" == name:
            return kind
    module, _, own = name.rpartition(".")
    named = getattr(builtins, own, None) if module == "builtins" else _OWN.get(name)
    if not (isinstance(named, type) and issubclass(named, BaseException)):
        return None
    return named if module != "builtins" or named.__module__ == "builtins" else None  # anybody can put a class there


def _read_arguments(arguments: list[Any] | None, classes: Classes) -> tuple[list[Any], dict[str, str]]:
    """Read what `_Writer` wrote: arguments, and attributes."""
    if arguments is None:
        raise ValueError("the arguments are not known")
    keywords: dict[str, str] = {}
    if arguments and isinstance(arguments[-1], dict) and arguments[-1].keys() == {"$set"}:
        arguments, keywords = arguments[:-1], arguments[-1]["$set"]
    return [_read(argument, classes) for argument in arguments], keywords


def _read(value: Any, classes: Classes) -> Any:  # noqa: ANN401 - anything
    if isinstance(value, list):
        return [_read(item, classes) for item in value]
    if not isinstance(value, dict):
        return value
    (key, inner), *others = value.items() or [("", None)]
    reader = _READERS.get(key) if not others else None
    return reader(inner, classes) if reader is not None else _read_members(value, classes)


def _read_members(members: dict[str, Any], classes: Classes) -> dict[str, Any]:
    return {key: _read(item, classes) for key, item in members.items()}


def _read_error(fields: dict[str, Any], classes: Classes) -> BaseException:
    return rebuilt(Raised(str(fields["type"]), str(fields["message"]), fields["args"]), classes)


def _joined(runs: list[str | int], offset: int) -> str:
    return "".join(run if isinstance(run, str) else chr(offset + run) for run in runs)


_READERS: Final[dict[str, Callable[[Any, Classes], Any]]] = {
    "$tuple": lambda items, classes: tuple(_read(items, classes)),
    "$bytes": lambda runs, _classes: _joined(runs, _ESCAPED).encode("utf-8", "surrogateescape"),
    "$text": lambda runs, _classes: _joined(runs, 0),
    "$error": _read_error,
    "$object": _read_members,
}
