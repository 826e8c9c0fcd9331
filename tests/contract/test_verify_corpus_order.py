"""Where two things are wrong with a description, the earlier step of RAG service contract §3.6 names the reason."""

from __future__ import annotations

from typing import Any

import pytest
from described_corpora import HASH, OTHER_HASH, altered, crafted, saying, signature, signed_description
from fixed_keys import node_key, other_profile

from rag_stdlib.contract import cbor
from rag_stdlib.contract.corpus import verify_corpus
from rag_stdlib.contract.nodekeys import PROFILES, Profile
from rag_stdlib.contract.verdicts import Refused, Signed, Unsigned

pytestmark = pytest.mark.parametrize("profile", PROFILES)


def judged(profile: Profile, **changes: Any) -> Signed | Unsigned | Refused:
    description = {name: value for name, value in signed_description(profile, **changes).items() if value is not ...}
    return verify_corpus(description, node_key(profile).node_id, profile)


def test_1_before_2_malformed_although_the_hash_is_wrong_too(profile: Profile) -> None:
    verdict = judged(profile, dim=384.0, corpus_hash=OTHER_HASH)
    assert verdict == Refused("malformed_description", "dim is no integer from 1 to 2^53 - 1")


def test_1_before_3_a_malformed_description_without_a_signature_is_not_unsigned(profile: Profile) -> None:
    assert judged(profile, repos=None, signature=...) == Refused("malformed_description", "repos is no list of at most 131,072 maps")


def test_1_before_2_a_signature_of_another_type_although_the_hash_is_wrong_too(profile: Profile) -> None:
    assert judged(profile, signature="text", corpus_hash=OTHER_HASH) == Refused("malformed_description", "signature is no byte string")


def test_2_before_3_a_wrong_hash_without_a_signature_is_not_unsigned(profile: Profile) -> None:
    assert judged(profile, corpus_hash=OTHER_HASH, signature=...) == Refused("corpus_hash_mismatch")


def test_2_before_4_a_wrong_hash_although_the_signature_is_garbage_too(profile: Profile) -> None:
    assert judged(profile, corpus_hash=OTHER_HASH, signature=b"") == Refused("corpus_hash_mismatch")


def test_3_before_4_without_a_signature_nothing_of_it_is_wrong(profile: Profile) -> None:
    assert judged(profile, signature=..., signed_by="no node") == Unsigned()


def test_4_malformed_before_invalid_another_profiles_object_although_altered_too(profile: Profile) -> None:
    assert judged(profile, signature=altered(signature(other_profile(profile)))) == Refused("signature", "malformed")


def test_4_invalid_before_malformed_fields_an_altered_signature_over_no_map(profile: Profile) -> None:
    sent = crafted(cbor.encode([HASH]), profile)
    assert judged(profile, signature=altered(sent)) == Refused("signature", "signature_invalid")
    assert judged(profile, signature=sent) == Refused("signature", "malformed")


def test_4_invalid_before_alg_an_altered_signature_that_names_another_algorithm(profile: Profile) -> None:
    sent = saying(profile, alg="ML-DSA-44", corpus_hash=HASH)
    assert judged(profile, signature=altered(sent)) == Refused("signature", "signature_invalid")
    assert judged(profile, signature=sent) == Refused("signature", "alg_mismatch")


def test_4_before_5_an_algorithm_that_is_not_the_profiles_although_another_signed(profile: Profile) -> None:
    assert judged(profile, signature=saying(profile, 2, alg="ML-DSA-44", corpus_hash=HASH)) == Refused("signature", "alg_mismatch")


def test_4_before_5_an_altered_signature_although_another_signed(profile: Profile) -> None:
    assert judged(profile, signature=altered(signature(profile, 2))) == Refused("signature", "signature_invalid")


def test_4_before_6_an_altered_signature_although_over_another_hash(profile: Profile) -> None:
    assert judged(profile, signature=altered(signature(profile, 1, OTHER_HASH))) == Refused("signature", "signature_invalid")


def test_5_before_6_a_wrong_signer_over_a_wrong_hash(profile: Profile) -> None:
    assert judged(profile, signature=signature(profile, 2, OTHER_HASH)) == Refused("signer_not_provider")


def test_5_before_7_a_wrong_signer_over_the_right_hash(profile: Profile) -> None:
    assert judged(profile, signature=signature(profile, 2)) == Refused("signer_not_provider")


def test_6_before_7_the_right_signer_over_a_wrong_hash(profile: Profile) -> None:
    assert judged(profile, signature=signature(profile, 1, OTHER_HASH)) == Refused("signature_hash_mismatch")


def test_7_nothing_is_wrong(profile: Profile) -> None:
    assert judged(profile) == Signed(node_key(profile).node_id)
