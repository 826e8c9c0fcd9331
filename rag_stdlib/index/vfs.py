"""A SQLite VFS that follows no symbolic link and touches no name but those of the indexes in use.

SQLite opens the name it is given: `xFullPathname` does not resolve it, and every open (database, ``-wal``, ``-journal``)
carries SQLITE_OPEN_NOFOLLOW; SQLite's own ``-shm`` open never follows links. A rollback journal may end in the name of
a super-journal (https://sqlite.org/fileformat.html, section 3), which SQLite looks up, opens and deletes when it recovers: a
forged one would lead anywhere. We never write such a name, so none is followed. Reads and writes stay in C.
"""

from __future__ import annotations

import threading
from typing import Final

import apsw

from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.root import SIDE_FILES

VFS_NAME: Final = "rag-stdlib-confined"

_lock = threading.Lock()
_registered: list[apsw.VFS] = []  # apsw unregisters a VFS when its object goes away


class _ConfinedVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS_NAME, "")

    def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
        return name

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if flags[0] & apsw.SQLITE_OPEN_SUPER_JOURNAL or (path and path not in FOLDERS.names):  # no name: a temporary file of SQLite's
            raise apsw.CantOpenError("that name belongs to no index in use")
        flags[0] |= apsw.SQLITE_OPEN_NOFOLLOW
        return super().xOpen(name, flags)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802 - SQLite's name
        return pathname in FOLDERS.names and super().xAccess(pathname, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        if filename not in FOLDERS.names or not filename.endswith(SIDE_FILES):
            raise apsw.IOError("that name belongs to no index in use")
        super().xDelete(filename, syncdir)


def confined_vfs() -> str:
    """Register the VFS once per process and return its name; it serves the places that `FOLDERS` has adopted."""
    with _lock:
        if not _registered:
            _registered.append(_ConfinedVFS())
    return VFS_NAME
