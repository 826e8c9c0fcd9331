"""Values as JSON text: what may be recorded, how it is written and read, and when two values are the same.

JSON types are told apart as JSON tells them: true, 1, 1.0 and "1" are four values, the order of an object's keys is none of
its value, and -0.0 is 0.0. A value outside JSON is refused by name instead of being bent into something near it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from replay.errors import NotRecordable

Json: TypeAlias = Any
Step: TypeAlias = "int | str"

MAX_DEPTH: Final = 100  # levels of lists and objects; a value that holds itself has more
INT_MIN, INT_MAX = -(2**63), 2**64 - 1

_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATETIME
_STRICT: Final = _PLAIN | orjson.OPT_PASSTHROUGH_SUBCLASS
_SORTED: Final = _STRICT | orjson.OPT_SORT_KEYS
_DIGITS: Final = bytes(ord("0") if ord("0") <= code <= ord("9") else ord(" ") for code in range(256))
_LONG: Final = b"0" * 19  # an integer beyond 64 bits has at least this many digits
_REMEDY: Final = {
    "numpy.generic": "convert it with .item()", "numpy.ndarray": "convert it with .tolist()", "datetime.date": "convert it with .isoformat()",
    "datetime.time": "convert it with .isoformat()", "datetime.timedelta": "convert it with .total_seconds()", "uuid.UUID": "convert it with str()",
    "pathlib.PurePath": "convert it with str()", "enum.Enum": "take its .value", "decimal.Decimal": "convert it with str()",
    "bytes": "decode it, or give it as base64", "bytearray": "decode it, or give it as base64", "set": "give a sorted list",
    "frozenset": "give a sorted list", "tuple": "give a list: a tuple would come back as one", "bool": "convert it with bool()",
    "int": "convert it with int()", "float": "convert it with float()", "str": "convert it with str()", "list": "convert it with list()",
    "dict": "convert it with dict()",
}


class _Misfit(Exception):  # noqa: N818 - carries a finding up to where its path is known
    """What is wrong with a value; each level it passes adds its step."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[Step] = []


def canonical(value: Json, where: str = "$") -> Json:
    """Return a strict copy of an argument: exact JSON types only, tuples as lists, -0.0 as 0.0.

    Raises:
        NotRecordable: for anything else (subclasses, NaN, integers beyond 64 bits, lone surrogates, keys that are no str,
            more than 100 levels), with the path from `where` and the type.
    """
    try:
        return _copy(value, MAX_DEPTH)
    except _Misfit as misfit:
        raise NotRecordable(_message(where, misfit)) from None


def checked(value: Json, where: str = "$") -> Json:
    """Return a result itself when it is JSON that comes back as it went: as `canonical`, but -0.0 stays and a tuple is refused.

    Raises:
        NotRecordable: as `canonical`.
    """
    try:
        _walk(value, MAX_DEPTH)
    except _Misfit as misfit:
        raise NotRecordable(_message(where, misfit)) from None
    return value


def _copy(value: Json, room: int) -> Json:
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if kind is float and math.isfinite(value):
        return value + 0.0  # -0.0 + 0.0 is 0.0
    if kind is list or kind is tuple:
        return _each(value, room, _copy)
    if kind is dict:
        return _each_of(value, room, _copy)
    _check_leaf(value)
    return value


def _walk(value: Json, room: int) -> None:
    kind = type(value)
    if kind is list:
        _each(value, room, _walk)
    elif kind is dict:
        _each_of(value, room, _walk)
    else:
        _check_leaf(value)


def _each(items: list[Json] | tuple[Json, ...], room: int, step: Callable[[Json, int], Json]) -> list[Json]:
    _check_room(room)
    done: list[Json] = []
    try:
        for item in items:
            done.append(step(item, room - 1))  # noqa: PERF401 - its length names the item that fails
    except _Misfit as misfit:
        misfit.steps.append(len(done))
        raise
    return done


def _each_of(members: dict[str, Json], room: int, step: Callable[[Json, int], Json]) -> dict[str, Json]:
    _check_room(room)
    done: dict[str, Json] = {}
    key: Json = ""
    for key, item in members.items():
        if type(key) is not str:
            raise _Misfit(f"has a key of type {_name(type(key))}: keys are strings")
        if not key.isascii():
            _check_text(key)
        try:
            done[key] = step(item, room - 1)
        except _Misfit as misfit:
            misfit.steps.append(key)
            raise
    return done


def _check_room(room: int) -> None:
    if room <= 0:
        raise _Misfit(f"is nested deeper than {MAX_DEPTH} levels, or holds itself")


def _check_leaf(value: Json) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_text(value)
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:
            raise _Misfit("is an int beyond 64 bits: give it as a string")
    elif kind is float:
        if not math.isfinite(value):
            raise _Misfit(f"is a float that JSON does not have ({value}): give null or a string")
    elif value is not None and kind is not bool:
        raise _Misfit(f"is of type {_name(kind)}, which is not JSON: {_remedy(kind)}")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Misfit("has a str with a lone surrogate, which UTF-8 does not have: decode its bytes otherwise") from None


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _remedy(kind: type) -> str:
    return next((_REMEDY[name] for name in map(_name, kind.__mro__) if name in _REMEDY), "convert it to JSON types first")


def _message(where: str, misfit: _Misfit) -> str:
    return f"{where}{path_of(misfit.steps[::-1], '')} {misfit.problem}"


