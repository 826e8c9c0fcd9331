"""One recorded call held against the same call made live: whether its result changed, how, and what explains that.

Both endings must be JSON that has passed the same redactor; nothing here redacts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from replay.jsontext import first_difference, short
from replay.recorder import Ending, Ranking, Returned
from replay.reports.display import contrast, tag_of
from replay.reports.display import ending as shown_ending
from replay.reports.facts import changed
from replay.reports.ranks import Move, Ranked, Shift
from replay.tracefile.trace import RecordedCall

ARGUMENTS: Final = "arguments"
UNEXPLAINED: Final = "unexplained"

_SHORT: Final = 200  # characters of a value kept in a report


@dataclass(frozen=True, slots=True)
class CallReport:
    """What became of one recorded call.

    `number` counts the recorded calls from 1; `step` is the recorded event's index. `cause` is `arguments` where the program
    asked otherwise, else the dotted names of the recorded facts that changed, else `unexplained`; empty where nothing changed. `path` is the first place at
    which the results differ, with both sides in short. `was_ranks` and `now_ranks` are the ranked lists of (item, score), best first,
    where both results are ranked lists; `moved`, `gone` and `new` follow from them.
    """

    number: int
    step: int
    kind: str
    tool: str
    args: str
    same: bool
    cause: tuple[str, ...] = ()
    path: str = ""
    was: str = ""
    now: str = ""
    note: str = ""
    was_ranks: Ranked | None = None
    now_ranks: Ranked | None = None

    @property
    def shift(self) -> Shift | None:
        """The two ranked lists held against each other; None where there are none."""
        if self.was_ranks is None or self.now_ranks is None:
            return None
        return Shift.between(self.was_ranks, self.now_ranks)

    @property
    def moved(self) -> tuple[Move, ...]:
        """The items whose rank or score changed."""
        shift = self.shift
        return shift.changed if shift else ()

    @property
    def gone(self) -> tuple[str, ...]:
        """The items that only the recorded list holds."""
        shift = self.shift
        return tuple(place.item for place in shift.gone) if shift else ()

    @property
    def new(self) -> tuple[str, ...]:
        """The items that only the live list holds."""
        shift = self.shift
        return tuple(place.item for place in shift.new) if shift else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "number": self.number, "step": self.step, "kind": self.kind, "tool": self.tool, "args": self.args, "same": self.same,
            "cause": list(self.cause), "path": self.path, "was": self.was, "now": self.now, "note": self.note,
            "moved": [{"item": move.item, "was": move.was, "now": move.now, "was_score": move.was_score, "now_score": move.now_score}
                      for move in self.moved],
            "gone": list(self.gone), "new": list(self.new),
            "was_ranks": _listed(self.was_ranks), "now_ranks": _listed(self.now_ranks),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CallReport:
        """Read what `to_dict` wrote."""
        return cls(
            data["number"], data["step"], data["kind"], data["tool"], data["args"], data["same"], tuple(data["cause"]), data["path"],
            data["was"], data["now"], data["note"], _ranked(data["was_ranks"]), _ranked(data["now_ranks"]))


def compare_call(recorded: RecordedCall, was: Ending, now: Ending, *, live_args: list[Any] | None = None,
                 live_facts: Mapping[str, Any] | None = None, ranking: Ranking | None = None) -> CallReport:
    """Hold a recorded call against its live run.

    `live_args` are what the program asked, where that may differ from the recording; `live_facts` say what state answered;
    `ranking` reads a ranked list out of a result.
    """
    notes: list[str] = []
    asked = None if live_args is None else first_difference(recorded.args, live_args)
    path, left, right, result_same = _difference(was, now)
    # Where no fact was recorded, none can be said to have changed.
    facts = tuple(changed(recorded.facts, live_facts or {})) if recorded.facts else ()
    if asked is not None:
        result = "; the result is the same" if result_same else ""
        notes.append(f"asked otherwise at {asked.path}: {' -> '.join(contrast(asked.left, asked.right, 60))}{result}")
    elif result_same and facts:
        notes.append(f"{' and '.join(facts)} changed; the result did not")
    was_ranks, now_ranks = _both_ranked(was, now, ranking, notes)
    same = asked is None and result_same
    cause: tuple[str, ...] = () if same else (ARGUMENTS,) if asked is not None else facts or (UNEXPLAINED,)
    return CallReport(recorded.number, recorded.step, recorded.kind, recorded.name, short(recorded.args, _SHORT), same, cause, path,
                      left, right, "; ".join(notes), was_ranks, now_ranks)


def _difference(was: Ending, now: Ending) -> tuple[str, str, str, bool]:
    """Return the first differing path, both sides in short, and whether the endings are the same."""
    if isinstance(was, Returned) and isinstance(now, Returned):
        difference = first_difference(was.value, now.value)
        if difference is None:
            return "", "", "", True
        if tag_of(was.value) == tag_of(now.value):
            return difference.path, *contrast(difference.left, difference.right, _SHORT), False
        path = difference.path
    elif was == now:
        return "", "", "", True
    else:
        path = ""
    return path, shown_ending(was, _SHORT), shown_ending(now, _SHORT), False


def _both_ranked(was: Ending, now: Ending, ranking: Ranking | None, notes: list[str]) -> tuple[Ranked | None, Ranked | None]:
    if ranking is None or not isinstance(was, Returned) or not isinstance(now, Returned):
        return None, None
    try:
        before, after = ranking(was.value), ranking(now.value)
    except Exception as error:  # noqa: BLE001 - somebody else's function, and the rest of the report stands without it
        notes.append(f"ranks not compared: ranking() raised {type(error).__name__}: {error}")
        return None, None
    if before is None or after is None:
        return None, None
    return tuple((item, score) for item, score in before), tuple((item, score) for item, score in after)


def _listed(ranked: Ranked | None) -> list[list[Any]] | None:
    return None if ranked is None else [[item, score] for item, score in ranked]


def _ranked(listed: list[list[Any]] | None) -> Ranked | None:
    return None if listed is None else tuple((item, score) for item, score in listed)
