"""Texts beside a vector index that keeps none: a plain SQLite table, read by row number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.protocol import Batch, Hit


class Texts:
    """Documents and texts by row, in a file of their own."""

    def __init__(self, file: Path) -> None:
        """Open the file, or make it."""
        self._connection = sqlite3.connect(file, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = wal").fetchall()
        self._connection.execute("CREATE TABLE IF NOT EXISTS texts(row INTEGER PRIMARY KEY, document TEXT, text TEXT)")

    def add(self, batch: Batch) -> None:
        """Store the texts of some rows."""
        with self._connection:
            self._connection.executemany("INSERT INTO texts VALUES (?, ?, ?)",
                                         zip(batch.rows, batch.documents, batch.texts, strict=True))

    def fetch(self, rows: Sequence[int]) -> list[Hit]:
        """Read rows in the order given."""
        return [Hit(*self._connection.execute("SELECT row, document, text FROM texts WHERE row = ?", (row,)).fetchone())
                for row in rows]

    def store(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Store the texts of batches on their way to an index."""
        for batch in batches:
            self.add(batch)
            yield batch

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
