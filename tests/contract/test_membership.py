"""Does a hit claim to be from the corpus that was described (RAG service contract §2.5)?"""

from __future__ import annotations

from typing import Any

import pytest
from described_corpora import ALPHA, BETA, DESCRIPTION, GARBAGE, as_bytes, cyclic, damaged, deep
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.corpus import MalformedDescription, described
from rag_stdlib.contract.hits import hit_in_corpus
from rag_stdlib.contract.verdicts import Membership

CLAIM: dict[str, Any] = {"kind": "corpus", "path": "alpha/a.md", "repo_id": "alpha", "commit": "a" * 40, "content_sha256": "0" * 64}
CORPUS = described(DESCRIPTION)


def judged(provenance: object) -> Membership:
    assert CORPUS is not None
    verdict = hit_in_corpus({"content": "x", "provenance": provenance}, CORPUS)
    assert hit_in_corpus({b"provenance": as_bytes(provenance)}, as_bytes(DESCRIPTION)) is verdict
    return verdict


@pytest.mark.parametrize("claim", [CLAIM, {**CLAIM, "repo_id": "beta", "commit": "b" * 40}, {**CLAIM, "content_sha256": 7, "path": None}], ids=str)
def test_a_described_repository_at_its_commit_is_in_the_corpus_whatever_its_content(claim: dict[str, Any]) -> None:
    assert judged(claim) is Membership.IN_CORPUS
    assert judged(claim)


@pytest.mark.parametrize("hit", [None, "x", [], {}, {"provenance": None}, {"provenance": "corpus"}, {"provenance": [CLAIM]}], ids=str)
def test_1_no_provenance(hit: object) -> None:
    assert hit_in_corpus(hit, DESCRIPTION) is Membership.MALFORMED_PROVENANCE


@pytest.mark.parametrize("claim", [{"kind": "deposit"}, {**CLAIM, "kind": "deposit"}, {"kind": "deposit", "repo_id": 7}], ids=str)
def test_2_a_deposit_before_anything_else_of_it_is_looked_at(claim: dict[str, Any]) -> None:
    assert judged(claim) is Membership.DEPOSIT
    assert not judged(claim)


@pytest.mark.parametrize("claim", [
    {}, {**CLAIM, "kind": "Corpus"}, {**CLAIM, "kind": None}, {**CLAIM, "kind": 1}, {**CLAIM, "repo_id": None}, {**CLAIM, "commit": None},
    {**CLAIM, "repo_id": 7}, {**CLAIM, "commit": ["a" * 40]}, {**CLAIM, "commit": b"\xff"}, {**CLAIM, "repo_id": "novels", "commit": 7},
], ids=str)
def test_3_before_4_a_claim_that_is_none(claim: dict[str, Any]) -> None:
    assert judged(claim) is Membership.MALFORMED_PROVENANCE


@pytest.mark.parametrize("repo_id", ["novels", "", "Alpha", "alpha ", "a" * 40])
def test_4_before_5_another_repository_although_the_commit_is_another_too(repo_id: str) -> None:
    assert judged({**CLAIM, "repo_id": repo_id, "commit": "0" * 40}) is Membership.REPO_NOT_IN_CORPUS
    assert judged({**CLAIM, "repo_id": repo_id}) is Membership.REPO_NOT_IN_CORPUS


@pytest.mark.parametrize("commit", ["0" * 40, "A" * 40, "a" * 39, "", "b" * 40, "a" * 40 + "\n"])
def test_5_another_commit_also_that_of_another_repository(commit: str) -> None:
    assert judged({**CLAIM, "commit": commit}) is Membership.COMMIT_NOT_IN_CORPUS


def test_a_repository_that_is_described_at_two_commits_is_in_at_both() -> None:
    twice = {**DESCRIPTION, "repos": [ALPHA, BETA, {**ALPHA, "commit": "c" * 40}]}
    verdicts = [hit_in_corpus({"provenance": {**CLAIM, "commit": letter * 40}}, twice) for letter in "acb"]
    assert verdicts == ["in_corpus", "in_corpus", "commit_not_in_corpus"]


def test_nothing_is_in_a_corpus_without_repositories() -> None:
    assert hit_in_corpus({"provenance": CLAIM}, {**DESCRIPTION, "repos": []}) is Membership.REPO_NOT_IN_CORPUS


@pytest.mark.parametrize("description", [{}, {**DESCRIPTION, "dim": 1.0}, None, deep(1_000)], ids=["empty", "malformed", "none", "deep"])
def test_membership_is_not_asked_of_what_was_never_checked(description: Any) -> None:
    with pytest.raises(MalformedDescription):
        hit_in_corpus({"provenance": CLAIM}, description)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.one_of(GARBAGE, damaged(CLAIM).map(lambda claim: {"provenance": claim})))
def test_nothing_that_a_stranger_sends_as_a_hit_raises(hit: Any) -> None:
    assert isinstance(hit_in_corpus(hit, DESCRIPTION), Membership)
    assert isinstance(hit_in_corpus(cyclic(), DESCRIPTION), Membership)
