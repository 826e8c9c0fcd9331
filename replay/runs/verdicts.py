"""What a replayed command did, judged from what its processes told, from the calls that were asked, and from how it ended.

A run is faithful when it made the recorded calls and ended as recorded, badly or well: a recorded failure that fails again is faithful.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from replay.errors import Divergence
from replay.jsontext import first_difference
from replay.matching import Matching, make_matcher
from replay.reports.report import CallReport, DifferentialReport, MutationReport
from replay.runs.process import Ended
from replay.runs.words import withheld
from replay.scripts.differential import Differential
from replay.scripts.mutation import Mutation, check_mutation
from replay.scripts.script import Completion
from replay.scripts.substitute import check_start, left_over

if TYPE_CHECKING:
    from replay.redaction.redactor import Redactor
    from replay.tracefile.trace import Trace

ReplayMode: TypeAlias = Literal["substitute", "differential", "mutation"]

_PAST_THE_END: Final = ("exhausted", "unfinished_call")  # in a trace without an end this is how far it goes
_FOLLOWING: Final = ("left_over", "ended_otherwise")  # what the end shows, beside what a call shows


@dataclass(frozen=True, slots=True)
class Plan:
    """How to replay: the mode, how calls are matched, the mutated `step` (from 1) with its `value`, and what is let pass."""

    mode: ReplayMode = "substitute"
    matching: Matching = "ordered"
    incomplete: bool = False
    verify: bool = True
    allow_network: bool = False
    step: int = 0
    value: Any = None

    def check(self, trace: Trace) -> None:
        """Raise `InvalidMutation` where the mutation cannot be made."""
        if self.mode == "mutation":
            check_mutation(trace, self.step, self.value)


@dataclass(frozen=True, slots=True)
class Findings:
    """What the processes told, in the order in which it came, and which recorded calls they used (a byte each)."""

    lines: list[dict[str, Any]]
    used: bytearray

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """Give the findings of a kind, without their type."""
        for line in self.lines:
            if line.get("type") == kind:
                yield {name: value for name, value in line.items() if name != "type"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept a run from being replayed at all: a code (trace_… for the trace itself) and its words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replayed command: how it ended, and what did not hold.

    `divergences` are as `Divergence.to_dict` gives them, the first one first; what only follows from it is not among them. `report`
    is there in a differential or mutated run. `notes` are remarks; `asked` counts the recorded calls that were asked for.
    """

    ended: Ended
    asked: int
    recorded: int
    divergences: tuple[dict[str, Any], ...] = ()
    problems: tuple[Problem, ...] = ()
    report: DifferentialReport | MutationReport | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def faithful(self) -> bool:
        """Whether the run did what the trace holds, and ended so."""
        return not (self.divergences or self.problems) and (self.report is None or self.report.faithful)


def judge(trace: Trace, command: Sequence[str], plan: Plan, ended: Ended, findings: Findings, redactor: Redactor) -> Replayed:
    """Put together what became of a replayed command."""
    told, notes = _told(trace, plan, findings)
    problems = tuple(Problem(str(line.get("code", "")), str(line.get("message", ""))) for line in findings.of("error"))
    notes += _other_program(trace, redactor.text(command[0]))
    start = _started(trace, command, redactor)
    end = _end(trace, ended)
    report: DifferentialReport | MutationReport | None = None
    if plan.mode == "substitute":
        matcher = make_matcher(plan.matching, trace.calls, findings.used)
        left = matcher.unused()
        # Where calls did not match, what was not asked and how it ended only follows from that.
        own = [] if told or problems else [*([end] if end else []), *([left_over(left).to_dict()] if left else [])]
        told += own
    elif plan.mode == "differential":
        report = _differential(trace, plan, findings, redactor, end)
    else:
        report, missed = _mutation(trace, plan, findings, redactor, end)
        told += missed if not (told or problems) else []
    asked = len(findings.used) - findings.used.count(0)
    if not asked and trace.calls and not problems and all(one["code"] in _FOLLOWING for one in told):
        notes.append("no recorded call was asked for; only calls through rag_stdlib or @replay.tool belong to a replay")
    return Replayed(ended, asked, len(trace.calls), (*start, *told), problems, report, tuple(notes))


