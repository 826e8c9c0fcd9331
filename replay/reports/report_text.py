"""Reports as lines for a terminal, at any width from 40 columns.

Whatever a trace or a program brought in passes through `replay.reports.display`: it cannot move the cursor, nor break a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from replay.jsontext import short
from replay.reports.call_report import ARGUMENTS, UNEXPLAINED, CallReport
from replay.reports.display import NARROWEST, cell, clean, columns, fit, flowed, headed, plural
from replay.reports.ranks import Score, Shift

_RANKS: Final = 20  # items shown of one call
_CALLS: Final = 20  # calls listed that one side lacks
_DETAILS: Final = 50  # changed calls shown in detail
_ITEM: Final = 8  # columns that an item needs at least
_DIGITS: Final = (4, 6, 9)  # of scores, as many as it takes to see a difference
_ARGS: Final = 12  # the same for arguments
_WORDS: Final = {ARGUMENTS: "the program asked otherwise", UNEXPLAINED: "nothing recorded explains it"}


def differential(calls: Sequence[CallReport], totals: Mapping[str, Any], unmatched: Sequence[Mapping[str, Any]],
                 missing: Sequence[Mapping[str, Any]], completion: Mapping[str, Any] | None, width: int) -> list[str]:
    """Write a differential report: a line per call, each change, and the sum."""
    width = max(width, NARROWEST)
    lines = list(_overview(calls, width))
    changed = [compared for compared in calls if not compared.same]
    for compared in changed[:_DETAILS]:
        lines += ["", *_detail(compared, width)]
    if len(changed) > _DETAILS:
        lines += ["", *flowed(f"({len(changed) - _DETAILS:,} further calls are not shown in detail; the JSON report holds all.)", width)]
    if lines:
        lines.append("")
    lines += _sum(calls, totals, width)
    lines += _listed(unmatched, "made that the trace does not hold", width)
    lines += _listed(missing, "recorded and not made", width)
    return [*lines, *_completion(completion, width)]


def mutation(step: int, recorded: str, replacement: str, findings: Sequence[Mapping[str, Any]], completion: Mapping[str, Any] | None,
             calls_after: int, width: int) -> list[str]:
    """Write what followed on a replaced result."""
    width = max(width, NARROWEST)
    lines = [*flowed(f"The result of recorded call {step} was replaced:", width),
             f"  recorded     {fit(recorded, width - 15)}", f"  replacement  {fit(replacement, width - 15)}", ""]
    after = plural(calls_after, "calls")
    if findings:
        lines += flowed(f"After it, over {after}, {plural(len(findings), 'findings')}:", width)
        for finding in findings:
            lines += _finding(finding, width)
    else:
        lines += flowed(f"After it the program asked what was recorded: {after}." if calls_after else "After it the program asked nothing more.",
                        width)
    return [*lines, *(_completion(completion, width) or ["The run ended as recorded."])]


def _finding(finding: Mapping[str, Any], width: int) -> Iterator[str]:
    words = {"arguments": "asked otherwise", "not_asked": "no longer asked", "exhausted": "nothing is recorded for this call",
             "other_call": "another call came", "never_recorded": "never recorded", "consumed": "asked too often"}
    kind, step = str(finding.get("kind", "")), finding.get("step")
    at = f"step {step}: " if step is not None else ""
    yield fit(f"  {at}{words.get(kind, kind.replace('_', ' '))}", width)
    for name in ("recorded", "got"):
        if finding.get(name):
            yield f"    {name:8}  {fit(str(finding[name]), width - 14)}"


def _overview(calls: Sequence[CallReport], width: int) -> Iterator[str]:
    if not calls:
        return
    outcomes = [_outcome(compared) for compared in calls]
    number = max(4, len(str(calls[-1].number)))
    tool = min(max(4, *(columns(clean(compared.tool)) for compared in calls)), max(10, width // 5))
    rest = width - number - tool - 4
    result = min(max(6, *map(len, outcomes)), max(rest * 2 // 3, min(rest, 22)))
    args = rest - result - 2
    shown = args if args >= _ARGS else 0
    yield f"{'call':>{number}}  {cell('tool', tool)}  {cell('result', result)}  {fit('arguments', shown)}".rstrip()
    for compared, outcome in zip(calls, outcomes, strict=True):
        yield (f"{compared.number:>{number}}  {cell(compared.tool, tool)}  {cell(outcome, result)}  "
               f"{fit(compared.args, shown)}").rstrip()


def _outcome(compared: CallReport) -> str:
    if compared.same:
        return "same"
    counts = compared.shift.counts() if compared.shift else {}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    if not parts and (compared.path or compared.was or compared.now):
        parts = ["changed" if compared.path else "ended otherwise"]
    if ARGUMENTS in compared.cause:
        parts.insert(0, "asked otherwise")
    return ", ".join(parts)


def _detail(compared: CallReport, width: int) -> Iterator[str]:
    yield headed(f"call {compared.number} (step {compared.step})  {compared.tool}", compared.args, width)
    words = " and ".join(_cause(name) for name in compared.cause)
    yield from flowed(clean(f"  why: {words}"), width)
    if compared.note:
        yield from flowed(clean(f"  {compared.note}"), width)
    if compared.path:
        yield fit(f"  first difference at {compared.path}", width)
    if compared.was or compared.now:
        yield f"    was  {fit(compared.was, width - 9)}"
        yield f"    now  {fit(compared.now, width - 9)}"
    shift = compared.shift
    if shift is not None and (shift.changed or shift.gone or shift.new):
        yield from _ranks(shift, width)


def _cause(name: str) -> str:
    return _WORDS.get(name, f"{name} changed")


def _ranks(shift: Shift, width: int) -> Iterator[str]:
    rows = sorted([(move.now, move.item, _rank(move.was, move.now), _scores(move.was_score, move.now_score)) for move in shift.changed]
                  + [(place.rank, place.item, f"new -> {place.rank}", _score(place.score)) for place in shift.new])
    rows += [(place.rank, place.item, f"{place.rank} -> gone", _score(place.score)) for place in shift.gone]
    shown = rows[:_RANKS]
    rank = max(4, *(len(row[2]) for row in shown))
    score = max(len(row[3]) for row in shown)
    score = max(score, len("score")) if score else 0
    if width - rank - score - 6 < _ITEM:
        score = 0
    widest = max(len("item"), *(columns(clean(row[1])) for row in shown))
    item = min(widest, width - rank - 4 - (score + 2 if score else 0))
    yield f"  {cell('item', item)}  {'rank':{rank}}{'  score' if score else ''}".rstrip()
    for _, name, ranks, scores in shown:
        yield f"  {cell(name, item)}  {ranks:{rank}}{f'  {scores}' if score else ''}".rstrip()
    if len(rows) > _RANKS:
        yield f"  … and {plural(len(rows) - _RANKS, 'further items')}"


def _rank(was: int, now: int) -> str:
    return f"{was} -> {now}" if was != now else f"{now}"


def _scores(was: Score, now: Score) -> str:
    if was == now:
        return _score(now)
    if was is None or now is None:
        return f"{_score(was) or 'none'} -> {_score(now) or 'none'}"
    for digits in _DIGITS:
        shown = _number(was, digits), _number(now, digits)
        if shown[0] != shown[1]:
            return " -> ".join(shown)
    return f"{was!r} -> {now!r}"


def _score(score: Score) -> str:
    return "" if score is None else _number(score, _DIGITS[0])


def _number(score: float, digits: int) -> str:
    text = f"{score:.{digits}g}"
    return repr(score) if "e" in text else text


def _sum(calls: Sequence[CallReport], totals: Mapping[str, Any], width: int) -> Iterator[str]:
    compared = f"{plural(totals['compared'], 'calls')} compared: {totals['same']:,} the same, {totals['changed']:,} changed."
    yield from flowed(compared, width)
    for name, count in totals["causes"].items():
        yield from flowed(clean(f"  {_cause(name)}: {plural(count, 'calls')}"), width)
    for note, count in Counter(compared.note for compared in calls if compared.same and compared.note).most_common():
        yield from flowed(clean(f"  {note}: {plural(count, 'calls')}"), width)
    items = {name: totals[name] for name in ("moved", "rescored", "gone", "new")}
    if any(items.values()):
        yield from flowed(f"Ranked items: {', '.join(f'{count:,} {name}' for name, count in items.items() if count)}.", width)


def _listed(calls: Sequence[Mapping[str, Any]], what: str, width: int) -> Iterator[str]:
    if not calls:
        return
    yield from flowed(f"{plural(len(calls), 'calls')} {'was' if len(calls) == 1 else 'were'} {what}:", width)
    for one in calls[:_CALLS]:
        at = f"step {one['step']}  " if one.get("step") is not None else ""
        yield f"  {headed(at + str(one.get('tool', '')), short(one.get('args', []), width), width - 2)}"
    if len(calls) > _CALLS:
        yield f"  … and {plural(len(calls) - _CALLS, 'further calls')}"


def _completion(completion: Mapping[str, Any] | None, width: int) -> list[str]:
    if completion is None:
        return []
    said = [line for line in str(completion.get("message", "")).split("\n") if line.strip()]
    return ["The run did not end as recorded:", *(part for line in said for part in flowed(clean(f"  {line}"), width))]
