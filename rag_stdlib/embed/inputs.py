"""Texts on their way to a model: checked, and given the prefix of their role. The one place where prefixes are added."""

from __future__ import annotations

from collections.abc import Sequence

from rag_stdlib.embed.protocol import Role
from rag_stdlib.embed.redact import SEARCHED, one_line, redact

_EXCERPT = 60


def prepare(texts: Sequence[str], role: Role, prefixes: tuple[str, str]) -> list[str]:
    """Put the role's prefix (query, passage) before each text.

    The caller filters blank texts and lone surrogates beforehand, as both are refused by providers (R88, R92); meeting
    one here is a defect of the program, hence ValueError. A lone `str` for `texts` is a TypeError.
    """
    if isinstance(texts, str):
        raise TypeError("texts is a sequence of texts, not one text")
    if role not in ("query", "passage"):
        raise ValueError(f"role is 'query' or 'passage', not {role!r}")
    prefix = prefixes[0] if role == "query" else prefixes[1]
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise ValueError(f"text {number} of {len(texts)} is blank; blank texts are never embedded")
        text.encode()  # UnicodeEncodeError, a ValueError, at a lone surrogate
    return [prefix + text for text in texts]


def name_text(texts: Sequence[str], position: int, secrets: Sequence[str] = ()) -> str:
    """Name one text for a message: its number counted from 1, and how it begins (60 characters, no secrets)."""
    beginning = one_line(redact(texts[position][:SEARCHED], secrets), _EXCERPT)
    return f'text {position + 1} of {len(texts)} ("{beginning}")'
