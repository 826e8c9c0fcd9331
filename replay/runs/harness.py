"""Tests from traces: a folder of recorded runs, each replayed with its command and given a verdict.

*passed*: the run was faithful. *diverged*: it was not. *flaky*: several runs of one trace came out differently. *failed*: several runs came
out badly, and all alike. *promoted*: it diverged, and a new recording took the trace's place. *error*: there was nothing to judge, since
the trace cannot be used, the command cannot be started, or it did not end in time.
"""

from __future__ import annotations

import glob
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from replay.errors import ReplayError, TraceError
from replay.redaction.redactor import Redactor
from replay.runs.launch import Recorded, command_of, folder_of, record_command, replay_command
from replay.runs.process import Ended
from replay.runs.verdicts import Plan, Replayed
from replay.scripts.options import RecordOptions
from replay.tracefile.exchange import discard_trace, replace_trace
from replay.tracefile.trace import Trace, load_trace

Verdict: TypeAlias = Literal["passed", "diverged", "flaky", "failed", "promoted", "error"]
VERDICTS: Final[tuple[Verdict, ...]] = ("passed", "promoted", "diverged", "flaky", "failed", "error")
GOOD: Final = ("passed", "promoted")

_AT_THE_END: Final = ("ended_otherwise", "left_over")
_TAIL_BYTES: Final = 4000
_TAIL_LINES: Final = 12


class MissingFolder(ReplayError):  # noqa: N818 - it names what is missing
    """There is no such folder of traces."""


class Refused(ReplayError):  # noqa: N818 - it names what happened
    """A live run may not take a trace's place; the trace is as it was."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trace to test: how often it calls each tool, and its latest event (ms of Unix time); or why it cannot be used."""

    path: str
    tools: Counter[str] = field(default_factory=Counter)
    latest_ms: int = 0
    problem: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class Options:
    """How traces are tested: `command` in place of the recorded ones, `runs` of each trace, seconds that a run may take."""

    command: Sequence[str] | None = None
    plan: Plan = field(default_factory=Plan)
    runs: int = 1
    timeout: float | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trace: its verdict, one line on why, all there is to say, and the last lines that a bad run printed."""

    path: str
    verdict: Verdict
    detail: str = ""
    message: str = ""
    step: int | None = None
    calls: int = 0
    output: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.path).name

    @property
    def good(self) -> bool:
        """Whether the test is green."""
        return self.verdict in GOOD

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"trace": self.name, "verdict": self.verdict, "detail": self.detail, "message": self.message, "step": self.step,
                "calls": self.calls, "output": self.output}


# --- which traces ---

def find(folder: str | os.PathLike[str]) -> list[Candidate]:
    """Look at the traces of a folder (``*.jsonl``, sorted, not those below it).

    Raises:
        MissingFolder: there is none.
        OSError: it cannot be read.
    """
    path = Path(folder)
    if not path.is_dir():
        raise MissingFolder(f"{os.fspath(folder)!r} {'is no folder' if path.exists() else 'does not exist'}; name a folder that holds traces")
    names = sorted(one.name for one in path.iterdir() if one.name.endswith(".jsonl") and not one.name.startswith("."))
    return [_candidate(str(path / name)) for name in names]


def _candidate(path: str) -> Candidate:
    try:
        trace = load_trace(path)
    except TraceError as error:
        return Candidate(path, problem=_without_path(error))
    return Candidate(path, Counter(call.name for call in trace.calls), _latest_ms(trace))


def _without_path(error: ReplayError) -> str:
    """Leave out the file's name, which stands beside every verdict."""
    return str(error).removeprefix(f"trace {error.path!r}: ") if isinstance(error, TraceError) else str(error)


def _latest_ms(trace: Trace) -> int:
    times = [trace.header["ts_ms"], *(event.fields["ts_ms"] for event in trace.others)]
    for call in trace.calls:
        times += (call.ts_ms, call.result_ts_ms or 0)
    if trace.completed is not None:
        times.append(trace.completed["ts_ms"])
    return int(max(times))


def select(candidates: Iterable[Candidate], *, tool: str | None = None, since_ms: int | None = None) -> list[Candidate]:
    """Keep the traces that call a tool and whose latest event is not before a time. What cannot be used stays, to be named."""
    return [one for one in candidates
            if one.problem or ((tool is None or tool in one.tools) and (since_ms is None or one.latest_ms >= since_ms))]


def coverage(candidates: Iterable[Candidate]) -> Counter[str]:
    """Count the calls of each tool over all traces."""
    found: Counter[str] = Counter()
    for one in candidates:
        found.update(one.tools)
    return found


# --- testing one ---

