"""The files of a corpus are cut into sections whose lines are the file's own (RAG service contract §5.3, X5 to X8, X14)."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from rag_stdlib.corpus.boilerplate import licence_spans
from rag_stdlib.errors import Failure
from rag_stdlib.text import markdown, sections
from rag_stdlib.text.positions import LineNumbers
from rag_stdlib.text.sections import Section, cut

PARAGRAPH = "A paragraph that is comfortably longer than the least size of a chunk, so that it may stand for itself."
SENTENCE = "The relay forwards what it cannot read. "


def texts(found: list[Section]) -> list[str]:
    return [section.chunk.text for section in found]


def paths(found: list[Section]) -> list[str]:
    return [section.header_path for section in found]


def lines(text: str, section: Section) -> tuple[int, int]:
    """Return the first and last line of a section, counted from 1."""
    numbers = LineNumbers(text)
    return numbers.at(section.chunk.start_char), numbers.at(section.chunk.end_char - 1)


def file_lines(text: str, first: int, last: int) -> str:
    """Return lines of a text as they stand, without the last one's end."""
    found = re.findall(r"[^\r\n]*(?:\r\n|\r|\n|\Z)", text)
    return re.sub(r"[\r\n]+\Z", "", "".join(found[first - 1:last]))


def test_the_rules_have_a_name() -> None:
    assert sections.NAME == "corpus-markdown/1"


def test_sections_have_the_titles_of_their_headings() -> None:
    text = f"{PARAGRAPH}\n\n# Title\n\n{PARAGRAPH}\n\n## Sub\n\n{PARAGRAPH}\n\n#### Deep *er*\n\nx\n\n### Less\n\ny\n\n# Other\n"
    found = cut(text)
    assert paths(found) == ["", "Title", "Title > Sub", "Title > Sub > Deep *er*", "Title > Sub > Less", "Other"]
    assert [lines(text, section) for section in found] == [(1, 1), (3, 5), (7, 9), (11, 13), (15, 17), (19, 19)]
    assert [section.chunk.ordinal for section in found] == list(range(6))
    assert {section.kind for section in found} == {"prose"}


def test_the_sections_of_the_reference_are_ours() -> None:
    text = f"# Title\n\n{PARAGRAPH}\n\n## Sub\n\n{PARAGRAPH}\n"
    found = cut(text)
    assert paths(found) == ["Title", "Title > Sub"]
    assert [lines(text, section) for section in found] == [(1, 3), (5, 7)]


@pytest.mark.parametrize("header", [
    "<!--\n%CopyrightBegin%\nCopyright 2024\n%CopyrightEnd%\n-->\n", "<!--\r\n\r\n\r\nLicensed under x\r\n-->\r\n", "<!--\r\r\rCopyright\r-->\r",
    "%CopyrightBegin%\n# Copyright\n#\n## 2024\n%CopyrightEnd%\n",
])
def test_x5_lines_behind_a_licence_header_are_those_of_the_file(header: str) -> None:
    text = f"{header}# Title\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n"
    only, = cut(text, licence_spans(text))
    assert only.header_path == "Title"
    assert lines(text, only) == (6, 10)
    assert only.chunk.text == f"# Title\n\n{PARAGRAPH}\n\n{PARAGRAPH}"


def test_x5_a_chunk_ends_before_what_is_skipped_and_the_next_begins_behind() -> None:
    text = "# A\n\none <!-- c --> two\nthree\n\nfour\n"
    start, end = text.index("<!--"), text.index("-->") + 3
    found = cut(text, [(end - 2, end), (start, end - 1), (3, 3), (90, 95), (-4, 0)])
    assert texts(found) == ["# A\n\none", "two\nthree\n\nfour"]
    assert paths(found) == ["A", "A"]


@pytest.mark.parametrize(("text", "path"), [
    ("# <!-- c -->\n\ntext", ""), ("# Title <!-- c -->\n\ntext", "Title"), ("<!-- c --># Title\n\ntext", ""), ("a <!-- c -->\n\n# T\n\ntext", "T"),
])
def test_x5_what_is_skipped_is_blank_to_the_rules_of_markdown(text: str, path: str) -> None:
    found = cut(text, [(text.index("<!--"), text.index("-->") + 3)])
    assert found[-1].header_path == path
    assert not any("<!--" in piece for piece in texts(found))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_x6_a_cut_section_keeps_its_blank_lines_and_is_the_lines_it_names(newline: str) -> None:
    paragraphs = [f"  Paragraph {number}: {SENTENCE * 5}{newline}{SENTENCE}" for number in range(20)]
    text = (newline * 3).join(["# Title", *paragraphs]) + newline
    found = cut(text, max_bytes=1_000)
    assert len(found) > 3
    for section in found:
        assert section.chunk.text == file_lines(text, *lines(text, section))
        assert newline * 3 in section.chunk.text
    assert all(lines(text, before)[1] < lines(text, after)[0] for before, after in pairwise(found))


