"""Canonical JSON (RFC 8785, JCS): the one text of a JSON value, which hashes and signatures are made over.

The work is that of the rfc8785 package, behind a guard: bounded depth and size, and one error for all that has no canonical form.
Nothing is normalised: ``é`` and ``e`` with a combining accent stay two different keys, and a number is never rounded to fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Final

MAX_DEPTH: Final = 64  # arrays and objects around each other
MAX_ITEMS: Final = 1_048_576  # values, each object and array among them
MAX_INTEGER: Final = 2**53 - 1  # the largest that every reader of JSON holds exactly (RFC 7493 §2.2)


class CanonicalError(ValueError):
    """The value has no canonical JSON form; the message says why."""


def canonical(value: object) -> bytes:
    """Write a value of dicts, lists or tuples, text, numbers, booleans and None as canonical JSON, in UTF-8.

    Raises:
        CanonicalError: A number is NaN, infinite or an integer beyond ±(2^53 - 1); text or a key holds a lone surrogate; a key
            is no text; the value is of another type, nested more than 64 deep, or has more than 1,048,576 parts.
    """
    if _is_plain(value):
        return canonical_plain(value)
    import rfc8785

    return rfc8785.dumps(value)  # type: ignore[arg-type]  # what it takes was just made sure of


def canonical_plain(value: object) -> bytes:
    """Write a value that is known to hold neither fractions nor keys beyond ASCII, and nothing that `canonical` would refuse.

    Of such a value Python's own writer, which is far quicker, writes the very same text: RFC 8785 asks for its escapes (section 3.2.2.2), and differs
    in how fractions are written (3.2.2.3) and in the order of keys beyond the basic plane (3.2.3).
    """
    return json.dumps(value, ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True).encode()


def _is_plain(value: object) -> bool:
    """Check a value, and tell whether `canonical_plain` may write it."""
    seen, plain = 1, True
    rest: list[tuple[object, int]] = [(value, 1)]
    while rest:
        item, depth = rest.pop()
        inner: Collection[object]
        if isinstance(item, dict):
            _check_keys(item)
            plain = plain and all(map(str.isascii, item))
            inner = item.values()
        elif isinstance(item, (list, tuple)):
            inner = item
        else:
            _check_scalar(item)
            plain = plain and not isinstance(item, float)
            continue
        seen += len(inner)
        if depth > MAX_DEPTH:
            raise CanonicalError(f"arrays and objects are nested more than {MAX_DEPTH} deep")
        if seen > MAX_ITEMS:
            raise CanonicalError(f"there are more than {MAX_ITEMS:,} values")
        rest.extend((part, depth + 1) for part in inner)
    return plain


def _check_keys(item: dict[object, object]) -> None:
    for key in item:
        if not isinstance(key, str):
            raise CanonicalError(f"a key is of the type {type(key).__name__}, no text")
        _check_text(key, "a key")


def _check_scalar(item: object) -> None:
    if isinstance(item, str):
        _check_text(item, "a text")
    elif isinstance(item, int):
        if abs(item) > MAX_INTEGER:
            raise CanonicalError("an integer is beyond ±(2^53 - 1), where readers of JSON begin to round; write it as text")
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise CanonicalError(f"a number is {item}")
    elif item is not None:
        raise CanonicalError(f"a value is of the type {type(item).__name__}, which JSON does not have")


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CanonicalError(f"{what} holds a lone surrogate at character {error.start}") from None
