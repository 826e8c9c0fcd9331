"""What a measured library has to do: build a store from rows, open it, answer with text and document, close.

Modules of `adapters` subclass `Adapter`. A row is a chunk: its number, its document, its text, its unit vector. Adapters run
in their own environment, where nothing of this project's library is installed, so this module needs numpy only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Vectors = npt.NDArray[np.float32]
KINDS = ("vector", "lexical", "hybrid")
DIM = 384
CANDIDATES = 50  # of each side, where an adapter fuses two lists itself
RANK_CONSTANT = 60  # of reciprocal rank fusion


class Query(NamedTuple):
    """A query: its words and its unit vector."""

    text: str
    vector: Vectors


class Hit(NamedTuple):
    """A result: the number of the row, its document's id, its text."""

    row: int
    document: str
    text: str


@dataclass(frozen=True)
class Document:
    """A text with its chunks as half-open character offsets; `first_row` is the number of its first chunk."""

    id: str
    first_row: int
    text: str
    spans: Sequence[tuple[int, int]]
    vectors: Vectors

    @property
    def chunks(self) -> list[str]:
        """The texts of the chunks."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def rows(self) -> range:
        """The numbers of the chunks."""
        return range(self.first_row, self.first_row + len(self.spans))


class Batch(NamedTuple):
    """Rows as most libraries take them: equally long columns."""

    rows: list[int]
    documents: list[str]
    texts: list[str]
    vectors: Vectors


class Feed:
    """The rows of a data set, read as they are asked for; the time that reading takes is counted, to be taken off."""

    def __init__(self, folder: Path, vectors: str) -> None:
        """Read from a folder of `harness.data`; `vectors` is the kind, ``real`` or ``random``."""
        self.folder = folder
        self.matrix: Vectors = np.load(folder / f"vectors-{vectors}.npy", mmap_mode="r")
        self.seconds = 0.0

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.matrix)

    def documents(self) -> Iterator[Document]:
        """Yield the documents in order."""
        start, row = time.perf_counter(), 0
        with (self.folder / "documents.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                read = json.loads(line)
                spans = read["spans"]
                document = Document(read["id"], row, read["text"], spans, np.array(self.matrix[row:row + len(spans)]))
                row += len(spans)
                self.seconds += time.perf_counter() - start
                yield document
                start = time.perf_counter()

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows in order, at least `size` at a time but for the last."""
        held: list[Document] = []
        for document in self.documents():
            held.append(document)
            if sum(len(each.spans) for each in held) >= size:
                yield self._joined(held)
                held = []
        if held:
            yield self._joined(held)

    def _joined(self, held: list[Document]) -> Batch:
        start = time.perf_counter()
        batch = joined(held)
        self.seconds += time.perf_counter() - start
        return batch


def joined(documents: Sequence[Document]) -> Batch:
    """Give the rows of some documents as one batch."""
    return Batch([row for document in documents for row in document.rows],
                 [document.id for document in documents for _ in document.spans],
                 [text for document in documents for text in document.chunks],
                 np.concatenate([document.vectors for document in documents]))


class Adapter:
    """A library under measurement. `kinds` says which searches it has; what it returns becomes `Hit`s in `hits`, untimed."""

    kinds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        """Keep the folder of the store; nothing is opened."""
        self.folder = folder

    def load(self) -> None:
        """Import what the library needs: timed apart from opening."""

    def build(self, feed: Feed) -> None:
        """Make the store from all rows and close it."""
        raise NotImplementedError

    def open(self) -> None:
        """Open the store for searching."""
        raise NotImplementedError

    def vector(self, query: Query, k: int) -> Any:  # noqa: ANN401 - what the library gives
        """Return the `k` rows of the highest cosine, with text and document fetched."""
        raise NotImplementedError

    def lexical(self, query: Query, k: int) -> Any:  # noqa: ANN401 - what the library gives
        """Return the `k` rows that match any of the words best."""
        raise NotImplementedError

    def hybrid(self, query: Query, k: int) -> Any:  # noqa: ANN401 - what the library gives
        """Return the `k` best of both, fused as the library does it."""
        raise NotImplementedError

    def hits(self, found: Any) -> list[Hit]:  # noqa: ANN401 - what the library gave
        """Give what a search returned as hits."""
        return list(found)

    def threaded(self, work: Callable[[Adapter], T]) -> Callable[[], T]:
        """Return `work` made fit for another thread. Called in the thread that opened the store."""
        return lambda: work(self)

    def open_writer(self, documents: Sequence[Document]) -> None:
        """Open the store for `replace`; `documents` are all that will be given to it."""
        raise NotImplementedError

    def replace(self, document: Document) -> None:
        """Replace the rows of the document with this id by those given, durably."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""


def fused(lists: Sequence[Sequence[int]], k: int) -> list[int]:
    """Fuse ranked lists by reciprocal ranks; equal sums by number."""
    sums: dict[int, float] = {}
    for ranked in lists:
        for rank, row in enumerate(ranked, start=1):
            sums[row] = sums.get(row, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(sums, key=lambda row: (-sums[row], row))[:k]
