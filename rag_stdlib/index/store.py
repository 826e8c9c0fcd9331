"""Opening the one file: confined connections, pooled per process; SQLite's errors made ours.

A `Store` belongs to one root. `reading` gives a snapshot (a read transaction), `writing` one short ``BEGIN IMMEDIATE``.
Idle connections are kept per file identity and are never used across a fork.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import apsw

from rag_stdlib import audit
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import content, schema, state
from rag_stdlib.index.connect import (
    WRITING_KIB,
    Synchronous,
    configure,
    connect,
    connect_immutable,
    has_moved,
    needs_immutable,
    readonly,
)
from rag_stdlib.index.facts import Facts
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.index.forks import GATE, unforked
from rag_stdlib.index.journal import set_journal_mode
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.index.snapshot import Key, Snapshot, require_index
from rag_stdlib.index.sqlerrors import BUSY_SECONDS, damage_blamed, translated
from rag_stdlib.root import SIDE_FILES, Place, Root

_MAX_IDLE: Final = 8
_LEAST_BYTES: Final = 512  # the smallest page
_WAL_LIMIT_BYTES: Final = 16 * 1024 * 1024
_WAL_WAIT_MS: Final = 300
_MAX_SEEN: Final = 64  # paths


class Store:
    """The index files below one root. Safe to use from many threads; after a fork it starts anew."""

    def __init__(self, root: Root, *, synchronous: Synchronous = "normal", busy_seconds: float = BUSY_SECONDS) -> None:
        """Serve the files below `root`. `synchronous` is SQLite's; `busy_seconds` bounds the wait for a writer's lock."""
        self._root = root
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._idle: list[Snapshot] = []
        self._write_locks: dict[Key, threading.Lock] = {}
        self._seen: dict[str, Facts] = {}
        self._log_waited: dict[Key, int] = {}  # the size of a log when readers were last waited for
        self._closed = False
        GATE.watch(self)
        weakref.finalize(self, _close_all, self._idle)  # forgotten, or still open at the end of the program

    def close(self) -> None:
        """Close the connections, those in use as soon as they are free; the last one to go removes SQLite's side files."""
        with self._lock:
            self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        _close_all(idle)

    @contextmanager
    def snapshot(self, path: str) -> Iterator[Snapshot]:
        """Give a snapshot of an existing index: a connection inside a read transaction.

        Raises:
            Failure: `index_missing` and every refusal of a path or file.
        """
        with self._connection(path) as handle:
            handle.begin(path)
            state.looked_at(handle.describe)()
            yield handle

    def seen(self, path: str) -> Facts | None:
        """Say what `see` was told last: good for what is looked at again in the snapshot that answers."""
        return self._seen.get(path)

    def see(self, path: str, facts: Facts) -> None:
        """Remember what a search has seen of an index."""
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        self._seen[path] = facts

    @contextmanager
    def reading(self, path: str) -> Iterator[apsw.Connection]:
        """Give the connection of what `snapshot` gives."""
        with self.snapshot(path) as found:
            yield found.connection

    @contextmanager
    def reading_if_any(self, path: str) -> Iterator[apsw.Connection | None]:
        """Give what `reading` gives, or None where there is no index yet but one could be made.

        Raises:
            Failure: every refusal of a path or file that `writing` with `create` would make too.
        """
        with ExitStack() as block:
            connection: apsw.Connection | None = None
            try:
                connection = block.enter_context(self.reading(path))
            except Failure as failure:
                if failure.error.code != "index_missing":
                    raise
                with self._root.place(path) as place:  # refused where the folder is missing
                    refuse_alien_side_files(place)
            yield connection

    @contextmanager
    def writing(self, path: str, *, create: bool = False) -> Iterator[apsw.Connection]:
        """Give a connection inside ``BEGIN IMMEDIATE``, committed at the end of the block and rolled back by any error.

        With `create`, a missing file and its tables are made.
        """
        with self._connection(path, create=create) as handle:
            if handle.connection.readonly("main"):
                raise readonly(path)
            with self._write_turn(handle, path):
                handle.connection.pragma("cache_size", -WRITING_KIB)
                if create:
                    self._prepare(handle, path)
                handle.connection.execute("BEGIN IMMEDIATE")
                if not create:
                    require_index(handle.connection, path)
                elif schema.read_version(handle.connection, path) == 0:
                    schema.create(handle.connection)
                yield handle.connection
                seen = state.looked_at(lambda: content.describe(handle.connection))
                handle.connection.execute("COMMIT")
                seen()
                self._shorten_log(handle)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[apsw.Connection]:
        """Give a connection outside any transaction, for VACUUM; at the end the log is moved into the file and emptied.

        Raises:
            Failure: `busy` where a reader held on to the log too long, and what `reading` raises.
        """
        with self.reading(path):  # refuses what is no index
            pass
        with self._connection(path) as handle, self._write_turn(handle, path):
            yield handle.connection
            handle.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def sizes(self, path: str) -> tuple[int, int]:
        """Return the bytes of the file and of its write-ahead log."""
        with self._root.place(path) as place:
            found, log = place.stat(), place.stat("-wal")
            return (found.st_size if found else 0), (log.st_size if log else 0)

    @contextmanager
    def _connection(self, path: str, *, create: bool = False) -> Iterator[Snapshot]:
        """Lend a connection; whatever the block leaves open ends with it."""
        sys.audit(audit.INDEX, path)
        with unforked(path):
            handle = self._checkout(path, create=create)
            try:
                with translated(path, self._busy_seconds), damage_blamed(handle.connection, path):
                    yield handle
            finally:
                self._checkin(handle)

    @contextmanager
    def _write_turn(self, handle: Snapshot, path: str) -> Iterator[None]:
        """Let the threads of this process write in turn: waiting for a lock is far quicker than SQLite's asking again."""
        with self._lock:
            turn = self._write_locks.setdefault(handle.key, threading.Lock())
        if not turn.acquire(timeout=self._busy_seconds):
            raise fail("busy", path=path, seconds=self._busy_seconds)
        try:
            yield
        finally:
            _end_transaction(handle.connection)
            turn.release()

    def _checkout(self, path: str, *, create: bool) -> Snapshot:
        place = self._open_place(path, create=create)
        try:
            found = place.check_regular(writing=True, suffixes=())
            if found is None and not create:
                raise fail("index_missing", path=path)
            idle = self._take_idle(_key(place, found)) if found is not None else None
            if idle is None or not idle.in_log:  # a log that is open needs no look: SQLite holds the files beside the index
                try:
                    _check_beside(place, path)
                except BaseException:
                    self._give_back(idle)
                    raise
            if idle is not None:
                place.close()
                return idle
            return self._open(place, path, create=create)
        except BaseException:
            place.close()
            raise

    def _open_place(self, path: str, *, create: bool) -> Place:
        if path.endswith(SIDE_FILES):
            raise fail("path_form", path=path, form="a name that SQLite keeps for its side files")
        try:
            return self._root.open_place(path)
        except Failure as failure:
            if failure.error.code == "path_folder_missing" and not create:
                raise fail("index_missing", path=path) from None
            raise

    def _open(self, place: Place, path: str, *, create: bool) -> Snapshot:
        with translated(path, self._busy_seconds), ExitStack() as undo:
            FOLDERS.adopt(place)
            undo.callback(FOLDERS.release, place)
            connection = connect(place, path, create=create)
            undo.callback(connection.close, True)
            self._root.recheck(place)
            status = place.check_regular(writing=True)  # again, now that the file cannot be exchanged unnoticed
            if status is None or has_moved(connection):
                raise fail("index_io", path=path, detail="the file was exchanged while it was opened; try again")
            connection.set_busy_timeout(self._busy_ms)
            if needs_immutable(connection, place, path, create=create):
                connection.close()
                connection = connect_immutable(place)
                undo.callback(connection.close, True)
            configure(connection, self._synchronous)
            undo.pop_all()
        return Snapshot(connection, place, _key(place, status))

    def _prepare(self, handle: Snapshot, path: str) -> None:
        """Set what only a file without tables can be given; it may have been opened first by a reader, in vain."""
        handle.connection.execute("BEGIN")  # else the version and the tables could be of different moments
        version = schema.read_version(handle.connection, path)
        handle.connection.execute("ROLLBACK")
        if version == 0:
            handle.connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
            set_journal_mode(handle.connection, handle.place, time.monotonic() + self._busy_seconds)

    @property
    def _busy_ms(self) -> int:
        return int(self._busy_seconds * 1000)

    def _give_back(self, idle: Snapshot | None) -> None:
        spare = self._put_idle(idle) if idle is not None else None
        if spare is not None:
            spare.close()

    def _checkin(self, handle: Snapshot) -> None:
        connection = handle.connection
        reusable = False
        try:
            _end_transaction(connection)
            # An unfinished statement would hold its old snapshot open; a read-only connection must not outlive its reason.
            reusable = connection.txn_state() == apsw.SQLITE_TXN_NONE and not connection.readonly("main")
        finally:
            if reusable:
                self._give_back(handle)
            else:
                handle.close()

    def _take_idle(self, key: Key) -> Snapshot | None:
        with self._lock:
            for position, handle in enumerate(self._idle):
                if handle.key == key:
                    return self._idle.pop(position)
        return None

    def _put_idle(self, handle: Snapshot) -> Snapshot | None:
        """Keep a handle unless the store is closed; return the one that has to go."""
        with self._lock:
            if self._closed:
                return handle
            self._idle.append(handle)
            return self._idle.pop(0) if len(self._idle) > _MAX_IDLE else None

    def _shorten_log(self, handle: Snapshot) -> None:
        """Move a long log into the file and empty it; the commit stands in any case.

        Readers of earlier snapshots are waited for, a little and again only when the log has grown by as much: those that
        begin meanwhile read the file alone and wait for nothing. With a reader that stays, the log goes on growing.
        """
        with suppress(apsw.Error, Failure):
            log = handle.place.stat("-wal")
            if log is None or log.st_size <= _WAL_LIMIT_BYTES:
                return
            patient = log.st_size >= self._log_waited.get(handle.key, 0) + _WAL_LIMIT_BYTES
            self._log_waited[handle.key] = log.st_size if patient else self._log_waited[handle.key]
            handle.connection.set_busy_timeout(_WAL_WAIT_MS if patient else 0)
            try:
                handle.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                del self._log_waited[handle.key]
            finally:
                handle.connection.set_busy_timeout(self._busy_ms)


def _check_beside(place: Place, path: str) -> None:
    """Refuse an index beside which lies what SQLite must not take for its own, and what is too short for a SQLite file."""
    found = place.check_regular(writing=True)
    refuse_alien_side_files(place)
    if found is not None and 0 < found.st_size < _LEAST_BYTES and place.stat("-journal") is None:
        raise fail("not_an_index", path=path, detail="it is too short for a SQLite file")  # SQLite would write over it


def _close_all(handles: list[Snapshot]) -> None:
    while handles:
        handles.pop().close()


def _key(place: Place, status: os.stat_result) -> Key:
    folder = os.fstat(place.folder) if place.folder >= 0 else os.stat(os.path.dirname(place.path))
    return (folder.st_dev, folder.st_ino, place.name, status.st_dev, status.st_ino)


def _end_transaction(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # what cannot be rolled back shows in the connection's state
        if connection.in_transaction:
            connection.execute("ROLLBACK")
