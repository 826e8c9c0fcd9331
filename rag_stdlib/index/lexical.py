"""The lexical side: FTS5 rows of folded terms, written and taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from rag_stdlib.index.sql import HAS_ARRAYS
from rag_stdlib.text.normalize import index_text

_MANY: Final = 256  # rows for one statement: every statement over several rows has FTS5 write out its table of terms


def add(connection: apsw.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Index the texts of new chunks, given as (seq, text)."""
    connection.executemany("INSERT INTO rag_lexical(rowid, terms) VALUES (?, ?)",
                           ((seq, index_text(text)) for seq, text in rows))


def append(connection: apsw.Connection, first: int, terms: Sequence[str]) -> None:
    """Index new chunks from the seq `first` on, given as the terms of each (see `index_text`)."""
    if len(terms) >= _MANY and HAS_ARRAYS:
        connection.execute("INSERT INTO rag_lexical(rowid, terms) SELECT ?1 + rowid, value FROM carray(?2)",
                           (first - 1, apsw.carray(tuple(terms))))
    else:
        connection.executemany("INSERT INTO rag_lexical(rowid, terms) VALUES (?, ?)", enumerate(terms, first))


def remove(connection: apsw.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Take chunks out, given as (seq, the text that was indexed): FTS5 needs the very terms it was given."""
    connection.executemany("INSERT INTO rag_lexical(rag_lexical, rowid, terms) VALUES ('delete', ?, ?)",
                           ((seq, index_text(text)) for seq, text in rows))


def rebuild(connection: apsw.Connection) -> None:
    """Index every chunk anew, so that nothing of deleted texts is left."""
    connection.execute("INSERT INTO rag_lexical(rag_lexical) VALUES ('delete-all')")
    add(connection, connection.execute("SELECT seq, text FROM rag_chunks ORDER BY seq"))
