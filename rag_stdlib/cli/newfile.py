"""A file that is written whole or not at all, and takes no other file's place unless it is told to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_stdlib.cli.frame import CommandError, replayed


class NewFile:
    """A new file. Its first content gives it its name, and each later one takes the place of the one before, in one step, and is on the disk then.

    In a replay, which finds what the recorded run wrote, it is written when the block of `new_file` ends: a file that is there with the same content
    is left as it is, and any other one is another's.

    Attributes:
        is_there: Whether a content was written, and stands under the name for all that is known.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        """See that it can be written."""
        self.is_there = False
        self._path, self._force = path, force
        self._content = b""
        self._before: bytes | None = None  # what was written last
        with _told(path):
            self._target = Path(os.path.realpath(path))
            if os.path.lexists(self._target):
                if not self._target.is_file():
                    raise CommandError(f"{path!r} cannot be written: it is no regular file; name another one")
                if not force and not replayed():
                    raise _taken(path)
            temporary = self._beside()
            temporary.touch(exist_ok=False)
            temporary.unlink()

    def write(self, content: bytes) -> None:
        """Write the file, or write it again.

        Raises:
            CommandError: it cannot be written; what it held before, it holds still. Or another file has its name by now, and is left as it is.
        """
        self._content = content
        if not replayed():
            self._put()
        self.is_there = True

    def settle(self) -> None:
        """In a replay, write the file, unless it is there.

        Raises:
            CommandError: as `write`.
        """
        if self.is_there and replayed() and not self._holds(self._content):
            self._put()

    def _put(self) -> None:
        with _told(self._path):
            temporary = self._beside()
            try:
                with temporary.open("xb") as file:
                    file.write(self._content)
                    file.flush()
                    os.fsync(file.fileno())
                self._name(temporary)
            finally:
                with suppress(OSError):
                    temporary.unlink()
            _sync_folder(self._target.parent)

    def _name(self, temporary: Path) -> None:
        """Give a whole file the name, unless that is another file's."""
        if self._force if self._before is None else self._holds(self._before):
            temporary.replace(self._target)
        else:
            try:
                os.link(temporary, self._target)
            except FileExistsError:
                raise _taken(self._path) if self._before is None else self._lost(temporary) from None
        self._before = self._content

    def _lost(self, temporary: Path) -> CommandError:
        self.is_there = False
        kept = temporary.with_suffix("")
        temporary.rename(kept)
        return CommandError(f"another file has taken the place of {self._path!r}, and is left as it is; what was to be written is in {str(kept)!r}")

    def _holds(self, content: bytes) -> bool:
        with _told(self._path):
            return self._target.is_file() and self._target.read_bytes() == content

    def _beside(self) -> Path:
        return self._target.with_name(f".{self._target.name[:100]}.{secrets.token_hex(6)}.tmp")


@contextmanager
def new_file(path: str, *, force: bool = False) -> Iterator[NewFile]:
    """Give a new file to write. That it can be written is seen before the block begins; a block that fails before it writes leaves nothing.

    Args:
        path: The file; its folder is there.
        force: Take the place of a file that is there.
    """
    from replay.errors import ReplayError

    file = NewFile(path, force=force)
    try:
        yield file
    except ReplayError:  # what it made is not what was recorded
        raise
    except BaseException:
        with suppress(CommandError):
            file.settle()
        raise
    file.settle()


def _sync_folder(folder: Path) -> None:
    from rag_stdlib.proof.log.privatefile import sync_folder

    sync_folder(folder)


def _taken(path: str) -> CommandError:
    return CommandError(f"there is a file {path!r} already, and it is left as it is; name another one, or give --force")


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CommandError(f"{path!r} cannot be written: {getattr(error, 'strerror', None) or error}; name another file") from None
