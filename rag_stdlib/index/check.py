"""Walk every row of an index and say what does not hold together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import apsw

from rag_stdlib.contract.provenance import content_sha256, provenance_key
from rag_stdlib.index import changes, content, corpora, schema, vectors, vecwrite
from rag_stdlib.index.sql import number
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.index.store import Store
from rag_stdlib.index.texts import stored_text
from rag_stdlib.records import CheckReport
from rag_stdlib.text.normalize import index_terms
from rag_stdlib.values import shown

MAX_PROBLEMS: Final = 100
_MASK: Final = (1 << 64) - 1


def check(store: Store, path: str) -> CheckReport:
    """Check SQLite's structure, the schema, every document, the digest kept of them, every chunk, provenance key, lexical posting and vector, in one snapshot."""
    problems: list[str] = []
    notices: list[str] = []
    with store.reading(path) as connection:
        for step in (_structure, _schema, _documents, _content, _corpus, _chunks, _lexical, _vectors):
            _collect(problems, step, connection)
        _collect(notices, _missing_vectors, connection)
        held = vectors.count(connection)
        documents, chunks = (number(connection, f"SELECT count(*) FROM {table}")
                             for table in ("rag_documents", "rag_chunks"))
    return CheckReport(documents, chunks, held, tuple(problems[:MAX_PROBLEMS]), tuple(notices))


def _collect(problems: list[str], step: Callable[[apsw.Connection], Iterator[str]], connection: apsw.Connection) -> None:
    try:
        for problem in step(connection):
            problems.append(problem)
            if len(problems) >= MAX_PROBLEMS:
                return
    except (apsw.Error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, (apsw.BusyError, apsw.IOError)):
            raise
        problems.append(f"{step.__name__.strip('_')}: unreadable ({' '.join(str(error).split())})")


