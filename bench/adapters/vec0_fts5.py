"""sqlite-vec and FTS5 as usually written: a vec0 table with KNN, FTS5 by rank, reciprocal rank fusion of 50 and 50 in Python."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from typing import ClassVar

import apsw
import sqlite_vec
from harness.protocol import CANDIDATES, DIM, Batch, Hit, Query, fused

from adapters.fts5_plain import Library as Words


class Library(Words):
    """See the module."""

    kinds: ClassVar[tuple[str, ...]] = ("vector", "lexical", "hybrid")

    def vector(self, query: Query, k: int) -> list[Hit]:
        return self.fetch(self.nearest(query, k))

    def hybrid(self, query: Query, k: int) -> list[Hit]:
        return self.fetch(fused([self.nearest(query, CANDIDATES), self.by_words(query, CANDIDATES)], k))

    def nearest(self, query: Query, k: int) -> list[int]:
        """Return the nearest rows by vec0."""
        return [row for (row,) in self._connection.execute("SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = ?",
                                                           (query.vector.tobytes(), k))]

    def connect(self) -> apsw.Connection:
        connection = super().connect()
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        return connection

    def create(self, connection: apsw.Connection) -> None:
        super().create(connection)
        connection.execute(f"CREATE VIRTUAL TABLE vectors USING vec0(embedding float[{DIM}] distance_metric=cosine)")

    def insert(self, connection: apsw.Connection, batch: Batch) -> None:
        super().insert(connection, batch)
        connection.executemany("INSERT INTO vectors(rowid, embedding) VALUES (?, ?)",
                               ((row, vector.tobytes()) for row, vector in zip(batch.rows, batch.vectors, strict=True)))

    def remove(self, connection: apsw.Connection, row: int, text: str) -> None:
        super().remove(connection, row, text)
        connection.execute("DELETE FROM vectors WHERE rowid = ?", (row,))
