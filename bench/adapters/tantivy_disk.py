"""tantivy: an index on disk with stored texts, one indexing thread, any of the words by BM25."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from typing import Any

from harness.protocol import Adapter, Feed, Hit, Query


class Library(Adapter):
    """See the module."""

    kinds = ("lexical",)

    def load(self) -> None:
        import tantivy  # noqa: F401 - timed

    def build(self, feed: Feed) -> None:
        import tantivy

        index = tantivy.Index(self._schema(), path=str(self.folder))
        writer = index.writer(heap_size=128_000_000, num_threads=1)
        for batch in feed.batches(1_000):
            for row, document, text in zip(batch.rows, batch.documents, batch.texts, strict=True):
                writer.add_document(tantivy.Document(row=row, document=document, text=text))
        writer.commit()
        writer.wait_merging_threads()

    def open(self) -> None:
        import tantivy

        self._index = tantivy.Index(self._schema(), path=str(self.folder))
        self._searcher = self._index.searcher()

    def lexical(self, query: Query, k: int) -> list[Any]:
        parsed = self._index.parse_query(query.text, ["text"])
        return [self._searcher.doc(address) for _, address in self._searcher.search(parsed, k, count=False).hits]

    def hits(self, found: list[Any]) -> list[Hit]:
        return [Hit(document["row"][0], document["document"][0], document["text"][0]) for document in found]

    def _schema(self) -> Any:  # noqa: ANN401 - tantivy is not installed where this is checked
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("row", stored=True)
        builder.add_text_field("document", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", stored=True)
        return builder.build()
