"""What the session of a test does while the test has no trace.

Where it may be recorded, it gets a trace if there is anything to keep; where it may only be replayed, nothing runs and nothing is touched, and the
first call says what is missing. So a test that makes no call needs no trace, and one that skips itself beforehand is skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.errors import TraceError
from replay.modes import Mode
from replay.recorder import Call, Ending
from replay.redaction.redactor import Redactor
from replay.scripts.episodes import Staged
from replay.scripts.options import RecordOptions, Run
from replay.scripts.script import Completion, Step
from replay.session import Session
from replay.tracefile.trace import RecordedCall


class FirstRecording(Staged):
    """Records a test for the first time."""

    empty = True

    def begin(self, call: Call[Any]) -> Step:
        """Write the call and have it run."""
        self.empty = False
        return super().begin(call)

    def finish(self, completion: Completion) -> None:
        """Put the trace in place, unless there is nothing in it that a replay could answer or compare."""
        if self.empty and completion.result is None:
            self.abandon()
            return
        super().finish(completion)


class Unrecorded:
    """Refuses whatever would need a trace."""

    quarantined = True

    def __init__(self, missing: TraceError) -> None:
        """Take the error that says so."""
        self._missing = missing

    def begin(self, call: Call[Any]) -> Step:  # noqa: ARG002 - a script's signature
        """Refuse the call: it is never made live in place of an answer."""
        raise self._missing

    def end(self, step: Step, call: Call[Any], ending: Ending) -> None:
        """Never asked: nothing is run."""

    def finish(self, completion: Completion) -> None:
        """Refuse a result that was to be compared."""
        if completion.result is not None:
            raise self._missing

    def abandon(self) -> None:
        """Nothing is open."""

    def unused(self) -> list[RecordedCall]:
        """Return nothing: nothing is recorded."""
        return []


def first_recording(mode: Mode, trace: Path) -> Session:
    """Return a session that records a test which has no trace."""
    return Session(mode, lambda session: FirstRecording(session, trace, Run(), RecordOptions()), redactor=Redactor())


def unrecorded(trace: Path, missing: TraceError, *, allow_network: bool) -> Session:
    """Return a session for a test that may only be replayed and has no trace."""
    session = Session("none", lambda _session: Unrecorded(missing), redactor=Redactor(), allow_network=allow_network)
    session.trace_path = str(trace)
    return session
