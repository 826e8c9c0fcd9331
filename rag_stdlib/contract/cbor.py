"""Macula's CBOR (RFC 8949): one way to encode a value, and a strict rule of what is read (RAG service contract §3.5).

What is written is deterministic: shortest heads, floats always in 64 bits, map keys in the order of their encoded bytes. What is
read may have its keys in any order and its numbers and lengths in any width, but never twice the same key, an indefinite length,
a tag, a simple value other than null, NaN or an infinity, an integer outside int64, a key that is neither text nor an integer,
text that is not UTF-8, or a byte after the end. Depth, items and bytes are bounded before anything is made of them.

The coding itself is cbor2's, behind a guard of ours on either side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, TypeAlias

Value: TypeAlias = "int | float | str | bytes | list[Value] | dict[str | int, Value] | None"

MAX_DEPTH: Final = 64  # arrays and maps around each other
MAX_ITEMS: Final = 131_072  # of one encoding, each key and each value of a map among them
MAX_BYTES: Final = 16 * 1024 * 1024 - 1  # a frame of the mesh

_MESSAGES: Final = {
    "bool": "there are no booleans on the mesh; 1 and 0 stand for them",
    "depth": f"arrays and maps are nested more than {MAX_DEPTH} deep",
    "duplicate_key": "a map holds a key twice",
    "float": "a number is NaN or infinite",
    "indefinite": "a length is indefinite or reserved",
    "integer": "an integer is outside the 64-bit range",
    "items": f"there are more than {MAX_ITEMS:,} items",
    "key": "a key of a map is neither text nor an integer",
    "simple": "a simple value is not null",
    "size": "it is too large",
    "tag": "a value is tagged",
    "trailing": "bytes follow the value",
    "truncated": "the bytes end before the value does",
    "type": "a value is of a type that does not cross the mesh",
    "utf8": "a text is not valid Unicode",
}
_MAX_INT: Final = 2**63 - 1
# Major types (RFC 8949 §3.1), and what else heads say.
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)
_INTEGERS: Final = (_UNSIGNED, _NEGATIVE)
_STRINGS: Final = (_TEXT, _BYTES)
_CONTAINERS: Final = (_ARRAY, _MAP)
_KEYS: Final = (_TEXT, _UNSIGNED, _NEGATIVE)
_LAST_SHORT: Final = 23  # the last number that stands in the head itself
_LAST_WIDE: Final = 27
_BOOLEANS: Final = (0xF4, 0xF5)
_NULL: Final = 0xF6
_ATOMS: Final = (str, int, float, bytes, bytearray, type(None))
_EXPONENTS: Final = {0xF9: 0x7C00, 0xFA: 0x7F80_0000, 0xFB: 0x7FF0_0000_0000_0000}  # of floats of 16, 32 and 64 bits


class CborError(ValueError):
    """A value that may not be written, or bytes that may not be read; `reason` is a short word that stays the same."""

    def __init__(self, reason: str) -> None:
        """Take one of the closed set of reasons."""
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say it in words."""
        return _MESSAGES[self.reason]


