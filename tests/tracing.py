"""What the tests of traces share: making one by hand or by the writer, and reading its lines."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from replay.redaction.redactor import Redactor
from replay.tracefile.writer import TraceWriter, WriterOptions

START = "0" * 64


def hiding(*secrets: str) -> Redactor:
    """Return a redactor of these secrets alone, whatever the environment holds."""
    return Redactor(environ={}, secrets=secrets)


def counting(start: int = 1_700_000_000_000) -> Callable[[], int]:
    """Return a clock that goes on by a millisecond at each look."""
    return itertools.count(start).__next__


def drawing() -> Callable[[int], bytes]:
    """Return a source of entropy that is none: 00 01 02 and so on."""
    numbers = itertools.count()
    return lambda size: bytes(next(numbers) % 256 for _ in range(size))


def create(path: Path, **options: Any) -> TraceWriter:
    """Begin a trace, by default without secrets."""
    given: dict[str, Any] = {"agent": "main", "args": [], "redactor": hiding(), "clock_ms": counting(), **options}
    return TraceWriter.create(path, **given)


def call(writer: TraceWriter, tool: str, args: list[Any], result: Any, **further: Any) -> int:
    """Write a call and its result; return the call's step."""
    step = writer.append("tool_call", {"tool": tool, "args": args})
    writer.append("tool_result", {"tool": tool, "result": result, "call": step, **further})
    return step


def record(path: Path, calls: Iterable[tuple[str, list[Any], Any]] = (("add", [1, 2], 3), ("search", ["q"], ["a", "b"])),
           **options: Any) -> Path:
    """Write a whole trace."""
    writer = create(path, **options)
    for tool, args, result in calls:
        call(writer, tool, args, result)
    writer.complete(ok=True, result={"done": True})
    return path


def small_bodies(limit: int) -> WriterOptions:
    return WriterOptions(body_bytes=limit)


def write_events(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    """Write events as they are, one a line, without a chain."""
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    return path


def plain_run(*middle: dict[str, Any], complete: bool = True) -> list[dict[str, Any]]:
    """Return the events of a run of this recorder without a chain."""
    events: list[dict[str, Any]] = [
        {"kind": "schema_header", "version": 2, "writer": "rag-stdlib-replay"},
        {"kind": "seed_read", "purpose": "rollout_default_seed", "value": 7},
        {"kind": "run_started", "agent": "main", "args": []},
        *middle,
        *([{"kind": "run_completed", "ok": True}] if complete else []),
    ]
    return [{"ts_ms": number, "run_id": "run-1", **event} for number, event in enumerate(events)]


def chained(events: Iterable[dict[str, Any]], prev: str = START, first: int = 0) -> Iterator[bytes]:
    """Chain events, by the words of the format alone; give lines without LF."""
    for seq, event in enumerate(events, first):
        own = {name: value for name, value in event.items() if name not in {"seq", "prev", "seal", "sha256"}}
        text = json.dumps({**own, "seq": seq, "prev": prev}, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
        prev = hashlib.sha256(text).hexdigest()
        yield text + f',"sha256":"{prev}"}}'.encode()


def events_of(path: Path) -> list[dict[str, Any]]:
    """Parse every line."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
