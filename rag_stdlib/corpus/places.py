"""Where a sync keeps its things: a hidden folder beside the index, with a mirror for each repository, a lock and the status.

``FOLDER/.rag/NAME/`` belongs to the index ``FOLDER/NAME``. It lies below the [io] root, none of its components is a link, and whoever
deletes it costs the next sync the fetching, nothing else.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rag_stdlib.errors import Failure, fail
from rag_stdlib.root import Root, relative_parts

try:
    import fcntl
except ImportError:  # Windows: a second sync of one index is not noticed there
    fcntl = None  # type: ignore[assignment]

_FOLDER: Final = ".rag"
_LOCK: Final = "sync.lock"
_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.02


class SyncPlace:
    """The folder of an index's sync."""

    def __init__(self, root: Root, index: str) -> None:
        """Check the way to the folder; nothing is made yet.

        Raises:
            Failure: every refusal of the index's path, and `path_symlink` or `path_special` for what stands in the way.
        """
        parts = relative_parts(index, root.path)
        self._shown = index
        walked = ""
        for part in (*parts[:-1], _FOLDER, parts[-1]):
            walked = f"{walked}/{part}" if walked else part
            kind = _kind(root, walked)
            if kind == "link":
                raise fail("path_symlink", path=walked, at=part)
            if kind not in (None, "folder"):
                raise fail("path_special", path=walked, kind="no folder")
        self.folder = Path(root.path, *parts[:-1], _FOLDER, parts[-1])

    def mirror(self, repo_id: str) -> Path:
        """Return where the mirror of a repository is."""
        return self.folder / f"{repo_id}.git"

    @property
    def status(self) -> Path:
        """The file with what the last sync did, or the present one does."""
        return self.folder / "status.json"

    def mirrors(self) -> dict[str, Path]:
        """Return the mirrors that are there, by repository."""
        return {path.stem: path for path in sorted(self.folder.glob("*.git"))}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this index's syncs for the block.

        Raises:
            Failure: `corpus_busy` where another process or thread holds it, `index_io` where the folder cannot be used.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / _LOCK, _FLAGS | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            try:
                taken = _lock(handle, _TRIES)
            except OSError as error:
                raise self._unusable(error) from None
            if not taken:
                raise fail("corpus_busy", what=f"the index {self._shown!r}")
            yield
        finally:
            os.close(handle)

    def _unusable(self, error: OSError) -> Failure:
        return fail("index_io", path=f"{self._shown}: {_FOLDER}", detail=error.strerror or str(error))

    def is_locked(self) -> bool:
        """Tell whether a sync of this index is going on; none is where nothing can be locked."""
        try:
            handle = os.open(self.folder / _LOCK, _FLAGS)
        except OSError:
            return False
        try:
            return not _lock(handle)
        except OSError:
            return False
        finally:
            os.close(handle)


def _kind(root: Root, path: str) -> str | None:
    try:
        return root.kind_of(path)
    except Failure as failure:
        if failure.error.code == "path_folder_missing":
            return None
        raise


def _lock(handle: int, tries: int = 1) -> bool:
    """Take the lock; several tries, since whoever asks for the status holds it for a moment."""
    if fcntl is None:
        return True
    for left in reversed(range(tries)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            if left:
                time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False
