"""The tools for asyncio: each `a…` twin does its tool's work in a worker thread and leaves the event loop free."""

from __future__ import annotations

from rag_stdlib import tools
from rag_stdlib.edge import awaited

arag_ingest = awaited(tools.rag_ingest)
arag_ingest_document = awaited(tools.rag_ingest_document)
arag_ingest_many = awaited(tools.rag_ingest_many)
arag_search = awaited(tools.rag_search)
arag_query = awaited(tools.rag_query)
arag_search_many = awaited(tools.rag_search_many)
arag_get = awaited(tools.rag_get)
arag_delete = awaited(tools.rag_delete)
arag_stats = awaited(tools.rag_stats)
arag_check = awaited(tools.rag_check)
arag_compact = awaited(tools.rag_compact)
arag_reembed = awaited(tools.rag_reembed)
achunk_in_index = awaited(tools.chunk_in_index)
