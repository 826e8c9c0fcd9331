"""The places in use: one descriptor for each folder, whatever the number of connections, and the paths SQLite may touch.

SQLite shares a file's ``-shm`` between all connections of the process and removes it by the name that the first of them
gave. As that name goes through a folder's descriptor, the descriptor must live as long as any connection in the folder: once
its number stood for another folder, SQLite would leave the file behind, or remove another index's.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Final

from rag_stdlib.root import SIDE_FILES, Place


@dataclass(slots=True)
class _Shared:
    descriptor: int
    users: int


class Folders:
    """The folders in use, by device and inode, and in `names` how often each path of an index in use, or of its side files, is."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._shared: dict[tuple[int, int], _Shared] = {}
        self._returned: deque[Place] = deque()
        self.names: Counter[str] = Counter()

    def adopt(self, place: Place) -> None:
        """Let SQLite open the place until `release`; an anchored one gets the shared descriptor of its folder."""
        with self._lock:
            if place.folder >= 0:
                self._share(place)
            self.names.update(_names(place))
        self._take_back()

    def _share(self, place: Place) -> None:
        shared = self._shared.setdefault(_identity(place.folder), _Shared(place.folder, 0))
        shared.users += 1
        if shared.descriptor != place.folder:
            os.close(place.folder)
            place.folder = shared.descriptor
            place.path = f"/proc/self/fd/{place.folder}/{place.name}"

    def release(self, place: Place) -> None:
        """Give a place back; the last user of a folder closes it.

        It waits for nobody, since the collector closes forgotten stores in the midst of anything, also of what is done here: who is
        at it now takes this place back as well. The place has no folder any more from here on, whose descriptor is that of others too.
        """
        self._returned.append(replace(place))
        place.folder = -1
        self._take_back()

    def _take_back(self) -> None:
        while self._returned and self._lock.acquire(blocking=False):
            try:
                while self._returned:
                    self._drop(self._returned.popleft())
            finally:
                self._lock.release()

    def _drop(self, place: Place) -> None:
        for name in _names(place):
            self.names[name] -= 1
            if not self.names[name]:
                del self.names[name]
        if place.folder >= 0:
            self._unshare(place)

    def _unshare(self, place: Place) -> None:
        key = _identity(place.folder)
        shared = self._shared[key]
        shared.users -= 1
        if not shared.users:
            del self._shared[key]
            place.close()


def _names(place: Place) -> list[str]:
    return [place.path + suffix for suffix in ("", *SIDE_FILES)]


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


FOLDERS: Final = Folders()
