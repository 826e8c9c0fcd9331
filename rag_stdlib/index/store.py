"""Opening the one file: confined connections, pooled per process; SQLite's errors made ours.

A `Store` belongs to one root. `reading` gives a snapshot (a read transaction), `writing` one short ``BEGIN IMMEDIATE``.
Idle connections are kept per file identity and are never used across a fork.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import apsw

from rag_stdlib import audit
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import content, schema, state
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.index.forks import GATE, unforked
from rag_stdlib.index.journal import set_journal_mode
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.index.sqlerrors import BUSY_SECONDS, damage_blamed, translated
from rag_stdlib.index.vfs import confined_vfs
from rag_stdlib.root import SIDE_FILES, Place, Root

_MAX_IDLE: Final = 8
_LEAST_BYTES: Final = 512  # the smallest page
_WAL_LIMIT_BYTES: Final = 16 * 1024 * 1024

Synchronous: TypeAlias = Literal["normal", "full"]
_Key: TypeAlias = tuple[int | str, ...]


@dataclass(slots=True)
class _Handle:
    connection: apsw.Connection
    place: Place
    key: _Key
    described: tuple[tuple[int, int], dict[str, Any]] | None = None

    def describe(self) -> dict[str, Any]:
        """Describe the state of the snapshot, looked up anew after each change: of others (data_version) or ours (total_changes)."""
        stamp = (self.connection.pragma("data_version"), self.connection.total_changes())
        if self.described is None or self.described[0] != stamp:
            self.described = (stamp, content.describe(self.connection))
        return self.described[1]

    def close(self) -> None:
        with suppress(apsw.Error):
            self.connection.close(True)
        FOLDERS.release(self.place)


class Store:
    """The index files below one root. Safe to use from many threads; after a fork it starts anew."""

    def __init__(self, root: Root, *, synchronous: Synchronous = "normal", busy_seconds: float = BUSY_SECONDS) -> None:
        """Serve the files below `root`. `synchronous` is SQLite's; `busy_seconds` bounds the wait for a writer's lock."""
        self._root = root
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._idle: list[_Handle] = []
        self._write_locks: dict[_Key, threading.Lock] = {}
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
    def reading(self, path: str) -> Iterator[apsw.Connection]:
        """Give a connection inside a read transaction on an existing index.

        Raises:
            Failure: `index_missing` and every refusal of a path or file.
        """
        with self._connection(path) as handle:
            handle.connection.execute("BEGIN")
            _require_index(handle.connection, path)
            state.looked_at(handle.describe)()
            yield handle.connection

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
                raise _readonly(path)
            with self._write_turn(handle, path):
                if create:
                    self._prepare(handle, path)
                handle.connection.execute("BEGIN IMMEDIATE")
                if not create:
                    _require_index(handle.connection, path)
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
    def _connection(self, path: str, *, create: bool = False) -> Iterator[_Handle]:
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
    def _write_turn(self, handle: _Handle, path: str) -> Iterator[None]:
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

    def _checkout(self, path: str, *, create: bool) -> _Handle:
        place = self._open_place(path, create=create)
        try:
            found = place.check_regular(writing=True)
            if found is None and not create:
                raise fail("index_missing", path=path)
            refuse_alien_side_files(place)
            if found is not None and 0 < found.st_size < _LEAST_BYTES and place.stat("-journal") is None:
                raise fail("not_an_index", path=path, detail="it is too short for a SQLite file")  # SQLite would write over it
            idle = self._take_idle(_key(place, found)) if found is not None else None
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

    def _open(self, place: Place, path: str, *, create: bool) -> _Handle:
        with translated(path, self._busy_seconds), ExitStack() as undo:
            FOLDERS.adopt(place)
            undo.callback(FOLDERS.release, place)
            connection = _connect(place, path, create=create)
            undo.callback(connection.close, True)
            self._root.recheck(place)
            status = place.check_regular(writing=True)  # again, now that the file cannot be exchanged unnoticed
            if status is None or _has_moved(connection):
                raise fail("index_io", path=path, detail="the file was exchanged while it was opened; try again")
            connection.set_busy_timeout(self._busy_ms)
            if _needs_immutable(connection, place, path, create=create):
                connection.close()
                connection = _connect_immutable(place)
                undo.callback(connection.close, True)
            _configure(connection, self._synchronous)
            undo.pop_all()
        return _Handle(connection, place, _key(place, status))

    def _prepare(self, handle: _Handle, path: str) -> None:
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

    def _checkin(self, handle: _Handle) -> None:
        connection = handle.connection
        reusable = False
        try:
            _end_transaction(connection)
            # An unfinished statement would hold its old snapshot open; a read-only connection must not outlive its reason.
            reusable = connection.txn_state() == apsw.SQLITE_TXN_NONE and not connection.readonly("main")
        finally:
            spare = self._put_idle(handle) if reusable else handle
            if spare is not None:
                spare.close()

    def _take_idle(self, key: _Key) -> _Handle | None:
        with self._lock:
            for position, handle in enumerate(self._idle):
                if handle.key == key:
                    return self._idle.pop(position)
        return None

    def _put_idle(self, handle: _Handle) -> _Handle | None:
        """Keep a handle unless the store is closed; return the one that has to go."""
        with self._lock:
            if self._closed:
                return handle
            self._idle.append(handle)
            return self._idle.pop(0) if len(self._idle) > _MAX_IDLE else None

    def _shorten_log(self, handle: _Handle) -> None:
        """Move a long log into the file and empty it, unless somebody is in the way; the commit stands in any case."""
        with suppress(apsw.Error, Failure):
            log = handle.place.stat("-wal")
            if log is None or log.st_size <= _WAL_LIMIT_BYTES:
                return
            handle.connection.set_busy_timeout(0)
            try:
                handle.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                handle.connection.set_busy_timeout(self._busy_ms)


def _close_all(handles: list[_Handle]) -> None:
    while handles:
        handles.pop().close()


def _key(place: Place, status: os.stat_result) -> _Key:
    folder = os.fstat(place.folder) if place.folder >= 0 else os.stat(os.path.dirname(place.path))
    return (folder.st_dev, folder.st_ino, place.name, status.st_dev, status.st_ino)


def _end_transaction(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # what cannot be rolled back shows in the connection's state
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _require_index(connection: apsw.Connection, path: str) -> None:
    if schema.read_version(connection, path) == 0:
        raise fail("index_missing", path=path)


def _readonly(path: str) -> Failure:
    return fail("index_readonly", path=path, detail="the file or its folder is read-only")


def _connect(place: Place, path: str, *, create: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | (apsw.SQLITE_OPEN_CREATE if create else 0)
    try:
        return apsw.Connection(place.path, flags=flags, vfs=confined_vfs())
    except apsw.CantOpenError:
        if create and place.stat() is None and not _folder_writable(place):
            raise _readonly(path) from None
        if not os.access(place.path, os.R_OK):
            raise fail("path_permission", path=path, detail="it may not be read") from None
        raise


def _has_moved(connection: apsw.Connection) -> bool:
    """Tell whether the open file no longer is the one that its name names."""
    moved = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return bool(moved.value)


def _folder_writable(place: Place) -> bool:
    return os.access(os.path.dirname(place.path), os.W_OK)


def _needs_immutable(connection: apsw.Connection, place: Place, path: str, *, create: bool) -> bool:
    """Touch the file: a log-mode file in a folder that may not be written is readable as it stands if nobody has a log open."""
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if _folder_writable(place) or place.stat("-wal") is not None:
            raise
        if create:
            raise _readonly(path) from None
        return True
    return False


def _connect_immutable(place: Place) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(place.path)}?immutable=1", flags=flags, vfs=confined_vfs())


def _configure(connection: apsw.Connection, synchronous: Synchronous) -> None:
    for pragma in ("temp_store = MEMORY", "foreign_keys = ON", "cache_size = -16384", "trusted_schema = OFF",
                   f"synchronous = {synchronous}"):
        list(connection.execute(f"PRAGMA {pragma}"))
