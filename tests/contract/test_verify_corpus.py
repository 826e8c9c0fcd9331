"""Did the provider that was called sign the corpus it describes (RAG service contract §3.6)?"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from described_corpora import (
    ALPHA,
    BETA,
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
    saying,
    signature,
    signed_description,
)
from fixed_keys import node_key, other_profile
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_vectors import needs_vectors, vectors

from rag_stdlib.contract.corpus import pinned, verify_corpus
from rag_stdlib.contract.nodekeys import PROFILES, Profile
from rag_stdlib.contract.verdicts import Refused, Signed, Unsigned

P = node_key("pq_pure").node_id
OUTCOMES = {
    "malformed_description": {""}, "corpus_hash_mismatch": {""}, "signature": {"malformed", "signature_invalid", "alg_mismatch"},
    "signer_not_provider": {""}, "signature_hash_mismatch": {""},
}


def check(description: object, provider: str | bytes = P, profile: Profile = "pq_pure") -> Signed | Unsigned | Refused:
    return verify_corpus(description, provider, profile)


@needs_vectors
@pytest.mark.parametrize("case", vectors("macula/signed_corpus.json"), ids=lambda case: case["profile"])
def test_the_published_signatures(case: dict[str, str]) -> None:
    published = vectors("macula/corpus.json")["corpus_hash"][0]
    description = {**published["description"], "corpus_hash": published["corpus_hash"], "signature": base64.b64decode(case["signature_base64"])}
    profile: Any = case["profile"]
    assert check(description, case["signed_by"], profile) == Signed(case["signed_by"])
    assert check(description, "0" * 64, profile) == Refused("signer_not_provider")
    assert check(description, case["signed_by"], other_profile(profile)) == Refused("signature", "malformed")


@pytest.mark.parametrize("profile", PROFILES)
def test_signed_by_the_provider_that_was_called(profile: Profile) -> None:
    node = node_key(profile).node_id
    assert check(signed_description(profile), node, profile) == Signed(node)


@pytest.mark.parametrize("provider", [P, P.upper(), P[:32].upper() + P[32:], bytes.fromhex(P)], ids=["hex", "capitals", "mixed", "bytes"])
def test_a_provider_is_named_in_hex_of_any_case_or_in_bytes(provider: str | bytes) -> None:
    assert check(signed_description(), provider) == Signed(P)


@pytest.mark.parametrize("provider", [
    "", P[1:], P + "0", "0x" + P[2:], f" {P[2:]} ", P[:-1] + "\n", P + "\n", "g" * 64, "\u0660" * 64, "_".join([P[:31], P[32:]]), P.encode(),
    bytes.fromhex(P)[1:], b"", "\ud800" * 64], ids=ascii)
@pytest.mark.parametrize("description", [signed_description(), DESCRIPTION, None], ids=["signed", "unsigned", "malformed"])
def test_what_is_no_node_id_is_the_callers_mistake_whatever_was_sent(provider: str | bytes, description: object) -> None:
    with pytest.raises(ValueError, match="a node id is 64 hex digits or 32 bytes"):
        check(description, provider)


@pytest.mark.parametrize("provider", [None, 7, bytearray(32), [P]])
def test_a_provider_of_another_type_is_the_callers_mistake(provider: Any) -> None:
    with pytest.raises(TypeError, match="a provider is a node id in hex or bytes, not "):
        check(signed_description(), provider)


@pytest.mark.parametrize("profile", ["pq", "", None, "PQ_PURE", ["pq_pure"]])
@pytest.mark.parametrize("description", [signed_description(), DESCRIPTION, None], ids=["signed", "unsigned", "malformed"])
def test_an_unknown_profile_is_the_callers_mistake_whatever_was_sent(profile: Any, description: object) -> None:
    with pytest.raises(ValueError, match="there is no profile"):
        check(description, P, profile)


def test_a_node_id_has_one_form() -> None:
    assert pinned(P.upper(), "pq_pure") == pinned(bytes.fromhex(P), "pq_pure") == P


@pytest.mark.parametrize("changes", [{}, {"signed_by": P}, {"Signature": b"x"}, {"signed_by": b"\xff", "extra": [1]}], ids=str)
def test_without_a_signature_it_is_unsigned_whatever_else_it_says(changes: dict[str, Any]) -> None:
    assert check({**DESCRIPTION, **changes}) == Unsigned()


@pytest.mark.parametrize("changes", [
    {"signed_by": "0" * 64}, {"signed_by": None}, {"signed_by": 7}, {"index_content": 1}, {"repos": [{**ALPHA, "note": 1}, BETA]}], ids=str)
def test_signed_by_is_no_evidence_and_other_keys_are_not_looked_at(changes: dict[str, Any]) -> None:
    assert check(signed_description(**changes)) == Signed(P)


def test_a_copy_of_a_signed_description_is_not_the_copiers() -> None:
    copier = node_key("pq_pure", 2).node_id
    assert check(signed_description(signed_by=copier), copier) == Refused("signer_not_provider")


def test_text_and_bytes_are_one_at_any_depth_but_the_signature_is_bytes() -> None:
    sent = signed_description()
    assert check({**as_bytes(sent), "signature": sent["signature"]}) == Signed(P)
    assert check({**as_bytes(DESCRIPTION), b"signature": sent["signature"]}) == Signed(P)
    assert check({**sent, "repos": [as_bytes(ALPHA), BETA], "corpus_hash": HASH.encode()}) == Signed(P)


@pytest.mark.parametrize("sent", ["text", 7, [b"x"], {"$bytes": ""}, bytearray(b"x"), 1.0, None], ids=str)
def test_a_signature_that_is_no_byte_string_is_malformed(sent: object) -> None:
    malformed = Refused("malformed_description", "signature is no byte string")
    assert check(signed_description(signature=sent)) == malformed
    assert check({**DESCRIPTION, b"signature": sent}) == malformed


@pytest.mark.parametrize("claim", [HASH.upper(), HASH[:-1], HASH + "\n", "", OTHER_HASH])
def test_the_claimed_hash_is_the_recomputed_one_to_the_letter(claim: str) -> None:
    assert check(signed_description(corpus_hash=claim)) == Refused("corpus_hash_mismatch")


@pytest.mark.parametrize("claim", [None, 7, b"\xff", "\ud800", [HASH]], ids=ascii)
def test_a_claimed_hash_that_is_no_text_is_malformed(claim: object) -> None:
    assert check(signed_description(corpus_hash=claim)) == Refused("malformed_description", "corpus_hash is missing or no text")


@pytest.mark.parametrize("profile", PROFILES)
def test_further_signed_fields_are_tolerated(profile: Profile) -> None:
    sent = saying(profile, corpus_hash=HASH, at_ms=1, note=None)
    assert check(signed_description(profile, signature=sent), node_key(profile).node_id, profile) == Signed(node_key(profile).node_id)


@pytest.mark.parametrize("claim", [HASH.encode(), HASH.upper(), OTHER_HASH, None, 7, [HASH], ""], ids=str)
def test_the_signed_hash_is_the_recomputed_one_as_text(claim: object) -> None:
    assert check(signed_description(signature=saying(corpus_hash=claim))) == Refused("signature_hash_mismatch")


def test_an_object_that_signs_no_hash() -> None:
    assert check(signed_description(signature=saying(hash=HASH))) == Refused("signature_hash_mismatch")


def test_other_repositories_under_their_own_hash_are_not_what_was_signed() -> None:
    assert check(signed_description(repos=OTHER["repos"], corpus_hash=OTHER_HASH)) == Refused("signature_hash_mismatch")


@pytest.mark.parametrize("sent", [
    b"", b"\x00", altered(signature())[:-1], signature() + b"\0", signature("pq_hybrid"), signature()[::-1], b"\x81" * 200_000],
    ids=["empty", "zero", "truncated", "longer", "other profile", "backwards", "deep"])
def test_what_is_no_signed_object(sent: bytes) -> None:
    assert check(signed_description(signature=sent)) == Refused("signature", "malformed")


def test_an_object_for_another_purpose_is_no_signature_of_a_corpus() -> None:
    sent = saying(label="macula-rag corpus v2", corpus_hash=HASH)
    assert check(signed_description(signature=sent)) == Refused("signature", "signature_invalid")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.one_of(GARBAGE, damaged(signed_description())))
def test_nothing_that_a_stranger_sends_raises_or_becomes_signed(description: Any) -> None:
    verdict = check(description, "0" * 64)
    assert isinstance(verdict, (Unsigned, Refused))
    if isinstance(verdict, Refused):
        assert verdict.detail in OUTCOMES[verdict.reason] or verdict.reason == "malformed_description"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.binary(max_size=64), st.integers(0, len(signature())), st.integers(0, 64))
def test_no_change_of_a_signed_object_is_signed(piece: bytes, at: int, length: int) -> None:
    sent = signature()[:at] + piece + signature()[at + length:]
    verdict = check(signed_description(signature=sent))
    assert verdict == (Signed(P) if sent == signature() else Refused("signature", verdict.detail if isinstance(verdict, Refused) else ""))


@pytest.mark.parametrize("description", [deep(100_000), signed_description(repos=[deep(5_000)]), cyclic(), signed_description(dim=10**5_000)],
                         ids=["deep", "deep within", "cyclic", "huge"])
def test_depth_cycles_and_huge_numbers_are_malformed(description: Any) -> None:
    verdict = check(description)
    assert isinstance(verdict, Refused)
    assert verdict.reason == "malformed_description"
