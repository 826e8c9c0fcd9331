"""Reading a trace event by event, in bounded memory.

Tolerated are CRLF line ends, fields and kinds that are newer than this reader, and a torn last line: a writer that was killed leaves one. So
are a byte order mark and blank lines, unless a hash chain is checked. A bad line that ends in a line end is damage, and so are zero
bytes, which a power loss leaves. Where there is no event at all, the trace is empty, whatever else stands there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Literal

from replay.errors import TraceError
from replay.jsontext import decode
from replay.tracefile.bodies import restore
from replay.tracefile.chain import Chain
from replay.tracefile.events import KINDS, OLDEST_VERSION, SCHEMA_VERSION, SEED_PURPOSE, WRITER, problem_of
from replay.tracefile.files import open_regular, reason_of

LINE_BYTES: Final = 128 << 20
_BLOCK_BYTES: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its 0-based number in the trace, its 1-based line, and the whole object of the line, ``kind`` included."""

    seq: int
    line: int
    kind: str
    fields: dict[str, Any]


class EventReader:
    """Iterates over the events of a trace, once. Everything but the events is told by the attributes.

    `notices` are sentences for people, `skipped` counts the kinds that are not known, `torn` says that the last line was cut off, and
    `chain` what is known of the hash chain. `text` and `offset` are the bytes of the event given last and where they begin.

    Raises (while iterating):
        TraceError: trace_missing, trace_empty, trace_io, trace_line, trace_large, trace_version, trace_tampered, trace_body.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = False, chain: Literal["check", "ignore"] = "ignore",
                 bodies: Literal["read", "leave"] = "read", file: BinaryIO | None = None) -> None:
        """Read `path`. `strict` refuses unknown kinds; `chain` says whether a broken chain is an error.

        `bodies` says whether values kept in files beside the trace are put in their places. `file` is read in place of the path.
        """
        self.path = os.fspath(path)
        self.notices: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.torn = False
        self.chain = Chain()
        self.text = b""
        self.offset = 0
        self._strict = strict
        self._checks = chain == "check"
        self._restores = bodies == "read"
        self._file = file
        self._foreign: tuple[int, str] | None = None  # line and name of the first thing that no recorder of chained traces writes

    def __iter__(self) -> Iterator[Event]:
        """Give the events in their order."""
        if self._file is not None:
            yield from self._events(self._file)
            return
        with open_trace(self.path) as file:
            yield from self._events(file)

    def _events(self, file: BinaryIO) -> Iterator[Event]:
        seq = 0
        for number, (offset, data, ended) in enumerate(split_lines(file, self.path), 1):
            text = data.removesuffix(b"\r")
            if number == 1 and text.startswith(_BOM):
                text = text.removeprefix(_BOM)
                self._note_foreign(number, "a byte order mark")
            if not text.strip():
                self._note_foreign(number, "a blank line")
                continue
            event = self._parsed(text, number) if ended else self._last(text, number)
            if event is None:
                break
            self._check(text, event, number)
            seq += 1
            kind = event["kind"]
            if kind not in KINDS:
                self.skipped[kind] += 1
                continue
            if self._restores and "bodies" in event:
                restore(self.path, event, number)
            self.text, self.offset = text, offset
            yield Event(seq - 1, number, kind, event)
        if seq == 0:
            raise TraceError("trace_empty", "the trace is empty" if not self.torn else "the trace is empty: there is no whole line in it",
                             path=self.path)

    def _note_foreign(self, number: int, what: str) -> None:
        if self._checks and self.chain.chained:
            raise self._error("trace_tampered", f"{what}, which the recorder did not write", number)
        self._foreign = self._foreign or (number, what)

    def _parsed(self, text: bytes, number: int) -> dict[str, Any]:
        if b"\0" in text:
            raise self._error("trace_line", "the line holds zero bytes, as a power loss leaves them; what stood here is lost", number)
        try:
            event = decode(text)
        except ValueError as error:
            raise self._error("trace_line", f"the line failed to parse as JSON ({error})", number) from None
        if not isinstance(event, dict):
            raise self._error("trace_line", "the line is no JSON object", number)
        return event

    def _last(self, text: bytes, number: int) -> dict[str, Any] | None:
        """Read a last line without a line end. Our writer ends every line; another's last one may be whole all the same."""
        try:
            event = self._parsed(text, number)
        except TraceError:
            if b"\0" in text:
                raise
            event = {"sha256": ""}
        if "sha256" in event or problem_of(event):
            self.torn = True
            self.notices.append(f"line {number} was cut off after {len(text)} bytes and is set aside: the program was stopped while it wrote it")
            return None
        self.notices.append(f"line {number}, the last one, has no line end")
        return event

    def _check(self, text: bytes, event: dict[str, Any], number: int) -> None:
        problem = self.chain.problem(text, event)
        if self._checks:
            if problem:
                raise self._error("trace_tampered", problem, number)
            if self._foreign is not None and self.chain.chained:
                self._note_foreign(*self._foreign)
        problem = problem_of(event)
        if problem:
            raise self._error("trace_line", problem, number)
        kind = event["kind"]
        if kind == "schema_header" and not OLDEST_VERSION <= event["version"] <= SCHEMA_VERSION:
            msg = (f"trace schema version {event['version']} is not supported (supported: {OLDEST_VERSION} to {SCHEMA_VERSION}); "
                   "it was written by a newer release")
            raise self._error("trace_version", msg, number)
        if self._strict and kind not in KINDS:
            raise self._error("trace_line", f"the kind {kind!r} is unknown", number)

    def _error(self, code: str, message: str, line: int) -> TraceError:
        return TraceError(code, message, path=self.path, line=line)


