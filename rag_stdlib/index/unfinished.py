"""New index files that appear under their names whole, and all of them or none.

Each is made under a hidden name beside its own, ``.NAME.unfinished``, and when all are done they are given their names, never over
another file. Whatever ends the work before that leaves nothing; a process that is killed leaves hidden files, which the next one that
makes the same indexes removes. One process at a time makes them: the one that has ``.NAME.lock`` locked, of the first of them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from rag_stdlib.errors import Failure, fail
from rag_stdlib.index.connect import readonly
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.index.sqlerrors import BUSY_SECONDS
from rag_stdlib.root import SIDE_FILES, Place, Root

try:
    import fcntl
except ImportError:  # Windows: two processes that make the same indexes at the same time are not kept apart there
    fcntl = None  # type: ignore[assignment]

_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_PAUSE_SECONDS: Final = 0.05
_READONLY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})  # what a file system without them says


@contextmanager
def made_whole(root: Root, paths: Sequence[str], busy_seconds: float = BUSY_SECONDS) -> Iterator[list[str]]:
    """Give the hidden paths at which to make new indexes of one folder; at the end of the block they get their names.

    The block leaves each of them closed, with its log moved into the file.

    Raises:
        Failure: `index_exists`; `busy` where another process has been making them for `busy_seconds`; `not_an_index` for a file beside
            that SQLite would take for its own; `index_readonly`, `index_io` and refusals of a path.
    """
    with root.place(paths[0]) as first:
        named = [_sibling(first, Path(path).name) for path in paths]
        hidden = [_sibling(first, f".{place.name}.unfinished") for place in named]
        with _alone(named[0], busy_seconds), ExitStack() as undo:
            _remove(hidden)
            for place in named:
                _refuse_taken(place)
            undo.callback(_remove, hidden)
            yield [place.shown for place in hidden]
            root.recheck(first)
            _give_names(hidden, named)


def _sibling(place: Place, name: str) -> Place:
    """Name another file of a place's folder, by the same descriptor."""
    return replace(place, name=name, path=str(Path(place.path).with_name(name)), shown=str(PurePosixPath(place.shown).with_name(name)))


@contextmanager
def _alone(place: Place, busy_seconds: float) -> Iterator[None]:
    lock = _sibling(place, f".{place.name}.lock")
    handle = _locked(lock, place.shown, time.monotonic() + busy_seconds, busy_seconds)
    try:
        yield
    finally:
        with suppress(OSError):  # a lock that stays is empty, and in nobody's way
            Path(lock.path).unlink()
        os.close(handle)


def _locked(lock: Place, shown: str, deadline: float, busy_seconds: float) -> int:
    """Open the lock's file and lock it; where it was removed meanwhile by who had it, another one is made."""
    while True:
        try:
            handle = os.open(lock.path, _FLAGS, 0o600)
        except OSError as error:
            raise _refused(shown, error) from None
        with ExitStack() as undo:
            undo.callback(os.close, handle)
            if _lock(handle):
                status, found = os.fstat(handle), lock.stat()
                if not stat.S_ISREG(status.st_mode) or status.st_size:
                    raise fail("index_exists", path=lock.shown)
                if found is not None and os.path.samestat(found, status):
                    undo.pop_all()
                    return handle
            elif time.monotonic() > deadline:
                raise fail("busy", path=shown, seconds=busy_seconds)
            else:
                time.sleep(_PAUSE_SECONDS)


def _lock(handle: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _remove(hidden: Sequence[Place]) -> None:
    """Remove hidden files and what SQLite keeps beside them; a hidden name of a file that has its own goes too."""
    for place in hidden:
        for suffix in ("", *SIDE_FILES):
            try:
                Path(place.path + suffix).unlink(missing_ok=True)
            except OSError as error:
                raise _refused(place.shown, error) from None


def _refuse_taken(place: Place) -> None:
    if place.stat() is not None:
        raise fail("index_exists", path=place.shown)
    refuse_alien_side_files(place)


def _give_names(hidden: Sequence[Place], named: Sequence[Place]) -> None:
    """Give all files their names, or take back those that were given."""
    with ExitStack() as undo:
        for made, place in zip(hidden, named, strict=True):
            _refuse_taken(place)
            undo.callback(_take_back, place, made.stat())
            _link(made, place)
        _remove(hidden)
        undo.pop_all()


def _link(made: Place, place: Place) -> None:
    """Give a file its name in one step that fails where there is a file of that name."""
    try:
        os.link(made.path, place.path, follow_symlinks=False)
    except FileExistsError:
        raise fail("index_exists", path=place.shown) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise _refused(place.shown, error) from None
        Path(made.path).rename(place.path)  # it was looked at just now whether there is such a file


def _take_back(place: Place, given: os.stat_result | None) -> None:
    found = place.stat()
    if found is not None and given is not None and os.path.samestat(found, given):
        Path(place.path).unlink()


def _refused(shown: str, error: OSError) -> Failure:
    if error.errno in _READONLY:
        return readonly(shown)
    if error.errno == errno.ENAMETOOLONG:
        return fail("path_too_long", path=shown)
    if error.errno == errno.ENOSPC:
        return fail("disk_full", path=shown)
    return fail("index_io", path=shown, detail=os.strerror(error.errno or errno.EIO))
