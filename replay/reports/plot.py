"""Rank shifts as one small SVG picture: a slope chart for each changed ranked call, recorded ranks left, live ranks right.

Direction is told by the line's kind as well as by its colour, gone and new by mark and word. The picture takes the reader's light
or dark colours, grows and shrinks with its place, and holds its content as text for those who do not see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from replay.reports.call_report import CallReport
from replay.reports.display import fit, plural
from replay.reports.ranks import Move, Shift
from replay.reports.report import DifferentialReport

_PANELS: Final = 12
_RANKS: Final = 20  # per panel
_WIDTH: Final = 460
_ROW: Final = 20
_HEAD: Final = 66  # from the top of a panel to its first row
_FOOT: Final = 26
_LEFT: Final = 164  # x of the recorded marks; rank and name end before it
_RIGHT: Final = 296  # x of the live marks; rank and name begin behind it
_NAME: Final = 17  # columns of an item's name
_RANK: Final = 22  # from a rank to the name
_TITLE: Final = 54  # columns of a panel's headings
_STUB: Final = 22  # length of the line of an item that only one side holds

_STYLE: Final = """
.rank-shift { --ground: #ffffff; --ink: #1f2328; --dim: #59636e; --rule: #d1d9e0; --up: #0a62c4; --down: #a8480a; --gone: #b3203a; --new: #1a7337;
  width: 100%; max-width: 600px; height: auto; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .rank-shift { --ground: #0f1419; --ink: #e6edf3; --dim: #9da7b1; --rule: #3a434d; --up: #6cb2ff; --down: #f0a35e; --gone: #ff8a9b; --new: #63d188; } }
.rank-shift .ground { fill: var(--ground); }
.rank-shift text { fill: var(--ink); stroke: var(--ground); stroke-width: 4px; paint-order: stroke; }
.rank-shift .head { font-weight: 600; font-size: 13px; }
.rank-shift .dim { fill: var(--dim); }
.rank-shift .rule { stroke: var(--rule); stroke-width: 1; }
.rank-shift .mark { stroke-width: 2; fill: none; }
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
    body: list[str] = []
    top = 78
    for call, shift in drawn[:_PANELS]:
        body += _panel(call, shift, top)
        top += _height(call)
    if len(drawn) > _PANELS:
        body.append(_text(16, top + 16, f"{plural(len(drawn) - _PANELS, 'further changed calls')} not drawn; the table has all.", "dim"))
        top += 32
    if not drawn:
        body.append(_text(16, top + 8, "No ranked list changed.", "dim"))
        top += 28
    return "\n".join([*_head(report, len(drawn), top), *body, "</svg>", ""])


def _head(report: DifferentialReport, drawn: int, height: int) -> Iterator[str]:
    totals = report.totals()
    said = (f"{plural(totals['compared'], 'calls')} compared; {plural(drawn, 'ranked lists')} changed:",
            f"{totals['moved']:,} moved, {totals['rescored']:,} rescored, {totals['gone']:,} gone, {totals['new']:,} new.")
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" class="rank-shift" viewBox="0 0 {_WIDTH} {height}" role="img" '
           'aria-labelledby="rank-shift-title rank-shift-desc">')
    yield '<title id="rank-shift-title">Rank shifts: recorded against live</title>'
    told = " ".join([*said, "Solid lines rise, dashed lines fall, thin lines keep their rank."])
    yield f'<desc id="rank-shift-desc">{_safe(told)}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="ground" width="{_WIDTH}" height="{height}"/>'
    for line, part in enumerate(said):
        yield _text(16, 24 + 16 * line, part, "dim")
    keys = [(16, "up", "up"), (76, "down", "down"), (152, "still", "same rank"), (258, "gone", "gone"), (334, "new", "new")]
    for x, kind, word in keys:
        yield _line(x, 58, x + 24, 58, kind)
        yield from _end(x + 24, 58, kind)
        yield _text(x + 34, 62, word, "dim")


def _height(call: CallReport) -> int:
    was, now = len(call.was_ranks or ()), len(call.now_ranks or ())
    rows = max(min(max(was, now), _RANKS), 1)
    return _HEAD + rows * _ROW + (_FOOT if max(was, now) > _RANKS else 8)


def _panel(call: CallReport, shift: Shift, top: int) -> Iterator[str]:
    title = f"call {call.number}: {call.tool}"
    yield f'<g role="group" aria-label="{_safe(title)}">'
    yield f'<line class="rule" x1="16" y1="{top}" x2="{_WIDTH - 16}" y2="{top}"/>'
    yield _text(16, top + 21, fit(title, _TITLE), "head")
    yield _text(16, top + 37, fit(call.args, _TITLE), "dim")
    first = top + _HEAD
    yield _text(_LEFT - 10, top + 58, "recorded", "dim", anchor="end")
    yield _text(_RIGHT + 10, top + 58, "live", "dim")
    if not call.was_ranks:
        yield _text(_LEFT - 10, first + 10, "no results", "dim", anchor="end")
    if not call.now_ranks:
        yield _text(_RIGHT + 10, first + 10, "no results", "dim")
    for move in sorted(shift.kept, key=lambda move: (move.moved, move.now)):  # what moved lies on top
        yield from _slope(move, first)
    for place in shift.gone:
        if place.rank <= _RANKS:
            y = _y(place.rank, first)
            yield from _shown(f"{place.item}: rank {place.rank}, gone",
                              [_line(_LEFT, y, _LEFT + _STUB, y, "gone"), *_end(_LEFT + _STUB, y, "gone"), _name(place.item, place.rank, first, 0),
                               _text(_LEFT + _STUB + 10, y + 4, "gone", "dim")])
    for place in shift.new:
        if place.rank <= _RANKS:
            y = _y(place.rank, first)
            yield from _shown(f"{place.item}: new at rank {place.rank}",
                              [_line(_RIGHT - _STUB, y, _RIGHT, y, "new"), *_end(_RIGHT, y, "new"), _name(place.item, place.rank, first, 1),
                               _text(_RIGHT - _STUB - 6, y + 4, "new", "dim", anchor="end")])
    longest = max(len(call.was_ranks or ()), len(call.now_ranks or ()))
    if longest > _RANKS:
        yield _text(16, first + _RANKS * _ROW + 12, f"ranks {_RANKS + 1} to {longest:,} are not drawn", "dim")
    yield "</g>"


def _slope(move: Move, first: int) -> Iterator[str]:
    """Draw an item of both lists; where one rank lies below the panel, the line ends at its edge."""
    if min(move.was, move.now) > _RANKS:
        return
    kind = "up" if move.now < move.was else "down" if move.now > move.was else "still"
    edge = _RANKS + 0.6
    y1, y2 = _y(min(move.was, edge), first), _y(min(move.now, edge), first)
    parts = [_line(_LEFT, y1, _RIGHT, y2, kind)]
    if move.was <= _RANKS:
        parts += [*_end(_LEFT, y1, kind), _name(move.item, move.was, first, 0)]
    if move.now <= _RANKS:
        parts += [*_end(_RIGHT, y2, kind), _name(move.item, move.now, first, 1)]
    scores = "" if move.was_score == move.now_score else f", score {move.was_score} to {move.now_score}"
    ranks = f"rank {move.was} to {move.now}" if move.moved else f"rank {move.now}"
    yield from _shown(f"{move.item}: {ranks}{scores}", parts)


def _shown(said: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"<g><title>{_safe(said)}</title>"
    yield from parts
    yield "</g>"


def _y(rank: float, first: int) -> float:
    return first + (rank - 1) * _ROW + 6


def _name(item: str, rank: int, first: int, side: int) -> str:
    y, name, number = _y(rank, first) + 4, fit(item, _NAME), str(rank)
    if side:
        return _text(_RIGHT + 10, y, number, "dim") + _text(_RIGHT + 10 + _RANK, y, name)
    return _text(_LEFT - 10 - _RANK, y, name, anchor="end") + _text(_LEFT - 10, y, number, "dim", anchor="end")


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
