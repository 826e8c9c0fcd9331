"""Opening the one file: confined connections, pooled per process; SQLite's errors made ours.

A `Store` belongs to one root. `reading` gives a snapshot (a read transaction), `writing` one short ``BEGIN IMMEDIATE``.
Idle connections are kept per file identity and are never used across a fork.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import apsw

from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import schema
from rag_stdlib.index.journal import set_journal_mode
from rag_stdlib.index.vfs import confined_vfs
from rag_stdlib.root import SIDE_FILES, Place, Root

BUSY_SECONDS: Final = 10.0
_MAX_IDLE: Final = 8
_WAL_LIMIT_BYTES: Final = 4 * 1024 * 1024

Synchronous: TypeAlias = Literal["normal", "full"]
_Key: TypeAlias = tuple[int, ...]

_forked: list[_Handle] = []  # a parent's connections in a child process: kept, since closing them would end its locks


@dataclass(slots=True)
class _Handle:
    connection: apsw.Connection
    place: Place
    key: _Key

    def close(self) -> None:
        with suppress(apsw.Error):
            self.connection.close()
        self.place.close()


class Store:
    """The index files below one root. Safe to use from many threads; after a fork it starts anew."""

    def __init__(self, root: Root, *, synchronous: Synchronous = "normal", busy_seconds: float = BUSY_SECONDS) -> None:
        """Serve the files below `root`. `synchronous` is SQLite's; `busy_seconds` bounds the wait for a writer's lock."""
        self._root = root
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._idle: list[_Handle] = []
        self._pid = os.getpid()

    def close(self) -> None:
        """Close the idle connections; the last one to go removes SQLite's side files."""
        with self._lock:
            idle, self._idle = self._idle, []
        for handle in idle:
            handle.close()

    @contextmanager
    def reading(self, path: str) -> Iterator[apsw.Connection]:
        """Give a connection inside a read transaction on an existing index.

        Raises:
            Failure: `index_missing` and every refusal of a path or file.
        """
        handle = self._checkout(path, create=False)
        try:
            with translated(path, self._busy_seconds):
                handle.connection.execute("BEGIN")
                if schema.read_version(handle.connection, path) == 0:
                    raise fail("index_missing", path=path)
                yield handle.connection
        finally:
            self._checkin(handle)

    @contextmanager
    def reading_if_any(self, path: str) -> Iterator[apsw.Connection | None]:
        """Give what `reading` gives, or None where there is no index yet but one could be made.

        Raises:
            Failure: every refusal of a path or file that `writing` with `create` would make too.
        """
        with self._root.place(path) as place:
            found = place.check_regular(writing=True)
        if found is None or found.st_size == 0:
            yield None
            return
        with self.reading(path) as connection:
            yield connection

    @contextmanager
    def writing(self, path: str, *, create: bool = False) -> Iterator[apsw.Connection]:
        """Give a connection inside ``BEGIN IMMEDIATE``, committed at the end of the block and rolled back by any error.

        With `create`, a missing file and its tables are made.
        """
        handle = self._checkout(path, create=create)
        try:
            with translated(path, self._busy_seconds):
                if self._is_readonly(handle.connection):
                    raise fail("index_readonly", path=path, detail="the file or its folder is read-only")
                with suppress(apsw.Error):
                    handle.connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                handle.connection.execute("BEGIN IMMEDIATE")
                if schema.read_version(handle.connection, path) == 0:
                    if not create:
                        raise fail("index_missing", path=path)
                    schema.create(handle.connection)
                yield handle.connection
                handle.connection.execute("COMMIT")
                self._truncate_log(handle, _WAL_LIMIT_BYTES)
        finally:
            self._checkin(handle)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[apsw.Connection]:
        """Give a connection outside any transaction, for VACUUM and checkpoints on an existing index."""
        handle = self._checkout(path, create=False)
        try:
            with translated(path, self._busy_seconds):
                if schema.read_version(handle.connection, path) == 0:
                    raise fail("index_missing", path=path)
                yield handle.connection
                self._truncate_log(handle, 0)
        finally:
            self._checkin(handle)

    def sizes(self, path: str) -> tuple[int, int]:
        """Return the bytes of the file and of its write-ahead log."""
        with self._root.place(path) as place:
            found, log = place.stat(), place.stat("-wal")
            return (found.st_size if found else 0), (log.st_size if log else 0)

    def _checkout(self, path: str, *, create: bool) -> _Handle:
        place = self._open_place(path, create=create)
        try:
            found = place.check_regular(writing=True)
            if found is None and not create:
                raise fail("index_missing", path=path)
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
        with translated(path, self._busy_seconds):
            connection = _connect(place, create=create)
            try:
                self._root.recheck(place)
                connection.set_busy_timeout(int(self._busy_seconds * 1000))
                _configure(connection)
                if create and schema.read_version(connection, path) == 0:
                    connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
                    set_journal_mode(connection, place, time.monotonic() + self._busy_seconds)
                opened = place.check_regular(writing=True)
                if opened is None:
                    raise fail("index_missing", path=path)
            except BaseException:
                connection.close()
                raise
        return _Handle(connection, place, _key(place, opened))

    def _take_idle(self, key: _Key) -> _Handle | None:
        with self._lock:
            if self._pid != os.getpid():
                _forked.extend(self._idle)
                self._idle, self._pid = [], os.getpid()
            for position, handle in enumerate(self._idle):
                if handle.key == key:
                    return self._idle.pop(position)
        return None

    def _checkin(self, handle: _Handle) -> None:
        connection = handle.connection
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            healthy = True
        except apsw.Error:
            healthy = False
        evicted: list[_Handle] = []
        with self._lock:
            if healthy and self._pid == os.getpid():
                self._idle.append(handle)
                if len(self._idle) > _MAX_IDLE:
                    evicted.append(self._idle.pop(0))
            else:
                evicted.append(handle)
        for old in evicted:
            old.close()

    @staticmethod
    def _is_readonly(connection: apsw.Connection) -> bool:
        return connection.readonly("main")

    @staticmethod
    def _truncate_log(handle: _Handle, limit: int) -> None:
        """Move the log into the file and cut it to nothing once it exceeds `limit` bytes, unless readers are in the way."""
        log = handle.place.stat("-wal")
        if log is None or log.st_size <= limit:
            return
        connection = handle.connection
        connection.set_busy_timeout(0 if limit else 1_000)
        try:
            with suppress(apsw.BusyError, apsw.LockedError):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(int(BUSY_SECONDS * 1000))