@pytest.mark.parametrize("text", ["    indented\n    code  \n\n# A  \n\n  text\t\n\n\n", "\n \n\t\n  a\n\t b\t\n \n", "- a\n\n      b\n"])
def test_x6_only_blank_lines_around_a_chunk_go(text: str) -> None:
    for section in cut(text):
        assert section.chunk.text == file_lines(text, *lines(text, section))
        assert all(line.strip() for line in (section.chunk.text.split("\n")[0], section.chunk.text.split("\n")[-1]))


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_x7_line_ends_of_every_kind_give_the_same_sections(newline: str) -> None:
    text = (f"# Title\n\n{PARAGRAPH}\n\nSetext\ntitle\n---\n\n```sh\n# code\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## B ##\n\n"
            + f"{PARAGRAPH}\n{PARAGRAPH}\n\n" * 30)
    other = text.replace("\n", newline)
    ours, theirs = cut(text, max_bytes=2_000), cut(other, max_bytes=2_000)
    assert paths(theirs) == paths(ours)
    assert len(ours) > 6
    assert [section.kind for section in theirs] == [section.kind for section in ours]
    assert not any("\r" in path for path in paths(theirs))
    assert all(len(piece.encode()) <= 2_000 for piece in texts(theirs))
    assert " ".join(texts(theirs)).split() == text.split()


def test_x7_a_line_that_just_fits_is_not_cut_for_its_cr() -> None:
    line = "x" * 48 + "."
    assert texts(cut("\r\n".join([line] * 6), max_bytes=100, min_bytes=20)) == [f"{line}\r\n{line}"] * 3


@pytest.mark.parametrize(("line", "title"), [
    ("# a", "a"), ("###### a", "a"), ("   # a", "a"), ("#\ta\t", "a"), ("# a ##", "a"), ("## a #   ", "a"), ("# a#", "a#"), ("# a \\#", "a \\#"), ("# #a", "#a"),
    ("# a # b", "a # b"), ("# `a` [b](c)", "`a` [b](c)"), ("# 見出し", "見出し"), ("# a\u2028b", "a\u2028b"),
    ("a\n===", "a"), ("a\n=", "a"), ("a\n---  ", "a"), ("a\n-", "a"), ("a\n  b  \nc\n   ===", "a b c"), ("`a\n---", "`a"), ("#a\n---", "#a"),
    ("[x]: y\na\n---", "a"), ("a | b\n---", "a | b"), ("a\n    # b\n---", "a # b"), ("1) a\n\n# b", "b"), ("<!-- c -->\n# a", "a"), ("***\na\n---", "a"),
])
def test_x8_headings_are_commonmarks(line: str, title: str) -> None:
    found = cut(f"{line}\n\n{PARAGRAPH}\n")
    assert paths(found)[-1] == title


@pytest.mark.parametrize("text", [
    "#hashtag", "####### seven", "    # code", "\t# code", "a\n\n    # code", "\\# a", "- a\n---", "> a\n---", "> a\nb\n===", "> a\n===\nb\n===", "- a\nb\n---", "1. a\n---", "* * *\n---",
    "\n---", "===", "a\n\n===", "a\n    ===", "a\n== =", "a\n=-", "| a | b |\n|---|---|\n| 1 | 2 |\n---", "| a |\n| - |\n# ", "[a]: b\n[c]: <d> 'e'\n---",
    "- # in an item", "- a\n\n  ## in an item", "> # quoted", "<!--\n# a\n\n# b\n-->", "<div>\n# a\n</div>\n---", "<pre>\n\n# a\n\n</pre>", "<script>\n# a\n",
    "<?php\n\n# a\n?>", "<!DOCTYPE\n# a\n>", "<![CDATA[\n\n# a\n]]>", "<x-y a='b'>\n# c", "<p>\na\n---", "````\n# a\n```\n# b\n````", "```\n# a", "~~~ `x`\n# a\n~~~",
    "- ```\n  # a\n  ```", "1. a\n\n   ~~~\n   # b\n   ~~~", "- - ```\n    # a\n", "- i\n  ===\n</b>\n# a", "-     code\n\n  # a", "- <!--\n  # a\n  -->", "-\ta\n\n\t```\n\t# b\n\t```",
])
def test_x8_what_is_no_heading_is_text(text: str) -> None:
    found = cut(f"# Top\n\n{text}\n")
    assert set(paths(found)) == {"Top"}
    assert "".join("".join(texts(found)).split()) == "".join(f"# Top {text}".split())


