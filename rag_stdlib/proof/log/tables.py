"""The tables of a log's file, and reading them: entries, the hashes of all complete subtrees, and the last checkpoint.

Leaf hashes stand beside their entries, all others in `log_nodes`. A row that is written never changes but the one of `log_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw

from rag_stdlib.proof.log.database import Kind
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.frontier import Frontier
from rag_stdlib.proof.log.merkle import HASH_BYTES, leaf_hash

LOG: Final = Kind("log", 0x72616C67, 1, (  # "ralg"
    "CREATE TABLE log_state(id INTEGER PRIMARY KEY CHECK (id = 0), origin TEXT NOT NULL, checkpoint BLOB NOT NULL)",
    "CREATE TABLE log_cosigned(id INTEGER PRIMARY KEY CHECK (id = 0), size INTEGER NOT NULL, checkpoint BLOB NOT NULL)",
    "CREATE TABLE log_keys(position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, signs INTEGER NOT NULL)",
    "CREATE TABLE log_entries(position INTEGER PRIMARY KEY, leaf BLOB NOT NULL, entry BLOB NOT NULL)",
    "CREATE TABLE log_nodes(level INTEGER NOT NULL, position INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY(level, position)) WITHOUT ROWID",
))

_AT_ONCE: Final = 4_096  # entries of a batch whose rows are held in memory


class Stored:
    """The hashes of complete subtrees in a file, as a `HashSource`, in the transaction of a connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Read through `connection`."""
        self._connection = connection

    def hash_at(self, level: int, index: int) -> bytes:
        """Read one hash.

        Raises:
            LogError: ``damaged`` where it is missing.
        """
        return self.hashes(level, index, 1)[0]

    def hashes(self, level: int, start: int, count: int) -> list[bytes]:
        """Read neighbouring hashes of a level.

        Raises:
            LogError: ``damaged`` where one is missing.
        """
        rows: Any = self._connection.execute(
            "SELECT hash FROM log_nodes WHERE level = ? AND position >= ? AND position < ? ORDER BY position" if level
            else "SELECT leaf FROM log_entries WHERE position >= ?2 AND position < ?3 AND ?1 = 0 ORDER BY position",
            (level, start, start + count))
        found = [value for (value,) in rows]
        if len(found) != count or any(type(value) is not bytes or len(value) != HASH_BYTES for value in found):
            raise LogError("damaged", f"the log lacks hashes of its tree at level {level}, from {start} on")
        return found


def read_entries(connection: apsw.Connection, start: int, stop: int) -> list[bytes]:
    """Read entries.

    Raises:
        LogError: ``damaged`` where one is missing.
    """
    rows: Any = connection.execute("SELECT entry FROM log_entries WHERE position >= ? AND position < ? ORDER BY position", (start, stop))
    found = [value for (value,) in rows]
    if len(found) != stop - start or any(type(value) is not bytes for value in found):
        raise LogError("damaged", f"the log lacks entries between {start} and {stop}")
    return found


def write_entries(connection: apsw.Connection, edge: Frontier, entries: Iterable[bytes]) -> None:
    """Append entries to the tree whose right edge is `edge`, which grows with them."""
    for batch in _batches(entries):
        leaves, nodes = [], []
        for entry in batch:
            (_, position, leaf), *above = edge.push(leaf_hash(entry))
            leaves.append((position, leaf, entry))
            nodes += above
        connection.executemany("INSERT INTO log_entries VALUES (?, ?, ?)", leaves)
        connection.executemany("INSERT INTO log_nodes VALUES (?, ?, ?)", nodes)


def _batches(entries: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def problems(connection: apsw.Connection, size: int) -> Iterator[str]:
    """Compute the whole tree again from the entries, and name what is otherwise in the file; it takes as long as the log is large."""
    edge, stored, nodes = Frontier(), Stored(connection), 0
    for start in range(0, size, _AT_ONCE):
        stop = min(size, start + _AT_ONCE)
        try:
            entries, leaves = read_entries(connection, start, stop), stored.hashes(0, start, stop - start)
        except LogError as error:
            yield error.words
            return
        for entry, leaf in zip(entries, leaves, strict=True):
            (_, position, right), *above = edge.push(leaf_hash(entry))
            nodes += len(above)
            if leaf != right:
                yield f"the hash of entry {position} is not that of the entry"
            for level, place, value in above:
                found = connection.execute("SELECT hash FROM log_nodes WHERE level = ? AND position = ?", (level, place)).fetchall()
                if found != [(value,)]:
                    yield f"the hash at level {level}, position {place} is not that of its entries"
    counted: Any = connection.execute("SELECT (SELECT count(*) FROM log_entries), (SELECT count(*) FROM log_nodes)").fetchall()[0]
    if counted != (size, nodes):
        yield f"there are {counted[0]} entries and {counted[1]} hashes, and the checkpoint covers {size} and {nodes}"
