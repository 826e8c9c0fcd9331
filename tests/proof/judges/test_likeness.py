"""Sentences that differ in one number, one negation or one quantifier, and those that differ in nothing of the kind."""

from __future__ import annotations

import pytest

from rag_stdlib.proof.judges.likeness import difference, read


def wherein(claim: str, said: str) -> str | None:
    one, other = read(claim), read(said)
    return difference(one, other) if one.words == other.words else None


@pytest.mark.parametrize(("claim", "said", "expected"), [
    ("It needs 64 MB.", "It needs 640 MB.", "number"), ("It needs 64 MB.", "It needs at least 640 MB.", "number"), ("It was in 1991.", "It was in 1992.", "number"),
    ("It is 5 %.", "It is 6 percent.", "number"), ("He came first.", "He came second.", "number"), ("It was played after May 5, 2011.", "It was played on 5 May 2011.", "number"),
    ("Refunds are not paid.", "Refunds are paid.", "negation"), ("It is safe.", "It isn't safe.", "negation"), ("It doesn't pay refunds.", "It pays refunds.", "negation"),
    ("It no longer pays.", "It pays.", "negation"), ("It is hardly safe.", "It is safe.", "negation"), ("Most refunds are not paid.", "Most refunds are paid.", "negation"),
    ("All refunds are paid.", "No refunds are paid.", "quantifier"), ("No refund is paid.", "Refunds are paid.", "quantifier"), ("It always pays.", "It never pays.", "quantifier"),
    ("It never pays.", "It pays.", "quantifier"), ("None of the refunds are paid.", "Some of the refunds are paid.", "quantifier"), ("Few refunds are paid.", "Most refunds are paid.", "quantifier"),
    ("A few refunds are paid.", "No refunds are paid.", "quantifier"),
])
def test_one_respect_contradicts(claim: str, said: str, expected: str) -> None:
    assert wherein(claim, said) == wherein(said, claim) == expected


@pytest.mark.parametrize(("claim", "said"), [
    ("It needs 64 MB.", "It needs 64 MB."), ("It needs more than 64 MB.", "It needs 640 MB."), ("It needs about 64 MB.", "It needs 640 MB."), ("It costs 1,000.", "It costs 1000."),
    ("Version 1 needs 64 MB.", "Version 2 needs 640 MB."), ("It needs 64 MB.", "It does not need 640 MB."), ("All are paid.", "Some are paid."), ("All are not paid.", "Some are paid."),
    ("Some are paid.", "Some are not paid."), ("Many are paid.", "Many are not paid."), ("Only members pay.", "Members pay."), ("It is not safe and clean.", "It is safe and not clean."),
    ("All dogs and some cats bark.", "Some dogs and all cats bark."), ("All pay.", "They always pay."), ("It is paid.", "It is paid in full."), ("It needs 64 MB.", "It needs 64 GB."),
    ("It is safe.", "It is unsafe."), ("", "It is safe."), ("It is not not safe.", "It is safe."), ("All are usually paid.", "No one is always paid."),
])
def test_anything_else_does_not(claim: str, said: str) -> None:
    assert not wherein(claim, said)
    assert not wherein(said, claim)
