"""A float32 matrix in a .npy file, multiplied whole; texts in SQLite."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

import numpy as np
from harness.protocol import DIM, Adapter, Feed, Hit, Query, Vectors

from adapters.side import Texts


class Library(Adapter):
    """See the module."""

    kinds = ("vector",)

    def build(self, feed: Feed) -> None:
        texts = Texts(self.folder / "texts.db")
        matrix = np.lib.format.open_memmap(self.folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(len(feed), DIM))
        for batch in texts.store(feed.batches(1_000)):
            matrix[batch.rows] = batch.vectors
        matrix.flush()
        texts.close()

    def open(self) -> None:
        self._texts = Texts(self.folder / "texts.db")
        self._matrix: Vectors = np.load(self.folder / "vectors.npy")

    def vector(self, query: Query, k: int) -> list[Hit]:
        products = self._matrix @ query.vector
        best = np.argpartition(products, -k)[-k:]
        return self._texts.fetch(best[np.argsort(-products[best])].tolist())

    def close(self) -> None:
        self._texts.close()
