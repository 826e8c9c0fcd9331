"""Text of several lines as wide as the terminal: each line broken at blanks, and what follows of it indented as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rag_stdlib.cli.snippet import wrapped
from rag_stdlib.cli.terminal import clean, show, styled
from rag_stdlib.cli.tracing import columns

_NARROWEST: Final = 20


def lines_of(text: str, width: int) -> Iterator[str]:
    """Break a line into lines of at most `width` columns."""
    for start, end in wrapped(text, max(width, _NARROWEST)):
        yield text[start:end].rstrip(" ")


def show_block(text: str, *codes: int, safe: bool = False) -> None:
    """Show a text on as many lines as it takes, cleaned unless it is `safe` already, and styled by SGR codes."""
    for line in text.rstrip("\n").split("\n"):
        said = line if safe else clean(line)
        indent = " " * (len(said) - len(said.lstrip(" ")))
        for part in list(lines_of(said.lstrip(" "), columns() - len(indent))) or [""]:
            show(f"{indent if part else ''}{styled(part, *codes) if codes else part}")