def encode(value: object, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Encode a value; equal values give equal bytes, whatever the order of their keys.

    None, integers of 64 bits, finite floats, text, bytes, lists, and mappings with text or integer keys are taken. Tuples are
    written as lists, subclasses of text and numbers as what they are made of.

    Raises:
        CborError: Anything else, and what is nested too deep, has too many items or takes more than `max_bytes`.
    """
    encoded = encode_plain(_Outgoing(max_bytes).copy(value))
    if len(encoded) > max_bytes:
        raise CborError("size")
    return encoded


def encode_plain(value: Value) -> bytes:
    """Encode a value that was checked already, and whose maps have their keys in the order of their encodings, without a look at it."""
    import cbor2

    return cbor2.dumps(value)


def decode(data: bytes, *, max_bytes: int = MAX_BYTES) -> Value:
    """Decode the one value that these bytes hold.

    Raises:
        CborError: The bytes break the rule of this module, or are more than `max_bytes`.
    """
    import cbor2

    if len(data) > max_bytes:
        raise CborError("size")
    pairs = _pairs(data)
    try:
        value: Value = cbor2.loads(data)
    except cbor2.CBORDecodeError:  # all else that could be wrong was looked at
        raise CborError("utf8") from None
    if _entries(value) != pairs:
        raise CborError("duplicate_key")
    return value


def _pairs(data: bytes) -> int:  # noqa: C901 - one loop: each call in it would be made for every item
    """Walk over the heads of an encoding and refuse what the rule forbids, but for bad text and keys held twice.

    Nothing is set aside by an announced length before the bytes for it are known to be there.

    Returns:
        The number of key and value pairs in all its maps.
    """
    end, at, pairs = len(data), 0, 0
    items = left = 1  # left: how many items the innermost open container still lacks
    in_map = False  # if it is a map, a key comes next where that number is even
    outer: list[tuple[int, bool]] = []
    while left or outer:
        if not left:
            left, in_map = outer.pop()
            continue
        if at >= end:
            raise CborError("truncated")
        head = data[at]
        number = head & 31
        at += 1
        if number > _LAST_SHORT:
            number, at = _wide(data, number, at)
        major = head >> 5
        if in_map and not left & 1 and major not in _KEYS:
            raise CborError("key")
        left -= 1
        if major in _STRINGS:
            at += number
            if at > end:
                raise CborError("truncated")
        elif major in _CONTAINERS:
            outer.append((left, in_map))
            in_map = major == _MAP
            left = 2 * number if in_map else number
            pairs += left - number
            items += left
            _check_container(len(outer), items, left, end - at)
        elif head > _LAST_SHORT:
            _check_number(head, number)
    if at != end:
        raise CborError("trailing")
    return pairs


def _wide(data: bytes, info: int, start: int) -> tuple[int, int]:
    """Read the number of a head that does not hold it itself (RFC 8949 §3), and where what follows begins."""
    if info > _LAST_WIDE:
        raise CborError("indefinite")
    end = start + (1 << (info - _LAST_SHORT - 1))
    if end > len(data):
        raise CborError("truncated")
    return int.from_bytes(data[start:end], "big"), end


def _check_container(depth: int, items: int, inner: int, rest: int) -> None:
    _check_depth(depth)
    if items > MAX_ITEMS:
        raise CborError("items")
    if inner > rest:  # each takes a byte or more
        raise CborError("truncated")


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CborError("depth")


def _check_number(head: int, number: int) -> None:
    """Refuse an integer that is too large, a float that is no number (by the bits of its exponent), and all that is none but null."""
    exponent = _EXPONENTS.get(head)
    if head >> 5 in _INTEGERS:
        if number > _MAX_INT:
            raise CborError("integer")
    elif exponent is not None:
        if number & exponent == exponent:
            raise CborError("float")
    elif head != _NULL:
        raise CborError("tag" if head >> 5 == _TAG else "bool" if head in _BOOLEANS else "simple")


def _entries(value: Value) -> int:
    """Count the entries of all maps in a value."""
    entries, rest = 0, [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            entries += len(item)
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)
    return entries


class _Outgoing:
    """Copies a value into exactly what cbor2 is to write, and stops where it grows too large."""

    __slots__ = ("_items", "_room")

    def __init__(self, max_bytes: int) -> None:
        self._items = MAX_ITEMS - 1
        self._room = max_bytes

    def copy(self, value: object, depth: int = 0) -> Value:
        """Copy a value that stands inside `depth` arrays and maps."""
        if isinstance(value, _ATOMS):
            return self._atom(value)
        if isinstance(value, (list, tuple)):
            self._enter(len(value), depth + 1)
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            self._enter(2 * len(value), depth + 1)
            keyed = sorted(((_order(key), key, item) for key, item in self._keyed(value)), key=itemgetter(0))
            return {key: self.copy(item, depth + 1) for _, key, item in keyed}
        raise CborError("type")

    def _atom(self, value: str | float | bytes | bytearray | None) -> Value:
        if value is None:
            return None
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise CborError("float")
            return float(value)
        self._take(len(value))
        return bytes(value)

    def _keyed(self, mapping: Mapping[Any, object]) -> Iterator[tuple[str | int, object]]:
        for key, value in mapping.items():
            if isinstance(key, str):
                yield self._text(key), value
            elif isinstance(key, int) and not isinstance(key, bool):
                yield _integer(key), value
            else:
                raise CborError("key")

    def _text(self, text: str) -> str:
        try:
            self._take(len(text) if text.isascii() else len(text.encode()))
        except UnicodeEncodeError:
            raise CborError("utf8") from None
        return str.__str__(text)

    def _enter(self, inner: int, depth: int) -> None:
        _check_depth(depth)
        self._items -= inner
        if self._items < 0:
            raise CborError("items")
        self._take(inner)

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise CborError("size")


def _integer(value: int) -> int:
    if isinstance(value, bool):
        raise CborError("bool")
    if not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise CborError("integer")
    return int(value)


def _order(key: str | int) -> tuple[int, int, bytes]:
    """Order keys as their encodings: by kind, then by the number or the length in the head, then byte by byte."""
    if isinstance(key, int):
        return (_UNSIGNED, key, b"") if key >= 0 else (_NEGATIVE, -1 - key, b"")
    encoded = key.encode()
    return (_TEXT, len(encoded), encoded)
