"""The provenance key of a chunk: a content address that anybody can recompute (std/rag)."""

from __future__ import annotations

import hashlib
import struct

from rag_stdlib.records import RagChunkEnvelope


def provenance_key(doc_id: str, start_char: int, end_char: int, text: str) -> str:
    """Compute ``"rag_" + hex(SHA-256(utf8(doc_id) ‖ u64le(start_char) ‖ u64le(end_char) ‖ utf8(text)))``.

    `start_char` and `end_char` are the trimmed, half-open offsets in code points of the whole document. The key is a
    content address, not a signature: it proves that the parts belong together, not who wrote them.
    """
    return key_and_digest(doc_id, start_char, end_char, text)[0]


def content_sha256(text: str) -> str:
    """Compute the SHA-256 of the UTF-8 bytes of `text`, in lowercase hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_and_digest(doc_id: str, start_char: int, end_char: int, text: str) -> tuple[str, str]:
    """Compute `provenance_key` and `content_sha256` of a chunk, encoding its text once."""
    encoded = text.encode()
    bound = doc_id.encode() + struct.pack("<QQ", start_char, end_char) + encoded
    return "rag_" + hashlib.sha256(bound).hexdigest(), hashlib.sha256(encoded).hexdigest()


def chunk_is_grounded(chunk: RagChunkEnvelope) -> bool:
    """Recompute a chunk's key and digest from its document id, offsets and text, and compare.

    False for any chunk whose text, offsets or id were edited, or whose key is missing or made up. It needs no index;
    whether the chunk is still in an index is `chunk_in_index`.
    """
    try:
        key = provenance_key(chunk.doc_id, chunk.start_char, chunk.end_char, chunk.text)
        spans = (chunk.end_char - chunk.start_char, chunk.end_byte - chunk.start_byte)
        return (
            (chunk.provenance_key, chunk.content_sha256) == (key, content_sha256(chunk.text))
            and spans == (len(chunk.text), len(chunk.text.encode()))
            and chunk.chunk_id == f"{chunk.doc_id}:{chunk.ordinal}"
        )
    except (UnicodeEncodeError, struct.error, TypeError, AttributeError):  # no text, no offset: not made by any ingest
        return False
