"""Cutting an index into shards by document: new indexes, each as if its documents had been put into it in the order of the whole one.

Rows are copied as they stand and vectors bit for bit; only the lexical index is made anew, from the same texts. The whole index is
read in one snapshot, a batch of documents at a time, and nothing in it changes. What it keeps for itself stays behind: staged vectors,
the signature of its corpus, the journal of its changes.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import apsw

from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import changes, content, schema, sharding, vectors, writer
from rag_stdlib.index.bulk import insert
from rag_stdlib.index.pipeline import MOST_BYTES, MOST_CHUNKS
from rag_stdlib.index.prepare import CHUNK_COLUMNS, DOCUMENT_COLUMNS, Prepared, Row
from rag_stdlib.index.sql import number, rows
from rag_stdlib.index.store import Store
from rag_stdlib.index.unfinished import made_whole
from rag_stdlib.records import Record
from rag_stdlib.root import Root
from rag_stdlib.text.normalize import index_text

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

Progress = Callable[[int, int], None]

_DOCUMENTS: Final = (f"SELECT {', '.join(f'd.{column}' for column in DOCUMENT_COLUMNS)} "
                     "FROM json_each(?) a CROSS JOIN rag_documents d ON d.rowid = a.value")
_CHUNKS: Final = f"SELECT {', '.join(CHUNK_COLUMNS)} FROM rag_chunks WHERE doc_id IN (SELECT value FROM json_each(?)) ORDER BY doc_id, ordinal"
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {  # of tables that are made when they are needed
    "rag_corpora": ("id", "position", "url", "branch", "commit_id", "rules"),
    "rag_corpus_files": ("doc_id", "repo_id", "blob", "sections"),
    "rag_originals": ("doc_id", "sha256", "bytes"),
}
_OF_DOCUMENTS: Final[tuple[str, ...]] = ("rag_corpus_files", "rag_originals")
_CHUNKS_AT, _BYTES_AT = (DOCUMENT_COLUMNS.index(column) for column in ("chunks", "bytes"))
_DOC_ID_AT, _TEXT_AT = (CHUNK_COLUMNS.index(column) for column in ("doc_id", "text"))
_SLICE: Final = 10_000  # documents whose numbers go into one statement
_FLOAT_BYTES: Final = 4


@dataclass(frozen=True)
class Shard(Record):
    """A shard that was made: its path below the root, which one it is (``NUMBER/SHARDS``, from 0), and how much it holds."""

    index: str
    shard: str
    documents: int
    chunks: int
    vectors: int


def shard_path(path: str, place: int, folder: str | None = None) -> str:
    """Name the file of a shard of the index at `path`: ``notes-2.db`` is number 2 of ``notes.db``, beside it or in another folder."""
    whole = PurePosixPath(path)
    return str((whole.parent if folder is None else PurePosixPath(folder)) / f"{whole.stem}-{place}{whole.suffix}")


def split(root: Root, store: Store, path: str, shards: int, folder: str | None = None, progress: Progress | None = None) -> tuple[Shard, ...]:
    """Cut the index at `path` into so many new ones (2 to 1,024), by `sharding.shard_of`, and return them in order.

    They get their names when all are whole; see `unfinished.made_whole`. `progress` is called with (copied, total) chunks.

    Args:
        root: The [io] root, below which the new files lie.
        store: Opens the index that is cut.
        path: Its path.
        shards: How many there shall be.
        folder: Where the new files shall lie, which is there already; that of the index where it is None.
        progress: Hears how far it is.

    Raises:
        Failure: `invalid_option`, `index_exists`, `index_is_shard`; `index_corrupt` where rows of the index are of no document; `busy`,
            `disk_full`, and refusals of a path or file. Whatever it is, no shard is there.
    """
    sharding.check_count(shards)
    if folder == "":
        raise fail("path_empty", path=folder)
    targets = [shard_path(path, place, folder) for place in range(shards)]
    with store.reading(path) as connection:
        sharding.refuse_shard(connection, path, "it cannot be split again; split the whole index into more shards")
        whole = _Whole(connection, progress)
        members = whole.members(shards)
        made: list[Shard] = []
        try:
            with made_whole(root, targets) as hidden, closing(Store(root)) as target:
                for place, unfinished in enumerate(hidden):
                    counts = _fill(target, unfinished, whole, members[place], (place, shards))
                    made.append(Shard(targets[place], sharding.name(place, shards), *counts))
                whole.refuse_loss(path, made)
        except Failure as failure:
            if failure.error.code == "disk_full":  # of a file that nobody knows by that name
                raise fail("disk_full", path=path) from failure
            raise
    return tuple(made)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some documents: ready to be stored, the positions of those of their chunks that have a vector, the vectors, and what other tables hold."""

    documents: list[Prepared]
    held: list[int]
    vectors: Matrix | None
    beside: dict[str, list[Any]]


