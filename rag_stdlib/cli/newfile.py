"""Files that are written whole or not at all, and take no other file's place unless they are told to."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rag_stdlib.cli.frame import CommandError, replayed
from rag_stdlib.wholefile import beside, mode_of, sync_folder, written_beside

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NewFile:
    """A new file. Its first content gives it its name, and each later one takes the place of the one before, in one step, and is on the disk then.

    In a replay, which finds what the recorded run wrote, it is written when the block of `new_file` ends well: a file that is there with the same content
    is left as it is, and any other one is another's.
    """

    def __init__(self, path: str, *, force: bool, over: Callable[[Path], str] | None = None) -> None:
        """See that it can be written."""
        self._path, self._force, self._over = path, force, over
        self._content: bytes | None = None
        self._before: bytes | None = None  # what was written last
        with _told(path):
            self._target = Path(os.path.realpath(path))
            if os.path.lexists(self._target):
                if not self._target.is_file():
                    raise CommandError(f"{path!r} cannot be written: it is no regular file; name another one")
                if not force and not replayed():
                    raise _taken(path)
                if force:
                    self._check_over()
            with beside(self._target):
                pass

    @property
    def content(self) -> bytes | None:
        """Which of the contents that were given stands under the name, as it is on the disk now; None where none does, and in a replay."""
        if replayed():
            return None
        with suppress(CommandError):
            return next((given for given in (self._content, self._before) if given is not None and self._holds(given)), None)
        return None

    def write(self, content: bytes) -> None:
        """Write the file, or write it again.

        Raises:
            CommandError: it cannot be written; what it held before, it holds still. Or another file has its name by now, and is left as it is.
        """
        self._content = content
        if not replayed():
            self._put(content)

    def settle(self) -> None:
        """In a replay, write the file, unless it is there.

        Raises:
            CommandError: as `write`.
        """
        if self._content is not None and replayed() and not self._holds(self._content):
            self._put(self._content)

    def _check_over(self) -> None:
        """Refuse to take the place of a file that is none of those that it may take the place of."""
        why = self._over(self._target) if self._over is not None and self._target.exists() else ""
        if why:
            raise CommandError(f"there is a file {self._path!r} already, and it is left as it is, with --force too: {why}; name another one")

    def _put(self, content: bytes) -> None:
        with _told(self._path, again=self._before is not None):
            with written_beside(self._target, content, mode_of(self._target)) as temporary:
                self._name(temporary)
            self._before = content
            sync_folder(self._target.parent)

    def _name(self, temporary: Path) -> None:
        """Give a whole file the name, unless that is another file's."""
        if self._before is not None:
            if _exchanged(temporary, self._target, self._before):
                return
        elif self._force:
            self._check_over()
            temporary.replace(self._target)
            return
        try:
            os.link(temporary, self._target)
        except FileExistsError:
            raise _taken(self._path) if self._before is None else self._lost(temporary) from None

    def _lost(self, temporary: Path) -> CommandError:
        kept = temporary.with_suffix("")
        temporary.rename(kept)
        return CommandError(f"another file has taken the place of {self._path!r}, and is left as it is; what was to be written is in {str(kept)!r}")

    def _holds(self, content: bytes) -> bool:
        with _told(self._path):
            return self._target.is_file() and self._target.read_bytes() == content


@contextmanager
def new_file(path: str, *, force: bool = False, over: Callable[[Path], str] | None = None) -> Iterator[NewFile]:
    """Give a new file to write. That it can be written is seen before the block begins; a block that fails before it writes leaves nothing.

    Args:
        path: The file; its folder is there.
        force: Take the place of a file that is there, with the rights on it.
        over: Says why `force` may not take the place of a file, and nothing where it may; without it, it may of any.
    """
    file = NewFile(path, force=force, over=over)
    yield file
    file.settle()


def replace_file(path: str, data: bytes, *, held: bytes) -> None:
    """Put a new content in the place of what a file held when it was read, in one step, and on the disk then. The rights on it stay.

    Args:
        path: The file, or a link to it.
        data: What it is to hold.
        held: What it is to hold until then, or it is left as it is.

    Raises:
        CommandError: it holds something else by now, or is gone; or it cannot be written, and holds what it held.
    """
    with _told(path):
        target = Path(os.path.realpath(path))
        with written_beside(target, data, mode_of(target)) as temporary:
            if not _exchanged(temporary, target, held):
                raise CommandError(f"{path!r} was changed meanwhile, and is left as it is")
        sync_folder(target.parent)


def _exchanged(temporary: Path, target: Path, held: bytes) -> bool:
    """Give a whole file the name of another one, if that holds what it is known to have held; of several who do so at once, one does."""
    try:
        handle = os.open(target, _READ)
    except FileNotFoundError:
        return False
    try:
        with suppress(OSError):  # some file systems know no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        is_held = _starts(handle, len(held) + 1) == held and os.path.samestat(os.fstat(handle), target.lstat())
        if is_held:
            temporary.replace(target)
        return is_held
    finally:
        os.close(handle)


def _starts(handle: int, size: int) -> bytes | None:
    """Read the beginning of a file; None of what is none."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        return None
    with os.fdopen(handle, "rb", closefd=False) as file:
        return file.read(size)


def _taken(path: str) -> CommandError:
    return CommandError(f"there is a file {path!r} already, and it is left as it is; name another one, or give --force")


@contextmanager
def _told(path: str, *, again: bool = False) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        words = f"{path!r} cannot be written again: {why}" if again else f"{path!r} cannot be written: {why}; name another file"
        raise CommandError(words) from None
