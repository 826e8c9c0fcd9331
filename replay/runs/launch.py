"""Recording and replaying a command: the parent's side of what `replay.runs.environ` is the child's side of.

The parent begins the trace and ends it, and says to the command's processes through their environment what they belong to. They append
to the trace, or are answered from it, and leave what does not hold in a file that the parent reads when the command has ended.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replay.errors import NotRecordable, ReplayError, TraceWriteError
from replay.jsontext import decode
from replay.modes import RecordOptions
from replay.redaction.redactor import REDACTED, Redactor
from replay.runs.environ import QUARANTINED, VARIABLE, Handover
from replay.runs.process import CannotStart, Ended, Signals, run
from replay.runs.verdicts import Findings, Plan, Replayed, judge
from replay.tracefile.writer import TraceWriter, WriterOptions

if TYPE_CHECKING:
    from replay.tracefile.trace import Trace

_CALLS: Final = (b'{"kind":"tool_call"', b'{"kind":"llm_call"', b'{"kind":"approval_request"')


class NoCommand(ReplayError):  # noqa: N818 - it names what is missing
    """A trace does not say, or may not say, which command was recorded: one has to be given."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded command: its trace, how it ended, how many calls were recorded.

    `problems` are what kept the recording from being whole: the trace then has no end. `notices` say what was mended.
    """

    path: str
    ended: Ended
    calls: int
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = field(default=())


def agent_of(command: Sequence[str]) -> str:
    """Return what a command is called: the last part of the program's name."""
    return os.path.basename(command[0])  # noqa: PTH119 - a word of a command line, which may be empty or end in a slash


def record_command(trace: str | os.PathLike[str], command: Sequence[str], how: RecordOptions, secrets: Sequence[str] = ()) -> Recorded:
    """Record a command into a new trace: a file, or a folder that gets a file named after the run.

    `secrets` are values never to be written, beside those of environment variables that look like secrets.

    Raises:
        TraceError: trace_exists, trace_io: nothing ran.
        CannotStart: the command could not be started; no trace is left behind.
        NotRecordable: a word of the command, or the trace's name, is no UTF-8; nothing ran.
        ReplayError: this process is itself part of a replay.
    """
    words = list(command)
    _check_outer("record")
    _check_text([os.fspath(trace), *words])
    with Signals() as signals, _outcome_folder() as outcome:
        # what cannot be written at the end must not pass in silence: "stop" raises
        writer = TraceWriter.create(trace, agent=agent_of(words), args=words[1:], command=words, redactor=Redactor(secrets=secrets),
                                    options=WriterOptions(how.body_bytes, how.fsync, "stop"), clock_ms=how.clock_ms,
                                    entropy=how.entropy, seal_key=how.seal_key)
        torn = _torn(writer.path)
        handed = Handover("record", trace=writer.path, outcome=str(outcome), body_bytes=how.body_bytes, fsync=how.fsync,
                          on_error=how.on_error, secrets=tuple(secrets))
        try:
            ended = run(words, _environment(handed), signals)
        except CannotStart:
            writer.close()
            Path(writer.path).unlink()  # ours, and nothing is in it
            raise
        problems = [str(line["message"]) for line in _lines(outcome) if line.get("type") == "error"]
        problems += _completed(writer, ended, problems)
    notices = tuple(f"the last line that a killed process wrote was cut off; it is kept in {Path(name).name!r}"
                    for name in sorted(_torn(writer.path) - torn))
    try:
        calls = _count_calls(writer.path)
    except OSError as error:
        calls = 0
        problems.append(f"trace {writer.path!r}: it cannot be read any more: {error.strerror}; the command did away with it")
    return Recorded(writer.path, ended, calls, tuple(dict.fromkeys(problems)), notices)


def _completed(writer: TraceWriter, ended: Ended, problems: Sequence[str]) -> Iterator[str]:
    """Write the end of the run; a trace that lacks something gets none, lest it passes for whole. Say what went wrong."""
    if problems:
        writer.close()
        return
    try:
        writer.complete(ok=ended.ok, result={"exit_code": ended.code}, error=ended.error)
    except TraceWriteError as error:
        yield str(error)


