"""Files that show whole or not at all: written beside their place, seen onto the disk there, and then given the name in one step."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ANYONE: Final = 0o666  # less what the umask takes
_OWNER_ONLY: Final = 0o600
_NAME_CHARS: Final = 50  # of which each takes 4 bytes at most, and a file's name 255


@contextmanager
def beside(target: Path, mode: int | None = None) -> Iterator[tuple[Path, BinaryIO]]:
    """Make a file in the folder of another one, to write what is for that one's place; what is left of it at the end is taken away.

    Args:
        target: The place.
        mode: The rights on the file, whatever the umask is; None for those of any new file.

    Returns:
        Its path and the file, open to write to.

    Raises:
        OSError: it cannot be made.
    """
    path = target.with_name(f".{target.name[:_NAME_CHARS]}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(os.open(path, _NEW, _ANYONE if mode is None else _OWNER_ONLY), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield path, file
    finally:
        with suppress(OSError):  # it has the other's name by now
            path.unlink()


@contextmanager
def written_beside(target: Path, data: bytes, mode: int | None = None) -> Iterator[Path]:
    """Write a whole file in the folder of another one, and see it onto the disk; the block gives it the name.

    Raises:
        OSError: it cannot be written.
    """
    with beside(target, mode) as (path, file):
        file.write(data)
        sync_file(file)
        yield path


def mode_of(path: Path) -> int | None:
    """Return the rights on a file, for the one that takes its place; None where there is no such file."""
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return None
    return found & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)


def sync_file(file: BinaryIO) -> None:
    """See what was written to a file onto the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """See new names in a folder onto the disk; some file systems know no such thing, and the files themselves are safe there."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
