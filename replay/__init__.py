"""Trace and replay for any tool: every call recorded, every test deterministic.

    @replay.tool
    def weather(city: str) -> dict: ...

    with replay.record("run.jsonl"):        # runs, and writes what was asked and answered
        agent()
    with replay.substitute("run.jsonl"):    # the same answers; nothing runs and nothing is touched
        agent()

This package knows nothing of retrieval; `rag_stdlib`'s tools are its first users.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay import quarantine
    from replay.ambient import carry, current, live
    from replay.decorator import tool
    from replay.errors import (
        Divergence,
        InvalidMutation,
        NotRecordable,
        QuarantineViolation,
        RecordedError,
        ReplayError,
        TraceError,
        TraceWarning,
        TraceWriteError,
    )
    from replay.modes import differential, mutation, record, substitute, use_trace
    from replay.recorder import Call, Recorder
    from replay.redaction.hidden import hide
    from replay.scripts.options import RecordOptions, ReplayOptions
    from replay.session import Session
    from replay.tracefile.trace import load_trace
    from replay.tracefile.verify import verify_trace

_ROOMS = {  # where each name is at home, loaded when it is first asked for: every program and every pytest run imports this package
    "ambient": ("carry", "current", "live"),
    "decorator": ("tool",),
    "errors": ("Divergence", "InvalidMutation", "NotRecordable", "QuarantineViolation", "RecordedError", "ReplayError", "TraceError",
               "TraceWarning", "TraceWriteError"),
    "redaction.hidden": ("hide",),
    "modes": ("differential", "mutation", "record", "substitute", "use_trace"),
    "recorder": ("Call", "Recorder"),
    "scripts.options": ("RecordOptions", "ReplayOptions"),
    "session": ("Session",),
    "tracefile.trace": ("load_trace",),
    "tracefile.verify": ("verify_trace",),
}
_HOMES = {name: f"replay.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Call",
    "Divergence",
    "InvalidMutation",
    "NotRecordable",
    "QuarantineViolation",
    "RecordOptions",
    "RecordedError",
    "Recorder",
    "ReplayError",
    "ReplayOptions",
    "Session",
    "TraceError",
    "TraceWarning",
    "TraceWriteError",
    "carry",
    "current",
    "differential",
    "hide",
    "live",
    "load_trace",
    "mutation",
    "quarantine",
    "record",
    "substitute",
    "tool",
    "use_trace",
    "verify_trace",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """Load a name's room."""
    if name == "quarantine":
        return importlib.import_module("replay.quarantine")
    if name not in _HOMES:
        raise AttributeError(f"module 'replay' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


if os.environ.get("REPLAY_SESSION"):  # handed over by rag record or rag replay: it counts from here on
    importlib.import_module("replay.runs.environ").attend()
