"""From code point offsets to UTF-8 byte offsets and to line and page numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from rag_stdlib.records import Anchors

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class ByteOffsets:
    """UTF-8 byte offsets of code point offsets that are asked in ascending order; linear over the whole text."""

    def __init__(self, text: str) -> None:
        """Start at the beginning of `text`."""
        self._text = text
        self._char = 0
        self._byte = 0

    def at(self, char: int) -> int:
        """Return the byte offset of `char`, which is not less than at the call before."""
        self._byte += len(self._text[self._char:char].encode())
        self._char = char
        return self._byte


class LineNumbers:
    """Line numbers of offsets: the text's own lines from 1, or the original's where a loader left anchors.

    A line ends at LF, CR LF or CR.
    """

    def __init__(self, text: str, anchors: Anchors = ()) -> None:
        """Find the line breaks of `text` once."""
        if "\r" in text:
            self._starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
        else:  # the same, several times faster
            self._starts = list(accumulate(map(len, text.split("\n")), lambda start, length: start + length + 1, initial=0))[:-1]
        self._anchors = anchors
        self._anchor_chars = [char for char, _ in anchors]

    def _own(self, char: int) -> int:
        return bisect_right(self._starts, char)

    def at(self, char: int) -> int:
        """Return the line that holds `char`: the last anchor's line plus the line breaks since."""
        if not self._anchors:
            return bisect_right(self._starts, char)
        index = bisect_right(self._anchor_chars, char) - 1
        if index < 0:
            return self._own(char)
        anchor_char, line = self._anchors[index]
        return line + self._own(char) - self._own(anchor_char)


def page_at(pages: Anchors, char: int) -> int | None:
    """Return the page that holds `char`, or None where the document has no pages."""
    index = bisect_right(pages, char, key=lambda anchor: anchor[0]) - 1
    return pages[index][1] if index >= 0 else None
