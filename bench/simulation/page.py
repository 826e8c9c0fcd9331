"""Tables in Markdown, and what stands in their cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table under its title."""
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def seconds(value: float) -> str:
    """Write a time in seconds."""
    return "never" if math.isinf(value) else f"{value:.2f}" if value < 9.995 else f"{value:,.0f}"


def volume(count: float) -> str:
    """Write a number of bytes."""
    if count < 1_000:
        return f"{count:.0f} B"
    return f"{count / 1e3:.1f} kB" if count < 1e5 else f"{count / 1e6:,.1f} MB" if count < 1e8 else f"{count / 1e6:,.0f} MB"


def percent(share: float) -> str:
    """Write a share."""
    return "0" if share < 5e-5 else f"{share * 100:.2g} %" if share < 0.0995 else f"{share * 100:.0f} %"


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)
