"""The table of `rag trace list`: what each file of a folder holds, or why that cannot be said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.terminal import size, styled
from rag_stdlib.cli.tracing import check_header
from replay.errors import TraceError
from replay.reports.display import UNLIMITED, cell, clean, columns, flowed
from replay.tracefile.pairing import CALLS
from replay.tracefile.reader import Event, EventReader

_FOLDER: Final = "traces"
_GAP: Final = 2
_NARROW: Final = 12  # columns that a file's name, and what state it is in, have at least
_AGENT: Final = 16
_STATE: Final = 22  # columns of the state for which others go
_NUMBERS: Final = (3, 4)
_DISPENSABLE: Final = (4, 2, 1)  # columns that go where there is no room, in this order


@dataclass(slots=True)
class Summary:
    """A trace: its run, when it started (ms of Unix time), its calls and events, its state, and its size (bytes).

    `state` is complete, unfinished or unreadable, `problem` why it is the last. `ok` and `error` are how a complete run ended.
    """

    file: str
    state: str = "unfinished"
    run_id: str = ""
    agent: str = ""
    args: list[Any] = field(default_factory=list)
    started_ms: int | None = None
    calls: int = 0
    events: int = 0
    ok: bool | None = None
    error: str | None = None
    problem: str = ""
    bytes: int = 0

    def take(self, event: Event) -> None:
        """Take the next event of the trace."""
        self.calls += event.kind in CALLS
        if event.kind == "run_started":
            self.run_id, self.agent, self.args = event.fields["run_id"], event.fields["agent"], event.fields["args"]
            self.started_ms = event.fields["ts_ms"]
        elif event.kind == "run_completed":
            self.state, self.ok, self.error = "complete", event.fields["ok"], event.fields.get("error")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def default_folder() -> str:
    """Return the folder that is meant where none is named."""
    return _FOLDER if Path(_FOLDER).is_dir() else "."


def summaries(folder: str) -> list[Summary]:
    """Look at each trace of a folder, in the order of the names."""
    path = Path(folder)
    if not path.is_dir():
        raise CommandError(f"{folder!r} {'is no folder' if path.exists() else 'does not exist'}; name a folder that holds traces")
    return [_summary(path / name) for name in sorted(one.name for one in path.iterdir() if one.name.endswith(".jsonl"))]


def _summary(path: Path) -> Summary:
    found = Summary(path.name)
    reader = EventReader(path, bodies="leave")
    try:
        found.bytes = path.stat().st_size
        check_header(str(path))
        for event in reader:
            found.take(event)
    except (TraceError, OSError) as error:
        line = getattr(error, "line", None)
        said = str(error).removeprefix(f"trace {str(path)!r}: ") if isinstance(error, TraceError) else error.strerror or str(error)
        found.state, found.problem = "unreadable", said if line is None or said.startswith("line ") else f"line {line}: {said}"
    found.events = reader.chain.count
    return found


def table(found: Sequence[Summary], width: int) -> Iterator[str]:
    """Give the lines of the table, at most `width` columns wide."""
    if not found:
        return
    rows = [("file", "started (UTC)", "agent", "calls", "size", "state"), *map(_row, found)]
    widths = [max(columns(clean(row[at])) for row in rows) for at in range(6)]
    shown = list(range(6))
    if width < UNLIMITED:
        widths[2] = min(widths[2], _AGENT)
        for least in _DISPENSABLE:
            if sum(widths[at] for at in shown[1:-1]) + (len(shown) - 1) * _GAP + _NARROW + _STATE > width:
                shown.remove(least)
        free = width - sum(widths[at] for at in shown[1:-1]) - (len(shown) - 1) * _GAP
        widths[0] = min(widths[0], max(_NARROW, free - min(widths[5], max(_NARROW, free // 2))))
        widths[5] = min(widths[5], free - widths[0])
    for number, row in enumerate(rows):
        for line in _laid(row, widths, shown):
            yield styled(line, 1) if number == 0 else line


def _laid(row: Sequence[str], widths: Sequence[int], shown: Sequence[int]) -> Iterator[str]:
    """Write a row; what does not fit into its last column goes on below it."""
    *before, last = shown
    front = "".join((f"{row[at]:>{widths[at]}}" if at in _NUMBERS else cell(row[at], widths[at])) + " " * _GAP for at in before)
    for part in flowed(clean(row[last]), widths[last]):
        yield f"{front}{part}".rstrip()
        front = " " * columns(front)


def _row(one: Summary) -> tuple[str, str, str, str, str, str]:
    state = f"{one.state}: {one.problem}" if one.problem else one.state
    if one.ok is False and not one.problem:
        state = f"{state} ({one.error or 'failed'})"
    return one.file, _utc(one.started_ms), one.agent, f"{one.calls:,}", size(one.bytes), state


def _utc(ms: int | None) -> str:
    if ms is None:
        return "-"
    try:
        return f"{datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return "-"
