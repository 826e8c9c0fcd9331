"""BM25 by FTS5 itself: for a search that keeps nothing in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw
import numpy as np

from rag_stdlib.index.sql import number

if TYPE_CHECKING:
    import numpy.typing as npt


def match_expression(terms: Sequence[tuple[str, bool]]) -> str:
    """Write terms as an FTS5 query: each a quoted string, joined by OR; nothing of them is read as syntax."""
    return " OR ".join('"{}"{}'.format(term.replace('"', '""'), " *" if prefix else "") for term, prefix in terms)


def scores(connection: apsw.Connection,
           terms: Sequence[tuple[str, bool]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Score every chunk that holds a term: (seqs ascending, BM25), in FTS5's formula (k1 1.2, b 0.75), higher is better."""
    if not terms:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    found = connection.execute("SELECT rowid, -bm25(rag_lexical) FROM rag_lexical WHERE rag_lexical MATCH ?",
                               (match_expression(terms),)).fetchall()
    seqs = np.fromiter((row[0] for row in found), np.int64, len(found))
    values = np.fromiter((row[1] for row in found), np.float64, len(found))
    if not np.isfinite(values).all():
        raise apsw.CorruptError("a term is stored of more chunks than the lexical index counts")
    return seqs, values


def holding(connection: apsw.Connection, term: tuple[str, bool]) -> int:
    """Count the chunks that hold a term."""
    return number(connection, "SELECT count(*) FROM rag_lexical WHERE rag_lexical MATCH ?", (match_expression([term]),))