def _torn(path: str) -> set[str]:
    """Name the files in which torn lines of a trace are kept."""
    return set(glob.glob(f"{glob.escape(path)}.torn-*"))  # noqa: PTH207 - the name may hold a pattern


def _count_calls(path: str) -> int:
    """Count the calls in a trace of ours, whose lines begin with their kind."""
    with Path(path).open("rb") as file:
        return sum(line.startswith(_CALLS) for line in file)


def command_of(trace: Trace, given: Sequence[str] | None) -> list[str]:
    """Return the command to replay a trace with: the given one, or else the recorded one.

    Raises:
        NoCommand: none is given, and the trace names none that could be run.
    """
    if given:
        return list(given)
    if trace.command is None:
        raise NoCommand("the trace does not say which command was recorded; give it behind --")
    if not trace.command or not all(isinstance(word, str) for word in trace.command):
        raise NoCommand("the command in the trace cannot be run; give it behind --")
    if any(REDACTED in word for word in trace.command):
        raise NoCommand("the recorded command held a secret, which was not written; give the command behind --")
    return trace.command


def replay_command(trace: Trace, command: Sequence[str], plan: Plan, *, secrets: Sequence[str] = (), output: Any = None,  # noqa: ANN401 - a file
                   timeout: float | None = None) -> Replayed:
    """Run a command whose calls are answered from a trace (or, in a differential run, compared with it), and judge it.

    With `output` (an open file) the command has no input and writes there, and is ended after `timeout` seconds.

    Raises:
        InvalidMutation: the plan's mutation cannot be made; nothing ran.
        CannotStart: the command could not be started.
        NotRecordable: the trace's name is no UTF-8.
        ReplayError: a differential run is asked for where this process is itself part of a replay.
    """
    _check_outer(plan.mode)
    _check_text([trace.path])
    redactor = Redactor(secrets=secrets)
    plan.check(trace)
    with Signals() as signals, _outcome_folder() as outcome:
        used = outcome.with_name("used")
        used.write_bytes(bytes(len(trace.calls)))
        handed = Handover(plan.mode, trace=trace.path, outcome=str(outcome), used=str(used), matching=plan.matching, step=plan.step,
                          value=plan.value, allow_network=plan.allow_network, incomplete=plan.incomplete, verify=plan.verify,
                          secrets=tuple(secrets))
        ended = run(command, _environment(handed), signals, output=output, timeout=timeout)
        findings = Findings(_lines(outcome), bytearray(used.read_bytes()))
    return judge(trace, command, plan, ended, findings, redactor)


def _check_outer(mode: str) -> None:
    """Refuse to run anything live inside a replay, which would be a way out of it."""
    outer = os.environ.get(VARIABLE)
    if outer and mode in ("record", "differential") and Handover.from_text(outer).mode in QUARANTINED:
        raise ReplayError(f"a replay is on in which nothing runs live ({VARIABLE} is set); record outside of it")


def _check_text(words: Sequence[str]) -> None:
    """Refuse what neither a trace nor the handed-over session can hold."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise NotRecordable(f"{word!r} is no UTF-8, so it cannot be recorded or handed to a program") from None


@contextmanager
def _outcome_folder() -> Iterator[Path]:
    """Make an empty file for the outcome in a folder of its own, which nobody else can read and which goes with the block."""
    with tempfile.TemporaryDirectory(prefix="replay-", ignore_cleanup_errors=True) as name:
        outcome = Path(name) / "outcome"
        outcome.touch(0o600)
        yield outcome


def _environment(handed: Handover) -> dict[str, str]:
    return {**os.environ, VARIABLE: handed.to_text()}


def _lines(outcome: Path) -> list[dict[str, Any]]:
    """Read what the processes told; a line that a killed process did not finish says nothing."""
    *lines, _rest = outcome.read_bytes().split(b"\n")
    return [line for line in map(_object, lines) if line]


def _object(text: bytes) -> dict[str, Any]:
    try:
        line = decode(text)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
