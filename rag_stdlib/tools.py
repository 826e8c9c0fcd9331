"""The tools of the library: functions over one index file that return Results and carry their effects.

What is written here is the work behind each, given the runtime; `tool` makes the public function of it, without that parameter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib import values
from rag_stdlib.calljson import ranking
from rag_stdlib.edge import tool
from rag_stdlib.effects import RAG_READ, RAG_WRITE
from rag_stdlib.errors import Failure, fail
from rag_stdlib.options import DEFAULT_OPTIONS, QueryOptions
from rag_stdlib.records import (
    CheckReport,
    Compacted,
    IndexStats,
    RagChunkEnvelope,
    RagDocumentEnvelope,
    Reembedded,
    SourceDocument,
)
from rag_stdlib.result import Ok, Result  # noqa: F401 - the public functions' annotations name Result
from rag_stdlib.runtime import Runtime
from rag_stdlib.text.chunker import STD_RAG, ChunkOptions

if TYPE_CHECKING:
    from rag_stdlib.index.search import Found

UNCHANGED: Final = "unchanged"  # the note of an ingest that found the document stored just so
_NO_EMBEDDER: Final = "lexical search: no [rag] embedder is configured"


def unchanged_positions(notes: Sequence[str]) -> frozenset[int]:
    """Read out of the notes of `rag_ingest_many` which documents, by position, were stored just so already."""
    listed = next((note for note in notes if note.startswith(f"{UNCHANGED}: ")), "")
    return frozenset(int(position) for position in listed[len(UNCHANGED) + 2:].split(",") if position)


def _item_from_json(value: dict[str, Any]) -> RagDocumentEnvelope | RagChunkEnvelope:
    return RagChunkEnvelope.from_dict(value) if "chunk_id" in value else RagDocumentEnvelope.from_dict(value)


@tool("rag_ingest", {"index_path": str, "doc_id": str, "source": str, "text": str, "chunk_chars": int}, RAG_WRITE)
def rag_ingest(runtime: Runtime, index_path: str, doc_id: str, source: str, text: str, chunk_chars: int) -> Ok[int]:
    """Store a text under `doc_id` in the index file, replacing the one with that id, and return its number of chunks.

    The text is cut into windows of `chunk_chars` characters with a fifth of overlap and embedded where an embedder is
    configured. One transaction: an Err leaves the index as it was. A text that is stored just so already costs one look.
    """
    return _ingest(runtime, index_path, SourceDocument(doc_id, source, text), chunk_chars, STD_RAG)


@tool("rag_ingest_document",
       {"index_path": str, "document": SourceDocument, "chunk_chars": int, "options": ChunkOptions}, RAG_WRITE)
def rag_ingest_document(runtime: Runtime, index_path: str, document: SourceDocument, chunk_chars: int,
                        options: ChunkOptions = STD_RAG) -> Ok[int]:
    """Do what `rag_ingest` does for a document with metadata, media type, and line or page anchors."""
    return _ingest(runtime, index_path, document, chunk_chars, options)


def _ingest(runtime: Runtime, index_path: str, document: SourceDocument, chunk_chars: int, options: ChunkOptions) -> Ok[int]:
    values.check_chunk_chars(chunk_chars)
    values.check_document(document)
    store = runtime.store
    from rag_stdlib.index import writer

    outcome = writer.ingest(store, index_path, document, chunk_chars, options, runtime.embedder)
    notes = _twins(runtime, index_path, document.doc_id) if outcome.changed else (UNCHANGED,)
    return Ok(outcome.chunks, notes=notes)


def _twins(runtime: Runtime, index_path: str, doc_id: str) -> tuple[str, ...]:
    """Remark on a stored document whose id looks the same as a newly stored one's."""
    if doc_id.isascii():
        return ()
    from rag_stdlib.index import reader

    forms = tuple(unicodedata.normalize(form, doc_id) for form in ("NFC", "NFD"))
    with suppress(Failure):  # the document is stored; a remark that cannot be had does not change that
        twin = reader.unicode_twin(runtime.store, index_path, doc_id, forms)
        if twin is not None:
            return (f"another document's id differs only in Unicode normal form: {values.shown(twin)!a}",)
    return ()


