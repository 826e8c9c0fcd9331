"""JSON as a certificate has it: one value for one text, or refused (docs/certificate.md, checks 1 and 2).

Readers of JSON differ in what they make of a member that stands twice, of a number that they cannot hold, of half a surrogate pair. What one
of them would read differently from another is no certificate.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 32
MAX_INTEGER: Final = 2**53 - 1

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of half a pair: the only way that one alone comes in
_MAX_DIGITS: Final = 16
_GZIP: Final = b"\x1f\x8b"


class MalformedJson(ValueError):  # noqa: N818 - a verdict on bytes
    """The bytes are no JSON of this kind; the text says why, and quotes nothing of them."""


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Read a value of objects, arrays, text, numbers, booleans and null; whole numbers are ints, others floats, which no certificate of ours holds.

    Raises:
        MalformedJson: no RFC 8259 JSON in UTF-8 (without a byte order mark), a member twice in an object, a whole number beyond ±(2^53 - 1) or
            ``-0``, a fraction beyond the range of a double, a lone surrogate, more than 32 levels of objects and arrays.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        packed = ", and it begins as a file that gzip made" if data.startswith(_GZIP) else ""
        raise MalformedJson(f"byte {error.start} is not UTF-8{packed}") from None
    if text.startswith("\ufeff"):
        raise MalformedJson("it begins with a byte order mark")
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_int=_integer, parse_float=_fraction, parse_constant=_no_number)
    except MalformedJson:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedJson(f"it is no JSON: {_words(error, text)}") from None
    _check_depth(value)
    if _SURROGATE.search(data):
        _check_texts(value)
    return value


def _words(error: ValueError, text: str) -> str:
    """Say what the parser of Python says, and of a text that was cut off that it ends too early."""
    words = str(error).partition(":")[0]
    if words.startswith("Unterminated string"):
        return "it ends within a text"
    is_cut = isinstance(error, json.JSONDecodeError) and 0 < len(text.rstrip()) <= error.pos
    return f"it ends too early, {words}" if is_cut else words


def _check_depth(value: Any) -> None:  # noqa: ANN401 - any JSON
    level, depth = [value] if isinstance(value, (dict, list)) else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        parts = (part for some in level for part in (some.values() if isinstance(some, dict) else some))
        level = [part for part in parts if isinstance(part, (dict, list))]


def _too_deep() -> MalformedJson:
    return MalformedJson(f"objects and arrays are nested more than {MAX_DEPTH} deep")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise MalformedJson("an object has a member twice")
    return made


def _integer(digits: str) -> int:
    if digits == "-0" or len(digits) > _MAX_DIGITS + 1 or abs(int(digits)) > MAX_INTEGER:
        raise MalformedJson("a number is -0, or beyond ±(2^53 - 1)")
    return int(digits)


def _fraction(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise MalformedJson("a number is beyond what a double holds")
    return number


def _no_number(_written: str) -> NoReturn:
    raise MalformedJson("a number is none that JSON has (NaN, an infinity)")


def _check_texts(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Look for lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedJson("a text holds a lone surrogate") from None