def _told(trace: Trace, plan: Plan, findings: Findings) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the divergences that processes told, and remarks; going on behind the end of an unfinished trace is no divergence."""
    told = list(findings.of("divergence"))
    told += [{"code": "quarantine", "step": None, **line} for line in findings.of("quarantine")]
    if trace.completed is None and plan.incomplete:
        inside = [one for one in told if one.get("code") not in _PAST_THE_END]
        if len(inside) < len(told):
            return inside, ["the run went on where the trace stops, which has no end"]
    if len(told) > 1:  # each process tells its first one
        return told[:1], [f"the run diverged {len(told) - 1} more times behind that, in other processes" if len(told) > 2  # noqa: PLR2004
                          else "the run diverged once more behind that, in another process"]
    return told, []


def _other_program(trace: Trace, now: str) -> list[str]:
    if not trace.command or trace.command[0] == now:
        return []
    return [f"recorded was {trace.command[0]!r}, this is {now!r}"]


def _started(trace: Trace, command: Sequence[str], redactor: Redactor) -> list[dict[str, Any]]:
    """Compare the words behind the program with the recorded ones, which are there where a command was recorded."""
    if trace.command is None:
        return []
    try:
        check_start(trace, trace.agent, withheld(command)[1:], redactor)
    except Divergence as divergence:
        return [divergence.to_dict()]
    return []


def _end(trace: Trace, ended: Ended) -> dict[str, Any] | None:
    """Compare the end with the recorded one; of a trace that is no command's only whether it ended well."""
    if trace.completed is None:
        return None
    was, now = Completion.of(trace.completed), Completion(ended.ok, {"exit_code": ended.code}, ended.error)
    if trace.command is None:
        same = was.ok == now.ok
    else:
        same = first_difference([was.ok, was.result, was.error], [now.ok, now.result, now.error]) is None
    if same and not ended.timed_out:
        return None
    got = "it did not end in time and was killed" if ended.timed_out else _words(now)
    message = f"replay divergence at the end: the command ended otherwise than recorded\n  recorded  {_words(was)}\n  got       {got}"
    return Divergence("ended_otherwise", message, step=trace.completed.get("seq"), path="$.error").to_dict()


def _words(completion: Completion) -> str:
    return "exit code 0" if completion.ok else completion.error or "failed"


def _recorded_end(trace: Trace) -> Completion:
    return Completion.of(trace.completed) if trace.completed is not None else Completion(ok=True)


def _differential(trace: Trace, plan: Plan, findings: Findings, redactor: Redactor, end: dict[str, Any] | None) -> DifferentialReport:
    script = Differential(trace, make_matcher(plan.matching, trace.calls, findings.used), redactor)
    script.report.calls += sorted((CallReport.from_dict(line) for line in findings.of("call")), key=lambda call: call.number)
    script.report.unmatched += findings.of("unmatched")
    script.finish(_recorded_end(trace))
    script.report.completion = end
    return script.report


def _mutation(trace: Trace, plan: Plan, findings: Findings, redactor: Redactor,
              end: Mapping[str, Any] | None) -> tuple[MutationReport, list[dict[str, Any]]]:
    """Return the report, and the divergence of a run that never came to the mutated step."""
    script = Mutation(trace, make_matcher(plan.matching, trace.calls, findings.used), redactor, plan.step, plan.value)
    script.report.findings += findings.of("finding")
    script.report.calls_after = sum(1 for _ in findings.of("after"))
    missed: list[dict[str, Any]] = []
    try:
        script.finish(_recorded_end(trace))
    except Divergence as divergence:
        missed.append(divergence.to_dict())
    script.report.completion = dict(end) if end is not None else None
    return script.report, missed
