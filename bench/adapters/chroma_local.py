"""Chroma's persistent client: its HNSW index with cosine, one thread, texts and metadata in its SQLite file."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from typing import Any

from harness.protocol import Adapter, Feed, Hit, Query


class Library(Adapter):
    """See the module."""

    kinds = ("vector",)

    def load(self) -> None:
        import chromadb  # noqa: F401 - timed

    def build(self, feed: Feed) -> None:
        collection = self._client().create_collection("chunks", embedding_function=None,
                                                      configuration={"hnsw": {"space": "cosine", "num_threads": 1}})
        for batch in feed.batches(2_000):
            collection.add(ids=[str(row) for row in batch.rows], embeddings=list(batch.vectors), documents=batch.texts,
                           metadatas=[{"document": document} for document in batch.documents])

    def open(self) -> None:
        self._collection = self._client().get_collection("chunks", embedding_function=None)

    def vector(self, query: Query, k: int) -> Any:  # noqa: ANN401 - Chroma is not installed where this is checked
        return self._collection.query(query_embeddings=[query.vector], n_results=k, include=["documents", "metadatas"])

    def hits(self, found: Any) -> list[Hit]:  # noqa: ANN401 - as above
        return [Hit(int(row), about["document"], text)
                for row, about, text in zip(found["ids"][0], found["metadatas"][0], found["documents"][0], strict=True)]

    def _client(self) -> Any:  # noqa: ANN401 - as above
        import chromadb

        return chromadb.PersistentClient(str(self.folder), settings=chromadb.Settings(anonymized_telemetry=False))
