"""What callers leave with a provider, and what its operators take out again (RAG service contract §5.1).

A success says what was stored or removed: whatever goes wrong on the way is a refusal, and then the index is as it was. No write
touches a corpus; its documents are what its repositories hold.
"""

from __future__ import annotations

from typing import Any, Final

from rag_stdlib.corpus import deposits
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import pruning, served, writer
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures import replies
from rag_stdlib.mesh.procedures.desk import Desk
from rag_stdlib.mesh.procedures.params import Params
from rag_stdlib.mesh.procedures.reading import named
from rag_stdlib.records import SourceDocument
from rag_stdlib.values import check_document, check_text

MAX_DEPOSIT_BYTES: Final = replies.MAX_BYTES - 64 * 1024  # so that what comes in can be handed out again, whole
MAX_LABEL_BYTES: Final = 1_024  # of a label, and of all topics together: they stand in every hit


def add_knowledge(desk: Desk, params: Params, caller: str | None) -> dict[str, Any]:
    """Store `text` under `source_label` with its `topics`, and answer the number of `chunks`.

    The depositor is the verified caller. The same deposit again changes nothing; no deposit takes another's place.

    Raises:
        Refusal: `missing_text`, `empty_text`, `bad_params`.
        Failure: `no_embed_model`, `text_too_large`, and everything that an ingest can fail with.
    """
    text = params.text("text")
    if text is None:
        raise Refusal("missing_text")
    if not text.strip():
        raise Refusal("empty_text")
    check_text("text", text, MAX_DEPOSIT_BYTES)
    label = params.text("source_label") or ""
    check_text("source_label", label, MAX_LABEL_BYTES)
    topics = params.texts("topics") or ()
    check_text("topics", "\n".join(topics), MAX_LABEL_BYTES)
    document = deposits.deposit(text, label if label.strip() else deposits.LABEL, topics, caller)
    return {"chunks": _stored(desk, document)}


def upload_knowledge(desk: Desk, params: Params, caller: str | None) -> dict[str, Any]:
    """Store the document `document_id` from its `raw_bytes`, replacing the one of this id, and answer both it and the number of `chunks`.

    `source_path` is the id where none is given, `source_type` the media type. Bytes that are no UTF-8 are kept beside their text.

    Raises:
        Refusal: `missing_document_id`, `missing_raw_bytes`, `empty_content`.
        Failure: as `add_knowledge`.
    """
    document_id = params.required("document_id", "missing_document_id")
    data = _bytes(params.value("raw_bytes"))
    if data is None:
        raise Refusal("missing_raw_bytes")
    if len(data) > MAX_DEPOSIT_BYTES:
        raise fail("text_too_large", field="raw_bytes", size=len(data), cap=MAX_DEPOSIT_BYTES)
    path = params.text("source_path") or document_id
    check_text("source_path", path, MAX_LABEL_BYTES)
    document, original = deposits.upload(document_id, data, path, params.text("source_type") or None, caller)
    if not document.text.strip():
        raise Refusal("empty_content")
    return {"document_id": document_id, "chunks": _stored(desk, document, original)}


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        check_text("raw_bytes", value)
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _stored(desk: Desk, document: SourceDocument, original: bytes | None = None) -> int:
    embedder = desk.runtime.embedder
    if embedder is None:  # it would be stored where no question finds it
        raise fail("no_embed_model", path=desk.index)
    check_document(document)
    return writer.ingest(desk.runtime.store, desk.index, document, deposits.CHUNK_CHARS, deposits.OPTIONS, embedder, original).chunks


def prune_chunks(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Take the chunks of `document_id` out that are among `chunk_ids`, all of them without such a list; answer their ids as `pruned`.

    The document stays, and its bytes with it. Ids of other documents' chunks are passed over.

    Raises:
        Refusal: `missing_document_id`, `not_ingested`; `bad_params` for `chunk_ids` that are no list, and for an id of two documents.
        Failure: `corpus_document`, and what a write can fail with.
    """
    document_id = params.required("document_id", "missing_document_id")
    names = params.texts("chunk_ids")
    if names is None and params.value("chunk_ids") is not None:
        raise Refusal("bad_params", "chunk_ids is no list")
    try:
        pruned = pruning.prune(desk.runtime.store, desk.index, _doc_id(desk, document_id), None if names is None else frozenset(names))
    except Failure as failure:
        if failure.error.code == "not_found":
            raise Refusal("not_ingested") from None
        raise
    return {"document_id": document_id, "pruned": pruned}


def retire_document(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Take a document out with all its chunks, at one stroke; answer their number as `pruned`.

    Raises:
        Refusal: `missing_document_id`, `not_ingested`; `bad_params` for an id of two documents.
        Failure: `corpus_document`, and what a write can fail with.
    """
    document_id = params.required("document_id", "missing_document_id")
    pruned = writer.delete(desk.runtime.store, desk.index, _doc_id(desk, document_id))
    if pruned is None:
        raise Refusal("not_ingested")
    return {"document_id": document_id, "pruned": pruned}


def _doc_id(desk: Desk, document_id: str) -> str:
    """Return the id under which a document is stored.

    Raises:
        Refusal: `not_ingested` for one that is not; `bad_params` where an upload goes by the id of another document, so that nobody
            takes out the one and means the other.
    """
    with desk.snapshot() as snapshot:
        source = named(snapshot.connection, document_id)
        upload = served.source(snapshot.connection, deposits.upload_id(document_id))
    if source is None:
        raise Refusal("not_ingested")
    if upload is not None and source.doc_id != upload.doc_id and not source.corpus:
        raise Refusal("bad_params", f"two documents go by this id; the upload is {upload.doc_id!r}, and has to go before the other")
    return source.doc_id
