"""Reading chunks and sources by their names (RAG service contract §1.4, §1.5, §5.1); each reply is of one snapshot of the index."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import apsw

from rag_stdlib.corpus.deposits import UPLOAD
from rag_stdlib.index import corpora, served
from rag_stdlib.index.served import Source
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures import replies, shapes
from rag_stdlib.mesh.procedures.desk import Desk, content_of
from rag_stdlib.mesh.procedures.params import Params

SOURCES_PAGE: Final = (50, 200)  # rows without a limit, and at most
CHUNKS_PAGE: Final = (100, 500)


def get_chunk_by_id(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer the chunk `chunk_id`: a hit without a score.

    Raises:
        Refusal: `missing_id`, `not_found`.
        Failure: a refusal of the index.
    """
    name = params.text("chunk_id")
    if name is None:
        raise Refusal("missing_id")
    with desk.snapshot() as snapshot:
        chunk = served.chunk(snapshot.connection, name)
        if chunk is None:
            raise Refusal("not_found")
        sections = corpora.sections(snapshot.connection, [chunk.doc_id])
        return {**shapes.stored_chunk(chunk, sections.get(chunk.doc_id)), **content_of(snapshot)}


def list_chunks_by_source(desk: Desk, params: Params, _caller: str | None) -> list[dict[str, Any]]:
    """Answer the first `limit` chunks (100; at most 500) of what lies at `source_path`, in order; nothing where nothing lies there.

    Raises:
        Refusal: `missing_source_path`.
        Failure: a refusal of the index.
    """
    path, limit = params.required("source_path", "missing_source_path"), params.limit(*CHUNKS_PAGE)
    with desk.snapshot() as snapshot:
        chunks = served.chunks_at(snapshot.connection, path, limit)
        sections = corpora.sections(snapshot.connection, list({chunk.doc_id for chunk in chunks}))
        return [shapes.stored_chunk(chunk, sections.get(chunk.doc_id)) for chunk in chunks]


def get_document_verbatim(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer the bytes of the document at `source_path`, just as they came; of several, a corpus's file before all others.

    The id of a document will do as well, which tells deposits with one label apart; `source_path` is given back as it was asked for.

    Raises:
        Refusal: `missing_source_path`, `not_found`, `payload_too_large`.
        Failure: a refusal of the index.
    """
    path = params.required("source_path", "missing_source_path")
    with desk.snapshot() as snapshot:
        source = served.source_by_path(snapshot.connection, path)
        data = served.document_bytes(snapshot.connection, source.doc_id) if source is not None else None
        content = content_of(snapshot)
    if source is None or data is None:
        raise Refusal("not_found")
    if len(data) > replies.MAX_BYTES:
        raise Refusal("payload_too_large", f"the document has {len(data):,} bytes")
    return {"source_path": path, "raw_bytes": data, "provenance": shapes.of_source(source, hashlib.sha256(data).hexdigest()), **content}


def list_sources_page(desk: Desk, params: Params, _caller: str | None) -> list[dict[str, Any]]:
    """Answer up to `limit` documents (50; at most 200) from the `offset`-th on, ordered by id; a page past the end is empty.

    Raises:
        Failure: a refusal of the index.
    """
    with desk.snapshot() as snapshot:
        sources = served.sources_page(snapshot.connection, params.offset(), params.limit(*SOURCES_PAGE))
        return [shapes.source_row(source) for source in sources]


def get_source_by_id(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer the row of the document `source_id`, as list_sources_page gives it.

    Raises:
        Refusal: `missing_id`, `not_found`.
        Failure: a refusal of the index.
    """
    name = params.text("source_id")
    if name is None:
        raise Refusal("missing_id")
    with desk.snapshot() as snapshot:
        source = named(snapshot.connection, name)
        if source is None:
            raise Refusal("not_found")
        return {**shapes.source_row(source), **content_of(snapshot)}


def named(connection: apsw.Connection, document_id: str) -> Source | None:
    """Find a document by its id as rows give it, or by what callers know it by: an upload's own id, the path of a corpus's file."""
    for doc_id in (document_id, corpora.PREFIX + document_id, UPLOAD + document_id):
        found = served.source(connection, doc_id)
        if found is not None:
            return found
    return None
