"""Many documents at the speed of the machine: while SQLite writes one group of them, the next is cut, hashed and embedded.

A group is one transaction of up to a few thousand chunks. At most one is being written while another is prepared, so memory is
bounded whatever the number of documents. The writing thread belongs to one group and is waited for, however the call ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rag_stdlib.effects import carry
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import Failure
from rag_stdlib.index.prepare import Prepared, document_row, prepare
from rag_stdlib.index.store import Store
from rag_stdlib.index.writer import Ingested, embed, look, stored_identity, write
from rag_stdlib.records import SourceDocument
from rag_stdlib.text.chunker import ChunkOptions, chunk_text
from rag_stdlib.values import of_document

if TYPE_CHECKING:
    from typing_extensions import Self

    from rag_stdlib.embed.protocol import Matrix
    from rag_stdlib.index.writer import Vectors

Progress = Callable[[int, int], None]

FIRST_CHUNKS: Final = 1_024  # of a call's first group; the next ones double while they take less than a second
LEAST_CHUNKS: Final = 128  # of a group of a slow embedder, so that the call is seen to move
MOST_CHUNKS: Final = 4_096
MOST_BYTES: Final = 16_000_000  # of a group in the file, about
MOST_CHARS: Final = 4_000_000
_CHUNK_BYTES: Final = 1_400  # of a chunk in the file, its vector aside
_GROUP_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 50e-6
OF_ONE_TEXT: Final = frozenset({"embedder_rejected", "embedder_failed", "embedder_reply", "embedder_input_too_long"})


def ingest_many(store: Store, path: str, documents: Sequence[SourceDocument], chunk_chars: int, options: ChunkOptions,
                embedder: Embedder | None = None, progress: Progress | None = None) -> list[Ingested]:
    """Store documents as `writer.ingest` would one after the other; of several with one id the last one counts.

    `progress` is called with (stored, total) documents.

    Raises:
        Failure: what `writer.ingest` raises, with the document named where one is the cause. Of its group none is stored, of
            the groups before it all are.
    """
    done: list[Ingested] = []
    last = {document.doc_id: position for position, document in enumerate(documents)}
    size = FIRST_CHUNKS
    with _Run(store, path, chunk_chars, options, embedder) as run:
        while len(done) < len(documents):
            began, start = time.monotonic(), len(done)
            group = list(_group(documents, start, chunk_chars, min(size, run.most_chunks())))
            done += run.add(group, [last[document.doc_id] == position for position, document in enumerate(group, start)])
            size = min(size * 2, MOST_CHUNKS) if time.monotonic() - began < _GROUP_SECONDS else max(size // 2, LEAST_CHUNKS)
            if progress is not None and start:
                progress(start, len(documents))
    if progress is not None and documents:
        progress(len(documents), len(documents))
    with store.reading_if_any(path):
        pass  # the last state that is looked at is the one that the call leaves
    return done


def estimated_chunks(document: SourceDocument, chunk_chars: int) -> int:
    """Estimate a document's number of chunks, of which each repeats a fifth of the one before."""
    return 1 + len(document.text) * 5 // (chunk_chars * 4)


def _group(documents: Sequence[SourceDocument], start: int, chunk_chars: int, size: int) -> Iterator[SourceDocument]:
    """Take documents from `start` on: one, and as many more as make about `size` chunks."""
    chunks = chars = 0
    for position in range(start, len(documents)):
        document = documents[position]
        chunks += estimated_chunks(document, chunk_chars)
        chars += len(document.text)
        if position > start and (chunks > size or chars > MOST_CHARS):
            return
        yield document


class _Run:
    """One call: its groups, and the one that is being written. Leaving the block waits for that one."""

    def __init__(self, store: Store, path: str, chunk_chars: int, options: ChunkOptions, embedder: Embedder | None) -> None:
        self._store, self._path, self._embedder = store, path, embedder
        self._chunk_chars, self._options = chunk_chars, options
        self._stored = stored_identity(store, path) if embedder else None
        self._writing: _Writing | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._wait()
        except Exception:
            if kind is None or issubclass(kind, Exception):  # else it is Ctrl-C, which nothing may hide
                raise

    def most_chunks(self) -> int:
        """Return how many chunks a group may have at most, by the size of their vectors."""
        identity = self._identity()
        return max(1, min(MOST_CHUNKS, MOST_BYTES // (_CHUNK_BYTES + 4 * identity.dim if identity else _CHUNK_BYTES)))

    def add(self, group: Sequence[SourceDocument], counts: Sequence[bool]) -> list[Ingested]:
        """Prepare a group and leave it to be written; `counts` says which of its documents no later one of the call replaces."""
        rows = [document_row(document, self._chunk_chars, self._options.name()) for document in group]
        seen = look(self._store, self._path, [row for row, it_counts in zip(rows, counts, strict=True) if it_counts], self._identity())
        looks = iter(seen)
        known: Vectors = {}
        new: list[Prepared] = []
        done: list[Ingested] = []
        for document, row, it_counts in zip(group, rows, counts, strict=True):
            if self._writing is not None:
                self._writing.give_way()
            found = next(looks) if it_counts else None
            if found is not None and found.unchanged is not None:
                done.append(Ingested(found.unchanged, changed=False))
                continue
            prepared = self._prepared(document, row)
            done.append(Ingested(prepared.chunks, changed=True))
            if found is not None:
                known.update(found.known)
                new.append(prepared)
        if new:
            self._store_all(new, known)
        return done

    def _identity(self) -> EmbedderIdentity | None:
        return boundary.identified(self._embedder, self._stored) if self._embedder else None

    def _prepared(self, document: SourceDocument, row: tuple[object, ...]) -> Prepared:
        try:
            return prepare(document, row, chunk_text(document.text, self._chunk_chars, options=self._options))
        except Failure as failure:
            raise of_document(document.doc_id, failure) from None

    def _store_all(self, group: list[Prepared], known: Vectors) -> None:
        try:
            rows, _ = embed(self._embedder, group, known)
        except Failure as failure:
            if failure.error.code in OF_ONE_TEXT:
                self._blame(group, known)
            raise
        self._write(group, rows)

    def _blame(self, group: Sequence[Prepared], known: Vectors) -> None:
        """Raise what the embedder refuses in the name of the document that it is of."""
        for document in group:
            try:
                rows, _ = embed(self._embedder, [document], known)
            except Failure as failure:
                raise of_document(document.doc_id, failure) from None
            if rows is not None:
                known.update(zip(document.digests, rows, strict=True))

    def _write(self, group: Sequence[Prepared], rows: Matrix | None) -> None:
        identity = self._identity()  # now the embedder has seen the true dimension
        self._wait()
        self._writing = _Writing(lambda: write(self._store, self._path, group, identity, rows))

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.wait()


class _Writing:
    """Work in a thread of its own, in the caller's context."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=carry(self._run), args=(work,), name="rag-write")
        self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self._error = error

    def give_way(self) -> None:
        """Let the thread have the interpreter if it waits for it: what it does with it is short, and the disk waits for it."""
        self._thread.join(_TURN_SECONDS)

    def wait(self) -> None:
        """Wait for the end of the work, through Ctrl-C as well, and raise what it raised."""
        interrupt: KeyboardInterrupt | None = None
        while self._thread.is_alive():
            try:
                self._thread.join()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._error is not None:
            raise self._error
