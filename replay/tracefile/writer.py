"""Writing a trace: each event is encoded, redacted, linked into the chain and written as one whole line, before the next thing happens.

A trace is one run's: made new, never written over, and named by an id that no other run has. Threads, tasks and the processes of a run
may write at the same time. What cannot be written is told once and never costs the program its result, unless it asked to be stopped.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from replay.errors import ReplayError, TraceError, TraceWarning, TraceWriteError
from replay.jsontext import Json, decode, encode
from replay.tracefile.bodies import folder_of, move_out, write_body
from replay.tracefile.events import KINDS, LINE_FIELDS, SCHEMA_VERSION, SEED_PURPOSE, WRITER, ordered, problem_in
from replay.tracefile.files import reason_of
from replay.tracefile.linefile import LineFile, open_to_append
from replay.tracefile.reader import EventReader, read_prelude
from replay.tracefile.staged import hold, release

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from typing_extensions import Self

_DRAWS: Final = 16  # of a run id that no file has yet
_NAME_BYTES: Final = 255 - len(folder_of(""))  # a file's name, so that its folder's is none too long
_HEADS: Final = {kind: b'{"kind":"%b","ts_ms":' % kind.encode() for kind in KINDS}


def now_ms() -> int:
    """Return the wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


class Redacts(Protocol):
    """What hides secrets in JSON text."""

    def json(self, text: bytes, /) -> bytes:
        """Return the text without secrets; the very same object where it holds none."""


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a trace is written.

    An argument or result longer than `body_bytes` goes to a file beside the trace. `fsync` waits for the disk at each event.
    `on_error` says what a failed write does: ``report`` warns once and lets the program go on, ``stop`` raises.
    """

    body_bytes: int = 1 << 20
    fsync: bool = False
    on_error: Literal["report", "stop"] = "report"


class TraceWriter:
    """An open trace. Make it with `create`, or go on with another process's by `join`."""

    def __init__(self, file: LineFile, run_id: str, seed: int, redactor: Redacts, options: WriterOptions, *,
                 clock_ms: Callable[[], int], entropy: Callable[[int], bytes], seal_key: Ed25519PrivateKey | None = None) -> None:
        """Write to an open file."""
        self.path = file.path
        self.run_id = run_id
        self._run_id = b',"run_id":%b,' % encode(run_id)
        self.seed = seed
        self._file = file
        self._redactor = redactor
        self._options = options
        self._clock_ms = clock_ms
        self._entropy = entropy
        self._seal_key = seal_key
        self._failures: dict[str, TraceWriteError] = {}  # the first one, under "first"
        self._closed = ""

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, agent: str, args: list[Json], redactor: Redacts,
               options: WriterOptions = WriterOptions(), command: list[str] | None = None, folder: str | None = None,
               clock_ms: Callable[[], int] = now_ms, entropy: Callable[[int], bytes] = os.urandom,
               seal_key: Ed25519PrivateKey | None = None, source_path: str | None = None) -> Self:
        """Begin a new trace: header, seed, start. A folder gets a file named by the run; a file may not be there yet.

        `folder` is where the command runs; it is written as seen from the trace's own folder, so that both may move together.

        Raises:
            TraceError: trace_exists, trace_io.
        """
        now = clock_ms()
        file, run_id = _new_file(path, lambda: f"run-{now}-{entropy(4).hex()}")
        seed = int.from_bytes(entropy(8), "big")
        writer = cls(file, run_id, seed, redactor, options, clock_ms=clock_ms, entropy=entropy, seal_key=seal_key)
        started: dict[str, Any] = {"agent": agent, "args": args}
        if command is not None:
            started["command"] = command
        if folder is not None:
            started["folder"] = os.path.relpath(os.path.realpath(folder), os.path.realpath(Path(file.path).parent))
        try:
            file.append([
                writer._event("schema_header", {"version": SCHEMA_VERSION, "writer": WRITER, "commit_sha": None, "source_path": source_path}),
                writer._event("seed_read", {"purpose": SEED_PURPOSE, "value": seed}),
                writer._event("run_started", started),
            ], sync=options.fsync)
            if options.fsync:
                _sync_folder(file.path)
        except BaseException as error:
            file.close()
            with suppress(OSError):
                Path(file.path).unlink()  # ours, and not begun
            release(file.path)
            if isinstance(error, OSError):
                raise TraceError("trace_io", f"it cannot be written: {error.strerror}", path=file.path) from error
            raise
        return writer

    @classmethod
    def join(cls, path: str | os.PathLike[str], *, redactor: Redacts, options: WriterOptions = WriterOptions(),
             clock_ms: Callable[[], int] = now_ms, entropy: Callable[[int], bytes] = os.urandom,
             seal_key: Ed25519PrivateKey | None = None) -> Self:
        """Go on with an unfinished trace. A torn last line is cut off, kept in ``<path>.torn-N``, and noted in `notices`.

        Raises:
            TraceError: what `load_trace` raises for the first three events; trace_order where the run was completed.
        """
        name = str(Path(path).absolute())
        prelude = read_prelude(islice(EventReader(name), 3), name)
        if prelude.header["version"] != SCHEMA_VERSION:
            raise TraceError("trace_version", f"only traces of schema version {SCHEMA_VERSION} are continued", path=name, line=1)
        try:
            file = LineFile(name, open_to_append(name))
        except OSError as error:
            raise TraceError("trace_io", f"it cannot be written: {error.strerror}", path=name) from error
        try:
            file.catch_up()
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                raise TraceError("trace_io", f"it cannot be written: {error.strerror}", path=name) from error
            raise
        return cls(file, prelude.header["run_id"], prelude.seed["value"], redactor, options, clock_ms=clock_ms, entropy=entropy,
                   seal_key=seal_key)

    @property
    def failure(self) -> TraceWriteError | None:
        """The first event that could not be written, if any; nothing was written after it."""
        return self._failures.get("first")

    @property
    def notices(self) -> tuple[str, ...]:
        """What was found and mended at the end of the file, as sentences."""
        return tuple(self._file.notices)

    def append(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Write one event; return its number in the trace, or -1 where it (or one before it) could not be written.

        Raises:
            ValueError: the event has not the shape of its kind.
            NotRecordable: a value is no JSON.
            TraceWriteError: the trace is complete or closed; or the write failed and `on_error` is ``stop``.
        """
        return self._append(kind, fields)

    def complete(self, *, ok: bool, result: Json = None, error: str | None = None) -> None:
        """Write run_completed, sealed where there is a key, and close."""
        seal: Callable[[str], bytes] | None = None
        if self._seal_key is not None:
            from replay.tracefile.seal import make_seal

            seal = partial(make_seal, self._seal_key)
        try:
            step = self._append("run_completed", {"ok": ok, "result": result, "error": error}, seal, last=True)
        finally:
            self.close()
        if step >= 0:
            self._closed = "complete"

    def close(self) -> None:
        """Close the file, complete or not."""
        self._closed = self._closed or "closed"
        self._file.close()

    def _append(self, kind: str, fields: Mapping[str, Any], seal: Callable[[str], bytes] | None = None, *, last: bool = False) -> int:
        if self._closed:
            raise TraceWriteError(f"trace {self.path!r}: it is {self._closed}; nothing can be added to it")
        if self._failures:
            return self._failed(kind, None)
        try:
            return self._file.append((self._event(kind, fields),), seal=seal, sync=self._options.fsync, last=last)
        except (OSError, TraceError) as error:
            return self._failed(kind, error)

    def _event(self, kind: str, fields: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return the front of an event's line, and its fields as a JSON object: without secrets, and with what is large moved out."""
        problem = problem_in(kind, fields) if kind in KINDS else f"{kind!r} is no kind of event"
        if problem or not LINE_FIELDS.isdisjoint(fields):
            raise ValueError(problem or f"{kind}: the names {', '.join(sorted(LINE_FIELDS))} are the line's own")
        now = self._clock_ms()
        text = encode(ordered(kind, fields))
        redacted = self._redactor.json(text)
        if redacted is not text:
            redacted = _mended(kind, text, redacted)
        if len(redacted) > self._options.body_bytes:
            redacted = move_out(kind, redacted, self._options.body_bytes, self._keep)
        return b"%b%d%b" % (_HEADS[kind], now, self._run_id), redacted

    def _keep(self, body: bytes) -> None:
        write_body(self.path, body, entropy=self._entropy, fsync=self._options.fsync)

    def _failed(self, kind: str, error: OSError | ReplayError | None) -> int:
        """Report a failed write, the first one only; or raise it, each time, where the run is to stop."""
        if error is not None:
            reason = f"trace {self.path!r}: {error.strerror}" if isinstance(error, OSError) else str(error)
            failure = TraceWriteError(f"{reason}; a {kind} event could not be written, and the trace ends before it")
            failure.__cause__ = error
            first = self._failures.setdefault("first", failure) is failure  # one step, so that one thread of many reports
            if first:
                import logging

                log = logging.getLogger("replay")
                if not log.handlers:
                    log.addHandler(logging.NullHandler())  # without one, and without the program's own, the text would be printed too
                log.error("%s", failure)
                if self._options.on_error == "report":
                    warnings.warn(str(failure), TraceWarning, stacklevel=4)
        if self._options.on_error == "stop":
            raise self._failures["first"]
        return -1


def _new_file(path: str | os.PathLike[str], draw: Callable[[], str]) -> tuple[LineFile, str]:
    """Make the file of a new run exclusively; return it and the run's id."""
    name = Path(path).absolute()
    try:
        in_folder = name.is_dir() or os.fspath(path).endswith(os.sep)
        folder = name if in_folder else name.parent
        if not folder.exists():  # a file in its place is refused below, by its true reason
            folder.mkdir(parents=True, exist_ok=True)
        for _ in range(_DRAWS):
            run_id = draw()
            file_name = str(name / f"{run_id}.jsonl" if in_folder else name)
            if len(os.fsencode(os.path.basename(file_name))) > _NAME_BYTES:  # noqa: PTH119 - the name is not normalised
                raise TraceError("trace_io", f"it cannot be created: its name may have {_NAME_BYTES} bytes", path=file_name)
            hold(file_name)
            try:
                return LineFile(file_name, open_to_append(file_name, os.O_CREAT | os.O_EXCL)), run_id
            except FileExistsError:
                if not in_folder:
                    break
    except (OSError, ValueError) as error:
        release(str(name))
        raise TraceError("trace_io", f"it cannot be created: {reason_of(error)}", path=str(name)) from error
    release(file_name)
    if os.path.islink(file_name):  # noqa: PTH114 - as above
        raise TraceError("trace_io", "this is a symbolic link; a trace is written to a new file", path=file_name)
    raise TraceError("trace_exists", "there is a file already; a trace is never written over", path=file_name)


def _mended(kind: str, text: bytes, redacted: bytes) -> bytes:
    """Give redacted fields back their names and numbers: those are the format's own, and no secret of the program."""
    own = {field.name for field in KINDS[kind].fields if field.type in {"unsigned", "integer", "number"}} | {"call"}
    before, after = decode(text), decode(redacted)
    fields = {name: was if name in own else now for (name, was), now in zip(before.items(), after.values(), strict=True)}
    if "raised" in fields:
        fields["raised"] = dict(zip(before["raised"], fields["raised"].values(), strict=True))
    return encode(fields)


def _sync_folder(path: str) -> None:
    descriptor = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
