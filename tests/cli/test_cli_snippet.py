"""The part of a chunk that a search shows."""



from __future__ import annotations

import io
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.cli.snippet import matched_spans, snippet, wrapped
from rag_stdlib.cli.terminal import cells


class Terminal(io.StringIO):
    """A screen that keeps what was written."""

    def isatty(self) -> bool:
        return True


def in_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())


def found(text: str, query: str) -> list[str]:
    return [text[first:last] for first, last in matched_spans(text, query)]


@pytest.mark.parametrize(("text", "query", "marked"), [
    ("A refund, and Refunds; REFUND!", "refund", ["refund", "REFUND"]),
    ("naïve Café, cafe\u0301 and CAFE", "cafe", ["Café", "cafe\u0301", "CAFE"]),
    ("plain C, C++ and C# too", "C++", ["C", "C++", "C#"]),
    ("plain C, C++ and C# too", "C#", ["C", "C++", "C#"]),
    ("foo_bar and foo-bar", "bar", ["bar", "bar"]),
    ("don't stop", "don't", ["don", "t"]),
    ("हिन्दी भाषा", "हिन्दी", ["हिन्दी"]),
    ("شُكْرًا جزيلا", "شكرا", ["شُكْرًا"]),
    ("straße STRASSE", "strasse", ["straße", "STRASSE"]),
    ("ships 🚀 and 👍", "🚀", ["🚀"]),
    ("price: 5 € net", "€", ["€"]),
    ("nothing of it", "else", []),
    ("", "x", []),
    ("x", "", []),
    ("x", "?!", []),
])
def test_the_words_of_the_query_are_found(text: str, query: str, marked: list[str]) -> None:
    assert found(text, query) == marked


@pytest.mark.parametrize(("text", "query", "marked"), [
    ("返金は14日以内に行われます。", "返金", ["返金"]),
    ("東京都の規約", "東京都", ["東京都"]),
    ("東京都と京都", "京都", ["京都", "京都"]),
    ("金と返金", "金", ["金", "金"]),
    ("エラーABC123です", "ABC123", ["ABC123"]),
    ("エラーABC123です", "エラー", ["エラー"]),
    ("ภาษาไทย", "ภาษา", ["ภาษา"]),
    ("ｶﾀｶﾅ", "カタカナ", ["ｶﾀｶﾅ"]),
    ("返金", "返品", []),
])
def test_scripts_without_spaces_are_marked_inside_their_runs(text: str, query: str, marked: list[str]) -> None:
    assert found(text, query) == marked


_TEXTS = st.text(st.one_of(st.sampled_from("ab c+#'_-é\u0301返金は東京ｶﾞ🚀\u200d\u200b\n"), st.characters(codec="utf-8")), max_size=60)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(_TEXTS, _TEXTS)
def test_spans_are_inside_the_text_ascending_and_disjoint(text: str, query: str) -> None:
    for asked in (query, text):
        position = 0
        for first, last in matched_spans(text, asked):
            assert position <= first < last <= len(text)
            position = last


@settings(deadline=None, derandomize=True, max_examples=80)
@given(_TEXTS, st.integers(2, 30))
def test_wrapped_lines_hold_all_but_blanks_and_fit(text: str, width: int) -> None:
    flat = " ".join(text.split())
    lines = wrapped(flat, width)
    assert "".join(flat[first:last] for first, last in lines).replace(" ", "") == flat.replace(" ", "")
    for first, last in lines:
        assert sum(map(cells, flat[first:last].rstrip(" "))) <= width


def test_lines_break_at_blanks_between_wide_characters_and_else_anywhere() -> None:
    def broken(text: str, width: int) -> list[str]:
        return [text[first:last].strip() for first, last in wrapped(text, width)]

    assert broken("one two three", 8) == ["one two", "three"]
    assert broken("返金は三日以内", 6) == ["返金は", "三日以", "内"]
    assert broken("返金は。三日", 6) == ["返金", "は。三", "日"], "a full stop begins no line"
    assert broken("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert broken("a " + "x" * 12, 10) == ["a", "x" * 10, "xx"]
    assert broken("返", 1) == ["返"], "what cannot fit is shown all the same"
    assert broken("", 10) == []


def test_marks_do_not_count_as_columns_and_are_closed_on_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    in_terminal(monkeypatch)
    lines = snippet("refund " * 12, "refund", 20)
    assert lines[0] == " ".join(["\x1b[1;33mrefund\x1b[0m"] * 3), "three words and two blanks are 20 columns"
    assert all(line.count("\x1b[1;33m") == line.count("\x1b[0m") for line in lines)


def test_a_marked_word_longer_than_the_line_is_marked_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    in_terminal(monkeypatch)
    assert snippet("x" * 25, "x" * 25, 10) == [f"\x1b[1;33m{'x' * n}\x1b[0m" for n in (10, 10, 5)]


def test_a_long_chunk_is_cut_around_its_first_match() -> None:
    text = "filler " * 500 + "the needle is here " + "filler " * 500
    shown = " ".join(snippet(text, "needle", 90))
    assert "the needle is here" in shown
    assert shown.startswith("… filler")
    assert shown.endswith("filler …")
    assert len(shown) < 500


def test_a_match_inside_one_very_long_token_is_shown() -> None:
    text = "start " + "あ" * 5000 + "返金" + "い" * 5000
    shown = "".join(snippet(text, "返金", 80))
    assert "返金" in shown
    assert len(shown) < 500


def test_without_a_match_the_beginning_is_shown() -> None:
    shown = snippet("first words " + "filler " * 200, "zzz", 90)
    assert shown[0].startswith("first words")
    assert shown[-1].endswith(" …")


def test_a_match_at_the_very_end_has_no_ellipsis_behind_it() -> None:
    shown = snippet("filler " * 300 + "needle", "needle", 90)
    assert shown[0].startswith("… ")
    assert shown[-1].endswith("needle")


def test_a_short_chunk_is_whole_on_one_line_of_text() -> None:
    assert snippet("one\n\n  two\tthree\r\n", "two", 80) == ["one two three"]
    assert snippet(" \n", "x", 80) == []


def test_hidden_characters_of_a_match_are_made_visible() -> None:
    assert snippet("a re\x1bfund\u202e of\u200b it", "fund", 80) == ["a re\ufffdfund\ufffd of\ufffd it"]


def test_a_huge_chunk_costs_little() -> None:
    text = "word " * 2_000_000
    start = time.perf_counter()
    snippet(text, "word", 80)
    assert time.perf_counter() - start < 5
