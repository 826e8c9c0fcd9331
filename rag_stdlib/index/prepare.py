"""A document made ready to be stored: everything about it that no index is needed for, so that writing it is SQLite's work alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rag_stdlib.contract.provenance import content_sha256, key_and_digest
from rag_stdlib.index import content
from rag_stdlib.index.texts import rest_of
from rag_stdlib.records import Scalar, SourceDocument
from rag_stdlib.text.chunker import Chunk, embedded_text
from rag_stdlib.text.normalize import index_text
from rag_stdlib.text.positions import LineNumbers, page_at

DOCUMENT_COLUMNS: Final = (*content.COLUMNS, "bytes", "rest")
CHUNK_COLUMNS: Final = ("seq", "chunk_id", "doc_id", "source", "text", "start_char", "end_char", "provenance_key", "ordinal",
                        "start_byte", "end_byte", "start_line", "end_line", "page", "content_sha256", "context")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document's row of `DOCUMENT_COLUMNS`, its member of the index's content, and of its chunks, in order: the rows.

    `values` are the chunks' rows of `CHUNK_COLUMNS` one behind the other, each seq None: SQLite counts on from the one before.
    `terms` are what the lexical index gets; `texts` are what is embedded, by SHA-256, and `digests` names each chunk's.
    """

    doc_id: str
    row: Row
    lanes: int
    values: list[Any]
    terms: list[str]
    digests: list[str]
    texts: dict[str, str]

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return len(self.terms)


def document_row(document: SourceDocument, chunk_chars: int, chunker: str) -> Row:
    """Make a document's row of `DOCUMENT_COLUMNS` up to the number of chunks, without it; `chunker` names the rules it is cut by."""
    return (document.doc_id, document.source, document.media_type, content_sha256(document.text), metadata_json(document.metadata),
            json.dumps(document.lines) if document.lines else "[]", json.dumps(document.pages) if document.pages else "[]",
            chunk_chars, chunker)


def metadata_json(metadata: Mapping[str, Scalar]) -> str:
    """Write metadata as it is stored."""
    return json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":")) if metadata else "{}"


def prepare(document: SourceDocument, row: Row, chunks: Sequence[Chunk]) -> Prepared:
    """Make the rows of a document that was cut into `chunks`; `row` is its `document_row`."""
    doc_id, source, pages = document.doc_id, document.source, document.pages
    line_at = LineNumbers(document.text, document.lines).at
    values: list[Any] = []
    terms: list[str] = []
    digests: list[str] = []
    texts: dict[str, str] = {}
    for ordinal, start, end, start_byte, end_byte, text, context in chunks:
        key, digest = key_and_digest(doc_id, start, end, text)
        values += (None, doc_id + f":{ordinal}", doc_id, source, text, start, end, key, ordinal, start_byte, end_byte,
                   line_at(start), line_at(end - 1), page_at(pages, start) if pages else None, digest, context)
        terms.append(index_text(text))
        whole = text
        if context:
            whole = embedded_text(context, text)
            digest = content_sha256(whole)
        digests.append(digest)
        texts[digest] = whole
    counted = (*row, len(chunks))
    stored = (*counted, len(document.text.encode()), rest_of(document.text, chunks))
    return Prepared(doc_id, stored, content.member(counted), values, terms, digests, texts)
