"""Signed objects: the order of the checks, each with its reason, and bytes that are never written again to be checked."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from cbor_pieces import LOOSE_ITEMS, altered, blob, head, mapping, text
from fixed_keys import node_key, other_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract import cbor, signedobject
from rag_stdlib.contract.nodekeys import PROFILES, NodeKey, Profile
from rag_stdlib.contract.signedobject import ALGORITHMS, SignedObject, sign, verify
from rag_stdlib.contract.verdicts import Refused

LABEL = "macula-rag corpus v1"
FIELDS = {"corpus_hash": "0d5f037b" * 8}

both = pytest.mark.parametrize("profile", PROFILES)


def signature_of(tbs: bytes, key: NodeKey, label: str = LABEL) -> bytes:
    return key.sign(label.encode() + b"\0" + hashlib.sha384(key.public).digest() + tbs)


def written(tbs: bytes, key: NodeKey, /, **parts: Any) -> bytes:
    """Encode an object over `tbs`, with parts put in the place of its own or beside them."""
    return cbor.encode({"key": key.public, "tbs": tbs, "signature": signature_of(tbs, key), **parts})


@both
def test_an_object_verifies_as_what_it_says_and_who_signed_it(profile: Profile) -> None:
    key = node_key(profile)
    data = sign(LABEL, FIELDS, key)
    assert verify(LABEL, data, profile) == SignedObject(
        key.public, cbor.encode({**FIELDS, "alg": ALGORITHMS[profile]}), {**FIELDS, "alg": ALGORITHMS[profile]}, key.node_id)
    assert len(data) == {"pq_pure": 7_339, "pq_hybrid": 8_383}[profile]


@both
def test_the_bytes_of_an_object(profile: Profile) -> None:
    key, algorithm = node_key(profile), ALGORITHMS[profile]
    data = sign(LABEL, FIELDS, key)
    tbs = mapping([(text("alg"), text(algorithm)), (text("corpus_hash"), text(FIELDS["corpus_hash"]))])
    signature = data[-len(key.sign(b"")):]
    assert data == mapping([(text("key"), blob(key.public)), (text("tbs"), blob(tbs)), (text("signature"), blob(signature))])
    assert cbor.encode(cbor.decode(data)) == data


@both
def test_another_label_key_or_message_does_not_verify(profile: Profile) -> None:
    key, other = node_key(profile), node_key(profile, 2)
    tbs = cbor.encode({**FIELDS, "alg": ALGORITHMS[profile]})
    data = sign(LABEL, FIELDS, key)
    assert verify("macula-rag corpus v2", data, profile) == Refused("signature_invalid")
    assert verify(LABEL[:-1], data, profile) == Refused("signature_invalid")
    assert verify(LABEL, written(tbs, key, key=other.public), profile) == Refused("signature_invalid")
    assert verify(LABEL, written(tbs, key, signature=key.sign(tbs)), profile) == Refused("signature_invalid")
    assert verify(LABEL, written(tbs, key, signature=b""), profile) == Refused("signature_invalid")
    assert verify(LABEL, written(tbs, key, tbs=tbs + b"\0"), profile) == Refused("signature_invalid")
    assert verify(LABEL, written(tbs, key, tbs=b""), profile) == Refused("signature_invalid")


@both
def test_an_object_of_the_other_profile_is_malformed(profile: Profile) -> None:
    assert verify(LABEL, sign(LABEL, FIELDS, node_key(profile)), other_profile(profile)) == Refused("malformed")


@pytest.mark.parametrize("data", [
    b"", b"\0", b"\xf6", b"\xa0", b"\x80", b"not cbor", b"\xa3", cbor.encode({"key": b"", "tbs": b"", "signature": b""}), cbor.encode(["key", "tbs"]),
    "text", None, {}, {"key": b"", "tbs": b"", "signature": b""}, 7, bytearray(b"\xa0"), b"\x81" * 200_000, b"\xff" * 100,
], ids=lambda data: repr(data)[:30])
def test_what_is_no_object_is_malformed(data: object) -> None:
    assert verify(LABEL, data, "pq_pure") == Refused("malformed")


@pytest.mark.parametrize("change", [
    {"extra": b""}, {"key": None}, {"tbs": "text"}, {"signature": "text"}, {"key": "text"}, {"signature": None}, {"tbs": [b""]}, {1: b""},
    {"Key": b""}, {"key": b""}, {"key": node_key("pq_pure").public + b"\0"}, {"key": node_key("pq_hybrid").public},
], ids=lambda change: repr(change)[:30])
def test_another_shape_or_a_bad_key_is_malformed_however_good_the_signature(change: dict[Any, Any]) -> None:
    key = node_key("pq_pure")
    tbs = cbor.encode({**FIELDS, "alg": ALGORITHMS["pq_pure"]})
    parts: dict[Any, Any] = {"key": key.public, "tbs": tbs, "signature": signature_of(tbs, key), **change}
    assert verify(LABEL, cbor.encode(parts), "pq_pure") == Refused("malformed")


@pytest.mark.parametrize("missing", ["key", "tbs", "signature"])
def test_a_missing_part_is_malformed(missing: str) -> None:
    whole: Any = cbor.decode(sign(LABEL, FIELDS, node_key("pq_pure")))
    del whole[missing]
    assert verify(LABEL, cbor.encode(whole), "pq_pure") == Refused("malformed")


def test_keys_may_stand_in_any_order_and_lengths_in_any_width_but_not_twice() -> None:
    key = node_key("pq_pure")
    tbs = mapping([(text("corpus_hash", 25), text("x", 26)), (text("alg", 24), text(ALGORITHMS["pq_pure"], 27))], 24)
    pairs = [(text("signature", 24), blob(signature_of(tbs, key), 26)), (text("tbs"), blob(tbs, 27)), (text("key", 27), blob(key.public, 26))]
    verified = verify(LABEL, mapping(pairs, 27), "pq_pure")
    assert verified == SignedObject(key.public, tbs, {"corpus_hash": "x", "alg": ALGORITHMS["pq_pure"]}, key.node_id)
    assert verify(LABEL, mapping([*pairs, pairs[1]]), "pq_pure") == Refused("malformed")
    assert verify(LABEL, mapping(pairs) + b"\0", "pq_pure") == Refused("malformed")


@both
@pytest.mark.parametrize(("tbs", "reason"), [
    (b"", "malformed"), (b"\x80", "malformed"), (b"\xa0", "malformed"), (b"\xf6", "malformed"), (text("alg"), "malformed"), (b"\xa1\x63alg", "malformed"),
    (cbor.encode(FIELDS), "malformed"), (cbor.encode({"alg": None}), "malformed"), (cbor.encode({"alg": 87}), "malformed"),
    (cbor.encode({"alg": b"ML-DSA-87"}), "malformed"), (cbor.encode({"alg": ["ML-DSA-87"]}), "malformed"), (cbor.encode({"Alg": "ML-DSA-87"}), "malformed"),
    (cbor.encode({"alg": ""}), "alg_mismatch"), (cbor.encode({"alg": "ML-DSA-65"}), "alg_mismatch"), (cbor.encode({"alg": "ml-dsa-87"}), "alg_mismatch"),
    (cbor.encode({"alg": "ML-DSA-87 "}), "alg_mismatch"), (cbor.encode({"alg": "ML-DSA-87-PS384\0"}), "alg_mismatch"),
    (mapping([(text("alg"), text("ML-DSA-87"))] * 2), "malformed"), (mapping([(text("alg"), b"\xf4")]), "malformed"),
    (mapping([(text("alg"), text("ML-DSA-87")), (text("x"), b"\xfb\x7f\xf8" + bytes(6))]), "malformed"),
    (mapping([(text("alg"), text("ML-DSA-87")), (text("x"), b"\x81" * 64 + b"\0")]), "malformed"),
    (head(5, 1) + text("alg") + text("ML-DSA-65") + b"\0", "malformed"),
], ids=lambda part: part.hex()[:40] if isinstance(part, bytes) else part)
def test_tbs_is_read_once_its_signature_holds(profile: Profile, tbs: bytes, reason: str) -> None:
    key = node_key(profile)
    assert verify(LABEL, written(tbs, key), profile) == Refused(reason)
    assert verify(LABEL, written(tbs, key, signature=bytes(len(key.sign(b"")))), profile) == Refused("signature_invalid")


@both
def test_the_algorithm_must_be_that_of_the_profile(profile: Profile) -> None:
    for_other = cbor.encode({**FIELDS, "alg": ALGORITHMS[other_profile(profile)]})
    assert verify(LABEL, written(for_other, node_key(profile)), profile) == Refused("alg_mismatch")


def test_further_fields_of_any_kind_are_carried() -> None:
    key = node_key("pq_pure")
    fields = {"corpus_hash": b"bytes", "n": None, "f": 1.0, "list": [1, {"a": -1}], "": "", "long name": 2**63 - 1}
    verified = verify(LABEL, sign(LABEL, fields, key), "pq_pure")
    assert isinstance(verified, SignedObject)
    assert verified.fields == {**fields, "alg": "ML-DSA-87"}
    with_integer_key = cbor.encode({1: 2, "alg": "ML-DSA-87"})
    assert isinstance(verify(LABEL, written(with_integer_key, key), "pq_pure"), SignedObject)


@settings(max_examples=80)
@given(st.data())
def test_any_change_to_the_bytes_is_seen(data: st.DataObject) -> None:
    whole = SAMPLE
    touched = data.draw(altered(whole))
    verdict = verify(LABEL, touched, "pq_pure")
    assert isinstance(verdict, SignedObject) == (touched == whole)
    assert verdict in (Refused("malformed"), Refused("signature_invalid")) or touched == whole


SAMPLE = sign(LABEL, FIELDS, node_key("pq_pure"))


@settings(max_examples=80)
@given(st.one_of(st.binary(max_size=100), LOOSE_ITEMS))
def test_strangers_bytes_raise_nothing(data: bytes) -> None:
    assert verify(LABEL, data, "pq_hybrid") == Refused("malformed")


@pytest.mark.parametrize("label", ["with\0nul", "\0", "\ud800"])
def test_a_label_that_could_be_taken_for_another_is_a_mistake_of_the_caller(label: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogates"):
        sign(label, FIELDS, node_key("pq_pure"))
    with pytest.raises(ValueError, match=r"NUL|surrogates"):
        verify(label, b"", "pq_pure")


def test_no_other_profile_is_known() -> None:
    with pytest.raises(ValueError, match="there is no profile 'ed25519'"):
        verify(LABEL, b"", "ed25519")  # type: ignore[arg-type]


def test_the_algorithm_is_the_keys_to_name() -> None:
    with pytest.raises(ValueError, match="alg is no field"):
        sign(LABEL, {"alg": "ML-DSA-87"}, node_key("pq_pure"))


@pytest.mark.parametrize(("fields", "reason"), [({"changed": True}, "bool"), ({"x": float("nan")}, "float"), ({"x": "\ud800"}, "utf8")])
def test_what_does_not_cross_the_mesh_is_not_signed(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(cbor.CborError) as caught:
        sign(LABEL, fields, node_key("pq_pure"))
    assert caught.value.reason == reason


def test_verdicts_are_values() -> None:
    verified = verify(LABEL, SAMPLE, "pq_pure")
    assert isinstance(verified, SignedObject)
    assert replace(verified, tbs=b"") != verified
    assert [str(Refused("malformed")), str(Refused("signature", "malformed"))] == ["malformed", "signature: malformed"]
    assert set(signedobject.ALGORITHMS) == set(PROFILES)
