"""A file that is written whole or not at all, and takes no other file's place unless it is told to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_stdlib.cli.frame import CommandError, replayed


@contextmanager
def new_file(path: str, *, force: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Give what takes the content of a new file, which is there when the block ends well.

    That it can be is seen before the block begins. A replay finds what the recorded run wrote: where that is what it writes itself, all is well.

    Args:
        path: The file; its folder is there.
        force: Take the place of a file that is there.
    """
    content = b""

    def put(data: bytes) -> None:
        nonlocal content
        content = data

    with _told(path):
        target = Path(os.path.realpath(path))
        if not force and os.path.lexists(target) and not replayed():
            raise _taken(path)
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
        file = temporary.open("xb")
    try:
        with file:
            yield put
            with _told(path):
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        with _told(path):
            if force:
                temporary.replace(target)
            else:
                _link(temporary, target, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _link(temporary: Path, target: Path, path: str) -> None:
    """Give the file its name, unless that is taken by another one by now."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        if not target.is_file() or target.read_bytes() != temporary.read_bytes():
            raise _taken(path) from None


def _taken(path: str) -> CommandError:
    return CommandError(f"there is a file {path!r} already, and it is left as it is; name another one, or give --force")


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CommandError(f"{path!r} cannot be written: {getattr(error, 'strerror', None) or error}; name another file") from None
