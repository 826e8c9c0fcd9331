"""Text for a terminal."""



from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.cli.terminal import (
    OutputError,
    cells,
    clean,
    clean_block,
    colour_wanted,
    flush,
    plural,
    say,
    show,
    size,
    styled,
)

ESCAPE = "\x1b[2J"


class Terminal(io.StringIO):
    """A screen that keeps what was written."""

    def isatty(self) -> bool:
        return True


class Full(io.StringIO):
    """A file that takes nothing."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error


def test_controls_become_replacement_characters_and_line_breaks_blanks() -> None:
    assert clean("a\x00b\x1b[31mc\x7fd\x9be") == "a\ufffdb\ufffd[31mc\ufffdd\ufffde"
    assert clean("one\r\ntwo\nthree\tfour") == "one two three four"
    assert clean("over\rwritten") == "over\ufffdwritten"
    assert clean_block("one\r\ntwo\rthree\tfour\x0b") == "one\ntwo\nthree\tfour\ufffd"


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\u2060", "\ufeff", "\u2028",
                                    "\U000e0041", "\ud800", "\u180e", "\ufff9"])
def test_what_reorders_or_hides_is_made_visible(hidden: str) -> None:
    assert clean(f"a{hidden}b") == "a\ufffdb" == clean_block(f"a{hidden}b")


def test_joiners_stay_where_scripts_spell_with_them_and_show_elsewhere() -> None:
    persian, family = "می‌خواهم", "👩‍👩‍👧"
    assert clean(persian) == persian
    assert clean(family) == family
    assert clean("pass\u200dword \u200cx \u200d") == "pass\ufffdword \ufffdx \ufffd"


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.text())
def test_cleaned_text_is_safe_and_cleaning_again_changes_nothing(text: str) -> None:
    for cleaned in (clean(text), clean_block(text).replace("\n", "").replace("\t", "")):
        assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in cleaned)
        assert clean(cleaned) == cleaned


@pytest.mark.parametrize(("count", "shown"), [
    (0, "0 B"), (1, "1 B"), (999, "999 B"), (1000, "1.0 kB"), (163_840, "163.8 kB"), (999_949, "999.9 kB"),
    (999_999, "1.0 MB"), (5_250_000, "5.2 MB"), (2_000_000_000, "2.0 GB"), (3 * 10**12, "3,000.0 GB")])
def test_sizes_are_for_people(count: int, shown: str) -> None:
    assert size(count) == shown


def test_nouns_follow_their_count() -> None:
    assert [plural(count, "chunks") for count in (0, 1, 2, 12_345)] == ["0 chunks", "1 chunk", "2 chunks", "12,345 chunks"]


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colour_wanted(Terminal())
    assert not colour_wanted(io.StringIO())
    assert not colour_wanted(None)
    monkeypatch.setenv("NO_COLOR", "")
    assert colour_wanted(Terminal()), "an empty NO_COLOR says nothing (no-color.org)"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour_wanted(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colour_wanted(Terminal())


def test_the_stream_that_is_written_decides_on_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert styled("x", 1, 33) == "\x1b[1;33mx\x1b[0m"
    assert styled("x", 1, stream=io.StringIO()) == "x"
    assert styled("", 1) == ""


def test_columns_are_counted_as_terminals_do() -> None:
    assert [cells(char) for char in ("a", "é", "返", "ｱ", "Ａ", "\u0301", "\u200d", "👍")] == [1, 1, 2, 1, 2, 0, 0, 2]


def test_an_output_that_takes_nothing_is_told_apart_from_a_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full(OSError(28, "No space left on device")))
    with pytest.raises(OutputError) as raised:
        show("x")
    assert raised.value.reason == "No space left on device"
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError(32, "Broken pipe")))
    for write in (lambda: show("x"), flush):
        with pytest.raises(OutputError) as raised:
            write()
        assert raised.value.reason == ""


def test_what_cannot_be_told_on_standard_error_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full(OSError(28, "No space left on device")))
    say("anything")


def test_what_is_told_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"rag: {ESCAPE}\nx")
    assert capsys.readouterr().err == "rag: \ufffd[2J x\n"
