"""Writing vec0's own tables, whole blocks at a time and in exactly the form that vec0 0.1.9 gives them.

vec0 keeps a row for each block in `…_chunks` (its size, a bitmap of the slots in use, a rowid for each slot), the vectors of a
block in `…_vector_chunks00`, and for each vector its block and slot in `…_rowids`. It fills the last block's free slots in
order before it begins another, clears what a slot held when its vector goes, and drops a block without vectors. So does this,
and vec0 reads, searches, fills and clears what is written here. Its own INSERT costs several times as much.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from rag_stdlib.index.bulk import insert
from rag_stdlib.index.sql import rows as sql_rows

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

_VECTORS: Final = "rag_vectors_vector_chunks00"
_DECLARED_SIZE: Final = re.compile(r"\bchunk_size\s*=\s*(\d+)")
_SIZE_UNDECLARED: Final = 1_024
_ROWID_BYTES: Final = 8


def append(connection: apsw.Connection, seqs: Sequence[int], rows: Matrix) -> None:
    """Store unit vectors (float32, one row a chunk) under seqs that have none."""
    import numpy as np

    data = np.ascontiguousarray(rows, dtype="<f4")
    if len(seqs) != len(data):
        raise ValueError("as many vectors as seqs")
    last = sql_rows(connection, "SELECT chunk_id, size, validity, rowids FROM rag_vectors_chunks ORDER BY chunk_id DESC LIMIT 1"
                    ).fetchone()
    done, places = _fill(connection, last, seqs, data) if last else (0, [])
    if done < len(seqs):
        places += _add_blocks(connection, last[1] if last else block_size(connection), seqs[done:], data[done:])
    insert(connection, "rag_vectors_rowids(rowid, chunk_id, chunk_offset)", 3,
           list(itertools.chain.from_iterable((seq, *place) for seq, place in zip(seqs, places, strict=True))))


def take_out(connection: apsw.Connection, seqs: Collection[int]) -> None:
    """Take out the vectors of these chunks; those without one are passed over."""
    wanted = json.dumps(list(seqs))
    places = sql_rows(connection, "SELECT chunk_id, chunk_offset FROM rag_vectors_rowids "
                                  "WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY chunk_id, chunk_offset", (wanted,))
    emptied: list[int] = []
    for block, members in itertools.groupby(places.fetchall(), key=lambda place: place[0]):
        if _clear(connection, block, [offset for _, offset in members]):
            emptied.append(block)
    if emptied:
        gone = json.dumps(emptied)
        connection.execute("DELETE FROM rag_vectors_chunks WHERE chunk_id IN (SELECT value FROM json_each(?))", (gone,))
        connection.execute(f"DELETE FROM {_VECTORS} WHERE rowid IN (SELECT value FROM json_each(?))", (gone,))
    connection.execute("DELETE FROM rag_vectors_rowids WHERE rowid IN (SELECT value FROM json_each(?))", (wanted,))


def block_size(connection: apsw.Connection) -> int:
    """Return the slots of a block, as the table was declared."""
    for (sql,) in sql_rows(connection, "SELECT sql FROM sqlite_schema WHERE name = 'rag_vectors'"):
        found = _DECLARED_SIZE.search(sql)
        return int(found[1]) if found else _SIZE_UNDECLARED
    raise apsw.CorruptError("the table of vectors is missing")


def _fill(connection: apsw.Connection, last: Any, seqs: Sequence[int],  # noqa: ANN401 - a row
          data: Matrix) -> tuple[int, list[tuple[int, int]]]:
    """Fill the free slots of the last block in order: how many vectors found room, and where."""
    block, size, validity, rowids = last[0], last[1], bytearray(last[2]), bytearray(last[3])
    _require_whole(size, validity, rowids)
    free = [offset for offset in range(size) if not validity[offset >> 3] >> (offset & 7) & 1][:len(seqs)]
    if not free:
        return 0, []
    width = data.shape[1] * data.itemsize
    with _vectors_of(connection, block, size * width) as blob:
        for position, run in _runs(free):
            blob.seek(run.start * width)
            blob.write(data[position:position + len(run)].tobytes())
    for seq, offset in zip(seqs, free, strict=False):
        validity[offset >> 3] |= 1 << (offset & 7)
        rowids[offset * _ROWID_BYTES:(offset + 1) * _ROWID_BYTES] = seq.to_bytes(_ROWID_BYTES, "little", signed=True)
    _update(connection, block, validity, rowids)
    return len(free), [(block, offset) for offset in free]


def _add_blocks(connection: apsw.Connection, size: int, seqs: Sequence[int], data: Matrix) -> list[tuple[int, int]]:
    """Add blocks behind the last one; return where the vectors stand."""
    import numpy as np

    count, width = -(-len(seqs) // size), data.shape[1] * data.itemsize
    numbers = np.asarray(seqs, "<i8")
    heads: list[int | bytes] = []
    for start in range(0, len(seqs), size):
        used = min(size, len(seqs) - start)
        heads += (size, ((1 << used) - 1).to_bytes(size // 8, "little"),
                  numbers[start:start + used].tobytes().ljust(size * _ROWID_BYTES, b"\0"))
    insert(connection, "rag_vectors_chunks(size, validity, rowids)", 3, heads)
    first = connection.last_insert_rowid() - count + 1  # AUTOINCREMENT counts on, one by one
    bodies: list[int | bytes] = []
    for number in range(count):
        vectors = data[number * size:(number + 1) * size].tobytes().ljust(size * width, b"\0")
        bodies += (first + number, first + number, vectors)
    insert(connection, f"{_VECTORS}(_rowid_, rowid, vectors)", 3, bodies)
    return [(first + position // size, position % size) for position in range(len(seqs))]


def _clear(connection: apsw.Connection, block: int, offsets: Sequence[int]) -> bool:
    """Clear slots of a block, or tell that no other is in use and leave it to be dropped."""
    found = sql_rows(connection, "SELECT size, validity, rowids FROM rag_vectors_chunks WHERE chunk_id = ?", (block,)).fetchone()
    if found is None:
        raise apsw.CorruptError("a block of vectors is missing")
    size, validity, rowids = found[0], bytearray(found[1]), bytearray(found[2])
    _require_whole(size, validity, rowids)
    for offset in offsets:
        if not 0 <= offset < size:
            raise apsw.CorruptError("a vector is said to stand outside its block")
        validity[offset >> 3] &= ~(1 << (offset & 7))
        rowids[offset * _ROWID_BYTES:(offset + 1) * _ROWID_BYTES] = bytes(_ROWID_BYTES)
    if not any(validity):
        return True
    with _vectors_of(connection, block) as blob:
        width = blob.length() // size
        for _, run in _runs(offsets):
            blob.seek(run.start * width)
            blob.write(bytes(len(run) * width))
    _update(connection, block, validity, rowids)
    return False


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, range]]:
    """Join ascending slots that stand side by side: the place of the first in `offsets`, and the slots."""
    start = 0
    for behind in range(1, len(offsets) + 1):
        if behind == len(offsets) or offsets[behind] != offsets[behind - 1] + 1:
            yield start, range(offsets[start], offsets[behind - 1] + 1)
            start = behind


def _require_whole(size: int, validity: bytearray, rowids: bytearray) -> None:
    if (len(validity) * 8, len(rowids)) != (size, size * _ROWID_BYTES):
        raise apsw.CorruptError("a block of vectors does not have the size that its bitmap and dimension say")


def _vectors_of(connection: apsw.Connection, block: int, length: int | None = None) -> apsw.Blob:
    blob = connection.blob_open("main", _VECTORS, "vectors", block, True)
    if length is not None and blob.length() != length:
        blob.close()
        raise apsw.CorruptError("a block of vectors does not have the size that its bitmap and dimension say")
    return blob


def _update(connection: apsw.Connection, block: int, validity: bytearray, rowids: bytearray) -> None:
    connection.execute("UPDATE rag_vectors_chunks SET validity = ?, rowids = ? WHERE chunk_id = ?",
                       (bytes(validity), bytes(rowids), block))
