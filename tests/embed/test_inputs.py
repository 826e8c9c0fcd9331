"""Texts get the prefix of their role in one place; what no provider takes is a defect of the caller."""

from __future__ import annotations

from typing import Any

import pytest

from rag_stdlib.embed.inputs import name_text, prepare

PREFIXES = ("query: ", "passage: ")


def test_r194_each_role_has_its_prefix() -> None:
    assert prepare(["a", " b"], "query", PREFIXES) == ["query: a", "query:  b"]
    assert prepare(("a",), "passage", PREFIXES) == ["passage: a"]
    assert prepare(["a"], "passage", ("query: ", "")) == ["a"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
def test_r88_r92_a_blank_text_is_a_defect_of_the_caller(blank: str) -> None:
    with pytest.raises(ValueError, match="text 2 of 2 is blank"):
        prepare(["a", blank], "passage", PREFIXES)


def test_a_lone_surrogate_is_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        prepare(["a\ud800"], "passage", PREFIXES)


def test_one_text_for_a_list_is_a_defect_of_the_caller() -> None:
    with pytest.raises(TypeError, match="not one text"):
        prepare("abc", "passage", PREFIXES)


def test_an_unknown_role_is_a_defect_of_the_caller() -> None:
    role: Any = "document"
    with pytest.raises(ValueError, match="role is"):
        prepare(["a"], role, PREFIXES)


@pytest.mark.parametrize(("text", "shown"), [
    ("short", "short"),
    ("two\nlines \x07", r"two\nlines \x07"),
    ("x" * 61, "x" * 59 + "…"),
    ("key sk-abcdefgh1234 inside", "key [redacted] inside"),
    ("key hunter2 inside", "key [redacted] inside"),
])
def test_a_text_is_named_by_number_and_beginning(text: str, shown: str) -> None:
    assert name_text(["a", text, "c"], 1, ("hunter2",)) == f'text 2 of 3 ("{shown}")'
