"""A trace as a replay uses it: the recorded calls in their order, each with its ending, and how the run began and ended.

Of a small trace the results are held as they were read, for whoever asks first, and as bytes for those who ask again, so that each
asker gets a value of its own. Of a large one only is held where each call stands, and results are read when they are asked for.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from replay.errors import TraceError
from replay.jsontext import Json, decode, match_key
from replay.recorder import Cancelled, Ending, Raised, Returned
from replay.tracefile.bodies import check_bodies, restore
from replay.tracefile.events import METADATA_KINDS, REQUESTS, WRITER, Request
from replay.tracefile.pairing import CALLS, RESULTS
from replay.tracefile.reader import Event, EventReader, open_trace, read_prelude


class _Source(Protocol):
    """Where the lines of a trace are read again. Safe between threads."""

    path: str
    keeps: bool

    def line(self, at: tuple[int, int]) -> bytes:
        """Return the line of this offset and length, in bytes."""


class _Held:
    """The lines of a small trace, held as bytes."""

    keeps = True

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    def line(self, at: tuple[int, int]) -> bytes:
        return self._data[at[0]:at[0] + at[1]]


class _OnDisk:
    """The lines of a large trace, read by position."""

    keeps = False

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self._descriptor = os.dup(file.fileno())  # stays with this file, whatever becomes of the path
        weakref.finalize(self, os.close, self._descriptor)

    def line(self, at: tuple[int, int]) -> bytes:
        try:
            text = os.pread(self._descriptor, at[1], at[0])
        except OSError as error:
            raise TraceError("trace_io", f"it cannot be read: {error.strerror}", path=self.path) from error
        if len(text) != at[1]:
            raise TraceError("trace_tampered", "it became shorter while it was in use", path=self.path)
        return text


class RecordedCall:
    """One recorded call.

    `kind` is tool, llm or approval, `name` the tool's name. `number` counts the calls from 1; `step` is the number of the call's event
    from 0 and `line` its line; `result_step` and `result_ts_ms` belong to its result, and are None where the run ended inside the call.
    """

    __slots__ = ("_args", "_at", "_key", "_result_at", "_results", "_source", "kind", "line", "name", "number", "result_line", "result_step",
                 "result_ts_ms", "step", "ts_ms")

    def __init__(self, source: _Source, event: Event, at: tuple[int, int], number: int) -> None:
        """Keep where the call's event stands; `add_result` adds the ending."""
        request = CALLS[event.kind]
        self.kind: str = request.kind
        self.name: str = event.fields[request.name_field]
        self.number = number
        self.step = event.seq
        self.line = event.line
        self.ts_ms: int = event.fields["ts_ms"]
        self.result_step: int | None = None
        self.result_line: int | None = None
        self.result_ts_ms: int | None = None
        self._source = source
        self._at = at
        self._result_at: tuple[int, int] | None = None
        self._args: list[Json] | None = event.fields["args"] if source.keeps and "bodies" not in event.fields else None
        self._key: bytes | None = None
        self._results: list[dict[str, Any]] = []  # the one for the first who asks

    def __repr__(self) -> str:
        """Name the call."""
        return f"<RecordedCall {self.number}: {self.kind} {self.name} at step {self.step}>"

    def add_result(self, event: Event, at: tuple[int, int]) -> None:
        """Keep where the result stands."""
        self.result_step, self.result_line, self.result_ts_ms = event.seq, event.line, event.fields["ts_ms"]
        self._result_at = at
        if self._source.keeps and "bodies" not in event.fields:
            self._results.append(event.fields)

    @property
    def args(self) -> list[Json]:
        """The arguments, as they were recorded."""
        return self._args if self._args is not None else cast("list[Json]", self._read(self._at, self.line)["args"])

    @property
    def key(self) -> bytes:
        """What an equal call has too: the `match_key` of kind, name and arguments."""
        if self._key is not None:
            return self._key
        key = match_key([self.kind, self.name, self.args])
        if self._args is not None:
            self._key = key
        return key

    @property
    def facts(self) -> dict[str, Any]:
        """What was recorded about the state that answered."""
        return cast("dict[str, Any]", self._result().get("facts") or {})

    def ending(self) -> Ending | None:
        """Return how the call ended; None where the run ended inside it."""
        result = self._result()
        if not result:
            return None
        if result.get("cancelled"):
            return Cancelled()
        raised = result.get("raised")
        if raised is not None:
            if not _is_raised(raised):  # what a body put there
                raise TraceError("trace_body", "raised must be an object with type and message", path=self._source.path, line=self.result_line)
            return Raised(raised["type"], raised["message"], raised.get("args"))
        return Returned(result[REQUESTS[self.kind].result_field])

    def _result(self) -> dict[str, Any]:
        with suppress(IndexError):
            return self._results.pop()
        return self._read(self._result_at, self.result_line or 0) if self._result_at is not None else {}

    def _read(self, at: tuple[int, int], line: int) -> dict[str, Any]:
        try:
            event = decode(self._source.line(at))
        except ValueError:
            raise TraceError("trace_tampered", "it was changed while it was in use", path=self._source.path, line=line) from None
        if "bodies" in event:
            restore(self._source.path, event, line)
        return cast("dict[str, Any]", event)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A recorded run.

    `header` and `completed` are the whole events; `others` are the events between that are neither call nor result and that a replay
    does not pass over. `event_count` counts every event, unknown kinds too. `folder` is where
    the command ran, as seen from the trace's folder.
    """

    path: str
    run_id: str
    header: dict[str, Any]
    seed: int
    agent: str
    args: list[Json]
    command: list[str] | None
    completed: dict[str, Any] | None
    calls: tuple[RecordedCall, ...]
    others: tuple[Event, ...]
    notices: tuple[str, ...]
    skipped: dict[str, int]
    event_count: int
    folder: str | None = None


def load_trace(path: str | os.PathLike[str], *, verify: bool = True, incomplete: bool = False, strict: bool = False,
               foreign: bool = False, memory_bytes: int = 64 << 20) -> Trace:
    """Read a trace for replay. A trace that cannot be replayed is an error here, before anything runs.

    `verify` holds the hash chain, which a trace of this recorder has to have, and the files with large values against what the trace
    says. `incomplete` accepts a run that did not come to its end, and `foreign` a trace of another recorder, to be looked at. A
    file of more than `memory_bytes` is not held in memory; a smaller one takes a few times its size.

    Raises:
        TraceError: trace_missing, trace_empty, trace_header, trace_alien, trace_version, trace_seed, trace_order, trace_line,
            trace_large, trace_tampered, trace_body, trace_incomplete, trace_io.
    """
    name = str(Path(path).absolute())
    with open_trace(name) as file:
        size = os.fstat(file.fileno()).st_size
        source: _Source = _OnDisk(name, file)
        stream: BinaryIO = file
        if size <= memory_bytes:
            data = _read_all(file, name)
            source, stream = _Held(name, data), io.BytesIO(data)
        reader = EventReader(name, strict=strict, chain="check" if verify else "ignore", bodies="leave", file=stream)
        return _Loader(source, reader, verify=verify).load(incomplete=incomplete, foreign=foreign)


def _read_all(file: BinaryIO, path: str) -> bytes:
    try:
        return file.read()
    except OSError as error:
        raise TraceError("trace_io", f"it cannot be read: {error.strerror}", path=path) from error


class _Loader:
    """Puts calls and results together."""

    def __init__(self, source: _Source, reader: EventReader, *, verify: bool) -> None:
        self._source = source
        self._reader = reader
        self._verify = verify
        self._calls: list[RecordedCall] = []
        self._others: list[Event] = []
        self._open: dict[int, RecordedCall] = {}  # calls without a result, by their step
        self._latest: RecordedCall | None = None  # the call whose result comes next where results name no call
        self._completed: dict[str, Any] | None = None

    def load(self, *, incomplete: bool, foreign: bool) -> Trace:
        path = self._source.path
        events = self._restored(iter(self._reader))
        prelude = read_prelude(events, path, foreign=foreign)
        if self._verify and prelude.header["writer"] == WRITER and not self._reader.chain.chained:
            raise TraceError("trace_tampered", "it carries no hash chain, which every trace of this recorder has", path=path, line=1)
        run_id = prelude.header["run_id"]
        for event in events:
            if self._completed is not None:
                raise self._misplaced(event, "an event follows run_completed")
            if event.fields["run_id"] != run_id:
                raise self._misplaced(event, f"the event belongs to another run, {event.fields['run_id']!r}; this one is {run_id!r}")
            self._take(event)
        if self._completed is None and not incomplete:
            raise TraceError("trace_incomplete", "the run did not come to its end; there is no run_completed", path=path)
        command, folder = prelude.started.get("command"), prelude.started.get("folder")
        return Trace(path, run_id, prelude.header, prelude.seed["value"], prelude.started["agent"], prelude.started["args"],
                     command if isinstance(command, list) else None, self._completed, tuple(self._calls), tuple(self._others),
                     tuple(self._reader.notices), dict(self._reader.skipped), self._reader.chain.count,
                     folder if isinstance(folder, str) else None)

    def _restored(self, events: Iterator[Event]) -> Iterator[Event]:
        """Check the bodies of each event; put those in their places that are not read later."""
        for event in events:
            if "bodies" in event.fields:
                if event.kind not in CALLS and event.kind not in RESULTS:
                    restore(self._source.path, event.fields, event.line)
                elif self._verify:
                    check_bodies(self._source.path, event.fields, event.line)
            yield event

    def _take(self, event: Event) -> None:
        at = self._reader.offset, len(self._reader.text)
        if event.kind in CALLS:
            call = RecordedCall(self._source, event, at, len(self._calls) + 1)
            self._calls.append(call)
            self._open[call.step] = self._latest = call
        elif event.kind in RESULTS:
            self._check_result(event)
            call = self._call_of(event, RESULTS[event.kind])
            del self._open[call.step]
            call.add_result(event, at)
        elif event.kind == "run_completed":
            self._completed = event.fields
        elif event.kind in {"schema_header", "run_started"}:
            raise self._misplaced(event, f"a second {event.kind}")
        elif event.kind not in METADATA_KINDS and not self._decides(event):
            self._others.append(event)

    def _decides(self, event: Event) -> bool:
        """Tell whether this is the decision on a request that is still open: the response that follows says the same."""
        return event.kind == "approval_decision" and any(call.kind == "approval" for call in self._open.values())

    def _call_of(self, event: Event, request: Request) -> RecordedCall:
        """Find the open call that a result ends: the one it names, or else the one that came last."""
        step = event.fields.get("call")
        call = self._latest if step is None else self._open.get(step)
        if call is None or call.step not in self._open:
            raise self._misplaced(event, "a result without its call: the call was never made, or has its result already")
        name = event.fields[request.name_field]
        if (call.kind, call.name) != (request.kind, name):
            msg = f"the result is that of the {request.kind} {name!r}, but the call at line {call.line} is to the {call.kind} {call.name!r}"
            raise self._misplaced(event, msg)
        return call

    def _check_result(self, event: Event) -> None:
        """Refuse further fields of a result that could not be read as an ending."""
        fields = event.fields
        raised = fields.get("raised")
        call = fields.get("call")
        problem = ""
        if call is not None and type(call) is not int:
            problem = "call must be the number of an event"
        elif type(fields.get("cancelled", False)) is not bool:
            problem = "cancelled must be a boolean"
        elif raised is not None and not _is_raised(_with_bodies(raised, fields.get("bodies"))):
            problem = "raised must be an object with type and message"
        elif type(fields.get("facts", {})) is not dict:
            problem = "facts must be an object"
        if problem:
            raise TraceError("trace_line", f"{event.kind}: {problem}", path=self._source.path, line=event.line)

    def _misplaced(self, event: Event, message: str) -> TraceError:
        return TraceError("trace_order", message, path=self._source.path, line=event.line)


def _with_bodies(raised: Json, bodies: Json) -> Json:
    """Put a text in the place of the one that is in a file of its own."""
    return {**raised, "message": ""} if type(raised) is dict and type(bodies) is dict and "/raised/message" in bodies else raised


def _is_raised(raised: Json) -> bool:
    return (type(raised) is dict and type(raised.get("type")) is str and type(raised.get("message")) is str
            and (raised.get("args") is None or type(raised["args"]) is list))
