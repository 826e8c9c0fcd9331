"""What holds of the sections of every text; and the headings and fences against another reader of CommonMark."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear_time import takes_linear_time

from rag_stdlib.errors import Failure
from rag_stdlib.text import sections
from rag_stdlib.text.chunker import WHITE_SPACE
from rag_stdlib.text.graphemes import MAX_CLUSTER
from rag_stdlib.text.mdblocks import blocks
from rag_stdlib.text.mdlines import flat
from rag_stdlib.text.sections import cut

BLANK = frozenset(WHITE_SPACE)
CLUSTER = regex.compile(r"\X")
UNITS = st.sampled_from([
    "a", "b c. ", "word ", "\n", "\n\n", "\r\n", "\r", "# h\n", "## x ##\n", "#\n", "\n===\n", "\n---\n", "- ", "1. ", "> ", "```\n", "~~~\n", "````sh\n", "    ", "  ",
    "\t", "|", "| a | b |\n|---|---|\n| 1 | 2 |\n", "<div>", "<!-- c", "-->", "漢字。", "é", "e\u0301", "👨‍👩‍👧", "🇩🇪", "\u2028", "\ufeff", "\u3000", " " * 40, "x" * 50,
    "\u0301", "\u0600", "각", "- a\n\n  ```\n  x\n  ```\n", "a" + "\u0301" * 30, " " * 300, "---\n",
])
TEXTS = st.one_of(st.lists(UNITS, max_size=60).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=120))
SKIPS = st.lists(st.tuples(st.integers(-2, 80), st.integers(-2, 80)), max_size=3)
MOST = st.sampled_from([16, 20, 33, 64, 100, 2_000])
LEAST = st.sampled_from([0, 1, 5, 16, 80])


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, SKIPS, MOST, LEAST)
@example(" \u0301", [(1, 2)], 16, 1)
@example("\u0600" * 10 + " aaaaaaaaaa", [], 20, 1)
@example("\u0600" * 10 + " ", [], 20, 1)
@example("```\n" * 3 + "~~~\n#", [(2, 5)], 16, 5)
def test_x14_every_character_that_is_not_blank_or_skipped_is_in_one_chunk(text: str, skip: list[tuple[int, int]], most: int, least: int) -> None:
    text = f"x{text}"  # no front matter and no byte order mark, which have tests of their own
    raw, skipped, covered, at = text.encode(), set[int](), set[int](), 0
    for start, end in skip:
        skipped.update(range(max(start, 0), end))
    for number, section in enumerate(cut(text, skip, max_bytes=most, min_bytes=least)):
        chunk = section.chunk
        assert chunk.ordinal == number
        assert chunk.text == text[chunk.start_char:chunk.end_char] == raw[chunk.start_byte:chunk.end_byte].decode()
        assert chunk.end_byte - chunk.start_byte <= most
        assert not BLANK.issuperset(chunk.text)
        assert chunk.start_char >= at
        at = chunk.end_char
        covered.update(range(chunk.start_char, at))
    assert not covered & skipped
    assert all(char in BLANK for place, char in enumerate(text) if place not in covered and place not in skipped)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, MOST)
def test_x6_chunks_are_whole_lines_or_cut_inside_one_for_its_length(text: str, most: int) -> None:
    text = f"x{text}"
    found = [section.chunk for section in cut(text, max_bytes=most)]
    for before, after in pairwise(found):
        between = text[before.end_char:after.start_char]
        if "\n" in between or "\r" in between:
            assert between[0] in BLANK
            continue
        breaks = [match.end() for match in regex.finditer(r"\r\n|\r|\n", text)]
        line = bisect_right(breaks, before.end_char)
        start, end = ([0, *breaks])[line], ([*breaks, len(text)])[line]
        assert len(text[start:end].encode()) > most // 4, "a short line is in one piece"


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, st.sampled_from([100, 400]))
def test_x14_no_character_is_cut_in_any_text(text: str, most: int) -> None:
    text = f"x{text}"
    boundaries, at = {0}, 0
    for cluster in CLUSTER.findall(text):
        if len(cluster) > MAX_CLUSTER or len(cluster.encode()) > most:
            boundaries.update(range(at, at + len(cluster)))
        at += len(cluster)
        boundaries.add(at)
    for section in cut(text, max_bytes=most):
        assert section.chunk.start_char in boundaries
        assert section.chunk.end_char in boundaries


@settings(deadline=None, max_examples=80, derandomize=True)
@given(st.lists(st.text("ab .\n-|>", min_size=1, max_size=80), max_size=30).map("\n".join))
def test_x14_pieces_of_a_section_are_not_short(text: str) -> None:
    found = cut(f"# T\n{text}", max_bytes=120, min_bytes=30)
    if len({section.header_path for section in found}) == 1 and len(found) > 1:
        assert all(len(section.chunk.text) >= 30 for section in found)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(st.lists(st.sampled_from(["a", "b c", "\n", "\n\n", "# h\n", "## x ##\n", "#\n", "\n===\n", "\n---\n", "- ", "1. ", "> ", "```\n", "~~~\n", "    ", "  ", "|",
                                 "a|b\n-|-\n1|2\n", "<div>\n", "<!-- c\n", "-->\n", "字"]), max_size=40).map("".join), st.sampled_from(["\r\n", "\r"]))
def test_x7_line_ends_of_every_kind_give_the_same_sections_of_every_text(text: str, newline: str) -> None:
    theirs = [(section.header_path, section.kind, section.chunk.text.replace(newline, "\n"), section.chunk.context.replace(newline, "\n"))
              for section in cut(text.replace("\n", newline))]
    assert theirs == [(section.header_path, section.kind, section.chunk.text, section.chunk.context) for section in cut(text)]


# Left out is what mdblocks says it simplifies: items that begin with a blank line, text directly below a quote, link definitions.
LINES = st.sampled_from([
    "a", "b c", "", "", "# h", "## x ##", "###### y", "####### z", "#", "#t", "===", "--", "---", "> q\n", "```", "~~~", "````sh", "```x`",
    "<div>", "</div>", "<!-- c", "-->", "<b>", "<b> c", "<pre>", "</pre>", "***", "_ _ _", "foo\nbar\n===", "\n\na|b\n-|-\n1|2\n", "`", "<a:b>",
    "<?x", "?>",
])
ITEMS = st.sampled_from(["- i", "* i", "1. i", "2) i", "- - i", "-     i", "  - i", "    - i", "- # h", "- ```", "- <!--", "- a\n\n  ```\n  x\n  ```"])
INDENTS = st.sampled_from(["", "", "", " ", "  ", "   ", "    ", "      ", "\t"])


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(st.one_of(st.tuples(INDENTS, LINES).map("".join), ITEMS), max_size=12).map("\n".join))
def test_x8_headings_and_fences_are_those_of_commonmark(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="there is no other reader of CommonMark to compare with")
    headings, fences, quotes = [], [], 0
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(text)
    for number, token in enumerate(tokens):
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "heading_open" and token.level == 0 and tokens[number + 1].content.strip():
            headings.append((token.map[0], token.map[1], int(token.tag[1])))
        if token.type == "fence" and not quotes:
            fences.append(token.map[0])
    source = flat(text)
    found = [(block, source.count("\n", 0, block.start), source.count("\n", 0, block.end - 1) + 1) for block in blocks(source)]
    assert [(first, last, block.level) for block, first, last in found if block.kind == "heading"] == headings
    assert [first for block, first, _ in found if block.kind == "fence"] == fences


HOSTILE = {
    "hashes": "#\n", "headings": "# a\n", "backticks": "`\n", "quotes": ">\n", "quoted": "> ", "line": "x", "hash line": "#", "backtick line": "`", "fences": "```\n",
    "both fences": "```\n~~~\n", "items": "- a\n", "item line": "- ", "fences in items": "- ```\nx\n", "comments in items": "- <!--\n", "comments": "<!--\n", "tags": "<a ",
    "pipes": "|\n", "tables": "a|b\n-|-\n", "delimiters": "a|\n-|", "underlines": "a\n=\n", "paragraphs": "a\n\n", "stops": ". ", "dots": ".", "blanks": " ", "line feeds": "\n",
    "tabs": "\tx\n", "returns": "a\r", "flags": "🇩🇪", "marks": " \u0301", "wide": "漢字", "definitions": "[a]: b\n", "far apart": "a" + " " * 3_000,
    "short and long": "x" * 85 + "\n\n" + "y" * 2_100 + "\n\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_x14_hostile_text_takes_linear_time(name: str) -> None:
    unit = HOSTILE[name]

    def work(length: int) -> None:
        text = unit * (length // len(unit.encode()))
        assert sum(len(section.chunk.text.split()) for section in cut(text)) >= len(text.split())

    assert takes_linear_time(work, 25_000)


def test_x14_fences_are_that_many_sections_up_to_the_bound_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sections.MAX_CHUNKS == 200_000
    monkeypatch.setattr(sections, "MAX_CHUNKS", 2_000)
    assert len(cut("```\n```\n" * 2_000)) == 2_000
    with pytest.raises(Failure):
        cut("```\n```\n" * 2_001)


def test_x14_fences_of_every_length_take_linear_time() -> None:
    def work(length: int) -> None:
        text = "".join("`" * (3 + number) + "\n" for number in range(int((2 * length) ** 0.5)))
        assert "".join("".join(section.chunk.text for section in cut(text)).split()) == "".join(text.split())

    assert takes_linear_time(work, 100_000)