@tool("rag_ingest_many", {"index_path": str, "documents": list[SourceDocument], "chunk_chars": int, "options": ChunkOptions}, RAG_WRITE)
def rag_ingest_many(runtime: Runtime, index_path: str, documents: Sequence[SourceDocument], chunk_chars: int,
                    options: ChunkOptions = STD_RAG) -> Ok[list[int]]:
    """Do what `rag_ingest_document` does for each of the documents in order, and return their numbers of chunks.

    Many documents go into one transaction, and while they are written the next ones are prepared. Of several with one id the
    last is kept. Each is stored whole or not at all: an Err names the document that caused it, some of those before it are
    stored by then, and the same call goes on from there. A note says which were stored just so already.
    """
    values.check_chunk_chars(chunk_chars)
    values.check_documents(documents)
    store = runtime.store
    from rag_stdlib.index import pipeline

    outcomes = pipeline.ingest_many(store, index_path, documents, chunk_chars, options, runtime.embedder, runtime.progress)
    unchanged = [position for position, outcome in enumerate(outcomes) if not outcome.changed]
    notes = [f"{UNCHANGED}: {','.join(map(str, unchanged))}"] if unchanged else []
    changed = dict.fromkeys(document.doc_id for document, outcome in zip(documents, outcomes, strict=True) if outcome.changed)
    notes += [f"document {values.shown(doc_id)!a}: {note}" for doc_id in changed for note in _twins(runtime, index_path, doc_id)]
    return Ok([outcome.chunks for outcome in outcomes], notes=tuple(notes))


@tool("rag_search", {"index_path": str, "query": str, "limit": int}, RAG_READ, decode=RagChunkEnvelope.from_dicts, ranking=ranking)
def rag_search(runtime: Runtime, index_path: str, query: str, limit: int) -> Ok[list[RagChunkEnvelope]]:
    """Return the `limit` best chunks for a query, best first, each with its provenance.

    The mode is the configured one: hybrid with an embedder unless corvid.toml says otherwise, lexical without. Any string
    is a query; a blank one, or one without letters, digits and symbols, finds nothing lexically.
    """
    return _query(runtime, index_path, query, limit, DEFAULT_OPTIONS)


@tool("rag_query", {"index_path": str, "query": str, "limit": int, "options": QueryOptions}, RAG_READ,
       decode=RagChunkEnvelope.from_dicts, ranking=ranking)
def rag_query(runtime: Runtime, index_path: str, query: str, limit: int,
              options: QueryOptions = DEFAULT_OPTIONS) -> Ok[list[RagChunkEnvelope]]:
    """Search as `rag_search` does, with a mode, filters, a least score and a bound on hits per document."""
    return _query(runtime, index_path, query, limit, options)


def _query(runtime: Runtime, index_path: str, query: str, limit: int, options: QueryOptions) -> Ok[list[RagChunkEnvelope]]:
    (found,), notes = _search(runtime, index_path, [query], limit, options)
    return Ok(list(found.chunks), notes=(*notes, *found.notes))


@tool("rag_search_many", {"index_path": str, "queries": list[str], "limit": int, "options": QueryOptions}, RAG_READ,
      decode=lambda lists: [RagChunkEnvelope.from_dicts(chunks) for chunks in lists])
def rag_search_many(runtime: Runtime, index_path: str, queries: Sequence[str], limit: int,
                    options: QueryOptions = DEFAULT_OPTIONS) -> Ok[list[list[RagChunkEnvelope]]]:
    """Search for several queries at once: for each, in order, what `rag_query` returns, all from one state of the index.

    The queries are embedded in one call and scored together, as a matrix product.
    """
    found, notes = _search(runtime, index_path, queries, limit, options)
    remarks = tuple(f"query {number}: {note}" for number, one in enumerate(found) for note in one.notes)
    return Ok([list(one.chunks) for one in found], notes=(*notes, *remarks))


