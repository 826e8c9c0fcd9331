"""Putting documents in and taking them out: each document is replaced whole, several of them in one transaction."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import apsw

from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import changes, content, corpora, lexical, multiset, schema, vectors
from rag_stdlib.index.bulk import insert
from rag_stdlib.index.prepare import CHUNK_COLUMNS, DOCUMENT_COLUMNS, Prepared, Row, document_row, prepare
from rag_stdlib.index.sql import number
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.index.store import Store
from rag_stdlib.records import NOTHING, SourceDocument
from rag_stdlib.text.chunker import STD_RAG, ChunkOptions, chunk_text, embedded_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

    Vectors = dict[str, npt.NDArray[np.float32]]

SLICE: Final = 256  # texts embedded in one call, so that the deadline of a call fits a slow server's long document
_CHUNKS: Final = f"rag_chunks({', '.join(CHUNK_COLUMNS)})"
_DOCUMENTS: Final = f"rag_documents({', '.join(DOCUMENT_COLUMNS)})"


@dataclass(frozen=True, slots=True)
class Ingested:
    """What an ingest did: chunks stored, whether anything was written, texts embedded and vectors reused."""

    chunks: int
    changed: bool
    embedded: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What the index holds of a document: its number of chunks if it is stored just so already, and vectors it can lend."""

    unchanged: int | None = None
    known: Vectors = field(default_factory=dict)


def ingest(store: Store, path: str, document: SourceDocument, chunk_chars: int,
           options: ChunkOptions = STD_RAG, embedder: Embedder | None = None, original: bytes | None = None) -> Ingested:
    """Store a document, replacing the one with the same id; a document that is stored just so already costs one look.

    Chunks whose text was embedded before keep their vectors; the others are embedded before the transaction begins.
    `original` are the bytes that the document was made from, where its text does not give them back.

    Raises:
        Failure: a refusal of the path or file, `embedding_mismatch`, `too_many_chunks`, an `embedder_*` code, `busy`,
            `disk_full`. Whatever it is, the index holds the document as it was before.
    """
    row = document_row(document, chunk_chars, options.name())
    stored = stored_identity(store, path) if embedder else None
    seen = look(store, path, [row], boundary.identified(embedder, stored) if embedder else None)[0]
    if seen.unchanged is not None:
        return Ingested(seen.unchanged, changed=False)
    prepared = prepare(document, row, chunk_text(document.text, chunk_chars, options=options))
    rows, embedded = embed(embedder, [prepared], seen.known)
    identity = boundary.identified(embedder, stored) if embedder else None  # now the embedder has seen the true dimension
    write(store, path, [prepared], identity, rows, {document.doc_id: original} if original is not None else {})
    return Ingested(prepared.chunks, changed=True, embedded=embedded, reused=len(prepared.texts) - embedded if embedder else 0)


def stored_identity(store: Store, path: str) -> EmbedderIdentity | None:
    """Return the identity of the embedder whose vectors the index holds; None where there are none, or no index yet."""
    with store.reading_if_any(path) as connection:
        return schema.stored_identity(connection) if connection is not None else None


def look(store: Store, path: str, documents: Sequence[Row], given: EmbedderIdentity | None) -> list[Look]:
    """Look at the stored forms of documents, given as their rows (see `document_row`), in one snapshot."""
    with store.reading_if_any(path) as connection:
        if connection is None:
            return [Look()] * len(documents)
        if given is not None:
            _check_identity(connection, path, given)
        return [_look(connection, row, given) for row in documents]


def _look(connection: apsw.Connection, row: Row, given: EmbedderIdentity | None) -> Look:
    found = sql_rows(
        connection,
        "SELECT chunks, (source, media_type, content_sha256, metadata, line_anchors, page_anchors, chunk_chars, chunker) "
        "= (?,?,?,?,?,?,?,?) FROM rag_documents WHERE id = ?", (*row[1:], row[0])).fetchone()
    if found is None:
        return Look()
    if found[1] and (given is None or _all_have_vectors(connection, row[0], given)):
        return Look(unchanged=int(found[0]))
    return Look(known=_stored_vectors(connection, row[0], given)) if given is not None else Look()


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


