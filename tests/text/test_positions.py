"""Bytes, lines and pages of a character offset."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.text.positions import ByteOffsets, LineNumbers, page_at

TEXTS = st.text(st.sampled_from("ab é😀\r\n\u2028\x85"), max_size=40)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, st.lists(st.integers(0, 40), max_size=8))
def test_r77_bytes_of_ascending_offsets(text: str, offsets: list[int]) -> None:
    at = ByteOffsets(text)
    for offset in sorted(min(offset, len(text)) for offset in offsets):
        assert at.at(offset) == len(text[:offset].encode())


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS)
def test_r78_lines_count_every_kind_of_break_once(text: str) -> None:
    lines = LineNumbers(text)
    for offset in range(len(text)):
        before = text[:offset]
        if before.endswith("\r") and text[offset] == "\n":
            before = before[:-1]  # inside CR LF, the break is not behind us yet
        breaks = before.replace("\r\n", "\n").replace("\r", "\n").count("\n")
        assert lines.at(offset) == breaks + 1


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_r78_the_same_lines_under_every_line_end(newline: str) -> None:
    text = newline.join(["one", "two", "", "four"])
    lines = LineNumbers(text)
    assert [lines.at(text.index(word)) for word in ("one", "two", "four")] == [1, 2, 4]


def test_only_lf_crlf_and_cr_end_a_line() -> None:
    assert LineNumbers("a\u2028b\x85c\vd\fe").at(8) == 1


def test_anchors_give_the_original_lines() -> None:
    lines = LineNumbers("head\nbody\nmore\nfoot", ((5, 40), (15, 90)))
    assert [lines.at(char) for char in (0, 4, 5, 10, 14, 15, 18)] == [1, 1, 40, 41, 41, 90, 90]


@pytest.mark.parametrize(("char", "page"), [(0, None), (2, None), (3, 1), (9, 1), (10, 4), (99, 4)])
def test_pages(char: int, page: int | None) -> None:
    assert page_at(((3, 1), (10, 4)), char) == page


def test_a_text_without_pages_has_none() -> None:
    assert page_at((), 5) is None
