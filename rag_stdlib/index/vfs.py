"""A SQLite VFS that follows no symbolic link, for the database and each of its side files.

SQLite opens the name it is given: `xFullPathname` does not resolve it, and every open (database, ``-wal``, ``-journal``)
carries SQLITE_OPEN_NOFOLLOW; SQLite's own ``-shm`` open never follows links. Reads and writes stay in C.
"""

from __future__ import annotations

import threading
from typing import Final

import apsw

VFS_NAME: Final = "rag-stdlib-confined"

_lock = threading.Lock()
_registered: list[apsw.VFS] = []  # apsw unregisters a VFS when its object goes away


class _ConfinedVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS_NAME, "")

    def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
        return name

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        flags[0] |= apsw.SQLITE_OPEN_NOFOLLOW
        return super().xOpen(name, flags)


def confined_vfs() -> str:
    """Register the VFS once per process and return its name."""
    with _lock:
        if not _registered:
            _registered.append(_ConfinedVFS())
    return VFS_NAME
