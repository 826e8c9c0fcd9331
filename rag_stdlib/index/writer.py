"""Putting documents in and taking them out: each document is replaced whole, in one short transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from rag_stdlib.contract.provenance import content_sha256, key_and_digest
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index import content, lexical, schema, vectors
from rag_stdlib.index.sql import number
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.index.store import Store
from rag_stdlib.records import SourceDocument
from rag_stdlib.text.chunker import STD_RAG, Chunk, ChunkOptions, chunk_text, embedded_text
from rag_stdlib.text.positions import LineNumbers, page_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = dict[str, npt.NDArray[np.float32]]

SLICE: Final = 256  # texts embedded in one call, so that the deadline of a call fits a slow server's long document
_INSERT_CHUNK: Final = (
    "INSERT INTO rag_chunks(seq, chunk_id, doc_id, source, text, start_char, end_char, provenance_key, ordinal, "
    "start_byte, end_byte, start_line, end_line, page, content_sha256, context) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)


@dataclass(frozen=True, slots=True)
class Ingested:
    """What an ingest did: chunks stored, whether anything was written, texts embedded and vectors reused."""

    chunks: int
    changed: bool
    embedded: int = 0
    reused: int = 0


def ingest(store: Store, path: str, document: SourceDocument, chunk_chars: int,
           options: ChunkOptions = STD_RAG, embedder: Embedder | None = None) -> Ingested:
    """Store a document, replacing the one with the same id; a document that is stored just so already costs one look.

    Chunks whose text was embedded before keep their vectors; the others are embedded before the transaction begins.

    Raises:
        Failure: a refusal of the path or file, `embedding_mismatch`, `too_many_chunks`, an `embedder_*` code, `busy`,
            `disk_full`. Whatever it is, the index holds the document as it was before.
    """
    row = _document_row(document, chunk_chars, options)
    stored = _stored(store, path) if embedder else None
    known, unchanged = _look(store, path, row, boundary.identified(embedder, stored) if embedder else None)
    if unchanged is not None:
        return Ingested(unchanged, changed=False)
    chunks = chunk_text(document.text, chunk_chars, options=options)
    found, embedded = _embed(embedder, chunks, known)
    identity = boundary.identified(embedder, stored) if embedder else None  # now the embedder has seen the true dimension
    row = (*row, len(chunks))
    with store.writing(path, create=True) as connection:
        replaced = content.stored_member(connection, document.doc_id)
        remove_document(connection, document.doc_id)
        _insert(connection, document, row, chunks)
        if identity is not None and chunks:
            vectors_in_order = [found[content_sha256(chunk.embedded_text)] for chunk in chunks]
            _insert_vectors(connection, path, document.doc_id, identity, vectors_in_order)
        content.advance(connection, gone=replaced, come=content.member((*row[:3], *row[4:])))  # without its text
        arrived = number(connection, "SELECT count(*) FROM rag_chunks WHERE doc_id = ?", (document.doc_id,))
        if arrived != len(chunks):
            raise fail("internal", tool="rag_ingest", detail=f"{arrived} of {len(chunks)} chunks arrived")
    return Ingested(len(chunks), changed=True, embedded=embedded, reused=len(found) - embedded)


def _document_row(document: SourceDocument, chunk_chars: int, options: ChunkOptions) -> tuple[Any, ...]:
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return (document.doc_id, document.source, document.media_type, document.text, content_sha256(document.text), metadata,
            json.dumps(document.lines), json.dumps(document.pages), chunk_chars, options.name())


def _stored(store: Store, path: str) -> EmbedderIdentity | None:
    with store.reading_if_any(path) as connection:
        return schema.stored_identity(connection) if connection is not None else None


def _look(store: Store, path: str, row: tuple[Any, ...], given: EmbedderIdentity | None) -> tuple[Vectors, int | None]:
    """Look at the stored document: the vectors it can lend, and its number of chunks if nothing has to be done."""
    with store.reading_if_any(path) as connection:
        if connection is None:
            return {}, None
        if given is not None:
            _check_identity(connection, path, given)
        same = connection.execute(
            "SELECT chunks FROM rag_documents WHERE (id, source, media_type, content_sha256, metadata, line_anchors, "
            "page_anchors, chunk_chars, chunker) = (?,?,?,?,?,?,?,?,?)", (*row[:3], *row[4:])).fetchone()
        if same is not None and (given is None or _all_have_vectors(connection, row[0], given)):
            return {}, int(same[0])
        return (_stored_vectors(connection, row[0], given) if given is not None else {}), None


def _check_identity(connection: apsw.Connection, path: str, given: EmbedderIdentity) -> None:
    stored = schema.stored_identity(connection)
    if stored is not None and stored != given and vectors.count(connection):
        raise fail("embedding_mismatch", path=path, stored=stored.describe(), given=given.describe())


def _texts(connection: apsw.Connection, doc_id: str) -> dict[str, int]:
    """Return the digests of the embedded texts of a stored document, each with the seq of one chunk."""
    return {content_sha256(embedded_text(context, text)): seq for context, text, seq in
            sql_rows(connection, "SELECT context, text, seq FROM rag_chunks WHERE doc_id = ?", (doc_id,))}


def _all_have_vectors(connection: apsw.Connection, doc_id: str, given: EmbedderIdentity) -> bool:
    if not vectors.exists(connection) or schema.stored_identity(connection) != given:
        return connection.execute("SELECT 1 FROM rag_chunks WHERE doc_id = ?", (doc_id,)).fetchone() is None
    return connection.execute(
        "SELECT 1 FROM rag_chunks c WHERE doc_id = ? AND NOT EXISTS "
        "(SELECT 1 FROM rag_vectors_rowids v WHERE v.rowid = c.seq)", (doc_id,)).fetchone() is None


def _stored_vectors(connection: apsw.Connection, doc_id: str, given: EmbedderIdentity) -> Vectors:
    if schema.stored_identity(connection) != given:
        return {}
    seqs = _texts(connection, doc_id)
    found = vectors.load_some(connection, list(seqs.values()), given.dim)
    return {digest: found[seq] for digest, seq in seqs.items() if seq in found}


def _embed(embedder: Embedder | None, chunks: Sequence[Chunk], known: Vectors) -> tuple[Vectors, int]:
    """Give every distinct text a vector, embedding only those that have none: (vectors, how many were embedded)."""
    if embedder is None:
        return {}, 0
    texts = {content_sha256(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
    missing = [digest for digest in texts if digest not in known]
    found = {digest: known[digest] for digest in texts if digest in known}
    for start in range(0, len(missing), SLICE):
        part = missing[start:start + SLICE]
        found.update(zip(part, boundary.embedded(embedder, [texts[digest] for digest in part], "passage"), strict=True))
    return found, len(missing)


def _insert(connection: apsw.Connection, document: SourceDocument, row: tuple[Any, ...], chunks: Sequence[Chunk]) -> None:
    connection.execute(
        "INSERT INTO rag_documents(id, source, media_type, text, content_sha256, metadata, line_anchors, page_anchors, "
        "chunk_chars, chunker, chunks) VALUES (?,?,?,?,?,?,?,?,?,?,?)", row)
    first = number(connection, "SELECT coalesce(max(seq), 0) + 1 FROM rag_chunks")
    connection.executemany(_INSERT_CHUNK, _chunk_rows(first, document, chunks))
    lexical.add(connection, ((first + chunk.ordinal, chunk.text) for chunk in chunks))


def _chunk_rows(first: int, document: SourceDocument, chunks: Sequence[Chunk]) -> Iterator[tuple[Any, ...]]:
    """Make the rows of `_INSERT_CHUNK`."""
    doc_id, source, pages = document.doc_id, document.source, document.pages
    lines = LineNumbers(document.text, document.lines)
    for ordinal, start, end, start_byte, end_byte, text, context in chunks:
        key, digest = key_and_digest(doc_id, start, end, text)
        yield (first + ordinal, doc_id + f":{ordinal}", doc_id, source, text, start, end, key, ordinal, start_byte, end_byte,
               lines.at(start), lines.at(end - 1), page_at(pages, start) if pages else None, digest, context)


def _insert_vectors(connection: apsw.Connection, path: str, doc_id: str, identity: EmbedderIdentity,
                    rows: Sequence[npt.NDArray[np.float32]]) -> None:
    import numpy as np

    _check_identity(connection, path, identity)
    prepare_vectors(connection, identity)
    seqs = [seq for (seq,) in sql_rows(connection, "SELECT seq FROM rag_chunks WHERE doc_id = ? ORDER BY ordinal", (doc_id,))]
    vectors.add(connection, seqs, np.stack(rows))


def prepare_vectors(connection: apsw.Connection, identity: EmbedderIdentity) -> None:
    """Make the vector table fit `identity`: an empty one of another embedder is made anew."""
    vectors.load_extension(connection)
    if schema.stored_identity(connection) != identity:
        if vectors.exists(connection):
            connection.execute("DROP TABLE rag_vectors")
        schema.create_vectors(connection, identity.dim)
        schema.set_fact(connection, "embedder", identity.to_json())


def remove_document(connection: apsw.Connection, doc_id: str) -> int:
    """Take a document out of every table, inside the caller's transaction; return its number of chunks."""
    rows = [(seq, text) for seq, text in
            sql_rows(connection, "SELECT seq, text FROM rag_chunks WHERE doc_id = ?", (doc_id,))]
    if rows:
        lexical.remove(connection, rows)
        if vectors.exists(connection):
            vectors.load_extension(connection)
            vectors.remove(connection, [seq for seq, _ in rows])
        connection.execute("DELETE FROM rag_chunks WHERE doc_id = ?", (doc_id,))
    connection.execute("DELETE FROM rag_documents WHERE id = ?", (doc_id,))
    return len(rows)


def delete(store: Store, path: str, doc_id: str) -> int | None:
    """Delete a document: its number of chunks, or None if the index does not hold it (then nothing is written)."""
    with store.reading(path) as connection:
        if connection.execute("SELECT 1 FROM rag_documents WHERE id = ?", (doc_id,)).fetchone() is None:
            return None
    with store.writing(path) as connection:
        gone = content.stored_member(connection, doc_id)
        removed = remove_document(connection, doc_id)
        content.advance(connection, gone=gone)
    return removed
