"""Is this value one that a tool accepts? Each function returns quietly or raises `Failure` with a caller's code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from rag_stdlib.errors import Failure, fail
from rag_stdlib.records import FrozenDict, Scalar, SourceDocument
from rag_stdlib.result import RagError

MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
MAX_QUERY_BYTES: Final = 64 * 1024
MAX_ID_BYTES: Final = 1_024
MAX_ITEM_ID_BYTES: Final = MAX_ID_BYTES + 20  # a chunk id: a document id, a colon and a number of 64 bits
MAX_METADATA_BYTES: Final = 64 * 1024
_SHOWN_CHARS: Final = 100
_MAX_EXACT_INT: Final = 2**63 - 1


def check_text(name: str, text: str, cap: int = MAX_TEXT_BYTES) -> None:
    """Refuse lone surrogates, NUL, and more than `cap` UTF-8 bytes."""
    if len(text) > cap:
        raise fail("text_too_large", field=name, size=len(text), cap=cap)
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise fail("invalid_text", field=name, offset=error.start) from None
    if size > cap:
        raise fail("text_too_large", field=name, size=size, cap=cap)
    offset = text.find("\0")
    if offset >= 0:
        raise fail("text_nul", field=name, offset=offset)


def shown(name: str) -> str:
    """Cut an id or key down to what a message shows of it: its first 100 characters."""
    return name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS - 1] + "\u2026"


def check_doc_id(doc_id: str) -> None:
    """Refuse a blank document id, one over 1,024 bytes, and what `check_text` refuses."""
    check_text("doc_id", doc_id, cap=MAX_TEXT_BYTES)
    if not doc_id.strip():
        raise fail("invalid_doc_id", reason="must not be blank")
    if len(doc_id.encode()) > MAX_ID_BYTES:
        raise fail("invalid_doc_id", reason=f"is {len(doc_id.encode()):,} bytes; the most is {MAX_ID_BYTES:,}")


def check_limit(limit: int) -> None:
    """Refuse a limit below 1."""
    if limit < 1:
        raise fail("invalid_limit")


def check_chunk_chars(chunk_chars: int) -> None:
    """Refuse a chunk size below 1."""
    if chunk_chars < 1:
        raise fail("invalid_chunk_chars")


def check_metadata(metadata: Mapping[str, Scalar]) -> FrozenDict:
    """Return a frozen copy of flat metadata; refuse nested values, numbers that JSON cannot hold, and bad text."""
    if not isinstance(metadata, Mapping):
        raise fail("invalid_metadata", reason=f"is a {type(metadata).__name__}, no mapping")
    size = 0
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise fail("invalid_metadata", reason=f"has the key {key!r}, which is no string")
        check_text("a metadata key", key, MAX_METADATA_BYTES)
        size += len(key.encode())
        if isinstance(value, str):
            check_text(f"metadata {shown(key)!r}", value, MAX_METADATA_BYTES)
            size += len(value.encode())
        elif not is_number_or_null(value):
            raise fail("invalid_metadata", reason=f"{shown(key)!r} is no string, finite number, boolean or null")
    if size > MAX_METADATA_BYTES:
        raise fail("invalid_metadata", reason=f"is {size:,} bytes; the most is {MAX_METADATA_BYTES:,}")
    return FrozenDict(metadata)


def is_number_or_null(value: object) -> bool:
    """Tell whether a value is a finite number that the index can hold exactly, a boolean or None."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return isinstance(value, bool) or abs(value) <= _MAX_EXACT_INT
    return value is None


def check_document(document: SourceDocument) -> None:
    """Check every part of a document to ingest."""
    check_doc_id(document.doc_id)
    check_text("source", document.source)
    check_text("media_type", document.media_type, MAX_ID_BYTES)
    check_text("text", document.text)
    check_metadata(document.metadata)
    for name, anchors in (("lines", document.lines), ("pages", document.pages)):
        if not _are_anchors(anchors):
            raise fail("invalid_option", name=name, reason="must be pairs (character, number) in ascending order of character")


def check_documents(documents: Sequence[SourceDocument]) -> None:
    """Check every part of documents to ingest together; a refusal names the document."""
    for document in documents:
        try:
            check_document(document)
        except Failure as failure:
            raise of_document(document.doc_id, failure) from None


def of_document(doc_id: str, failure: Failure) -> Failure:
    """Name the one of several documents that a failure is about."""
    error = failure.error
    message = f"document {shown(doc_id)!r}: {error}".encode(errors="backslashreplace").decode()
    return Failure(RagError(message, error.code, error.fix))


def _are_anchors(anchors: object) -> bool:
    if not isinstance(anchors, (tuple, list)) or not all(
            isinstance(pair, (tuple, list)) and len(pair) == 2  # noqa: PLR2004 - a pair
            and all(type(number) is int and 0 <= number <= _MAX_EXACT_INT for number in pair) for pair in anchors):
        return False
    chars = [char for char, _ in anchors]
    return chars == sorted(chars)
