"""Vectors read from vec0's tables: whole and single, and what is damaged."""

from __future__ import annotations

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import schema, vecread, vectors

DIM = 6


def stored(seqs: list[int], dim: int = DIM) -> tuple[apsw.Connection, dict[int, np.ndarray]]:
    connection = apsw.Connection(":memory:")
    vectors.load_extension(connection)
    schema.create_vectors(connection, dim)
    rows = np.random.default_rng(len(seqs)).normal(size=(len(seqs), dim)).astype(np.float32)
    vectors.add(connection, seqs, rows)
    return connection, dict(zip(seqs, rows, strict=True))


def all_of(connection: apsw.Connection, dim: int = DIM) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for seqs, rows in vecread.slabs(connection, dim):
        assert (rows.dtype, rows.shape) == (np.float32, (len(seqs), dim))
        assert not found.keys() & set(seqs.tolist())
        found.update((seq, row.tobytes()) for seq, row in zip(seqs.tolist(), rows, strict=True))
    return found


@settings(max_examples=60, derandomize=True)
@given(st.sets(st.integers(1, 10_000), max_size=150), st.integers(0, 2**31), st.sampled_from([1, 200, 2_000, 10**9]))
def test_what_was_stored_is_read_whole_and_singly(seqs: set[int], seed: int, slab: int) -> None:
    rng = np.random.default_rng(seed)
    connection, rows = stored(rng.permutation(sorted(seqs)).tolist())
    gone = [seq for seq in rows if rng.random() < 0.4]
    vectors.remove(connection, gone)
    more = [seq + 20_000 for seq in gone[:40]]
    fresh = rng.normal(size=(len(more), DIM)).astype(np.float32)
    vectors.add(connection, more, fresh)
    held = {seq: row for seq, row in [*rows.items(), *zip(more, fresh, strict=True)] if seq not in gone}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vecread, "_SLAB_BYTES", slab)
        assert all_of(connection) == {seq: row.tobytes() for seq, row in held.items()}
    asked = rng.permutation(sorted(held))[:rng.integers(0, len(held) + 1)]
    found = vecread.pick(connection, asked, DIM)
    assert found.shape == (len(asked), DIM)
    assert [row.tobytes() for row in found] == [held[seq].tobytes() for seq in asked.tolist()]


def test_without_a_table_there_are_no_vectors() -> None:
    connection = apsw.Connection(":memory:")
    assert list(vecread.slabs(connection, 4)) == []


def test_blocks_of_vec0s_own_size_are_read_too() -> None:
    connection = apsw.Connection(":memory:")
    vectors.load_extension(connection)
    connection.execute(f"CREATE VIRTUAL TABLE rag_vectors USING vec0(embedding float[{DIM}] distance_metric=cosine)")
    rows = np.random.default_rng(0).normal(size=(1_500, DIM)).astype(np.float32)
    vectors.add(connection, range(1, 1_501), rows)
    assert connection.execute("SELECT count(*), max(size) FROM rag_vectors_chunks").fetchall() == [(2, 1_024)]
    assert all_of(connection) == {seq: row.tobytes() for seq, row in enumerate(rows, 1)}
    assert vecread.pick(connection, np.array([1_500, 1, 1_025]), DIM).tolist() == rows[[1_499, 0, 1_024]].tolist()


BLOCKS = [
    "UPDATE rag_vectors_chunks SET validity = x'ff' WHERE chunk_id = 2",
    "UPDATE rag_vectors_chunks SET rowids = x'0102030405060708' WHERE chunk_id = 2",
    "UPDATE rag_vectors_chunks SET validity = 'abcd' WHERE chunk_id = 2",
    "UPDATE rag_vectors_chunks SET rowids = 'abcdefgh' WHERE chunk_id = 2",
    "UPDATE rag_vectors_chunks SET validity = 7 WHERE chunk_id = 2", "DELETE FROM rag_vectors_vector_chunks00 WHERE rowid = 2",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = x'00' WHERE rowid = 2",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = 5 WHERE rowid = 2",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = vectors || x'00' WHERE rowid = 2", "DROP TABLE rag_vectors_vector_chunks00",
]
SINGLE = [
    "DELETE FROM rag_vectors_rowids WHERE rowid = 40", "UPDATE rag_vectors_rowids SET chunk_offset = -1 WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_offset = NULL WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_id = NULL WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_offset = 32 WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_offset = 'x' WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_offset = 1.5 WHERE rowid = 40",
    f"UPDATE rag_vectors_rowids SET chunk_offset = {2**62} WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_id = 77 WHERE rowid = 40",
    "UPDATE rag_vectors_rowids SET chunk_id = 'x' WHERE rowid = 40",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = x'00' WHERE rowid = 2",
    "DELETE FROM rag_vectors_vector_chunks00 WHERE rowid = 2",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = 5 WHERE rowid = 2", "DROP TABLE rag_vectors_vector_chunks00",
]


@pytest.mark.parametrize("damage", BLOCKS)
def test_a_damaged_block_is_damage_and_not_a_defect(damage: str) -> None:
    connection, _ = stored(list(range(1, 71)))
    connection.execute(damage)
    with pytest.raises(apsw.CorruptError):
        all_of(connection)


@pytest.mark.parametrize("damage", SINGLE)
def test_a_damaged_place_is_damage_and_not_a_defect(damage: str) -> None:
    connection, rows = stored(list(range(1, 71)))
    connection.execute(damage)
    with pytest.raises(apsw.CorruptError):
        vecread.pick(connection, np.array([1, 40, 70]), DIM)
    assert vecread.pick(connection, np.array([3]), DIM).tolist() == [rows[3].tolist()] if "DROP" not in damage else True


def test_a_slab_of_another_dimension_is_damage() -> None:
    connection, _ = stored([1, 2, 3])
    with pytest.raises(apsw.CorruptError):
        all_of(connection, 7)


def test_single_vectors_are_read_without_their_blocks() -> None:
    """No statement reads the table of vectors; a vector comes by incremental I/O out of its block."""
    connection, rows = stored(list(range(1, 200)))
    sent: list[str] = []
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: sent.append(event["sql"]))
    assert vecread.pick(connection, np.array([199, 5]), DIM).tolist() == [rows[199].tolist(), rows[5].tolist()]
    assert not [statement for statement in sent if "vector_chunks00" in statement]
    assert sent
