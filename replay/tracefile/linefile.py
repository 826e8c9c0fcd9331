"""A file of chained lines that many threads and processes append to in turn.

Each append takes the file's lock, looks whether others wrote in between, and writes one whole line. What a process leaves that is killed in
the middle of a write is cut off by whoever comes next, and kept in a file beside the trace. A write that fails leaves no part of a line.
Nothing follows where something of the trace is gone, or where another file stands in its place.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Final

from replay.errors import TraceError
from replay.tracefile import chain
from replay.tracefile.reader import LINE_BYTES

_COMPLETED: Final = b'{"kind":"run_completed"'
_TAIL_BYTES: Final = 1 << 14  # read first when another process has written; doubled until it holds the last line
_LOOK: Final = 64  # appends after which to look whether the file is still in its place

# The path of every event that is recorded.
_flock, _lseek, _writev, _link = fcntl.flock, os.lseek, os.writev, chain.link
_LOCK_EX, _LOCK_UN, _SEEK_END = fcntl.LOCK_EX, fcntl.LOCK_UN, os.SEEK_END

_OPEN: Final[weakref.WeakSet[LineFile]] = weakref.WeakSet()


class LineFile:
    """An open trace, at its end. Safe between threads and processes; a forked child opens the file anew."""

    def __init__(self, path: str, descriptor: int) -> None:
        """Take over a descriptor that reads and appends (O_RDWR, O_APPEND)."""
        self.path = path
        self.notices: list[str] = []
        self._descriptor: int | None = descriptor
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self._lock = threading.Lock()
        self._seq = 0
        self._head = chain.START
        self._size = 0  # of the file as we left it
        self._unseen = 0  # appends since the last look at the path
        _OPEN.add(self)

    def append(self, events: Sequence[tuple[bytes, bytes]], *, seal: Callable[[str], bytes] | None = None, sync: bool = False,
               last: bool = False) -> int:
        """Write lines, in one write; return the number of the last. Each is given as `chain.link` takes it: front and JSON object.

        `seal` seals the line, given its digest without a seal; `sync` waits for the disk; `last` looks whether the file is still there.

        Raises:
            OSError: nothing of the lines is in the file.
            TraceError: trace_order where the run was completed, trace_large, trace_io where the file is gone, trace_tampered where a
                part of it is, or what stands at its end is no trace.
        """
        with self._lock:
            descriptor = self._descriptor
            if descriptor is None:
                descriptor = self._own()
            _flock(descriptor, _LOCK_EX)
            try:
                size = _lseek(descriptor, 0, _SEEK_END)
                if size != self._size:
                    size = self._catch_up(descriptor, size)
                self._unseen += 1
                if last or self._unseen >= _LOOK:
                    self._look()
                seq, head = self._seq, self._head
                parts: list[bytes | memoryview] = []
                for front, body in events:
                    fields, rest, head = _link(front, body, seq, head, seal)
                    seq += 1
                    parts += (front, fields, rest)
                self._size = size + self._write(descriptor, parts, size, sync=sync)
                self._seq, self._head = seq, head
                return seq - 1
            finally:
                _flock(descriptor, _LOCK_UN)

    def catch_up(self) -> None:
        """Go to the end of a trace that others wrote, and cut off a torn last line.

        Raises:
            TraceError, OSError: as `append`.
        """
        self.append(())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._release()
            _OPEN.discard(self)

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def after_fork(self) -> None:
        """Begin anew in a child: a lock held by a thread of the parent, or on the parent's descriptor, is none of ours."""
        self._lock = threading.Lock()
        self._release()

    def _own(self) -> int:
        if self._descriptor is None:
            descriptor = open_to_append(self.path)
            try:
                self._check(os.fstat(descriptor))
            except TraceError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        return self._descriptor

    def _look(self) -> None:
        """Look whether what we write to is what others find at the path."""
        try:
            self._check(os.stat(self.path))  # noqa: PTH116 - a pathlib path would have to be made first
        except FileNotFoundError:
            raise TraceError("trace_io", "somebody has removed it while it was written", path=self.path) from None
        self._unseen = 0

    def _check(self, status: os.stat_result) -> None:
        if (status.st_dev, status.st_ino) != self._identity:
            raise TraceError("trace_io", "another file has taken its place", path=self.path)

    def _write(self, descriptor: int, parts: list[bytes | memoryview], size: int, *, sync: bool) -> int:
        """Append all parts to a file of `size` bytes, or nothing; return how many bytes they have."""
        length = sum(map(len, parts))
        if length > LINE_BYTES:
            raise TraceError("trace_large", f"an event of {length} bytes is longer than a line may be", path=self.path)
        try:
            written = _writev(descriptor, parts) if parts else 0
            if written < length:  # the disk is full, which the next write says; or a signal came
                data = memoryview(b"".join(parts))
                while written < length:
                    written += os.write(descriptor, data[written:])
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        return length

    def _catch_up(self, descriptor: int, size: int) -> int:
        """Read number and digest of the last line that another process wrote; return the size of the file up to its end."""
        if size < self._size:
            raise TraceError("trace_tampered", f"somebody has cut it from {self._size} to {size} bytes while it was written", path=self.path)
        self._unseen = _LOOK
        span = min(_TAIL_BYTES, size)
        while True:
            tail = os.pread(descriptor, span, size - span)
            whole = tail.rfind(b"\n") + 1  # up to here lines are whole
            start = tail.rfind(b"\n", 0, max(0, whole - 1)) + 1
            if (whole and start) or span == size:
                break
            span = min(2 * span, size)
        line = tail[start:max(0, whole - 1)]
        found = chain.read_end(line)
        if found is None:
            raise TraceError("trace_tampered", "the last line carries no hash chain that could be continued", path=self.path)
        if line.startswith(_COMPLETED):
            raise TraceError("trace_order", "the run was completed; nothing can follow", path=self.path)
        if whole < len(tail):
            size = self._cut(descriptor, size - (len(tail) - whole), tail[whole:])
        self._seq, self._head, self._size = found[0] + 1, found[1], size
        return size

    def _cut(self, descriptor: int, size: int, torn: bytes) -> int:
        """Take a torn last line off the file and keep it beside it; return the size that is left."""
        if b"\0" in torn:
            msg = "zero bytes stand at its end, as a power loss leaves them; what stood there is lost, and nothing is appended"
            raise TraceError("trace_line", msg, path=self.path)
        number = 1
        while True:
            kept = f"{self.path}.torn-{number}"
            try:
                aside = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                number += 1
        with os.fdopen(aside, "wb") as file:
            file.write(torn)
        os.ftruncate(descriptor, size)
        self.notices.append(f"the last line was cut off after {len(torn)} bytes (a program was stopped while it wrote it); it is kept in {kept!r}")
        return size


def open_to_append(path: str, flags: int = 0) -> int:
    """Open a trace to append to it; a new one is its owner's alone."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)


def _after_fork_in_child() -> None:
    for file in list(_OPEN):
        file.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
