"""Rows of chunks: what came and went, and earlier views that stay as they are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index.resident.rows import Column, Rows


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.lists(st.lists(st.integers(-2**62, 2**62), max_size=20), max_size=12))
def test_a_column_grows_and_its_earlier_views_stay(parts: list[list[int]]) -> None:
    column, seen, wanted = Column(np.empty(0, np.int64)), [], []
    for part in parts:
        seen.append((column, list(wanted)))
        column = column.appended(np.array(part, np.int64))
        wanted += part
    for earlier, values in [*seen, (column, wanted)]:
        assert earlier.values.tolist() == values
        assert earlier.values.dtype == np.int64


def test_a_column_takes_room_for_more_than_it_is_asked_for() -> None:
    column = Column(numbers(1, 2, 3, 4)).appended(numbers(5, 6, 7, 8))
    later = column.appended(numbers(9))
    assert np.shares_memory(column.values, later.values), "the room is used"
    assert not np.shares_memory(later.values, later.appended(np.arange(100)).values)


@settings(max_examples=60, derandomize=True)
@given(st.sets(st.integers(1, 60)), st.lists(st.tuples(st.lists(st.tuples(st.integers(0, 140), st.integers(0, 9)), max_size=3),
                                                       st.integers(0, 5), st.integers(0, 3)), max_size=6))
def test_rows_are_what_a_set_of_seqs_is(first: set[int], steps: list[tuple[list[tuple[int, int]], int, int]]) -> None:
    rows, live, last = Rows.of(np.array(sorted(first), np.int64)), set(first), 60
    everything = sorted(first)
    for gone, come, gap in steps:
        before, seqs_before = rows, rows.seqs.tolist()
        alive_before = None if rows.alive is None else rows.alive.tolist()
        new = list(range(last + 1 + gap, last + 1 + gap + come))
        last += come + gap
        rows = rows.changed([range(start, start + size) for start, size in gone], np.array(new, np.int64))
        live = (live | set(new)) - {seq for start, size in gone for seq in range(start, start + size)}
        everything += new
        assert rows.seqs.tolist() == everything
        assert (len(rows), rows.live) == (len(everything), len(live))
        assert set(rows.seqs[slice(None) if rows.alive is None else rows.alive].tolist()) == live
        assert (rows.alive is None) == (len(live) == len(everything))
        some = np.array(sorted(live), np.int64)
        assert rows.seqs[rows.positions(some)].tolist() == some.tolist()
        assert before.seqs.tolist() == seqs_before
        assert (None if before.alive is None else before.alive.tolist()) == alive_before


def test_positions_with_and_without_gaps() -> None:
    assert Rows.of(numbers(4, 5, 6)).positions(numbers(6, 4)).tolist() == [2, 0]
    assert Rows.of(numbers(4, 9, 16)).positions(numbers(16, 4)).tolist() == [2, 0]
    assert Rows.of(numbers()).positions(numbers()).tolist() == []
