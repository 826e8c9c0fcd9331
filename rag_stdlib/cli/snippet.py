"""The part of a chunk that a search shows: cut around the first matches, wrapped to the terminal, the query's words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import regex

from rag_stdlib.cli.terminal import cells, clean, styled
from rag_stdlib.text.normalize import UNSPACED_RUN, index_terms, query_terms

_WORD: Final = regex.compile(r"[\p{L}\p{N}\p{M}\p{Cf}]+(?:\+\+|#)?|\p{S}")
_SHOWN: Final = 480
_BEFORE: Final = 120  # characters of those that stand before the first match
_MARK: Final = (1, 33)
_NO_LINE_START: Final = frozenset("、。，．！？：；）」』】〕〉》ー々")  # noqa: RUF001 - they begin no line of Chinese or Japanese

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The query's terms: those to be met whole, and those to be met as a beginning."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]

    def meets(self, term: str, *, single: bool = True) -> bool:
        return term in self.exact or (single and bool(self.prefixes) and term.startswith(self.prefixes))


def matched_spans(text: str, query: str) -> Iterator[Span]:
    """Find the spans of `text` whose terms the query asks for, ascending and disjoint."""
    asked = query_terms(query)
    wanted = _Asked(frozenset(term for term, prefix in asked if not prefix), tuple(term for term, prefix in asked if prefix))
    for word in _WORD.finditer(text):
        for start, end in _by_script(word.group(), word.start()):
            piece = text[start:end]
            terms = index_terms(piece).split()
            if len(terms) > 1 and not piece.isascii():
                yield from _inner_spans(piece, start, wanted)
            elif any(map(wanted.meets, terms)):
                yield start, end


def _by_script(word: str, start: int) -> Iterator[Span]:
    """Take a word apart where a script written without spaces begins or ends."""
    position = 0
    for run in UNSPACED_RUN.finditer(word):
        if run.start() > position:
            yield start + position, start + run.start()
        yield start + run.start(), start + run.end()
        position = run.end()
    if position < len(word):
        yield start + position, start + len(word)


def _inner_spans(run: str, start: int, wanted: _Asked) -> Iterator[Span]:
    """Find the asked bigrams inside a run of a script without spaces, joining those that touch."""
    first = last = -1
    for position in range(len(run)):
        width = next((width for width in (2, 1) if _meets(run[position:position + width], wanted, single=width == 1)), 0)
        if not width:
            continue
        if last < position:
            if last > 0:
                yield start + first, start + last
            first = position
        last = max(last, min(position + width, len(run)))
    if last > 0:
        yield start + first, start + last


def _meets(piece: str, wanted: _Asked, *, single: bool) -> bool:
    terms = index_terms(piece).split()
    return bool(terms) and wanted.meets(terms[0], single=single)


def snippet(text: str, query: str, width: int) -> list[str]:
    """Cut a chunk to about 480 characters around its first matches: cleaned lines of at most `width` columns, words marked."""
    flat = re.sub(r"\s+", " ", text).strip()
    spans: list[Span] = []
    for span in matched_spans(flat, query):
        if spans and span[0] > spans[0][0] + _SHOWN:
            break
        spans.append(span)
    start, end = _window(flat, spans[0][0] if spans else 0)
    before, after = "… " if start else "", " …" if end < len(flat) else ""
    body, shift = f"{before}{clean(flat[start:end])}{after}", len(before) - start
    inside = [(max(first, start) + shift, min(last, end) + shift) for first, last in spans if first < end and last > start]
    return [_marked(body, line, inside) for line in wrapped(body, width)]


def _window(text: str, match: int) -> Span:
    """Choose what is shown: from a blank somewhat before the match, if one is near, to a blank."""
    if len(text) <= _SHOWN:
        return 0, len(text)
    start = max(0, min(match - _BEFORE, len(text) - _SHOWN))
    end = start + _SHOWN
    if start:
        blank = text.rfind(" ", max(0, start - _BEFORE // 2), start)
        start = blank + 1 if blank >= 0 else start
    if end < len(text):
        blank = text.rfind(" ", start + _SHOWN // 2, end)
        end = blank if blank > 0 else end
    return start, end


def wrapped(text: str, width: int) -> list[Span]:
    """Break a text of one line into spans of at most `width` columns: at blanks, between wide characters, else anywhere."""
    lines: list[Span] = []
    start = 0
    while start < len(text):
        end, used, chance = start, 0, 0
        while end < len(text) and (used + cells(text[end]) <= width or end == start):
            used += cells(text[end])
            end += 1
            if text[end - 1] == " " or (cells(text[end - 1]) == 2 and text[end:end + 1] not in _NO_LINE_START):  # noqa: PLR2004 - wide
                chance = end
        if end < len(text) and text[end] != " " and chance:
            end = chance
        lines.append((start, end))
        start = end + 1 if text[end:end + 1] == " " else end
    return lines


def _marked(text: str, line: Span, spans: list[Span]) -> str:
    pieces, position = [], line[0]
    for first, last in spans:
        if first < line[1] and last > line[0]:
            first, last = max(first, line[0]), min(last, line[1])  # noqa: PLW2901 - clipped to the line
            pieces += [text[position:first], styled(text[first:last], *_MARK)]
            position = last
    return "".join([*pieces, text[position:line[1]]]).rstrip(" ")