def path_of(steps: list[Step], root: str = "$") -> str:
    """Write a place in a value: ``$[2].limit``, ``$["odd key"]``; a path of more than eight steps keeps its ends."""
    parts = [_step(step) for step in steps]
    if len(parts) > 8:  # noqa: PLR2004 - what a reader can take in
        parts = [*parts[:4], "…", *parts[-4:]]
    return root + "".join(parts)


def _step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.isascii() and step.isidentifier():
        return f".{step}"
    return f"[{short(step, 40)}]"


def encode(value: Json) -> bytes:
    """Return compact UTF-8 JSON with the keys in their order; frozen dataclasses and subclasses of dict become objects.

    This trusts the value: a NaN becomes null here, an Enum its value, a tuple an array, a str subclass a string. `checked` looks.

    Raises:
        NotRecordable: for what JSON cannot hold, with its path and type.
    """
    try:
        return orjson.dumps(value, option=_PLAIN)
    except TypeError as error:
        raise NotRecordable(_unwritable(value, str(error))) from None


def _unwritable(value: Json, problem: str) -> str:
    """Go down to the innermost part that cannot be written, and say what it is."""
    steps: list[Step] = []
    while len(steps) < MAX_DEPTH:
        for step, part in _parts(value):
            try:
                orjson.dumps(part, option=_PLAIN)
            except TypeError as error:
                steps.append(step)
                value, problem = part, str(error)
                break
        else:
            break
    return f"{path_of(steps)} (type {_name(type(value))}) cannot be written as JSON: {problem}"


def _parts(value: Json) -> list[tuple[Step, Json]]:
    from dataclasses import fields, is_dataclass

    if isinstance(value, dict):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []


def decode(data: bytes | str) -> Json:
    """Read JSON text; integers of any size stay integers.

    Raises:
        ValueError: for what is not JSON (NaN, lone surrogates, bytes that are no UTF-8, nesting beyond reason).
    """
    text = data.encode() if isinstance(data, str) else data
    value = orjson.loads(text)
    if not _has_long_integers(text, value):
        return value
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _has_long_integers(text: bytes, value: Json) -> bool:
    """Say whether a text has integers beyond 64 bits, which the fast reader turns into floats.

    A float is never written like such an integer. So a text that is written again as it was, as all of ours are, has none; nor
    has one without so many digits in a row.
    """
    try:
        if orjson.dumps(value) == text:
            return False
    except TypeError:  # nested deeper than is written
        pass
    return _LONG in text.translate(_DIGITS) and any(map(_beyond, re.finditer(rb"-?[0-9]{19,}", text)))


def _beyond(run: re.Match[bytes]) -> bool:
    digits = run.group()
    return len(digits) > 20 or not INT_MIN <= int(digits) <= INT_MAX  # noqa: PLR2004 - of 2**64 - 1


def match_key(value: Json) -> bytes:
    """Return bytes that are equal for two values exactly when they are the same JSON.

    The value is one that `canonical` or `decode` returned: like `encode`, this does not look for NaN.

    Raises:
        NotRecordable: for a value that is not JSON.
    """
    text = _sorted_text(value)
    return _sorted_text(_without_negative_zero(value)) if b"-0.0" in text else text


def _sorted_text(value: Json) -> bytes:
    try:
        return orjson.dumps(value, option=_SORTED)
    except TypeError as error:
        problem = str(error)
    try:  # an integer beyond 64 bits, out of another writer's trace
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise NotRecordable(_unwritable(value, problem))
    return text


def _without_negative_zero(value: Json) -> Json:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {key: _without_negative_zero(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_negative_zero(part) for part in value]
    return value


class _Missing:
    """What stands on the side that has no value at a path."""

    def __repr__(self) -> str:
        return "(absent)"


MISSING: Final = _Missing()


class Difference(NamedTuple):
    """The first place where two values differ, with both sides; a side that has nothing there is `MISSING`."""

    path: str
    left: Json
    right: Json


def first_difference(left: Json, right: Json) -> Difference | None:
    """Return the first place where two JSON values differ: list items in order, keys in the left one's order, then the right one's."""
    waiting: list[tuple[Any, Json, Json]] = [((), left, right)]  # a place is (place above, step)
    while waiting:
        place, one, other = waiting.pop()
        if one is other:
            continue
        if type(one) is not type(other):
            return Difference(_place(place), one, other)
        if isinstance(one, dict):
            keys = [*one, *(key for key in other if key not in one)]
            waiting.extend(((place, key), one.get(key, MISSING), other.get(key, MISSING)) for key in reversed(keys))
        elif isinstance(one, list):
            waiting.extend(((place, at), _item(one, at), _item(other, at)) for at in reversed(range(max(len(one), len(other)))))
        elif one != other:
            return Difference(_place(place), one, other)
    return None


def _item(items: list[Json], at: int) -> Json:
    return items[at] if at < len(items) else MISSING


def _place(place: Any) -> str:  # noqa: ANN401 - a linked list
    steps: list[Step] = []
    while place:
        place, step = place
        steps.append(step)
    return path_of(steps[::-1])


def short(value: Json, width: int = 80) -> str:
    """Return a value as one line of at most about `width` characters for a message: JSON, cut in the middle, nothing unprintable."""
    try:
        text = repr(value) if value is MISSING else encode(value).decode()
    except NotRecordable:
        text = repr(value)
    if len(text) > 2 * width:
        return _cut(_printable(text[:width]) + "…" + _printable(text[-width:]), width)
    return _cut(_printable(text), width)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[:width - 1 - tail]}…{text[len(text) - tail:]}"
