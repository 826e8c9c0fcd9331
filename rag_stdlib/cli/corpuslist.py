"""The corpus list as a file below the root: found, read, and changed in one step."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.paths import below_root
from rag_stdlib.corpus import listfile
from rag_stdlib.corpus.listfile import ListedRepo, ListRefused
from rag_stdlib.corpus.listwrite import Changed
from rag_stdlib.errors import Failure, fail
from rag_stdlib.root import Place
from rag_stdlib.runtime import Runtime

_MISSING: Final = frozenset({"file_missing", "path_folder_missing"})
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def list_path(runtime: Runtime, typed: str | None) -> str:
    """Name the list below the root: the one that was typed, or else the configured one."""
    return runtime.config.corpus.list if typed is None else below_root(runtime, typed)


def read_list(runtime: Runtime, path: str) -> tuple[ListedRepo, ...]:
    """Read the list.

    Raises:
        Failure: `corpus_list_missing`, `corpus_list_refused`, and refusals of the path.
    """
    data = list_bytes(runtime, path)
    if data is None:
        raise fail("corpus_list_missing", path=path)
    with list_errors(path):
        return listfile.parse(data, runtime.config.corpus.regime)


def list_bytes(runtime: Runtime, path: str) -> bytes | None:
    """Return what the list file holds; None where there is none.

    Raises:
        Failure: `corpus_list_refused` for one that is too large, and refusals of the path.
    """
    try:
        return runtime.root.read_file(path, listfile.MAX_BYTES)
    except Failure as failure:
        if failure.error.code in _MISSING:
            return None
        if failure.error.code == "file_too_large":
            raise fail("corpus_list_refused", path=path, detail=f"it is larger than {listfile.MAX_BYTES:,} bytes") from None
        raise


@contextmanager
def list_errors(path: str) -> Iterator[None]:
    """Turn a refusal of the list into the error that names its file.

    Raises:
        Failure: `corpus_list_refused`.
    """
    try:
        yield
    except ListRefused as refused:
        said = str(refused).removeprefix("corpus list")  # of the list itself, or of an entry
        detail = f"it {said.removeprefix(': ')}" if said.startswith(": ") else said.removeprefix(", ")
        raise fail("corpus_list_refused", path=path, detail=detail) from None


def change_list(runtime: Runtime, path: str, change: Callable[[bytes | None], Changed]) -> Changed:
    """Have the list file hold what `change` makes of what it holds (None: there is none), in one step, and one process at a time.

    Returns what `change` returned; what it raises leaves the file as it is.

    Raises:
        Failure: `path_folder_missing` and other refusals of the path.
        CommandError: The file cannot be written.
    """
    with runtime.root.place(path) as place:
        found = place.check_regular(writing=False, suffixes=())
        try:
            with _successor(place) as handle:
                if found is not None:
                    os.fchmod(handle, stat.S_IMODE(found.st_mode))
                os.ftruncate(handle, 0)
                with os.fdopen(os.dup(handle), "wb") as file:
                    changed = change(list_bytes(runtime, path))
                    file.write(changed.text.encode())
                    file.flush()
                    os.fsync(handle)
                return changed
        except OSError as error:
            raise CommandError(f"{path!r} cannot be written: {error.strerror or error}") from None


@contextmanager
def _successor(place: Place) -> Iterator[int]:
    """Give the file that takes the list's place when the block ends well. Whoever has it locked is alone in writing the list."""
    import fcntl

    folder = place.folder if place.folder >= 0 else None
    beside, target = (f".{place.name}.new", place.name) if folder is not None else (f"{place.path}.new", place.path)
    while True:
        handle = os.open(beside, _FLAGS, 0o666, dir_fd=folder)
        with ExitStack() as undo:
            undo.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_named(handle, beside, folder):
                continue  # while this process waited, the file before it took its place
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise CommandError(f"{beside!r} beside {place.shown!r} is in the way; remove it")
            undo.callback(_discard, handle, beside, folder)
            yield handle
            os.replace(beside, target, src_dir_fd=folder, dst_dir_fd=folder)
        return


def _is_named(handle: int, name: str, folder: int | None) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _discard(handle: int, name: str, folder: int | None) -> None:
    """Remove a file that did not take the list's place; one of this name that another process has made since then stays."""
    if _is_named(handle, name, folder):
        os.unlink(name, dir_fd=folder)
