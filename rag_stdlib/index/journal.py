"""Which journal a file gets: the write-ahead log where it is safe, a rollback journal where it is not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import apsw

from rag_stdlib.root import Place

_NETWORK_FILE_SYSTEMS: Final = frozenset({
    "9p", "afs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs",
    "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs", "virtiofs",
})
_MOUNTS: Final = Path("/proc/self/mountinfo")


def log_is_safe(version: str) -> bool:
    """Tell whether this SQLite has the fix for losing a committed write when two processes reset one log.

    Fixed in 3.51.3 and, on older lines, in 3.50.7 and 3.44.6.
    """
    numbers = tuple(int(part) for part in version.split(".")[:3])
    return numbers >= (3, 51, 3) or (3, 50, 7) <= numbers < (3, 51) or (3, 44, 6) <= numbers < (3, 45)


def network_file_system(device: int, mounts: str) -> str | None:
    """Name the network file system that `device` (st_dev) is, by the text of /proc/self/mountinfo; None for a local one."""
    wanted = f"{device >> 8 & 0xFFF}:{device & 0xFF | device >> 12 & 0xFFF00}"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[2] == wanted and "-" in fields:  # noqa: PLR2004 - the third field is major:minor
            kind = fields[fields.index("-") + 1]
            return kind if kind in _NETWORK_FILE_SYSTEMS else None
    return None


def wanted_mode(device: int, *, version: str | None = None, mounts: Path = _MOUNTS) -> str:
    """Choose ``wal`` or ``delete`` for a new file on `device` (st_dev)."""
    if not log_is_safe(version or apsw.sqlite_lib_version()):
        return "delete"
    try:
        table = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "wal"
    return "delete" if network_file_system(device, table) else "wal"


def set_journal_mode(connection: apsw.Connection, place: Place, deadline: float) -> None:
    """Set the mode of a new file, retrying while others do the same (SQLite's busy handler does not cover it).

    Where the log cannot be had (the pragma answers another mode), the file stays with a rollback journal.
    """
    status = place.stat()
    mode = wanted_mode(status.st_dev if status else 0)
    while True:
        try:
            if connection.pragma("journal_mode") != mode:
                connection.pragma("journal_mode", mode)
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
