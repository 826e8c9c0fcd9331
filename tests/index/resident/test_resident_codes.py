"""Codes in memory, in segments: read, added to, picked from, as if they were one array."""

from __future__ import annotations

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import quantize, schema, vectors
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.resident import codes
from rag_stdlib.index.resident.codes import ResidentCodes
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.resident.signs import Signs

DIM = 5


@pytest.fixture(autouse=True)
def _segments_of_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch, 40)


def patched(monkeypatch: pytest.MonkeyPatch, floats: int) -> None:
    monkeypatch.setattr(codes, "SEGMENT", 16)
    monkeypatch.setattr(codes, "FLOAT_BYTES", floats * DIM * 4)


def random_rows(count: int, seed: int = 1) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def stored(rows: np.ndarray, seqs: np.ndarray) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    vectors.load_extension(connection)
    schema.create_vectors(connection, DIM)
    vectors.add(connection, seqs.tolist(), rows)
    return connection


def are_codes_of(held: ResidentCodes, rows: np.ndarray) -> None:
    """Hold everything that codes say of their rows against codes made in one go."""
    whole = quantize.encode(rows)
    asked = [Asked.of(row) for row in random_rows(3, 9)]
    wanted, room = np.empty((3, len(rows))), np.full((3, len(rows)), np.nan)
    for query, out, found in zip(asked, wanted, room, strict=True):
        query.score(whole, out)
        held.score([query], found[None])
        assert found.tolist() == out.tolist()
    for several in (asked[:2], asked):
        room[:] = np.nan
        held.score(several, room[:len(several)])
        assert room[:len(several)].tolist() == wanted[:len(several)].tolist()
        assert np.isnan(room[len(several):]).all()
    at = np.random.default_rng(2).permutation(len(rows))[:20]
    some = held.at(at)
    assert (some.code.tolist(), some.scale.tolist(), some.shifted.tolist(), some.error.tolist()) == (
        whole.code[at].tolist(), whole.scale[at].tolist(), whole.shifted[at].tolist(), whole.error[at].tolist())
    assert held.count == len(rows)
    assert held.worst >= whole.error.max(initial=0.0)
    if held.floats is not None:
        assert held.vectors(at).tolist() == rows[at].tolist()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40, 41, 100])
def test_codes_are_read_whatever_the_order_in_the_file(count: int) -> None:
    rows = random_rows(count)
    seqs = np.arange(1, count + 1) * 3
    order = np.random.default_rng(4).permutation(count)
    held = ResidentCodes.read(stored(rows[order], seqs[order]), DIM, Rows.of(seqs))
    are_codes_of(held, rows)
    assert (held.floats is not None) == (count <= 40)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 35), max_size=6), st.data())
def test_codes_grow_and_shrink_as_rows_do(sizes: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, 60)
        held, rows = ResidentCodes.none(DIM, floats=True), np.empty((0, DIM), np.float32)
        earlier = []
        for seed, size in enumerate(sizes):
            earlier.append((held, rows))
            more = random_rows(size, seed)
            held, rows = held.appended(more), np.concatenate([rows, more])
            assert (held.floats is not None) == (len(rows) <= 60 and (not earlier or earlier[-1][0].floats is not None))
        for then, before in [*earlier, (held, rows)]:
            are_codes_of(then, before)
        kept = np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1)))) if len(rows) else [], np.int64)
        are_codes_of(held.only(kept), rows[kept])
        are_codes_of(held.only(kept).appended(random_rows(20, 77)), np.concatenate([rows[kept], random_rows(20, 77)]))


def test_vectors_of_other_chunks_are_damage() -> None:
    rows, seqs = random_rows(20), np.arange(1, 21)
    for wanted in (seqs[:-1], seqs[1:], np.append(seqs, 21), seqs + 1, np.where(seqs == 7, 70, seqs)):
        with pytest.raises(apsw.CorruptError):
            ResidentCodes.read(stored(rows, seqs), DIM, Rows.of(np.sort(wanted)))


def test_a_chunk_with_two_vectors_is_damage() -> None:
    connection = stored(random_rows(3), np.arange(1, 4))
    rowids = np.zeros(32, "<i8")
    rowids[:3] = (1, 2, 2)
    connection.execute("UPDATE rag_vectors_chunks SET rowids = ?", (rowids.tobytes(),))
    for seqs in ([1, 2, 3], [1, 2], [1, 2, 9]):
        with pytest.raises(apsw.CorruptError):
            ResidentCodes.read(connection, DIM, Rows.of(np.array(seqs)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_vector_that_is_not_finite_is_damage(bad: float) -> None:
    rows = random_rows(3)
    rows[1, 2] = bad
    with pytest.raises(apsw.CorruptError):
        ResidentCodes.read(stored(rows, np.arange(1, 4)), DIM, Rows.of(np.arange(1, 4)))


def test_the_size_is_what_is_kept_for_each_row() -> None:
    held = ResidentCodes.none(DIM, floats=True).appended(random_rows(32))
    assert held.floats is not None
    bytes_kept = sum(part.nbytes for segment in held.segments
                     for part in (segment.code, segment.scale, segment.shifted, segment.error))
    assert codes.size(32, DIM) - 32 * 8 == bytes_kept + sum(part.nbytes for part in held.floats)
    assert codes.size(41, DIM) == 41 * (DIM + 28)
    assert codes.size(41, DIM, signs=True) == 41 * (DIM + 28 + 1)


def test_signs_are_taken_over_from_full_segments_and_tell_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    rows = random_rows(50)
    first = ResidentCodes.none(DIM, floats=False).appended(rows[:20])
    held = first.appended(rows[20:])
    before = Signs.of(first)
    signs = Signs.of(held, before)
    assert signs.segments[0] is before.segments[0]
    assert [part.tolist() for part in signs.segments] == [part.tolist() for part in Signs.of(held).segments]
    assert (before.count, signs.count) == (20, 50)
    query = Asked.of(random_rows(1, 5)[0])
    passing = np.arange(50) % 3 > 0
    from rag_stdlib.index.resident import signs as module

    monkeypatch.setattr(module, "_LEAST", 4)
    monkeypatch.setattr(module, "_PER_HIT", 2)
    for library in (sys.modules.get("simsimd"), None):
        with monkeypatch.context() as patch:
            if library is None:
                patch.setitem(sys.modules, "simsimd", None)
            for mask, limit in ((None, 1), (passing, 3), (passing, 1_000), (None, 1_000), (np.zeros(50, bool), 2)):
                found = signs.nearest(query, limit, mask)
                apart = ((rows > 0) != (query.vector > 0)).sum(axis=1)
                assert found.tolist() == sorted(found.tolist())
                may = np.flatnonzero(np.ones(50, bool) if mask is None else mask)
                assert set(found.tolist()) <= set(may.tolist())
                if len(found) < len(may):
                    assert len(found) == 4 + 2 * limit
                left = np.setdiff1d(may, found)
                if len(left) and len(found):
                    assert apart[found].max() <= apart[left].min()
                assert len(found) == min(len(may), 4 + 2 * limit)
