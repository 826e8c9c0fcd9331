"""The plots: labels that do not overlap, marks where their axes say, and refusals."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from harness.plots import LEFT, WIDTH, Axis, Bar, Line, Panel, apart, bars, lines
from hypothesis import given
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["one library", "a longer name of one", "<third> & last"]


def texts(drawn: str) -> list[tuple[float, float, str, str]]:
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    return [(float(each.attrib["x"]), float(each.attrib["y"]), each.attrib["text-anchor"], each.text or "") for each in root.iter(f"{SVG}text")]


def boxes(drawn: str) -> list[tuple[float, float, float, float]]:
    """Give the boxes that texts fill, with seven units for a character."""
    found = []
    for x, y, anchor, text in texts(drawn):
        width = 7.0 * len(text)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        found.append((left, y - 10, left + width, y + 2))
    return found


def overlapping(drawn: str) -> list[str]:
    placed = list(zip(boxes(drawn), texts(drawn), strict=True))
    return [f"{one[3]} / {other[3]}" for number, ((left, top, right, bottom), one) in enumerate(placed)
            for (left2, top2, right2, bottom2), other in placed[number + 1:]
            if max(left, left2) < min(right, right2) and max(top, top2) < min(bottom, bottom2)]


def panel(count: int, limits: dict[str, float] | None = None) -> Panel:
    return Panel("Times", "ms", [Bar(NAMES[place % 3], 0.5 * 3**place, 0.6 * 3**place, place == 1) for place in range(count)], limits or {})


@pytest.mark.parametrize("count", [1, 3, 9])
def test_no_labels_of_bars_overlap_and_all_stand_on_the_page(count: int) -> None:
    drawn = bars([panel(count, {"plain read as int8": 0.4, "plain read as float32": 0.45}), panel(count)], "A note.")
    assert overlapping(drawn) == []
    assert all(left >= 0 and right <= WIDTH + 60 for left, _, right, _ in boxes(drawn))
    assert [text for *_, text in texts(drawn)].count(NAMES[0]) == 2 * ((count + 2) // 3)


def test_lines_close_to_each_other_are_named_apart() -> None:
    drawn = lines("By size", "ms", [Line(f"library {place}", [(1e4, 1 + place / 100), (1e5, 10 + place / 100)], ours=place == 2)
                                    for place in range(9)] + [Line("limit", [(1e4, 0.1), (1e5, 1)], limit=True)])
    assert overlapping(drawn) == []


def test_a_mark_stands_where_its_axis_says() -> None:
    root = ET.fromstring(bars([panel(3)]))  # noqa: S314 - our own output
    places = [float(each.attrib["cx"]) for each in root.iter(f"{SVG}circle")]
    assert places == sorted(places)
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)  # equal ratios, equal distances
    assert LEFT < places[0] < places[-1] < WIDTH


def test_both_schemes_of_colours_name_the_same_classes() -> None:
    style = bars([panel(1)]).partition("<style>")[2].partition("</style>")[0]
    light, _, dark = style.partition("@media")
    named: dict[str, set[str]] = defaultdict(set)
    for part, text in (("light", light), ("dark", dark)):
        named[part] = set(re.findall(r"\.([a-z-]+)", re.sub(r"\{[^}]*\}", "", text.replace("(prefers-color-scheme: dark) {", ""))))
    assert named["dark"] == named["light"]


@given(st.lists(st.floats(0, 400), min_size=1, max_size=20))
def test_moved_places_keep_their_order_and_distance(places: list[float]) -> None:
    moved = apart(places, 15, 0, 400)
    order = sorted(range(len(places)), key=places.__getitem__)
    ranked = [moved[index] for index in order]
    assert all(after - before >= 15 - 1e-9 for before, after in pairwise(ranked))
    assert all(-1e-9 <= place <= 400 + 1e-9 for place in moved)


@given(st.lists(st.floats(1e-4, 1e6), min_size=1, max_size=10))
def test_an_axis_holds_its_values_and_rises(values: list[float]) -> None:
    axis = Axis.over(values, 100, 500)
    places = [axis.at(value) for value in sorted(values)]
    assert 100 < places[0] <= places[-1] < 500
    assert places == sorted(places)
    assert all(100 - 1e-6 <= axis.at(tick) <= 500 + 1e-6 for tick in axis.ticks)


@pytest.mark.parametrize("draw", [lambda: bars([]), lambda: bars([Panel("t", "ms", [])]), lambda: lines("t", "ms", []),
                                  lambda: lines("t", "ms", [Line("a", [])])])
def test_nothing_is_not_drawn(draw: object) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        draw()  # type: ignore[operator]


def test_a_figure_of_zero_has_no_place_on_a_logarithmic_axis() -> None:
    with pytest.raises(ValueError, match="no logarithm"):
        bars([Panel("t", "ms", [Bar("a", 0.0)])])
