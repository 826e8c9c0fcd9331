"""How much of one text's words stands in another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.overlap import Weights, best, terms


@pytest.mark.parametrize(("text", "said"), [
    ("When are the refunds paid?", {"refund", "paid"}), ("Policies, boxes and glasses", {"policy", "boxe", "glasse"}), ("of the", {"of", "the"}), ("", set()),
    ("The bus's status", {"bus", "status"}), ("悬空引用", {"悬空", "空引", "引用", "用"}), ("C++ & Straße", {"c", "c++", "strasse"}),
])
def test_terms_say_what_a_text_is_about(text: str, said: set[str]) -> None:
    assert terms(text) == said


def test_a_term_weighs_less_the_more_texts_hold_it() -> None:
    weights = Weights([{"a", "b"}, {"a"}, {"a", "c"}])
    assert weights.held({"a", "b"}, {"b"}) == pytest.approx(1 / (1 + 1 / 3))
    assert weights.held({"a", "z"}, {"a"}) == pytest.approx(1 / 3 / (1 + 1 / 3))
    assert weights.common({"b"}, {"b", "c"}) == 0.5
    assert (weights.held(set(), {"a"}), weights.common(set(), set())) == (0.0, 0.0)


def test_the_best_come_first_and_the_earlier_of_equal_ones() -> None:
    assert best([(0.5, 0), (0.9, 0), (0.0, 9), (0.5, 1), (0.5, 1)], 3) == [1, 3, 4]
    assert best([], 3) == []


WORDS = st.frozensets(st.sampled_from("abcdefgh"))


@given(WORDS, WORDS, st.lists(WORDS))
def test_shares_are_shares(one: frozenset[str], other: frozenset[str], texts: list[frozenset[str]]) -> None:
    weights = Weights(texts)
    assert 0.0 <= weights.common(one, other) <= weights.held(one, other) + 1e-12 <= 1.0 + 2e-12
    assert weights.held(one, one) == (1.0 if one else 0.0)
    assert weights.common(one, other) == weights.common(other, one)
