"""What the benchmarks share: medians of repeated runs, and a table of figures with their limits and ratios."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version


def median_seconds(work: Callable[[], object], runs: int = 5) -> float:
    """Run `work` once to warm up and then `runs` times; return the median of the wall times."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share, above 0 to 1, of the values does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


@dataclass(slots=True)
class Report:
    """Figures of one run, printed as a Markdown table."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    missed: int = 0

    def add(self, name: str, value: float, unit: str, *, least: float | None = None, most: float | None = None,
            beside: str = "") -> None:
        """Add a figure with its bound (at least or at most) and what stands beside it in the same run."""
        bound = f">= {least:g}" if least is not None else f"<= {most:g}" if most is not None else ""
        met = (least is None or value >= least) and (most is None or value <= most)
        self.missed += not met
        self.rows.append((name, f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}",
                          f"{bound} {unit} {'met' if met else 'MISSED'}" if bound else "", beside))

    def show(self) -> None:
        """Print the machine, the versions and the table."""
        packages = ", ".join(f"{name} {version(name)}" for name in ("rag-stdlib", "apsw", "numpy", "sqlite-vec"))
        print(f"{platform.machine()}, Python {platform.python_version()}, {packages}\n")
        print("| figure | value | bound | beside it in this run |\n|---|---|---|---|")
        for row in self.rows:
            print(f"| {' | '.join(row)} |")
