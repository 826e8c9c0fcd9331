"""Cluster boundaries found near a position are those of the whole text."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.text.graphemes import MAX_CLUSTER, Clusters

UNITS = st.sampled_from(["a", " ", "\r", "\n", "\u0301", "🇩", "👋", "🏻", "\u200d", "👨", "ᄀ", "ᅡ", "ᆨ", "각", "가", "\u0600", "क", "्", "ि",
                         "\u200b", "\ufe0f", "1", "\u20e3", "\u0e33"])


def clusters_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in regex.finditer(r"\X", text)]


@settings(deadline=None, max_examples=160, derandomize=True)
@given(st.lists(UNITS, max_size=40).map("".join), st.randoms(use_true_random=False))
def test_start_and_end_agree_with_the_whole_text_in_any_order_of_asking(text: str, order: object) -> None:
    clusters, positions = Clusters(text), list(range(len(text) + 1))
    order.shuffle(positions)  # type: ignore[attr-defined]
    spans = clusters_of(text)
    for position in positions:
        inside = [span for span in spans if span[0] < position < span[1]]
        left, right = inside[0] if inside else (position, position)
        assert (clusters.start(position), clusters.end(position)) == (left, right)


@pytest.mark.parametrize("position", [-3, 0, 5, 99])
def test_the_ends_of_the_text_are_boundaries(position: int) -> None:
    assert Clusters("ab\u0301cd").start(position) == position
    assert Clusters("ab\u0301cd").end(position) == position


@pytest.mark.parametrize("marks", [MAX_CLUSTER - 1, MAX_CLUSTER])
def test_a_cluster_beyond_the_limit_may_be_cut_anywhere(marks: int) -> None:
    clusters = Clusters("xa" + "\u0301" * marks + "y")
    whole = marks < MAX_CLUSTER
    assert clusters.start(20) == (1 if whole else 20)
    assert clusters.end(20) == (2 + marks if whole else 20)
    assert clusters.end(1) == 1


def test_flags_pair_from_the_start_of_their_run() -> None:
    clusters = Clusters("a" + "🇦" * 101 + "b")
    assert clusters.start(100) == 99
    assert clusters.end(100) == 101
    assert clusters.start(101) == 101, "the one left over stands alone"
