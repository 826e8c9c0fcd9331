"""Recording that keeps the trace until the run has ended well: what modes once, all and new_episodes do.

A run is written to a file beside the trace and takes its place in one step at the end. A run that fails leaves the trace as it was, and
so does one that is the recorded run again: what is under version control changes only where a recording does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import TraceError
from replay.matching import Asked, Keyed
from replay.recorder import Call, Ending
from replay.reports.compare import same_run
from replay.scripts.recording import Recording, create_writer, private_key, write_call, write_ending
from replay.scripts.script import Completion, Step, recorded_ending
from replay.tracefile.exchange import check_target, discard_trace, replace_trace, sweep
from replay.tracefile.trace import RecordedCall, Trace
from replay.tracefile.verify import verify_trace

if TYPE_CHECKING:
    from replay.scripts.options import RecordOptions, Run, TracePath
    from replay.session import Session


class Staged(Recording):
    """Records anew, and replaces the trace when the run has ended well."""

    def __init__(self, session: Session, trace: TracePath, run: Run, how: RecordOptions) -> None:
        """Record beside `trace`."""
        self._target = os.fspath(trace)
        check_target(self._target)
        sweep(self._target)
        staged = Path(self._target).with_name(f".{Path(self._target).stem}.{how.entropy(6).hex()}.jsonl")
        super().__init__(create_writer(session, staged, run, how))
        session.trace_path = self._target
        self._seal_key = how.seal_key

    def finish(self, completion: Completion) -> None:
        """Complete the new trace and put it in place, or throw it away where it failed or the one that is there says the same."""
        if not completion.ok or self.writer.failure is not None:
            self.abandon()
            return
        super().finish(completion)
        if self.writer.failure is not None or self._says_the_same():
            discard_trace(self.writer.path)
        else:
            replace_trace(self.writer.path, self._target)

    def _says_the_same(self) -> bool:
        """Tell whether the trace that is there is intact, sealed where one was to be sealed, and holds this very run."""
        if not os.path.lexists(self._target):
            return False
        try:
            verdict = verify_trace(self._target, private_key(self._seal_key).public_key() if self._seal_key is not None else None)
            return verdict.ok and verdict.complete and same_run(self._target, self.writer.path)
        except TraceError:  # it cannot even be read
            return False

    def abandon(self) -> None:
        """Throw the new trace away."""
        super().abandon()
        discard_trace(self.writer.path)


class NewEpisodes(Staged):
    """Replays what is recorded and records what is not.

    The new trace holds the calls of this run in their order, then the recorded ones that were not asked: nothing is lost.
    """

    def __init__(self, session: Session, trace: Trace, run: Run, how: RecordOptions) -> None:
        """Answer from `trace`, and record beside it."""
        super().__init__(session, trace.path, run, how)
        self._redactor = session.redactor
        self._matcher = Keyed(trace.calls)
        self._new = 0

    def begin(self, call: Call[Any]) -> Step:
        """Answer the call where it is recorded, else record it."""
        recorded = self._matcher.find(Asked.of(call, self._redactor))
        if recorded is None:
            self._new += 1
            return super().begin(call)
        ending = recorded_ending(recorded)
        self._copy(recorded, ending)
        return Step(ending, recorded.step)

    def _copy(self, recorded: RecordedCall, ending: Ending | None) -> None:
        step = write_call(self.writer, recorded.kind, recorded.name, recorded.args)
        if ending is not None:
            write_ending(self.writer, recorded.kind, recorded.name, step, ending, recorded.facts)

    def finish(self, completion: Completion) -> None:
        """Put the new trace in place if there is anything new in it."""
        if not self._new:
            self.abandon()
            return
        for recorded in self.unused():
            self._copy(recorded, recorded.ending())
        super().finish(completion)

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody asked for."""
        return self._matcher.unused()
