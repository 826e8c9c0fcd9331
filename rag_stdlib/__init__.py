"""Governed retrieval for agent programs: tools over one confined SQLite file, every chunk with its evidence.

from rag_stdlib import Err, Ok, rag_ingest, rag_search
"""

from rag_stdlib.aio import (
    achunk_in_index,
    arag_check,
    arag_compact,
    arag_delete,
    arag_get,
    arag_ingest,
    arag_ingest_document,
    arag_ingest_many,
    arag_query,
    arag_reembed,
    arag_search,
    arag_search_many,
    arag_stats,
)
from rag_stdlib.config import Config, CorpusConfig, RagConfig, load_config
from rag_stdlib.contract.citations import cites
from rag_stdlib.contract.provenance import chunk_is_grounded, content_sha256, provenance_key
from rag_stdlib.effects import RAG_READ, RAG_WRITE, Effect, carry, compose, deterministic, grant, uses
from rag_stdlib.errors import ERRORS, Failure, ToolShapeError
from rag_stdlib.meshconfig import MeshConfig
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import (
    CheckReport,
    Compacted,
    EffectEnvelope,
    EmbedderEnvelope,
    IndexStats,
    RagChunkEnvelope,
    RagDocumentEnvelope,
    Reembedded,
    RetrievedRagChunkEnvelope,
    SourceDocument,
    approval_required,
    replay_safe,
)
from rag_stdlib.result import Err, Ok, RagError, Result, UnwrapError
from rag_stdlib.runtime import Runtime, current_runtime
from rag_stdlib.text.chunker import ChunkOptions
from rag_stdlib.tools import (
    chunk_in_index,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_ingest_many,
    rag_query,
    rag_reembed,
    rag_search,
    rag_search_many,
    rag_stats,
)

__version__ = "0.1.0"

__all__ = [
    "ERRORS",
    "RAG_READ",
    "RAG_WRITE",
    "CheckReport",
    "ChunkOptions",
    "Compacted",
    "Config",
    "CorpusConfig",
    "Effect",
    "EffectEnvelope",
    "EmbedderEnvelope",
    "Err",
    "Failure",
    "IndexStats",
    "MeshConfig",
    "Ok",
    "QueryOptions",
    "RagChunkEnvelope",
    "RagConfig",
    "RagDocumentEnvelope",
    "RagError",
    "Reembedded",
    "Result",
    "RetrievedRagChunkEnvelope",
    "Runtime",
    "SourceDocument",
    "ToolShapeError",
    "UnwrapError",
    "achunk_in_index",
    "approval_required",
    "arag_check",
    "arag_compact",
    "arag_delete",
    "arag_get",
    "arag_ingest",
    "arag_ingest_document",
    "arag_ingest_many",
    "arag_query",
    "arag_reembed",
    "arag_search",
    "arag_search_many",
    "arag_stats",
    "carry",
    "chunk_in_index",
    "chunk_is_grounded",
    "cites",
    "compose",
    "content_sha256",
    "current_runtime",
    "deterministic",
    "grant",
    "load_config",
    "provenance_key",
    "rag_check",
    "rag_compact",
    "rag_delete",
    "rag_get",
    "rag_ingest",
    "rag_ingest_document",
    "rag_ingest_many",
    "rag_query",
    "rag_reembed",
    "rag_search",
    "rag_search_many",
    "rag_stats",
    "replay_safe",
    "uses",
]
