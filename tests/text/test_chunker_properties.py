"""What holds of the chunks of every text; and the default rules against a slow copy of std/rag's."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from linear_time import takes_linear_time

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
from std_rag_oracle import BLANK, loses_text, original_spans

from rag_stdlib.text.chunker import STD_RAG, ChunkOptions, chunk_text
from rag_stdlib.text.graphemes import MAX_CLUSTER

UNITS = st.sampled_from(["a", "b.", " ", "\n", "!", "?", "\r\n", "    ", "\n\n\n", "é", "e\u0301", "😀", "🇩🇪", "👋🏻", "\u200d",
                         "👨‍👩‍👧", "\u3000", "漢。", "|", "\n|---|\n", "```\n", "| a | b |\n", "\x1c", "각", "\u0600", "ᄀ"])
TEXTS = st.one_of(st.lists(UNITS, max_size=60).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=120))
OPTIONS = st.builds(ChunkOptions, end_boundary=st.booleans(), graphemes=st.booleans(), cjk_stops=st.booleans(),
                    markdown=st.booleans())
SIZES = st.integers(1, 60)
OVERLAPS = st.one_of(st.none(), st.integers(0, 70))


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, SIZES, OVERLAPS, st.one_of(st.just(STD_RAG), OPTIONS))
@example("    a\n     bbbb", 10, 2, STD_RAG)
@example(" \u0301 \u0301", 1, 0, ChunkOptions(graphemes=True))
def test_r81_every_chunk_is_a_slice_and_all_joined_less_overlaps_are_the_text(text: str, size: int, overlap: int | None, options: ChunkOptions) -> None:
    chunks = chunk_text(text, size, overlap, options)
    raw, covered, joined, end = text.encode(), set(), "", 0
    for number, chunk in enumerate(chunks):
        assert chunk.ordinal == number
        assert chunk.text == text[chunk.start_char:chunk.end_char] == raw[chunk.start_byte:chunk.end_byte].decode()
        assert len(chunk.text) <= (max(size, MAX_CLUSTER) if options.graphemes else size)
        if not options.graphemes:
            assert chunk.text[0] not in BLANK
            assert chunk.text[-1] not in BLANK
        covered.update(range(chunk.start_char, chunk.end_char))
        between = text[end:chunk.start_char]  # empty where chunks overlap
        assert not set(between) - BLANK
        joined += between + chunk.text[max(0, end - chunk.start_char):]
        end = chunk.end_char
    for before, after in pairwise(chunks):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char
    assert all(char in BLANK for place, char in enumerate(text) if place not in covered)
    assert joined == text[:end], "joining the chunks less their overlaps gives the text back"
    assert not set(text[end:]) - BLANK


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, SIZES, OVERLAPS, st.booleans())
def test_r76_graphemes_stay_whole_in_every_text(text: str, size: int, overlap: int | None, markdown: bool) -> None:
    boundaries, at = {0}, 0
    for match in regex.finditer(r"\X", text):
        boundaries.update(range(at, match.end()) if match.end() - at > MAX_CLUSTER else [])
        at = match.end()
        boundaries.add(at)
    for chunk in chunk_text(text, size, overlap, ChunkOptions(graphemes=True, markdown=markdown)):
        assert {chunk.start_char, chunk.end_char} <= boundaries


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, SIZES, OVERLAPS)
@example("\n \n \n\n\n    abcdefghijkl", 10, 0)
def test_the_default_rules_are_std_rags_wherever_those_advance_and_lose_nothing(
        text: str, size: int, overlap: int | None) -> None:
    wanted = size // 5 if overlap is None else overlap
    expected = original_spans(text, size, wanted)
    assume(expected is not None and not loses_text(text, expected))
    assert [(chunk.start_char, chunk.end_char) for chunk in chunk_text(text, size, overlap)] == expected


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, SIZES, OVERLAPS)
def test_options_change_nothing_where_their_matter_does_not_occur(text: str, size: int, overlap: int | None) -> None:
    plain = "".join(char for char in text if char.isascii() and char not in "\r|`~")
    spans = [chunk[:3] for chunk in chunk_text(plain, size, overlap)]
    options = ChunkOptions(cjk_stops=True, markdown=True)
    assert [chunk[:3] for chunk in chunk_text(plain, size, overlap, options)] == spans


ADVERSARIES = {  # what a text begins with, what it repeats, and what it ends with
    "flags": ("x", "🇩🇪", ""), "marks": ("a", "\u0301", ""), "crlf": ("", "\r\n", "x"), "blanks": ("", " ", "x"), "marked blanks": ("", " \u0301", ""),
    "joiners": ("", "👨\u200d", ""), "jamo": ("", "\u1100", ""), "line feeds": ("", "\n", "x"), "stops": ("", ".", ""), "rows": ("|a|\n|-|\n", "|a|\n", ""),
    "fence": ("```\n", "x\n", ""), "spaced": ("", "x" + " " * 99, ""),
}


@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize("windows", ["small", "large"])
def test_texts_of_any_kind_take_linear_time_and_are_chunked_to_their_end(name: str, windows: str) -> None:
    head, unit, tail = ADVERSARIES[name]

    def work(length: int) -> None:
        text = head + unit * (length // len(unit.encode())) + tail
        chunks = chunk_text(text, 40 if windows == "small" else length // 10, None, ChunkOptions(graphemes=True, markdown=True))
        assert chunks[-1].end_char == len(text.rstrip("\r\n "))

    assert takes_linear_time(work, 1 << 15)


@pytest.mark.parametrize("lead", ["", "x", "xy\u0301"])
def test_r76_a_run_of_flags_of_any_length_is_cut_between_flags(lead: str) -> None:
    text = lead + "🇩🇪" * 3000
    for chunk in chunk_text(text, 7, None, ChunkOptions(graphemes=True)):
        assert (chunk.start_char - len(lead)) % 2 == 0 or chunk.start_char < len(lead)
        assert (chunk.end_char - len(lead)) % 2 == 0
