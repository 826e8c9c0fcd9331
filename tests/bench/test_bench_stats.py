"""Percentiles, medians over rounds, and what is said of machine and process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import machine, stats
from hypothesis import given
from hypothesis import strategies as st

FINITE = st.floats(-1e9, 1e9)


@given(st.lists(FINITE, min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(values: list[float], share: float) -> None:
    assert stats.percentile(values, share) == pytest.approx(float(np.percentile(values, share)), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("values", "share"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_there_is_no_percentile_of_nothing_or_beyond(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        stats.percentile(values, share)


def test_latencies_are_milliseconds() -> None:
    found = stats.latencies([0.001] * 98 + [0.002, 0.010])
    assert (found["p50"], found["max"], found["queries"]) == (1.0, 10.0, 100)
    assert found["p95"] == 1.0 < found["p99"] < 10.0


def test_rounds_are_merged_by_medians_however_deep() -> None:
    rounds = [{"a": 1, "b": {"c": 10.0}, "name": "x"}, {"a": 3, "b": {"c": 30.0, "d": 1}, "name": "y"}, {"a": 2, "b": {"c": 20.0}, "e": None}]
    assert stats.over_rounds(rounds) == {"a": 2, "b": {"c": 20.0, "d": 1}, "name": "y", "e": None}


def test_memory_and_sizes_are_those_of_the_process_and_the_files(tmp_path: Path) -> None:
    memory = stats.memory_mb()
    assert 1 < memory["now"] <= memory["peak"]
    (tmp_path / "deep").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 1_000)
    (tmp_path / "deep" / "b").write_bytes(b"x" * 2_000)
    assert stats.size_mb(tmp_path) == 0.003


def test_the_machine_is_described(tmp_path: Path) -> None:
    facts = machine.facts(tmp_path)
    assert facts["cores"] >= 1  # type: ignore[operator]
    assert facts["file_system"] != "unknown"
    assert set(facts["flags"]) <= set(machine.FLAGS)  # type: ignore[call-overload]


def test_reading_more_takes_longer() -> None:
    assert machine.read_seconds(40_000, 5) < machine.read_seconds(40_000_000, 5)