def _search(runtime: Runtime, index_path: str, queries: Sequence[str], limit: int,
            options: QueryOptions) -> tuple[list[Found], tuple[str, ...]]:
    """Answer queries that differ in their text only; the notes are on the call as a whole."""
    values.check_limit(limit)
    for query in queries:
        values.check_text("query", query, values.MAX_QUERY_BYTES)
    options.check()
    mode = options.mode or runtime.mode
    if options.approximate and mode != "vector":
        raise fail("invalid_option", name="approximate", reason=f"is for mode vector only; this search is in mode {mode}")
    store = runtime.store
    from rag_stdlib.index import search

    asked = search.Query(limit, mode, options.filters(), options.min_score, options.per_document, runtime.limits,
                         options.approximate)
    found = search.search(store, index_path, asked, queries, runtime.embedder if mode != "lexical" else None)
    return found, (_NO_EMBEDDER,) if options.mode is None and not runtime.has_embedder else ()


@tool("rag_get", {"index_path": str, "id": str}, RAG_READ, decode=_item_from_json)
def rag_get(runtime: Runtime, index_path: str, id: str) -> Ok[RagDocumentEnvelope | RagChunkEnvelope]:  # noqa: A002 - the parameter's name
    """Return the document with this id, or the chunk with this chunk id (``DOC_ID:ORDINAL``)."""
    values.check_text("id", id, values.MAX_ITEM_ID_BYTES)
    store = runtime.store
    from rag_stdlib.index import reader

    return Ok(reader.get(store, index_path, id))


@tool("rag_delete", {"index_path": str, "doc_id": str}, RAG_WRITE)
def rag_delete(runtime: Runtime, index_path: str, doc_id: str) -> Ok[int]:
    """Delete a document from every part of the index and return its number of chunks.

    An id that is not stored is `not_found`. The bytes go with the next `rag_compact`.
    """
    values.check_doc_id(doc_id)
    store = runtime.store
    from rag_stdlib.index import writer

    removed = writer.delete(store, index_path, doc_id)
    if removed is None:
        raise fail("not_found", kind="document", id=values.shown(doc_id))
    return Ok(removed)


@tool("chunk_in_index", {"index_path": str, "chunk": RagChunkEnvelope}, RAG_READ)
def chunk_in_index(runtime: Runtime, index_path: str, chunk: RagChunkEnvelope) -> Ok[bool]:
    """Tell whether a chunk is grounded, stored in the index just so, and the slice of its stored document."""
    store = runtime.store
    from rag_stdlib.index import reader

    return Ok(reader.chunk_in_index(store, index_path, chunk))


@tool("rag_stats", {"index_path": str}, RAG_READ, decode=IndexStats.from_dict)
def rag_stats(runtime: Runtime, index_path: str) -> Ok[IndexStats]:
    """Return figures about an index and notices about its state."""
    store = runtime.store
    from rag_stdlib.index import maintenance

    return Ok(maintenance.stats(store, index_path))


@tool("rag_check", {"index_path": str}, RAG_READ, decode=CheckReport.from_dict)
def rag_check(runtime: Runtime, index_path: str) -> Ok[CheckReport]:
    """Walk every row of an index and return what does not hold together; a damaged index is an Ok with problems."""
    store = runtime.store
    from rag_stdlib.index import check

    return Ok(check.check(store, index_path))


@tool("rag_compact", {"index_path": str}, RAG_WRITE, decode=Compacted.from_dict)
def rag_compact(runtime: Runtime, index_path: str) -> Ok[Compacted]:
    """Give back the bytes of deleted documents, leaving nothing of their texts in the file."""
    store = runtime.store
    from rag_stdlib.index import maintenance

    return Ok(maintenance.compact(store, index_path))


@tool("rag_reembed", {"index_path": str}, RAG_WRITE, decode=Reembedded.from_dict)
def rag_reembed(runtime: Runtime, index_path: str) -> Ok[Reembedded]:
    """Give every chunk a vector of the configured embedder; an interrupted call goes on where it stopped."""
    embedder = runtime.embedder
    if embedder is None:
        raise fail("embedder_unconfigured")
    store = runtime.store
    from rag_stdlib.index import maintenance

    return Ok(maintenance.reembed(store, index_path, embedder, runtime.progress))