def _key(place: Place, status: os.stat_result) -> _Key:
    folder = os.fstat(place.folder) if place.folder >= 0 else os.stat(os.path.dirname(place.path))
    return (folder.st_dev, folder.st_ino, hash(place.name), status.st_dev, status.st_ino)


def _connect(place: Place, *, create: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(place.path, flags=flags, vfs=confined_vfs())
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    except apsw.CantOpenError:
        connection.close()
        # A log-mode file in a folder that may not be written: readable as it stands if nobody has a log open.
        if create or place.stat("-wal") is not None:
            raise
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"file:{quote(place.path)}?immutable=1", flags=flags, vfs=confined_vfs())
    return connection


def _configure(connection: apsw.Connection) -> None:
    for pragma in ("temp_store = MEMORY", "foreign_keys = ON", "cache_size = -16384", "trusted_schema = OFF"):
        list(connection.execute(f"PRAGMA {pragma}"))


_MEANINGS: Final[tuple[tuple[type[apsw.Error], Callable[[str, str, float], Failure]], ...]] = (
    (apsw.BusyError, lambda path, _detail, seconds: fail("busy", path=path, seconds=seconds)),
    (apsw.LockedError, lambda path, _detail, seconds: fail("busy", path=path, seconds=seconds)),
    (apsw.FullError, lambda path, _detail, _seconds: fail("disk_full", path=path)),
    (apsw.ReadOnlyError, lambda path, detail, _seconds: fail("index_readonly", path=path, detail=detail)),
    (apsw.PermissionsError, lambda path, detail, _seconds: fail("path_permission", path=path, detail=detail)),
    (apsw.AuthError, lambda path, detail, _seconds: fail("path_permission", path=path, detail=detail)),
    (apsw.NotADBError, lambda path, _detail, _seconds: fail("not_an_index", path=path, detail="it is no SQLite file")),
    (apsw.CorruptError, lambda path, detail, _seconds: fail("index_corrupt", path=path, detail=detail)),
)


@contextmanager
def translated(path: str, seconds: float = BUSY_SECONDS) -> Iterator[None]:
    """Turn SQLite's errors inside the block into failures of our table."""
    try:
        yield
    except apsw.Error as error:
        detail = _one_line(error)
        for kind, make in _MEANINGS:
            if isinstance(error, kind):
                raise make(path, detail, seconds) from error
        raise fail("index_io", path=path, detail=detail) from error


def _one_line(error: Any) -> str:  # noqa: ANN401 - apsw's errors carry their code as an attribute only sometimes
    name = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0), "")
    text = " ".join(str(error).split())
    return f"{text} ({name})" if name else text
