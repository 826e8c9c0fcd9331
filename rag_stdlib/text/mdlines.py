"""What a single line of Markdown starts or ends: code fences, tables, blocks of raw HTML (CommonMark 0.31, GFM 0.29)."""

from __future__ import annotations

import re
from typing import Final

# A fence's mark. The info string behind backticks holds no backtick, or the line is a paragraph that begins with code.
FENCE: Final = r"`{3,}(?![^`\n]*`)|~{3,}"
_DELIMITER_CELL: Final = re.compile(r"[ \t]*:?-+:?[ \t]*")

_HTML_BLOCKS: Final = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|"
    "figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|"
    "p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_BLANK_LINE: Final = re.compile(r"^[ \t]*\n", re.MULTILINE)
_HTML: Final = tuple((re.compile(opening, re.IGNORECASE | re.MULTILINE), closing) for opening, closing in (
    (r"<(?:script|pre|style|textarea)(?=[ \t\n>]|\Z)", re.compile(r"</(?:script|pre|style|textarea)>[^\n]*\n?", re.IGNORECASE)),
    (r"<!--", re.compile(r"-->[^\n]*\n?")),
    (r"<\?", re.compile(r"\?>[^\n]*\n?")),
    (r"<![A-Z]", re.compile(r">[^\n]*\n?")),
    (r"<!\[CDATA\[", re.compile(r"\]\]>[^\n]*\n?")),
    (rf"</?(?:{_HTML_BLOCKS})(?=[ \t\n>]|/>|\Z)", _BLANK_LINE),
))
_LONE_TAG: Final = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:[ \t/][^<>\n]*)?>[ \t]*$", re.MULTILINE)


def flat(text: str) -> str:
    """Return `text` with LF for every line end and no offset moved: a CR LF becomes a blank and an LF."""
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


def fence_closing(mark: str, base: int = 0) -> re.Pattern[str]:
    """Make the pattern of the line that ends the block which the fence `mark` opened; it is searched in a flat text.

    `base` is the column at which the list item around the block begins; there a tab counts as one column.
    """
    indent = rf"[ \t]{{0,{base + 3}}}" if base else " {0,3}"
    return re.compile(rf"^{indent}{mark[0]}{{{len(mark)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)


def delimiter_cells(line: str) -> int:
    """Count the columns of the row that makes the line above it a table's header; 0 where the line is no such row."""
    row = line.strip(" \t\n")
    if "-" not in row or row.strip("|:- \t"):
        return 0
    cells = row.removeprefix("|").removesuffix("|").split("|")
    return len(cells) if all(_DELIMITER_CELL.fullmatch(cell) for cell in cells) else 0


def header_cells(line: str) -> int:
    """Count the cells of a table's header row, which is a line with a ``|``."""
    row = line.strip(" \t\n").removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return 1 + row.count("|") - row.count("\\|")


def html_closing(text: str, begin: int, *, paragraph: bool) -> re.Pattern[str] | None:
    """Find what ends the block of raw HTML that begins at `begin` of a flat text; None where there is no such block.

    The pattern matches up to the end of the last line. A lone tag of no special name begins a block only where no
    `paragraph` is open.
    """
    for opening, closing in _HTML:
        if opening.match(text, begin):
            return closing
    return None if paragraph or not _LONE_TAG.match(text, begin) else _BLANK_LINE
