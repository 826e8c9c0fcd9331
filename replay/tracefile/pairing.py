"""Calls and their results, paired while a trace is read from front to back, for those who show or compare runs.

A result names its call by index. Traces of other writers do not: there it is the last call of its kind that has no result yet.
Nothing is refused here; a result of no call is paired with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from replay.recorder import Cancelled, Ending, Raised, Returned
from replay.tracefile.events import REQUESTS, Request
from replay.tracefile.reader import Event

CALLS: Final[Mapping[str, Request]] = {request.call_event: request for request in REQUESTS.values()}
RESULTS: Final[Mapping[str, Request]] = {request.result_event: request for request in REQUESTS.values()}


@dataclass(frozen=True, slots=True)
class Opened:
    """A call whose result was not read yet; `number` counts calls from 1, `step` is the index of its event."""

    number: int
    step: int
    request: Request
    name: str
    ts_ms: int


class Pairing:
    """The calls that are open at the point that was read."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self.count = 0
        self._open: dict[int, Opened] = {}

    @property
    def open(self) -> tuple[Opened, ...]:
        """The open calls in their order."""
        return tuple(self._open.values())

    def take(self, event: Event) -> Opened | None:
        """Take the next event; return the call that it opens or answers, or None where it does neither."""
        request = CALLS.get(event.kind)
        if request is not None:
            self.count += 1
            opened = Opened(self.count, event.seq, request, str(event.fields.get(request.name_field, "")), time_of(event))
            self._open[event.seq] = opened
            return opened
        request = RESULTS.get(event.kind)
        if request is None:
            return None
        step = event.fields.get("call")
        if step is None:
            step = next((one.step for one in reversed(self._open.values()) if one.request is request), None)
        return self._open.pop(step, None) if type(step) is int else None


def time_of(event: Event) -> int:
    """Return when an event was written, in milliseconds of Unix time; 0 where it does not say."""
    time = event.fields.get("ts_ms", 0)
    return time if type(time) is int else 0


def ending_of(event: Event) -> Ending:
    """Read how a call ended off its result event."""
    raised = event.fields.get("raised")
    if isinstance(raised, dict):
        message = raised.get("message")  # null where it is in a file of its own
        return Raised(str(raised.get("type", "")), "" if message is None else str(message), raised.get("args"))
    if event.fields.get("cancelled") is True:
        return Cancelled()
    return Returned(event.fields.get(RESULTS[event.kind].result_field))


def bodies_of(event: Event) -> dict[str, dict[str, Any]]:
    """Return what an event keeps in files of their own, by JSON pointer: ``{"sha256": …, "bytes": …}``."""
    bodies = event.fields.get("bodies")
    return {pointer: body for pointer, body in bodies.items() if isinstance(body, dict)} if isinstance(bodies, dict) else {}
