"""Small files that their owner alone may use: read whole, made once, or exchanged for a new one in one step.

A file is changed by `changing`: whoever changes it meanwhile waits, and a crash leaves the old file or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.wholefile import sync_folder, written_beside

OWNER_ONLY: Final = stat.S_IRUSR | stat.S_IWUSR

_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read_private(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a file of at most `most` bytes.

    Raises:
        LogError: ``missing``; ``file_unsafe`` for a link, for what is no regular file, and where others have any right on it;
            ``file_foreign`` where it is larger; ``file_io``.
    """
    handle = _open(os.fspath(path))
    try:
        return _read(handle, os.fspath(path), most)
    finally:
        os.close(handle)


def create_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new file, and wait until it is on the disk; it shows whole or not at all.

    Raises:
        LogError: ``exists`` where anything has this name; ``missing`` where its folder does not exist; ``disk_full``, ``readonly``,
            ``file_io``.
    """
    path = os.fspath(path)
    with _told(path):
        if os.path.lexists(path):
            raise FileExistsError
        with written_beside(Path(path), data, OWNER_ONLY) as beside:
            os.link(beside, path)  # unlike a renaming, it never takes the place of another file
        sync_folder(Path(path).parent)


class Exchange:
    """A file while it is being changed: what it held, and what is to take its place."""

    def __init__(self, path: str, data: bytes) -> None:
        """Begin with the present content."""
        self._path = path
        self.data = data

    def put(self, data: bytes) -> None:
        """Put a new content in the old one's place, on the disk before it shows.

        Raises:
            LogError: ``disk_full``, ``readonly``, ``file_io``; the old content stands.
        """
        with _told(self._path):
            with written_beside(Path(self._path), data, OWNER_ONLY) as beside:
                beside.replace(self._path)
            sync_folder(Path(self._path).parent)
        self.data = data


@contextlib.contextmanager
def changing(path: str | os.PathLike[str], most: int) -> Iterator[Exchange]:
    """Hold a file for a change; others who would change it wait until the block ends.

    Raises:
        LogError: As `read_private`.
    """
    path = os.fspath(path)
    handle = _held(path)
    try:
        yield Exchange(path, _read(handle, path, most))
    finally:
        os.close(handle)


def _held(path: str) -> int:
    """Open the file and lock it, once it is still the one with this name when the lock is had."""
    while True:
        handle = _open(path)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, handle)
            with _told(path):
                fcntl.flock(handle, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(handle), Path(path).lstat()):
                    undo.pop_all()
                    return handle


def _open(path: str) -> int:
    with _told(path):
        return os.open(path, _READ)


def _read(handle: int, path: str, most: int) -> bytes:
    with _told(path):
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise LogError("file_unsafe", f"{path!r} is no regular file")
        if mode & _OTHERS:
            raise LogError("file_unsafe", f"others may use {path!r} (mode {stat.S_IMODE(mode):04o}); run chmod 600 on it")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise LogError("file_foreign", f"{path!r} is larger than {most:,} bytes, which no such file is")
    return data


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise LogError("exists", f"there is a file {path!r} already; it is left as it is") from None
    except (FileNotFoundError, NotADirectoryError):
        raise LogError("missing", f"there is no file {path!r}, or no folder for it") from None
    except (OSError, ValueError) as error:
        raise os_refusal(path, error) from None


def os_refusal(path: str, error: OSError | ValueError) -> LogError:
    """Say in our words what the system refused."""
    if isinstance(error, ValueError):  # NUL, or a lone surrogate
        return LogError("file_io", f"{path!r} is no name of a file")
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
        return LogError("file_unsafe", f"{path!r} is a link, or no regular file")
    codes = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "readonly"}
    return LogError(codes.get(error.errno or 0, "file_io"), f"{path!r}: {error.strerror or error}")


def folder_for(path: str | os.PathLike[str]) -> Path:
    """Make a folder, and those above it, that its owner alone may use; one that is there already others may read, but not write to.

    Raises:
        LogError: ``readonly``, ``disk_full``, ``file_io``; ``file_unsafe`` where others may write to it, who could take files away from it.
    """
    folder = Path(path)
    with _told(str(folder)):
        folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise LogError("file_unsafe", f"others may write to the folder {str(folder)!r} (mode {stat.S_IMODE(found.st_mode):04o}); run chmod go-w on it")
        if found.st_uid not in (os.geteuid(), _ROOT):
            raise LogError("file_unsafe", f"the folder {str(folder)!r} is another user's, who may write to it; name one of your own")
    return folder
