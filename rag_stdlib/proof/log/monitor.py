"""A monitor reads every entry of a log: it finds two answers to one question, and a log that does not keep what it has shown.

It computes the tree from the entries themselves and keeps its right edge, so a scan costs as much as there are new entries, and the
root can only be the signed one if all that was read before still stands unchanged at its place. Where it is another, the log has forked
only if what is served leads to the root that it signed: whoever serves something else accuses nobody but himself.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw

from rag_stdlib.index.connect import Synchronous
from rag_stdlib.proof.log.answers import ANSWERS, Conflict, Issuers, note_answer
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.database import BUSY_SECONDS, Database, Kind, only_row
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.frontier import Frontier
from rag_stdlib.proof.log.merkle import EMPTY_ROOT, HASH_BYTES, Compared, compare, leaf_hash
from rag_stdlib.proof.log.notes import Note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.sightings import Sighting, read_sighting

if TYPE_CHECKING:
    from typing_extensions import Self

_AT_ONCE: Final = 1_024
_STATE: Final = Kind("monitor", 0x72616C6D, 2, (  # "ralm"
    "CREATE TABLE monitor_state(id INTEGER PRIMARY KEY CHECK (id = 0), origin TEXT NOT NULL, size INTEGER NOT NULL, edge BLOB NOT NULL, checkpoint BLOB)",
    "CREATE TABLE monitor_leaves(position INTEGER PRIMARY KEY, leaf BLOB NOT NULL)",
    *ANSWERS,
    "CREATE TABLE monitor_alarms(id INTEGER PRIMARY KEY, time INTEGER NOT NULL, code TEXT NOT NULL, words TEXT NOT NULL, checkpoint BLOB NOT NULL, UNIQUE(code, checkpoint))",
))


class Source(Protocol):
    """A log to be watched: a `Log` in its file, or a `PublishedLog`. Nothing that it gives is believed unverified."""

    def checkpoint(self) -> bytes:
        """Return the note of its present checkpoint."""

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        """Iterate over the entries from `start` on of the tree of `stop` entries."""

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Return what leads to the roots of both trees (`merkle.comparison_path`)."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """That what is served does not fit what was shown before.

    Attributes:
        code: ``forked`` where the log has signed two trees that cannot be one log, whoever serves them; ``rolled_back`` where an older state of it is shown;
            ``entries_differ`` where the entries that are served are not those of the signed tree. For the last two whoever serves it may be at fault.
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
        conflicts: That came with the new ones, and among the old ones those that were not known, where these were read again.
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

    def __init__(self, path: str | os.PathLike[str], log: PinnedLog, *, issuers: Mapping[str, str] | None = None, synchronous: Synchronous = "full",
                 busy_seconds: float = BUSY_SECONDS, clock: Callable[[], float] = time.time) -> None:
        """Open the state that `create` made.

        Args:
            path: The file with the state.
            log: What is pinned of the log; its witnesses are not asked for, as the log is held to all that it signed.
            issuers: Names by key id: the keys of one name are one issuer's, and what he says by one of them is held against what he says by another. A key that is
                learnt later counts for what was read before once that is read again (`scan` with `whole`).
            synchronous: As for `Log`.
            busy_seconds: As for `Log`.
            clock: The time in seconds since 1970.

        Raises:
            LogError: ``missing``, ``file_unsafe``, ``file_foreign``, ``damaged``, ``file_io``; ``origin_mismatch`` where it watches another log.
        """
        self._log = log.by_itself()
        self._issuers = Issuers(issuers or {})
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
        """Read what is new in the log; with `whole`, read also what was read before, and hold it against what it was then, and against what is known of issuers now.

        Raises:
            ProofError: As `PinnedLog.open`, except for witnesses, for the checkpoint that the source shows; ``tile_malformed``.
            LogError: What the source raises; ``busy`` where another scan holds the state; ``disk_full``, ``readonly``, ``damaged``.
        """
        try:
            with self._database.writing() as connection:
                edge = _edge(connection)
                note, start = source.checkpoint(), edge.size  # asked for with the state held, so that no other scan has read more of the log than it shows
                head = self._log.open(note).checkpoint
                report = self._advance(connection, source, edge, head, note)
                if whole:
                    again = _reread(connection, source, start, head.size, self._issuers)
                    report = replace(report, conflicts=(*again, *report.conflicts))
                return report
        except _Caught as caught:
            alarm = Alarm(caught.code, caught.words, int(self._clock()), note)
        with self._database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO monitor_alarms(code, words, time, checkpoint) VALUES (?, ?, ?, ?)", (alarm.code, alarm.words, alarm.time, note))
            return Report(_edge(connection).size, 0, alarms=(alarm,))

    def _advance(self, connection: apsw.Connection, source: Source, edge: Frontier, head: Checkpoint, note: bytes) -> Report:
        """Take over the new entries, if with the old ones they make the signed tree."""
        start, root = edge.size, edge.root()
        if head.size < start:
            raise _gone_back(connection, start, root, head)
        try:
            conflicts, unreadable = _read_new(connection, source, edge, head.size, self._issuers)
        except LogError:
            if _compared(source, start, root, head) == "another":  # a log that forked cannot hide it by serving no entries
                raise _forked(start) from None
            raise
        if (edge.size, edge.root()) != (head.size, head.root):
            raise _explained(connection, source, start, root, head)
        if head.size > start or not _checkpoint(connection):
            connection.execute("UPDATE monitor_state SET size = ?, edge = ?, checkpoint = ?", (edge.size, b"".join(edge.hashes), note))
        return Report(edge.size, edge.size - start, tuple(conflicts), tuple(unreadable))

    def checkpoint(self) -> bytes | None:
        """Return the note of the last checkpoint whose entries were all read; None before the first scan."""
        with self._database.reading() as connection:
            return _checkpoint(connection)

    def conflicts(self) -> list[Conflict]:
        """Return all that were found so far."""
        with self._database.reading() as connection:
            rows: Any = connection.execute("SELECT first, second, same_setup FROM monitor_conflicts ORDER BY second, first").fetchall()
        return [Conflict(first, second, bool(same)) for first, second, same in rows]

    def sightings(self, conflict: Conflict, source: Source) -> tuple[Sighting | None, Sighting | None]:
        """Return what the two entries of a conflict say; None for one that the source does not give as it was read."""
        with self._database.reading() as connection:
            size = _edge(connection).size
            leaves = [*_known(connection, conflict.first, conflict.first + 1), *_known(connection, conflict.second, conflict.second + 1)]
        first, second = (_sighting(source, *each, size) for each in zip((conflict.first, conflict.second), leaves, strict=True))
        return first, second

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
    """Read the edge of the tree, which is the one that was signed: no log is accused by a file that is damaged."""
    size, data = only_row(connection, "SELECT size, edge FROM monitor_state", int, bytes)
    note = _checkpoint(connection)
    try:
        edge = Frontier(size, [data[at:at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)])
        signed = Checkpoint.parse(Note.parse(note).text) if note is not None else None
    except ValueError as error:
        raise LogError("damaged", f"the state of the monitor: {error}") from None
    if (size, edge.root()) != ((signed.size, signed.root) if signed is not None else (0, EMPTY_ROOT)):
        raise LogError("damaged", "the state of the monitor holds another tree than its checkpoint signs")
    return edge


