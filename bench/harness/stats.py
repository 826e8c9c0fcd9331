"""Percentiles, medians over rounds, and what the system says of a process."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which `share` percent lie, linear between neighbours (numpy's default).

    Raises:
        ValueError: no values, or a share outside 0 to 100.
    """
    if not values or not 0 <= share <= 100:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def latencies(seconds: Sequence[float]) -> dict[str, float]:
    """Give p50, p95, p99 and the largest in milliseconds, and how many there were."""
    return {"p50": percentile(seconds, 50) * 1e3, "p95": percentile(seconds, 95) * 1e3, "p99": percentile(seconds, 99) * 1e3,
            "max": max(seconds) * 1e3, "queries": len(seconds)}


def over_rounds(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the median of every number over the rounds that have it, nested as they are nested; of other values the last."""
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for one in rounds for key in one):
        values = [one[key] for one in rounds if one.get(key) is not None]
        if not values:
            merged[key] = None
        elif all(isinstance(value, Mapping) for value in values):
            merged[key] = over_rounds(values)
        elif all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            merged[key] = statistics.median(values)
        else:
            merged[key] = values[-1]
    return merged


def memory_mb() -> dict[str, float]:
    """Give this process's resident memory now and at its peak, in MB (10^6 bytes)."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {"now": int(fields["VmRSS"].split()[0]) * 1024 / 1e6, "peak": int(fields["VmHWM"].split()[0]) * 1024 / 1e6}


def size_mb(folder: Path) -> float:
    """Give the size of all files below a folder in MB (10^6 bytes)."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
