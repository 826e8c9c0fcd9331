"""The four-word rule (row 45)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib import cites

CONTEXT = "Refunds are paid within ten days of the return."


@pytest.mark.parametrize(("answer", "context", "expected"), [
    ("Your refunds are paid within two weeks.", CONTEXT, True),
    ("REFUNDS ARE PAID\n WITHIN ten", CONTEXT, True),
    ('It says: "paid within ten days", I think.', CONTEXT, True),
    ("Refunds are paid.", CONTEXT, False),
    ("refunds paid within days", CONTEXT, False),
    ("within often days of the return", "ten days of the", False),
    ("days of the return", CONTEXT, True),
    ("days of the returns", CONTEXT, False),
    ("the answer is no, sir", "No, sir!", True),
    ("the answer is no", "No, sir!", False),
    ("sir, no", "No, sir!", False),
    ("yes", "yes", True),
    ("yesterday", "yes", False),
    ("", CONTEXT, False),
    ("anything at all here", "", False),
    ("anything at all here", " \n\t", False),
    ("… — !", "… — !", False),
    ("Die Rückzahlung erfolgt in ZEHN TAGEN, STRASSE 5", "rückzahlung erfolgt in zehn Tagen", True),
    ("die straße nach oben entlang", "DIE STRASSE NACH OBEN", True),
])
def test_four_words_in_a_row_are_a_citation(answer: str, context: str, expected: bool) -> None:
    assert cites(answer, context) is expected


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12), st.data())
def test_any_run_of_four_words_cites_wherever_it_stands(words: list[str], data: st.DataObject) -> None:
    size = min(4, len(words))
    start = data.draw(st.integers(0, len(words) - size))
    around = data.draw(st.lists(st.text("xyz", min_size=1, max_size=3), max_size=4))
    assert cites(" ".join([*around, *words[start:start + size], *around]), " ".join(words))
    assert not cites(" ".join(around), " ".join(words))
