"""A monitor reads every entry of a log: it finds two answers to one question, and a log that does not keep what it has shown.

It computes the tree from the entries themselves and keeps its right edge, so a scan costs as much as there are new entries, and the
root can only be the signed one if all that was read before still stands unchanged at its place.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw

from rag_stdlib.index.connect import Synchronous
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.database import BUSY_SECONDS, Database, Kind, only_row
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.frontier import Frontier
from rag_stdlib.proof.log.merkle import HASH_BYTES, leaf_hash, verify_consistency
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.sightings import read_sighting

if TYPE_CHECKING:
    from typing_extensions import Self

_AT_ONCE: Final = 1_024
_STATE: Final = Kind("monitor", 0x72616C6D, 1, (  # "ralm"
    "CREATE TABLE monitor_state(id INTEGER PRIMARY KEY CHECK (id = 0), origin TEXT NOT NULL, size INTEGER NOT NULL, edge BLOB NOT NULL, checkpoint BLOB)",
    "CREATE TABLE monitor_leaves(position INTEGER PRIMARY KEY, leaf BLOB NOT NULL)",
    """CREATE TABLE monitor_answers(issuer TEXT NOT NULL, state TEXT NOT NULL, query TEXT NOT NULL, answer TEXT NOT NULL, position INTEGER NOT NULL,
        PRIMARY KEY(issuer, state, query, answer)) WITHOUT ROWID""",
    "CREATE TABLE monitor_conflicts(first INTEGER NOT NULL, second INTEGER NOT NULL, PRIMARY KEY(first, second)) WITHOUT ROWID",
    "CREATE TABLE monitor_alarms(id INTEGER PRIMARY KEY, time INTEGER NOT NULL, code TEXT NOT NULL, words TEXT NOT NULL, checkpoint BLOB NOT NULL, UNIQUE(code, checkpoint))",
))


class Source(Protocol):
    """A log to be watched: a `Log` in its file, or a `PublishedLog`. Nothing that it gives is believed unverified."""

    def checkpoint(self) -> bytes:
        """Return the note of its present checkpoint."""

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        """Iterate over the entries from `start` on of the tree of `stop` entries."""

    def consistency_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Prove that one tree is the beginning of another."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two entries by which one issuer gave two answers to one question over one state of the index.

    Attributes:
        first: Position of the earlier entry.
        second: Position of the later one.
    """

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """That a log did not keep what it had shown.

    Attributes:
        code: ``rolled_back``, ``forked`` or ``entries_differ``.
        words: What was found.
        time: In seconds since 1970.
        checkpoint: The note that the log showed; evidence, with the last good one (`Monitor.checkpoint`).
    """

    code: str
    words: str
    time: int
    checkpoint: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """What a scan found.

    Attributes:
        size: Entries that are verified by now.
        new: How many of them are new.
        conflicts: That came with the new ones.
        unreadable: Positions of new entries that are none of a certificate.
        alarms: At most one; the new entries were not taken over then.
    """

    size: int
    new: int
    conflicts: tuple[Conflict, ...] = ()
    unreadable: tuple[int, ...] = ()
    alarms: tuple[Alarm, ...] = ()