@pytest.mark.parametrize(("text", "fence"), [
    ("```\n~~~\n# no\n```\n# yes", "```\n~~~\n# no\n```"), ("~~~\n```\n# no\n~~~~\n# yes", "~~~\n```\n# no\n~~~~"), ("````\n```\n# no\n`````  \n# yes", "````\n```\n# no\n`````  "),
    ("```\n# no\n``` x\n```\n# yes", "```\n# no\n``` x\n```"), ("```\n    ```\n```\n# yes", "```\n    ```\n```"), ("  ```py\n# no\n   ```\n# yes", "  ```py\n# no\n   ```"),
    ("- ```\n  a\n# yes", "- ```\n  a"), ("1. a\n   ```\n\n   # no\n      ```\n# yes", "   ```\n\n   # no\n      ```"), ("a\n```\n```\n# yes", "```\n```"),
])
def test_x8_a_fence_ends_with_its_own_mark_alone(text: str, fence: str) -> None:
    found = cut(text)
    assert [section.chunk.text for section in found if section.kind == "code"] == [fence]
    assert found[-1].header_path == "yes"


@pytest.mark.parametrize("text", ["```a``` b\n# yes", "`` x\n# yes", "    ```\n# yes", "\\```\n# yes", "> ```\n# yes"])
def test_x8_what_is_no_fence_hides_no_heading(text: str) -> None:
    found = cut(text)
    assert found[-1].header_path == "yes"
    assert {section.kind for section in found} == {"prose"}


def test_x8_the_window_chunker_knows_the_same_fences() -> None:
    assert markdown.scan("```a``` b\n\ntext").fences == ()
    assert markdown.scan("~~~a```\r\nb\r\n~~~\r\n").fences == ((0, 17),)


@pytest.mark.parametrize("hashes", ["#", "###   ", "######\t", "## ##", "#\r\n#\n##"])
def test_b8_a_line_of_only_hashes_is_text_and_keeps_its_section(hashes: str) -> None:
    text = f"# Real\n\n{PARAGRAPH}\n\n{hashes}\n\n{PARAGRAPH}\n"
    only, = cut(text)
    assert only.header_path == "Real"
    assert hashes.strip() in only.chunk.text


@pytest.mark.parametrize("text", ["#", "#\n===", "# \n", "#\n\n# a\n\n###\n", "\u00a0#\u2028", "- #\n- ##", "a\n#\n---"])
def test_b8_hashes_alone_are_in_no_title(text: str) -> None:
    found = cut(text)
    assert "".join("".join(texts(found)).split()) == "".join(text.split())
    assert all(path in {"", "a"} for path in paths(found))


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\r\n", "\ufeff", "\ufeff\n", "\u2028\u3000\n\t", "---\ntitle: only\n---\n"])
def test_a_text_without_content_has_no_sections(text: str) -> None:
    assert cut(text) == []


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("front", ["---\ntitle: a # b\nx: |\n  # c\n---\n", "+++\ntitle = 'a'\n+++\n"])
def test_front_matter_and_a_byte_order_mark_are_in_no_chunk(mark: str, front: str) -> None:
    text = f"{mark}{front}# Title\n\n{PARAGRAPH}\n"
    only, = cut(text)
    assert only.chunk.text == f"# Title\n\n{PARAGRAPH}"
    assert only.header_path == "Title"
    assert only.chunk.start_byte == len(f"{mark}{front}".encode())


def test_prose_between_rules_is_no_front_matter() -> None:
    assert texts(cut("---\nJust prose.\n\n---\n")) == ["---\nJust prose.\n\n---"]


