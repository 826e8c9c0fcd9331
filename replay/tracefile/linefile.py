"""A file of chained lines that many threads and processes append to in turn.

Each append takes the file's lock, looks whether others wrote in between, and writes one whole line. What a process leaves that is killed in
the middle of a write is cut off by whoever comes next, and kept in a file beside the trace. A write that fails leaves no part of a line.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from replay.errors import TraceError
from replay.tracefile import chain
from replay.tracefile.reader import LINE_BYTES

_COMPLETED: Final = b'{"kind":"run_completed"'
_TAIL_BYTES: Final = 1 << 14  # read first when another process has written; doubled until it holds the last line

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
        _OPEN.add(self)

    def append(self, events: Sequence[tuple[bytes, bytes]], *, seal: Callable[[str], bytes] | None = None, sync: bool = False) -> int:
        """Write lines, in one write; return the number of the last. Each is given as `chain.link` takes it: front and JSON object.

        `seal` seals the line, given its digest without a seal; `sync` waits for the disk.

        Raises:
            OSError: nothing of the lines is in the file.
            TraceError: trace_order where the run was completed, trace_large, or what stands at the file's end is no trace.
        """
        with self._lock:
            descriptor = self._own()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                size = os.lseek(descriptor, 0, os.SEEK_END)
                if size != self._size:
                    size = self._catch_up(descriptor, size)
                seq, head = self._seq, self._head
                parts: list[bytes] = []
                for front, body in events:
                    linked = chain.link(front, body, seq, head)
                    if seal is not None:
                        linked = chain.with_seal(linked, seal(sha256(linked).hexdigest()))
                    rest, head = chain.end(linked)
                    seq += 1
                    parts += (linked, rest, b"\n")
                data = b"".join(parts)
                if len(data) > LINE_BYTES:
                    raise TraceError("trace_large", f"an event of {len(data)} bytes is longer than a line may be", path=self.path)
                self._write(descriptor, data, size, sync=sync)
                self._seq, self._head, self._size = seq, head, size + len(data)
                return seq - 1
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

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
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != self._identity:
                os.close(descriptor)
                raise TraceError("trace_io", "another file has taken its place", path=self.path)
            self._descriptor = descriptor
        return self._descriptor

    def _write(self, descriptor: int, data: bytes, size: int, *, sync: bool) -> None:
        """Append all of `data` to a file of `size` bytes, or nothing."""
        try:
            written = os.write(descriptor, data)
            while written < len(data):  # the disk is full, which the next write says; or a signal came
                written += os.write(descriptor, memoryview(data)[written:])
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise

    def _catch_up(self, descriptor: int, size: int) -> int:
        """Read number and digest of the last line that another process wrote; return the size of the file up to its end."""
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
