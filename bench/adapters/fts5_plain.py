"""SQLite's FTS5 as usually written: a table of texts, an external-content index, ORDER BY rank."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import apsw
from harness.protocol import Adapter, Batch, Document, Feed, Hit, Query, T, joined


class Library(Adapter):
    """See the module."""

    kinds: ClassVar[tuple[str, ...]] = ("lexical",)

    def build(self, feed: Feed) -> None:
        connection = self.connect()
        self.create(connection)
        for batch in feed.batches(1_000):
            with connection:
                self.insert(connection, batch)
        connection.close()

    def open(self) -> None:
        self._connection = self.connect()

    def lexical(self, query: Query, k: int) -> list[Hit]:
        return self.fetch(self.by_words(query, k))

    def by_words(self, query: Query, k: int) -> list[int]:
        """Return the rows that match any of the words, by FTS5's rank."""
        words = " OR ".join('"{}"'.format(word.replace('"', '""')) for word in query.text.split())
        return [row for (row,) in self._connection.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?",
                                                           (words, k))]

    def fetch(self, rows: Sequence[int]) -> list[Hit]:
        """Read rows in the order given."""
        found: list[Any] = [self._connection.execute("SELECT row, document, text FROM chunks WHERE row = ?", (row,)).fetchone()
                            for row in rows]
        return [Hit(*row) for row in found]

    def threaded(self, work: Callable[[Adapter], T]) -> Callable[[], T]:
        def alone() -> T:
            other = type(self)(self.folder)
            other.open()
            try:
                return work(other)
            finally:
                other.close()

        return alone

    def open_writer(self, documents: Sequence[Document]) -> None:  # noqa: ARG002 - nothing to prepare
        self.open()

    def replace(self, document: Document) -> None:
        connection = self._connection
        with connection:
            stored: list[Any] = connection.execute("SELECT row, text FROM chunks WHERE document = ?", (document.id,)).fetchall()
            for row, text in stored:
                self.remove(connection, row, text)
            self.insert(connection, joined([document]))

    def close(self) -> None:
        self._connection.close()

    def connect(self) -> apsw.Connection:
        """Open the file in WAL mode."""
        connection = apsw.Connection(str(self.folder / "index.db"))
        list(connection.execute("PRAGMA journal_mode = wal"))
        connection.execute("PRAGMA synchronous = normal")
        connection.set_busy_timeout(10_000)
        return connection

    def create(self, connection: apsw.Connection) -> None:
        """Make the tables."""
        connection.execute("CREATE TABLE chunks(row INTEGER PRIMARY KEY, document TEXT, text TEXT)")
        connection.execute("CREATE INDEX by_document ON chunks(document)")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='chunks', content_rowid='row')")

    def insert(self, connection: apsw.Connection, batch: Batch) -> None:
        """Insert rows, inside a transaction."""
        connection.executemany("INSERT INTO chunks VALUES (?, ?, ?)", zip(batch.rows, batch.documents, batch.texts, strict=True))
        connection.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", zip(batch.rows, batch.texts, strict=True))

    def remove(self, connection: apsw.Connection, row: int, text: str) -> None:
        """Delete a row, inside a transaction."""
        connection.execute("INSERT INTO words(words, rowid, text) VALUES ('delete', ?, ?)", (row, text))
        connection.execute("DELETE FROM chunks WHERE row = ?", (row,))