def _checkpoint(connection: apsw.Connection) -> bytes | None:
    note, = only_row(connection, "SELECT coalesce(checkpoint, x'') FROM monitor_state", bytes)
    return note or None


def _read_new(connection: apsw.Connection, source: Source, edge: Frontier, size: int, issuers: Issuers) -> tuple[list[Conflict], list[int]]:
    """Push the new entries, and note of whose answers they tell."""
    conflicts: list[Conflict] = []
    unreadable: list[int] = []
    for batch in _batches(source.entries(edge.size, size), size - edge.size):
        leaves = []
        for entry in batch:
            leaf, position = leaf_hash(entry), edge.size
            leaves.append((position, leaf))
            edge.push(leaf)
            seen = read_sighting(entry)
            if seen is None:
                unreadable.append(position)
            elif (found := note_answer(connection, seen, position, issuers)) is not None:
                conflicts.append(found)
        connection.executemany("INSERT INTO monitor_leaves VALUES (?, ?)", leaves)
    return conflicts, unreadable


def _sighting(source: Source, position: int, leaf: bytes, size: int) -> Sighting | None:
    """Read an entry once more; None where the source gives none, or another."""
    with suppress(LogError):
        entry = next(source.entries(position, size), None)
        if entry is not None and leaf_hash(entry) == leaf:
            return read_sighting(entry)
    return None


def _explained(connection: apsw.Connection, source: Source, size: int, root: bytes, head: Checkpoint) -> _Caught:
    """Find out whether a signed tree is proven not to continue that of the first `size` entries, or what is served is not of it."""
    if not size:
        return _Caught("entries_differ", f"the entries that are served are not those of the signed tree of size {head.size}; whoever serves them may be at fault")
    found, served = _compared(source, size, root, head), _Served(connection, size)
    is_whole = False  # all that is served is the signed tree
    if found != "continued":
        roots = _roots(served.leaves(source, head.size), size, head.size)
        is_whole = roots.get(head.size) == head.root
        if is_whole:
            found = "continued" if roots[size] == root else "another"
    if found == "continued":
        return _Caught("entries_differ", f"the log goes on from its tree of size {size}, but the entries from there to {head.size} that are served are not its; "
                       "whoever serves them may be at fault")
    if found == "not_shown":
        return _Caught("entries_differ", f"what is served of the tree of size {head.size} does not lead to its signed root, so whether it continues that of size {size} is not shown; "
                       "whoever serves it may be at fault")
    return _forked(size, served.other if is_whole else None)


