"""The rule of `Loaded.lines`, written a second time for the tests to hold the loaders to."""

from __future__ import annotations

import bisect
import re

from rag_stdlib.text.loaders import Loaded

_BREAK = re.compile(r"\r\n|\r|\n")


def line_of(loaded: Loaded, offset: int) -> int:
    """Return the original line of a character: that of the last anchor plus the line breaks in between."""
    at, line = 0, 1
    if loaded.lines:
        at, line = loaded.lines[bisect.bisect_right([anchor[0] for anchor in loaded.lines], offset) - 1]
    return line + sum(1 for found in _BREAK.finditer(loaded.text, at) if found.end() <= offset)


def lines_of(loaded: Loaded) -> list[int]:
    """Return the original line of every character, in one pass; the text has LF only."""
    anchors = dict(loaded.lines)
    lines: list[int] = []
    line = 1
    for at, character in enumerate(loaded.text):
        line = anchors.get(at, line)
        lines.append(line)
        line += character == "\n"
    return lines


def page_of(loaded: Loaded, offset: int) -> int:
    """Return the page of a character."""
    return loaded.pages[bisect.bisect_right([anchor[0] for anchor in loaded.pages], offset) - 1][1]


def true_line(source: str, offset: int) -> int:
    """Return the line of a character of the original; the LF of a CRLF is on the line it ends."""
    return 1 + sum(1 for found in _BREAK.finditer(source) if found.end() <= offset)
