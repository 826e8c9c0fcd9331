"""Substitute: every call is answered from the trace, and nothing runs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from replay.errors import Divergence
from replay.jsontext import first_difference, short
from replay.matching import Asked, Matcher, described
from replay.recorder import Call, Ending
from replay.redaction.redactor import Redactor
from replay.scripts.script import Completion, Step, recorded_ending
from replay.tracefile.trace import RecordedCall, Trace

Leftover: TypeAlias = Literal["error", "report"]
_LISTED = 5


class Substitute:
    """The script of mode substitute."""

    quarantined = True

    def __init__(self, trace: Trace, matcher: Matcher, redactor: Redactor, leftover: Leftover = "error") -> None:
        """Answer from `trace` through `matcher`; `leftover` says what recorded calls that nobody asked for are."""
        self.trace = trace
        self.matcher = matcher
        self.redactor = redactor
        self.leftover = leftover

    def begin(self, call: Call[Any]) -> Step:
        """Find the recorded ending of the call."""
        recorded = self.matcher.take(Asked.of(call, self.redactor))
        return Step(recorded_ending(recorded), recorded.step)

    def end(self, step: Step, call: Call[Any], ending: Ending) -> None:
        """Never asked: nothing is run."""

    def finish(self, completion: Completion) -> None:
        """Compare the end of the run with the recorded one; no recorded call may be left over."""
        unused = self.unused()
        if unused and self.leftover == "error":
            raise left_over(unused)
        check_completion(self.trace, completion)

    def abandon(self) -> None:
        """Nothing is open."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody asked for."""
        return self.matcher.unused()


def left_over(unused: list[RecordedCall]) -> Divergence:
    """Make the divergence of a program that ended before the trace did."""
    first = unused[0]
    lines = [f"replay divergence at step {first.step} (line {first.line}): the program ended, and "
             + ("one recorded call was" if len(unused) == 1 else f"{len(unused)} recorded calls were") + " not asked for (left over)"]
    lines += [f"    step {call.step}  {described(call)}" for call in unused[:_LISTED]]
    if len(unused) > _LISTED:
        lines.append(f"    and {len(unused) - _LISTED} more")
    return Divergence("left_over", "\n".join(lines), step=first.step,
                      expected={"kind": first.kind, "tool": first.name, "args": first.args})


def check_completion(trace: Trace, completion: Completion) -> None:
    """Raise `Divergence` where a run did not end as the recorded one did; an unfinished trace says nothing about the end."""
    if trace.completed is None:
        return
    was = Completion.of(trace.completed)
    pairs = (("ok", was.ok, completion.ok), ("result", was.result, completion.result), ("error", was.error, completion.error))
    for name, recorded, now in pairs:
        if first_difference(recorded, now) is not None:
            msg = (f"replay divergence at the end: the run ended otherwise than recorded\n"
                   f"  {name}: {short(recorded, 200)} -> {short(now, 200)}")
            raise Divergence("ended_otherwise", msg, step=trace.completed.get("seq"), path=f"$.{name}")


def check_start(trace: Trace, agent: str, args: list[Any], redactor: Redactor) -> None:
    """Raise `Divergence` where a run does not start as the recorded one did, once its secrets are taken out too."""
    for name, recorded, now in (("agent", trace.agent, redactor.text(agent)), ("args", trace.args, redactor.value(args))):
        difference = first_difference(recorded, now)
        if difference is not None:
            msg = (f"replay divergence at the start: the run starts otherwise than recorded\n"
                   f"  {name}: {short(recorded, 200)} -> {short(now, 200)}")
            raise Divergence("started_otherwise", msg, step=2, path=f"$.{name}")