def embed(embedder: Embedder | None, group: Sequence[Prepared], known: Vectors) -> tuple[Matrix | None, int]:
    """Give every chunk of some documents its vector, embedding each distinct text once, and only those that are not `known`.

    Returns (float32 (chunks, dim), how many texts were embedded); (None, 0) without an embedder or chunks. Where the embedder
    fails, what it gave before that is put into `known`.
    """
    texts: dict[str, str] = {}
    for document in group:
        texts.update(document.texts)
    if embedder is None or not texts:
        return None, 0
    import numpy as np

    missing = [digest for digest in texts if digest not in known]
    parts: list[Matrix] = []
    try:
        for start in range(0, len(missing), SLICE):
            part = [texts[digest] for digest in missing[start:start + SLICE]]
            parts.append(boundary.embedded(embedder, part, "passage"))
    except Failure:
        known.update(zip(missing, itertools.chain.from_iterable(parts), strict=False))
        raise
    lent = [digest for digest in texts if digest in known]
    if lent:
        parts.append(np.stack([known[digest] for digest in lent]))
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    places = {digest: place for place, digest in enumerate(itertools.chain(missing, lent))}
    order = [places[digest] for document in group for digest in document.digests]
    return (whole if order == list(range(len(whole))) else whole[order]), len(missing)


def write(store: Store, path: str, group: Sequence[Prepared], identity: EmbedderIdentity | None, rows: Matrix | None,
          originals: Mapping[str, bytes] = NOTHING) -> None:
    """Store documents of different ids in one transaction, replacing those with their ids; `rows` are their vectors, if any.

    Raises:
        Failure: `corpus_document` for one that belongs to a corpus.
    """
    doc_ids = [document.doc_id for document in group]
    with store.writing(path, create=True) as connection:
        corpora.refuse_owned(connection, doc_ids)
        gone = content.stored_members(connection, doc_ids)
        went, texts = remove(connection, doc_ids)
        seqs = add(connection, path, group, texts, identity, rows)
        for doc_id, data in originals.items():
            corpora.keep_original(connection, doc_id, data)
        content.advance(connection, gone=total(gone), come=total(document.lanes for document in group),
                        steps=_steps(group, went, seqs))


def add(connection: apsw.Connection, path: str, group: Sequence[Prepared], gone_texts: Mapping[int, str],
        identity: EmbedderIdentity | None, rows: Matrix | None) -> range:
    """Insert documents whose ids are free, inside the caller's transaction; return the seqs of their chunks, in order.

    `gone_texts` are the texts that `remove` took out, whose terms go with the same stroke: each statement over several rows in
    between would have FTS5 write a segment of its own. The caller counts up the generation.
    """
    seqs = _insert(connection, group)
    lexical.remove(connection, gone_texts.items())
    lexical.append(connection, seqs.start, list(itertools.chain.from_iterable(document.terms for document in group)))
    if identity is not None and rows is not None:
        _check_identity(connection, path, identity)
        prepare_vectors(connection, identity)
        vectors.add(connection, seqs, rows)
    arrived = number(connection, "SELECT count(*) FROM rag_chunks WHERE seq >= ?", (seqs.start,))
    if arrived != len(seqs):
        raise fail("internal", tool="rag_ingest", detail=f"{arrived} of {len(seqs)} chunks arrived")
    return seqs


