"""Text -> terms of the lexical index, the same for documents and queries and under every Python.

Originals are never changed; this text is for matching only. Compatibility forms, case and diacritics are folded
(NFKD, full case folding, combining marks of the Latin, Greek, Cyrillic, Hebrew and Arabic scripts dropped), format
characters such as zero-width spaces vanish, and everything that is neither letter, digit nor symbol separates terms.

* A run of a script written without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Myanmar, Tibetan …) becomes its bigrams
  plus its last character alone, so that each position starts exactly one term: a query of two or more characters matches
  by bigrams, a query of one by prefix.
* Each symbol beyond ASCII (emoji, currency, arrows) is a term.
* ``c++``, ``c#`` and the like are terms beside the bare word.

Terms come separated by spaces. The FTS5 table reads them with the ``ascii`` tokenizer and ``+`` and ``#``, the only ASCII
punctuation in a term, declared token characters, so that SQLite's own Unicode tables play no part.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rag_stdlib.text.unicode13 import unassigned

NORMALIZER: Final = "rag-terms/1"
MAX_QUERY_TERMS: Final = 64
MAX_TERM_BYTES: Final = 120  # a longer run (base64, a minified file) is cut into pieces of this size

_ASCII: Final = "".join(chr(c).lower() if chr(c).isalnum() else " " for c in range(128))
_DIACRITICS: Final = (
    (0x0300, 0x036F), (0x0483, 0x0487), (0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06ED), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F),
)
_UNSPACED: Final = (
    "\u0e00-\u0e3e\u0e40-\u0e4f\u0e80-\u0edf\u0f00-\u0f0a\u0f0c\u0f40-\u0fbc\u1000-\u109f\u1780-\u17d3"
    "\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_SIGNED_WORD: Final = re.compile(r"(?<![0-9A-Za-z])([0-9A-Za-z]+)(\+\+|#)(?![0-9A-Za-z+#])")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class _Folding(dict[int, str]):
    """A table for `str.translate` that computes what a character becomes when it first occurs."""

    def __missing__(self, code_point: int) -> str:
        folded = _fold(code_point)
        self[code_point] = folded
        return folded


def _fold(code_point: int) -> str:
    if unassigned(code_point):
        return f" {chr(code_point)} "
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code_point)).casefold())
    return "".join(_fold_part(char) for char in decomposed)


def _fold_part(char: str) -> str:
    point = ord(char)
    if point < len(_ASCII):
        return _ASCII[point]
    if any(low <= point <= high for low, high in _DIACRITICS):
        return ""
    category = unicodedata.category(char)
    if category[0] in "LNM":
        return char
    if category == "Cf":
        return ""
    return f" {char} " if category in ("So", "Sc", "Sm", "Co") else " "


_FOLDING: Final = _Folding()


def _folded(text: str) -> str:
    """Fold a text to terms and blanks, before scripts without spaces are taken apart."""
    signed = _signed_words(text) if "++" in text or "#" in text else ""
    if not text.isascii():
        text = _BEYOND_ASCII.sub(_fold_run, text)
    folded = text.translate(_ASCII)
    if not folded.isascii():
        folded = unicodedata.normalize("NFC", folded)
    return f"{folded} {signed}" if signed else folded


def _fold_run(match: re.Match[str]) -> str:
    return match.group().translate(_FOLDING)


def _signed_words(text: str) -> str:
    return " ".join(match.group().lower() for match in _SIGNED_WORD.finditer(text))


def _split(folded: str) -> list[str]:
    """Split at blanks and cut overlong terms into pieces, each within the limit in UTF-8."""
    terms = folded.split()
    if not terms or max(map(len, terms)) * 4 <= MAX_TERM_BYTES:
        return terms
    return [piece for term in terms for piece in _cut_long(term)]


def _cut_long(term: str) -> list[str]:
    pieces, piece, size = [], "", 0
    for char in term:
        width = len(char.encode())
        if size + width > MAX_TERM_BYTES:
            pieces.append(piece)
            piece, size = "", 0
        piece += char
        size += width
    return [*pieces, piece]


def _bigrams(run: str) -> list[str]:
    return [run[i:i + 2] for i in range(len(run) - 1)]


def _index_run(match: re.Match[str]) -> str:
    run = match.group()
    return f" {' '.join([*_bigrams(run), run[-1]])} "


def index_terms(text: str) -> str:
    """Return the terms of a document's text, joined by single spaces, with repeats and in order."""
    return " ".join(index_text(text).split())


def index_text(text: str) -> str:
    """Return the terms of a document's text as FTS5 is given them: in order, separated by one or more spaces."""
    folded = _folded(text)
    if folded.isascii():
        return " ".join(_split(folded)) if _may_hold_long_term(folded) else folded
    return " ".join(_split(UNSPACED_RUN.sub(_index_run, folded)))


def _may_hold_long_term(folded: str) -> bool:
    """Tell whether a piece of half the greatest length is without a blank; a term of the greatest length holds such a piece."""
    half = MAX_TERM_BYTES // 2
    return any(folded.find(" ", start, start + half) < 0 for start in range(0, len(folded) - half, half))


def query_terms(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the distinct terms of a query that count: the first 64 of `all_query_terms`."""
    return all_query_terms(text)[:MAX_QUERY_TERMS]


def all_query_terms(text: str) -> tuple[tuple[str, bool], ...]:
    """Return all distinct terms of a query in order, each with whether it matches as a prefix.

    A term is a prefix only where the query has a single character of a script without spaces.
    """
    folded = _folded(text)
    terms: dict[tuple[str, bool], None] = {}
    position = 0
    for match in UNSPACED_RUN.finditer(folded):
        terms.update(dict.fromkeys((term, False) for term in _split(folded[position:match.start()])))
        run = match.group()
        terms.update(dict.fromkeys([(run, True)] if len(run) == 1 else [(pair, False) for pair in _bigrams(run)]))
        position = match.end()
    terms.update(dict.fromkeys((term, False) for term in _split(folded[position:])))
    return tuple(terms)

