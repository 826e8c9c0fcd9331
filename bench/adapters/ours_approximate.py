"""This library with `approximate=True`: a vector search that may miss some of the best."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from harness.protocol import Query

from adapters import ours
from rag_stdlib import QueryOptions, RagChunkEnvelope, rag_query

_APPROXIMATE = QueryOptions(mode="vector", approximate=True)


class Library(ours.Library):
    """See the module."""

    kinds = ("vector",)

    def vector(self, query: Query, k: int) -> list[RagChunkEnvelope]:
        self.embedder.ask(query.vector)
        return rag_query(ours.INDEX, query.text, k, _APPROXIMATE).unwrap()
