"""What a provider hands out, in the contract's shapes: provenance, hits and sources (RAG service contract §1.5, §2.1).

Text is text and numbers are numbers; no boolean occurs. What is empty or not known is left out of a provenance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from rag_stdlib.index.corpora import Section
from rag_stdlib.index.served import Source, chunk_id
from rag_stdlib.records import RagChunkEnvelope

_NODE_ID: Final = re.compile(r"[0-9a-f]{64}")
_UNTITLED: Final = Section("", "prose")
MOST_ELSEWHERE: Final = 1_000  # paths of a hit, so that no text crowds the others out of a reply by the number of its copies


def hit(chunk: RagChunkEnvelope, sections: Sequence[Section] | None, also_in: Sequence[str]) -> dict[str, Any]:
    """Give a chunk that a search found; `sections` are those of its document, None where it is of no corpus.

    `also_in` are the sources of the other chunks with the same text; they come sorted, each once and without the hit's own path. The
    first 1,000 are named, and `also_in_left_out` counts those that are not.
    """
    elsewhere = sorted({*also_in} - {chunk.source})
    unnamed = len(elsewhere) - MOST_ELSEWHERE
    return {"chunk_id": chunk_id(chunk), "content": chunk.text, "score": float(chunk.score or 0.0), "source_path": chunk.source,
            "provenance": _of_chunk(chunk, corpus=sections is not None), "meta": _meta(chunk, sections),
            **({"also_in": elsewhere[:MOST_ELSEWHERE]} if elsewhere else {}), **({"also_in_left_out": unnamed} if unnamed > 0 else {})}


def stored_chunk(chunk: RagChunkEnvelope, sections: Sequence[Section] | None) -> dict[str, Any]:
    """Give a chunk that was asked for by name: a hit without a score, its path among the rest of `meta`."""
    return {"chunk_id": chunk_id(chunk), "content": chunk.text, "meta": {"source_path": chunk.source, **_meta(chunk, sections)},
            "provenance": _of_chunk(chunk, corpus=sections is not None)}


def source_row(source: Source) -> dict[str, Any]:
    """Give a document without its content; the digest is that of the bytes that get_document_verbatim gives."""
    depositor = {} if source.corpus else _depositor(source.doc_id, source.metadata)
    return {"document_id": source.doc_id, "source_path": source.path, "source_type": source.media_type,
            "provenance": of_source(source, source.bytes_sha256), **depositor}


def of_source(source: Source, content_sha256: str) -> dict[str, Any]:
    """Give the provenance of a whole document."""
    return {**_origin(source.doc_id, source.path, source.metadata, corpus=source.corpus), "content_sha256": content_sha256}


def _of_chunk(chunk: RagChunkEnvelope, *, corpus: bool) -> dict[str, Any]:
    return {**_origin(chunk.doc_id, chunk.source, chunk.metadata, corpus=corpus), "start_line": chunk.start_line,
            "end_line": chunk.end_line, "content_sha256": chunk.content_sha256}


def _origin(doc_id: str, path: str, metadata: Any, *, corpus: bool) -> dict[str, Any]:  # noqa: ANN401 - a mapping as it is stored
    if corpus:
        return {"kind": "corpus", "path": path, "repo_id": metadata["repo_id"], "commit": metadata["commit"]}
    return {"kind": "deposit", "path": path, **_depositor(doc_id, metadata)}


def _depositor(doc_id: str, metadata: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """Give the depositor's node id where this provider took the document from it: a file's own front matter says nothing."""
    depositor = metadata.get("deposited_by")
    ours = metadata.get("kind") == "deposit" and doc_id.startswith(("deposit:", "upload:"))
    return {"deposited_by": depositor} if ours and isinstance(depositor, str) and _NODE_ID.fullmatch(depositor) else {}


def _meta(chunk: RagChunkEnvelope, sections: Sequence[Section] | None) -> dict[str, Any]:
    section = sections[chunk.ordinal] if sections is not None else _UNTITLED
    topics = chunk.metadata.get("topics") if sections is None else None
    return {"header_path": section.header_path, "kind": section.kind, "start_line": chunk.start_line, "end_line": chunk.end_line,
            **({"topics": topics.split("\n")} if isinstance(topics, str) and topics else {})}
