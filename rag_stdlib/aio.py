"""The tools for asyncio: each `a…` twin runs its tool in a worker thread and leaves the event loop free."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from rag_stdlib import tools
from rag_stdlib.effects import carry

P = ParamSpec("P")
R = TypeVar("R")


def _twin(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio

        return await asyncio.to_thread(carry(function), *args, **kwargs)

    twin.__name__ = twin.__qualname__ = f"a{function.__name__}"
    twin.__doc__ = f"Do what `{function.__name__}` does, off the event loop."
    return twin


arag_ingest = _twin(tools.rag_ingest)
arag_ingest_document = _twin(tools.rag_ingest_document)
arag_search = _twin(tools.rag_search)
arag_query = _twin(tools.rag_query)
arag_get = _twin(tools.rag_get)
arag_delete = _twin(tools.rag_delete)
arag_stats = _twin(tools.rag_stats)
arag_check = _twin(tools.rag_check)
arag_compact = _twin(tools.rag_compact)
arag_reembed = _twin(tools.rag_reembed)
achunk_in_index = _twin(tools.chunk_in_index)
