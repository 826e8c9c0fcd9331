"""bm25s: scores computed at build time, loaded into memory; its corpus mapped from disk."""

# ruff: noqa: D102 - the methods are those of `Adapter`
from __future__ import annotations

from typing import Any

from harness.protocol import Adapter, Feed, Hit, Query


class Library(Adapter):
    """See the module."""

    kinds = ("lexical",)

    def load(self) -> None:
        import bm25s  # noqa: F401 - timed

    def build(self, feed: Feed) -> None:
        import bm25s

        corpus = [{"row": row, "document": document, "text": text} for batch in feed.batches(1_000)
                  for row, document, text in zip(batch.rows, batch.documents, batch.texts, strict=True)]
        retriever = bm25s.BM25()
        retriever.index(bm25s.tokenize([each["text"] for each in corpus], stopwords=None, show_progress=False),
                        show_progress=False)
        retriever.save(str(self.folder), corpus=corpus)

    def open(self) -> None:
        import bm25s

        self._retriever = bm25s.BM25.load(str(self.folder), load_corpus=True, mmap=False)

    def lexical(self, query: Query, k: int) -> Any:  # noqa: ANN401 - bm25s is not installed where this is checked
        import bm25s

        words = bm25s.tokenize(query.text, stopwords=None, return_ids=False, show_progress=False)
        return self._retriever.retrieve(words, k=k, n_threads=0, show_progress=False).documents[0]

    def hits(self, found: Any) -> list[Hit]:  # noqa: ANN401 - as above
        return [Hit(each["row"], each["document"], each["text"]) for each in found]
