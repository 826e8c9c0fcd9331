"""usearch's HNSW index, float32, its defaults (16 edges, expansion 128 to add and 64 to search); texts in SQLite."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

import numpy as np
from harness.protocol import DIM, Adapter, Feed, Hit, Query

from adapters.side import Texts


class Library(Adapter):
    """See the module."""

    kinds = ("vector",)

    def load(self) -> None:
        import usearch.index  # noqa: F401 - timed

    def build(self, feed: Feed) -> None:
        from usearch.index import Index

        texts = Texts(self.folder / "texts.db")
        index = Index(ndim=DIM, metric="ip", dtype="f32")
        for batch in texts.store(feed.batches(1_000)):
            index.add(np.array(batch.rows, np.uint64), batch.vectors, threads=1)
        index.save(str(self.folder / "vectors.usearch"))
        texts.close()

    def open(self) -> None:
        from usearch.index import Index

        self._texts = Texts(self.folder / "texts.db")
        self._index = Index.restore(str(self.folder / "vectors.usearch"))

    def vector(self, query: Query, k: int) -> list[Hit]:
        return self._texts.fetch(self._index.search(query.vector, k, threads=1).keys.tolist())

    def close(self) -> None:
        self._texts.close()
