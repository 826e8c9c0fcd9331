"""LanceDB: a table with its full-text index, exact (flat) vector search, its own hybrid search (reciprocal rank fusion)."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from harness.protocol import DIM, Adapter, Batch, Document, Feed, Hit, Query, joined

COLUMNS = ["row", "document", "text"]


class Library(Adapter):
    """See the module."""

    kinds = ("vector", "lexical", "hybrid")

    def load(self) -> None:
        import lancedb  # noqa: F401 - timed
        import pyarrow  # noqa: F401, ICN001 - timed

    def build(self, feed: Feed) -> None:
        database = self._connect()
        table: Any = None
        for batch in feed.batches(10_000):
            if table is None:
                table = database.create_table("chunks", _arrow(batch))
            else:
                table.add(_arrow(batch))
        table.create_fts_index("text", stem=False, remove_stop_words=False)  # every library answers the same words
        table.optimize()

    def open(self) -> None:
        self._table = self._connect().open_table("chunks")

    def vector(self, query: Query, k: int) -> Any:  # noqa: ANN401 - as below
        return self._table.search(query.vector).distance_type("cosine").select(COLUMNS).limit(k).to_list()

    def lexical(self, query: Query, k: int) -> Any:  # noqa: ANN401 - as below
        return self._table.search(query.text, query_type="fts").select(COLUMNS).limit(k).to_list()

    def hybrid(self, query: Query, k: int) -> Any:  # noqa: ANN401 - as below
        return (self._table.search(query_type="hybrid").vector(query.vector).text(query.text).distance_type("cosine")
                .limit(k).to_list())

    def hits(self, found: list[dict[str, Any]]) -> list[Hit]:
        return [Hit(row["row"], row["document"], row["text"]) for row in found]

    def open_writer(self, documents: Sequence[Document]) -> None:  # noqa: ARG002 - nothing to prepare
        self.open()

    def replace(self, document: Document) -> None:
        self._table.delete(f"document = '{document.id}'")
        self._table.add(_arrow(joined([document])))

    def _connect(self) -> Any:  # noqa: ANN401 - LanceDB is not installed where this is checked
        import lancedb

        return lancedb.connect(str(self.folder), read_consistency_interval=timedelta(0))


def _arrow(batch: Batch) -> Any:  # noqa: ANN401 - as above
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(batch.vectors.ravel()), DIM)
    return pa.table({"row": batch.rows, "document": batch.documents, "text": batch.texts, "vector": vectors})
