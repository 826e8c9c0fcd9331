"""What a session does with each call: a script, asked before the run of a call and told how it ended.

One driver (`replay.session`) runs calls, awaited or not; the scripts of the modes decide, and know nothing of awaiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from replay.endings import text_of
from replay.errors import Divergence, RecordedError
from replay.recorder import Call, Ending
from replay.tracefile.trace import RecordedCall


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with a call: `answer` it from the trace (the recorded event `at`), or run it; `token` is the script's own."""

    answer: Ending | None = None
    at: int | None = None
    token: Any = None


@dataclass(frozen=True, slots=True)
class Completion:
    """How a run ended: `result` as the program gave it, `error` as ``Type: text`` where it raised."""

    ok: bool
    result: Any = None
    error: str | None = None

    @classmethod
    def of(cls, completed: dict[str, Any]) -> Completion:
        """Read a run_completed event."""
        return cls(bool(completed["ok"]), completed.get("result"), completed.get("error"))


class Script(Protocol):
    """The decisions of one mode."""

    quarantined: bool

    def begin(self, call: Call[Any]) -> Step:
        """Decide what to do with a call that comes; raise `Divergence` where it may not."""

    def end(self, step: Step, call: Call[Any], ending: Ending) -> Ending | None:
        """Take the ending of a call that was run; return the one to deliver in its place, or None for its own."""

    def finish(self, completion: Completion) -> None:
        """Close the books at the end of the run; raise `Divergence` where it did not end as recorded."""

    def abandon(self) -> None:
        """Close what is open where the run did not come to its own end."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody asked for."""


def recorded_ending(call: RecordedCall) -> Ending:
    """Return the ending of a recorded call; `Divergence` where the run ended inside it."""
    ending = call.ending()
    if ending is None:
        msg = f"replay divergence at step {call.step} (line {call.line}): the recorded run ended inside this call to {call.name}"
        raise Divergence("unfinished_call", msg, step=call.step)
    return ending


def one_error(error: BaseException) -> str:
    """Write an exception as a run_completed event holds it; one that stands for a recorded one as that."""
    name = error.type.rpartition(".")[2] if isinstance(error, RecordedError) else type(error).__name__
    return f"{name}: {text_of(error)}"
