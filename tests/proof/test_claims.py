"""An answer taken apart: places that hold all of it but marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.claims import MOST_CLAIMS, Decomposition, Place, split
from rag_stdlib.proof.decisions import is_loose
from rag_stdlib.text.chunker import WHITE_SPACE

WAYS: tuple[Decomposition, ...] = ("rules", "model", "whole")
ANSWER = "# Refunds\n\nThey are paid. A receipt is needed.\n- By card.\n> In cash.\n---\n"


def parts(answer: str, by: Decomposition = "rules") -> list[str]:
    return [answer[start:end] for start, end in split(answer, by)]


def test_by_rules_a_sentence_is_a_claim() -> None:
    assert split("It is paid. Now.") == [Place(0, 11), Place(12, 16)]
    assert parts(ANSWER) == ["Refunds", "They are paid.", "A receipt is needed.", "By card.", "In cash."]


def test_as_the_model_wrote_them_a_line_is_a_claim() -> None:
    assert parts(ANSWER, "model") == ["Refunds", "They are paid. A receipt is needed.", "By card.", "In cash."]
    assert parts("a\r\nb\u2028c\x0bd\x85 e ", "model") == ["a", "b", "c", "d", "e"]


def test_the_whole_answer_is_a_claim() -> None:
    assert parts(f"\n{ANSWER}", "whole") == ["Refunds\n\nThey are paid. A receipt is needed.\n- By card.\n> In cash.\n---"]


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("answer", ["", "  \n\u3000", "---", "* * *", "#\n>\n•", "- "])
def test_what_says_nothing_has_no_claims(answer: str, by: Decomposition) -> None:
    assert split(answer, by) == []


@pytest.mark.parametrize("answer", ["-5 degrees", "**Bold** words.", "#1 is best", "*a* b", "->x", "a - b * c"])
def test_marks_that_belong_to_a_word_stay(answer: str) -> None:
    assert [parts(answer, by) for by in WAYS] == [[answer]] * 3


@pytest.mark.parametrize("by", ["rules", "model"])
def test_of_too_many_claims_the_last_holds_the_rest(by: Decomposition) -> None:
    answer = "\n\n".join(f"Claim {number}." for number in range(MOST_CLAIMS + 50))
    found = split(answer, by)
    assert len(found) == MOST_CLAIMS
    assert answer[found[-1].start:found[-1].end].startswith(f"Claim {MOST_CLAIMS - 1}.\n\nClaim {MOST_CLAIMS}.")
    assert found[-1].end == len(answer)


@given(st.text(alphabet='aB1.: \n-*#>•"(|`!\t\u3000é😀\r\x1c\x0c', max_size=120), st.sampled_from(WAYS))
def test_claims_are_disjoint_in_order_and_hold_all_but_marks(answer: str, by: Decomposition) -> None:
    behind = 0
    for start, end in split(answer, by):
        assert behind <= start < end <= len(answer)
        assert not is_loose(answer[behind:start])
        assert answer[start] not in WHITE_SPACE
        assert answer[end - 1] not in WHITE_SPACE
        behind = end
    assert not is_loose(answer[behind:])
