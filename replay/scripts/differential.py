"""Differential: every call runs live, and what it gives is compared with what was recorded.

The program gets the recorded results, so that it stays on its recorded path and every later call can be compared too. A call
with other arguments is a finding and still gets the recorded result; a call of another tool cannot be placed and is a
`Divergence` under ordered matching. Under keyed matching a call that was never recorded is a finding and gets its live result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from replay.errors import Divergence
from replay.jsontext import decode, encode
from replay.matching import Asked, Matcher
from replay.recorder import Call, Ending, Raised, Returned
from replay.redaction.redactor import Redactor
from replay.reports.report import DifferentialReport, compare_call
from replay.scripts.script import Completion, Step, recorded_ending
from replay.scripts.substitute import check_completion
from replay.tracefile.trace import RecordedCall, Trace

Found: TypeAlias = Callable[[dict[str, Any]], None]


class Differential:
    """The script of mode differential."""

    quarantined = False

    def __init__(self, trace: Trace, matcher: Matcher, redactor: Redactor, found: Found | None = None) -> None:
        """Compare with `trace` through `matcher`; `found` is told of each finding as it comes."""
        self.trace = trace
        self.matcher = matcher
        self.redactor = redactor
        self.report = DifferentialReport()
        self._found = found

    def begin(self, call: Call[Any]) -> Step:
        """Find the recorded call to compare with, and have this one run."""
        asked = Asked.of(call, self.redactor)
        recorded = self.matcher.expected(asked)
        if recorded is None:
            unmatched = {"code": self.matcher.code_of(asked), **asked.to_dict()}
            self.report.unmatched.append(unmatched)
            self._tell("unmatched", unmatched)
        return Step(token=(asked, recorded))

    def end(self, step: Step, call: Call[Any], ending: Ending) -> Ending | None:
        """Compare the ending with the recorded one, which is the one to deliver."""
        asked, recorded = step.token
        if recorded is None:
            return None
        was = recorded_ending(recorded)
        compared = compare_call(recorded, was, self._redacted(ending), live_args=asked.args, live_facts=call.facts(),
                                ranking=call.ranking)
        self.report.calls.append(compared)
        self._tell("call", compared.to_dict())
        return was

    def _tell(self, kind: str, finding: dict[str, Any]) -> None:
        if self._found is not None:
            self._found({**finding, "type": kind})

    def _redacted(self, ending: Ending) -> Ending:
        """Bring a live ending to what the writer would have made of it."""
        if isinstance(ending, Returned):
            return Returned(decode(self.redactor.json(encode(ending.value))))
        if isinstance(ending, Raised):
            return Raised(ending.type, self.redactor.text(ending.message), self.redactor.value(ending.args))
        return ending

    def finish(self, completion: Completion) -> None:
        """Note the recorded calls that were not made, and an end that is not the recorded one."""
        self.report.missing.extend({"kind": call.kind, "tool": call.name, "args": call.args, "step": call.step} for call in self.unused())
        try:
            check_completion(self.trace, completion)
        except Divergence as divergence:
            self.report.completion = divergence.to_dict()

    def abandon(self) -> None:
        """Nothing is open."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that were not made."""
        return self.matcher.unused()
