"""usearch's exact search over a float32 matrix in a .npy file; texts in SQLite."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from harness.protocol import Hit, Query

from adapters.matrix_numpy import Library as Matrix


class Library(Matrix):
    """See the module."""

    def load(self) -> None:
        import usearch.index  # noqa: F401 - timed

    def vector(self, query: Query, k: int) -> list[Hit]:
        from usearch.index import MetricKind, search

        found = search(self._matrix, query.vector, k, MetricKind.IP, exact=True, threads=1)
        return self._texts.fetch(found.keys.tolist())
