"""The verdicts of the contract: names as on the wire, of which exactly one is true."""

from __future__ import annotations

import json

import pytest

from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused, Signed, Unsigned


@pytest.mark.parametrize(("kind", "good", "names"), [
    (HitVerdict, "ok", {"ok", "malformed_provenance", "content_mismatch"}),
    (Membership, "in_corpus", {"in_corpus", "malformed_provenance", "deposit", "repo_not_in_corpus", "commit_not_in_corpus"}),
])
def test_exactly_one_outcome_is_true_and_all_are_their_names(kind: type[HitVerdict | Membership], good: str, names: set[str]) -> None:
    assert {verdict.value for verdict in kind} == names
    assert [verdict.value for verdict in kind if verdict] == [good]
    for verdict in kind:
        assert str(verdict) == f"{verdict}" == verdict.value == verdict
        assert json.dumps([verdict]) == f'["{verdict.value}"]'
        assert kind(verdict.value) is verdict


def test_a_refusal_reads_as_its_reason_and_what_stands_behind_it() -> None:
    assert str(Refused("corpus_hash_mismatch")) == "corpus_hash_mismatch"
    assert str(Refused("signature", "alg_mismatch")) == "signature: alg_mismatch"


def test_only_what_is_vouched_for_is_true() -> None:
    assert [bool(verdict) for verdict in (Signed("a" * 64), Unsigned(), Refused("signature", "malformed"))] == [True, False, False]


def test_verdicts_are_told_apart_by_what_they_hold() -> None:
    assert Signed("a" * 64) == Signed("a" * 64) != Signed("b" * 64)
    assert len({Signed("a"), Unsigned(), Unsigned(), Refused("a"), Refused("a", "b")}) == 4
