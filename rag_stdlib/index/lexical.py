"""The lexical side: FTS5 rows of folded terms, and BM25 over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from rag_stdlib.text.normalize import index_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DECIMALS: Final = 9  # of every score that leaves the index
_MANY: Final = 256  # rows for one statement: every statement over several rows has FTS5 write out its table of terms
_HAS_ARRAYS: Final = "ENABLE_CARRAY" in apsw.compile_options  # as in every wheel on PyPI


def add(connection: apsw.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Index the texts of new chunks, given as (seq, text)."""
    connection.executemany("INSERT INTO rag_lexical(rowid, terms) VALUES (?, ?)",
                           ((seq, index_text(text)) for seq, text in rows))


def append(connection: apsw.Connection, first: int, terms: Sequence[str]) -> None:
    """Index new chunks from the seq `first` on, given as the terms of each (see `index_text`)."""
    if len(terms) >= _MANY and _HAS_ARRAYS:
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


def match_expression(terms: Sequence[tuple[str, bool]]) -> str:
    """Write terms as an FTS5 query: each a quoted string, joined by OR; nothing of them is read as syntax."""
    return " OR ".join('"{}"{}'.format(term.replace('"', '""'), " *" if prefix else "") for term, prefix in terms)


def scores(connection: apsw.Connection,
           terms: Sequence[tuple[str, bool]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Score every chunk that holds a term: (seqs, BM25), in FTS5's formula (k1 1.2, b 0.75), higher is better."""
    import numpy as np

    if not terms:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    found = connection.execute("SELECT rowid, -bm25(rag_lexical) FROM rag_lexical WHERE rag_lexical MATCH ?",
                               (match_expression(terms),)).fetchall()
    seqs = np.fromiter((row[0] for row in found), np.int64, len(found))
    values = np.fromiter((row[1] for row in found), np.float64, len(found))
    return seqs, values.round(DECIMALS)
