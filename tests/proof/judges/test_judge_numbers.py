"""Numbers with what qualifies them, as sets of values: which are the same, and which cannot both be true."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.judges.numbers import Quantity, Relation, read, relation
from rag_stdlib.proof.judges.words import plain, tokens


def quantity(text: str) -> Quantity:
    words = tokens(text)
    found = read(words, 0)
    assert found is not None
    assert found[1] == len(words), words[found[1]:]
    return found[0]


@pytest.mark.parametrize(("text", "value"), [
    ("64", 64), ("1,000", 1000), ("1000", 1000), ("1\u00a0000", 1000), ("1\u202f000\u202f000", 10**6), ("1'000", 1000), ("3.50", Fraction(7, 2)), ("-5", -5), ("\u22125", -5),
    ("19.1 million", 19_100_000), ("two hundred and five", 205), ("twenty-one", 21), ("one thousand two hundred", 1200), ("a million"[2:], 10**6),
    ("two million three hundred thousand and four", 2_300_004), ("nineteen", 19), ("3 dozen", 36), ("12 hundred", 1200), ("0", 0), ("zero", 0),
])
def test_a_number_is_read(text: str, value: int | Fraction) -> None:
    found = quantity(text)
    assert (found.kind, found.low, found.high, found.vague) == ("number", value, value, False)


@pytest.mark.parametrize(("text", "low", "high", "opens"), [
    ("more than 5", 5, None, True), ("over 1,000", 1000, None, True), ("at least five", 5, None, False), ("no fewer than 5", 5, None, False), ("5 or more", 5, None, False),
    ("5+", 5, None, False), ("\u2265 5", 5, None, False), ("> 5", 5, None, True), ("under 5", None, 5, True), ("fewer than 5", None, 5, True), ("up to 5", None, 5, False),
    ("no more than 5", None, 5, False), ("not more than 5", None, 5, False), ("5 or less", None, 5, False), ("between 10 and 20", 10, 20, False), ("from 10 to 20", 10, 20, False),
    ("10\u201320", 10, 20, False), ("10-20", 10, 20, False), ("10 to 20", 10, 20, False), ("more than ten to twenty", 20, None, True),
])
def test_what_qualifies_a_number_is_read(text: str, low: int | None, high: int | None, opens: bool) -> None:
    found = quantity(text)
    assert (found.low, found.high, found.open_low or found.open_high) == (low, high, opens)


@pytest.mark.parametrize("text", ["about 5", "approximately 5", "nearly five", "~5", "\u2248 5", "around 5 to 6"])
def test_what_is_said_to_be_about_a_number_is_vague(text: str) -> None:
    assert quantity(text).vague


@pytest.mark.parametrize(("one", "other"), [
    ("5 May 2011", "May 5, 2011"), ("5th of May 2011", "2011-05-05"), ("on 5 May 2011", "May 5th, 2011"), ("Sept 2011", "September, 2011"), ("May 5", "5th of May"),
    ("in 1992", "1992"), ("1st", "first"), ("22nd", "22 nd"), ("after 5 May 2011", "after May 5, 2011"),
])
def test_times_and_ordinals_are_read_however_they_are_written(one: str, other: str) -> None:
    assert quantity(one) == quantity(other)


@pytest.mark.parametrize("text", ["2.0.1", "1,2,3", "9" * 31, "words", "may", "may go", "in ten", "after 5 people", "31 February 2011", "1.", "-", "between five", "\u0665"])
def test_what_is_no_number_or_not_all_of_one(text: str) -> None:
    words = tokens(text)
    found = read(words, 0)
    assert found is None or found[1] < len(words) or text == "1."


def test_numbers_beside_each_other_stay_apart() -> None:
    assert read(tokens("twenty thirty"), 0) == (quantity("twenty"), 1)
    assert read(tokens("ten five"), 0) == (quantity("ten"), 1)
    assert read(tokens("two and three"), 0) == (quantity("two"), 1)
    assert read(tokens("3 to 2"), 0) == (quantity("3"), 1)
    assert read(tokens("first to 3"), 0) == (quantity("first"), 1)
    assert read(tokens("hundred and"), 0) == (quantity("hundred"), 1)


@pytest.mark.parametrize(("claim", "said", "expected"), [
    ("64", "640", "differs"), ("64", "64", "same"), ("1,000", "1000", "same"), ("five", "5", "same"), ("64", "at least 640", "differs"), ("64", "at least 64", "unknown"),
    ("more than 64", "640", "unknown"), ("more than 640", "640", "differs"), ("at least 640", "640", "unknown"), ("under 62,000", "59,513", "unknown"),
    ("under 50,000", "59,513", "differs"), ("between 10 and 20", "25", "differs"), ("between 10 and 20", "15", "unknown"), ("10-20", "15-30", "unknown"),
    ("about 64", "640", "unknown"), ("64", "about 640", "unknown"), ("about 64", "about 64", "same"), ("36", "36.4", "unknown"), ("36", "37.4", "differs"),
    ("19 million", "19.1 million", "unknown"), ("60,000", "59,513", "unknown"), ("60,000", "70,000", "differs"), ("20", "19", "differs"), ("-5", "5", "differs"),
    ("1991", "1992", "differs"), ("after 1990", "1990", "differs"), ("before 1990", "in 1991", "differs"), ("5 May 2011", "6 May 2011", "differs"),
    ("May 2011", "5 May 2011", "unknown"), ("after May 2011", "5 May 2011", "differs"), ("before May 2011", "5 May 2011", "differs"), ("5 May", "6 May", "differs"),
    ("5 May", "6 May 2011", "unknown"), ("first", "second", "differs"), ("1st", "1", "unknown"), ("up to 5", "more than 5", "differs"), ("up to 5", "at least 5", "unknown"),
])
def test_how_numbers_stand_to_each_other(claim: str, said: str, expected: Relation) -> None:
    assert relation(quantity(claim), quantity(said)) == expected


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_plain_numbers_differ_unless_one_may_be_the_other_rounded(one: int, other: int) -> None:
    found = relation(quantity(f"{one:,}"), quantity(str(other)))
    rounded = (one % 1000 == 0 or other % 1000 == 0) and one != other
    assert found == ("same" if one == other else "differs") or (rounded and found == "unknown")


@given(st.integers(1, 10**6), st.sampled_from(["more than", "at least", "under", "up to", ""]), st.integers(1, 10**6), st.sampled_from(["over", "at least", "below", "at most", ""]))
def test_numbers_that_differ_share_no_value(one: int, first: str, other: int, second: str) -> None:
    holds = {"more than": int.__gt__, "over": int.__gt__, "at least": int.__ge__, "under": int.__lt__, "below": int.__lt__, "up to": int.__le__, "at most": int.__le__,
             "": int.__eq__}
    if relation(quantity(f"{first} {one}"), quantity(f"{second} {other}")) == "differs":
        for value in {one - 1, one, one + 1, other - 1, other, other + 1}:
            assert not (holds[first](value, one) and holds[second](value, other))


@given(st.lists(st.sampled_from(["one", "two", "ten", "twenty", "hundred", "thousand", "million", "and", "-", "5", "1,000", "may", "2011", "of", "st", "between", "to", "from", "more", "than", "about", "first", "or", "+"]), max_size=12))
def test_reading_numbers_never_fails_and_goes_forward(words: list[str]) -> None:
    for at in range(len(words)):
        found = read(words, at)
        assert found is None or at < found[1] <= len(words)


def test_words_are_read_alike_however_they_are_written() -> None:
    assert tokens("It isn\u2019t; it can't, won't, cannot and does n't. 5 per cent = 5%") == [
        "it", "be", "not", "it", "can", "not", "will", "not", "can", "not", "and", "does", "not", "5", "%", "=", "5", "%"]
    assert tokens("A per-cent") == ["a", "per", "-", "cent"]
    assert plain(["the", "dogs", "pass", "gas", "pays", "us"]) == ("dog", "pass", "gas", "pay", "us")
