"""Where a Markdown text must not be cut: fenced code blocks and the rows of pipe tables (CommonMark, GFM)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from rag_stdlib.text.mdlines import FENCE, delimiter_cells, fence_closing, flat

_FENCE = re.compile(rf" {{0,3}}({FENCE})")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Spans in code points, ascending and disjoint: code fences, table rows, and per table (body start, end, header)."""

    text: str
    fences: tuple[tuple[int, int], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    tables: tuple[tuple[int, int, str], ...] = ()

    def cut_before(self, start: int, end: int, target: int) -> int:
        """Move the cut `end` of the window from `start` to at most `target` out of a fence or row.

        It moves behind the block if that is within the window, otherwise before it if that leaves something. A fence that
        cannot fit is cut between its lines; a row that cannot fit is cut as it comes.
        """
        fence = _around(self.fences, end)
        span = fence or _around(self.rows, end)
        if span is None:
            return end
        if self._is_break(target, span[1]):
            return min(span[1], target)
        if self.text[start:span[0]].strip():
            return span[0]
        line = self.text.rfind("\n", start, end) + 1
        return line if fence and self.text[start:line].strip() else end

    def resume(self, start: int, covered: int) -> int:
        """Move the start of an overlapping window forward out of a fence or row that ends with what is `covered`.

        In a fence that goes on behind it, the start moves to the next line.
        """
        fence = _around(self.fences, start)
        span = fence or _around(self.rows, start)
        if span is None:
            return start
        if self._is_break(covered, span[1]):
            return span[1]
        line = self.text.find("\n", start - 1, covered) + 1
        return line if fence and line else start

    def _is_break(self, start: int, end: int) -> bool:
        """Tell whether nothing but a line break stands between two places, if anything."""
        return end - start <= len("\r\n") and not self.text[start:end].strip()

    def table_header(self, start: int) -> str:
        """Return the header rows of the table whose body holds `start`, or an empty string."""
        index = bisect_right(self.tables, start, key=lambda table: table[0]) - 1
        if index >= 0 and start < self.tables[index][1]:
            return self.tables[index][2]
        return ""


NO_BLOCKS: Final = Blocks("")


def _around(spans: tuple[tuple[int, int], ...], position: int) -> tuple[int, int] | None:
    """Find the span that holds `position` strictly inside."""
    index = bisect_right(spans, position, key=lambda span: span[0]) - 1
    if index >= 0 and spans[index][0] < position < spans[index][1]:
        return spans[index]
    return None


def _lines(flat_text: str) -> list[tuple[int, int]]:
    """Return the (start, end) of each line, its break included."""
    breaks = [match.end() for match in re.finditer("\n", flat_text)]
    if not breaks or breaks[-1] < len(flat_text):
        breaks.append(len(flat_text))
    return list(zip([0, *breaks], breaks, strict=False))


def scan(text: str) -> Blocks:
    """Find the fences and tables of a Markdown text in one pass over its lines."""
    source = flat(text)
    lines = _lines(source)
    fences: list[tuple[int, int]] = []
    rows: list[tuple[int, int]] = []
    tables: list[tuple[int, int, str]] = []
    number = 0
    while number < len(lines):
        begin, end = lines[number]
        opening = _FENCE.match(source, begin, end)
        if opening:
            closing = fence_closing(opening[1]).search(source, end)
            behind = closing.end() if closing else len(source)  # an unclosed block ends the text
            fences.append((begin, behind))
            number = bisect_left(lines, behind, key=lambda line: line[1]) + 1
        elif "|" in source[begin:end] and number + 1 < len(lines) and delimiter_cells(source[slice(*lines[number + 1])]):
            last = number + 2
            while last < len(lines) and "|" in source[slice(*lines[last])]:
                last += 1
            rows += [(begin, lines[number + 1][1]), *lines[number + 2:last]]
            tables.append((lines[number + 1][1], lines[last - 1][1], text[begin:lines[number + 1][1]].strip()))
            number = last
        else:
            number += 1
    return Blocks(text, tuple(fences), tuple(rows), tuple(tables))
