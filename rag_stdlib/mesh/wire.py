"""What a payload may hold, checked before it is handed to any transport, so that all of them carry the same values unchanged.

The mesh carries text, integers of 64 bits, finite floats, null, byte strings, lists, and maps with text keys (Macula's wire rules). There
are no booleans; 1 and 0 stand for them. A payload shares the bounds of CBOR on the mesh with the frame around it, so its own are a little
lower: at most 63 levels, and 131,008 values and keys. What some peer would read as another value is refused with its place in the payload: numpy's
scalars, text that is no Unicode, and a map of exactly ``{"$bytes": …}``, which is how some of them write a byte string in JSON.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, cast

from rag_stdlib.contract.cbor import MAX_BYTES, MAX_DEPTH, MAX_ITEMS, Value, decode, encode_plain
from rag_stdlib.mesh.errors import PayloadRefused

BYTES_KEY: Final = "$bytes"
PAYLOAD_DEPTH: Final = MAX_DEPTH - 1  # the frame is a map around it
PAYLOAD_ITEMS: Final = MAX_ITEMS - 64  # what the frame keeps for its own

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_SHORT: Final = 23  # the largest argument that stands in the head itself
_PLAIN_KEY: Final = frozenset({str})
_FEW_CHARS: Final = 256  # of keys whose order is kept
_FLOAT: Final = 9  # bytes; floats are always binary64
_HEADS: Final = (1, 2, 3, 5, 9)  # bytes a head takes, and the largest arguments of all but the last (RFC 8949 §3)
_ARGUMENTS: Final = (_SHORT, 0xFF, 0xFFFF, 0xFFFF_FFFF)
_SHOWN_KEY: Final = 60  # characters of a key in a place
_SHOWN_PARTS: Final = 8  # parts of a place from either end


def outgoing(value: object) -> Value:
    """Return a payload as plain values: tuples as lists, subclasses of str and dict as such, keys in the order in which CBOR has them.

    Raises:
        PayloadRefused: a value that the mesh does not carry, with its place (``hits[3].meta.flag is a boolean; …``); or, as
            ``payload_too_large``, one whose CBOR takes more than a frame of 16,777,215 bytes.
    """
    load = _Load()
    try:
        taken = load.take(value, 0)
        load.add(0)  # numbers were added up without a look at the bound
    except _Unfit as unfit:
        raise PayloadRefused(f"{_place(unfit.path)} {unfit.words}") from None
    return taken


def pack(value: object) -> bytes:
    """Write a payload as deterministic CBOR; raises as `outgoing` does."""
    return encode_plain(outgoing(value))


def unpack(data: bytes) -> Value:
    """Read a payload that a peer wrote; raises `rag_stdlib.contract.cbor.CborError` for anything but strict CBOR."""
    return decode(data)


class _Unfit(Exception):  # noqa: N818 - a verdict on its way out of the walk, which adds the place
    """A value that the mesh does not carry; `path` grows from the inside out."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words
        self.path: list[str | int] = []