def _forked(size: int, other: int | None = None) -> _Caught:
    where = "" if other is None else f": entry {other} is another than it was"
    return _Caught("forked", f"the log does not continue its tree of size {size}{where}")


def _compared(source: Source, size: int, root: bytes, head: Checkpoint) -> Compared:
    try:
        path = source.comparison_path(size, head.size) if size < head.size else []
    except LogError:
        return "not_shown"
    return compare(size, root, head.size, head.root, path)


def _gone_back(connection: apsw.Connection, size: int, root: bytes, head: Checkpoint) -> _Caught:
    """Say of a signed tree that is smaller than that of the first `size` entries whether it was ever the beginning of it."""
    leaves: Any = connection.execute("SELECT leaf FROM monitor_leaves WHERE position < ? ORDER BY position", (size,))
    roots = _roots((leaf for (leaf,) in leaves), head.size, size)
    if roots.get(size) != root:
        raise LogError("damaged", "the state of the monitor lacks entries that it has read")
    if roots[head.size] != head.root:
        return _Caught("forked", f"the log shows a tree of size {head.size} that is not the beginning of its tree of size {size}")
    return _Caught("rolled_back", f"the log shows a tree of size {head.size}, and it showed one of size {size} before: it went back, or whoever serves it is behind")


def _roots(leaves: Iterable[bytes], *sizes: int) -> dict[int, bytes]:
    """Compute the roots of the trees of so many leaves, as far as there are as many."""
    edge, found = Frontier(), {0: EMPTY_ROOT}
    for leaf in leaves:
        edge.push(leaf)
        if edge.size in sizes:
            found[edge.size] = edge.root()
    return found


class _Served:
    """Reads all entries again, as far as the source gives them, and holds those that were read before against what they were."""

    def __init__(self, connection: apsw.Connection, size: int) -> None:
        self._connection, self._size = connection, size
        self.other: int | None = None  # the first one that is another

    def leaves(self, source: Source, shown: int) -> Iterator[bytes]:
        """Give the leaf hashes of the entries as they are served, of `shown` that there should be."""
        position = 0
        for batch in _batches(_as_far_as(source.entries(0, shown)), shown):
            known = _known(self._connection, position, min(position + len(batch), self._size))
            for place, entry in enumerate(batch):
                leaf = leaf_hash(entry)
                if self.other is None and place < len(known) and known[place] != leaf:
                    self.other = position + place
                yield leaf
            position += len(batch)


def _as_far_as(entries: Iterator[bytes]) -> Iterator[bytes]:
    """Give entries until the source fails."""
    with suppress(LogError):
        yield from entries


def _known(connection: apsw.Connection, start: int, stop: int) -> list[bytes]:
    """Return the leaf hashes of entries as they were read before."""
    rows: Any = connection.execute("SELECT leaf FROM monitor_leaves WHERE position >= ? AND position < ? ORDER BY position", (start, stop)).fetchall()
    if len(rows) != max(0, stop - start):
        raise LogError("damaged", "the state of the monitor lacks entries that it has read")
    return [leaf for (leaf,) in rows]


def _reread(connection: apsw.Connection, source: Source, size: int, shown: int, issuers: Issuers) -> list[Conflict]:
    """Hold the first `size` entries as they were read before, which the signed tree of `shown` entries continues, against what is served of them now."""
    position, conflicts = 0, list[Conflict]()
    for batch in _batches(source.entries(0, shown), size):
        for entry, leaf in zip(batch, _known(connection, position, position + len(batch)), strict=True):
            if leaf_hash(entry) != leaf:
                raise _Caught("entries_differ", f"entry {position} is served as another than it is in the signed tree, which has it as it was; whoever serves it may be at fault")
            seen = read_sighting(entry)
            if seen is not None and (found := note_answer(connection, seen, position, issuers)) is not None:
                conflicts.append(found)
            position += 1
    if position != size:
        raise _Caught("entries_differ", f"the entries of the signed tree from {position} on are not served; whoever serves them may be at fault")
    return conflicts


def _batches(entries: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    bounded = itertools.islice(entries, most)
    while batch := list(itertools.islice(bounded, _AT_ONCE)):
        yield batch
