"""Reading of payloads as peers really send them: keys as text or as byte strings, text as either (RAG service contract §1.3).

An Erlang peer writes plain binaries, which arrive as byte strings, where others write text. A reader that looks for one form
alone takes what is there for missing. Where a map has a key in both forms, the text one counts, so that no two readers of it
disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def loosened(value: object) -> object:
    """Copy a value with every key that is UTF-8 bytes turned into text, at any depth; values stay as they are.

    Mappings become dicts, and lists and tuples lists. A part that stands in several places is copied once, so that neither
    cycles nor nesting cost more than the value's own size.
    """
    copies: dict[int, tuple[object, Any]] = {}  # with the original, so that its id is not given to another part
    rest: list[tuple[Any, Any]] = []

    def copy(part: object) -> object:
        if not isinstance(part, (Mapping, list, tuple)):
            return part
        if id(part) not in copies:
            copies[id(part)] = part, {} if isinstance(part, Mapping) else []
            rest.append(copies[id(part)])
        return copies[id(part)][1]

    result = copy(value)
    while rest:
        part, made = rest.pop()
        if isinstance(made, dict):
            made.update((key, copy(item)) for key, item in _by_text(part).items())
        else:
            made.extend(copy(item) for item in part)
    return result


def text(value: object) -> str | None:
    """Read a value as text, be it text or UTF-8 bytes; None for anything else, and for text with lone surrogates."""
    try:
        if isinstance(value, str):
            value.encode()
            return value
        return bytes(value).decode() if isinstance(value, (bytes, bytearray, memoryview)) else None
    except UnicodeError:
        return None


def field(mapping: object, name: str) -> object:
    """Find a field of a map by its name, as text or as bytes; None where it is absent or null, or where there is no map."""
    if not isinstance(mapping, Mapping):
        return None
    return mapping[name] if name in mapping else mapping.get(name.encode())


def has(mapping: object, name: str) -> bool:
    """Tell whether a map has a field by this name, as text or as bytes, be it null."""
    return isinstance(mapping, Mapping) and (name in mapping or name.encode() in mapping)


def _by_text(mapping: Mapping[object, object]) -> dict[object, object]:
    found: dict[object, object] = {}
    for key, item in mapping.items():
        name = None if isinstance(key, str) else text(key)
        if name is None:
            found[key] = item
        elif name not in mapping:
            found.setdefault(name, item)
    return found
