"""A trace as a timeline for people: a line per event, calls with what they asked, how they ended and how long they took.

Any trace that can be read is shown, whoever wrote it and however it ended. The lines come while the trace is read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final, TypeAlias

from replay.errors import TraceError
from replay.jsontext import short
from replay.reports.display import NARROWEST, cell, clean, columns, ending, fit, flowed, headed, is_error, plural
from replay.tracefile.events import KINDS, SEED_PURPOSE
from replay.tracefile.pairing import CALLS, RESULTS, Opened, Pairing, bodies_of, ending_of, time_of
from replay.tracefile.reader import Event, EventReader

Styled: TypeAlias = Callable[..., str]

_FRAME: Final = ("run_started", "schema_header", "seed_read")
_BOLD: Final = 1
_DIM: Final = 2
_RED: Final = 31
_YELLOW: Final = 33
_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_WIDE: Final = 72  # columns from which the kinds of events are written out
_KIND: Final = 10  # columns of a kind


def plain(text: str, *_codes: int) -> str:
    """Leave a text as it is: the style where no colour is asked for."""
    return text


@dataclass(slots=True)
class _State:
    """What was seen so far."""

    width: int
    styled: Styled
    pairing: Pairing = field(default_factory=Pairing)
    frame: dict[str, Event] = field(default_factory=dict)
    opened: bool = False  # the head was written
    waiting: Event | None = None  # a call, until the next event says whether it is its result
    run_id: str = ""
    begun: int = 0
    last: int = 0
    events: int = 0
    failed: int = 0
    bodies: Counter[str] = field(default_factory=Counter)
    completed: Event | None = None
    chained: bool = False
    seal: Any = None


def timeline(trace: str | os.PathLike[str] | EventReader, *, width: int = 100, styled: Styled = plain) -> Iterator[str]:
    """Give the lines of a trace: its run, its events, and what is to be said about them.

    `styled(text, *codes)` puts a text in colour by SGR codes; the lines are plain unless it is given. A reader should be one that
    leaves bodies where they are.

    Raises:
        TraceError: where the trace cannot be read (any further), after the lines of what stands before.
    """
    reader = trace if isinstance(trace, EventReader) else EventReader(trace, bodies="leave")
    state = _State(max(width, NARROWEST), styled)
    try:
        for event in reader:
            yield from _lines(state, event)
    except TraceError:
        yield from _rest(state)
        raise
    yield from _rest(state)
    yield from _foot(state, reader)


def _lines(state: _State, event: Event) -> Iterator[str]:
    """Take the next event, and write what can be written by now."""
    _count(state, event)
    if not state.opened and event.kind in _FRAME and event.kind not in state.frame:
        state.frame[event.kind] = event
        return
    yield from _head(state)
    call, state.waiting = state.waiting, None
    if call is not None:
        answers = RESULTS.get(event.kind) is CALLS[call.kind] and event.fields.get("call") in (None, call.seq)
        yield _call(state, call, event if answers else None)
        if answers:
            return
    if event.kind in CALLS:
        state.waiting = event
    else:
        yield _event(state, event)


def _rest(state: _State) -> Iterator[str]:
    yield from _head(state)
    if state.waiting is not None:
        yield _call(state, state.waiting, None)


def _count(state: _State, event: Event) -> None:
    state.events += 1
    if state.events == 1 or event.kind == "run_started":
        state.begun = time_of(event)
        state.run_id = str(event.fields.get("run_id", ""))
    state.last = max(state.last, time_of(event))
    for body in bodies_of(event).values():
        size = body.get("bytes")
        state.bodies.update(files=1, bytes=size if type(size) is int else 0)
    if event.kind == "run_completed":
        state.completed = event
    state.chained = state.chained or "sha256" in event.fields
    state.seal = event.fields.get("seal", state.seal)


def _head(state: _State) -> Iterator[str]:
    """Write what the first events say of the run, once."""
    if state.opened or not state.events:
        return
    state.opened = True
    started, header, seed = (state.frame.get(kind) for kind in _FRAME)
    yield state.styled(fit(state.run_id, state.width), _BOLD)
    if started is not None:
        yield headed(f"agent    {started.fields.get('agent')}", _shown(started, "/args", started.fields.get("args"), state.width), state.width)
        command = started.fields.get("command")
        if isinstance(command, list):
            yield fit(f"command  {' '.join(map(str, command))}", state.width)
    yield fit(f"started  {_utc(state.begun)}", state.width)
    if header is not None:
        yield fit(f"writer   {header.fields.get('writer')}, schema {header.fields.get('version')}", state.width)
    else:
        yield state.styled("note: the trace has no schema_header", _YELLOW)
    if seed is not None:
        name = "seed" if seed.fields.get("purpose") == SEED_PURPOSE else str(seed.fields.get("purpose"))
        yield fit(f"{name:8} {seed.fields.get('value')}", state.width)
    if state.events > len(state.frame):
        yield ""


def _call(state: _State, call: Event, result: Event | None) -> str:
    """Write a call, with its ending where that follows at once."""
    opened = state.pairing.take(call)
    args = _shown(call, "/args", call.fields.get("args"), state.width * 2)
    kind = CALLS[call.kind].kind
    if result is None or opened is None:
        return _line(state, call, kind, _name(call), args, tail=_in_flight(state))
    others = _in_flight(state, "; ")
    state.pairing.take(result)
    return _line(state, call, kind, _name(call), args, _ended(state, result), f"{_took(opened, result)}{others}", failed=_failed(result))


def _event(state: _State, event: Event) -> str:
    """Write an event that is no call."""
    opened = state.pairing.take(event)
    if event.kind in RESULTS:
        if opened is None:
            return _line(state, event, "result", _name(event), "of no open call", _ended(state, event), failed=True)
        return _line(state, event, "result", opened.name, f"of step {opened.step}", _ended(state, event),
                     f"{_took(opened, event)}{_in_flight(state, '; ')}", failed=_failed(event))
    if event.kind == "run_completed":
        value = event.fields.get("result")
        shown = "" if value is None and not bodies_of(event) else _shown(event, "/result", value, state.width)
        error = event.fields.get("error")
        ok = event.fields.get("ok") is True
        return _line(state, event, "end", "ok" if ok else "failed", shown if ok or error is None else str(error), failed=not ok)
    return _line(state, event, event.kind, *_own(event, state.width))


def _own(event: Event, width: int) -> tuple[str, str]:
    """Write an event's own fields: the first one where it is a string, and the others as JSON."""
    fields = [(part.name, event.fields[part.name]) for part in KINDS[event.kind].fields if event.fields.get(part.name) is not None]
    head = ""
    if fields and isinstance(fields[0][1], str):
        head = fields.pop(0)[1]
    shown = [(name, _shown(event, f"/{name}", value, width)) for name, value in fields]
    return head, shown[0][1] if len(shown) == 1 and head else " ".join(f"{name}={value}" for name, value in shown)


