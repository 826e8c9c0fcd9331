"""Opening a SQLite file at a checked place, so that it is the file that was checked, and setting the connection up."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

import apsw

from rag_stdlib.errors import Failure, fail
from rag_stdlib.index.vfs import confined_vfs
from rag_stdlib.root import Place

READING_KIB: Final = 8_192  # of pages kept by a connection: single vectors and texts come from all over the file
WRITING_KIB: Final = 16_384

Synchronous: TypeAlias = Literal["normal", "full"]


def readonly(path: str) -> Failure:
    """Refuse to write where that may not be."""
    return fail("index_readonly", path=path, detail="the file or its folder is read-only")


def connect(place: Place, path: str, *, create: bool) -> apsw.Connection:
    """Open the file at a place, made if it is missing with `create`; nothing of it is read yet.

    Raises:
        Failure: `index_readonly`, `path_permission`.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | (apsw.SQLITE_OPEN_CREATE if create else 0)
    try:
        return apsw.Connection(place.path, flags=flags, vfs=confined_vfs())
    except apsw.CantOpenError:
        if create and place.stat() is None and not _folder_writable(place):
            raise readonly(path) from None
        if not os.access(place.path, os.R_OK):
            raise fail("path_permission", path=path, detail="it may not be read") from None
        raise


def has_moved(connection: apsw.Connection) -> bool:
    """Tell whether the open file no longer is the one that its name names."""
    moved = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return bool(moved.value)


def _folder_writable(place: Place) -> bool:
    return os.access(Path(place.path).parent, os.W_OK)


def needs_immutable(connection: apsw.Connection, place: Place, path: str, *, create: bool) -> bool:
    """Touch the file: a log-mode file in a folder that may not be written is readable as it stands if nobody has a log open."""
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if _folder_writable(place) or place.stat("-wal") is not None:
            raise
        if create:
            raise readonly(path) from None
        return True
    return False


def connect_immutable(place: Place) -> apsw.Connection:
    """Open a file that nobody changes, without locks and side files."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(place.path)}?immutable=1", flags=flags, vfs=confined_vfs())


def configure(connection: apsw.Connection, synchronous: Synchronous) -> None:
    """Set what every connection of ours has."""
    for pragma in ("temp_store = MEMORY", "foreign_keys = ON", f"cache_size = {-READING_KIB}", "trusted_schema = OFF",
                   "wal_autocheckpoint = 0",  # `Store` moves a long log into the file after a commit, once
                   f"synchronous = {synchronous}"):
        list(connection.execute(f"PRAGMA {pragma}"))
