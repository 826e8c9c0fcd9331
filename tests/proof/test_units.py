"""What can be read by itself in a text, and what each part of it has to be read with."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.decisions import is_loose
from rag_stdlib.proof.units import Unit, form, units, whole_part
from rag_stdlib.text.chunker import WHITE_SPACE


def said(text: str) -> list[str]:
    return [text[unit.start:unit.end] for unit in units(text)]


def by_text(text: str) -> dict[str, Unit]:
    return {text[unit.start:unit.end]: unit for unit in units(text)}


def outer(text: str, part: str) -> str:
    unit = by_text(text)[part]
    return text[unit.outer_start:unit.outer_end]


def test_headings_sentences_items_tables_and_code_are_units() -> None:
    text = ("# Refunds\n\nThey are paid. A receipt\nis needed.\n\n- By card.\n- In cash. Rarely.\n+ By cheque\n1. First\n2) Second\n\n"
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n```\ncode()\n\nmore()\n```\n\n> Somebody's\n> words. More.\n\nTitle\n---\n\n* * *\n")
    assert said(text) == ["Refunds", "They are paid.", "A receipt\nis needed.", "By card.", "In cash.", "Rarely.", "+ By cheque", "1. First", "2) Second",
                          "| a | b |\n|---|---|\n| 1 | 2 |", "```\ncode()\n\nmore()\n```", "Somebody's\n> words.", "More.", "Title\n---"]
    assert all(unit.alone for unit in units(text))


def test_the_mark_of_an_item_or_heading_is_known() -> None:
    text = "## Title\n\n- - one\n* two. Three.\n1. four"
    assert [text[unit.mark:unit.start] for unit in units(text)] == ["## ", "- - ", "* ", "", ""]
    assert [unit.listed for unit in units(text)] == [False, True, True, True, True]


def test_more_than_is_no_mark_of_a_quotation() -> None:
    assert said("> 5 MB are needed. Fine.\n> 7 MB are not.\n> So.") == ["> 5 MB are needed.", "Fine.", "> 7 MB are not.", "So."]
    assert said("It is > ten. It is > 5. Good") == ["It is > ten.", "It is > 5.", "Good"]


def test_a_number_that_begins_a_line_of_prose_is_no_item() -> None:
    assert said("It was in\n1999. Then it ended.\n- item") == ["It was in\n1999.", "Then it ended.", "item"]
    assert said("Steps\n1. One\n7. Seven") == ["Steps", "1. One", "7. Seven"]


@pytest.mark.parametrize(("text", "part", "read_with"), [
    ("You may not:\n- copy it;\n- sell it.", "sell it.", "You may not:\n- copy it;\n- sell it."),
    ("You may not\n\n1. copy it\n2. sell it", "2. sell it", "You may not\n\n1. copy it\n2. sell it"),
    ("*Never*:\n\n```\nrm -rf\n```", "```\nrm -rf\n```", "*Never*:\n\n```\nrm -rf\n```"),
    ("Smith wrote:\n\nThe earth is flat.", "The earth is flat.", "Smith wrote:\n\nThe earth is flat."),
    ("Smith wrote:\n\n> The earth is flat. It ends.", "It ends.", "Smith wrote:\n\n> The earth is flat. It ends."),
    ("# Myths:\n\nThe earth is flat.", "The earth is flat.", "Myths:\n\nThe earth is flat."),
    ("Myths:\n\n| a | b |\n|---|---|", "| a | b |\n|---|---|", "Myths:\n\n| a | b |\n|---|---|"),
    ("- Do this.\n- Do not do this.\n  - Restart it.", "Restart it.", "Do not do this.\n  - Restart it."),
    ("- Do not:\n\n  Restart it.\n- Stop it.", "Restart it.", "Do not:\n\n  Restart it."),
    ("You may not:\n- a\n\n  more of a\n- b", "b", "You may not:\n- a\n\n  more of a\n- b"),
    ("You may not:\n- a\n\n  ```\n  code\n  ```\n- b", "b", "You may not:\n- a\n\n  ```\n  code\n  ```\n- b"),
    ("Myth: The earth is flat. It has an edge.", "It has an edge.", "Myth: The earth is flat. It has an edge."),
    ("**Myth:** The earth is flat. It has an edge.", "It has an edge.", "**Myth:** The earth is flat. It has an edge."),
    ("A common claim of theirs: The earth is flat. It has an edge.", "It has an edge.", "A common claim of theirs: The earth is flat. It has an edge."),
    ("Smith, the mayor of it: It is round. It has an edge.", "It has an edge.", "Smith, the mayor of it: It is round. It has an edge."),
    ("I asked. Smith said: It is round. It has an edge.", "It has an edge.", "Smith said: It is round. It has an edge."),
    ("It is not true that\n\nThe earth is flat.", "The earth is flat.", "It is not true that\n\nThe earth is flat."),
    ("Nobody, not even Smith,\n\nThe earth is flat.", "The earth is flat.", "Nobody, not even Smith,\n\nThe earth is flat."),
    ("Nobody says\n\nthe earth is flat.", "the earth is flat.", "Nobody says\n\nthe earth is flat."),
    ("The following is not so. The earth is flat.", "The earth is flat.", "The following is not so. The earth is flat."),
    ("He denies the following claims.\n\nThe earth is flat.", "The earth is flat.", "He denies the following claims.\n\nThe earth is flat."),
    ("They are wrong as follows.\n\n- The earth is flat.", "The earth is flat.", "They are wrong as follows.\n\n- The earth is flat."),
    ("The earth is flat. That is false.", "The earth is flat.", "The earth is flat. That is false."),
    ("The earth is flat.\n\nThis claim is not true.", "The earth is flat.", "The earth is flat.\n\nThis claim is not true."),
    ("The earth is flat. But it isn't true.", "The earth is flat.", "The earth is flat. But it isn't true."),
    ("The earth is flat. It was later retracted by all.", "The earth is flat.", "The earth is flat. It was later retracted by all."),
    ("The earth is flat. It was loudly denied.", "The earth is flat.", "The earth is flat. It was loudly denied."),
    ("The earth is flat. It has been debunked.", "The earth is flat.", "The earth is flat. It has been debunked."),
    ("The earth is flat. In fact, these are all myths.", "The earth is flat.", "The earth is flat. In fact, these are all myths."),
    ("The earth is flat. None of this has been proven.", "The earth is flat.", "The earth is flat. None of this has been proven."),
    ("The earth is flat. It hasn't been confirmed.", "The earth is flat.", "The earth is flat. It hasn't been confirmed."),
    ("The earth is flat. Wrong!", "The earth is flat.", "The earth is flat. Wrong!"),
    ("The earth is flat. (This is false.)", "The earth is flat.", "The earth is flat. (This is false.)"),
    ("The earth is flat. Not!", "The earth is flat.", "The earth is flat. Not!"), ("The earth is flat. Or so he thought.", "The earth is flat.", "The earth is flat. Or so he thought."),
    ("<p>Myths:</p>\n\nThe earth is flat.", "The earth is flat.", "<p>Myths:</p>\n\nThe earth is flat."),
    ("# Common myths\n\nOne.\n\n### More\n\nThe earth is flat.", "The earth is flat.", "Common myths\n\nOne.\n\n### More\n\nThe earth is flat."),
    ("## False claims\n\nThe earth is flat.", "The earth is flat.", "False claims\n\nThe earth is flat."), ("Wrong\n===\n\nIt is flat.", "It is flat.", "Wrong\n===\n\nIt is flat."),
    ("# Myths\n\n## Wrong\n\n- The earth is flat.\n\n# Facts\n\nIt is round.", "It is round.", "It is round."),
    ("The earth is flat. Not so.", "The earth is flat.", "The earth is flat. Not so."),
])
def test_what_a_unit_has_to_be_read_with(text: str, part: str, read_with: str) -> None:
    assert outer(text, part) == read_with


@pytest.mark.parametrize("text", [
    "He made three points in all. The earth is round.", "It opens at 10:30 and closes late. It is large.", "See https://a.example/b for more. It is large.",
    "It is not needed. Ask nobody.", "In the following year it rained. It was wet.", "It is late. It is not necessary to come. Go.",
    "One, two, three: go. It is large.", "Prices of theirs, as of now: ten. It is large.", "Refunds\n\nThey are paid. So it is.", "# False positives\n\nThey are rare.",
    "## Wrong passwords\n\nThey are refused.", "No refund is paid. It was so cold.", "It is paid. That is true.", "It is paid. This is correct.",
])
def test_what_looks_alike_and_ties_nothing(text: str) -> None:
    assert all(unit.alone for unit in units(text))


def test_a_list_ends_with_the_next_paragraph() -> None:
    text = "You may not:\n- copy it;\n- sell it.\n\nAll else is allowed.\n\n- Lend it.\n- Keep it.\n\n## Next\n\n- Read it."
    assert [text[unit.start:unit.end] for unit in units(text) if not unit.alone] == ["copy it;", "sell it."]


def test_a_heading_ends_a_list_and_introduces_none() -> None:
    text = "Never\n- a.\n# Title\n- b."
    assert outer(text, "b.") == "b."
    assert outer(text, "a.") == "Never\n- a."


@pytest.mark.parametrize(("one", "other", "same"), [
    ("It is paid.", "It  is\npaid", True), ("It is paid .", "It is paid", True), ("It is paid...", "It is paid", False), ("Is it paid?", "Is it paid", False),
    ("1. It is paid.", "It is paid.", True), ("2) It is paid.", "It is paid.", True), ("1999. It was.", "It was.", False), ("是。", "是", True),
    ("if x:\n    a()\n    b()", "if x:\n    a()\nb()", False), ("if x:\n    a()\nb()", "if x: a() b()", False), ("if x:\n    a()\n    b()", "if x:\n  a()\n  b()", True),
    ("if x:\r\n\ta()\r\nb()", "if x:\r\n\ta()\r\n\tb()", False), ("```\na\nb\n```", "```\na b\n```", False), ("It is", "it is", False), ("nowhere", "no where", False),
])
def test_when_two_units_are_the_same(one: str, other: str, same: bool) -> None:
    assert (form(one) == form(other)) is same


@pytest.mark.parametrize(("text", "before", "behind", "whole"), [
    ("One is. Two is. Three is.", False, False, "One is. Two is. Three is."),
    ("40 MB are needed. Two is. Three is.", True, False, "Two is. Three is."),
    ("One is. Two is. Cats cost 3.", False, True, "One is. Two is."),
    ("One is. Two is. Cats cost 64", False, True, "One is. Two is."),
    ("One is. Two is. Three is.", True, True, "Two is. Three is."),
    ("- a.\n- b.\n\nTwo is. Three is.", True, True, "Two is. Three is."),
    ("Myth: It is flat. It ends.\n\nTwo is.", True, True, "Two is."),
    ("and so on. You may not:\n- copy it.\n\n- Two.", True, True, "You may not:\n- copy it.\n\n- Two."),
    ("One is. Two is. That is fal", False, True, "One is."), ("One is. Two is. Th", False, True, "One is."), ("One is. Two is. Nobody kno", False, True, "One is. Two is."),
    ("One is. Two is. That is false.", False, True, "One is. Two is. That is false."), ("One is. Th", True, True, ""),
    ("rest.\n\n- One.\n- Two.", True, True, ""), ("One", True, True, ""), ("One is.", True, False, ""), ("One is", False, True, ""), ("  \n", True, True, ""),
    ("  \n", False, False, ""), ("", False, False, ""), ("rest of it.\n\n# Title\n\nTwo more", True, True, "# Title"),
])
def test_the_part_that_surely_is_whole(text: str, before: bool, behind: bool, whole: str) -> None:
    start, end = whole_part(text, cut_before=before, cut_behind=behind)
    assert text[start:end].strip() == whole


SOME = st.text(alphabet='aB1.: \n-*#>•"(|`!\t+)', max_size=120)


@given(SOME)
def test_units_are_disjoint_trimmed_and_hold_all_but_marks(text: str) -> None:
    behind = 0
    for number, unit in enumerate(units(text)):
        assert behind <= unit.mark <= unit.start < unit.end <= len(text)
        assert not is_loose(text[behind:unit.start])
        assert is_loose(text[unit.start:unit.end])
        assert text[unit.start] not in WHITE_SPACE
        assert text[unit.end - 1] not in WHITE_SPACE
        assert unit.under is None or unit.under < number
        assert unit.outer_start <= unit.start < unit.end <= unit.outer_end
        behind = unit.end
    assert not is_loose(text[behind:])


@given(SOME, st.booleans(), st.booleans())
def test_the_whole_part_lies_in_the_text(text: str, before: bool, behind: bool) -> None:
    start, end = whole_part(text, cut_before=before, cut_behind=behind)
    assert 0 <= start <= end <= len(text)
    assert (start, end) == (0, 0) or text[start:end].strip(WHITE_SPACE)


@pytest.mark.parametrize("pattern", ["Prose is here. ", "You may not:\n- x\n", "- a.\n", '"a. B. ', "(a [b ", ". . ", "word ", "A is. That is false. ", "> - # ", "a: b "])
def test_time_is_linear(pattern: str) -> None:
    def seconds(size: int) -> float:
        text = pattern * (size // len(pattern))
        start = time.process_time()
        units(text)
        return time.process_time() - start

    small = max(seconds(10_000), seconds(10_000), 0.002)
    assert seconds(80_000) < 8 * small * 6
