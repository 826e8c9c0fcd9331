"""The blocks of a Markdown text, in one pass: headings, fenced and indented code, tables, raw HTML, and all other text.

The rules are CommonMark's (0.31) and, for tables, GFM's. Two kinds of container are told apart only as far as headings and
code need it. A list item is followed by the column of its content, so that a fence in it is found and ends with it, and what
looks like a heading there is text. The lines of a block quote are text as they stand, and so is text directly below one. Three
more rules are simplified: a line of only hashes is text and no empty heading, an item that begins with a blank line may go on
behind it, and link definitions do not end a paragraph for what could not interrupt one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from rag_stdlib.text.mdlines import FENCE, delimiter_cells, fence_closing, header_cells, html_closing

Kind: TypeAlias = Literal["heading", "fence", "indented", "table", "html", "text"]

_NONE: Final = -1
_CODE_INDENT: Final = 4
_MOST_ITEMS: Final = 32  # nested in one another; deeper markers are text
_CONTENT: Final = re.compile(r"[^ \t\n]")
_HASHES: Final = r"\#{1,6}(?=[ \t\n]|\Z)"
_MARKER: Final = r"(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t\n]|\Z)"
_RULE: Final = r"(?:-[ \t]*-[ \t]*-[- \t]*|\*[ \t]*\*[ \t]*\*[* \t]*|_[ \t]*_[ \t]*_[_ \t]*)$"
_SPECIAL_START: Final = rf"(?=[ \t\n>|=:<*+_-]|{_HASHES}|{FENCE}|{_MARKER})"
_SPECIAL: Final = re.compile(_SPECIAL_START)
_NEXT_SPECIAL: Final = re.compile(rf"\n{_SPECIAL_START}")
_QUOTED: Final = re.compile(r"[^> \t\n]")
_NEXT_UNQUOTED: Final = re.compile(r"\n(?!>)")
_TOKEN: Final = re.compile(rf"""
    (?P<heading>{_HASHES})
    |(?P<fence>{FENCE})
    |(?P<quote>>)
    |(?P<rule>{_RULE})
    |(?P<item>{_MARKER})
    |(?P<html><)
    """, re.VERBOSE | re.MULTILINE)
_UNDERLINE: Final = re.compile(r"(?:=+|-+)[ \t]*$", re.MULTILINE)
_INTERRUPTING_ITEMS: Final = frozenset({"-", "+", "*", "1.", "1)"})
_LINK_DEFINITION: Final = re.compile(r""" {0,3}\[[^\[\]\n]+\]:[ \t]*[^ \t\n]+[ \t]*(?:["'(][^\n]*)?\n""")
_NEXT_TITLED: Final = re.compile(r"\n(?!\#{1,6}[ \t]*(?:\n|\Z))")
_ROW: Final = re.compile(rf"(?![ \t]*(?:{_HASHES}|{FENCE}|>|{_RULE}|{_MARKER}))[ \t]*([^ \t\n])[^\n]*\n?", re.MULTILINE)


class Block(NamedTuple):
    """Whole lines of a flat text, the last one's end included; blank lines belong to no block, save inside code and HTML.

    `level` and `title` are a heading's; `body` is where the rows behind a table's delimiter row begin.
    """

    kind: Kind
    start: int
    end: int
    level: int = 0
    title: str = ""
    body: int = 0


def blocks(flat_text: str) -> Iterator[Block]:
    """Yield the blocks of a text whose line ends are all LF (`mdlines.flat`), in order."""
    return _Reader(flat_text).blocks()


class _Reader:
    """One walk over the lines of a text. What is found waits in `_found`, until `blocks` has yielded it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[Block] = []
        self._items: list[int] = []  # the columns of the contents of the list items that are open
        self._run = _NONE  # where the text being collected begins,
        self._indented = False  # and whether it is indented code
        self._open = False  # whether a paragraph is open, in a container or in none,
        self._paragraph = _NONE  # and where it begins, if in none

    def blocks(self) -> Iterator[Block]:
        text, at = self._text, 0
        while content := _CONTENT.search(text, at):
            begin = content.start()
            line = text.rfind("\n", at, begin) + 1 or at
            if line > at:
                self._flush(at)
            at = self._special(line, begin) if _SPECIAL.match(text, line) else self._plain(line)
            if self._found:
                yield from self._found
                self._found.clear()
        self._flush(at)
        yield from self._found

    def _flush(self, end: int) -> None:
        """End the text being collected, and with it the open paragraph."""
        if self._run != _NONE and self._run < end:
            self._found.append(Block("indented" if self._indented else "text", self._run, end))
        self._run = self._paragraph = _NONE
        self._open = False

    def _collect(self, line: int, *, indented: bool = False) -> None:
        """Take a line into the text being collected."""
        if self._indented != indented:
            self._flush(line)
        if self._run == _NONE:
            self._run, self._indented = line, indented

    def _plain(self, line: int) -> int:
        """Read a line that is nothing but text wherever it stands, and all such lines behind it."""
        if not self._open:
            self._items.clear()
            self._paragraph_line(line)
        following = _NEXT_SPECIAL.search(self._text, line)
        return following.start() + 1 if following else len(self._text)

    def _paragraph_line(self, line: int) -> None:
        if not self._open:
            self._collect(line)
            self._open = True
            self._paragraph = _NONE if self._items else line

    def _special(self, line: int, begin: int) -> int:
        """Read a line with content at `begin` that may be more than text; return where the next one begins."""
        end = self._text.find("\n", begin) + 1 or len(self._text)
        if self._heading_above(line, begin, end):
            return end
        if self._open and self._text[begin] in "|:-" and (behind := self._table(line, begin, end)):
            return behind
        column = self._column(line, begin)
        depth = len(self._items)
        while depth and self._items[depth - 1] > column:
            depth -= 1
        if column - (self._items[depth - 1] if depth else 0) >= _CODE_INDENT:
            if not self._open:
                del self._items[depth:]
                self._collect(line, indented=True)
            return end
        return self._block(line, begin, end, depth)

    def _column(self, line: int, begin: int) -> int:
        lead = self._text[line:begin]
        return len(lead.expandtabs(4)) if "\t" in lead else begin - line

    def _block(self, line: int, begin: int, end: int, depth: int) -> int:
        """Read a line by what its content begins with; it stands in the first `depth` list items."""
        token = _TOKEN.match(self._text, begin)
        while token and token.lastgroup == "item" and self._begins_item(token, end, depth):
            content = self._item(line, token, end, depth)
            if content == end:
                return end
            depth = len(self._items)
            token, begin = _TOKEN.match(self._text, content), content
        if token and (behind := self._leaf(line, begin, end, depth, token)):
            return behind
        if self._open and 0 < depth == len(self._items) and _UNDERLINE.match(self._text, begin):
            self._open = False  # a heading in an item: text, but no text goes on with it
        else:
            if not self._open:
                del self._items[depth:]
            self._paragraph_line(line)
        return end

    def _begins_item(self, token: re.Match[str], end: int, depth: int) -> bool:
        """Tell whether a marker begins a list item: in the midst of a paragraph, only one with content, counted from 1."""
        if depth >= _MOST_ITEMS:
            return False
        if self._open and depth == len(self._items):
            return token[0] in _INTERRUPTING_ITEMS and _CONTENT.search(self._text, token.end(), end) is not None
        return True

    def _item(self, line: int, token: re.Match[str], end: int, depth: int) -> int:
        """Open a list item; return where its content begins, or `end` where nothing is left to read on the line."""
        del self._items[depth:]
        self._collect(line)
        self._open, self._paragraph = False, _NONE
        behind = self._column(line, token.end())
        content = _CONTENT.search(self._text, token.end(), end)
        width = self._column(line, content.start()) - behind if content else 1
        self._items.append(behind + (width if width <= _CODE_INDENT else 1))
        return content.start() if content and width <= _CODE_INDENT else end

    def _leaf(self, line: int, begin: int, end: int, depth: int, token: re.Match[str]) -> int:
        """Read what `token` begins; return where the text goes on behind it, or 0 where it begins nothing."""
        text, kind = self._text, token.lastgroup
        if kind == "heading":
            return self._atx(line, end, depth, token)
        if kind == "quote":
            return self._quote(line, begin, end, depth)
        if kind == "rule":
            return self._add("text", line, end, depth)
        base = self._items[depth - 1] if depth else 0
        if kind == "fence":
            return self._add("fence", line, self._raw_end(end, base, fence_closing(token[0], base)), depth)
        closing = html_closing(text, begin, paragraph=self._open) if kind == "html" else None
        if closing is None:
            return 0
        first = closing.search(text, begin, end)
        return self._add("html", line, first.end() if first else self._raw_end(end, base, closing), depth)

    def _atx(self, line: int, end: int, depth: int, token: re.Match[str]) -> int:
        """Read a heading, which is text where it stands in a list item or has no title."""
        title = _atx_title(self._text[token.end():end])
        if title and not depth:
            self._items.clear()
            self._flush(line)
            self._found.append(Block("heading", line, end, len(token[0]), title))
            return end
        if not title and not depth and (following := _NEXT_TITLED.search(self._text, end - 1)):
            end = following.start() + 1
        return self._add("text", line, end, depth)

    def _add(self, kind: Kind, line: int, end: int, depth: int) -> int:
        del self._items[depth:]
        self._flush(line)
        self._found.append(Block(kind, line, end))
        return end

    def _raw_end(self, at: int, base: int, closing: re.Pattern[str]) -> int:
        """Find where a block of raw lines ends that goes on at `at`: behind its closing line, or with its list item."""
        text = self._text
        if not base:
            found = closing.search(text, at)
            return found.end() if found else len(text)
        while at < len(text):
            end = text.find("\n", at) + 1 or len(text)
            content = _CONTENT.search(text, at, end)
            if content and self._column(at, content.start()) < base:
                return at
            if closing.search(text, at, end):
                return end
            at = end
        return at

    def _quote(self, line: int, begin: int, end: int, depth: int) -> int:
        """Read a line of a block quote and, where it stands in no list, all that follow it at the margin."""
        del self._items[depth:]
        self._collect(line)
        if not depth:
            following = _NEXT_UNQUOTED.search(self._text, end - 1)
            end = following.start() + 1 if following else len(self._text)
            begin = self._text.rfind("\n", begin, end - 1) + 1 or begin
        quoted = _QUOTED.search(self._text, begin, end)
        token = _TOKEN.match(self._text, quoted.start()) if quoted else None
        self._paragraph = _NONE
        self._open = quoted is not None and (token is None or token.lastgroup == "item")
        return end

    def _heading_above(self, line: int, begin: int, end: int) -> bool:
        """Make a heading of the open paragraph if the line underlines it."""
        text, start = self._text, self._paragraph
        if start == _NONE or text[begin] not in "=-" or not _UNDERLINE.match(text, begin) or self._column(line, begin) >= _CODE_INDENT:
            return False
        while start < line and (definition := _LINK_DEFINITION.match(text, start, line)):
            start = definition.end()
        if start == line:
            return False
        self._flush(start)
        title = " ".join(part.strip(" \t") for part in text[start:line].rstrip("\n").split("\n"))
        self._found.append(Block("heading", start, end, 1 if text[begin] == "=" else 2, title))
        return True

    def _table(self, line: int, begin: int, end: int) -> int:
        """Read a table whose delimiter row this line is; return 0 where it is none."""
        text = self._text
        cells = delimiter_cells(text[begin:end])
        header = text.rfind("\n", self._run, line - 1) + 1 or self._run
        if not cells or "|" not in text[header:line] or not ("|" in text[begin:end] or ":" in text[begin:end]):
            return 0
        if header_cells(text[header:line]) != cells:
            return 0
        at = end
        while (row := _ROW.match(text, at)) and not (row[1] == "<" and html_closing(text, row.start(1), paragraph=True)):
            at = row.end()
        self._flush(header)
        self._found.append(Block("table", header, at, body=end))
        return at


def _atx_title(content: str) -> str:
    """Return a heading's title: what stands behind its hashes, without the hashes that close it."""
    title = content.strip(" \t\n")
    bare = title.rstrip("#")
    return bare.rstrip(" \t") if not bare or bare[-1] in " \t" else title
