"""What a provider reads of an index besides searching it: sources, their chunks and bytes, each from the caller's snapshot."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw
import orjson

from rag_stdlib.index import corpora
from rag_stdlib.index.reader import GET_EFFECT, UNRANKED
from rag_stdlib.index.search import CHUNK_COLUMNS, envelope
from rag_stdlib.index.sql import rows
from rag_stdlib.index.texts import stored_text
from rag_stdlib.records import RagChunkEnvelope

_KEY_DIGITS: Final = 16
_KEY_START: Final = len("rag_")
_COLUMNS: Final = "id, source, media_type, metadata, content_sha256, chunks"


@dataclass(frozen=True, slots=True)
class Source:
    """A stored document without its text.

    `path` is its source, by which it is asked for; `bytes_sha256` is of the bytes that it was made from; `corpus`: it belongs to one.
    """

    doc_id: str
    path: str
    media_type: str
    metadata: Mapping[str, Any]
    bytes_sha256: str
    chunks: int
    corpus: bool


def source(connection: apsw.Connection, doc_id: str) -> Source | None:
    """Return the document with this id."""
    return next(iter(_sources(connection, f"SELECT {_COLUMNS} FROM rag_documents WHERE id = ?", (doc_id,))), None)


def source_by_path(connection: apsw.Connection, path: str) -> Source | None:
    """Return the document at this path: a corpus's file before all others, then one with this id, then the first of this source."""
    file = source(connection, corpora.PREFIX + path)
    if file is not None and file.corpus:
        return file
    statement = f"SELECT {_COLUMNS} FROM rag_documents WHERE source = ? ORDER BY id LIMIT 1"
    return source(connection, path) or next(iter(_sources(connection, statement, (path,))), None)


def sources_page(connection: apsw.Connection, offset: int, limit: int) -> list[Source]:
    """Return up to `limit` documents from the `offset`-th on, ordered by id."""
    return _sources(connection, f"SELECT {_COLUMNS} FROM rag_documents ORDER BY id LIMIT ? OFFSET ?", (limit, offset))


def _sources(connection: apsw.Connection, statement: str, bindings: tuple[Any, ...]) -> list[Source]:
    found = rows(connection, statement, bindings).fetchall()
    doc_ids = [row[0] for row in found]
    owned, originals = corpora.owned(connection, doc_ids), corpora.original_digests(connection, doc_ids)
    return [Source(doc_id, path, media_type, orjson.loads(metadata), originals.get(doc_id, digest), chunks, doc_id in owned)
            for doc_id, path, media_type, metadata, digest, chunks in found]


def document_bytes(connection: apsw.Connection, doc_id: str) -> bytes | None:
    """Return the very bytes that a document was made from; None for one that is not stored."""
    kept = corpora.original(connection, doc_id)
    if kept is not None:
        return kept
    text = stored_text(connection, doc_id)
    return None if text is None else text.encode()


def chunk_id(chunk: RagChunkEnvelope) -> str:
    """Name a chunk by its document and its content: ``DOC_ID#`` and the first 16 hex digits of its provenance key.

    Such a name never comes to stand for another text, and stays when other chunks of the document go.
    """
    return f"{chunk.doc_id}#{chunk.provenance_key[_KEY_START:_KEY_START + _KEY_DIGITS]}"


def chunk(connection: apsw.Connection, name: str) -> RagChunkEnvelope | None:
    """Return the chunk of this name, unranked; None where there is none (any more)."""
    doc_id, hash_sign, digits = name.rpartition("#")
    if not hash_sign or len(digits) != _KEY_DIGITS:
        return None
    found = rows(connection, f"SELECT {CHUNK_COLUMNS} FROM rag_chunks c JOIN rag_documents d ON d.id = c.doc_id "
                 "WHERE c.doc_id = ? AND substr(c.provenance_key, ?, ?) = ? ORDER BY c.ordinal LIMIT 1",
                 (doc_id, _KEY_START + 1, _KEY_DIGITS, digits))
    return next((envelope(row, UNRANKED, GET_EFFECT) for row in found), None)


def chunks_of(connection: apsw.Connection, doc_id: str, limit: int) -> list[RagChunkEnvelope]:
    """Return the first `limit` chunks of a document, unranked, in order."""
    return [envelope(row, UNRANKED, GET_EFFECT) for row in rows(
        connection, f"SELECT {CHUNK_COLUMNS} FROM rag_chunks c JOIN rag_documents d ON d.id = c.doc_id "
                    "WHERE c.doc_id = ? ORDER BY c.ordinal LIMIT ?", (doc_id, limit))]


def chunks_at(connection: apsw.Connection, path: str, limit: int) -> list[RagChunkEnvelope]:
    """Return the first `limit` chunks at a path: of the corpus's file alone where there is one, else of all documents of this source."""
    first = source_by_path(connection, path)
    if first is None:
        return []
    chunks = chunks_of(connection, first.doc_id, limit)
    others = [] if first.corpus else rows(
        connection, "SELECT id FROM rag_documents WHERE source = ? AND id <> ? ORDER BY id", (path, first.doc_id)).fetchall()
    for (doc_id,) in others:
        if len(chunks) >= limit:
            break
        chunks += chunks_of(connection, doc_id, limit - len(chunks))
    return chunks


def documents_with_topics(connection: apsw.Connection, topics: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the documents that have one of the topics, without regard to case and outer blanks; a blank one is none."""
    wanted = {topic.strip().casefold() for topic in topics} - {""}
    return tuple(doc_id for doc_id, listed in rows(
        connection, "SELECT id, json_extract(metadata, '$.topics') FROM rag_documents WHERE json_extract(metadata, '$.topics') IS NOT NULL "
                    "ORDER BY id") if wanted & {topic.strip().casefold() for topic in str(listed).split("\n")})


def sources_of(connection: apsw.Connection, digests: Sequence[str], doc_ids: Collection[str] | None) -> dict[str, list[str]]:
    """Return the sources of the chunks whose text has one of these SHA-256, sorted, by digest; of these documents, or of all (None)."""
    wanted = None if doc_ids is None else frozenset(doc_ids)
    found: dict[str, set[str]] = {}
    for digest, source_, doc_id in rows(connection, "SELECT content_sha256, source, doc_id FROM rag_chunks WHERE content_sha256 IN "
                                                    "(SELECT value FROM json_each(?))", (json.dumps(digests),)):
        if wanted is None or doc_id in wanted:
            found.setdefault(digest, set()).add(source_)
    return {digest: sorted(sources) for digest, sources in sorted(found.items())}


def topics(connection: apsw.Connection) -> list[str]:
    """Return all topics of documents, sorted, each once without regard to case and outer blanks."""
    listed = rows(connection, "SELECT DISTINCT json_extract(metadata, '$.topics') FROM rag_documents "
                              "WHERE json_extract(metadata, '$.topics') IS NOT NULL")
    named = sorted({topic.strip() for (some,) in listed for topic in str(some).split("\n")} - {""})
    return list({topic.casefold(): topic for topic in reversed(named)}.values())[::-1]


def frequent_terms(connection: apsw.Connection, most: int) -> list[str]:
    """Return the terms that the most chunks hold, the most frequent first; those of as many chunks, in order."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.rag_vocabulary USING fts5vocab('main', 'rag_lexical', 'row')")
    return [term for (term,) in rows(connection, "SELECT term FROM temp.rag_vocabulary ORDER BY doc DESC, term LIMIT ?", (most,))]
