"""Markdown tables of figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTHING = "-"


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with so many significant digits and without an exponent; a dash for None."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    power = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - power)}f}"


def ratio(value: float | None, base: float | None) -> str:
    """Write how many times `base` a value is; a dash where either is missing."""
    if value is None or not base:
        return NOTHING
    return f"{number(value / base, 2)} x"


def cell(text: str) -> str:
    """Make a text fit a cell: no line ends, no bars."""
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; the first column is text, the others are numbers and stand right.

    Raises:
        ValueError: a row with more or fewer cells than the header.
    """
    lines = [f"| {' | '.join(map(cell, header))} |", f"|---|{'---:|' * (len(header) - 1)}"]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells under {len(header)} headings: {row}")
        lines.append(f"| {' | '.join(map(cell, row))} |")
    return "\n".join(lines) + "\n"