class _Whole:
    """The index that is cut, in one snapshot: whose vectors it holds, which tables of `_COLUMNS` there are, and the rows of its repositories."""

    def __init__(self, connection: apsw.Connection, progress: Progress | None) -> None:
        self._connection = connection
        self._progress = progress
        self._chunks, self._copied = number(connection, "SELECT count(*) FROM rag_chunks"), 0
        self.identity: EmbedderIdentity | None = schema.stored_identity(connection)
        self._vector_bytes = self.identity.dim * _FLOAT_BYTES if self.identity is not None else 0
        self.tables = [table for table in _COLUMNS if schema.has_table(connection, table)]
        self.corpora = self._values("rag_corpora") if "rag_corpora" in self.tables else []

    def members(self, shards: int) -> list[array[int]]:
        """List the documents of each shard by their rowids, in order."""
        members = [array("q") for _ in range(shards)]
        for rowid, doc_id in rows(self._connection, "SELECT rowid, id FROM rag_documents ORDER BY rowid"):
            members[sharding.number_of(doc_id, shards)].append(rowid)
        return members

    def batches(self, rowids: array[int]) -> Iterator[_Batch]:
        """Read documents, as many at a time as an ingest writes in one transaction; all that a batch needs is in it."""
        group: list[Row] = []
        chunks = size = 0
        for row in self._documents(rowids):
            weight = row[_BYTES_AT] + row[_CHUNKS_AT] * self._vector_bytes
            if group and (chunks + row[_CHUNKS_AT] > MOST_CHUNKS or size + weight > MOST_BYTES):
                yield self._batch(group)
                group, chunks, size = [], 0, 0
            group.append(row)
            chunks, size = chunks + row[_CHUNKS_AT], size + weight
        if group:
            yield self._batch(group)

    def refuse_loss(self, path: str, made: Sequence[Shard]) -> None:
        """Refuse an index of which something was left over, since it is of no document.

        Raises:
            Failure: `index_corrupt`.
        """
        counts = {"documents": number(self._connection, "SELECT count(*) FROM rag_documents"), "chunks": self._chunks,
                  "vectors": vectors.count(self._connection)}
        for what, count in counts.items():
            copied = sum(getattr(shard, what) for shard in made)
            if copied != count:
                raise fail("index_corrupt", path=path, detail=f"it holds {count} {what}, of which {copied} are of its documents")

    def _values(self, table: str, condition: str = "", given: tuple[str, ...] = ()) -> list[Any]:
        """Read rows of a table of `_COLUMNS`, one behind the other."""
        return list(itertools.chain.from_iterable(rows(self._connection, f"SELECT {', '.join(_COLUMNS[table])} FROM {table} {condition}", given)))

    def _documents(self, rowids: array[int]) -> Iterator[Row]:
        for start in range(0, len(rowids), _SLICE):
            yield from rows(self._connection, _DOCUMENTS, (json.dumps(rowids[start:start + _SLICE].tolist()),))

    def _batch(self, group: Sequence[Row]) -> _Batch:
        given = (json.dumps([row[0] for row in group]),)
        chunks: dict[str, list[Row]] = {row[0]: [] for row in group}
        for chunk in rows(self._connection, _CHUNKS, given):
            chunks[chunk[_DOC_ID_AT]].append(chunk)
        seqs = [chunk[0] for row in group for chunk in chunks[row[0]]]
        held, found = self._vectors(seqs)
        beside = {table: self._values(table, "WHERE doc_id IN (SELECT value FROM json_each(?))", given)
                  for table in _OF_DOCUMENTS if table in self.tables}
        self._copied += len(seqs)
        if self._progress is not None:
            self._progress(self._copied, self._chunks)
        return _Batch([_prepared(row, chunks[row[0]]) for row in group], held, found, beside)

    def _vectors(self, seqs: Sequence[int]) -> tuple[list[int], Matrix | None]:
        """Read the vectors of chunks: the positions of those that have one, and float32 (their number, dim)."""
        if self.identity is None or not vectors.exists(self._connection):
            return [], None
        stored = {seq for (seq,) in rows(self._connection, "SELECT rowid FROM rag_vectors_rowids WHERE rowid IN (SELECT value FROM json_each(?))",
                                         (json.dumps(seqs),))}
        held = [position for position, seq in enumerate(seqs) if seq in stored]
        if not held:
            return [], None
        import numpy as np

        from rag_stdlib.index import vecread

        return held, vecread.pick(self._connection, np.array([seqs[position] for position in held], np.int64), self.identity.dim)


