"""The vec0 table of unit vectors: made by sqlite-vec, written and read by plain SQL in the form that sqlite-vec gives it.

vec0 keeps its vectors in blobs of 32 rows with a bitmap of the rows in use, which any SQLite can read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import apsw

from rag_stdlib.errors import fail
from rag_stdlib.index import vecwrite
from rag_stdlib.index.sql import number
from rag_stdlib.index.sql import rows as sql_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix


def load_extension(connection: apsw.Connection) -> None:
    """Load sqlite-vec into a connection that is about to write vectors."""
    import sqlite_vec

    if connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'vec0'").fetchone():
        return
    try:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
    except (apsw.Error, AttributeError) as error:
        raise fail("sqlite_unfit", version=apsw.sqlite_lib_version(), detail=f"sqlite-vec does not load: {error}") from None


def exists(connection: apsw.Connection) -> bool:
    """Tell whether the index has a vector table."""
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'rag_vectors'").fetchone()
    return found is not None


def add(connection: apsw.Connection, seqs: Sequence[int], rows: Matrix) -> None:
    """Store the unit vectors (float32, one row a chunk) of new chunks."""
    vecwrite.append(connection, seqs, rows)


def remove(connection: apsw.Connection, seqs: Collection[int]) -> None:
    """Take the vectors of chunks out; chunks without one are passed over."""
    vecwrite.take_out(connection, seqs)


def count(connection: apsw.Connection) -> int:
    """Count the stored vectors."""
    if not exists(connection):
        return 0
    return number(connection, "SELECT count(*) FROM rag_vectors_rowids")


def blocks(connection: apsw.Connection, dim: int) -> Iterator[tuple[npt.NDArray[np.int64], Matrix]]:
    """Read all vectors a block at a time: seqs of shape (n,) and float32 rows of shape (n, dim), in storage order."""
    import numpy as np

    if not exists(connection):
        return
    for validity, rowids, blob in sql_rows(
        connection,
        "SELECT c.validity, c.rowids, v.vectors FROM rag_vectors_chunks c "
        "JOIN rag_vectors_vector_chunks00 v ON v.rowid = c.chunk_id ORDER BY c.chunk_id"
    ):
        used = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little").astype(bool)
        if (len(rowids), len(blob)) != (len(used) * 8, len(used) * dim * 4):
            raise apsw.CorruptError("a block of vectors does not have the size that its bitmap and dimension say")
        yield np.frombuffer(rowids, "<i8")[used], np.frombuffer(blob, "<f4").reshape(-1, dim)[used]


def load(connection: apsw.Connection, dim: int) -> tuple[npt.NDArray[np.int64], Matrix]:
    """Read all vectors at once; see `blocks`."""
    import numpy as np

    seqs, rows = [np.empty(0, np.int64)], [np.empty((0, dim), np.float32)]
    for some_seqs, some_rows in blocks(connection, dim):
        seqs.append(some_seqs)
        rows.append(some_rows)
    return np.concatenate(seqs), np.concatenate(rows)


def load_some(connection: apsw.Connection, seqs: Sequence[int], dim: int) -> dict[int, npt.NDArray[np.float32]]:
    """Read the vectors of the given chunks, each block once; chunks without one are absent from the result."""
    import numpy as np

    found: dict[int, npt.NDArray[np.float32]] = {}
    if not exists(connection):
        return found
    width = dim * 4
    places = sql_rows(connection, "SELECT chunk_id, rowid, chunk_offset FROM rag_vectors_rowids "
                                  "WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY chunk_id", (json.dumps(list(seqs)),))
    for block, members in itertools.groupby(places.fetchall(), key=lambda place: place[0]):
        stored = sql_rows(connection, "SELECT vectors FROM rag_vectors_vector_chunks00 WHERE rowid = ?", (block,)).fetchall()
        for _, seq, offset in members:
            vector = stored[0][0][offset * width:(offset + 1) * width] if stored else b""
            if len(vector) != width:
                raise apsw.CorruptError("a stored vector is cut short")
            found[seq] = np.frombuffer(vector, "<f4")
    return found
