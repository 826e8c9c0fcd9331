"""This library through its public tools: rag_ingest_many and rag_query, with an embedder that gives the data set's vectors."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

import contextvars
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import ClassVar

import numpy as np
from harness.protocol import DIM, Adapter, Document, Feed, Hit, Query, T, Vectors

from rag_stdlib import (
    QueryOptions,
    RagChunkEnvelope,
    Runtime,
    SourceDocument,
    rag_ingest_document,
    rag_ingest_many,
    rag_query,
)
from rag_stdlib.config import Config, RagConfig
from rag_stdlib.embed.protocol import EmbedderIdentity, Role

INDEX = "index.db"
CHUNK_CHARS = 400  # as `harness.data` cuts
DOCUMENTS = 200  # of a call
_MODES = {mode: QueryOptions(mode=mode) for mode in ("vector", "lexical", "hybrid")}


class Given:
    """An embedder that looks vectors up: of passages by their text, of the query as it was set in this thread."""

    remote = False

    def __init__(self) -> None:
        """Know nothing yet."""
        self._passages: dict[str, Vectors] = {}
        self._thread = threading.local()

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - it is known
        """See `Embedder.identity`."""
        return EmbedderIdentity("given", "data-set", DIM)

    def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """See `Embedder.embed`."""
        if role == "query":
            vector: Vectors = self._thread.query
            return vector[None]
        return np.stack([self._passages[text] for text in texts])

    def know(self, documents: Sequence[Document], *, only: bool) -> None:
        """Take the passages of documents, and with `only` forget all others."""
        if only:
            self._passages = {}
        for document in documents:
            self._passages.update(zip(document.chunks, document.vectors, strict=True))

    def ask(self, vector: Vectors) -> None:
        """Set what the next query of this thread is embedded as."""
        self._thread.query = vector


class Library(Adapter):
    """See the module."""

    kinds: ClassVar[tuple[str, ...]] = ("vector", "lexical", "hybrid")
    vector_memory_mb: int | None = None  # of a search; None is the library's default

    def load(self) -> None:
        for module in ("search", "pipeline"):  # which the tools load when they are first called
            importlib.import_module(f"rag_stdlib.index.{module}")

    def runtime(self, vector_memory_mb: int | None = None) -> Runtime:
        """Make the runtime of the folder, with the default bound on memory or another."""
        rag = RagConfig() if vector_memory_mb is None else RagConfig(vector_memory_mb=vector_memory_mb)
        self.embedder = Given()
        return Runtime(Config(rag=rag), root=self.folder, embedder=self.embedder)

    def build(self, feed: Feed) -> None:
        with self.runtime():
            documents = feed.documents()
            while group := list(islice(documents, DOCUMENTS)):
                self.embedder.know(group, only=True)
                rag_ingest_many(INDEX, list(_sources(group)), CHUNK_CHARS).unwrap()

    def open(self) -> None:
        self._runtime = self.runtime(self.vector_memory_mb)
        self._runtime.__enter__()

    def vector(self, query: Query, k: int) -> list[RagChunkEnvelope]:
        self.embedder.ask(query.vector)
        return rag_query(INDEX, query.text, k, _MODES["vector"]).unwrap()

    def lexical(self, query: Query, k: int) -> list[RagChunkEnvelope]:
        return rag_query(INDEX, query.text, k, _MODES["lexical"]).unwrap()

    def hybrid(self, query: Query, k: int) -> list[RagChunkEnvelope]:
        self.embedder.ask(query.vector)
        return rag_query(INDEX, query.text, k, _MODES["hybrid"]).unwrap()

    def hits(self, found: list[RagChunkEnvelope]) -> list[Hit]:
        return [Hit(int(chunk.doc_id[1:]) + chunk.ordinal, chunk.doc_id, chunk.text) for chunk in found]

    def threaded(self, work: Callable[[Adapter], T]) -> Callable[[], T]:
        context = contextvars.copy_context()
        return lambda: context.run(work, self)

    def open_writer(self, documents: Sequence[Document]) -> None:
        self.open()
        self.embedder.know(documents, only=False)

    def replace(self, document: Document) -> None:
        for source in _sources([document]):
            rag_ingest_document(INDEX, source, CHUNK_CHARS).unwrap()

    def close(self) -> None:
        self._runtime.__exit__(None, None, None)


def _sources(documents: Sequence[Document]) -> Iterator[SourceDocument]:
    return (SourceDocument(document.id, "bench", document.text) for document in documents)
