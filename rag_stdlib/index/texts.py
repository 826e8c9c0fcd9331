"""A document's text, stored once: as the texts of its chunks, and the rest of it that no chunk holds (blanks between them)."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.index.sql import rows
from rag_stdlib.text.chunker import Chunk


def rest_of(text: str, chunks: Iterable[Chunk]) -> str:
    """Return the characters of a text that are in no chunk, in order; chunks are in order of their starts and ends."""
    parts: list[str] = []
    behind = 0
    for chunk in chunks:
        if chunk.start_char > behind:
            parts.append(text[behind:chunk.start_char])
        behind = chunk.end_char
    parts.append(text[behind:])
    return "".join(parts)


def stored_text(connection: apsw.Connection, doc_id: str) -> str | None:
    """Put the text of a stored document together; None for one that is not stored.

    Raises:
        apsw.CorruptError: parts that do not make the text whose digest is stored.
    """
    for rest, digest in rows(connection, "SELECT rest, content_sha256 FROM rag_documents WHERE id = ?", (doc_id,)):
        text = _joined(rest, rows(connection, "SELECT start_char, end_char, text FROM rag_chunks WHERE doc_id = ? ORDER BY ordinal",
                                  (doc_id,)))
        if content_sha256(text) != digest:
            raise apsw.CorruptError("a document's chunks and the rest of it do not make the text that was stored")
        return text
    return None


def _joined(rest: str, chunks: Iterable[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    behind = taken = 0
    for start, end, text in chunks:
        if start > behind:
            parts.append(rest[taken:taken + start - behind])
            taken += start - behind
        parts.append(text[max(behind - start, 0):])
        behind = end
    parts.append(rest[taken:])
    return "".join(parts)
