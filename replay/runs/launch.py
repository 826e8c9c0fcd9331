"""Recording and replaying a command: the parent's side of what `replay.runs.environ` is the child's side of.

The parent begins the trace and ends it, and says to the command's processes through their environment what they belong to. They append
to the trace, or are answered from it, and leave what does not hold in a file that the parent reads when the command has ended.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replay.errors import NotRecordable, ReplayError, TraceWriteError
from replay.jsontext import decode
from replay.redaction.redactor import REDACTED, Redactor
from replay.runs.environ import QUARANTINED, VARIABLE, Handover, report
from replay.runs.process import CannotStart, Ended, Signals, run
from replay.runs.verdicts import Findings, Plan, Replayed, judge
from replay.runs.words import withheld
from replay.scripts.options import RecordOptions
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


class NoFolder(CannotStart):
    """The folder in which a command was recorded is not there any more."""


def agent_of(command: Sequence[str]) -> str:
    """Return what a command is called: the last part of the program's name."""
    return os.path.basename(command[0])  # noqa: PTH119 - a word of a command line, which may be empty or end in a slash


def record_command(trace: str | os.PathLike[str], command: Sequence[str], how: RecordOptions, secrets: Sequence[str] = (), *,
                   folder: str | None = None) -> Recorded:
    """Record a command into a new trace: a file, or a folder that gets a file named after the run.

    It runs in `folder`, otherwise where we are. `secrets` are values never to be written, beside those of environment variables that look like secrets.

    Raises:
        TraceError: trace_exists, trace_io: nothing ran.
        CannotStart: the command could not be started; no trace is left behind.
        NotRecordable: a word of the command, or the trace's name, is no UTF-8; nothing ran.
        ReplayError: this process is itself part of a replay.
    """
    words = list(command)
    outer = _check_outer("record")
    _check_text([os.fspath(trace), *words])
    written = withheld(words)
    with Signals() as signals, _outcome_folder() as outcome:
        # what cannot be written at the end must not pass in silence: "stop" raises
        writer = TraceWriter.create(trace, agent=agent_of(words), args=list(written[1:]), command=written, folder=_here(folder), redactor=Redactor(secrets=secrets),
                                    options=WriterOptions(how.body_bytes, how.fsync, "stop"), clock_ms=how.clock_ms,
                                    entropy=how.entropy, seal_key=how.seal_key)
        torn = _torn(writer.path)
        handed = Handover("record", trace=writer.path, outcome=str(outcome), body_bytes=how.body_bytes, fsync=how.fsync,
                          on_error=how.on_error, secrets=tuple(secrets))
        try:
            ended = run(words, _environment(handed), signals, folder=folder)
        except CannotStart:
            writer.close()
            Path(writer.path).unlink()  # ours, and nothing is in it
            raise
        told = _lines(outcome)
        problems = [str(line["message"]) for line in told if line.get("type") == "error"]
        problems += _completed(writer, ended, problems)
    _tell_outer(outer, "record", writer.path)
    notices = [f"the last line that a killed process wrote was cut off; it is kept in {Path(name).name!r}"
               for name in sorted(_torn(writer.path) - torn)]
    notices += [f"inside it a {line.get('mode')} with the trace {Path(str(line.get('trace'))).name!r} took the calls, which are not in this one"
                for line in told if line.get("type") == "nested"]
    calls = 0
    with suppress(OSError):  # gone: then the end could not be written either
        calls = _count_calls(writer.path)
    return Recorded(writer.path, ended, calls, tuple(dict.fromkeys(problems)), tuple(notices))


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


def folder_of(trace: Trace, given: Sequence[str] | None) -> str | None:
    """Return the folder in which to run the recorded command, as a path from here; None: here, as is every command that is given.

    Raises:
        NoFolder: the recorded command is to be run, and its folder is gone.
    """
    if given or trace.command is None or trace.folder is None or REDACTED in trace.folder:
        return None
    place = os.path.normpath(Path(os.path.realpath(trace.path)).parent / trace.folder)
    if not Path(place).is_dir():
        raise NoFolder(f"the folder {trace.folder!r}, seen from the trace, in which the command was recorded is gone; give the command behind --, "
                       "where it can run")
    here = Path.cwd()
    return None if here.samefile(place) else os.path.relpath(place, here)


def _here(folder: str | None) -> str | None:
    """Name the folder in which a command runs, where it has a name that can be written."""
    try:
        name = str(Path.cwd() if folder is None else Path(folder).absolute())
        name.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return name


def replay_command(trace: Trace, command: Sequence[str], plan: Plan, *, secrets: Sequence[str] = (), folder: str | None = None,
                   output: Any = None, timeout: float | None = None) -> Replayed:  # noqa: ANN401 - a file
    """Run a command whose calls are answered from a trace (or, in a differential run, compared with it), and judge it.

    It runs in `folder` (see `folder_of`), otherwise where we are.
    With `output` (an open file) the command has no input and writes there, and is ended after `timeout` seconds.

    Raises:
        InvalidMutation: the plan's mutation cannot be made; nothing ran.
        CannotStart: the command could not be started.
        NotRecordable: the trace's name is no UTF-8.
        ReplayError: a differential run is asked for where this process is itself part of a replay.
    """
    outer = _check_outer(plan.mode)
    _check_text([trace.path])
    redactor = Redactor(secrets=secrets)
    plan.check(trace)
    with Signals() as signals, _outcome_folder() as outcome:
        used = outcome.with_name("used")
        used.write_bytes(bytes(len(trace.calls)))
        handed = Handover(plan.mode, trace=trace.path, outcome=str(outcome), used=str(used), matching=plan.matching, step=plan.step,
                          value=plan.value, allow_network=plan.allow_network, incomplete=plan.incomplete, verify=plan.verify,
                          secrets=tuple(secrets))
        ended = run(command, _environment(handed), signals, folder=folder, output=output, timeout=timeout)
        findings = Findings(_lines(outcome), bytearray(used.read_bytes()))
    _tell_outer(outer, "replay", trace.path)
    done = judge(trace, command, plan, ended, findings, redactor)
    return done if folder is None else replace(done, notes=(f"it ran in {folder!r}, where it was recorded as seen from the trace; a command behind -- runs here", *done.notes))


def _check_outer(mode: str) -> Handover | None:
    """Return the session that this process is part of; refuse to run anything live inside a replay, which would be a way out of it."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    outer = Handover.from_text(text)
    if mode in ("record", "differential") and outer.mode in QUARANTINED:
        raise ReplayError(f"a replay is on in which nothing runs live ({VARIABLE} is set); record outside of it")
    return outer


def _tell_outer(outer: Handover | None, what: str, trace: str) -> None:
    """Have a recording that goes on around this one know where the calls went."""
    if outer is not None and outer.mode == "record":
        report(outer, {"type": "nested", "mode": what, "trace": trace})


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