def _prepared(row: Row, chunks: Sequence[Row]) -> Prepared:
    """Make a stored document ready to be stored again, from its row and those of its chunks; its vectors need no texts."""
    values: list[Any] = []
    for chunk in chunks:
        values += (None, *chunk[1:])
    return Prepared(row[0], row, content.member(row[:len(content.COLUMNS)]), values, [index_text(chunk[_TEXT_AT]) for chunk in chunks], [], {})


def _fill(store: Store, path: str, whole: _Whole, rowids: array[int], which: tuple[int, int]) -> tuple[int, int, int]:
    """Make the index of a shard; return how many documents, chunks and vectors it holds."""
    with store.writing(path, create=True) as connection:
        _begin(connection, whole, which)
    documents = chunks = held = 0
    for batch in whole.batches(rowids):
        with store.writing(path) as connection:
            chunks += _put(connection, path, batch)
        documents, held = documents + len(batch.documents), held + len(batch.held)
    with store.exclusive(path):
        pass  # what is left in the log is moved into the file
    store.close_idle()  # with the pages that the connection keeps in memory
    return documents, chunks, held


def _begin(connection: apsw.Connection, whole: _Whole, which: tuple[int, int]) -> None:
    """Write what a shard holds without any document."""
    sharding.mark(connection, *which)
    if whole.identity is not None:
        writer.prepare_vectors(connection, whole.identity)
    if "rag_corpora" in whole.tables:
        schema.create_corpus(connection)
        _insert(connection, "rag_corpora", whole.corpora)
    if "rag_originals" in whole.tables:
        schema.create_originals(connection)
    content.rebuild(connection)


def _put(connection: apsw.Connection, path: str, batch: _Batch) -> int:
    """Store a batch; return how many chunks it has."""
    seqs = writer.add(connection, path, batch.documents, {}, None, None)
    if batch.vectors is not None:
        vectors.add(connection, [seqs[position] for position in batch.held], batch.vectors)
    for table, values in batch.beside.items():
        _insert(connection, table, values)
    steps: list[changes.Step] = []
    behind = seqs.start
    for document in batch.documents:
        steps.append((changes.NONE, range(behind, behind + document.chunks)))
        behind += document.chunks
    content.advance(connection, come=writer.total(document.lanes for document in batch.documents), steps=steps)
    return len(seqs)


def _insert(connection: apsw.Connection, table: str, values: Sequence[Any]) -> None:
    insert(connection, f"{table}({', '.join(_COLUMNS[table])})", len(_COLUMNS[table]), values)
