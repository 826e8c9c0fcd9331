"""Bytes to text, by rules that depend on the bytes alone and never on the locale.

A byte order mark decides; without one the bytes are strict UTF-8 or nothing. Line ends stay as they are.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, NamedTuple, NoReturn

from rag_stdlib.errors import fail

# UTF-32 first: its little-endian mark starts with UTF-16's (Unicode 16.0, section 23.8).
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32LE"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32BE"),
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16BE"),
)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"
_SIGNIFICANT_NULS: Final = 8
_NUL_SHARE_OF_UTF16: Final = 50  # one NUL in so many bytes, all on one side, is UTF-16 of mostly non-Latin letters
_NUL_SHARE_OF_BINARY: Final = 3  # more than one NUL in so many bytes is no text with a stray NUL


class Decoded(NamedTuple):
    """Text without U+0000 and what was done to get it."""

    text: str
    notes: tuple[str, ...]


def scrub(text: str) -> tuple[str, int]:
    """Replace U+0000 and lone surrogates by U+FFFD; return the text and how many there were."""
    return _UNSTORABLE.subn(_REPLACEMENT, text)


def scrub_note(count: int) -> tuple[str, ...]:
    """Return the note about `count` replaced characters; no note for none."""
    if not count:
        return ()
    characters = "character" if count == 1 else "characters"
    return (f"{count:,} {characters} that no text may hold (U+0000 or a lone surrogate) replaced by U+FFFD",)


def has_mark(data: bytes) -> bool:
    """Tell whether a byte order mark decides the encoding."""
    return data.startswith(tuple(mark for mark, _, _ in _MARKS))


def decode(name: str, data: bytes) -> Decoded:
    """Decode the bytes of a text file.

    Raises `Failure`: `not_utf8` with the offset and value of the first bad byte (of malformed UTF-16 or UTF-32 too),
    `file_unsupported` for binary data and for UTF-16 without a byte order mark.
    """
    for mark, codec, label in _MARKS:
        if data.startswith(mark):
            text = _strict(name, data, codec, skip=len(mark))
            return _without_nul(text, f"the {label} byte order mark at the start was stripped")
    if _looks_utf16(data):
        raise fail("file_unsupported", name=name,
                   detail="looks like UTF-16 without a byte order mark; save it as UTF-8, or with the mark")
    nuls = data.count(0)
    if nuls * _NUL_SHARE_OF_BINARY > len(data):
        raise _binary(name, f"{nuls:,} of its {len(data):,} bytes are NUL")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if nuls:
            raise _binary(name, f"NUL at byte {data.index(0)}, and byte {error.start} is not UTF-8") from None
        refuse_bytes(name, data, error.start)
    return _without_nul(text)


def refuse_bytes(name: str, data: bytes, offset: int) -> NoReturn:
    """Raise `not_utf8` for the byte at `offset`."""
    raise fail("not_utf8", name=name, offset=offset, byte=data[offset]) from None


def _binary(name: str, detail: str) -> Exception:
    return fail("file_unsupported", name=name, detail=f"binary data, not text ({detail})")


def _strict(name: str, data: bytes, codec: str, skip: int) -> str:
    try:
        return data[skip:].decode(codec)
    except UnicodeDecodeError as error:
        refuse_bytes(name, data, skip + error.start)


def _looks_utf16(data: bytes) -> bool:
    """Tell whether NULs stand where UTF-16 has its high bytes: all at even or all at odd offsets, and not few."""
    even, odd = data[0::2].count(0), data[1::2].count(0)
    nuls = max(even, odd)
    if min(even, odd) or len(data) % 2:
        return False
    many = nuls >= _SIGNIFICANT_NULS and nuls * _NUL_SHARE_OF_UTF16 >= len(data)
    return many or nuls * _NUL_SHARE_OF_BINARY > len(data)


def _without_nul(text: str, *notes: str) -> Decoded:
    clean, count = scrub(text)
    return Decoded(clean, notes + scrub_note(count))