def _insert(connection: apsw.Connection, group: Sequence[Prepared]) -> range:
    """Insert documents with their chunks; return the seqs of the chunks, in order."""
    insert(connection, _DOCUMENTS, len(DOCUMENT_COLUMNS), [value for document in group for value in document.row])
    values: list[Any] = list(itertools.chain.from_iterable(document.values for document in group))
    first = schema.next_seq(connection)
    seqs = range(first, first + sum(document.chunks for document in group))
    if seqs:
        values[0] = first
        insert(connection, _CHUNKS, len(CHUNK_COLUMNS), values)
        schema.set_fact(connection, "last_seq", seqs[-1])
    return seqs


def _steps(group: Sequence[Prepared], went: Mapping[str, range | None], seqs: range) -> list[changes.Step]:
    """Say which seqs went and came with each document; nothing where what went was no range."""
    steps: list[changes.Step] = []
    behind = seqs.start
    for document in group:
        gone = went.get(document.doc_id, changes.NONE)
        if gone is None:
            return []
        steps.append((gone, range(behind, behind + document.chunks)))
        behind += document.chunks
    return steps


def total(members: Iterable[int]) -> int:
    """Add up the lanes of documents."""
    return functools.reduce(multiset.plus, members, multiset.EMPTY)


def prepare_vectors(connection: apsw.Connection, identity: EmbedderIdentity) -> None:
    """Make the vector table fit `identity`: an empty one of another embedder is made anew."""
    if schema.stored_identity(connection) != identity:
        vectors.load_extension(connection)
        if vectors.exists(connection):
            connection.execute("DROP TABLE rag_vectors")
        schema.create_vectors(connection, identity.dim)
        schema.set_fact(connection, "embedder", identity.to_json())


def remove(connection: apsw.Connection, doc_ids: Sequence[str]) -> tuple[dict[str, range | None], dict[int, str]]:
    """Take documents out of every table but the lexical index, inside the caller's transaction.

    Returns the seqs that went, for each document that had chunks (None for one whose seqs were no range, as ours always are), and
    the texts by seq, for `lexical.remove`.
    """
    given = (json.dumps(doc_ids),)
    texts: dict[int, str] = {}
    seqs: dict[str, list[int]] = {}
    for doc_id, seq, text in sql_rows(connection, "SELECT doc_id, seq, text FROM rag_chunks "
                                      "WHERE doc_id IN (SELECT value FROM json_each(?)) ORDER BY doc_id, ordinal", given):
        texts[seq] = text
        seqs.setdefault(doc_id, []).append(seq)
    if texts:
        last = schema.get_fact(connection, "last_seq")
        if not isinstance(last, int) or last < max(texts):  # written by a program that does not know of it
            schema.set_fact(connection, "last_seq", max(texts))
        if vectors.exists(connection):
            vectors.remove(connection, texts.keys())
        connection.execute("DELETE FROM rag_chunks WHERE doc_id IN (SELECT value FROM json_each(?))", given)
    corpora.forget(connection, given)
    connection.execute("DELETE FROM rag_documents WHERE id IN (SELECT value FROM json_each(?))", given)
    return {doc_id: _range(numbers) for doc_id, numbers in seqs.items()}, dict(sorted(texts.items()))


def _range(seqs: list[int]) -> range | None:
    whole = range(seqs[0], seqs[0] + len(seqs))
    return whole if seqs == list(whole) else None


def delete(store: Store, path: str, doc_id: str) -> int | None:
    """Delete a document: its number of chunks, or None if the index does not hold it (then nothing is written)."""
    with store.reading(path) as connection:
        if connection.execute("SELECT 1 FROM rag_documents WHERE id = ?", (doc_id,)).fetchone() is None:
            return None
    with store.writing(path) as connection:
        corpora.refuse_owned(connection, [doc_id])
        gone = content.stored_members(connection, [doc_id])
        ranges, texts = remove(connection, [doc_id])
        lexical.remove(connection, texts.items())
        went = ranges.get(doc_id, changes.NONE)
        content.advance(connection, gone=total(gone), steps=[(went, changes.NONE)] if went is not None else ())
    return len(texts)