class Monitor:
    """A monitor of one log, with its state in a file."""

    def __init__(self, path: str | os.PathLike[str], log: PinnedLog, *, synchronous: Synchronous = "full", busy_seconds: float = BUSY_SECONDS,
                 clock: Callable[[], float] = time.time) -> None:
        """Open the state that `create` made.

        Args:
            path: The file with the state.
            log: What is pinned of the log.
            synchronous: As for `Log`.
            busy_seconds: As for `Log`.
            clock: The time in seconds since 1970.

        Raises:
            LogError: ``missing``, ``file_unsafe``, ``file_foreign``, ``damaged``, ``file_io``; ``origin_mismatch`` where it watches another log.
        """
        self._log = log
        self._clock = clock
        self._database = Database(path, _STATE, synchronous=synchronous, busy_seconds=busy_seconds)
        try:
            with self._database.reading() as connection:
                if connection.execute("SELECT origin FROM monitor_state").fetchall() != [(log.origin,)]:
                    raise LogError("origin_mismatch", f"the monitor in {self._database.path!r} does not watch the log {log.origin}")
        except BaseException:
            self._database.close()
            raise

    @staticmethod
    def create(path: str | os.PathLike[str], origin: str) -> None:
        """Make the state of a monitor of this log, which has seen nothing yet.

        Raises:
            LogError: ``exists``, ``missing`` (the folder), ``disk_full``, ``readonly``, ``file_io``.
        """
        def fill(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO monitor_state VALUES (0, ?, 0, zeroblob(0), NULL)", (origin,))

        database = Database(path, _STATE)
        try:
            database.create(fill)
        finally:
            database.close()

    def scan(self, source: Source, *, whole: bool = False) -> Report:
        """Read what is new in the log; with `whole`, read also what was read before, and hold it against what it was then.

        Raises:
            ProofError: As `PinnedLog.open` for the checkpoint that the source shows; ``tile_malformed``.
            LogError: What the source raises; ``busy`` where another scan holds the state; ``disk_full``, ``readonly``, ``damaged``.
        """
        note = source.checkpoint()
        head = self._log.open(note).checkpoint
        try:
            with self._database.writing() as connection:
                edge = _edge(connection)
                if whole:
                    _reread(connection, source, min(edge.size, head.size), head.size)
                return self._advance(connection, source, edge, head, note)
        except _Caught as caught:
            alarm = Alarm(caught.code, caught.words, int(self._clock()), note)
        with self._database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO monitor_alarms(code, words, time, checkpoint) VALUES (?, ?, ?, ?)", (alarm.code, alarm.words, alarm.time, note))
            return Report(_edge(connection).size, 0, alarms=(alarm,))

    def _advance(self, connection: apsw.Connection, source: Source, edge: Frontier, head: Checkpoint, note: bytes) -> Report:
        """Take over the new entries, if with the old ones they make the signed tree."""
        start, root = edge.size, edge.root()
        if head.size < start:
            raise _Caught("rolled_back", f"the log shows {head.size} entries, and it showed {start} before")
        conflicts, unreadable = _read_new(connection, source, edge, head.size)
        if edge.root() != head.root:
            raise self._explained(connection, source, start, root, head)
        if head.size > start or not _checkpoint(connection):
            connection.execute("UPDATE monitor_state SET size = ?, edge = ?, checkpoint = ?", (edge.size, b"".join(edge.hashes), note))
        return Report(edge.size, edge.size - start, tuple(conflicts), tuple(unreadable))

    def _explained(self, connection: apsw.Connection, source: Source, size: int, root: bytes, head: Checkpoint) -> _Caught:
        """Find out whether the signed tree is another, or the entries that are served are not its."""
        try:
            path = source.consistency_path(size, head.size) if 0 < size < head.size else []
            verify_consistency(size, root, head.size, head.root, path)
        except ProofError as error:
            try:
                _reread(connection, source, size, head.size)
            except (_Caught, LogError) as found:
                return _Caught("forked", f"the log does not continue the tree of {size} entries: {found}")
            return _Caught("forked", f"the log does not continue the tree of {size} entries: {error.words}")
        except LogError as error:
            return _Caught("entries_differ", f"the entries that are served are not those of the signed tree, nor is it shown that it continues the last: {error.words}")
        return _Caught("entries_differ", f"the entries from {size} to {head.size} that are served are not those of the signed tree")

    def checkpoint(self) -> bytes | None:
        """Return the note of the last checkpoint whose entries were all read; None before the first scan."""
        with self._database.reading() as connection:
            return _checkpoint(connection)

    def conflicts(self) -> list[Conflict]:
        """Return all that were found so far."""
        with self._database.reading() as connection:
            rows: Any = connection.execute("SELECT first, second FROM monitor_conflicts ORDER BY second, first").fetchall()
        return [Conflict(*row) for row in rows]

    def alarms(self) -> list[Alarm]:
        """Return all that were given so far."""
        with self._database.reading() as connection:
            rows: Any = connection.execute("SELECT code, words, time, checkpoint FROM monitor_alarms ORDER BY id").fetchall()
        return [Alarm(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        """Return the monitor, which the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


class _Caught(Exception):  # noqa: N818 - it says what a log was caught at
    """What the log did; it undoes the scan."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


def _edge(connection: apsw.Connection) -> Frontier:
    size, edge = only_row(connection, "SELECT size, edge FROM monitor_state", int, bytes)
    try:
        return Frontier(size, [edge[at:at + HASH_BYTES] for at in range(0, len(edge), HASH_BYTES)])
    except ValueError as error:
        raise LogError("damaged", f"the state of the monitor: {error}") from None


def _checkpoint(connection: apsw.Connection) -> bytes | None:
    note, = only_row(connection, "SELECT coalesce(checkpoint, x'') FROM monitor_state", bytes)
    return note or None


def _read_new(connection: apsw.Connection, source: Source, edge: Frontier, size: int) -> tuple[list[Conflict], list[int]]:
    """Push the new entries, and note whose answers they are."""
    conflicts: list[Conflict] = []
    unreadable: list[int] = []
    for batch in _batches(source.entries(edge.size, size), size - edge.size):
        leaves = []
        for entry in batch:
            leaf, position = leaf_hash(entry), edge.size
            leaves.append((position, leaf))
            edge.push(leaf)
            if not _note_answer(connection, entry, position, conflicts):
                unreadable.append(position)
        connection.executemany("INSERT INTO monitor_leaves VALUES (?, ?)", leaves)
    if edge.size != size:
        raise _Caught("entries_differ", f"the log shows {size} entries, and {edge.size} are served")
    return conflicts, unreadable


def _note_answer(connection: apsw.Connection, entry: bytes, position: int, conflicts: list[Conflict]) -> bool:
    """Note an answer, and a conflict with the first one to the same question; False where the entry is none of a certificate."""
    seen = read_sighting(entry)
    if seen is None:
        return False
    key = (seen.issuer_key_id, seen.index_state, seen.query_key)
    rows: Any = connection.execute("SELECT answer, position FROM monitor_answers WHERE issuer = ? AND state = ? AND query = ? ORDER BY position", key).fetchall()
    if seen.answer_sha256 in {answer for answer, _ in rows}:
        return True
    connection.execute("INSERT INTO monitor_answers VALUES (?, ?, ?, ?, ?)", (*key, seen.answer_sha256, position))
    if rows:
        conflicts.append(Conflict(rows[0][1], position))
        connection.execute("INSERT INTO monitor_conflicts VALUES (?, ?)", (rows[0][1], position))
    return True


def _reread(connection: apsw.Connection, source: Source, size: int, shown: int) -> None:
    """Hold the first `size` entries as they were read before against what is served now, of `shown` entries."""
    position = 0
    for batch in _batches(source.entries(0, shown), size):
        rows: Any = connection.execute("SELECT leaf FROM monitor_leaves WHERE position >= ? AND position < ? ORDER BY position", (position, position + len(batch))).fetchall()
        if len(rows) != len(batch):
            raise LogError("damaged", "the state of the monitor lacks entries that it has read")
        for entry, (leaf,) in zip(batch, rows, strict=True):
            if leaf_hash(entry) != leaf:
                raise _Caught("entries_differ", f"entry {position} is another than it was")
            position += 1
    if position != size:
        raise _Caught("entries_differ", f"of {size} entries that were there, {position} are served")


def _batches(entries: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    bounded = itertools.islice(entries, most)
    while batch := list(itertools.islice(bounded, _AT_ONCE)):
        yield batch
