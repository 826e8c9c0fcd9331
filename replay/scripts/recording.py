"""Recording: every call runs, and its beginning and its ending are written as they happen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from replay import endings
from replay.jsontext import canonical
from replay.recorder import Call, Ending, Returned
from replay.scripts.script import Completion, Step
from replay.tracefile.events import REQUESTS
from replay.tracefile.trace import RecordedCall
from replay.tracefile.writer import TraceWriter, WriterOptions

if TYPE_CHECKING:
    from replay.scripts.options import RecordOptions, Run, TracePath
    from replay.session import Session


def private_key(key: Any) -> Any:  # noqa: ANN401 - Ed25519PrivateKey, whose import takes time
    """Return a private key that is given as itself or as the path of its PEM file."""
    if not isinstance(key, (str, os.PathLike)):
        return key
    from replay.tracefile.seal import load_private

    return load_private(key)


def create_writer(session: Session, trace: TracePath, run: Run, how: RecordOptions) -> TraceWriter:
    """Create a trace for a session, which takes its path, run id and seed."""
    key = None if how.seal_key is None else private_key(how.seal_key)
    writer = TraceWriter.create(os.fspath(trace), agent=run.agent, args=list(run.args), redactor=session.redactor,
                                options=WriterOptions(how.body_bytes, how.fsync, how.on_error), clock_ms=how.clock_ms,
                                entropy=how.entropy, seal_key=key)
    session.trace_path, session.run_id, session.seed = writer.path, writer.run_id, writer.seed
    return writer


def write_call(writer: TraceWriter, kind: str, name: str, args: list[Any]) -> int:
    """Write that a call begins; return the step of its event."""
    request = REQUESTS[kind]
    return writer.append(request.call_event, {request.name_field: name, "args": args})


def write_ending(writer: TraceWriter, kind: str, name: str, step: int, ending: Ending, facts: dict[str, Any]) -> None:
    """Write how the call that began at `step` ended."""
    request = REQUESTS[kind]
    fields = {request.name_field: name, request.result_field: request.without, "call": step}
    fields.update({request.result_field: ending.value} if isinstance(ending, Returned) else endings.to_fields(ending))
    if facts:
        fields["facts"] = facts
    writer.append(request.result_event, fields)


class Recording:
    """The script of mode record."""

    quarantined = False

    def __init__(self, writer: TraceWriter) -> None:
        """Record into an open trace."""
        self.writer = writer

    def begin(self, call: Call[Any]) -> Step:
        """Write the call and have it run."""
        return Step(token=write_call(self.writer, call.kind, call.tool, canonical(call.arguments())))

    def end(self, step: Step, call: Call[Any], ending: Ending) -> None:
        """Write the ending."""
        write_ending(self.writer, call.kind, call.tool, step.token, ending, call.facts())

    def finish(self, completion: Completion) -> None:
        """Write run_completed."""
        self.writer.complete(ok=completion.ok, result=completion.result, error=completion.error)

    def abandon(self) -> None:
        """Leave the trace as it is, without an end."""
        self.writer.close()

    def unused(self) -> list[RecordedCall]:
        """Return nothing: there was no recording to use."""
        return []


class Joined(Recording):
    """Records into a trace that another process began and will complete."""

    def finish(self, completion: Completion) -> None:  # noqa: ARG002 - the run ends elsewhere
        """Leave the end to the process that began the trace."""
        self.writer.close()
