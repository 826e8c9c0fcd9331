"""Rank shifts as a picture: what is drawn, what is only said, and that nothing in it acts."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from replay.reports.call_report import CallReport
from replay.reports.display import columns
from replay.reports.plot import rank_shift_svg
from replay.reports.report import DifferentialReport

SVG = "{http://www.w3.org/2000/svg}"


def report(*lists: tuple[Any, Any], tool: str = "rag_search", args: str = '["q"]') -> DifferentialReport:
    def ranked(items: Any) -> Any:
        return None if items is None else tuple(item if isinstance(item, tuple) else (item, None) for item in items)

    return DifferentialReport([
        CallReport(number, 2 * number, "tool", tool, args, was == now, was_ranks=ranked(was), now_ranks=ranked(now))
        for number, (was, now) in enumerate(lists, 1)])


def drawn(found: DifferentialReport) -> ET.Element:
    return ET.fromstring(rank_shift_svg(found))  # noqa: S314 - our own output


def texts(element: ET.Element) -> list[str]:
    return [part.text or "" for part in element.iter(f"{SVG}text")]


def titles(element: ET.Element) -> list[str]:
    return [part.text or "" for part in element.iter(f"{SVG}title")]


def panels(element: ET.Element) -> list[ET.Element]:
    return [group for group in element.iter(f"{SVG}g") if group.get("role") == "group"]


def kinds(element: ET.Element, tag: str) -> list[str]:
    return [part.get("class", "") for part in element.iter(f"{SVG}{tag}") if part.get("class") != "rule"]


def test_each_changed_ranked_call_is_a_panel_with_a_line_per_item() -> None:
    found = drawn(report((("a", "b", "c", "d"), ("b", "a", "c", "n")), (("a",), ("a",)), (None, ("a",)), ((), ("x",)), (("y",), ())))
    assert [panel.get("aria-label") for panel in panels(found)] == ["call 1: rag_search", "call 4: rag_search", "call 5: rag_search"]
    first, second, third = panels(found)
    assert sorted(kinds(first, "line")) == ["down", "gone", "new", "still", "up"]
    assert sorted(kinds(first, "path")) == ["cross", "diamond"]
    assert {"recorded", "live", "a", "b", "c", "d", "n"} <= set(texts(first))
    assert {"gone", "new"} <= set(texts(found)), "what the marks say stands in the legend"
    assert set(titles(first)) == {"b: rank 2 to 1", "a: rank 1 to 2", "c: rank 3", "d: rank 4, gone", "n: new at rank 4"}
    for panel, side in ((second, "recorded"), (third, "live")):
        assert texts(panel).index("no results") > texts(panel).index(side)
        assert sorted(kinds(panel, "line")) == ["new" if side == "recorded" else "gone"]
    assert titles(found)[0] == "Rank shifts: recorded against live"


def test_lines_join_the_right_ranks() -> None:
    panel, = panels(drawn(report((("a", "b", "c"), ("c", "b", "a")))))
    lines = {line.get("class"): (float(line.get("y1", 0)), float(line.get("y2", 0))) for line in panel.iter(f"{SVG}line")
             if line.get("class") != "rule"}
    top, middle, bottom = lines["down"][0], lines["still"][0], lines["down"][1]
    assert top < middle < bottom
    assert lines == {"down": (top, bottom), "still": (middle, middle), "up": (bottom, top)}
    names = {text.text: float(text.get("y", 0)) for text in panel.iter(f"{SVG}text") if text.get("text-anchor") == "end" and text.text in "abc"}
    assert names["a"] < names["b"] < names["c"]


def test_a_score_that_alone_changed_is_told_in_the_title() -> None:
    panel, = panels(drawn(report(((("a", 0.5),), (("a", 0.25),)))))
    assert titles(panel) == ["a: rank 1, score 0.5 to 0.25"]
    assert kinds(panel, "line") == ["still"]


def test_twelve_panels_and_the_number_of_the_others() -> None:
    found = drawn(report(*[(("a", "b"), ("b", "a"))] * 15))
    assert len(panels(found)) == 12
    assert "3 further changed calls not drawn; the table has all." in texts(found)
    assert "15 calls compared; 15 ranked lists changed: 30 moved" in (found.findtext(f"{SVG}desc") or "")


def test_nothing_to_draw_is_said() -> None:
    for found in (drawn(DifferentialReport()), drawn(report((("a",), ("a",)), (None, None)))):
        assert "No ranked list changed." in texts(found)
        assert panels(found) == []


def test_ranks_beyond_the_twentieth_are_said_not_drawn() -> None:
    was = [f"i{rank}" for rank in range(1, 41)]
    now = [*was[25:30], *was[:3], *was[3:18], *was[18:25], "new", *was[30:38]]
    panel, = panels(drawn(report((was, now))))
    assert "ranks 21 to 40 are not drawn" in texts(panel)
    ends = [circle.get("cy") for circle in panel.iter(f"{SVG}circle")]
    assert len(ends) == 20 + 20, "only the ends within the panel are marked"
    assert not [title for title in titles(panel) if title.startswith(("i31:", "i39:", "new:"))]
    height = float(drawn(report((was, now))).get("viewBox", "").split()[3])
    assert all(0 <= float(line.get(y, 0)) <= height for line in panel.iter(f"{SVG}line") for y in ("y1", "y2"))


def test_long_names_are_cut_at_the_end_and_whole_in_the_title() -> None:
    name = "chapter-one/a-rather-long-name.md:17"
    panel, = panels(drawn(report(((name, "b"), ("b", name)))))
    assert "chapter-one/a-rather-long-n…" in texts(panel)
    assert f"{name}: rank 1 to 2" in titles(panel)


def test_what_all_names_of_a_panel_begin_with_is_said_once() -> None:
    names = [f"docs/handbook/{word}.md:0" for word in ("refunds", "returns", "late")]
    first, second = panels(drawn(report((names, names[::-1]), (("doc-1", "doc-2"), ("doc-2", "doc-1")))))
    assert {"all begin with docs/handbook/", "…refunds.md:0", "…late.md:0"} <= set(texts(first))
    assert f"{names[0]}: rank 1 to 3" in titles(first)
    assert {"doc-1", "doc-2"} <= set(texts(second)), "a short one stays"


@given(st.lists(st.text("Wi退/é", min_size=1, max_size=60), min_size=2, max_size=4, unique=True))
def test_no_name_stands_outside_of_the_picture(names: list[str]) -> None:
    root = drawn(report((names, names[::-1])))
    width = float(root.get("viewBox", "").split()[2])
    for text in (part for part in root.iter(f"{SVG}text") if "name" in part.get("class", "")):
        taken = 6.62 * columns(text.text or "")  # what a letter of a monospaced font takes at this size
        x = float(text.get("x", 0))
        assert x - taken >= 16 if text.get("text-anchor") == "end" else x + taken <= width - 16


def test_nothing_that_is_written_lies_where_lines_cross() -> None:
    root = drawn(report((("a", "b", "c"), ("c", "a", "n"))))
    low, high = min(float(line.get("x1", 0)) for line in panels(root)[0].iter(f"{SVG}line") if line.get("class") == "down"), max(
        float(line.get("x2", 0)) for line in panels(root)[0].iter(f"{SVG}line") if line.get("class") == "down")
    assert "stroke: var(--ground)" not in rank_shift_svg(report((("a", "b"), ("b", "a")))), "no halo that would cut a line"
    for text in panels(root)[0].iter(f"{SVG}text"):
        assert not low < float(text.get("x", 0)) < high


@settings(max_examples=50)
@given(st.text(max_size=30), st.lists(st.text(max_size=8), max_size=5), st.lists(st.text(max_size=8), max_size=5))
def test_whatever_stands_in_a_trace_the_picture_is_well_formed_and_holds_no_markup_of_it(tool: str, was: list[str], now: list[str]) -> None:
    hostile = '<script>alert(1)</script>&"\x00\x1b\uffff\ud800]]>'
    found = drawn(report((was, [*now, hostile]), tool=f"{tool}{hostile}", args=hostile))
    tags = {element.tag.removeprefix(SVG) for element in found.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "line", "circle", "path", "text"}
    assert not [name for element in found.iter() for name in element.attrib if name.startswith("on") or "href" in name]


def test_the_picture_stands_alone_and_follows_the_reader() -> None:
    found = rank_shift_svg(report((("a", "b"), ("b", "a"))))
    root = ET.fromstring(found)  # noqa: S314 - our own output
    assert root.get("role") == "img"
    assert (root.get("aria-labelledby") or "").split() == [root.find(f"{SVG}title").get("id"), root.find(f"{SVG}desc").get("id")]  # type: ignore[union-attr]
    assert "prefers-color-scheme: dark" in found
    assert "url(" not in found
    assert found.count("http") == 1, "the namespace"
    assert found == rank_shift_svg(report((("a", "b"), ("b", "a")))), "the same report, the same bytes"
