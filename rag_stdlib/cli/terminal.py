"""Text for a terminal: nothing a document or file name holds can move the cursor, colour or reorder what is shown."""

from __future__ import annotations

import re
import sys
from typing import Final

from rag_stdlib.text.normalize import index_terms, query_terms

# C0 and C1 controls, DEL, bidirectional controls and marks, line and paragraph separators, the BOM, interlinear marks,
# variation tags and lone surrogates.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]")
_WORD: Final = re.compile(r"\w+(?:\+\+|#)?|[^\w\s]")
_SNIPPET: Final = 480


def clean(text: str) -> str:
    """Make a text safe to print on one line: each unsafe character is U+FFFD, line breaks and tabs are blanks."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def clean_block(text: str) -> str:
    """Make a text of several lines safe to print; its line breaks and tabs stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def size(count: int) -> str:
    """Write a number of bytes for people, in powers of 1,000."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":  # noqa: PLR2004 - the step between units
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def plural(count: int, what: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {what}" if count != 1 else f"1 {what.removesuffix('s')}"


def colour_wanted(stream: object) -> bool:
    """Tell whether output to `stream` may carry colour: a terminal, and neither NO_COLOR nor TERM=dumb forbids it."""
    import os

    isatty = getattr(stream, "isatty", lambda: False)
    return bool(isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def styled(text: str, *codes: int) -> str:
    """Wrap cleaned text in SGR codes if standard output is a terminal that wants them."""
    return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if colour_wanted(sys.stdout) else text


def matched_spans(text: str, query: str) -> list[tuple[int, int]]:
    """Find the spans of `text` whose terms the query asks for, ascending and disjoint."""
    asked = query_terms(query)
    exact = {term for term, prefix in asked if not prefix}
    prefixes = tuple(term for term, prefix in asked if prefix)
    spans: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        terms = index_terms(word.group()).split()
        if not any(term in exact or (prefixes and term.startswith(prefixes)) for term in terms):
            continue
        if len(terms) == 1 or word.group().isascii():
            spans.append(word.span())
        else:
            spans += _inner_spans(word.group(), word.start(), exact, prefixes)
    return spans


def _inner_spans(run: str, start: int, exact: set[str], prefixes: tuple[str, ...]) -> list[tuple[int, int]]:
    """Find the asked bigrams inside a run of a script without spaces, joining those that touch."""
    spans: list[tuple[int, int]] = []
    for position in range(len(run)):
        for width in (2, 1):
            piece = index_terms(run[position:position + width]).split()
            if piece and (piece[0] in exact or (width == 1 and prefixes and piece[0].startswith(prefixes))):
                first, last = start + position, start + position + width
                if spans and spans[-1][1] >= first:
                    spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
                else:
                    spans.append((first, last))
                break
    return spans


def snippet(text: str, query: str) -> str:
    """Cut a chunk to at most about 480 characters around its first matches, cleaned, with the query's words marked."""
    spans = matched_spans(text, query)
    start = 0
    if len(text) > _SNIPPET and spans:
        start = max(0, min(spans[0][0] - _SNIPPET // 4, len(text) - _SNIPPET))
        start = text.rfind(" ", 0, start) + 1 if start else 0
    end = min(len(text), start + _SNIPPET)
    if end < len(text):
        blank = text.rfind(" ", start + _SNIPPET // 2, end)
        end = blank if blank > 0 else end
    pieces, position = [], start
    for first, last in spans:
        if start <= first and last <= end:
            pieces += [clean(text[position:first]), styled(clean(text[first:last]), 1, 33)]
            position = last
    pieces.append(clean(text[position:end]))
    body = re.sub(r" {2,}", " ", "".join(pieces)).strip()
    return f"{'… ' if start else ''}{body}{' …' if end < len(text) else ''}"