def _line(state: _State, event: Event, kind: str, name: str, detail: str, ended: str = "", tail: str = "", *, failed: bool = False) -> str:
    """Set a line: time, step, kind, then what there is to say, as far as the width goes."""
    state.failed += failed and event.kind in (*CALLS, *RESULTS)
    time = f"{_span(time_of(event) - state.begun, '+'):>8}"
    front = f"{state.styled(time, _DIM)} {event.seq:>5}  "
    room = state.width - 16
    if state.width >= _WIDE:
        front += f"{state.styled(cell(kind, _KIND), _BOLD)} "
        room -= _KIND + 1
    else:
        tail = ""
        name = name if kind in {"tool", "result"} else f"{kind} {name}".rstrip()
    tail = f"  {tail}" if tail else ""
    room -= len(tail)
    if ended:
        ended = fit(ended, max(room // 3, room - columns(clean(f"{name} {detail}")) - 4))
        said = f"{headed(name, detail, room - columns(ended) - 4)} -> {state.styled(ended, _RED) if failed else ended}"
    else:
        said = headed(name, detail, room)
        said = state.styled(said, _RED) if failed else said
    return f"{front}{said}{state.styled(tail, _DIM)}".rstrip()


def _name(event: Event) -> str:
    return str(event.fields.get((CALLS.get(event.kind) or RESULTS[event.kind]).name_field, ""))


def _ended(state: _State, event: Event) -> str:
    field_name = RESULTS[event.kind].result_field
    if f"/{field_name}" in bodies_of(event):
        return _shown(event, f"/{field_name}", None, state.width)
    return ending(ending_of(event), state.width)


def _failed(event: Event) -> bool:
    return is_error(ending_of(event))


def _shown(event: Event, pointer: str, value: Any, width: int) -> str:  # noqa: ANN401 - JSON
    """Write a value in short; what is kept in a file of its own, or holds such, by its size."""
    kept = {place: body for place, body in bodies_of(event).items() if place == pointer or place.startswith(f"{pointer}/")}
    if pointer in kept:
        return f"<{_size(kept[pointer].get('bytes'))}>"
    if kept and isinstance(value, list):
        return short([f"<{_size(kept[f'{pointer}/{at}'].get('bytes'))}>" if f"{pointer}/{at}" in kept else item
                      for at, item in enumerate(value)], width)
    return short(value, width)


def _size(count: Any) -> str:  # noqa: ANN401 - JSON
    if type(count) is not int:
        return "?"
    return f"{count} B" if count < 1000 else f"{count / 1000:,.1f} kB" if count < 1000**2 else f"{count / 1000**2:,.1f} MB"  # noqa: PLR2004 - the step between units


def _took(opened: Opened, result: Event) -> str:
    return _span(time_of(result) - opened.ts_ms)


def _in_flight(state: _State, lead: str = "") -> str:
    count = len(state.pairing.open)
    return f"{lead}{count} in flight" if count > 1 else ""


def _span(ms: int, plus: str = "") -> str:
    sign, ms = ("-", -ms) if ms < 0 else (plus, ms)
    if ms < 10 * _SECOND:
        return f"{sign}{ms} ms"
    if ms < 10 * _MINUTE:
        return f"{sign}{ms / _SECOND:.1f} s"
    return f"{sign}{ms / _MINUTE:,.1f} min"


def _utc(ms: int) -> str:
    try:
        time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms after 1970"
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03} UTC"


def _foot(state: _State, reader: EventReader) -> Iterator[str]:
    took = f", took {_span(state.last - state.begun)}" if state.events else ""
    calls = plural(state.pairing.count, "calls")
    failed = f" ({state.failed:,} failed)" if state.failed else ""
    if state.events > len(state.frame):
        yield ""
    yield from flowed(f"{plural(state.events, 'events')}, {calls}{failed}{took}", state.width)
    for text in _notes(state, reader):
        yield from (state.styled(line, _YELLOW) for line in flowed(clean(f"note: {text}"), state.width))
    if state.bodies["files"]:
        yield from flowed(f"{plural(state.bodies['files'], 'values')} of {_size(state.bodies['bytes'])} kept in files beside the trace",
                          state.width)
    if state.seal is not None:
        key = state.seal.get("key_id") if isinstance(state.seal, dict) else None
        yield from flowed(clean(f"sealed by key {key}; the seal was not checked here"), state.width)
    elif state.chained:
        yield from flowed("hash chain there, not checked here; not sealed", state.width)
    elif state.events:
        yield from flowed("no hash chain: a change to this trace cannot be noticed", state.width)


def _notes(state: _State, reader: EventReader) -> Iterator[str]:
    if state.completed is None:
        yield "the run is not complete: there is no run_completed"
    still = state.pairing.open
    if still:
        steps = ", ".join(str(one.step) for one in still[:10]) + (", …" if len(still) > 10 else "")  # noqa: PLR2004 - what one reads
        yield f"{plural(len(still), 'calls')} did not end: step {steps}"
    yield from reader.notices
    if reader.skipped:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in reader.skipped.most_common())
        yield f"{plural(sum(reader.skipped.values()), 'events')} of kinds that are not known here: {kinds}"