class _Load:
    """A walk through one payload; `size` counts the bytes of its CBOR so far, `items` its values and keys.

    Every reply of a provider passes here, so values of the usual types take the short way.
    """

    __slots__ = ("items", "size")

    def __init__(self) -> None:
        self.items, self.size = 1, 0

    def take(self, value: object, depth: int) -> Value:
        kind = type(value)
        if kind is str:
            return self._text(cast("str", value))
        if kind is dict or isinstance(value, dict):
            return self._map(cast("dict[object, object]", value), depth + 1)
        if kind is list or isinstance(value, (list, tuple)):
            return self._list(cast("list[object]", value), depth + 1)
        if isinstance(value, str) and kind.__module__ != "numpy":
            return self._text(str.__str__(value))
        return self._scalar(value)

    def _scalar(self, value: object) -> int | float | bytes | None:
        kind = type(value)
        if kind is float or kind is int:
            self.size += _number_size(cast("int | float", value))
        elif kind is bytes:
            self.add(_sized(len(cast("bytes", value))))
        elif value is None:
            self.size += 1
        elif kind is bool:
            raise _Unfit("is a boolean; the mesh carries 1 and 0")
        else:
            raise _Unfit(f"is of type {_kind(value)}; the mesh carries text, plain numbers, null, bytes, lists and maps")
        return cast("int | float | bytes | None", value)

    def _text(self, value: str) -> str:
        try:
            size = len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError as error:
            raise _Unfit(f"holds a lone surrogate at character {error.start}; it is no Unicode text") from None
        if size <= _SHORT:
            self.size += size + 1
        else:
            self.add(_sized(size))
        return value

    def _list(self, value: list[object] | tuple[object, ...], depth: int) -> Value:
        self._enter(len(value), len(value), depth)
        taken: list[Value] = []
        for item in value:
            try:
                taken.append(self.take(item, depth))
            except _Unfit as unfit:
                unfit.path.append(len(taken))
                raise
        return taken

    def _map(self, value: dict[object, object], depth: int) -> Value:
        if len(value) == 1 and BYTES_KEY in value:
            raise _Unfit(f'is a map of exactly {{"{BYTES_KEY}": …}}, which peers read as a byte string; send bytes, or name the key otherwise')
        self._enter(len(value), 2 * len(value), depth)
        taken: dict[str | int, Value] = {}
        for key in _ordered(value):
            try:
                name = self._text(str.__str__(key))
                if name in taken:
                    raise _Unfit("stands twice in its map")
                taken[name] = self.take(value[key], depth)
            except _Unfit as unfit:
                unfit.path.append(str.__str__(key))
                raise
        return taken

    def _enter(self, count: int, inner: int, depth: int) -> None:
        if depth > PAYLOAD_DEPTH:
            raise _Unfit(f"lies deeper than {PAYLOAD_DEPTH} levels")
        self.items += inner
        if self.items > PAYLOAD_ITEMS:
            raise PayloadRefused(f"it holds more than {PAYLOAD_ITEMS:,} values and keys")
        self.add(_head(count))

    def add(self, size: int) -> None:
        """Count bytes, up to the bound."""
        self.size += size
        if self.size > MAX_BYTES:
            raise PayloadRefused(f"it takes more than {MAX_BYTES:,} bytes", "payload_too_large")


def _ordered(mapping: dict[object, object]) -> Iterable[str]:
    """Return the keys of a map in the order of their encodings: by length, then byte by byte."""
    if {*map(type, mapping)} <= _PLAIN_KEY and sum(map(len, cast("dict[str, object]", mapping))) <= _FEW_CHARS:
        return _in_order(cast("tuple[str, ...]", tuple(mapping)))
    for key in mapping:
        if not isinstance(key, str) or type(key).__module__ == "numpy":
            raise _Unfit(f"has a key of type {_kind(key)}; keys are text")
    return sorted(cast("dict[str, object]", mapping), key=_encoded)


@lru_cache(maxsize=1_024)
def _in_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Order keys; the maps of a reply have the same ones time and again."""
    return tuple(sorted(keys, key=_encoded))


def _encoded(key: str) -> tuple[int, bytes]:
    encoded = key.encode(errors="surrogatepass")  # a lone surrogate is refused where its place is known
    return len(encoded), encoded


def _number_size(value: float) -> int:
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise _Unfit("is an integer beyond 64 bits")
        return _head(value if value >= 0 else -1 - value)
    if not math.isfinite(value):
        raise _Unfit(f"is {value}; the mesh carries finite numbers")
    return _FLOAT


def _sized(length: int) -> int:
    return _head(length) + length


def _head(argument: int) -> int:
    return 1 if argument <= _SHORT else _HEADS[bisect_left(_ARGUMENTS, argument)]


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _place(path: list[str | int]) -> str:
    """Write a path, given from the inside out, as ``hits[3].meta.flag``."""
    if not path:
        return "the payload"
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" if len(part) <= _SHOWN_KEY and part.isidentifier() else f"[{part[:_SHOWN_KEY]!r}]"
             for part in reversed(path)]
    if len(parts) > 2 * _SHOWN_PARTS:
        parts[_SHOWN_PARTS:-_SHOWN_PARTS] = ["…"]
    return "".join(parts).removeprefix(".")
