"""Which figures are drawn: searches and resources of each size, vector search by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.plots import Bar, Line, Panel, bars, lines

OURS = "ours"
SEARCHES = {"vector": "Vector search", "lexical five": "Lexical search, five words",
            "lexical stop": "Lexical search, five words with stop words", "hybrid five": "Hybrid search, five words and a vector"}
RESOURCES = {"chunks_s": ("Building", "chunks/s"), "file_mb": ("Files", "MB"), "search_mb": ("Memory of a searching process", "MB"),
             "open_first_ms": ("Open and first query, new process", "ms")}
READS = (("int8", "int8_ms"), ("float32", "float_ms"))
NOTE = "The mark is the median, the line goes on to the 95th percentile. Logarithmic axes."
Results = Mapping[str, Any]


def draw(sets: Sequence[Results], titles: Mapping[str, str]) -> dict[str, str]:
    """Give every plot by its file name."""
    drawn: dict[str, str] = {}
    for each in sets:
        if each["vectors"] != "real":
            continue
        if panels := _searches(each, titles):
            drawn[f"search-{each['rows']}.svg"] = bars(panels, NOTE)
        if panels := _resources(each, titles):
            drawn[f"resources-{each['rows']}.svg"] = bars(panels)
    if curves := _by_size([each for each in sets if each["vectors"] == "real"], titles):
        drawn["scale.svg"] = lines("Vector search, median ms by number of chunks (real vectors)", "ms", curves)
    return drawn


def _searches(each: Results, titles: Mapping[str, str]) -> list[Panel]:
    panels = []
    for name, title in SEARCHES.items():
        found = {peer: figures["searches"][name] for peer, figures in each["peers"].items()
                 if name in figures.get("searches", {})}
        ranked = sorted(found, key=lambda peer: (found[peer]["p50"], peer))
        limits = {f"plain read as {kind}": each["limits"][key] for kind, key in READS} if name == "vector" else {}
        if ranked:
            panels.append(Panel(f"{title}, {each['rows']:,} chunks", "ms, p50",
                                [Bar(titles[peer], found[peer]["p50"], found[peer]["p95"], peer == OURS) for peer in ranked], limits))
    return panels


def _resources(each: Results, titles: Mapping[str, str]) -> list[Panel]:
    panels = []
    for name, (title, unit) in RESOURCES.items():
        found = {peer: figures[name] for peer, figures in each["peers"].items() if figures.get(name)}
        ranked = sorted(found, key=lambda peer: (found[peer] * (-1 if name == "chunks_s" else 1), peer))
        if ranked:
            panels.append(Panel(f"{title}, {each['rows']:,} chunks", unit,
                                [Bar(titles[peer], found[peer], None, peer == OURS) for peer in ranked]))
    return panels


def _by_size(sets: Sequence[Results], titles: Mapping[str, str]) -> list[Line]:
    if len(sets) < 2:
        return []
    curves = []
    for peer, title in titles.items():
        points = [(each["rows"], each["peers"][peer]["searches"]["vector"]["p50"]) for each in sets
                  if "vector" in each["peers"].get(peer, {}).get("searches", {})]
        if len(points) >= 2:
            curves.append(Line(title, points, peer == OURS))
    if curves:
        curves += [Line(f"plain read as {kind}", [(each["rows"], each["limits"][key]) for each in sets], limit=True)
                   for kind, key in READS]
    return curves