@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a trace."""

    verdict: Literal["passed", "diverged", "error"]
    detail: str = ""
    message: str = ""
    step: int | None = None
    code: int = 0
    output: str = ""

    def same_as(self, other: _Run) -> bool:
        """Whether two runs came out alike; what a program prints does not count."""
        return (self.verdict, self.message, self.code) == (other.verdict, other.message, other.code)


def examine(candidate: Candidate, options: Options) -> Outcome:
    """Replay a trace as often as wanted and give it a verdict.

    Raises:
        KeyboardInterrupt: somebody wants it to stop.
    """
    calls = candidate.tools.total()
    if candidate.problem:
        return Outcome(candidate.path, "error", candidate.problem, candidate.problem)
    runs = [_run(candidate, options) for _ in range(options.runs)]
    first = runs[0]
    bad = next((run for run in runs if run.verdict != "passed"), None)
    if bad is None:
        return Outcome(candidate.path, "passed", calls=calls)
    verdict: Verdict = bad.verdict
    detail = bad.detail
    others = sum(not run.same_as(first) for run in runs)
    if others:
        verdict, detail = "flaky", f"{others} of {len(runs)} runs came out otherwise than the first: {bad.detail}"
    elif len(runs) > 1:
        verdict, detail = "failed", f"all {len(runs)} runs came out alike: {bad.detail}"
    return Outcome(candidate.path, verdict, detail, bad.message, bad.step, calls, bad.output)


def _run(candidate: Candidate, options: Options) -> _Run:
    with tempfile.TemporaryFile() as printed:
        try:
            trace = load_trace(candidate.path)
            done = replay_command(trace, command_of(trace, options.command), options.plan, secrets=options.secrets,
                                  folder=folder_of(trace, options.command), output=printed, timeout=options.timeout)
        except ReplayError as error:
            return _Run("error", _without_path(error), _without_path(error))
        if done.ended.stopped_by is not None:
            raise KeyboardInterrupt
        if done.faithful:
            return _Run("passed", code=done.ended.code)
        return _judged(done, options, _tail(printed, Redactor(secrets=options.secrets)))


def _judged(done: Replayed, options: Options, output: str) -> _Run:
    if done.ended.timed_out:
        message = f"the command did not end within {options.timeout:g} s"
        return _Run("error", message, message, code=done.ended.code, output=output)
    if done.problems:
        message = "\n".join(problem.message for problem in done.problems)
        return _Run("error", done.problems[0].message, message, code=done.ended.code, output=output)
    messages = [str(one["message"]) for one in done.divergences]
    at_the_end = any(one["code"] in _AT_THE_END for one in done.divergences)  # then the program itself may say why
    return _Run("diverged", _shortly(messages[0]), "\n".join([*messages, *done.notes]), done.divergences[0].get("step"),
                done.ended.code, output if at_the_end else "")


def _shortly(message: str) -> str:
    return message.partition("\n")[0].removeprefix("replay divergence ")


def _tail(printed: Any, redactor: Redactor) -> str:  # noqa: ANN401 - a file
    """Return the last lines that a program printed, without secrets."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - _TAIL_BYTES))
    # redacted before it is cut to lines: a secret cut in half would not be known as one
    lines = redactor.text(printed.read().decode(errors="replace")).split("\n")
    whole = lines[1:] if size > _TAIL_BYTES else lines
    return "\n".join(whole[-_TAIL_LINES - 1:]).strip("\n")


# --- promoting ---

@dataclass(frozen=True, slots=True)
class Promoted:
    """A recording that took a trace's place; `unsealed` where the old one was sealed, which the new one is not."""

    recorded: Recorded
    unsealed: bool


def promote(candidate: Candidate, command: Sequence[str] | None, how: RecordOptions, secrets: Sequence[str] = ()) -> Promoted:
    """Run a trace's command live, with our standard streams, and put the recording in the trace's place in one step.

    Raises:
        Refused: the live run failed.
        ReplayError: the command cannot be started, or what it recorded cannot be used. In either case the trace is as it was.
        KeyboardInterrupt: somebody wants it to stop; the same holds.
    """
    target = Path(candidate.path).resolve()
    staged = str(target.with_name(f".{target.stem}.{how.entropy(6).hex()}.jsonl"))
    try:
        old = load_trace(target)
        recorded = record_command(staged, command_of(old, command), how, secrets, folder=folder_of(old, command))
        _check_live(recorded.ended, recorded.problems)
        load_trace(staged)
        Path(staged).chmod(stat.S_IMODE(target.stat().st_mode))
        replace_trace(staged, str(target))
    finally:
        discard_trace(staged)
        for torn in glob.glob(f"{glob.escape(staged)}.torn-*"):  # noqa: PTH207 - the name may hold a pattern
            Path(torn).unlink()
    return Promoted(recorded, unsealed=old.completed is not None and "seal" in old.completed and how.seal_key is None)


def _check_live(ended: Ended, problems: Sequence[str]) -> None:
    if ended.stopped_by is not None:
        raise KeyboardInterrupt
    if not ended.ok:
        raise Refused(f"the live run failed ({ended.error}); the trace was left as it was")
    if problems:
        raise Refused(f"the live run was not recorded whole ({problems[0]}); the trace was left as it was")
