"""Two recordings held against each other: whether they are the same run, and where they differ.

Traces of any writer are compared, complete or not. Both are read as streams; of each call only digests and a line are kept, and
the values of what differs are read in a second pass.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from replay.jsontext import Difference, short
from replay.reports.align import LIMIT, align
from replay.reports.display import (
    NARROWEST,
    UNLIMITED,
    cell,
    clean,
    columns,
    contrast,
    ending,
    fit,
    flowed,
    headed,
    plural,
)
from replay.reports.facts import changed
from replay.reports.normal import difference, fingerprint, normalised
from replay.tracefile.pairing import CALLS, RESULTS, Pairing, bodies_of, ending_of
from replay.tracefile.reader import Event, EventReader

__all__ = ["normalised", "same_run", "side_by_side"]

_KEPT: Final = 160  # columns kept of a call and of its ending, for a terminal
_KEPT_WHOLE: Final = 4096  # and for a file or pipe
_PLACED: Final = 500  # differences shown with their place
_AROUND: Final = 2  # calls alike that are shown before and behind a difference
_WIDE: Final = 80  # columns from which there is room for two columns; a file, of no width, gets one below the other
_MARKS: Final = {"!": "with another result", "~": "with other arguments", "<": "only left", ">": "only right"}


def same_run(left: str | os.PathLike[str], right: str | os.PathLike[str]) -> bool:
    """Tell whether two traces hold the same events in the same order, each result to the same call, times and ids aside."""
    for one, other in zip_longest(_answered(left), _answered(right)):
        if one is None or other is None or one[1] != other[1] or difference(one[0], other[0]) is not None:
            return False
    return True


def _answered(path: str | os.PathLike[str]) -> Iterator[tuple[Event, int | None]]:
    """Give each event with the number of the call that it makes or answers."""
    pairing = Pairing()
    for event in EventReader(path, bodies="leave"):
        opened = pairing.take(event)
        yield event, opened.number if opened is not None else None


@dataclass(slots=True)
class _Row:
    """A call: what it is and how it ended, as digests and as lines."""

    step: int
    name: str
    asked: bytes
    args: str
    result_step: int | None = None
    answered: bytes = b""
    facts: dict[str, Any] = field(default_factory=dict)
    ended: str = "not ended"


@dataclass(slots=True)
class _Run:
    """A run: its calls, and digests of the events that are none."""

    path: str
    run_id: str = ""
    rows: list[_Row] = field(default_factory=list)
    frame: dict[str, Event] = field(default_factory=dict)
    others: list[tuple[int, bytes]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def _read(path: str | os.PathLike[str], kept: int) -> _Run:
    reader = EventReader(path, bodies="leave")
    run = _Run(reader.path)
    pairing = Pairing()
    rows: dict[int, _Row] = {}
    for event in reader:
        run.run_id = run.run_id or str(event.fields.get("run_id", ""))
        opened = pairing.take(event)
        if event.kind in CALLS:
            arguments = event.fields.get("args")
            name = str(event.fields.get(CALLS[event.kind].name_field, ""))
            rows[event.seq] = _Row(event.seq, name, fingerprint(event), short(arguments, kept))
            run.rows.append(rows[event.seq])
        elif event.kind in RESULTS and opened is not None:
            row = rows.pop(opened.step)
            row.result_step, row.answered = event.seq, fingerprint(event, ("facts",))
            facts = normalised(event).get("facts")
            row.facts = facts if isinstance(facts, dict) else {}
            body = bodies_of(event).get(f"/{RESULTS[event.kind].result_field}")
            row.ended = f"a body of {body.get('bytes')} bytes" if body else ending(ending_of(event), kept)
        elif event.kind in ("schema_header", "run_started", "run_completed"):
            run.frame.setdefault(event.kind, event)
        else:
            run.others.append((event.seq, fingerprint(event)))
    run.notices = [*reader.notices, *(f"{plural(count, 'events')} of the unknown kind {kind!r} passed over"
                                      for kind, count in reader.skipped.items())]
    return run


@dataclass(slots=True)
class _Pair:
    """A line of the comparison; `mark` is blank where both calls are alike."""

    mark: str
    left: _Row | None
    right: _Row | None
    place: Difference | None = None


def side_by_side(left: str | os.PathLike[str], right: str | os.PathLike[str], width: int = 100) -> tuple[str, bool]:
    """Write two runs in two columns, calls aligned by tool and arguments; return the text and whether the runs are the same.

    Calls that run at the same time may end in another order. Where more than 5,000 calls lie between the first and the
    last difference they are aligned by position, going on from the next equal call within a hundred; the text says so.
    """
    width = max(width, NARROWEST)
    kept = _KEPT if width < UNLIMITED else _KEPT_WHOLE
    one, other = _read(left, kept), _read(right, kept)
    pairs = list(_pairs(one.rows, other.rows))
    _place(pairs, one.path, other.path)
    frame = list(_frame(one, other))
    counts = Counter(pair.mark for pair in pairs)
    facts = Counter(name for pair in pairs if pair.mark == " " and pair.left and pair.right
                    for name in changed(pair.left.facts, pair.right.facts))
    same = not frame and not facts and counts.keys() <= {" "}
    lines = [fit(f"left   {one.path}  {one.run_id}", width), fit(f"right  {other.path}  {other.run_id}", width)]
    lines += [fit(f"note: {side}: {notice}", width) for side, run in (("left", one), ("right", other)) for notice in run.notices]
    lines += ["", *_listed(pairs, width)] if pairs else []
    lines += ["", *_sum(counts, facts, frame, width)]
    if max(len(one.rows), len(other.rows)) > LIMIT and not counts.keys() <= {" "}:
        lines += flowed(f"Where more than {LIMIT:,} calls lie between the first and the last difference, calls are aligned by position.", width)
    lines += flowed("The runs are the same." if same else "The runs differ.", width)
    return "\n".join(lines), same


def _pairs(left: list[_Row], right: list[_Row]) -> Iterator[_Pair]:
    for equal, i1, i2, j1, j2 in align([row.asked for row in left], [row.asked for row in right]):
        if equal:
            for one, other in zip(left[i1:i2], right[j1:j2], strict=True):
                yield _Pair(" " if one.answered == other.answered else "!", one, other)
        else:
            yield from _replaced(left[i1:i2], right[j1:j2])


def _replaced(left: list[_Row], right: list[_Row]) -> Iterator[_Pair]:
    """Pair calls of one tool in their order; the others stand alone."""
    to_come = Counter(row.name for row in right)
    i = j = 0
    while i < len(left) and j < len(right):
        one, other = left[i], right[j]
        if one.name == other.name:
            yield _Pair("~", one, other)
            i, j = i + 1, j + 1
            to_come[other.name] -= 1
        elif to_come[one.name]:
            yield _Pair(">", None, other)
            j += 1
            to_come[other.name] -= 1
        else:
            yield _Pair("<", one, None)
            i += 1
    yield from (_Pair("<", one, None) for one in left[i:])
    yield from (_Pair(">", None, other) for other in right[j:])


def _place(pairs: list[_Pair], left: str, right: str) -> None:
    """Find where the calls of each pair differ; those that differ by nothing that counts are alike."""
    differing = [(pair, pair.left, pair.right) for pair in pairs if pair.left and pair.right and pair.mark != " "][:_PLACED]
    ours = _events(left, (step for _, row, _ in differing for step in (row.step, row.result_step)))
    theirs = _events(right, (step for _, _, row in differing for step in (row.step, row.result_step)))
    for pair, one, other in differing:
        asked = difference(ours[one.step], theirs[other.step])
        answered = _result_difference(one, other, ours, theirs)
        pair.place = asked or answered
        pair.mark = "~" if asked else "!" if answered or (one.result_step is None) != (other.result_step is None) else " "


def _result_difference(left: _Row, right: _Row, ours: dict[int, Event], theirs: dict[int, Event]) -> Difference | None:
    if left.result_step is None or right.result_step is None:
        return None
    return difference(ours[left.result_step], theirs[right.result_step], ("facts",))


def _events(path: str, steps: Iterable[int | None]) -> dict[int, Event]:
    wanted = {step for step in steps if step is not None}
    if not wanted:
        return {}
    last = max(wanted)
    found = {}
    for event in EventReader(path, bodies="leave"):
        if event.seq in wanted:
            found[event.seq] = event
        if event.seq == last:
            break
    return found


def _frame(one: _Run, other: _Run) -> Iterator[str]:
    """Say how the runs differ beside their calls."""
    words = {"schema_header": "the headers differ", "run_started": "they started otherwise", "run_completed": "they ended otherwise"}
    for kind, word in words.items():
        ours, theirs = one.frame.get(kind), other.frame.get(kind)
        if ours is None or theirs is None:
            if ours is not theirs:
                yield f"only the {'left' if theirs is None else 'right'} trace has a {kind}"
            continue
        found = difference(ours, theirs)
        if found is not None:
            yield f"{word} at {found.path}: {' | '.join(contrast(found.left, found.right, 60))}"
    for ours_, theirs_ in zip_longest(one.others, other.others):
        if ours_ is None or theirs_ is None or ours_[1] != theirs_[1]:
            steps = [f"{side} step {event[0]}" for side, event in (("left", ours_), ("right", theirs_)) if event is not None]
            yield f"the other events differ, first at {', '.join(steps)}"
            return


def _listed(pairs: list[_Pair], width: int) -> Iterator[str]:
    """Write the pairs that differ, and what stands around them."""
    near = {at for index, pair in enumerate(pairs) if pair.mark != " " for at in range(index - _AROUND, index + _AROUND + 1)}
    passed = 0
    for index, pair in enumerate(pairs):
        if index not in near:
            passed += 1
            continue
        if passed:
            yield f"  … {plural(passed, 'calls')} alike"
            passed = 0
        yield from _in_columns(pair, width) if _WIDE <= width < UNLIMITED else _stacked(pair, width)
    if passed:
        yield f"  … {plural(passed, 'calls')} alike"


def _in_columns(pair: _Pair, width: int) -> Iterator[str]:
    side = (width - 5) // 2
    yield f"{pair.mark} {cell(_line(pair.left, side), side)} │ {_line(pair.right, side)}".rstrip()
    if pair.place is not None:
        yield fit(f"    at {pair.place.path}{_changed_facts(pair)}", width)
        left, right = contrast(pair.place.left, pair.place.right, side - 2)
        yield f"    {cell(left, side - 2)} │ {fit(right, side)}".rstrip()


def _stacked(pair: _Pair, width: int) -> Iterator[str]:
    yield f"{pair.mark} {_line(pair.left or pair.right, width - 2)}"
    if pair.left and pair.right and pair.mark != " ":
        yield f"  {_line(pair.right, width - 2)}"
    if pair.place is not None:
        yield fit(f"    at {pair.place.path}{_changed_facts(pair)}", width)
        for value in contrast(pair.place.left, pair.place.right, width - 6):
            yield f"    {fit(value, width - 4)}"


def _changed_facts(pair: _Pair) -> str:
    names = list(changed(pair.left.facts, pair.right.facts)) if pair.left and pair.right and pair.mark == "!" else []
    return f"  ({' and '.join(names)} changed)" if names else ""


def _line(row: _Row | None, width: int) -> str:
    if row is None:
        return ""
    head = f"{row.step:>4} {row.name}"
    ended = fit(row.ended, max(width // 3, width - columns(clean(f"{head} {row.args}")) - 4))
    return f"{headed(head, row.args, width - columns(ended) - 4)} -> {ended}"


def _sum(counts: Counter[str], facts: Counter[str], frame: list[str], width: int) -> Iterator[str]:
    parts = [f"{plural(counts[' '], 'calls')} alike", *(f"{counts[mark]:,} {word} ({mark})" for mark, word in _MARKS.items() if counts[mark])]
    yield from flowed(f"{', '.join(parts)}.", width)
    for name, count in facts.most_common():
        yield from flowed(clean(f"{name} differs in {plural(count, 'calls')} with the same result."), width)
    for line in frame:
        yield from flowed(clean(f"{line[:1].upper()}{line[1:]}."), width)
