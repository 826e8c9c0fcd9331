"""Cut a Markdown file of a corpus into its sections: prose under a heading, and fenced code, each with its headings' titles.

A chunk is a slice of the file as it stands, so that its lines are the file's own. It begins and ends with a whole line, unless
it was cut inside one. All that is neither blank nor hidden is in exactly one chunk. Hidden are the spans that the caller gives,
front matter and a byte order mark.

A section that fits is one chunk. A longer one is cut at the last place that fits, by the best kind of place there is: between
blocks of prose (blank lines, mostly), else between lines, else behind a sentence, else at white space, else between grapheme
clusters. No piece of it is shorter than `min_bytes`, except where a grapheme cluster or a long run of blanks leaves no choice:
a heading goes with the text below it, and short paragraphs go with their neighbours. What is short as a whole stays a chunk of
its own (a heading alone above a code block, or a remark between two): whether it says enough to be stored is the caller's to
decide.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from rag_stdlib.errors import fail
from rag_stdlib.text.chunker import MAX_CHUNKS, WHITE_SPACE, Chunk
from rag_stdlib.text.graphemes import MAX_CLUSTER, Clusters
from rag_stdlib.text.loaders import front_matter
from rag_stdlib.text.mdblocks import Block, blocks
from rag_stdlib.text.mdlines import flat
from rag_stdlib.text.positions import ByteOffsets

NAME: Final = "corpus-markdown/1"

SectionKind: TypeAlias = Literal["prose", "code"]
Span: TypeAlias = tuple[int, int]

_BOM: Final = "\ufeff"
_LEAST_BYTES: Final = 16  # a window that every character fits, and an indentation besides
_MOST_TITLE: Final = 200  # code points; every chunk below a heading repeats its title
_NO_PLACE: Final = -1
_VISIBLE: Final = re.compile(r"[^\r\n]")
_CONTENT: Final = re.compile(rf"[^{WHITE_SPACE}]")
_SENTENCE_END: Final = re.compile(rf"""[.!?]["')\]*_\u00bb\u201d\u2019]{{0,3}}(?=[{WHITE_SPACE}])|[\u3002\uff01\uff1f\uff0e][\u300d\u300f\u201d\u2019\uff09]?""")
_WORD_END: Final = re.compile(rf"(?<=[^{WHITE_SPACE}])(?=[{WHITE_SPACE}])")


class Section(NamedTuple):
    """A chunk, the titles of the headings it stands under (joined with ``>``; empty above the first), and what it holds.

    A code chunk is a fenced block or a piece of one; its fences are part of it.
    """

    chunk: Chunk
    header_path: str
    kind: SectionKind


