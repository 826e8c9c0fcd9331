"""FAISS IndexFlatIP; texts in SQLite."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from harness.protocol import DIM, Adapter, Feed, Hit, Query

from adapters.side import Texts


class Library(Adapter):
    """See the module."""

    kinds = ("vector",)

    def load(self) -> None:
        import faiss

        faiss.omp_set_num_threads(1)

    def build(self, feed: Feed) -> None:
        import faiss

        texts = Texts(self.folder / "texts.db")
        index = faiss.IndexFlatIP(DIM)
        for batch in texts.store(feed.batches(1_000)):
            index.add(batch.vectors)
        faiss.write_index(index, str(self.folder / "vectors.faiss"))
        texts.close()

    def open(self) -> None:
        import faiss

        self._texts = Texts(self.folder / "texts.db")
        self._index = faiss.read_index(str(self.folder / "vectors.faiss"))

    def vector(self, query: Query, k: int) -> list[Hit]:
        _, rows = self._index.search(query.vector[None], k)
        return self._texts.fetch(rows[0].tolist())

    def close(self) -> None:
        self._texts.close()
