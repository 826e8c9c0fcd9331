"""Rank shifts as one small SVG picture: a slope chart for each changed ranked call, recorded ranks left, live ranks right.

Direction is told by the line's kind as well as by its colour, gone and new by their marks. The picture takes the reader's light
or dark colours, grows and shrinks with its place, and holds its content as text for those who do not see it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from replay.reports.call_report import CallReport
from replay.reports.display import clean, columns, fit, plural
from replay.reports.ranks import Move, Place, Shift
from replay.reports.report import DifferentialReport

_PANELS: Final = 12
_RANKS: Final = 20  # per panel
_MARGIN: Final = 16
_ROW: Final = 20
_HEAD: Final = 66  # from the top of a panel to its first row
_LINE: Final = 16  # of a panel's heading
_FOOT: Final = 26
_BETWEEN: Final = 150  # from the recorded marks to the live ones
_RANK: Final = 32  # from a mark to the name, with the rank between
_NAMES: Final = (12, 28)  # columns of the items' names: as many as they take, within these
_COLUMN: Final = 6.7  # width of one, in a font whose letters are all alike
_LEGEND: Final = 420  # width that the legend needs
_LETTER: Final = 7.6  # width of a letter of the headings
_PREFIX: Final = 6  # columns from which a common beginning of the names is worth leaving out
_STUB: Final = 22  # length of the line of an item that only one side holds

_STYLE: Final = """
.rank-shift { --ground: #ffffff; --ink: #1f2328; --dim: #59636e; --rule: #d1d9e0; --up: #0a62c4; --down: #a8480a; --gone: #b3203a; --new: #1a7337;
  width: 100%; height: auto; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .rank-shift { --ground: #0f1419; --ink: #e6edf3; --dim: #9da7b1; --rule: #3a434d; --up: #6cb2ff; --down: #f0a35e; --gone: #ff8a9b; --new: #63d188; } }
.rank-shift .ground { fill: var(--ground); }
.rank-shift text { fill: var(--ink); }
.rank-shift .head { font-weight: 600; font-size: 13px; }
.rank-shift .dim { fill: var(--dim); }
.rank-shift .name { font: 11px ui-monospace, monospace; white-space: pre; }
.rank-shift .struck { fill: var(--dim); text-decoration: line-through; }
.rank-shift .rule { stroke: var(--rule); stroke-width: 1; }
.rank-shift .still { stroke: var(--dim); stroke-width: 1; fill: var(--dim); }
.rank-shift .up { stroke: var(--up); stroke-width: 2.5; fill: var(--up); }
.rank-shift .down { stroke: var(--down); stroke-width: 2; stroke-dasharray: 6 3; fill: var(--down); }
.rank-shift .gone { stroke: var(--gone); stroke-width: 1.5; stroke-dasharray: 2 3; }
.rank-shift .new { stroke: var(--new); stroke-width: 1.5; stroke-dasharray: 2 3; }
.rank-shift .dot { stroke: none; }
.rank-shift .cross { stroke: var(--gone); stroke-width: 2; }
.rank-shift .diamond { stroke: none; fill: var(--new); }
""".strip()


def rank_shift_svg(report: DifferentialReport) -> str:
    """Draw the ranked calls whose lists changed, at most twelve of them; the picture says how many more there are."""
    changed = [(call, call.shift) for call in report.calls]
    drawn = [(call, shift) for call, shift in changed if shift and (shift.changed or shift.gone or shift.new)]
    panels = [_Panel(call, shift) for call, shift in drawn[:_PANELS]]
    names = min(max([_NAMES[0], *(panel.widest for panel in panels)]), _NAMES[1])
    sheet = _Sheet(names, max(_LEGEND, round(2 * (_MARGIN + names * _COLUMN + _RANK) + _BETWEEN)))
    body: list[str] = []
    top = 78
    for panel in panels:
        body += panel.drawn(sheet, top)
        top += panel.height
    if len(drawn) > _PANELS:
        body.append(_text(_MARGIN, top + 16, f"{plural(len(drawn) - _PANELS, 'further changed calls')} not drawn; the table has all.", "dim"))
        top += 32
    if not drawn:
        body.append(_text(_MARGIN, top + 8, "No ranked list changed.", "dim"))
        top += 28
    return "\n".join([*_head(report, len(drawn), sheet.width, top), *body, "</svg>", ""])


def _head(report: DifferentialReport, drawn: int, width: int, height: int) -> Iterator[str]:
    totals = report.totals()
    said = (f"{plural(totals['compared'], 'calls')} compared; {plural(drawn, 'ranked lists')} changed:",
            f"{totals['moved']:,} moved, {totals['rescored']:,} rescored, {totals['gone']:,} gone, {totals['new']:,} new.")
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" class="rank-shift" viewBox="0 0 {width} {height}" style="max-width: {width * 1.3:g}px" '
           'role="img" aria-labelledby="rank-shift-title rank-shift-desc">')
    yield '<title id="rank-shift-title">Rank shifts: recorded against live</title>'
    told = " ".join([*said, "Solid lines rise, dashed lines fall, thin lines keep their rank; a cross is an item gone, a diamond a new one."])
    yield f'<desc id="rank-shift-desc">{_safe(told)}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="ground" width="{width}" height="{height}"/>'
    for line, part in enumerate(said):
        yield _text(_MARGIN, 24 + 16 * line, part, "dim")
    keys = [(16, "up", "up"), (76, "down", "down"), (152, "still", "same rank"), (258, "gone", "gone"), (334, "new", "new")]
    for x, kind, word in keys:
        yield _line(x, 58, x + 24, 58, kind)
        yield from _end(x + 24, 58, kind)
        yield _text(x + 34, 62, word, "dim")


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The picture's measures: columns of the names, and its width."""

    names: int
    width: int

    @property
    def left(self) -> float:
        """The x of the recorded marks; rank and name end before it."""
        return (self.width - _BETWEEN) / 2

    @property
    def right(self) -> float:
        """The x of the live marks; rank and name begin behind it."""
        return (self.width + _BETWEEN) / 2


class _Panel:
    """The chart of one call."""

    def __init__(self, call: CallReport, shift: Shift) -> None:
        self._call = call
        self._shift = shift
        self._longest = max(len(call.was_ranks or ()), len(call.now_ranks or ()))
        items = [item for ranks in (call.was_ranks or (), call.now_ranks or ()) for item, _ in ranks[:_RANKS]]
        self._prefix = _common(items)
        self._head = _HEAD + (_LINE if self._prefix else 0)
        self.widest = max((columns(clean(self._named(item))) for item in items), default=0)
        self.height = self._head + max(min(self._longest, _RANKS), 1) * _ROW + (_FOOT if self._longest > _RANKS else 8)

    def drawn(self, sheet: _Sheet, top: int) -> Iterator[str]:
        """Draw the chart at a height."""
        call, shift, first, letters = self._call, self._shift, top + self._head, int((sheet.width - 2 * _MARGIN) / _LETTER)
        title = f"call {call.number}: {call.tool}"
        yield f'<g role="group" aria-label="{_safe(title)}">'
        yield f'<line class="rule" x1="{_MARGIN}" y1="{top}" x2="{sheet.width - _MARGIN}" y2="{top}"/>'
        yield _text(_MARGIN, top + 21, fit(title, letters), "head")
        yield _text(_MARGIN, top + 37, fit(call.args, letters), "dim")
        if self._prefix:
            yield _text(_MARGIN, top + 53, fit(f"all begin with {self._prefix}", letters), "dim")
        yield _text(sheet.left - 10, first - 8, "recorded", "dim", anchor="end")
        yield _text(sheet.right + 10, first - 8, "live", "dim")
        if not call.was_ranks:
            yield _text(sheet.left - 10, first + 10, "no results", "dim", anchor="end")
        if not call.now_ranks:
            yield _text(sheet.right + 10, first + 10, "no results", "dim")
        for place in shift.gone:
            yield from self._alone(sheet, place, first, gone=True)
        for place in shift.new:
            yield from self._alone(sheet, place, first, gone=False)
        for move in sorted(shift.kept, key=lambda move: (move.moved, move.now)):  # what moved lies on top
            yield from self._slope(sheet, move, first)
        if self._longest > _RANKS:
            yield _text(_MARGIN, first + _RANKS * _ROW + 12, f"ranks {_RANKS + 1} to {self._longest:,} are not drawn", "dim")
        yield "</g>"

    def _alone(self, sheet: _Sheet, place: Place, first: int, *, gone: bool) -> Iterator[str]:
        """Draw an item of one list only, as a line that does not come to the other side."""
        if place.rank > _RANKS:
            return
        y = _y(place.rank, first)
        if gone:
            parts = [_line(sheet.left, y, sheet.left + _STUB, y, "gone"), *_end(sheet.left + _STUB, y, "gone")]
        else:
            parts = [_line(sheet.right - _STUB, y, sheet.right, y, "new"), *_end(sheet.right - _STUB, y, "new")]
        said = f"{place.item}: rank {place.rank}, gone" if gone else f"{place.item}: new at rank {place.rank}"
        yield from _shown(said, [*parts, self._name(sheet, place.item, place.rank, first, live=not gone, kind="name struck" if gone else "name")])

    def _slope(self, sheet: _Sheet, move: Move, first: int) -> Iterator[str]:
        """Draw an item of both lists; where one rank lies below the panel, the line ends at its edge."""
        if min(move.was, move.now) > _RANKS:
            return
        kind = "up" if move.now < move.was else "down" if move.now > move.was else "still"
        edge = _RANKS + 0.6
        y1, y2 = _y(min(move.was, edge), first), _y(min(move.now, edge), first)
        parts = [_line(sheet.left, y1, sheet.right, y2, kind)]
        if move.was <= _RANKS:
            parts += [*_end(sheet.left, y1, kind), self._name(sheet, move.item, move.was, first, live=False)]
        if move.now <= _RANKS:
            parts += [*_end(sheet.right, y2, kind), self._name(sheet, move.item, move.now, first, live=True)]
        scores = "" if move.was_score == move.now_score else f", score {move.was_score} to {move.now_score}"
        ranks = f"rank {move.was} to {move.now}" if move.moved else f"rank {move.now}"
        yield from _shown(f"{move.item}: {ranks}{scores}", parts)

    def _named(self, item: str) -> str:
        return f"…{item.removeprefix(self._prefix)}" if self._prefix else item

    def _name(self, sheet: _Sheet, item: str, rank: int, first: int, *, live: bool, kind: str = "name") -> str:
        y, name = _y(rank, first) + 4, fit(self._named(item), sheet.names)
        if live:
            return _text(sheet.right + 10, y, str(rank), "dim") + _text(sheet.right + _RANK, y, name, kind)
        return _text(sheet.left - _RANK, y, name, kind, anchor="end") + _text(sheet.left - 10, y, str(rank), "dim", anchor="end")


def _common(items: Sequence[str]) -> str:
    """Return what all of several names begin with, up to where a part of a name ends; nothing where that is short."""
    if len(set(items)) < 2:  # noqa: PLR2004 - one name has nothing in common with another
        return ""
    shared = os.path.commonprefix(list(items))  # noqa: RUF071 - by characters: ids are no paths
    shared = shared[:max(shared.rfind(mark) for mark in "/:-_.# ") + 1]
    return shared if len(shared) >= _PREFIX and clean(shared) == shared else ""


def _shown(said: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"<g><title>{_safe(said)}</title>"
    yield from parts
    yield "</g>"


def _y(rank: float, first: int) -> float:
    return first + (rank - 1) * _ROW + 6


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _end(x: float, y: float, kind: str) -> Iterator[str]:
    if kind == "gone":
        yield f'<path class="cross" d="M{x - 4:g} {y - 4:g}l8 8m0-8l-8 8"/>'
    elif kind == "new":
        yield f'<path class="diamond" d="M{x:g} {y - 5:g}l5 5l-5 5l-5-5z"/>'
    else:
        yield f'<circle class="{kind} dot" cx="{x:g}" cy="{y:g}" r="3.5"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(fit(text, 400))