def test_fenced_code_is_its_own_section() -> None:
    text = f"# A\n\n{PARAGRAPH}\n```py\nx = 1\n```\nThen:\n\n~~~\n# y\n~~~\n{PARAGRAPH}\n"
    found = cut(text)
    assert [(section.kind, section.chunk.text) for section in found] == [
        ("prose", f"# A\n\n{PARAGRAPH}"), ("code", "```py\nx = 1\n```"), ("prose", "Then:"), ("code", "~~~\n# y\n~~~"), ("prose", PARAGRAPH)]
    assert set(paths(found)) == {"A"}


def test_x14_a_heading_alone_above_code_stays() -> None:
    assert texts(cut("# A title\n```\ncode\n```\n")) == ["# A title", "```\ncode\n```"]


@pytest.mark.parametrize("text", ["tiny", "# A\n\ntiny\n\n# B\n\nx", "- a", "é"])
def test_x14_a_short_section_stays(text: str) -> None:
    assert "".join("".join(texts(cut(text))).split()) == "".join(text.split())


@pytest.mark.parametrize("text", [
    "# Title\n\n" + SENTENCE * 60, "Short.\n\n" + SENTENCE * 60 + "\n\nEnd.", "# T\n\n" + "x" * 2_500, "a\n\n" + "x" * 1_998 + "\n\nb", f"# {'t' * 100}\n\n{'x' * 1_950}",
    "\n\n".join(["one"] * 600), "# T\n\n" + "字" * 700, "word " * 3_000, "\n".join(["- item"] * 400), "# T\n\n" + "x" * 1_996,
    SENTENCE * 48 + "\n" * 100 + "End.",
])
def test_x14_no_piece_is_short_or_too_long(text: str) -> None:
    found = cut(text)
    assert len(found) > 1
    assert all(80 <= len(piece.encode()) <= 2_000 for piece in texts(found))
    assert "".join("".join(texts(found)).split()) == "".join(text.split())


def test_x14_prose_is_cut_at_blank_lines_greedily() -> None:
    paragraphs = [f"{number:03} {'x' * 395}." for number in range(12)]
    text = "# T\n\n" + "\n\n".join(paragraphs)
    assert texts(cut(text)) == ["# T\n\n" + "\n\n".join(paragraphs[:4]), "\n\n".join(paragraphs[4:8]), "\n\n".join(paragraphs[8:])]


def test_x14_a_paragraph_that_fits_is_not_cut_between_its_lines() -> None:
    paragraph = "\n".join(["y" * 99 + "."] * 12)
    assert texts(cut("\n\n".join([paragraph] * 4))) == [paragraph] * 4


def test_x14_a_long_paragraph_is_cut_at_lines_then_sentences_then_words_then_anywhere() -> None:
    assert texts(cut("ab. cd\n" * 10, max_bytes=20, min_bytes=4)) == ["ab. cd\nab. cd\nab. cd"] * 3 + ["ab. cd"]
    assert all(piece.rstrip().endswith(("read.", "read.)")) for piece in texts(cut((SENTENCE + "(It cannot read.) ") * 100)))
    assert all(piece.endswith("。」") for piece in texts(cut("「読めない。」" * 300)))
    assert all(piece.rstrip().endswith("word") and piece.startswith("word") for piece in texts(cut("word " * 1_000)))
    assert [len(piece) for piece in texts(cut("x" * 4_500))] == [2_000, 2_000, 500]


def test_x14_code_is_cut_between_lines_then_anywhere() -> None:
    code = "```py\n" + "".join(f"    call({number})  # Done. Next\n" for number in range(200)) + "```"
    found = cut(f"# T\n\n{code}\n")
    assert [section.kind for section in found] == ["prose", *["code"] * (len(found) - 1)]
    assert "\n".join(texts(found)[1:]) == code
    assert all(len(piece) <= 2_000 for piece in texts(found))
    assert [len(piece) for piece in texts(cut("```\n" + "y" * 3_000))] == [2_000, 1_004]


def test_x14_an_unclosed_fence_is_code_to_the_end() -> None:
    found = cut("# T\n\n```\n" + "# x\n" * 1_000)
    assert {section.kind for section in found[1:]} == {"code"}
    assert set(paths(found)) == {"T"}


