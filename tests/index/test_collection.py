"""Statistics of collections: sums that come out the same however a collection is parted, and never overflow."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.index import collection
from rag_stdlib.index.collection import Collection, Moments, Wider

SCORES = st.lists(st.floats(-50, 50), max_size=40)


def of(scores: list[float], count: int | None = None) -> Moments:
    return Moments.of(np.array(scores, np.float64), count)


@given(SCORES, SCORES, st.randoms())
def test_parts_add_up_to_the_whole_in_any_order(one: list[float], other: list[float], random: Any) -> None:
    everything = one + other
    random.shuffle(everything)
    assert of(one) + of(other) == of(other) + of(one) == of(everything)


@given(SCORES, st.integers(1, 5))
def test_however_many_are_summed_up_at_once(scores: list[float], piece: int) -> None:
    whole = of(scores)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "_PIECE", piece)
        assert of(scores) == whole


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40), st.integers(0, 40))
def test_mean_and_deviation_are_those_of_the_population(scores: list[float], zeros: int) -> None:
    moments, population = of(scores, len(scores) + zeros), scores + [0.0] * zeros
    assert moments.mean == pytest.approx(statistics.fmean(population), abs=1e-6)
    assert moments.deviation == pytest.approx(statistics.pstdev(population), abs=2e-6)


def test_scores_are_rounded_to_millionths() -> None:
    assert of([0.1, -0.2000004, 0.3000006]) == Moments(3, 100_000 - 200_000 + 300_001, 100_000**2 + 200_000**2 + 300_001**2)


@pytest.mark.parametrize("scores", [[], [0.5], [0.25] * 7, [-1e-9, 1e-9]])
def test_equal_scores_deviate_by_nothing(scores: list[float]) -> None:
    assert of(scores).deviation == 0.0
    assert of(scores).mean == (scores[0] if len(scores) in (1, 7) else 0.0)


@given(st.lists(st.sampled_from([0.0, 1.0, -3_000.5, 2_147.0, 4e9, -3.5e9]), min_size=1, max_size=30))
def test_squares_of_any_size_are_exact(scores: list[float]) -> None:
    millionths = [round(score * 1_000_000) for score in scores]
    assert of(scores) == Moments(len(scores), sum(millionths), sum(number * number for number in millionths))


@given(st.integers(0, 2**63 - 1), st.integers(-10**60, 10**60), st.integers(-10**60, 10**60))
def test_no_sums_are_beyond_a_mean_and_a_deviation(count: int, total: int, squares: int) -> None:
    moments = Moments(count, total, squares)
    assert math.isfinite(moments.mean)
    assert math.isfinite(moments.deviation)
    assert moments.deviation >= 0.0


@pytest.mark.parametrize("moments", [Moments(0, 0, 0), Moments(0, 10**50, 10**59), Moments(1, 10**29, 10**59), Moments(2**63, 10**50, 10**59),
                                     Moments(1, 5, 24)])
def test_sums_that_no_scores_have_raise_nothing(moments: Moments) -> None:
    assert math.isfinite(moments.mean)
    assert math.isfinite(moments.deviation)


def test_collections_add_up_term_by_term() -> None:
    assert Collection(2, 9, (1, 0)) + Collection(3, 4, (3, 2)) == Collection(5, 13, (4, 2))
    assert Collection(0, 0, ()) + Collection(0, 0, ()) == Collection(0, 0, ())


def test_a_lexical_search_needs_no_moments() -> None:
    assert Wider(Collection(1, 1, (1,))).moments is None
