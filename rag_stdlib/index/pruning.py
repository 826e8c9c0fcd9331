"""Taking chunks out of a document that stays: its text is kept, and is not found by them any more."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import apsw
import orjson

from rag_stdlib.errors import fail
from rag_stdlib.index import content, corpora, schema, vectors, writer
from rag_stdlib.index.prepare import prepare
from rag_stdlib.index.served import chunk_id, chunks_of
from rag_stdlib.index.sql import rows
from rag_stdlib.index.store import Store
from rag_stdlib.index.texts import stored_text
from rag_stdlib.records import FrozenDict, RagChunkEnvelope, SourceDocument
from rag_stdlib.text.chunker import MAX_CHUNKS, Chunk
from rag_stdlib.values import shown

_PRUNED: Final = "+pruned"


def prune(store: Store, path: str, doc_id: str, names: Container[str] | None = None) -> list[str]:
    """Take those of a document's chunks out that are named (see `served.chunk_id`), all of them without names; return whose it were.

    The document keeps its text. Whoever ingests it again, even just so, makes it whole.

    Raises:
        Failure: `not_found`, `corpus_document`, and what `Store.writing` raises.
    """
    with store.writing(path) as connection:
        corpora.refuse_owned(connection, [doc_id])
        found = _stored(connection, doc_id)
        if found is None:
            raise fail("not_found", kind="document", id=shown(doc_id))
        document, row = found
        chunks = chunks_of(connection, doc_id, MAX_CHUNKS)
        goes = [names is None or chunk_id(chunk) in names for chunk in chunks]
        kept = [chunk for chunk, going in zip(chunks, goes, strict=True) if not going]
        if len(kept) < len(chunks):
            _replace(connection, path, document, row, kept)
    return [chunk_id(chunk) for chunk, going in zip(chunks, goes, strict=True) if going]


def _stored(connection: apsw.Connection, doc_id: str) -> tuple[SourceDocument, tuple[object, ...]] | None:
    text = stored_text(connection, doc_id)
    if text is None:
        return None
    ((source, media_type, digest, metadata, lines, pages, size, chunker),) = rows(
        connection, "SELECT source, media_type, content_sha256, metadata, line_anchors, page_anchors, chunk_chars, chunker "
                    "FROM rag_documents WHERE id = ?", (doc_id,))
    document = SourceDocument(doc_id, source, text, media_type, FrozenDict(orjson.loads(metadata)),
                              tuple(map(tuple, orjson.loads(lines))), tuple(map(tuple, orjson.loads(pages))))
    rules = chunker if chunker.endswith(_PRUNED) else chunker + _PRUNED  # no ingest takes it for the document that it would make
    return document, (doc_id, source, media_type, digest, metadata, lines, pages, size, rules)


def _replace(connection: apsw.Connection, path: str, document: SourceDocument, row: tuple[object, ...],
             kept: list[RagChunkEnvelope]) -> None:
    """Store a document anew with fewer chunks; their vectors go along."""
    original = corpora.original(connection, document.doc_id)
    stored = {ordinal: (seq, context) for ordinal, seq, context in rows(
        connection, "SELECT ordinal, seq, context FROM rag_chunks WHERE doc_id = ?", (document.doc_id,))}
    chunks = [Chunk(number, chunk.start_char, chunk.end_char, chunk.start_byte, chunk.end_byte, chunk.text, stored[chunk.ordinal][1])
              for number, chunk in enumerate(kept)]
    seqs = [stored[chunk.ordinal][0] for chunk in kept]
    identity = schema.stored_identity(connection)
    known = vectors.load_some(connection, seqs, identity.dim) if identity is not None and seqs else {}
    prepared = prepare(document, row, chunks)
    gone = content.stored_members(connection, [document.doc_id])
    _, texts = writer.remove(connection, [document.doc_id])
    new = writer.add(connection, path, [prepared], texts, None, None)
    held = [(now, known[before]) for now, before in zip(new, seqs, strict=True) if before in known]
    if held:
        import numpy as np

        vectors.add(connection, [now for now, _ in held], np.stack([vector for _, vector in held]))
    if original is not None:
        corpora.keep_original(connection, document.doc_id, original)
    content.advance(connection, gone=writer.total(gone), come=prepared.lanes)
