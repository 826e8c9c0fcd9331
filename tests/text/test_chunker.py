"""The chunker against std/rag's table (§1.3) and against the faults of others (F4, F11)."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import regex

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
from std_rag_oracle import BLANK

from rag_stdlib.contract.provenance import provenance_key
from rag_stdlib.errors import Failure
from rag_stdlib.text import chunker
from rag_stdlib.text.chunker import MAX_CHUNKS, STD_RAG, WHITE_SPACE, Chunk, ChunkOptions, chunk_text, default_overlap

CORVID = "Corvid is an AI-native language. Effects are typed. Replay is deterministic. Budgets are compile-checked."
ALPHA = "Alpha sentence.  Beta sentence.\nGamma sentence."
GRAPHEMES = ChunkOptions(graphemes=True)
MARKDOWN = ChunkOptions(markdown=True)

TABLE = {
    "U1": ("abcdefghij", 4, 1, [("abcd", 0, 4), ("defg", 3, 7), ("ghij", 6, 10)]),
    "U2": (ALPHA, 20, 4, [("Alpha sentence.", 0, 15), ("nce.  Beta sentence.", 11, 31), ("nce.\nGamma sentence.", 27, 47)]),
    "U3": (CORVID, 60, 12, [
        ("Corvid is an AI-native language. Effects are typed.", 0, 51), ("s are typed. Replay is deterministic.", 39, 76),
        ("terministic. Budgets are compile-checked.", 64, 105)]),
    "R4": ("alpha beta gamma", 8, 0, [("alpha be", 0, 8), ("ta gamma", 8, 16)]),
    "R5": ("alpha beta gamma delta", 6, 0, [("alpha", 0, 5), ("beta", 6, 10), ("gamma", 11, 16), ("delta", 17, 22)]),
    "R6": ("One. Two. Three. Four.", 10, 2, [("One. Two.", 0, 9), ("o. Three.", 7, 16), ("e. Four.", 14, 22)]),
    "R7": ("abcd. efgh", 5, 1, [("abcd.", 0, 5), (". efg", 4, 9), ("gh", 8, 10)]),
    "R8": ("x" * 23, 10, 2, [("x" * 10, 0, 10), ("x" * 10, 8, 18), ("x" * 7, 16, 23)]),
    "R9": ("héllo wörld. ünïcode text", 12, 2, [("héllo wörld.", 0, 12), ("d. ünïcode t", 10, 22), ("text", 21, 25)]),
    "R10": ("a😀b😀c", 2, 0, [("a😀", 0, 2), ("b😀", 2, 4), ("c", 4, 5)]),
    "R11": ("hello world ", 4, 0, [("hell", 0, 4), ("o wo", 4, 8), ("rld", 8, 11)]),
    "R12": ("text", 50, 10, [("text", 0, 4)]),
    "R13a": ("", 5, 1, []),
    "R13b": ("   ", 2, 0, []),
    "R14": ("ab. cdefg. hi", 10, 2, [("ab. cdefg.", 0, 10), ("g. hi", 8, 13)]),
    "R15": ("Hi. Hi. Hi. end", 8, 1, [("Hi. Hi.", 0, 7), (". Hi.", 6, 11), (". end", 10, 15)]),
    "R16": ("hello world\n", 50, 10, [("hello world", 0, 11)]),
    "R17": ("a     b", 5, 1, [("a", 0, 1), ("b", 6, 7)]),
    "ceiling": ("aaaaa. bb. cc", 10, 2, [("aaaaa.", 0, 6), ("a. bb. cc", 4, 13)]),
}

KEYS = [
    ("U1", "doc1", 0, "20682be0d602db82155a86c250f0a24ebfca08f12678d010c72fa28b53fb1824"),
    ("U1", "doc1", 1, "5742256b68be6c2002381932a21831eb521bdf01c1735955e0ca20f1d1ef8085"),
    ("U1", "doc1", 2, "edc330e7b4c1d61c80813c7c9a721c5575716256f80199fed0d4bf5729da2ed1"),
    ("U2", "doc1", 0, "6cd9aed7f2c1a10ca4b1901b924ace668538db97d4587fc2289e718d5888f864"),
    ("U2", "doc1", 1, "bbdf00bb0ce62bf3bbc7ce6f776cfe7d4c5a8cc7e21de98a367b3c4630b98145"),
    ("U2", "doc1", 2, "c7513a7ba9402706107ec4bd748e4fb729a3a3e2d83e8fa624e7ab1f2870a44b"),
    ("U3", "doc-1", 0, "91692a80bb1c07b2254416c4b0b5bc3b39bf6c134a853839f5c63b9957a47cb7"),
    ("U3", "doc-1", 1, "fd1a72f97bd7cadb0aacf2397cf7250e7761c694261d85331218ad774e9d7916"),
    ("U3", "doc-1", 2, "a6ba1765cda2b2d919be1422dba68447d0770b558abdc90ebff6bc362d31bda5"),
    ("R9", "d", 0, "864aac79dd90cd2e9015e2e33f7446c42cdd891576fc67181882d434ccd693f1"),
    ("R10", "d", 0, "af49b312e9349e36a036da65e3d894580a24e861bcafce874c54205b4ff3e9aa"),
]


def spans(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_char, chunk.end_char) for chunk in chunks]


def texts(text: str, size: int, overlap: int | None = None, options: ChunkOptions = STD_RAG) -> list[str]:
    return [chunk.text for chunk in chunk_text(text, size, overlap, options)]


@pytest.mark.parametrize("row", TABLE)
def test_table_of_std_rag(row: str) -> None:
    text, size, overlap, expected = TABLE[row]
    chunks = chunk_text(text, size, overlap)
    assert [(chunk.text, chunk.start_char, chunk.end_char) for chunk in chunks] == expected
    assert [chunk.ordinal for chunk in chunks] == list(range(len(expected)))


@pytest.mark.parametrize("row", ["U3", "R6", "R8", "R9", "R12", "R14", "R15", "R16", "R17", "ceiling", "U2", "R7", "R4", "R11"])
def test_the_table_holds_for_the_overlap_of_rag_ingest_where_it_is_that_one(row: str) -> None:
    text, size, overlap, expected = TABLE[row]
    if default_overlap(size) == overlap:
        assert texts(text, size) == [piece for piece, _, _ in expected]
    else:
        assert row in {"R4", "R15"}, "only these rows ask for another overlap than a fifth"


@pytest.mark.parametrize(("row", "doc_id", "ordinal", "digest"), KEYS)
def test_printed_key_digests(row: str, doc_id: str, ordinal: int, digest: str) -> None:
    text, size, overlap, _ = TABLE[row]
    chunk = chunk_text(text, size, overlap)[ordinal]
    assert provenance_key(doc_id, chunk.start_char, chunk.end_char, chunk.text) == f"rag_{digest}"


@pytest.mark.parametrize(("chunk_chars", "overlap"), [
    (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 2), (11, 2), (12, 2), (60, 12), (1000, 200),
])
def test_overlap_is_a_fifth_rounded_down(chunk_chars: int, overlap: int) -> None:
    assert default_overlap(chunk_chars) == overlap
    first, second = chunk_text("x" * (chunk_chars * 2), chunk_chars)[:2]
    assert first.end_char - second.start_char == overlap


def test_white_space_is_unicodes_and_not_pythons() -> None:
    assert set(WHITE_SPACE) == BLANK
    assert texts("\x1c\x1fa\x1e", 10) == ["\x1c\x1fa\x1e"]
    assert texts("\x85\u3000a\u2028 ", 10) == ["a"]


def test_a_boundary_at_the_windows_end_is_taken_by_option() -> None:
    assert texts("aaaaa. bb. cc", 10, 2, ChunkOptions(end_boundary=True))[0] == "aaaaa. bb."
    assert texts("aaaaa. bb! cc", 10, 2, ChunkOptions(end_boundary=True))[0] == "aaaaa. bb!"


def test_full_width_stops_end_a_window_by_option() -> None:
    text = "一二三四五六。七八九十"
    assert texts(text, 10, 0) == ["一二三四五六。七八九", "十"]
    assert texts(text, 10, 0, ChunkOptions(cjk_stops=True)) == ["一二三四五六。", "七八九十"]


def test_options_are_named_as_the_index_stores_them() -> None:
    assert STD_RAG.name() == "std-rag/1"
    assert ChunkOptions(markdown=True, end_boundary=True).name() == "std-rag/1+end_boundary+markdown"


@pytest.mark.parametrize("size", [0, -1, -(2**63)])
def test_a_window_below_one_is_refused(size: int) -> None:
    with pytest.raises(Failure) as caught:
        chunk_text("abc", size)
    assert caught.value.error.code == "invalid_chunk_chars"


@pytest.mark.parametrize(("length", "size", "overlap"), [(5000, 512, 512), (5000, 512, 10**9), (300, 7, 7), (20, 1, 1)])
def test_r70_an_overlap_as_large_as_the_window_ends(length: int, size: int, overlap: int) -> None:
    chunks = chunk_text("a" * length, size, overlap)
    assert spans(chunks) == [(start, start + size) for start in range(length - size + 1)]


@pytest.mark.parametrize(("text", "size", "overlap"), [
    ("abc\n" * 50, 50, 49), ("a.b!" * 40, 30, 29), ("ab\r\n" * 50, 20, 19), ("\n    a\n     bbbb" * 9, 10, 2),
])
def test_r72_starts_and_ends_strictly_advance_whatever_the_boundary_pulls_back(text: str, size: int, overlap: int) -> None:
    found = spans(chunk_text(text, size, overlap))
    assert len(found) > 1
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(found))
    assert found[-1][1] == len(text.rstrip())


@pytest.mark.parametrize("overlap", [None, 0, 1, 3, 5, 19, 20, -4])
def test_r73_every_size_and_length_ends_and_covers(overlap: int | None) -> None:
    for size in range(1, 21):
        for length in range(51):
            chunks = chunk_text("x" * length, size, overlap)
            covered = {place for left, right in spans(chunks) for place in range(left, right)}
            assert covered == set(range(length))
            assert all(len(chunk.text) <= size for chunk in chunks)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_r74_an_overlap_of_zero_makes_adjacent_chunks(size: int) -> None:
    assert texts("abcdefg", size) == ["abcdefg"[i:i + size] for i in range(0, 7, size)]


def test_r74_chunks_per_document_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CHUNKS == 200_000
    monkeypatch.setattr(chunker, "MAX_CHUNKS", 2_000)
    assert len(chunk_text("x" * 2_000, 1)) == 2_000
    with pytest.raises(Failure) as caught:
        chunk_text("x" * 2_001, 1)
    assert (caught.value.error.code, caught.value.error.fix) == ("too_many_chunks", "caller")
    assert "2,000 chunks at chunk_chars=1" in caught.value.error


@pytest.mark.parametrize("cluster", [
    "👋🏻", "🇩🇪", "👨‍👩‍👧‍👦", "e\u0301", "\r\n", "각", "क्षि", "🏴\U000e0067\U000e0062\U000e0065\U000e007f", " \u0301", "\u0600١",
])
def test_r76_no_cut_inside_a_grapheme_cluster(cluster: str) -> None:
    for lead in ("", "a", "ab"):
        text = f"{lead}{cluster * 9}z"
        ends = {0} | {match.end() for match in regex.finditer(r"\X", text)}
        for size in range(1, 12):
            for left, right in spans(chunk_text(text, size, None, GRAPHEMES)):
                assert {left, right} <= ends


def test_r76_a_cluster_larger_than_the_window_stays_whole() -> None:
    assert texts("👨‍👩‍👧‍👦👋🏻", 1, 0, GRAPHEMES) == ["👨‍👩‍👧‍👦", "👋🏻"]
    assert texts("ae\u0301", 2, 0) == ["ae", "\u0301"], "std/rag's rules cut there"
    assert texts("ae\u0301", 2, 0, GRAPHEMES) == ["a", "e\u0301"]


@pytest.mark.parametrize("text", ["😀 a é\n" * 30, "plain ascii. " * 30, "\ufeffbom. ünï " * 20, "漢字。かな\r\n" * 20])
def test_r77_character_and_byte_offsets_both_slice_the_text(text: str) -> None:
    for chunk in chunk_text(text, 11):
        assert text[chunk.start_char:chunk.end_char] == chunk.text
        assert text.encode()[chunk.start_byte:chunk.end_byte].decode() == chunk.text


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\n\r\n"])
def test_r78_offsets_stand_on_the_original_whatever_its_line_ends(newline: str) -> None:
    text = newline.join(f"line {number}" for number in range(40)) + newline
    for chunk in chunk_text(text, 25):
        assert text[chunk.start_char:chunk.end_char] == chunk.text


@pytest.mark.parametrize(("paragraph", "joint"), [("Same words here.", "\n\n"), ("aaaa", ""), ("ab ab", " ")])
def test_r80_repeated_text_keeps_its_own_offsets(paragraph: str, joint: str) -> None:
    found = spans(chunk_text(joint.join([paragraph] * 6), len(paragraph), 0))
    step = len(paragraph) + len(joint)
    assert found[0] == (0, len(paragraph))
    assert len({left for left, _ in found}) == len(found)
    assert found[-1][1] == 6 * step - len(joint)


@pytest.mark.parametrize(("text", "expected"), [
    ("chunk chunk", [(0, 5), (6, 10), (10, 11)]),
    ("chunk\nchunk\nchunk", [(0, 5), (6, 10), (10, 11), (12, 16), (16, 17)]),
])
def test_r190_offsets_are_carried_and_never_searched(text: str, expected: list[tuple[int, int]]) -> None:
    assert spans(chunk_text(text, 5, 0)) == expected
    with_overlap = chunk_text(text, 5, 5)
    starts = [chunk.start_char for chunk in with_overlap]
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert all(text[chunk.start_char:chunk.end_char] == chunk.text for chunk in with_overlap)


@pytest.mark.parametrize("overlap", [1, 3, 4, 5, 50])
def test_r190_an_overlap_gives_no_negative_or_repeated_offset(overlap: int) -> None:
    starts = [chunk.start_char for chunk in chunk_text("chunk chunk", 5, overlap)]
    assert min(starts) == 0
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", " \t\r\n\u3000\x85" * 500])
def test_r88_a_blank_text_has_no_chunks(text: str) -> None:
    for options in (STD_RAG, GRAPHEMES, MARKDOWN):
        assert chunk_text(text, 7, None, options) == []


@pytest.mark.parametrize("gap", ["\n \n", " " * 50, "\n" * 33, "\u2003\u3000" * 20])
def test_r88_a_blank_between_paragraphs_is_no_chunk(gap: str) -> None:
    pieces = texts("A" * 20 + gap + "B" * 20, 20)
    assert all(piece.strip() for piece in pieces)
    assert pieces[0] == "A" * 20
    assert "".join(pieces).count("B") >= 20


def test_a_blank_start_loses_nothing() -> None:
    """The original skips the whole window behind a blank first half, and with it the text in the second."""
    assert texts("\n" * 6 + "abcdefgh", 10, 2)[0].startswith("abcd")
