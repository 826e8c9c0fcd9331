"""The SQLite files of a log, a witness and a monitor: private to their owner, shared by processes and threads, opened with care.

Each is one file (and SQLite's side files) that is opened as an index is (`rag_stdlib.index`): at a checked place, following no link, never
across a fork, with a write-ahead log where that is safe, so that readers wait for no writer. It is made with the rights of its owner
alone, and refused where others have any. By default a commit is on the disk before it is acknowledged: what was signed and told must
not be undone by a power cut.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import apsw

from rag_stdlib.index.connect import Synchronous, connect, connect_immutable, has_moved, needs_immutable
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.index.forks import GATE, unforked
from rag_stdlib.index.journal import set_journal_mode
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.proof.log.dberrors import blamed, told
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.privatefile import OWNER_ONLY
from rag_stdlib.root import SIDE_FILES, Place, Root

BUSY_SECONDS: Final = 10.0

_MAX_IDLE: Final = 8
_LEAST_BYTES: Final = 512  # the smallest page of SQLite
_CACHE_KIB: Final = 8_192
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OPENING: Final = threading.Lock()  # closing a descriptor of a file drops all locks that SQLite holds on it in this process


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds.

    Attributes:
        what: In messages: ``log``, ``witness`` …
        application_id: SQLite's mark of the kind.
        version: Of the tables.
        tables: What makes them.
    """

    what: str
    application_id: int
    version: int
    tables: tuple[str, ...]


@dataclass(slots=True)
class _Handle:
    connection: apsw.Connection
    place: Place

    def close(self) -> None:
        with suppress(apsw.Error):
            self.connection.close(True)
        FOLDERS.release(self.place)


