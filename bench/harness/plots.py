"""A small SVG writer for two kinds of plots: figures by library on a logarithmic axis, and figures by size.

Colours are set by classes, with a second set for readers who prefer dark pages. Labels stand in columns of their own, or are
moved apart, so that none overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from harness.tables import number

WIDTH = 760
LEFT, RIGHT, ROW, HEAD, FOOT = 168, 96, 22, 44, 34
STYLE = """<style>
  .page { fill: #ffffff } .title { fill: #1b1f24; font-weight: 600; font-size: 14px } .label { fill: #1b1f24; font-size: 12px }
  .ours { font-weight: 700 } .small { fill: #59636e; font-size: 11px } .grid { stroke: #d9dee3; stroke-width: 1 }
  .mark { fill: #7d8894; stroke: #7d8894 } .mark.ours { fill: #0f6fde; stroke: #0f6fde } .line { stroke: #7d8894; fill: none }
  .line.ours { stroke: #0f6fde } .limit { stroke: #b3541e; stroke-dasharray: 5 4; fill: none }
  .limit-text { fill: #b3541e; font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .title, .label { fill: #e6edf3 } .small { fill: #9aa5b1 } .grid { stroke: #2d343c }
    .mark { fill: #8b96a3; stroke: #8b96a3 } .mark.ours { fill: #58a6ff; stroke: #58a6ff } .line { stroke: #8b96a3 }
    .line.ours { stroke: #58a6ff } .limit { stroke: #e8915b } .limit-text { fill: #e8915b }
  }
</style>"""


@dataclass(frozen=True)
class Bar:
    """A figure of a library: a mark at `value`, a line on to `further` where there is one."""

    label: str
    value: float
    further: float | None = None
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """Figures of one kind, in the order given; `limits` are dashed lines across, by their names."""

    title: str
    unit: str
    bars: Sequence[Bar]
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A figure by size: (size, value) in order of size."""

    label: str
    points: Sequence[tuple[float, float]]
    ours: bool = False
    limit: bool = False


def bars(panels: Sequence[Panel], note: str = "") -> str:
    """Draw panels one below the other, each with a logarithmic axis of its own.

    Raises:
        ValueError: no panel, a panel without bars, or a figure that is not above zero.
    """
    if not panels or any(not panel.bars for panel in panels):
        raise ValueError("nothing to draw")
    parts: list[str] = []
    top = 8.0
    for panel in panels:
        parts.append(_panel(panel, top))
        top += HEAD + ROW * len(panel.bars) + FOOT
    if note:
        parts.append(_text(LEFT, top + 10, note, "small"))
        top += 22
    return _document(top, parts)


def _panel(panel: Panel, top: float) -> str:
    values = [value for bar in panel.bars for value in (bar.value, bar.further) if value is not None]
    axis = Axis.over([*values, *panel.limits.values()], LEFT, WIDTH - RIGHT)
    first, last = top + HEAD, top + HEAD + ROW * len(panel.bars)
    parts = [_text(12, top + 18, panel.title, "title")]
    for tick in axis.ticks:
        at = axis.at(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{first - 6:.1f}" x2="{at:.1f}" y2="{last:.1f}"/>')
        parts.append(_text(at, last + 15, f"{tick:,.10g}", "small", "middle"))
    parts.append(_text(WIDTH - RIGHT + 12, last + 15, panel.unit, "small"))
    labels = apart([axis.at(value) for value in panel.limits.values()], 150, LEFT + 60, WIDTH - RIGHT - 20)
    for (name, value), at in zip(panel.limits.items(), labels, strict=True):
        there = axis.at(value)
        parts.append(f'<line class="limit" x1="{there:.1f}" y1="{first - 6:.1f}" x2="{there:.1f}" y2="{last:.1f}"/>')
        parts.append(_text(at, first - 10, name, "limit-text", "middle"))
    for place, bar in enumerate(panel.bars):
        parts += _bar(bar, axis, first + ROW * (place + 0.5))
    return "\n".join(parts)


def _bar(bar: Bar, axis: Axis, middle: float) -> list[str]:
    ours = " ours" if bar.ours else ""
    at, further = axis.at(bar.value), axis.at(bar.further) if bar.further is not None else None
    parts = [_text(LEFT - 12, middle + 4, bar.label, f"label{ours}", "end")]
    if further is not None:
        parts.append(f'<line class="mark{ours}" stroke-width="3" stroke-opacity="0.45" x1="{at:.1f}" y1="{middle:.1f}" '
                     f'x2="{further:.1f}" y2="{middle:.1f}"/>')
    parts.append(f'<circle class="mark{ours}" cx="{at:.1f}" cy="{middle:.1f}" r="5"/>')
    parts.append(_text(WIDTH - RIGHT + 12, middle + 4, number(bar.value), f"label{ours}"))
    return parts


def lines(title: str, unit: str, drawn: Sequence[Line], *, height: int = 420) -> str:
    """Draw figures by size on two logarithmic axes; each line is named at its right end.

    Raises:
        ValueError: nothing to draw, or a figure that is not above zero.
    """
    if not drawn or any(not line.points for line in drawn):
        raise ValueError("nothing to draw")
    first, last, right = 48.0, height - 44.0, WIDTH - 190.0
    sizes = [size for line in drawn for size, _ in line.points]
    across = Axis.over(sizes, 64, right, [float(size) for size in sorted(set(sizes))])
    up = Axis.over([value for line in drawn for _, value in line.points], last, first)
    parts = [_text(12, 24, title, "title")]
    for tick in up.ticks:
        parts.append(f'<line class="grid" x1="64" y1="{up.at(tick):.1f}" x2="{right:.1f}" y2="{up.at(tick):.1f}"/>')
        parts.append(_text(56, up.at(tick) + 4, f"{tick:,.10g} {unit}", "small", "end"))
    for tick in across.ticks:
        parts.append(f'<line class="grid" x1="{across.at(tick):.1f}" y1="{first:.1f}" x2="{across.at(tick):.1f}" y2="{last:.1f}"/>')
        parts.append(_text(across.at(tick), last + 18, f"{tick:,.0f}", "small", "middle"))
    ends = [(across.at(line.points[-1][0]), up.at(line.points[-1][1])) for line in drawn]
    wanted = [y for _, y in ends]
    for line, (end, y), at in zip(drawn, ends, apart(wanted, 15, first, last), strict=True):
        kind = " ours" if line.ours else ""
        path = "M" + " L".join(f"{across.at(size):.1f} {up.at(value):.1f}" for size, value in line.points)
        drawn_as = "limit" if line.limit else f"line{kind}"
        parts.append(f'<path class="{drawn_as}" stroke-width="{3 if line.ours else 1.6}" d="{path}"/>')
        parts += [f'<circle class="mark{kind}" cx="{across.at(size):.1f}" cy="{up.at(value):.1f}" r="{4 if line.ours else 3}"/>'
                  for size, value in line.points if not line.limit]
        parts.append(f'<path class="grid" fill="none" d="M{end + 6:.1f} {y:.1f} L{right + 8:.1f} {at:.1f}"/>')
        name = f"{line.label}  {number(line.points[-1][1])}"
        parts.append(_text(right + 12, at + 4, name, "limit-text" if line.limit else f"label{kind}"))
    return _document(height, parts)


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high` between two places on the page."""

    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float]

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, ticks: Sequence[float] | None = None) -> Axis:
        """Span the values with some room. Ticks are powers of ten, with halves and fifths where there are few.

        Raises:
            ValueError: a value that is not above zero.
        """
        if min(values) <= 0:
            raise ValueError(f"no logarithm of {min(values)}")
        low, high = min(values) / 1.25, max(values) * 1.25
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for steps in ((1,), (1, 3), (1, 2, 5)):
            found = [step * 10.0 ** power for power in powers for step in steps if low <= step * 10.0 ** power <= high]
            if len(found) >= 3:
                break
        return cls(low, high, start, end, found if ticks is None else ticks)

    def at(self, value: float) -> float:
        """Give the place of a value."""
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)


def apart(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Move places as little as a sweep needs so that neighbours are `distance` apart, within bounds where that is possible."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    floor = low
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + distance
    ceiling = high
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - distance
    return moved


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _document(height: float, parts: Sequence[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
            f'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">\n{STYLE}\n'
            f'<rect class="page" width="{WIDTH}" height="{height:.0f}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n")
