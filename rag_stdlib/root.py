"""The [io] root: every path a tool touches is opened below it, with no way around.

A path is taken apart as text first (`relative_parts`), then walked component by component relative to a directory
descriptor, following no symbolic link. What comes out is a `Place`: an open folder and a name in it. SQLite opens
``/proc/self/fd/FD/NAME``, so it stays with the checked folder even if a parent is swapped for a link meanwhile. Where
the system has no such paths, the place is a plain path whose components are checked again after opening.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rag_stdlib.errors import Failure, fail

SIDE_FILES: Final = ("-wal", "-shm", "-journal")
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_PATH_BYTES: Final = 4096

_FOLDER_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_READ_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
_CAN_ANCHOR: Final = os.path.isdir("/proc/self/fd") and os.open in os.supports_dir_fd


@lru_cache(maxsize=256)
def relative_parts(path: str, root: str, separator: str = os.sep) -> tuple[str, ...]:
    """Split a caller's path into components below `root` (absolute), by text alone.

    Refused: NUL and lone surrogates, ``..`` between slashes or backslashes, drive letters, UNC names, URIs, ``:memory:``,
    empty paths and those that name a folder by a final slash or dot, and more than `MAX_PATH_BYTES`. An absolute path must
    lie inside `root`. Where the system's `separator` is the backslash, it and the colon (a stream's mark) are refused.
    """
    _refuse_characters(path)
    form = _foreign_form(path)
    if form:
        raise fail("path_form", path=path, form=form)
    if ".." in re.split(r"[\\/]", path):
        raise fail("path_parent", path=path)
    if separator == "\\" and re.search(r"[\\:]", path):
        raise fail("path_form", path=path, form="a path with a backslash or colon")
    pieces = path.split("/")
    parts = [piece for piece in pieces if piece not in ("", ".")]
    if pieces[0] == "" and len(pieces) > 1:
        root_parts = [piece for piece in root.split("/") if piece]
        if parts[: len(root_parts)] != root_parts:
            raise fail("path_outside_root", path=path)
        parts = parts[len(root_parts):]
    if not parts or pieces[-1] in ("", "."):
        raise fail("path_empty", path=path)
    return tuple(parts)


def _refuse_characters(path: str) -> None:
    if "\0" in path:
        raise fail("path_nul", offset=path.index("\0"))
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise fail("invalid_text", field="the path", offset=error.start) from None
    if size > MAX_PATH_BYTES:
        raise fail("path_too_long", path=path)


def _foreign_form(path: str) -> str:
    if path.startswith(":memory:"):
        return "SQLite's name of a database in memory"
    if re.match(r"(?i)file:|[a-z][a-z0-9+.-]*://", path):
        return "a URI"
    if re.match(r"[A-Za-z]:", path):
        return "a drive path"
    if re.match(r"\\\\|//[^/]", path):
        return "a network (UNC) name"
    return ""


@dataclass(slots=True)
class Place:
    """A name in a checked folder: `folder` is its descriptor (-1 where the system cannot anchor paths).

    `path` is what to hand to an opening call, `shown` the caller's own spelling for messages.
    """

    folder: int
    name: str
    path: str
    shown: str

    def stat(self, suffix: str = "") -> os.stat_result | None:
        """Look at the file (or a side file, by its suffix) without following a link; None if there is none."""
        try:
            if self.folder >= 0:
                return os.stat(self.name + suffix, dir_fd=self.folder, follow_symlinks=False)
            return os.lstat(self.path + suffix)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _os_failure(error, self.shown) from None

    def check_regular(self, *, writing: bool, suffixes: tuple[str, ...] = SIDE_FILES) -> os.stat_result | None:
        """Refuse links, folders, FIFOs, devices and (for writing) hard links, for the file and its side files."""
        found = self.stat()
        for suffix, status in (("", found), *((suffix, self.stat(suffix)) for suffix in suffixes)):
            if status is None:
                continue
            shown = self.shown + suffix
            if stat.S_ISLNK(status.st_mode):
                raise fail("path_symlink", path=shown, at=self.name + suffix)
            if not stat.S_ISREG(status.st_mode):
                raise fail("path_special", path=shown, kind=_kind(status.st_mode))
            if writing and status.st_nlink > 1:
                raise fail("path_hard_link", path=shown, links=status.st_nlink)
        return found

    def read_start(self, suffix: str, length: int) -> bytes:
        """Read the first bytes of a side file; none where it is gone. Never for a file on which SQLite holds locks."""
        try:
            handle = self.open_file(suffix)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _os_failure(error, self.shown + suffix) from None
        try:
            return os.read(handle, length)
        finally:
            os.close(handle)

    def open_file(self, suffix: str = "") -> int:
        """Open the file (or a side file) for reading, following no link and waiting for no FIFO; raises OSError."""
        if self.folder >= 0:
            return os.open(self.name + suffix, _READ_FLAGS, dir_fd=self.folder)
        return os.open(self.path + suffix, _READ_FLAGS)

    def close(self) -> None:
        """Let go of the folder."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1


_KINDS: Final = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
                 stat.S_IFBLK: "a device"}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def _is_same(one: os.stat_result | None, other: os.stat_result) -> bool:
    return one is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _entry_kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _os_failure(error: OSError, shown: str) -> Failure:
    if error.errno in (errno.EACCES, errno.EPERM):
        return fail("path_permission", path=shown, detail=os.strerror(error.errno))
    if error.errno == errno.ENAMETOOLONG:
        return fail("path_too_long", path=shown)
    if error.errno == errno.ELOOP:  # put there since it was checked
        return fail("path_symlink", path=shown, at=os.path.basename(shown))
    if error.errno == errno.ENOENT:
        return fail("path_folder_missing", path=shown)
    detail = os.strerror(error.errno) if error.errno else "unknown error"
    return fail("index_io", path=shown, detail=detail)


