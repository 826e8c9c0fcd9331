"""Character references of HTML (WHATWG HTML, section 13.2.5.72 to 13.2.5.80), each decoded exactly once."""

from __future__ import annotations

import re
from html.entities import html5
from typing import Final

_REFERENCE: Final = re.compile(r"&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|([A-Za-z0-9]+;?))")
_LONGEST_NAME: Final = max(map(len, html5))
_LONGEST_NUMBER: Final = 7  # digits of 1114111; a longer number is outside Unicode
_MOST: Final = 0x10FFFF
_REPLACEMENT: Final = "\ufffd"
# Numbers 0x80 to 0x9F mean windows-1252 where that has a character (the table of section 13.2.5.80).
_WINDOWS: Final = {
    number: character for number in range(0x80, 0xA0)
    if (character := bytes([number]).decode("cp1252", "replace")) != _REPLACEMENT
}


def decode_references(text: str) -> str:
    """Replace every character reference in text (not in an attribute) by what it stands for."""
    return _REFERENCE.sub(_replace, text) if "&" in text else text


def _replace(match: re.Match[str]) -> str:
    hexadecimal, decimal, name = match.groups()
    if name is not None:
        return _named(name)
    digits = (hexadecimal or decimal).lstrip("0")
    if len(digits) > _LONGEST_NUMBER:
        return _REPLACEMENT
    return _numbered(int(digits or "0", 16 if hexadecimal else 10))


def _numbered(number: int) -> str:
    if number == 0 or number > _MOST or 0xD800 <= number < 0xE000:  # noqa: PLR2004 - the surrogates
        return _REPLACEMENT
    return _WINDOWS.get(number) or chr(number)


def _named(name: str) -> str:
    """Decode the longest known name at the start of `name`; some old names need no semicolon."""
    for length in range(min(len(name), _LONGEST_NAME), 0, -1):
        if (character := html5.get(name[:length])) is not None:
            return character + name[length:]
    return "&" + name
