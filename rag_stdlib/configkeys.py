"""What a key of corvid.toml may hold, and the words for what is wrong with a value."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its Python type, the words it may be, whether it may be empty, and the range of a number.

    Of a list, `words` and `check` are about each of its strings. `check` says what is wrong with a string, or returns an empty one.
    """

    kind: type
    words: tuple[str, ...] = ()
    blank: bool = False
    least: float | None = None
    most: float | None = None
    check: Callable[[str], str] | None = None


def problem(key: Key, value: object) -> str:
    """Say what is wrong with a value, or return an empty string."""
    if key.kind is list:
        return _list_problem(key, value)
    wanted = (int, float) if key.kind is float else key.kind
    if not isinstance(value, wanted) or isinstance(value, bool):
        name = {str: "a string", int: "a whole number", float: "a number"}[key.kind]
        return f"must be {name}, not {_toml_name(value)}"
    if isinstance(value, str):
        return _string_problem(key, value)
    if key.least is not None and key.most is not None and not key.least <= cast("float", value) <= key.most:
        return f"must lie between {key.least:g} and {key.most:g}, not {value}"
    return ""


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Say which known word is meant by one that is not known, or which words there are."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f" (there are: {', '.join(known)})"


def _string_problem(key: Key, value: str) -> str:
    if key.words and value not in key.words:
        return f"is {value!r}{nearest(value, key.words)}"
    if "\0" in value:
        return "must not hold U+0000"
    if not key.blank and not value.strip():
        return "must not be empty"
    found = key.check(value) if key.check is not None else ""
    return f"is {value!r:.200}: {found}" if found else ""


def _list_problem(key: Key, value: object) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return f"must be a list of strings, not {_toml_name(value)}"
    if not value and not key.blank:
        return "must not be empty"
    for item in value:
        if key.words and item not in key.words:
            return f"names {item!r}{nearest(item, key.words)}"
        found = key.check(item) if key.check is not None else ""
        if found:
            return f"names {item!r:.200}: {found}"
    return ""


def _toml_name(value: object) -> str:
    names = {bool: "a boolean", int: "a whole number", float: "a float", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")
