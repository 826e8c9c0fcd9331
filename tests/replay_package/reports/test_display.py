"""Text for people: on one line, within its columns, and with nothing in it that acts on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.recorder import Cancelled, Raised, Returned
from replay.reports.display import cell, clean, columns, contrast, ending, fit, flowed, headed, is_error, plural

NASTY = st.text(st.sampled_from("ab \n\t\r\x1b\x00\x9b\u202e\u2066\u200b\ufeff\u2028\ud800\uffff\U000e0041é退😀e\u0301-"), max_size=60)


@given(NASTY, st.integers(0, 30))
def test_a_fitted_text_is_within_its_columns_and_acts_on_nothing(text: str, width: int) -> None:
    shown = fit(text, width)
    assert columns(shown) <= width
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set("\u202e\u2066\u200b\ufeff")
    assert columns(cell(text, width)) == width
    if columns(clean(text)) <= width:
        assert shown == clean(text)


def test_what_acts_becomes_the_replacement_character_and_line_breaks_are_blanks() -> None:
    assert clean("a\x1b[31mb\u202ec\r\nd\te\x07") == "a\ufffd[31mb\ufffdc d e\ufffd"


def test_joiners_stay_where_they_spell() -> None:
    assert clean("क्\u200dष 👩\u200d💻") == "क्\u200dष 👩\u200d💻"
    assert clean("ab\u200dc") == "ab\ufffdc"


@pytest.mark.parametrize(("text", "width", "shown"), [
    ("abcdefghij", 10, "abcdefghij"), ("abcdefghijk", 10, "abcdefghi…"), ("abc", 2, "a…"), ("abc", 1, "…"), ("abc", 0, ""),
    ("退款政策", 8, "退款政策"), ("退款政策", 7, "退款政…"), ("e\u0301" * 4, 4, "e\u0301" * 4),
])
def test_the_end_is_cut_off(text: str, width: int, shown: str) -> None:
    assert fit(text, width) == shown
    assert columns(shown) <= width


def test_a_huge_text_is_cut_too() -> None:
    assert fit("a" * 5_000_000 + "z", 9) == "aaaaaaaa…"
    assert columns(fit("e" + "\u0301" * 1000, 4)) <= 4, "marks without end take no columns"


@pytest.mark.parametrize(("end", "shown", "bad"), [
    (Returned([1]), "[1]", False), (Returned([1, 2, 3]), "[] 3 items", False), (Returned({"a": None}), '{"a":null}', False),
    (Returned({"tag": "ok", "value": [1]}), "ok, 1 item", False), (Returned({"tag": "ok", "value": 7}), "ok 7", False),
    (Returned({"tag": "err", "err": "no\nindex", "code": "not_found"}), "err not_found: no index", True),
    (Returned({"tag": "err", "err": {"a": 1}}), 'err: {"a":1}', True),
    (Returned({"tag": "other", "value": 1}), '{"tag":"other","value":1}', False), (Returned({"tag": "ok"}), '{"tag":"ok"}', False),
    (Raised("builtins.ValueError", "bad"), "raised ValueError: bad", True), (Raised("app.Odd", ""), "raised app.Odd", True),
    (Cancelled(), "cancelled", True), (None, "not ended", True),
])
def test_an_ending_in_words(end: Returned | Raised | Cancelled | None, shown: str, bad: bool) -> None:
    assert (ending(end), is_error(end)) == (shown, bad)


@pytest.mark.parametrize(("name", "detail", "width", "shown"), [
    ("search", '["a"]', 20, 'search ["a"]'), ("search", '["a rather long query"]', 20, 'search ["a rather l…'),
    ("search", '["a rather long query"]', 10, "search"), ("a_long_name", "x", 8, "a_long_…"), ("a_very_long_name", "[1,2,3,4,5,6]", 20, "a_very_lon… [1,2,3,…"), ("search", "", 8, "search"), ("", "detail", 4, "det…"),
])
def test_a_name_goes_before_its_detail(name: str, detail: str, width: int, shown: str) -> None:
    found = headed(name, detail, width)
    assert columns(found) <= width
    assert found == shown


def test_long_texts_are_shown_where_they_differ() -> None:
    same = "word " * 1000
    left, right = contrast(f"{same}left end", f"{same}right", 30)
    assert (left, right) == ('…"word word left end"', '…"word word right"')
    assert contrast("x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100, 9) == ('…"xxxayyyyy"…', '…"xxxbyyyyy"…')
    assert contrast("a" + "y" * 100, "b", 6) == ('"ayyyyy"…', '"b"')
    assert contrast("short", "texts", 9) == ('"short"', '"texts"')
    assert contrast(1, {"a": 2}, 9) == ("1", '{"a":2}')


@given(st.text("ab", max_size=60), st.text("ab", max_size=60))
def test_the_first_difference_is_in_both_excerpts(left: str, right: str) -> None:
    if left == right or max(len(left), len(right)) <= 12:
        return
    one, other = contrast(left, right, 12)
    assert one.strip('…"') != other.strip('…"')


def test_lines_flow_between_words_and_keep_their_indentation() -> None:
    assert flowed("  one two three four", 12) == ["  one two", "    three", "    four"]
    assert flowed("short  text", 40) == ["short  text"]
    assert flowed("a " + "x" * 30, 12) == ["a", "  xxxxxxxxx…"]


def test_one_thing_has_no_plural() -> None:
    assert [plural(count, "calls") for count in (0, 1, 2, 1234)] == ["0 calls", "1 call", "2 calls", "1,234 calls"]