class Root:
    """The configured root folder. `path` is absolute; its own components may be links, since the operator chose them."""

    def __init__(self, path: str, *, anchored: bool = _CAN_ANCHOR) -> None:
        """Name the root; nothing is opened yet. `anchored=False` takes the portable way even where a better one exists."""
        self.path = os.path.abspath(path)
        self._anchored = anchored

    @contextmanager
    def place(self, path: str) -> Iterator[Place]:
        """Check a path and open the folder it lies in, for the length of the block."""
        place = self.open_place(path)
        try:
            yield place
        finally:
            place.close()

    def open_place(self, path: str) -> Place:
        """Check a path and open the folder it lies in; the caller closes the place."""
        parts = relative_parts(path, self.path)
        if not self._anchored:
            self._check_plain(parts, path)
            return Place(-1, parts[-1], os.path.join(self.path, *parts), path)
        folder = self._open_folder(parts[:-1], path)
        return Place(folder, parts[-1], f"/proc/self/fd/{folder}/{parts[-1]}", path)

    def recheck(self, place: Place) -> None:
        """Check the components of a plain place again, after the file was opened; anchored places need none."""
        if place.folder < 0:
            self._check_plain(relative_parts(place.shown, self.path), place.shown)

    def _open_root(self) -> int:
        try:
            return os.open(self.path, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0))
        except OSError as error:
            detail = os.strerror(error.errno) if error.errno else "unknown error"
            raise fail("root_unusable", detail=detail) from None

    def _open_folder(self, parts: tuple[str, ...], shown: str) -> int:
        folder = self._open_root()
        for part in parts:
            try:
                inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            except OSError as error:
                refused = self._explain(error, part, folder, shown)
                os.close(folder)
                raise refused from None
            os.close(folder)
            folder = inner
        return folder

    def _explain(self, error: OSError, part: str, folder: int, shown: str) -> Failure:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            try:
                mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
            except OSError:
                return fail("path_folder_missing", path=shown)
            if stat.S_ISLNK(mode):
                return fail("path_symlink", path=shown, at=part)
            return fail("path_folder_missing", path=shown)
        return _os_failure(error, shown)

    def _check_plain(self, parts: tuple[str, ...], shown: str) -> None:
        if not os.path.isdir(self.path):
            raise fail("root_unusable", detail=os.strerror(errno.ENOENT))
        walked = self.path
        for part in parts[:-1]:
            walked = os.path.join(walked, part)
            try:
                mode = os.lstat(walked).st_mode
            except OSError as error:
                raise _os_failure(error, shown) from None
            if stat.S_ISLNK(mode):
                raise fail("path_symlink", path=shown, at=part)
            if not stat.S_ISDIR(mode):
                raise fail("path_folder_missing", path=shown)

    def list_folder(self, path: str) -> list[tuple[str, str, int]]:
        """List a folder below the root (``.``: the root itself): (name, kind, bytes), sorted by name.

        `kind` is ``file``, ``folder``, ``link`` or ``other``; nothing is followed.
        """
        parts = () if path == "." else relative_parts(path.rstrip("/") or path, self.path)
        if self._anchored:
            folder: int | str = self._open_folder(parts, path)
        else:
            self._check_plain((*parts, ""), path)
            folder = os.path.join(self.path, *parts)
        try:
            return self._entries(folder, path)
        finally:
            if isinstance(folder, int):
                os.close(folder)

    @staticmethod
    def _entries(folder: int | str, shown: str) -> list[tuple[str, str, int]]:
        try:
            # An O_PATH descriptor cannot be listed itself; its /proc name can, and stays with the checked folder.
            with os.scandir(f"/proc/self/fd/{folder}" if isinstance(folder, int) else folder) as entries:
                found = [(entry.name, _entry_kind(entry), entry.stat(follow_symlinks=False).st_size) for entry in entries]
        except OSError as error:
            raise _os_failure(error, shown) from None
        return sorted(found)

    def kind_of(self, path: str) -> str | None:
        """Say what a path names: ``file``, ``folder``, ``link``, ``other``, or None for nothing there."""
        if path == ".":
            return "folder"
        with self.place(path.rstrip("/") or path) as place:
            status = place.stat()
        if status is None:
            return None
        for test, kind in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link")):
            if test(status.st_mode):
                return kind
        return "other"

    def read_file(self, path: str, cap: int = MAX_FILE_BYTES) -> bytes:
        """Read a whole regular file below the root, at most `cap` bytes."""
        with self.place(path) as place:
            if place.check_regular(writing=False, suffixes=()) is None:
                raise fail("file_missing", path=path)
            try:
                handle = place.open_file()
            except OSError as error:
                raise _os_failure(error, path) from None
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise fail("path_special", path=path, kind=_kind(status.st_mode))
                self.recheck(place)
                if place.folder < 0 and not _is_same(place.stat(), status):
                    raise fail("file_unreadable", name=path, kind="a file", detail="it was exchanged meanwhile; try again")
                data = file.read(cap + 1)
        if len(data) > cap:
            raise fail("file_too_large", path=path, size=max(status.st_size, len(data)), cap=cap)
        return data
