"""Reading single documents and chunks, and holding a chunk against the stored document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import apsw
import orjson

from rag_stdlib import values
from rag_stdlib.contract.provenance import chunk_is_grounded
from rag_stdlib.errors import fail
from rag_stdlib.index.search import CHUNK_COLUMNS, envelope
from rag_stdlib.index.sql import rows
from rag_stdlib.index.store import Store
from rag_stdlib.index.texts import stored_text
from rag_stdlib.records import EffectEnvelope, FrozenDict, RagChunkEnvelope, RagDocumentEnvelope

GET_EFFECT: Final = "std.rag.get"
UNRANKED: Final[Mapping[str, None]] = FrozenDict(score=None, mode=None, lexical_score=None, vector_score=None)


def get(store: Store, path: str, item_id: str) -> RagDocumentEnvelope | RagChunkEnvelope:
    """Return the document with this id, or else the chunk ``DOC_ID:ORDINAL``.

    Raises:
        Failure: `not_found`, or a refusal of the path or file.
    """
    with store.reading(path) as connection:
        found = _document(connection, item_id) or _chunk(connection, item_id)
    if found is None:
        raise fail("not_found", kind="document or chunk", id=values.shown(item_id))
    return found


def _document(connection: apsw.Connection, doc_id: str) -> RagDocumentEnvelope | None:
    text = stored_text(connection, doc_id)
    for source, media_type, metadata, digest, chunks in rows(
        connection, "SELECT source, media_type, metadata, content_sha256, chunks FROM rag_documents WHERE id = ?", (doc_id,)
    ):
        meta = EffectEnvelope(GET_EFFECT, replay_key=GET_EFFECT)
        return RagDocumentEnvelope(doc_id, source, media_type, text or "", meta, FrozenDict(orjson.loads(metadata)), digest, chunks)
    return None


def split_chunk_id(chunk_id: str) -> tuple[str, int] | None:
    """Split ``DOC_ID:ORDINAL`` at its last colon (a document id may hold colons itself); None if it is none."""
    doc_id, colon, ordinal = chunk_id.rpartition(":")
    if not colon or not (ordinal.isascii() and ordinal.isdigit()) or str(int(ordinal[:18])) != ordinal:
        return None
    return doc_id, int(ordinal)


def _chunk(connection: apsw.Connection, chunk_id: str) -> RagChunkEnvelope | None:
    parts = split_chunk_id(chunk_id)
    if parts is None:
        return None
    row: Any
    for row in connection.execute(f"SELECT {CHUNK_COLUMNS} FROM rag_chunks c JOIN rag_documents d ON d.id = c.doc_id "
                                  "WHERE c.doc_id = ? AND c.ordinal = ?", parts):
        return envelope(row, UNRANKED, GET_EFFECT)
    return None


def chunk_in_index(store: Store, path: str, chunk: RagChunkEnvelope) -> bool:
    """Tell whether a grounded chunk is stored just so, and is the slice of the stored document that it says it is.

    Every field counts but those a search adds: `score`, `mode`, `lexical_score`, `vector_score` and `effect_meta`.
    """
    with store.reading(path) as connection:
        stored = _chunk(connection, chunk.chunk_id) if chunk_is_grounded(chunk) else None
        if stored is None or _stored_part(stored) != _stored_part(chunk):
            return False
        text = stored_text(connection, chunk.doc_id) or ""
    start = len(text[:chunk.start_char].encode())
    return bool(start == chunk.start_byte and text[chunk.start_char:chunk.end_char] == chunk.text)


def _stored_part(chunk: RagChunkEnvelope) -> str | None:
    """Write what an index stores of a chunk as JSON, which tells true from 1; None for what no index can hold."""
    part = {name: value for name, value in chunk.to_dict().items() if name not in (*UNRANKED, "effect_meta")}
    try:
        return json.dumps(part, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None


def documents_by_path(store: Store, path: str) -> list[tuple[str, str]]:
    """List the documents that came from files, as (id, the file's path below the root), by their metadata."""
    with store.reading(path) as connection:
        return [(doc_id, file) for doc_id, file in rows(
            connection, "SELECT id, json_extract(metadata, '$.path') FROM rag_documents ORDER BY id") if file == doc_id]


def unicode_twin(store: Store, path: str, doc_id: str, forms: tuple[str, ...]) -> str | None:
    """Return a stored id that differs from `doc_id` but is one of its Unicode normal `forms`."""
    with store.reading(path) as connection:
        for (found,) in connection.execute("SELECT id FROM rag_documents WHERE id <> ? AND id IN "
                                           "(SELECT value FROM json_each(?))", (doc_id, json.dumps(forms))):
            return str(found)
    return None
