"""Reading the vec0 table by plain SQL and incremental blob I/O.

vec0 keeps its vectors in blobs, one a block of rows, with a bitmap of the rows in use. Read through one buffer they come at the
speed of a memory copy, since no blob is ever made into an object; a single vector costs a few pages of its block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from rag_stdlib.index import vectors
from rag_stdlib.index.sql import listed
from rag_stdlib.index.sql import rows as sql_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from rag_stdlib.embed.protocol import Matrix

    Seqs = npt.NDArray[np.int64]

_SLAB_BYTES: Final = 1_572_864  # of one buffer: it stays in the second-level cache while it is worked on
_FLOAT: Final = 4  # bytes


def slabs(connection: apsw.Connection, dim: int) -> Iterator[tuple[Seqs, Matrix]]:
    """Read all vectors, many at a time, in storage order: seqs of shape (n,) and float32 rows of shape (n, dim).

    The rows lie in a buffer that the next step overwrites.

    Raises:
        apsw.CorruptError: a block that does not have the size that its bitmap and dimension say.
    """
    if not vectors.exists(connection):
        return
    blocks = sql_rows(connection, "SELECT chunk_id, validity, rowids FROM rag_vectors_chunks ORDER BY chunk_id").fetchall()
    room = bytearray()
    with damage(), _Blobs(connection) as blobs:
        for part in _grouped(blocks, dim):
            sizes = [len(rowids) // 8 for _, _, rowids in part]
            if any(len(validity) * 8 != size for (_, validity, _), size in zip(part, sizes, strict=True)):
                raise apsw.CorruptError("a block of vectors does not have the size that its bitmap says")
            if len(room) < sum(sizes) * dim * _FLOAT:
                room = bytearray(sum(sizes) * dim * _FLOAT)
            buffer = memoryview(room)[:sum(sizes) * dim * _FLOAT]
            at = 0
            for (block, _, _), size in zip(part, sizes, strict=True):
                end = at + size * dim * _FLOAT
                blobs.open(block, end - at).read_into(buffer[at:end])
                at = end
            used = np.unpackbits(np.frombuffer(b"".join(block[1] for block in part), np.uint8), bitorder="little").astype(bool)
            seqs = np.frombuffer(b"".join(block[2] for block in part), "<i8")
            matrix = np.frombuffer(buffer, "<f4").reshape(-1, dim)
            yield (seqs, matrix) if used.all() else (seqs[used], matrix[used])


def _grouped(blocks: Sequence[tuple[int, bytes, bytes]], dim: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
    group: list[tuple[int, bytes, bytes]] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += len(block[2]) // 8 * dim * _FLOAT
        if size >= _SLAB_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def pick(connection: apsw.Connection, seqs: Seqs, dim: int) -> Matrix:
    """Read the vectors of the given chunks: float32 of shape (len(seqs), dim), in the order given.

    Raises:
        apsw.CorruptError: a chunk without a vector, or a vector that is cut short.
    """
    wanted = np.ascontiguousarray(seqs, np.int64)
    order = np.argsort(wanted, kind="stable")
    table, binding = listed(wanted[order])
    places = sql_rows(connection, f"SELECT r.rowid, r.chunk_id, r.chunk_offset FROM {table} a CROSS JOIN rag_vectors_rowids r "
                                  "ON r.rowid = a.value", (binding,)).fetchall()
    if len(places) != len(wanted):
        raise apsw.CorruptError("a chunk has no vector, or more than one")
    width = dim * _FLOAT
    target = memoryview(bytearray(len(wanted) * width))
    rows_of = dict(zip((place[0] for place in places), order.tolist(), strict=True))
    with damage(), _Blobs(connection) as blobs:
        for block, members in itertools.groupby(sorted(places, key=lambda place: place[1:]), key=lambda place: place[1]):
            blob = blobs.open(block)
            for seq, _, offset in members:
                if (offset + 1) * width > blob.length():
                    raise apsw.CorruptError("a stored vector is cut short")
                blob.seek(offset * width)
                blob.read_into(target[rows_of[seq] * width:(rows_of[seq] + 1) * width])
    return np.frombuffer(target, "<f4").reshape(-1, dim)


@contextmanager
def damage() -> Iterator[None]:
    """Take stored values of a wrong type or range for damage."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise apsw.CorruptError(f"the vector table holds what is none of its values: {error}") from None


class _Blobs:
    """One open blob of vectors, moved from block to block."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._blob: apsw.Blob | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._blob is not None:
            self._blob.close(True)

    def open(self, block: int, size: int | None = None) -> apsw.Blob:
        try:
            if self._blob is None:
                self._blob = self._connection.blob_open("main", "rag_vectors_vector_chunks00", "vectors", block, False)
            else:
                self._blob.reopen(block)
        except apsw.SQLError:
            raise apsw.CorruptError("a block of vectors is missing") from None
        if size is not None and self._blob.length() != size:
            raise apsw.CorruptError("a block of vectors does not have the size that its bitmap and dimension say")
        return self._blob
