"""Markdown is cut around fenced code and between table rows, and later pieces of a table know its header."""

from __future__ import annotations

import pytest

from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.text.chunker import Chunk, ChunkOptions, chunk_text
from rag_stdlib.text.markdown import NO_BLOCKS, scan

MARKDOWN = ChunkOptions(markdown=True)
HEADER = "| id | unit | meaning |\n|---:|:----:|---------|"
ROWS = [f"| {number} | ms | timeout of step {number}. Then more! |" for number in range(60)]


def cut(text: str, size: int, overlap: int | None = None) -> list[Chunk]:
    return chunk_text(text, size, overlap, MARKDOWN)


@pytest.mark.parametrize("size", [200, 700, 3600])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("frame", ["", "Some words before it.\n\n"])
def test_r189_a_table_is_cut_between_rows_and_its_header_is_context(size: int, newline: str, frame: str) -> None:
    table = newline.join([*HEADER.split("\n"), *ROWS])
    text = frame + table + newline + newline + "And words behind it."
    begin, end = len(frame), len(frame) + len(table)
    body = begin + len(newline.join(HEADER.split("\n"))) + len(newline)
    chunks = cut(text, size)
    assert len(chunks) > 1 or size > len(text)
    for chunk in chunks:
        assert chunk.text == text[chunk.start_char:chunk.end_char], "spans stay on the source"
        assert content_sha256(chunk.text) == content_sha256(text[chunk.start_char:chunk.end_char])
        in_body = body <= chunk.start_char < end
        assert chunk.context.split() == (HEADER.split() if in_body else [])
        assert chunk.embedded_text == (f"{chunk.context}\n{chunk.text}" if in_body else chunk.text)
        if begin < chunk.start_char < end:
            assert chunk.text.startswith("| ")
            assert text[:chunk.start_char].endswith(("\n", "\r"))
        if begin < chunk.end_char < end:
            assert chunk.text.endswith("|")
    lines = [line for chunk in chunks for line in chunk.text.splitlines()]
    assert all(row in lines for row in ROWS), "no row is torn"


def test_r189_the_default_rules_repeat_no_header() -> None:
    assert {chunk.context for chunk in chunk_text("\n".join([HEADER, *ROWS]), 200)} == {""}


@pytest.mark.parametrize("size", [10, 20])
def test_r189_a_row_larger_than_the_window_is_cut_as_it_comes(size: int) -> None:
    chunks = cut("\n".join([HEADER, *ROWS[:4]]), size)
    assert max(len(chunk.text) for chunk in chunks) == size
    assert chunks[-1].context == HEADER


def test_a_fence_that_fits_is_never_cut() -> None:
    block = "```python\nx = 1. \n\ny = 2!\nz = 3\n```"
    text = f"Words stand here. More words. {'And more. ' * 4}\n{block}\nBehind the block there are words. And more of them."
    for size in range(len(block) + 2, 120):
        pieces = [chunk.text for chunk in cut(text, size)]
        assert any(block in piece for piece in pieces), size
        assert not any(piece.startswith(("x =", "y =", "z =")) for piece in pieces), size


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```"])
def test_a_fence_too_large_is_cut_between_its_lines(fence: str) -> None:
    lines = [f"call_{number}(a.b, c.d)" for number in range(30)]
    text = "\n".join([fence, *lines, fence.strip()])
    pieces = cut(text, 100)
    assert len(pieces) > 5
    known = {*lines, fence, fence.strip()}
    assert {line for chunk in pieces for line in chunk.text.splitlines()} <= known


def test_one_line_too_large_for_the_window_is_cut_inside_a_fence() -> None:
    assert [chunk.text for chunk in cut("```\n" + "x" * 30 + "\n```", 10, 0)] == [
        "```", "x" * 9, "x" * 10, "x" * 10, "x\n```"]


@pytest.mark.parametrize(("text", "fences"), [
    ("```\na\n```\nb", [(0, 10)]),
    ("a\n~~~ sh\nb\n~~~~\nc", [(2, 16)]),
    ("````\n```\n````", [(0, 13)]),
    ("```\nnever closed\n", [(0, 17)]),
    ("```\r\na\r\n```\r\n", [(0, 13)]),
    ("```\ra\r```", [(0, 9)]),
    ("    ```\ncode by indent", []),
    ("``\nno fence", []),
])
def test_fences_are_found(text: str, fences: list[tuple[int, int]]) -> None:
    assert list(scan(text).fences) == fences


@pytest.mark.parametrize(("text", "rows", "header"), [
    ("| a | b |\n|---|---|\n| 1 | 2 |\n", [(0, 20), (20, 30)], "| a | b |\n|---|---|"),
    ("a | b\n-|-\n1 | 2", [(0, 10), (10, 15)], "a | b\n-|-"),
    ("| a |\n| :-: |\nno pipe", [(0, 14)], "| a |\n| :-: |"),
    ("| a |\nno delimiter |", [], ""),
    ("| a |", [], ""),
    ("| a |\n|   |\n", [], ""),
    ("words\n---\n| 1 |", [], ""),
])
def test_tables_are_found(text: str, rows: list[tuple[int, int]], header: str) -> None:
    blocks = scan(text)
    assert list(blocks.rows) == rows
    assert [table[2] for table in blocks.tables] == ([header] if header else [])
    assert blocks.table_header(0) == ""


def test_a_table_inside_a_fence_is_code() -> None:
    assert scan("```\n| a |\n|---|\n| 1 |\n```\n").tables == ()


def test_two_tables_keep_their_own_headers() -> None:
    text = "|a|\n|-|\n|1|\n\nwords\n\n|b|\n|-|\n|2|\n"
    blocks = scan(text)
    assert blocks.table_header(text.index("|1|")) == "|a|\n|-|"
    assert blocks.table_header(text.index("|2|")) == "|b|\n|-|"
    assert blocks.table_header(text.index("words")) == ""


def test_no_blocks_change_nothing() -> None:
    assert NO_BLOCKS.cut_before(0, 5, 9) == 5
    assert NO_BLOCKS.resume(3, 5) == 3
    assert scan("").rows == ()
