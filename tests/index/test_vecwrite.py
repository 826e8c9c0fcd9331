"""What is written into vec0's tables is what vec0 itself would have written: it and ours can take turns in any order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import numpy as np
import pytest
import sqlite_vec
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import schema, vectors, vecwrite

DIM = 4
Model = dict[int, tuple[float, ...]]


@contextmanager
def table(size: int = 32) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    if size == 32:
        schema.create_vectors(connection, DIM)
    else:
        connection.execute(f"CREATE VIRTUAL TABLE rag_vectors USING vec0(embedding float[{DIM}] distance_metric=cosine"
                           + (f", chunk_size={size})" if size != 1_024 else ")"))
    try:
        yield connection
    finally:
        connection.close()


def unit(seq: int) -> tuple[float, ...]:
    row = np.random.default_rng(seq).standard_normal(DIM)
    return tuple((row / np.linalg.norm(row)).astype("<f4").tolist())


def stored(connection: apsw.Connection) -> Model:
    return {seq: struct.unpack(f"{DIM}f", bytes(vector))
            for seq, vector in connection.execute("SELECT rowid, embedding FROM rag_vectors")}


def shadow(connection: apsw.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {name: connection.execute(f"SELECT {columns} FROM rag_vectors_{name} ORDER BY 1").fetchall()
            for name, columns in (("chunks", "chunk_id, size, validity, rowids"), ("rowids", "rowid, id, chunk_id, chunk_offset"),
                                  ("vector_chunks00", "_rowid_, rowid, vectors"))}


def holds(connection: apsw.Connection, model: Model) -> None:
    assert stored(connection) == model
    seqs, rows = vectors.load(connection, DIM)
    assert dict(zip(seqs.tolist(), map(tuple, rows.tolist()), strict=True)) == model
    assert {seq: tuple(row.tolist()) for seq, row in vectors.load_some(connection, list(model), DIM).items()} == model
    assert vectors.count(connection) == len(model)
    query = np.array(unit(10_000), np.float32)
    nearest = connection.execute("SELECT rowid FROM rag_vectors WHERE embedding MATCH ? AND k = ?",
                                 (query.tobytes(), max(1, min(len(model), 100)))).fetchall()
    best = sorted(model, key=lambda seq: -float(np.dot(np.array(model[seq], np.float64), query)))
    assert [seq for (seq,) in nearest] == best[:100]


STEPS = st.lists(st.tuples(st.sampled_from(["ours", "vec0"]), st.sampled_from(["add", "remove", "remove half"]),
                           st.integers(1, 90), st.integers(0, 10**6)), max_size=12)


def take_turns(connection: apsw.Connection, other: apsw.Connection, steps: list[tuple[str, str, int, int]]) -> Model:
    """Do the steps, and the same ones with vec0 alone in `other`."""
    model: Model = {}
    behind = 0
    for who, what, count, pick in steps:
        if what == "add":
            seqs = list(range(behind + 1 + pick % 3, behind + 1 + pick % 3 + count))
            behind = seqs[-1]
            new = {seq: unit(seq) for seq in seqs}
            model.update(new)
            rows = [(seq, struct.pack(f"{DIM}f", *new[seq])) for seq in seqs]
            if who == "ours":
                vectors.add(connection, seqs, np.array(list(new.values()), np.float32))
            else:
                connection.executemany("INSERT INTO rag_vectors(rowid, embedding) VALUES (?, ?)", rows)
            other.executemany("INSERT INTO rag_vectors(rowid, embedding) VALUES (?, ?)", rows)
        else:
            held = sorted(model)
            start = pick % len(held) if held else 0
            gone = held[start:start + count] if what == "remove" else held[pick % 2::2]
            for seq in gone:
                del model[seq]
            if who == "ours":
                vectors.remove(connection, [*gone, 999_999])
            else:
                connection.executemany("DELETE FROM rag_vectors WHERE rowid = ?", ((seq,) for seq in gone))
            other.executemany("DELETE FROM rag_vectors WHERE rowid = ?", ((seq,) for seq in gone))
        holds(connection, model)
    return model


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, size=st.sampled_from([8, 32, 1_024]))
def test_ours_and_vec0_take_turns_in_any_order(steps: list[tuple[str, str, int, int]], size: int) -> None:
    with table(size) as connection, table(size) as other:
        model = take_turns(connection, other, steps)
        assert shadow(connection) == shadow(other), "not what vec0 alone would have written"
        assert connection.pragma("integrity_check") == "ok"
        connection.executemany("UPDATE rag_vectors SET embedding = ? WHERE rowid = ?",
                               [(struct.pack(f"{DIM}f", *unit(seq + 7)), seq) for seq in model])
        holds(connection, {seq: unit(seq + 7) for seq in model})


def test_the_default_table_has_blocks_of_32() -> None:
    with table() as connection:
        vectors.add(connection, range(1, 71), np.array([unit(seq) for seq in range(1, 71)], np.float32))
        assert connection.execute("SELECT size, length(validity), length(rowids) FROM rag_vectors_chunks").fetchall() == [
            (32, 4, 256)] * 3
        assert vecwrite.block_size(connection) == 32


def test_a_seq_that_has_a_vector_is_refused() -> None:
    with table() as connection:
        vectors.add(connection, [1], np.array([unit(1)], np.float32))
        with pytest.raises(apsw.ConstraintError):
            vectors.add(connection, [1], np.array([unit(1)], np.float32))
        with pytest.raises(ValueError, match="as many vectors as seqs"):
            vectors.add(connection, [2, 3], np.array([unit(1)], np.float32))


@pytest.mark.parametrize("damage", [
    "UPDATE rag_vectors_chunks SET validity = x'01'", "UPDATE rag_vectors_chunks SET rowids = x'01'",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = x'00'", "DROP TABLE rag_vectors_chunks",
])
def test_a_damaged_block_is_not_written_to(damage: str) -> None:
    with table() as connection:
        vectors.add(connection, [1], np.array([unit(1)], np.float32))
        connection.execute(damage)
        with pytest.raises((apsw.CorruptError, apsw.SQLError)):
            vectors.add(connection, [2], np.array([unit(2)], np.float32))


@pytest.mark.parametrize("damage", [
    "UPDATE rag_vectors_chunks SET validity = x'03'", "DELETE FROM rag_vectors_chunks",
    "UPDATE rag_vectors_rowids SET chunk_offset = 32", "UPDATE rag_vectors_rowids SET chunk_offset = -1",
    "DELETE FROM rag_vectors_vector_chunks00",
])
def test_a_damaged_block_is_not_cleared(damage: str) -> None:
    with table() as connection:
        vectors.add(connection, [1, 2], np.array([unit(1), unit(2)], np.float32))
        connection.execute(damage)
        with pytest.raises((apsw.CorruptError, apsw.SQLError)):
            vectors.remove(connection, [1])


def test_no_table_has_no_size() -> None:
    with pytest.raises(apsw.CorruptError, match="missing"):
        vecwrite.block_size(apsw.Connection(":memory:"))
