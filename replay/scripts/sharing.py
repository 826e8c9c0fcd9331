"""Which recorded calls were used, one byte each, in memory that several processes share.

Forked children inherit it; processes that were started otherwise find it in a file. Threads are held off by a lock of their own, for
a lock on a file is the whole process's; the one on the file goes with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
import threading
import weakref
from functools import cache
from typing import TYPE_CHECKING, Final

from replay.errors import ReplayError, TraceError

if TYPE_CHECKING:
    from typing_extensions import Self

_ALL: Final[weakref.WeakSet[SharedUse]] = weakref.WeakSet()
_numbers: Final = itertools.count()


class SharedUse:
    """The bytes, as `buffer`, and the lock that guards them: ``with use:``."""

    def __init__(self, buffer: bytearray | mmap.mmap, descriptor: int, at: int = 0) -> None:
        """Guard a buffer by the byte `at` of an open file."""
        self.buffer = buffer
        self._descriptor = descriptor
        self._at = at
        self._threads = threading.Lock()
        _ALL.add(self)

    @classmethod
    def of_forks(cls, calls: int) -> Self:
        """Make the bytes of a session, to be shared with the children that this process forks."""
        return cls(mmap.mmap(-1, calls) if calls else bytearray(), _lock_file(), next(_numbers))

    @classmethod
    def of_file(cls, path: str, calls: int) -> Self:
        """Take those in a file, which another process made `calls` bytes long.

        Raises:
            TraceError: trace_order where it is of another length.
            ReplayError: the file is gone.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ReplayError("the replay is over: the process that began it has ended, and this one has outlived it") from None
        try:
            size = os.fstat(descriptor).st_size
            if size != calls:
                raise TraceError("trace_order", f"{size} calls were counted in it when the replay began, now there are {calls}", path=path)
            # nothing can be mapped of an empty file; then there is nothing to share either
            return cls(mmap.mmap(descriptor, calls) if calls else bytearray(), descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def lock(self) -> Self:
        """Return what holds off the other threads and processes."""
        return self

    def __enter__(self) -> None:
        """Hold them off."""
        self._threads.acquire()
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, self._at)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_error: object) -> None:
        """Let them go on."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._at)
        finally:
            self._threads.release()

    def after_fork(self) -> None:
        """Begin anew in a child: a lock that a thread of the parent held is none of ours."""
        self._threads = threading.Lock()


@cache
def _lock_file() -> int:
    """Open a file without a name for the locks of all sessions of this process and those that are forked from it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("replay", os.MFD_CLOEXEC)
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix="replay-")
    os.unlink(name)  # noqa: PTH108 - a name that never was a path of anybody's
    return descriptor


def _after_fork_in_child() -> None:
    for use in list(_ALL):
        use.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
