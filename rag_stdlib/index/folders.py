"""One descriptor for each folder in use, whatever the number of connections.

SQLite shares a file's ``-shm`` between all connections of the process and removes it by the name that the first of them
gave. As that name goes through a folder's descriptor, the descriptor must live as long as any connection in the folder: once
its number stood for another folder, SQLite would leave the file behind, or remove another index's.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Final

from rag_stdlib.root import Place


@dataclass(slots=True)
class _Shared:
    descriptor: int
    users: int


class Folders:
    """The folders in use, by device and inode."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._shared: dict[tuple[int, int], _Shared] = {}

    def adopt(self, place: Place) -> None:
        """Put the shared descriptor of its folder into an anchored place, which is then given back by `release`."""
        if place.folder < 0:
            return
        key = _identity(place.folder)
        with self._lock:
            shared = self._shared.setdefault(key, _Shared(place.folder, 0))
            shared.users += 1
            if shared.descriptor != place.folder:
                os.close(place.folder)
                place.folder = shared.descriptor
                place.path = f"/proc/self/fd/{place.folder}/{place.name}"

    def release(self, place: Place) -> None:
        """Give a place back; the last user of a folder closes it."""
        if place.folder < 0:
            return
        key = _identity(place.folder)
        with self._lock:
            shared = self._shared[key]
            shared.users -= 1
            if not shared.users:
                del self._shared[key]
                place.close()
        place.folder = -1


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


FOLDERS: Final = Folders()