HEADER = "| id | meaning |\n|---:|---------|"
ROWS = [f"| {number} | timeout of step {number}. Then more! |" for number in range(120)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["", "  "])
def test_r189_a_table_is_cut_between_rows_and_its_header_is_context(newline: str, indent: str) -> None:
    table = (newline + indent).join([*HEADER.split("\n"), *ROWS])
    text = f"# T{newline}{newline}{indent}{table}{newline}{newline}{PARAGRAPH}"
    found = cut(text)
    assert len(found) > 2
    body = text.index(ROWS[0])
    for section in found:
        chunk = section.chunk
        assert chunk.text == file_lines(text, *lines(text, section))
        assert chunk.context.split() == (HEADER.split() if body < chunk.start_char < text.index(PARAGRAPH) else [])
        assert len(chunk.text.encode()) <= 2_000
    assert found[0].chunk.text.startswith(f"# T{newline}")


@pytest.mark.parametrize("before", ["# T\n", "x" * 90 + "\n"])
def test_r189_a_header_is_not_cut_from_its_first_row(before: str) -> None:
    found = cut(f"{before}{HEADER}\n| 1 | {'word ' * 20}|\n| 2 | last |\n", max_bytes=100, min_bytes=20)
    assert len(found) > 1
    assert not any(piece.endswith("|---------|") for piece in texts(found))
    assert found[-1].chunk.context == HEADER


def test_r189_a_header_longer_than_a_chunk_is_no_context() -> None:
    text = f"| {'h' * 3_000} | b |\n|---|---|\n" + "| 1 | 2 |\n" * 300
    found = cut(text)
    assert len(found) > 2
    assert {section.chunk.context for section in found} == {""}
    assert all(len(piece) <= 2_000 for piece in texts(found))


@pytest.mark.parametrize("text", ["a | b\n---|---|---\n1 | 2", "a\n---|---", "a | b\n\n--|--\n1 | 2", "a | b\n--|-x\n1", "a | b\n||\n1"])
def test_what_is_no_table_has_no_context(text: str) -> None:
    assert {section.chunk.context for section in cut(f"{text}\n" + "1 | 2\n" * 60, max_bytes=100)} == {""}


@pytest.mark.parametrize("end", ["# H | x", "> q | x", "- i | x", "1. i | x", "```\nx | y\n```", "<div>x | y</div>", "***"])
def test_a_table_ends_where_another_block_begins(end: str) -> None:
    text = f"{HEADER}\n| 1 | 2 |\n{end}\n" + "more | text\n" * 30
    behind = text.index(end)
    assert {section.chunk.context for section in cut(text, max_bytes=64) if section.chunk.start_char > behind} == {""}


def test_a_long_title_is_shortened_between_characters() -> None:
    title = "e\u0301" * 300
    assert paths(cut(f"# {title}\n\n## b\n")) == [title[:198] + "…", title[:198] + "… > b"]
    assert paths(cut(f"# {'x' * 200}\n")) == ["x" * 200]


@pytest.mark.parametrize("unit", ["👨‍👩‍👧", "e\u0301", "🇩🇪", "각", "\r\nx" * 3])
def test_x14_no_character_is_cut(unit: str) -> None:
    found = cut(unit * 300, max_bytes=100, min_bytes=10)
    for section in found:
        assert section.chunk.text.replace("\r\n", "").replace(unit.replace("\r\n", ""), "").strip("x") == ""
        assert len(section.chunk.text.encode()) <= 100


def test_x14_a_character_larger_than_a_chunk_is_cut_all_the_same() -> None:
    text = "a" + "\u0301" * 500 + " b"
    found = cut(text, max_bytes=64)
    assert all(len(piece.encode()) <= 64 for piece in texts(found))
    assert "".join(texts(found)).replace(" ", "") == text.replace(" ", "")


def test_offsets_are_in_code_points_and_bytes() -> None:
    text = "# Ü 😀\n\n漢字\n\n```\nß\n```\n"
    raw = text.encode()
    for section in cut(text):
        chunk = section.chunk
        assert chunk.text == text[chunk.start_char:chunk.end_char] == raw[chunk.start_byte:chunk.end_byte].decode()


def test_a_window_too_small_for_a_character_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        cut("text", max_bytes=15)
    assert caught.value.error.code == "invalid_option"


def test_too_many_sections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_CHUNKS", 5)
    assert len(cut("# a\n" * 5)) == 5
    with pytest.raises(Failure) as caught:
        cut("# a\n" * 6)
    assert caught.value.error.code == "too_many_chunks"


def test_deep_lists_are_text_at_some_depth() -> None:
    text = "- " * 40 + "```\n# yes\n"
    assert paths(cut(text))[-1] == "yes"
