"""LlamaIndex with its FAISS store (flat, inner product); documents in its JSON docstore."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from typing import Any

from harness.protocol import DIM, Adapter, Batch, Feed, Hit, Query


class Library(Adapter):
    """See the module."""

    kinds = ("vector",)

    def load(self) -> None:
        import faiss
        import llama_index.core
        import llama_index.vector_stores.faiss  # noqa: F401 - timed

        faiss.omp_set_num_threads(1)

    def build(self, feed: Feed) -> None:
        import faiss
        from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
        from llama_index.vector_stores.faiss import FaissVectorStore

        storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss_index=faiss.IndexFlatIP(DIM)))
        index = VectorStoreIndex([], storage_context=storage, embed_model=MockEmbedding(embed_dim=DIM))
        for batch in feed.batches(1_000):
            index.insert_nodes(_nodes(batch))
        index.storage_context.persist(str(self.folder))

    def open(self) -> None:
        from llama_index.core import MockEmbedding, StorageContext, load_index_from_storage
        from llama_index.vector_stores.faiss import FaissVectorStore

        storage = StorageContext.from_defaults(vector_store=FaissVectorStore.from_persist_dir(str(self.folder)),
                                               persist_dir=str(self.folder))
        self._index = load_index_from_storage(storage, embed_model=MockEmbedding(embed_dim=DIM))

    def vector(self, query: Query, k: int) -> Any:  # noqa: ANN401 - LlamaIndex is not installed where this is checked
        from llama_index.core import QueryBundle

        return self._index.as_retriever(similarity_top_k=k).retrieve(QueryBundle(query.text, embedding=query.vector.tolist()))

    def hits(self, found: Any) -> list[Hit]:  # noqa: ANN401 - as above
        return [Hit(int(each.node.node_id), each.node.metadata["document"], each.node.text) for each in found]


def _nodes(batch: Batch) -> list[Any]:
    from llama_index.core.schema import TextNode

    return [TextNode(id_=str(row), text=text, metadata={"document": document}, embedding=vector)
            for row, document, text, vector in zip(batch.rows, batch.documents, batch.texts, batch.vectors.tolist(), strict=True)]
