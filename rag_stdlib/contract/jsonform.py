"""Values of the mesh as JSON text, to be kept or shown: what CBOR tells apart stays apart.

A byte string becomes ``{"$bytes": "<base64>"}``; everything else is the JSON of the same kind, an integer without and a float
with a point or exponent. Nothing is bent to fit: a value that would not come back as it went is refused, and so is text that
this module could not have meant (a key twice, a boolean, base64 with a digit to spare).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from rag_stdlib.contract import cbor
from rag_stdlib.contract.cbor import Value

BYTES: Final = "$bytes"  # the one key of a byte string
MAX_CHARS: Final = 32 * 1024 * 1024  # of JSON text: two full frames of the mesh
MAX_DEPTH: Final = cbor.MAX_DEPTH + 1  # a record of values from the mesh stands one level above them
MAX_ITEMS: Final = 2 * cbor.MAX_ITEMS  # an answer and its description

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_INT_DIGITS: Final = 20  # a longer one is beyond 64 bits, and reading it would take ever longer


class JsonFormError(ValueError):
    """A value has no JSON form, or a text is none; the message names the first fault."""


def to_json(value: object, *, indent: int | None = None) -> str:
    """Write a value that the mesh can carry as JSON text; tuples count as lists, and `bytearray` as bytes.

    Raises:
        JsonFormError: It holds what the mesh does not carry (a boolean, NaN, an integer beyond 64 bits, a lone surrogate, more
            than 65 levels, another type), a key that is no text, or a map with the key ``$bytes``, which would come back as
            bytes; or the text would have more than 32 Mi characters.
    """
    plain = _Walk().plain(value, MAX_DEPTH)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent, separators=None if indent else (",", ":"))
    _check_size(text)
    return text


def from_json(text: str | bytes) -> Value:
    """Read what `to_json` wrote.

    Raises:
        JsonFormError: It is no JSON in UTF-8, longer than 32 Mi characters, or holds what `to_json` would refuse, a key twice, or
            a ``$bytes`` beside other keys or with anything but the one base64 of its bytes.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()
        _check_size(decoded)
        value: Value = json.loads(decoded, object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)
    except RecursionError:
        raise JsonFormError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise JsonFormError(f"it is no JSON in UTF-8: {error}") from None
    _Walk().check(value, MAX_DEPTH)
    return value


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARS:
        raise JsonFormError(f"the text has {len(text):,} characters; the most is {MAX_CHARS:,}")


def _object(pairs: list[tuple[str, Any]]) -> Any:  # noqa: ANN401 - a map, or the bytes it stands for
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise JsonFormError(f"the key {_shown(name)} stands twice in a map")
        members[name] = value
    return _bytes(members) if BYTES in members else members


def _bytes(members: dict[str, Any]) -> bytes:
    text = members[BYTES]
    if len(members) == 1 and isinstance(text, str):
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            data = None
        if data is not None and base64.b64encode(data).decode() == text:
            return data
    raise JsonFormError(f"a map with the key {BYTES} holds it alone, with base64 in its one canonical form")


def _integer(digits: str) -> int:
    if len(digits) > _INT_DIGITS:
        raise JsonFormError("an integer is beyond 64 bits")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise JsonFormError(f"{name} is no number that the mesh carries")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:39] + "…")  # noqa: PLR2004 - what a message has room for


class _Walk:
    """One way through a value, with what is left of the items it may have."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def plain(self, value: object, room: int) -> Any:  # noqa: ANN401 - JSON
        """Copy a value as JSON."""
        if isinstance(value, (list, tuple)):
            self._enter(len(value), room)
            return [self.plain(item, room - 1) for item in value]
        if isinstance(value, Mapping):
            self._enter(2 * len(value), room)
            if BYTES in value:
                raise JsonFormError(f"a map has the key {BYTES}, and would come back as bytes")
            return {self._key(key): self.plain(item, room - 1) for key, item in value.items()}
        if isinstance(value, (bytes, bytearray)):
            return {BYTES: base64.b64encode(value).decode()}
        return _leaf(value)

    def check(self, value: object, room: int) -> None:
        """Refuse what JSON can say and the mesh cannot carry; bytes are made already."""
        if isinstance(value, list):
            self._enter(len(value), room)
            for item in value:
                self.check(item, room - 1)
        elif isinstance(value, dict):
            self._enter(2 * len(value), room)
            for key, item in value.items():
                self._key(key)
                self.check(item, room - 1)
        elif not isinstance(value, bytes):
            _leaf(value)

    def _enter(self, items: int, room: int) -> None:
        self._left -= items
        if room <= 0:
            raise JsonFormError(f"it is nested deeper than {MAX_DEPTH} levels, or holds itself")
        if self._left < 0:
            raise JsonFormError(f"it holds more than {MAX_ITEMS:,} items")

    @staticmethod
    def _key(key: object) -> str:
        if not isinstance(key, str):
            raise JsonFormError(f"a map has a key of the type {type(key).__name__}; JSON has text alone")
        return _text(key)


def _leaf(value: object) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return None
    if isinstance(value, bool):
        raise JsonFormError("there are no booleans on the mesh; say 1 or 0")
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise JsonFormError("an integer is beyond 64 bits")
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise JsonFormError(f"{float.__repr__(value)} is no number that the mesh carries")
        return float.__float__(value)
    raise JsonFormError(f"a value of the type {type(value).__name__} does not cross the mesh")


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise JsonFormError(f"text holds a lone surrogate at character {error.start}") from None
    return str.__str__(text)
