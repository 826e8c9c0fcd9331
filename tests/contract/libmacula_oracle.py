"""Macula's own library (macula-go, inside the package macula-py) as a second opinion on signed objects."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from rag_stdlib.contract.nodekeys import Profile

macula_py = pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11 or newer)")

# The library's words at the end of a refusal, whose kind macula-py has no error of its own for.
_REASONS: Final = (
    ("malformed signed object", "malformed"),
    ("signature does not verify", "signature_invalid"),
    ("alg", "alg_mismatch"),
)


def library_verdict(label: str, data: bytes, profile: Profile) -> tuple[str, dict[str, Any]]:
    """Return ``ok`` with what the object holds as JSON, or the reason of the refusal with nothing."""
    from macula_py._native import native

    library = native()
    try:
        address = library.invoke("macula_signed_object_verify", label.encode(), data, len(data), profile.encode())
    except macula_py.MaculaError as error:
        return next(reason for words, reason in _REASONS if words in str(error)), {}
    return "ok", json.loads(library.take_string(address))


def as_library_json(value: object) -> object:
    """Write a decoded value as the library writes it: bytes as ``{"$bytes": base64}``, and integer keys as their digits."""
    if isinstance(value, dict):
        return {str(key): as_library_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_library_json(item) for item in value]
    return {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def has_ambiguous_keys(value: object) -> bool:
    """Tell whether a map in a value has both a text and an integer for one key in JSON, where only one of them can come out."""
    if isinstance(value, dict):
        return len({str(key) for key in value}) < len(value) or any(map(has_ambiguous_keys, value.values()))
    return isinstance(value, list) and any(map(has_ambiguous_keys, value))