class Database:
    """One such file. Safe to use from many threads; after a fork the child opens it anew."""

    def __init__(self, path: str | os.PathLike[str], kind: Kind, *, synchronous: Synchronous = "full", busy_seconds: float = BUSY_SECONDS) -> None:
        """Name the file; nothing is opened yet. `busy_seconds` bounds the wait for another writer."""
        self.path = os.path.abspath(os.fspath(path))  # noqa: PTH100 - it keeps the operator's links
        self._kind = kind
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._idle: list[_Handle] = []
        self._closed = False
        GATE.watch(self)
        weakref.finalize(self, _close_all, self._idle)

    def create(self, fill: Callable[[apsw.Connection], None]) -> None:
        """Make the file, its tables, and their first rows by `fill`, in one step.

        Raises:
            LogError: ``exists`` where there is such a file already; ``file_foreign`` where there is another; what `writing` raises.
        """
        with self._lent(create=True) as handle:
            connection = handle.connection
            set_journal_mode(connection, handle.place, time.monotonic() + self._busy_seconds)
            connection.execute("BEGIN IMMEDIATE")
            if self._is_made(connection):
                raise LogError("exists", f"there is a {self._kind.what} {self.path!r} already; it is left as it is")
            for statement in self._kind.tables:
                connection.execute(statement)
            fill(connection)
            connection.execute(f"PRAGMA application_id = {self._kind.application_id}")
            connection.execute(f"PRAGMA user_version = {self._kind.version}")
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Give a connection inside a read transaction: one state of the file, whoever writes meanwhile.

        Raises:
            LogError: ``missing``, ``file_unsafe``, ``file_foreign``, ``file_moved``, ``damaged``, ``busy``, ``file_io``.
        """
        with self._lent() as handle:
            handle.connection.execute("BEGIN")
            yield handle.connection

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Give a connection inside ``BEGIN IMMEDIATE``, committed at the end of the block and rolled back by any error.

        Raises:
            LogError: As `reading`; ``readonly``, ``disk_full``.
        """
        if not self._turn.acquire(timeout=self._busy_seconds):  # far quicker than SQLite's asking again
            raise LogError("busy", f"the {self._kind.what} {self.path!r} was in use for {self._busy_seconds:g} s")
        try:
            with self._lent() as handle:
                if handle.connection.readonly("main"):
                    raise LogError("readonly", f"the {self._kind.what} {self.path!r} cannot be written")
                handle.connection.execute("BEGIN IMMEDIATE")
                if has_moved(handle.connection):  # looked at with the lock held: two files under one name would be two histories
                    raise LogError("file_moved", f"the name {self.path!r} stands for another file than the one that is open")
                yield handle.connection
                handle.connection.execute("COMMIT")
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the connections, those in use as soon as they are free."""
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
    def _lent(self, *, create: bool = False) -> Iterator[_Handle]:
        """Lend a connection; a transaction that the block leaves open is rolled back."""
        with told(self._kind.what, self.path, self._busy_seconds), unforked(self.path):
            handle = self._take() or self._open(create=create)
            try:
                with blamed(handle.connection, self._kind.what, self.path):
                    if has_moved(handle.connection):
                        raise LogError("file_moved", f"the name {self.path!r} stands for another file than the one that is open")
                    yield handle
            finally:
                self._give_back(handle)

    def _take(self) -> _Handle | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, handle: _Handle) -> None:
        connection = handle.connection
        with suppress(apsw.Error):  # what cannot be rolled back shows in the connection's state
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        # An unfinished statement would hold its old state open; a read-only connection must not outlive its reason.
        reusable = connection.txn_state() == apsw.SQLITE_TXN_NONE and not connection.readonly("main")
        with self._lock:
            if reusable and not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(handle)
                return
        handle.close()

    def _open(self, *, create: bool) -> _Handle:
        folder, name = os.path.split(self.path)
        if name.endswith(SIDE_FILES):
            raise LogError("file_unsafe", f"{self.path!r} is a name that SQLite keeps for its side files")
        root = Root(folder)
        place = root.open_place(name)
        with ExitStack() as undo, _OPENING:
            FOLDERS.adopt(place)
            undo.callback(FOLDERS.release, place)
            if create and place.stat() is None:
                _make(place)
            self._check(place)
            connection = connect(place, self.path, create=False)
            undo.callback(connection.close, True)
            root.recheck(place)
            if has_moved(connection):
                raise LogError("file_moved", f"the file {self.path!r} was exchanged while it was opened; try again")
            connection.set_busy_timeout(int(self._busy_seconds * 1000))
            if needs_immutable(connection, place, self.path, create=create):
                connection.close()
                connection = connect_immutable(place)
                undo.callback(connection.close, True)
            for pragma in ("temp_store = MEMORY", "trusted_schema = OFF", f"cache_size = {-_CACHE_KIB}", f"synchronous = {self._synchronous}"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            if not self._is_made(connection) and not create:
                raise LogError("missing", f"there is no {self._kind.what} in {self.path!r} yet")
            undo.pop_all()
        return _Handle(connection, place)

    def _check(self, place: Place) -> None:
        found = place.check_regular(writing=True)
        if found is None:
            raise LogError("missing", f"there is no {self._kind.what} {self.path!r}")
        if found.st_mode & _OTHERS:
            raise LogError("file_unsafe", f"others may use {self.path!r} (mode {stat.S_IMODE(found.st_mode):04o}); run chmod 600 on it")
        refuse_alien_side_files(place)
        if 0 < found.st_size < _LEAST_BYTES and place.stat("-journal") is None:
            raise LogError("file_foreign", f"{self.path!r} is too short for a file of SQLite")  # which would write over it

    def _is_made(self, connection: apsw.Connection) -> bool:
        application, version = connection.pragma("application_id"), connection.pragma("user_version")
        if (application, version) == (self._kind.application_id, self._kind.version):
            return True
        if application == self._kind.application_id:
            raise LogError("file_foreign", f"the {self._kind.what} {self.path!r} was made by another release: it is of version {version}, and {self._kind.version} is known here; go on with that release, or make a new one")
        if application or version or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
            raise LogError("file_foreign", f"{self.path!r} is no {self._kind.what}, but another program's database")
        return False


def only_row(connection: apsw.Connection, statement: str, *kinds: type) -> tuple[Any, ...]:
    """Read the one row of a table that has one, with values of these types.

    Raises:
        LogError: ``damaged`` where it is otherwise.
    """
    try:
        rows: Any = connection.execute(statement).fetchall()
    except UnicodeDecodeError:  # a text that is none
        rows = []
    if len(rows) != 1 or tuple(map(type, rows[0])) != kinds:
        raise LogError("damaged", f"what {statement!r} reads is not what was written")
    return tuple(rows[0])


def _make(place: Place) -> None:
    """Make an empty file that its owner alone may use; SQLite would give it the rights of any other, and its side files too."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(place.path if place.folder < 0 else place.name, flags, OWNER_ONLY, dir_fd=place.folder if place.folder >= 0 else None)
    except FileExistsError:  # another process is quicker
        return
    try:
        os.fchmod(handle, OWNER_ONLY)  # whatever the umask took
    finally:
        os.close(handle)


def _close_all(handles: list[_Handle]) -> None:
    while handles:
        handles.pop().close()
