"""What may be said of an answer: signed, unsigned or refused, and of each of its hits."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from typing import Any

import pytest
from described_corpora import (
    DESCRIPTION,
    GARBAGE,
    HASH,
    OTHER,
    OTHER_HASH,
    altered,
    as_bytes,
    cyclic,
    damaged,
    deep,
    signature,
    signed_description,
)
from fixed_keys import node_key
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.answers import (
    MARKS,
    Answer,
    CheckedHit,
    RefusedAnswer,
    SignedAnswer,
    StoredAnswer,
    UnsignedAnswer,
    check_answer,
    unchecked_answer,
)
from rag_stdlib.contract.corpus import described
from rag_stdlib.contract.jsonform import JsonFormError, to_json
from rag_stdlib.contract.nodekeys import PROFILES, Profile
from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused, Signed

P = node_key("pq_pure").node_id
TEXT = "Refunds are paid within ten days."
CLAIM: dict[str, Any] = {
    "kind": "corpus", "path": "alpha/a.md", "repo_id": "alpha", "commit": "a" * 40, "content_sha256": hashlib.sha256(TEXT.encode()).hexdigest()}
GOOD: dict[str, Any] = {"chunk_id": "1", "score": 0.5, "content": TEXT, "provenance": CLAIM}
DEPOSIT: dict[str, Any] = {
    "chunk_id": "2", "score": 1, "content": TEXT, "provenance": {"kind": "deposit", "path": "x", "content_sha256": CLAIM["content_sha256"]}}
FORGED: dict[str, Any] = {**GOOD, "chunk_id": "3", "content": "Refunds are never paid."}
ANSWER: dict[str, Any] = {"corpus_hash": HASH, "hits": [GOOD, DEPOSIT, FORGED]}
MARKED = (
    CheckedHit(GOOD, HitVerdict.OK, Membership.IN_CORPUS), CheckedHit(DEPOSIT, HitVerdict.OK, Membership.DEPOSIT),
    CheckedHit(FORGED, HitVerdict.CONTENT_MISMATCH, Membership.IN_CORPUS))


def judged(description: object = None, answer: object = ANSWER, provider: str | bytes | None = P, profile: Profile = "pq_pure") -> Answer:
    return check_answer(signed_description() if description is None else description, answer, provider=provider, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_pinned_answer_over_a_corpus_that_the_provider_signed(profile: Profile) -> None:
    node = node_key(profile).node_id
    answer = judged(signed_description(profile), ANSWER, node.upper(), profile)
    assert isinstance(answer, SignedAnswer)
    assert (answer.signed, answer.provider, answer.corpus_hash) == (Signed(node), node, HASH)
    assert answer.corpus == described(signed_description(profile))
    assert (answer.hits, answer.index_content) == (MARKED, None)


def test_a_pinned_answer_over_an_unsigned_corpus() -> None:
    answer = judged(DESCRIPTION, ANSWER, bytes.fromhex(P))
    assert isinstance(answer, UnsignedAnswer)
    assert (answer.provider, answer.hits, answer.index_content, answer.corpus_hash) == (P, MARKED, None, HASH)
    assert answer.corpus == described(DESCRIPTION)


@pytest.mark.parametrize("signed", [signature(), altered(signature()), signature("pq_pure", 2), b""], ids=["own", "altered", "another's", "none"])
def test_where_nobody_knows_who_answered_the_signature_is_not_looked_at(signed: bytes) -> None:
    answer = judged(signed_description(signature=signed), provider=None)
    assert isinstance(answer, UnsignedAnswer)
    assert answer.provider is None
    assert answer.hits == MARKED


@pytest.mark.parametrize(("description", "reason"), [
    (signed_description(dim=0), Refused("malformed_description", "dim is no integer from 1 to 2^53 - 1")),
    (signed_description(corpus_hash=OTHER_HASH), Refused("corpus_hash_mismatch")),
    (signed_description(**OTHER, corpus_hash=OTHER_HASH), Refused("not_the_answering_corpus")),
    (signed_description(signature=altered(signature())), Refused("signature", "signature_invalid")),
    (signed_description(number=2), Refused("signer_not_provider")),
    (signed_description(signature=signature(of=OTHER_HASH)), Refused("signature_hash_mismatch")),
], ids=lambda part: part.reason if isinstance(part, Refused) else "")
def test_a_refused_answer_keeps_its_hits_without_marks(description: dict[str, Any], reason: Refused) -> None:
    assert judged(description) == RefusedAnswer(reason, P, (GOOD, DEPOSIT, FORGED))


@pytest.mark.parametrize("provider", [P, None])
def test_another_corpus_than_the_one_described_is_refused_pinned_or_not(provider: str | None) -> None:
    assert judged(DESCRIPTION, {**ANSWER, "corpus_hash": HASH.upper()}, provider) == RefusedAnswer(
        Refused("not_the_answering_corpus"), provider, (GOOD, DEPOSIT, FORGED))


MALFORMED = [
    (None, "an answer is a map"), ([ANSWER], "an answer is a map"), ({}, "corpus_hash is missing or no text"),
    *(({**ANSWER, "corpus_hash": value}, "corpus_hash is missing or no text") for value in (None, 7, b"\xff", "\ud800")),
    *(({**ANSWER, "hits": value}, "hits is no list of maps") for value in (None, {}, "ab", [GOOD, None], [GOOD, "hit"], [[GOOD]])),
]


@pytest.mark.parametrize(("answer", "words"), MALFORMED, ids=lambda part: ascii(part)[:40])
@pytest.mark.parametrize("provider", [P, None])
def test_a_malformed_answer(answer: object, words: str, provider: str | None) -> None:
    assert judged(None, answer, provider) == RefusedAnswer(Refused("malformed_answer", words), provider, ())


def test_the_description_comes_before_the_answer_and_the_answer_before_the_signature() -> None:
    def reason(description: object, answer: object) -> str:
        refused = judged(description, answer)
        return refused.reason.reason if isinstance(refused, RefusedAnswer) else ""

    other_answer = {**ANSWER, "corpus_hash": OTHER_HASH}
    assert reason(signed_description(corpus_hash=OTHER_HASH), None) == "corpus_hash_mismatch"
    assert reason(signed_description(corpus_hash=OTHER_HASH), other_answer) == "corpus_hash_mismatch"
    assert reason(signed_description(signature=b""), None) == "malformed_answer"
    assert reason(signed_description(signature=b""), other_answer) == "not_the_answering_corpus"
    assert reason(signed_description(number=2), other_answer) == "not_the_answering_corpus"


def test_marks_that_a_provider_planted_are_overwritten_or_taken_away() -> None:
    planted = {**FORGED, "content_verified": 1, "in_corpus": 1, "corpus_reason": "trust me"}
    sent = {"corpus_hash": HASH, "hits": [planted, {**as_bytes(planted), b"content": FORGED["content"]}]}
    answer = judged(DESCRIPTION, sent)
    assert isinstance(answer, UnsignedAnswer)
    for checked in answer.hits:
        assert checked.hit.keys() == FORGED.keys()
        assert (checked.content_verified, checked.in_corpus) == ("content_mismatch", "in_corpus")
    refused = judged(signed_description(dim=0), sent)
    assert isinstance(refused, RefusedAnswer)
    assert all(hit.keys().isdisjoint(MARKS) for hit in refused.hits)
    assert planted["content_verified"] == 1, "what came stays as it came"


def test_marks_are_written_as_the_mesh_has_them() -> None:
    assert [checked.marked() for checked in MARKED] == [
        {**GOOD, "content_verified": 1, "in_corpus": 1}, {**DEPOSIT, "content_verified": 1, "in_corpus": 0, "corpus_reason": "deposit"},
        {**FORGED, "content_verified": 0, "in_corpus": 1}]
    assert to_json([checked.marked() for checked in MARKED])


def test_keys_and_texts_may_be_bytes_at_any_depth() -> None:
    sent = as_bytes(ANSWER)
    answer = judged({**as_bytes(signed_description(signature=None)), "signature": signature()}, sent)
    assert isinstance(answer, SignedAnswer)
    assert [(checked.content_verified, checked.in_corpus) for checked in answer.hits] == [
        (checked.content_verified, checked.in_corpus) for checked in MARKED]
    assert answer.hits[0].hit["provenance"]["kind"] == b"corpus", "keys become text, values stay as they came"


@pytest.mark.parametrize(("sent", "read"), [("c" * 64, "c" * 64), (b"c", "c"), (None, None), (7, None), (b"\xff", None)])
def test_the_providers_word_for_its_content(sent: object, read: str | None) -> None:
    answer = judged(answer={**ANSWER, "index_content": sent})
    assert isinstance(answer, SignedAnswer)
    assert answer.index_content == read


def test_no_hits_are_an_answer_too() -> None:
    answer = judged(answer={"corpus_hash": HASH, "hits": []})
    assert isinstance(answer, SignedAnswer)
    assert answer.hits == ()


def test_only_a_signed_answer_is_true() -> None:
    assert judged()
    assert not judged(DESCRIPTION)
    assert not judged(provider=None)
    assert not judged({})


def test_nobody_else_makes_a_signed_answer() -> None:
    answer = judged()
    assert isinstance(answer, SignedAnswer)
    with pytest.raises(TypeError, match="comes out of check_answer"):
        SignedAnswer(Signed(P), answer.corpus, MARKED, None, maker=object())
    with pytest.raises(TypeError):
        SignedAnswer(Signed(P), answer.corpus, MARKED, None)  # type: ignore[call-arg] # the seal is what is missing
    with pytest.raises((TypeError, ValueError), match="maker"):
        dataclasses.replace(answer, hits=())
    with pytest.raises(AttributeError):
        answer.hits = ()  # type: ignore[misc] # a frozen one
    assert copy.deepcopy(answer) == answer


@pytest.mark.parametrize("provider", ["", "0" * 63, b"0" * 31])
def test_what_is_no_node_id_is_the_callers_mistake(provider: str | bytes) -> None:
    with pytest.raises(ValueError, match="a node id is 64 hex digits or 32 bytes"):
        judged(None, None, provider)
    with pytest.raises(TypeError, match="not int"):
        judged(None, None, 7)  # type: ignore[arg-type] # a caller that has it from elsewhere
    with pytest.raises(ValueError, match="there is no profile 'pq'"):
        judged(None, None, None, "pq")  # type: ignore[arg-type] # the same


def test_an_answer_whose_description_could_not_be_had() -> None:
    assert unchecked_answer(ANSWER, "timeout", provider=P) == RefusedAnswer(Refused("unchecked", "timeout"), P, (GOOD, DEPOSIT, FORGED))
    assert unchecked_answer(None, "timeout", provider=None) == RefusedAnswer(Refused("unchecked", "timeout"), None, ())


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.one_of(GARBAGE, damaged(signed_description())), st.one_of(GARBAGE, damaged(ANSWER), damaged(GOOD).map(lambda hit: {**ANSWER, "hits": [hit]})),
       st.sampled_from([None, "0" * 64]))
def test_nothing_that_a_stranger_sends_raises_or_becomes_signed(description: Any, answer: Any, provider: str | None) -> None:
    assert isinstance(judged(description, answer, provider), (UnsignedAnswer, RefusedAnswer))
    assert isinstance(judged(DESCRIPTION, answer, provider), (UnsignedAnswer, RefusedAnswer))


def test_depth_cycles_and_numbers_of_hits_and_repositories_raise_nothing_and_take_no_time() -> None:
    many = {**DESCRIPTION, "repos": DESCRIPTION["repos"] * 2_000}
    assert isinstance(judged(many, {"corpus_hash": HASH, "hits": [GOOD] * 1_000}), RefusedAnswer)
    for answer in (cyclic(), deep(5_000), {**ANSWER, "hits": [deep(5_000), cyclic()]}):
        assert isinstance(judged(DESCRIPTION, answer), (UnsignedAnswer, RefusedAnswer))
    several = judged(DESCRIPTION, {**ANSWER, "hits": [GOOD] * 1_000})
    assert isinstance(several, UnsignedAnswer)
    assert len(several.hits) == 1_000


STORED = StoredAnswer(P, "pq_pure", signed_description(), ANSWER)


def test_a_stored_answer_is_judged_again_as_it_was() -> None:
    kept = StoredAnswer.from_json(STORED.to_json(indent=1).encode())
    assert kept == STORED
    assert kept.check() == kept.check(P) == kept.check(bytes.fromhex(P)) == judged()
    assert isinstance(kept.check(), SignedAnswer)


def test_a_stored_answer_that_was_not_pinned_is_never_signed() -> None:
    kept = StoredAnswer.from_json(StoredAnswer(None, "pq_pure", signed_description(), ANSWER).to_json())
    assert isinstance(kept.check(), UnsignedAnswer)
    assert kept.check(P) == RefusedAnswer(Refused("other_provider", "it was kept without a pinned provider"), None, (GOOD, DEPOSIT, FORGED))


def test_a_stored_answer_of_another_provider_than_the_one_expected() -> None:
    other = node_key("pq_pure", 2).node_id
    assert STORED.check(other) == RefusedAnswer(Refused("other_provider", f"it was kept as an answer of {P}"), P, (GOOD, DEPOSIT, FORGED))
    assert StoredAnswer(P, "pq_pure", {}, None).check(other) == RefusedAnswer(Refused("other_provider", f"it was kept as an answer of {P}"), P, ())
    with pytest.raises(ValueError, match="a node id"):
        STORED.check("P")


def test_a_node_id_is_kept_in_its_one_form() -> None:
    assert StoredAnswer(P.upper(), "pq_pure", {}, {}).provider == P
    with pytest.raises(ValueError, match="a node id"):
        StoredAnswer("P", "pq_pure", {}, {})
    with pytest.raises(ValueError, match="there is no profile"):
        StoredAnswer(None, "pq", {}, {})  # type: ignore[arg-type] # a caller that has it from elsewhere


@pytest.mark.parametrize(("change", "words"), [
    ({"provider": "P"}, "a node id is 64 hex digits or 32 bytes"), ({"provider": 7}, "a provider is a node id in hex or bytes, not int"),
    ({"profile": "pq"}, "there is no profile 'pq'"), ({"profile": None}, "there is no profile None"),
    ({"profile": "p" * 10_000}, "there is no profile 'pppppppppppp...ppppppppppppp'; there are"), ({"pinned_at": 1}, "a stored answer is a map of"),
], ids=str)
def test_a_file_that_is_no_stored_answer(change: dict[str, Any], words: str) -> None:
    parts: dict[str, Any] = {"provider": P, "profile": "pq_pure", "description": {}, "answer": {}}
    assert StoredAnswer.from_json(to_json(parts)).provider == P
    with pytest.raises(JsonFormError) as raised:
        StoredAnswer.from_json(to_json({**parts, **change}))
    assert str(raised.value).startswith(words)
    for text in ("[]", "null", to_json({name: parts[name] for name in ("provider", "profile", "answer")})):
        with pytest.raises(JsonFormError, match="a stored answer is a map of provider, profile, description and answer"):
            StoredAnswer.from_json(text)


def test_what_the_mesh_does_not_carry_is_not_stored() -> None:
    with pytest.raises(JsonFormError, match="no booleans"):
        StoredAnswer(P, "pq_pure", {}, {"changed": True}).to_json()
    with pytest.raises(JsonFormError, match=r"the key \$bytes"):
        StoredAnswer(P, "pq_pure", {}, {"hits": [{"$bytes": "AA=="}]}).to_json()
