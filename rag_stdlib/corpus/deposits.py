"""Texts that people and programs leave with a provider: documents beside the corpus that can never take its place, nor each other's.

The id of a deposit is made from what it is: who left it, under which label, and the text. The same deposit twice is one; no other
can have its id. What an operator uploads is named by the operator, in a namespace of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from rag_stdlib.corpus.files import lossy_text
from rag_stdlib.records import FrozenDict, Scalar, SourceDocument
from rag_stdlib.text.chunker import ChunkOptions

DEPOSIT: Final = "deposit:"
UPLOAD: Final = "upload:"
LABEL: Final = "conversational"  # of a deposit that comes without one (RAG service contract)
CHUNK_CHARS: Final = 1_000
OPTIONS: Final = ChunkOptions(end_boundary=True, graphemes=True, cjk_stops=True, markdown=True)


def deposit(text: str, label: str = LABEL, topics: Sequence[str] = (), depositor: str | None = None) -> SourceDocument:
    """Make the document of a deposit; `depositor` is the verified caller's node id in hex, where there is one."""
    hasher = hashlib.sha256()
    for part in (depositor or "", label, text):
        encoded = part.encode()
        hasher.update(len(encoded).to_bytes(8, "big") + encoded)
    return SourceDocument(DEPOSIT + hasher.hexdigest(), label, text, "text/markdown", _metadata(topics, depositor))


def upload(document_id: str, data: bytes, path: str | None = None, media_type: str | None = None,
           depositor: str | None = None) -> tuple[SourceDocument, bytes | None]:
    """Make the document of an upload, and give its bytes where its text does not; without a path it goes by its id."""
    text = lossy_text(data)
    metadata = _metadata((), depositor)
    original = data if text.encode() != data else None
    if original is not None:  # other bytes can have the same text, and then are another document
        metadata = FrozenDict({**metadata, "bytes_sha256": hashlib.sha256(original).hexdigest()})
    return SourceDocument(upload_id(document_id), path or document_id, text, media_type or "text/markdown", metadata), original


def upload_id(document_id: str) -> str:
    """Name an upload in the index; a name that is one already stays."""
    return document_id if document_id.startswith(UPLOAD) else UPLOAD + document_id


def _metadata(topics: Sequence[str], depositor: str | None) -> FrozenDict:
    facts: dict[str, Scalar] = {"kind": "deposit"}
    named = [" ".join(topic.split()) for topic in topics]
    if any(named):
        facts["topics"] = "\n".join(dict.fromkeys(name for name in named if name))
    if depositor:
        facts["deposited_by"] = depositor
    return FrozenDict(facts)