def _structure(connection: apsw.Connection) -> Iterator[str]:
    # FTS5's own check may go by what this connection remembers of the index's segments, and call it damaged when another
    # connection has merged them since; a query makes it look anew.
    with suppress(apsw.Error):
        connection.execute("SELECT rowid FROM rag_lexical WHERE rag_lexical MATCH 'x' LIMIT 1").fetchall()
    for (message,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if message != "ok":
            yield f"SQLite: {message}"
    for table, _row, parent, _key in connection.execute("PRAGMA foreign_key_check"):
        yield f"SQLite: a row of {table} has no {parent}"


def _schema(connection: apsw.Connection) -> Iterator[str]:
    yield from schema.differences(connection)


def _documents(connection: apsw.Connection) -> Iterator[str]:
    counts: dict[str, tuple[int, int]] = {
        doc_id: (count, last) for doc_id, count, last in
        connection.execute("SELECT doc_id, count(*), max(ordinal) FROM rag_chunks GROUP BY doc_id")}
    for doc_id, size, metadata, chunks in connection.execute("SELECT id, bytes, metadata, chunks FROM rag_documents ORDER BY id"):
        text = _text(connection, doc_id)
        if text is None:
            yield f"document {shown(doc_id)!r}: its text does not have the stored digest"
        elif len(text.encode()) != size:
            yield f"document {shown(doc_id)!r}: its text has {len(text.encode())} bytes, where {size} were stored"
        if not isinstance(json.loads(metadata), dict):
            yield f"document {shown(doc_id)!r}: its metadata is no object"
        count, last = counts.get(doc_id, (0, -1))
        if count != chunks or last != chunks - 1:
            yield f"document {shown(doc_id)!r}: {count} chunks up to number {last}, where {chunks} were stored"


def _content(connection: apsw.Connection) -> Iterator[str]:
    yield from content.problems(connection)
    yield from changes.problems(connection)


def _corpus(connection: apsw.Connection) -> Iterator[str]:
    yield from corpora.problems(connection)


def _chunks(connection: apsw.Connection) -> Iterator[str]:
    text: str | None = None
    current = None
    for row in connection.execute(
        "SELECT doc_id, ordinal, chunk_id, source, text, start_char, end_char, start_byte, end_byte, provenance_key, "
        "content_sha256 FROM rag_chunks ORDER BY doc_id, ordinal"
    ):
        doc_id, ordinal, chunk_id = row[:3]
        if doc_id != current:
            current = doc_id
            text = _text(connection, doc_id)
        problem = _chunk_problem(row, text)
        if chunk_id != f"{doc_id}:{ordinal}":
            problem = f"is called {shown(chunk_id)!r}"
        if problem:
            yield f"chunk '{shown(doc_id)}:{ordinal}': {problem}"


def _text(connection: apsw.Connection, doc_id: str) -> str | None:
    """Return a document's text, None where its parts do not make it or nothing is stored."""
    try:
        return stored_text(connection, doc_id)
    except apsw.CorruptError:
        return None


def _chunk_problem(row: tuple[Any, ...], document: str | None) -> str:
    """Hold a chunk against its document, where that has a text, and against its own key and digest."""
    doc_id, _ordinal, _chunk_id, _source, text, start, end, start_byte, end_byte, key, digest = row
    if document is not None:
        if document[start:end] != text:
            return "is not the slice of its document that its offsets say"
        first = len(document[:start].encode())
        if (start_byte, end_byte) != (first, first + len(text.encode())):
            return "has wrong byte offsets"
    if provenance_key(doc_id, start, end, text) != key:
        return "has a wrong provenance key"
    return "" if content_sha256(text) == digest else "has a wrong content digest"


def _lexical(connection: apsw.Connection) -> Iterator[str]:
    """Compare the postings with the terms of every chunk, as multisets, by a sum of hashes: one pass, little memory."""
    expected = rows = 0
    for seq, text in connection.execute("SELECT seq, text FROM rag_chunks"):
        rows += 1
        for position, term in enumerate(index_terms(text).split()):
            expected = (expected + hash((term, seq, position))) & _MASK
    indexed = number(connection, "SELECT count(*) FROM rag_lexical_docsize")
    if indexed != rows:
        yield f"lexical index: {indexed} rows for {rows} chunks"
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.rag_postings USING fts5vocab('main', 'rag_lexical', 'instance')")
    found = 0
    for posting in connection.execute("SELECT term, doc, offset FROM temp.rag_postings"):
        found = (found + hash(posting)) & _MASK
    if found != expected:
        yield "lexical index: its postings are not those of the chunks' texts; run compact to rebuild them"


def _vectors(connection: apsw.Connection) -> Iterator[str]:
    identity = schema.stored_identity(connection)
    if not vectors.exists(connection):
        return
    if identity is None:
        yield "vectors: a table of vectors, but no embedder that they are of"
        return
    import numpy as np

    yield from _blocks(connection, vecwrite.block_size(connection))
    seqs: list[int] = []
    bad = astray = 0
    for some, rows in vectors.blocks(connection, identity.dim):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        bad += int((~(np.abs(norms - 1.0) < 1e-3)).sum())  # noqa: PLR2004 - float32 rounding stays far below
        found = vectors.load_some(connection, some.tolist(), identity.dim)
        astray += sum(not np.array_equal(found[seq], row) for seq, row in zip(some.tolist(), rows, strict=True) if seq in found)
        seqs += some.tolist()
    listed = [seq for (seq,) in sql_rows(connection, "SELECT rowid FROM rag_vectors_rowids ORDER BY rowid")]
    if sorted(seqs) != listed:
        yield "vectors: the table's row list and its blobs differ"
    strangers = len(set(seqs) - {seq for (seq,) in sql_rows(connection, "SELECT seq FROM rag_chunks")})
    if strangers:
        yield f"vectors: {strangers} belong to no chunk"
    if bad:
        yield f"vectors: {bad} are not of unit length"
    if astray:
        yield "vectors: the row list points to other vectors than the bitmaps do"


def _blocks(connection: apsw.Connection, size: int) -> Iterator[str]:
    """Compare the two tables of blocks: every block has a size, a bitmap, a list of rows and vectors, each in its place."""
    for statement, problem in (
        (f"SELECT count(*) FROM rag_vectors_chunks WHERE size <> {size} OR length(validity) * 8 <> size OR length(rowids) <> size * 8",
         "do not have the size that the table was made with"),
        ("SELECT count(*) FROM rag_vectors_chunks WHERE chunk_id NOT IN (SELECT rowid FROM rag_vectors_vector_chunks00)",
         "have no vectors"),
        ("SELECT count(*) FROM rag_vectors_vector_chunks00 WHERE rowid NOT IN (SELECT chunk_id FROM rag_vectors_chunks)",
         "of vectors have no list of rows"),
        ("SELECT count(*) FROM rag_vectors_vector_chunks00 WHERE rowid IS NOT _rowid_", "of vectors do not stand under their number"),
    ):
        wrong = number(connection, statement)
        if wrong:
            yield f"vectors: {wrong} blocks {problem}"


def _missing_vectors(connection: apsw.Connection) -> Iterator[str]:
    if vectors.exists(connection):
        total, missing = connection.execute(
            "SELECT count(*), sum(seq NOT IN (SELECT rowid FROM rag_vectors_rowids)) FROM rag_chunks").fetchall()[0]
        if missing:
            yield f"{missing} of {total} chunks have no vector; vector and hybrid searches refuse until reembed"
