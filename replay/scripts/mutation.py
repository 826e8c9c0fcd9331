"""Mutation: one recorded result is replaced, and what the program does next is shown.

Calls before the step must match as in substitute. At the step the given value is the result. After it other arguments are findings, no
errors: the recorded results go on to be given while the same tools are asked in the same order. A call for which nothing is recorded
ends the run with a `Divergence`: nothing runs live here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from replay.errors import Divergence, InvalidMutation
from replay.jsontext import decode, encode, first_difference, short
from replay.matching import Asked, Matcher, described
from replay.recorder import Call, Ending, Returned
from replay.redaction.redactor import Redactor
from replay.reports.report import MutationReport
from replay.scripts.script import Completion, Step, one_error, recorded_ending
from replay.scripts.substitute import check_completion
from replay.tracefile.trace import RecordedCall, Trace

Found: TypeAlias = Callable[[dict[str, Any]], None]

_WORDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}

_LISTED: Final = 12  # keys of a recorded result


def _word(value: Any) -> str:  # noqa: ANN401 - JSON
    return _WORDS[type(value)]


def _form(call: RecordedCall) -> str:
    """Say what the result of a call looks like."""
    ending = call.ending()
    value = ending.value if isinstance(ending, Returned) else None
    inner = value[0] if isinstance(value, list) and value else value
    keys = [short(key, 40)[1:-1] for key in inner] if isinstance(inner, dict) else []
    words = _word(value) if inner is value else f"an array whose first item is {_word(inner)}"
    listed = ", ".join(keys[:_LISTED]) + (f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else "")
    return f"{words} with {listed}" if keys else words


def _introduction(number: int) -> str:
    return f"invalid replay mutation at substitutable step {number}: "


def check_mutation(trace: Trace, number: int, value: Any) -> None:  # noqa: ANN401 - JSON
    """Raise `InvalidMutation` unless the `number`-th recorded result (from 1) can be replaced by `value`."""
    introduction = _introduction(number)
    if number < 1:
        raise InvalidMutation(introduction + "step indices are 1-based")
    if number > len(trace.calls):
        raise InvalidMutation(f"{introduction}trace only has {len(trace.calls)} substitutable steps")
    call = trace.calls[number - 1]
    ending = call.ending()
    if not isinstance(ending, Returned):
        raise InvalidMutation(f"{introduction}the recorded call to {call.name} returned nothing that could be replaced")
    if _word(ending.value) != _word(value):
        raise InvalidMutation(f"{introduction}{call.name} returned {_word(ending.value)}, the replacement is {_word(value)}")


class Mutation:
    """The script of mode mutation."""

    quarantined = True

    def __init__(self, trace: Trace, matcher: Matcher, redactor: Redactor, number: int, value: Any,  # noqa: ANN401 - JSON
                 found: Found | None = None) -> None:
        """Replace the `number`-th recorded result (from 1) by `value`; `InvalidMutation` where that cannot be.

        `found` is told of each finding as it comes.
        """
        check_mutation(trace, number, value)
        self.trace = trace
        self.matcher = matcher
        self.redactor = redactor
        self._number = number
        self._value = encode(value)  # each time it is given it is another one, as those from a trace are
        self._found = found
        recorded = recorded_ending(trace.calls[number - 1])
        self.report = MutationReport(number, short(recorded.value if isinstance(recorded, Returned) else None),
                                     short(redactor.value(value)))

    def begin(self, call: Call[Any]) -> Step:
        """Answer the call: strictly up to the step, by position behind it."""
        asked = Asked.of(call, self.redactor)
        behind = self._mutated
        recorded = (self.matcher.expected(asked) if behind else None) or self.matcher.take(asked)
        if behind:
            self.report.calls_after += 1
            self._tell({"type": "after"})
            if first_difference(recorded.args, asked.args) is not None:
                finding = {"step": recorded.step, "kind": "arguments", "recorded": described(recorded), "got": described(asked)}
                self.report.findings.append(finding)
                self._tell({"type": "finding", **finding})
        if recorded.number == self._number:
            self._check_readable(call, recorded)
            return Step(Returned(decode(self._value)), recorded.step)
        return Step(recorded_ending(recorded), recorded.step)

    @property
    def _mutated(self) -> bool:
        """Whether the step was asked, in whatever process of the run."""
        return self.matcher.is_used(self._number - 1)

    def _check_readable(self, call: Call[Any], recorded: RecordedCall) -> None:
        try:
            call.decode(decode(self._value))
        except Exception as error:  # noqa: BLE001 - whatever a tool's own function makes of a value that it did not write
            said = self.redactor.text(one_error(error))
            raise InvalidMutation(f"{_introduction(self._number)}{call.tool} cannot read the replacement: {said}; recorded was "
                                  f"{_form(recorded)}") from None

    def end(self, step: Step, call: Call[Any], ending: Ending) -> None:
        """Never asked: nothing is run."""

    def finish(self, completion: Completion) -> None:
        """Note the calls that the program no longer made, and another end."""
        if not self._mutated:
            msg = f"replay divergence at the end: the program ended before the mutated step {self._number} was asked"
            raise Divergence("left_over", msg, step=self.trace.calls[self._number - 1].step)
        for call in self.unused():
            self.report.findings.append({"step": call.step, "kind": "not_asked", "recorded": described(call), "got": ""})
        try:
            check_completion(self.trace, completion)
        except Divergence as divergence:
            self.report.completion = divergence.to_dict()

    def abandon(self) -> None:
        """Nothing is open."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody asked for."""
        return self.matcher.unused()

    def _tell(self, line: dict[str, Any]) -> None:
        if self._found is not None:
            self._found(line)