@dataclass(frozen=True, slots=True)
class Prelude:
    """The first three events of a trace."""

    header: dict[str, Any]
    seed: dict[str, Any]
    started: dict[str, Any]


def read_prelude(events: Iterator[Event], path: str, *, foreign: bool = False) -> Prelude:
    """Take header, seed and start from the front of a trace: of this recorder, or with `foreign` of any.

    Raises:
        TraceError: trace_header, trace_alien, trace_seed, trace_order.
    """
    header = next(events, None)
    if header is None or header.kind != "schema_header":
        raise TraceError("trace_header", "the trace is missing its schema_header, which is the first line", path=path,
                         line=header.line if header is not None else 1)
    writer = header.fields["writer"]
    if writer != WRITER and not foreign:
        msg = f"it was written by {writer!r}; only traces of {WRITER!r} can be replayed or continued. It can be shown and compared"
        raise TraceError("trace_alien", msg, path=path, line=header.line)
    seed = next(events, None)
    if seed is None or seed.kind != "seed_read" or seed.fields["purpose"] != SEED_PURPOSE:
        msg = f"the trace is missing its {SEED_PURPOSE}, a seed_read behind the header"
        raise TraceError("trace_seed", msg, path=path, line=seed.line if seed is not None else None)
    started = next(events, None)
    if started is None or started.kind != "run_started":
        msg = "the trace contains no run_started behind the seed; it holds no run"
        raise TraceError("trace_order", msg, path=path, line=started.line if started is not None else None)
    return Prelude(header.fields, seed.fields, started.fields)


def open_trace(path: str) -> BinaryIO:
    """Open a trace for reading, unbuffered.

    Raises:
        TraceError: trace_missing, or trace_io where it cannot be opened or is no regular file.
    """
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise TraceError("trace_missing", "there is no such trace; record it first", path=path) from None
    except (OSError, ValueError) as error:
        raise TraceError("trace_io", f"it cannot be opened: {reason_of(error)}", path=path) from error


def split_lines(file: BinaryIO, path: str) -> Iterator[tuple[int, bytes, bool]]:
    """Give each line as (offset in bytes, bytes without the LF, whether a LF ended it). An empty rest is no line."""
    parts: list[bytes] = []  # of the line that goes on
    held = offset = number = 0
    while block := _read(file, path):
        first, *others = block.split(b"\n")
        parts.append(first)
        held += len(first)
        if held > LINE_BYTES:
            raise TraceError("trace_large", f"the line is longer than {LINE_BYTES >> 20} MiB", path=path, line=number + 1)
        for piece in others:
            line = b"".join(parts)
            yield offset, line, True
            number += 1
            offset += len(line) + 1
            parts, held = [piece], len(piece)
    line = b"".join(parts)
    if line:
        yield offset, line, False


def _read(file: BinaryIO, path: str) -> bytes:
    try:
        return file.read(_BLOCK_BYTES)
    except OSError as error:
        raise TraceError("trace_io", f"it cannot be read: {error.strerror}", path=path) from error