def cut(text: str, skip: Sequence[Span] = (), *, max_bytes: int = 2_000, min_bytes: int = 80) -> list[Section]:
    """Cut a Markdown text into chunks of at most `max_bytes` UTF-8 bytes, in order; see the module for how.

    The spans of `skip` (half-open, in code points, in any order) are in no chunk: one ends before and the next begins
    behind each, and to the rules of Markdown they are blank. A table's later pieces have its header as context, if that
    fits a chunk itself. Of `min_bytes`, at most a quarter of `max_bytes` counts. Time is linear in the text.

    Raises:
        Failure: `invalid_option`, `too_many_chunks`.
    """
    if max_bytes < _LEAST_BYTES:
        raise fail("invalid_option", name="max_bytes", reason=f"must be at least {_LEAST_BYTES}")
    hidden = _hidden(text, skip)
    visible = _blanked(text, hidden)
    cutter = _Cutter(text, flat(visible), max_bytes, max(1, min(min_bytes, max_bytes // 4)))
    offsets, gap = ByteOffsets(text), 0
    found: list[Section] = []
    for part in _parts(cutter.flat):
        while gap < len(hidden) and hidden[gap][1] <= part.start:
            gap += 1
        for stretch in _stretches(part, hidden, gap):
            for start, end in cutter.spans(part, *stretch):
                if len(found) == MAX_CHUNKS:
                    raise fail("too_many_chunks", cap=MAX_CHUNKS, chunk_chars=max_bytes)
                chunk = Chunk(len(found), start, end, offsets.at(start), offsets.at(end), text[start:end],
                              _table_header(part, visible, start, max_bytes))
                found.append(Section(chunk, part.path, part.kind))
    return found


def _hidden(text: str, skip: Iterable[Span]) -> list[Span]:
    """Return what is in no chunk, ascending and disjoint."""
    behind_mark = len(_BOM) if text.startswith(_BOM) else 0
    front = front_matter.split(text[behind_mark:])
    spans = [(0, behind_mark + (front.body_start if front else 0)), *((max(start, 0), min(end, len(text))) for start, end in skip)]
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _blanked(text: str, hidden: list[Span]) -> str:
    """Return `text` with blanks in place of what is hidden; the lines stay."""
    pieces, at = [], 0
    for start, end in hidden:
        pieces += [text[at:start], _VISIBLE.sub(" ", text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


@dataclass(slots=True)
class _Part:
    """A section: the lines from `start` to `end`, the ends of those blocks behind which it may be cut, and its tables."""

    path: str
    kind: SectionKind
    start: int
    end: int
    seams: array[int] = field(default_factory=lambda: array("q"))
    tables: list[Block] = field(default_factory=list)

    def table_at(self, position: int) -> Block | None:
        index = bisect_right(self.tables, position, key=lambda table: table.start) - 1
        return self.tables[index] if index >= 0 and position < self.tables[index].end else None


def _parts(flat_text: str) -> Iterator[_Part]:
    titles: list[tuple[int, str]] = []
    path = ""
    prose: _Part | None = None
    for block in blocks(flat_text):
        if prose and block.kind in {"heading", "fence"}:
            yield prose
            prose = None
        if block.kind == "heading":
            while titles and titles[-1][0] >= block.level:
                titles.pop()
            titles.append((block.level, _short(block.title)))
            path = " > ".join(title for _, title in titles)
            prose = _Part(path, "prose", block.start, block.end)
        elif block.kind == "fence":
            yield _Part(path, "code", block.start, block.end)
        else:
            prose = prose or _Part(path, "prose", block.start, block.end)
            prose.end = block.end
            prose.seams.append(block.end)
            if block.kind == "table":
                prose.tables.append(block)
    if prose:
        yield prose


def _short(title: str) -> str:
    if len(title) <= _MOST_TITLE:
        return title
    near = title[:_MOST_TITLE + MAX_CLUSTER]
    return near[:Clusters(near).start(_MOST_TITLE - 1)] + "\N{HORIZONTAL ELLIPSIS}"


def _stretches(part: _Part, hidden: list[Span], gap: int) -> Iterator[Span]:
    """Yield what of a part is not hidden; `gap` is the first hidden span that ends behind its start."""
    at = part.start
    while gap < len(hidden) and hidden[gap][0] < part.end:
        yield at, hidden[gap][0]
        at, gap = hidden[gap][1], gap + 1
    yield at, part.end


def _table_header(part: _Part, visible: str, start: int, most: int) -> str:
    """Return the header of the table whose body holds a chunk's start; too long a one is no context."""
    table = part.table_at(start)
    if table is None or start < table.body:
        return ""
    header = visible[table.start:table.body].strip(WHITE_SPACE)
    return header if _size(header) <= most else ""


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class _Cutter:
    """Cuts stretches of one text. A chunk has at most `most` bytes and, where its stretch is cut, at least `least`."""

    def __init__(self, text: str, flat_text: str, most: int, least: int) -> None:
        self.flat = flat_text
        self._text, self._most, self._least = text, most, least
        self._narrow = text.isascii()  # characters are bytes, and clusters but for CR LF
        self._clusters = Clusters(text)

    def spans(self, part: _Part, start: int, end: int) -> Iterator[Span]:
        """Yield the chunks of the stretch from `start` to `end`."""
        solid = start + len(self._text[start:end].rstrip(WHITE_SPACE))
        stop = solid if self._narrow else min(self._clusters.end(solid), end)
        while start < solid:
            content = self._content(start, stop)
            begin = self._line_start(start, content)
            if self._fits(begin, stop):
                yield begin, self._line_end(begin, stop, end)
                return
            last, following = self._cut(part, begin, content, stop)
            start = self._line_end(begin, last, following)
            yield begin, start

    def _fits(self, start: int, end: int) -> bool:
        return end - start <= self._most and (self._narrow or _size(self._text[start:end]) <= self._most)

    def _content(self, start: int, stop: int) -> int:
        """Return where the first character stands that is not blank, or the blank that its marks combine with."""
        found = _CONTENT.search(self._text, start, stop)
        at = found.start() if found else stop
        return at if self._narrow else max(start, self._clusters.start(at))

    def _line_start(self, start: int, content: int) -> int:
        """Move from the content of a line back to its start, unless that is before `start` or far."""
        line = self.flat.rfind("\n", start, content) + 1
        if not line and (start == 0 or self.flat[start - 1] == "\n"):
            line = start
        elif not line:
            return content
        return line if _size(self._text[line:content]) <= self._most // 4 else content

    def _line_end(self, begin: int, last: int, limit: int) -> int:
        """Move from the last character of a chunk to the end of its line, unless that is behind `limit` or too far."""
        end = self.flat.find("\n", last, limit)
        if end < 0:
            end = limit if limit == len(self._text) else last
        elif end > last and self._text[end - 1] == "\r":
            end -= 1
        return end if self._fits(begin, end) else last

    def _cut(self, part: _Part, begin: int, content: int, stop: int) -> Span:
        """Return where the chunk from `begin` ends, and where the next one begins at the latest."""
        low, high, latest = self._ahead(begin, self._least - 1) + 1, self._ahead(begin, self._most), self._behind(stop)
        kinds = (_seam, self._newline, self._sentence, self._word) if part.kind == "prose" else (self._newline, self._word)
        for last_place in kinds:
            place = min(high + 1, latest)  # a line that just fits has its LF there, behind a CR
            while (place := last_place(part, low, place)) >= low:
                last, following = self._trimmed(begin, place, stop)
                if low <= last <= high and last <= following <= latest:
                    return last, following
                place = min(place, last) - 1
        place = min(high, latest)
        around = () if self._narrow else (self._clusters.start(place), self._clusters.end(place))
        place = next((edge for edge in around if content < edge <= high), place)
        last, following = self._trimmed(begin, place, stop)
        return (last, following) if content < last <= min(place, following) else (place, place)

    def _ahead(self, start: int, size: int) -> int:
        """Return how far at most `size` bytes reach from `start`."""
        if self._narrow:
            return min(start + size, len(self._text))
        return start + len(self._text[start:start + size].encode()[:size].decode("utf-8", "ignore"))

    def _behind(self, stop: int) -> int:
        """Return the last place with at least `least` bytes from there to `stop`."""
        if self._narrow:
            return stop - self._least
        tail = self._text[max(0, stop - self._least):stop].encode()[-self._least:]
        place = stop - len(tail.decode("utf-8", "ignore"))
        return place if _size(self._text[place:stop]) >= self._least else place - 1

    def _trimmed(self, begin: int, place: int, stop: int) -> Span:
        """Return where the text before `place` ends and that behind it begins, as whole grapheme clusters."""
        last = begin + len(self._text[begin:place].rstrip(WHITE_SPACE))
        following = self._content(place, stop)
        return (last, following) if self._narrow else (self._clusters.end(last), self._clusters.start(following))

    def _newline(self, part: _Part, low: int, high: int) -> int:
        """Find the last line end in reach that is not inside the header of a table."""
        place = self.flat.rfind("\n", low, high + 1)
        table = part.table_at(place) if place >= 0 and part.tables else None
        if table and place < table.body:
            return self.flat.rfind("\n", low, table.start)
        return place

    def _sentence(self, _part: _Part, low: int, high: int) -> int:
        return self._last_end(_SENTENCE_END, low, high)

    def _word(self, _part: _Part, low: int, high: int) -> int:
        return self._last_end(_WORD_END, low, high)

    def _last_end(self, pattern: re.Pattern[str], low: int, high: int) -> int:
        found = _NO_PLACE
        for match in pattern.finditer(self._text, max(low - 1, 0), high + 1):
            if match.end() <= high:
                found = match.end()
        return found


def _seam(part: _Part, low: int, high: int) -> int:
    """Find the last line end in reach behind which a block of prose begins."""
    index = bisect_right(part.seams, high + 1) - 1
    return part.seams[index] - 1 if index >= 0 and part.seams[index] > low else _NO_PLACE
