"""Licence files, licence notices and chunks that say nothing are left out of a corpus; all else stays (RAG service contract §5.4)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.corpus.boilerplate import has_substance, is_boilerplate_path, licence_spans

NOTICE = "<!-- Copyright 2024 The Authors -->"
PROSE = "The relay forwards sealed calls and never reads them."


def stripped(text: str) -> str:
    """Return what is left of a text without its licence notices."""
    pieces, at = [], 0
    for start, end in licence_spans(text):
        assert at <= start < end <= len(text), "spans ascend and are disjoint"
        pieces.append(text[at:start])
        at = end
    return "".join([*pieces, text[at:]])


@pytest.mark.parametrize("path", [
    "LICENSE", "LICENSE.md", "license.md", "lib/LICENCE.md", "Copying", "COPYING.LESSER", "docs/NOTICE.md", "LICENSE-MIT", "licence_en.md",
    ".github/pull_request_template.md", "docs/.github/ISSUE_TEMPLATE/bug.md", "LICENSE.od\nd",
])
def test_b5_licences_and_templates_are_no_documents(path: str) -> None:
    assert is_boilerplate_path(path)


@pytest.mark.parametrize("path", [
    "README.md", "docs/guides/licensing_your_service.md", "SECURITY.md", "github/notes.md", "licences.md", "NOTICE/README.md", "notices.md",
    "docs/github.md", ".githubs/a.md", "my.github/a.md", "Übung/説明.md", "licen\u017fe.md", "",
])
def test_b5_ordinary_files_are_documents(path: str) -> None:
    assert not is_boilerplate_path(path)


@pytest.mark.parametrize("inner", [
    "%CopyrightBegin%\n\nSPDX 2023.\n\n%CopyrightEnd%", "Licensed under the Apache License", "SPDX-License-Identifier: MIT", "COPYRIGHT me",
    "Permission is hereby granted, free of charge", "GNU General Public License\n```\n# no heading\n",
])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", ""])
def test_b5_a_licence_comment_goes_with_one_line_end(inner: str, newline: str) -> None:
    body = f"# EUnit\n\n{PROSE}\n" if newline else ""
    assert stripped(f"<!--\n{inner}\n-->{newline}{body}") == body


def test_b5_only_one_line_end_goes_with_a_comment() -> None:
    assert stripped(f"a\n\n{NOTICE}\n\nb") == "a\n\n\nb"


@pytest.mark.parametrize("text", [
    f"# A\n\n<!-- TODO: link -->\n{PROSE}\n", "# Licensing\n\nIt is Apache-2.0 licensed under these terms. Copyright: see LICENSE.\n", "",
    "<!-- never closed, copyright\n\ntext\n", "a --> b <!-- copyright", "%CopyrightBegin% without an end\n", "%CopyrightEnd% %CopyrightBegin%",
    "<!--> copyright", "text <!-- copyright\n\n# Heading\n\nmore -->\n",
])
def test_b5_other_text_stays(text: str) -> None:
    assert licence_spans(text) == []


@pytest.mark.parametrize("code", [
    f"```html\n{NOTICE}\n```\n", f"~~~\n%CopyrightBegin%\n{NOTICE}\n%CopyrightEnd%\n~~~\n", f"1. Do:\n\n   ```\n   {NOTICE}\n   ```\n",
    f"text\n\n    {NOTICE}\n", f"Write `{NOTICE}` or ``{NOTICE} ` ``.\n", f"> ```\n> {NOTICE}\n> ```\n", "Between `%CopyrightBegin%` and `%CopyrightEnd%`.\n",
])
def test_b5_a_notice_that_is_code_stays(code: str) -> None:
    assert stripped(f"{NOTICE}\n{code}") == code


@pytest.mark.parametrize(("text", "left"), [
    ("# Title\n\n%CopyrightBegin%\nCopyright 2020.\n%CopyrightEnd%\n\nBody.\n", "# Title\n\n\n\nBody.\n"),
    ("%CopyrightBegin%\n\n    All rights reserved.\n\n# %CopyrightEnd% x", " x"),
    (f"%CopyrightBegin% {NOTICE} %CopyrightBegin%\n%CopyrightEnd%%CopyrightEnd%", "%CopyrightEnd%"),
    ("%CopyrightBegin%\n```\ncode\n```\n%CopyrightEnd%\n", "%CopyrightBegin%\n```\ncode\n```\n%CopyrightEnd%\n"),
])
def test_b5_a_bare_copyright_block_goes_unless_it_runs_over_code(text: str, left: str) -> None:
    assert stripped(text) == left


@pytest.mark.parametrize(("text", "left"), [
    (f"a {NOTICE} b", "a  b"), (f"{NOTICE} <!-- x --> {NOTICE}", " <!-- x --> "), (f"- item\n  {NOTICE}\n  more", "- item\n    more"),
    (f"{NOTICE}\r\n\r\n# A {NOTICE}\r\n", "\r\n# A "), (f"| a | b |\n|---|---|\n| {NOTICE} | x |\n", "| a | b |\n|---|---|\n|  | x |\n"),
    ("<!---->x<!-- copyright -->", "<!---->x"), (f"a ` b {NOTICE} c", "a ` b  c"), (f"<div>\n`{NOTICE}`\n</div>", "<div>\n``\n</div>"),
])
def test_b5_a_notice_is_found_wherever_it_is_a_comment(text: str, left: str) -> None:
    assert stripped(text) == left


@pytest.mark.parametrize("text", [
    "- [Install](install.md)\n- [Usage](usage.md)\n- [Frequently asked](faq.md)\n", "[a very long label of a link][reference]\n",
    "[![Continuous integration](https://x/badge.svg)](https://x) [![Hex](https://y.svg)](https://y)\n", "![a picture of the whole station](p.png)",
    '<p align="center"><img src="logo.png" alt="the logo of the station"></p>\n', "---\n\n| | |\n|---|---|\n", "## See also\n", "",
    "https://example.org/a/very/long/path/of/a/page?and=query", "See www.example.org/a/very/long/path/of/it", "<!-- nobody sees this remark at all -->",
    "[one]: https://example.org 'A title of a page'\n[two]: <https://example.org/page>\n", "[a label (with) brackets [inside] it](u_(v))",
    "\\[ab\\]\\(cd\\) " * 4, "1234567890 !!! ... \u0301\u0301", "[collapsed reference links go][]", "[see](a.md) and [that one here](b.md)",
    '<a\nhref="a/very/long/address/of/some/page">x</a>', "<!-- two\n\nparagraphs of a hidden remark -->",
])
def test_b5_a_chunk_of_links_and_markup_says_nothing(text: str) -> None:
    assert not has_substance(text)


@pytest.mark.parametrize("text", [
    PROSE, "- [Install](install.md): run the installer, then restart the node.\n", "a" * 20, "漢" * 20, "é" * 20, "1 < 2 and more letters than twenty > 1",
    "[^1]: A note at the foot that says something.", "[ ] a task that is not yet done at all", "(a remark that stands in brackets)",
    "请看https://example.com的说明文字这里有很多的汉字说明文字这里", "array[index] (and words enough behind)", "<!-- unclosed remark with its letters",
    "[label](unclosed address of a link", "a line\r\nof text with\r\nCR LF ends",
])
def test_b5_a_chunk_with_words_says_something(text: str) -> None:
    assert has_substance(text)


@pytest.mark.parametrize("code", ["curl https://example.org/v1/items", '<my-element attribute="value"/>', "handlers[name](request.arguments)"])
def test_x14_in_fenced_code_nothing_is_markup(code: str) -> None:
    assert has_substance(f"```\n{code}\n```")
    assert not has_substance(code)


@pytest.mark.parametrize("letters", [19, 20])
def test_b5_twenty_letters_are_enough_over_all_blocks(letters: int) -> None:
    assert has_substance("# a\n\n" * (letters - 1) + "b") is (letters == 20)


UNITS = st.sampled_from(["<!--", "-->", "copyright", "%CopyrightBegin%", "%CopyrightEnd%", "`", "```", "\n", "\n\n", "\r\n", "\r", "    ", "- ", "# ", "a", "[",
                         "]", "(", ")", "<", ">", "https://", "\\", "!", "|", "漢", "~~~\n", ": "])


@settings(deadline=None, max_examples=120, derandomize=True)
@given(st.lists(UNITS, max_size=40).map("".join))
def test_b5_spans_are_notices_in_every_text(text: str) -> None:
    at = 0
    for start, end in licence_spans(text):
        assert at <= start < end
        at = end
        span = text[start:end].removesuffix("\n").removesuffix("\r")
        assert (span.startswith("<!--") and span.endswith("-->")) or (span.startswith("%CopyrightBegin%") and span.endswith("%CopyrightEnd%"))
        assert "copyright" in span.lower()
    assert at <= len(text)
    assert isinstance(has_substance(text), bool)


HOSTILE = {
    "openings": "<!--" * 100_000, "lines": "<!--\n" * 100_000, "in text": "x <!--\n" * 50_000, "items": "- <!--\n" * 50_000, "backticks": "` " * 100_000,
    "runs": "".join("`" * (number % 600 + 1) + " " for number in range(1_500)), "begins": "%CopyrightBegin% " * 30_000, "brackets": "[" * 200_000,
    "nested": "[](" * 60_000 + ")" * 60_000, "tags": "<a " * 100_000, "schemes": "a+" * 150_000, "labels": "[1]: 2\n" * 50_000, "closings": "-->" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_b5_hostile_text_takes_linear_time(name: str) -> None:
    begun = time.perf_counter()
    assert licence_spans(HOSTILE[name]) == []
    has_substance(HOSTILE[name])
    assert time.perf_counter() - begun < 30  # quadratic time would be minutes; the rest is room for a loaded machine
