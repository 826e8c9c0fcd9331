"""Node keys of both profiles: who they are, what they sign, and the strict form in which they are kept."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct
from dataclasses import FrozenInstanceError
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey, MLDSA87PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
)
from fixed_keys import node_key, other_profile, rsa_key
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract import nodekeys
from rag_stdlib.contract.nodekeys import PROFILES, KeyFormError, NodeKey, Profile

MAGIC = b"macula-node-key-seed-v1\0"
MESSAGE = b"what is signed"
SIZES = {"pq_pure": (2_592, 4_627), "pq_hybrid": (3_118, 5_139)}
# Of the message above, by the fixed RSA key; one signature in 256 begins with a zero byte.
LEADING_ZERO = bytes.fromhex(
    "0013cb7b2fb4c31fc4d28a660dc09a0d228c7764eae93b290877970857881682d05f9945f4510c44813975138c3dd1e777eccccd7751e310ab23d20be73fd696"
    "c32f07c820e3488fb81124e644e3de425a0c7a5d852149fdbbf837aae9df958ab418ee42427a3e2a6fd446dae469d7325e939a2159cae9bc54f5c59168b1dd85"
    "0d0a905c74804303459e68828c1b8be5130a309d357c92ddae03ba7d3814208871f52a04d1dde5f6b0aed373769c3d27db2c1ce903d1a85d8bb4de42b9c2ef1c"
    "28cb21a349c17c7702f3dd4bf2c5fa1c774574e97e766bbccb4076424337f8f7afa53ab319d7055848f4053cf56013bb69e6481eebd44b74745747606872bec5"
    "624eedce472278930710aec1795ba17c3c9607e24e09aaf360b8d66ce567fbc0dc783201e877c483f5928ab20a8856c46b691d651c152537fd439746f49daa08"
    "70208910357b3c81f6b5a02d5cf1f8ec91149bbefe71e6652301ea9ad89ef9944d460b688e9ed64e055ddbed3fb3194345f124e8c68dbc790aca0fa1bf5a8276"
    "b1acc5293abb0c5418d7fcfd94e7c6af549d85688e432261b3fa63f704eaee7997c4b59d098b7105d30fffda8d195ed8ff69d2e3b3d02b2d3680f4b2db29b592"
    "a8bafa9270ccd334a3b0a0ae2563c73bdeed12b5d4bd4b859fb899b69b478aad8289e8b02ccf4607e8750cc967873cd29500bd4aa461bb5dfc8b710a175fd964")

both = pytest.mark.parametrize("profile", PROFILES)


def der(key: Any, form: PrivateFormat = PrivateFormat.TraditionalOpenSSL) -> bytes:
    return bytes(key.private_bytes(Encoding.DER, form, NoEncryption()))


def half(tag: int, public: bytes, private: bytes) -> bytes:
    return bytes([tag]) + struct.pack(">I", len(public)) + public + struct.pack(">I", len(private)) + private


def ml_dsa_half(number: int = 1) -> bytes:
    return half(1, node_key("pq_pure", number).public, bytes([number]) * 32)


def rsa_half(public: bytes | None = None, private: bytes | None = None) -> bytes:
    return half(2, node_key("pq_hybrid").public[2_592:] if public is None else public, der(rsa_key()) if private is None else private)


@both
def test_sizes_and_names(profile: Profile) -> None:
    key = node_key(profile)
    assert (len(key.public), len(key.sign(MESSAGE))) == SIZES[profile]
    for label, name in ((b"MACULA-NODE-ID-V1", key.node_id), (b"MACULA-KEY-ID-V1", key.key_id)):
        assert name == hashlib.sha256(label + b"\0" + bytes([len(profile)]) + profile.encode() + key.public).hexdigest()
    assert (nodekeys.node_id(key.public, profile), nodekeys.key_id(key.public, profile)) == (key.node_id, key.key_id)
    assert nodekeys.node_id(key.public, other_profile(profile)) != key.node_id
    assert key.profile == profile


@both
def test_what_a_key_signs_verifies_under_it_alone(profile: Profile) -> None:
    key, other = node_key(profile), node_key(profile, 2)
    signature = key.sign(MESSAGE)
    assert nodekeys.verify(MESSAGE, signature, key.public, profile)
    assert nodekeys.verify(b"", key.sign(b""), key.public, profile)
    assert not nodekeys.verify(MESSAGE + b"\0", signature, key.public, profile)
    assert not nodekeys.verify(MESSAGE, signature, other.public, profile)
    assert not nodekeys.verify(MESSAGE, signature, key.public, other_profile(profile))
    assert key.sign(MESSAGE) != signature, "signatures are randomised"


@both
@pytest.mark.parametrize("change", [lambda s: s[:-1], lambda s: s + b"\0", lambda _: b"", lambda s: bytes(len(s)), lambda s: s[1:] + s[:1],
                                    lambda s: s[:4_627], lambda s: bytes([s[0] ^ 1]) + s[1:], lambda s: s[:-1] + bytes([s[-1] ^ 1])])
def test_an_altered_signature_does_not_verify(profile: Profile, change: Any) -> None:
    key = node_key(profile)
    signature = key.sign(MESSAGE)
    altered = change(signature)
    assert nodekeys.verify(MESSAGE, altered, key.public, profile) == (altered == signature)


@both
@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: p + b"\0", lambda _: b"", lambda p: p[1:], lambda p: p * 2])
def test_a_public_key_of_another_length_is_none_and_verifies_nothing(profile: Profile, change: Any) -> None:
    key = node_key(profile)
    public = change(key.public)
    assert nodekeys.well_formed(key.public, profile)
    assert not nodekeys.well_formed(key.public, other_profile(profile))
    assert not nodekeys.well_formed(public, profile)
    assert not nodekeys.verify(MESSAGE, key.sign(MESSAGE), public, profile)


def with_rsa(public: bytes) -> bytes:
    return node_key("pq_pure").public + public


def test_the_rsa_half_must_be_4096_bits_exponent_65537_in_canonical_der() -> None:
    spki = rsa_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pkcs1 = node_key("pq_hybrid").public[2_592:]
    small = small_rsa().public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)
    curve = generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert nodekeys.well_formed(with_rsa(pkcs1), "pq_hybrid")
    for public in (spki, small, curve, pkcs1 + b"\0", pkcs1[:-1], b"", b"\0" * 526, pkcs1[:-3] + b"\0\0\3", b"0\x83\0\2\x0a" + pkcs1[4:],
                   b"0\x82\2\x0b\2\x82\2\2\0" + pkcs1[8:], pkcs1[:9] + b"\x7f" + pkcs1[10:]):
        assert not nodekeys.well_formed(with_rsa(public), "pq_hybrid"), public.hex()


def test_both_halves_of_a_hybrid_signature_must_hold() -> None:
    key, other = node_key("pq_hybrid"), node_key("pq_hybrid", 2)
    one, two = key.sign(MESSAGE), key.sign(b"another message")
    assert nodekeys.verify(MESSAGE, one[:4_627] + key.sign(MESSAGE)[4_627:], key.public, "pq_hybrid")
    assert not nodekeys.verify(MESSAGE, one[:4_627] + two[4_627:], key.public, "pq_hybrid")
    assert not nodekeys.verify(MESSAGE, two[:4_627] + one[4_627:], key.public, "pq_hybrid")
    assert not nodekeys.verify(MESSAGE, other.sign(MESSAGE)[:4_627] + one[4_627:], key.public, "pq_hybrid"), "the RSA halves are equal"


def test_the_composite_is_that_of_lamps() -> None:
    label = b"COMPSIG-MLDSA87-RSA4096-PSS-SHA512"
    representative = b"CompositeAlgorithmSignatures2025" + label + b"\0" + hashlib.sha512(MESSAGE).digest()
    key = node_key("pq_hybrid")
    signature = key.sign(MESSAGE)
    MLDSA87PublicKey.from_public_bytes(key.public[:2_592]).verify(signature[:4_627], representative, label)
    rsa: Any = load_der_public_key(key.public[2_592:])
    rsa.verify(signature[4_627:], representative, padding.PSS(padding.MGF1(SHA384()), 48), SHA384())


def test_a_composite_whose_rsa_half_lost_its_leading_zero_is_refused() -> None:
    key = node_key("pq_hybrid")
    ml_dsa, rsa = key.sign(MESSAGE)[:4_627], LEADING_ZERO
    assert nodekeys.verify(MESSAGE, ml_dsa + rsa, key.public, "pq_hybrid")
    assert not nodekeys.verify(MESSAGE, ml_dsa + rsa[1:], key.public, "pq_hybrid")


@both
def test_the_seed_form_holds_the_whole_key(profile: Profile) -> None:
    key = node_key(profile)
    copied = NodeKey.from_seed_form(key.to_seed_form())
    assert (copied.public, copied.profile, copied.node_id, copied.key_id) == (key.public, profile, key.node_id, key.key_id)
    assert copied.to_seed_form() == key.to_seed_form()
    assert nodekeys.verify(MESSAGE, copied.sign(MESSAGE), key.public, profile)


def test_the_seed_form_byte_for_byte() -> None:
    assert node_key("pq_pure").to_seed_form() == MAGIC + b"\1\1\1" + ml_dsa_half()
    assert node_key("pq_hybrid").to_seed_form() == MAGIC + b"\1\2\2" + ml_dsa_half() + rsa_half()


@cache
def small_rsa() -> RSAPrivateKey:
    return generate_rsa(65_537, 2_048)


@cache
def seed_forms() -> dict[str, tuple[bytes, str]]:
    pure, hybrid = b"\1\1\1" + ml_dsa_half(), b"\1\2\2" + ml_dsa_half() + rsa_half()
    public = node_key("pq_pure").public
    curve = generate_private_key(SECP256R1())
    small = small_rsa()
    small_public = small.public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)
    return {
        "nothing after the magic": (b"", "ends early"),
        "another purpose": (b"\2" + pure[1:], "purpose is 2"),
        "no purpose": (b"\0" + pure[1:], "purpose is 0"),
        "no profile": (b"\1\0" + pure[2:], "profile is 0"),
        "a third profile": (b"\1\3" + pure[2:], "profile is 3"),
        "another profile": (b"\1\2" + pure[2:], "counts 1 halves where its profile has 2"),
        "too many halves": (b"\1\1\2" + ml_dsa_half() + rsa_half(), "counts 2 halves"),
        "no half": (b"\1\1\0", "counts 0 halves"),
        "half missing": (b"\1\2\2" + ml_dsa_half(), "ends early"),
        "halves in another order": (b"\1\2\2" + rsa_half() + ml_dsa_half(), "kind 2 stands where its profile has kind 1"),
        "one half twice": (b"\1\2\2" + ml_dsa_half() * 2, "kind 1 stands where its profile has kind 2"),
        "an unknown half": (b"\1\1\1\7" + pure[4:], "kind 7"),
        "a byte more": (pure + b"\0", "1 bytes follow"),
        "a byte less": (pure[:-1], "ends early"),
        "hybrid and more": (hybrid + hybrid, "bytes follow"),
        "announced to the end of the world": (b"\1\1\1\1\xff\xff\xff\xff" + public, "ends early"),
        "cut in a length": (b"\1\1\1\1\0\0", "ends early"),
        "another's public key": (b"\1\1\1" + half(1, node_key("pq_pure", 2).public, b"\1" * 32), "not that of its seed"),
        "no public key": (b"\1\1\1" + half(1, b"", b"\1" * 32), "not that of its seed"),
        "a short seed": (b"\1\1\1" + half(1, public, b"\1" * 31), "seed is 31 bytes"),
        "a long seed": (b"\1\1\1" + half(1, public, b"\1" * 33), "seed is 33 bytes"),
        "no RSA key": (b"\1\2\2" + ml_dsa_half() + rsa_half(private=b""), "cannot be read"),
        "RSA in PKCS #8": (b"\1\2\2" + ml_dsa_half() + rsa_half(private=der(rsa_key(), PrivateFormat.PKCS8)), "no PKCS #1"),
        "RSA and a byte": (b"\1\2\2" + ml_dsa_half() + rsa_half(private=der(rsa_key()) + b"\0"), "cannot be read"),
        "a curve's key": (b"\1\2\2" + ml_dsa_half() + rsa_half(private=der(curve)), "no PKCS #1"),
        "a small RSA key": (b"\1\2\2" + ml_dsa_half() + rsa_half(small_public, der(small)), "not of 4,096 bits"),
        "another RSA public key": (b"\1\2\2" + ml_dsa_half() + rsa_half(small_public), "RSA public key is not that"),
    }


@pytest.mark.parametrize("name", seed_forms())
def test_a_seed_form_that_is_not_exact_is_refused(name: str) -> None:
    rest, message = seed_forms()[name]
    with pytest.raises(KeyFormError, match=message):
        NodeKey.from_seed_form(MAGIC + rest)


@pytest.mark.parametrize(("data", "message"), [
    (b"", "does not begin"), (MAGIC[:-1], "does not begin"), (b"macula-node-key-v1\0\1\1\1", "does not begin"), (b"-----BEGIN PRIVATE KEY-----", "begin"),
    (MAGIC + bytes(20_000), "more than 16,384"),
])
def test_other_bytes_are_no_seed_form(data: bytes, message: str) -> None:
    with pytest.raises(KeyFormError, match=message):
        NodeKey.from_seed_form(data)


@settings(max_examples=80)
@given(st.integers(0, 2_700), st.integers(0, 255), st.booleans())
def test_a_touched_seed_form_is_refused_or_the_same(at: int, value: int, cut: bool) -> None:
    whole = node_key("pq_pure").to_seed_form()
    touched = whole[:at] if cut else whole[:at] + bytes([value]) + whole[at + 1:]
    if touched == whole:
        assert NodeKey.from_seed_form(touched) == node_key("pq_pure")
    else:
        with pytest.raises(KeyFormError):
            NodeKey.from_seed_form(touched)


def test_a_message_about_a_bad_seed_form_names_no_secret() -> None:
    private = der(rsa_key())
    with pytest.raises(KeyFormError) as caught:
        NodeKey.from_seed_form(MAGIC + b"\1\2\2" + ml_dsa_half() + rsa_half(private=private[:-1]))
    assert caught.value.__suppress_context__
    assert private[40:60].hex() not in str(caught.value)


def test_generation_solves_the_puzzle_and_makes_another_key_each_time() -> None:
    keys = [NodeKey.generate("pq_pure") for _ in range(2)]
    assert all(key.node_id.startswith("00") for key in keys)
    assert keys[0] != keys[1]
    assert NodeKey.generate("pq_pure", puzzle_bits=3).node_id[0] in "01"


def test_generation_of_a_hybrid_key_makes_its_rsa_half_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    def once(exponent: int, bits: int) -> RSAPrivateKey:
        made.append((exponent, bits))
        return rsa_key()

    monkeypatch.setattr("cryptography.hazmat.primitives.asymmetric.rsa.generate_private_key", once)
    key = NodeKey.generate("pq_hybrid", puzzle_bits=4)
    assert made == [(65_537, 4_096)]
    assert key.node_id[0] == "0"
    assert nodekeys.well_formed(key.public, "pq_hybrid")


@pytest.mark.parametrize("bits", [-1, 21, 256])
def test_a_puzzle_out_of_reach_is_refused_before_anything_is_made(bits: int) -> None:
    with pytest.raises(ValueError, match="puzzle_bits must be 0 to 20"):
        NodeKey.generate("pq_hybrid", puzzle_bits=bits)


@pytest.mark.parametrize("call", [
    lambda profile: nodekeys.node_id(b"", profile), lambda profile: nodekeys.key_id(b"", profile), lambda profile: nodekeys.well_formed(b"", profile),
    lambda profile: nodekeys.verify(b"", b"", b"", profile), lambda profile: NodeKey.generate(profile, puzzle_bits=0),
])
@pytest.mark.parametrize("profile", ["", "ed25519", "PQ_PURE", None])
def test_there_are_no_other_profiles(call: Any, profile: Any) -> None:
    with pytest.raises(ValueError, match="there are pq_pure and pq_hybrid"):
        call(profile)


@both
def test_a_key_shows_no_secret_and_cannot_be_pickled_or_changed(profile: Profile) -> None:
    key = node_key(profile)
    assert repr(key) == str(key) == f"NodeKey({profile}, {key.node_id})"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps({"key": key}, protocol)
    with pytest.raises(FrozenInstanceError):
        key.node_id = "0" * 64  # type: ignore[misc]
    assert copy.copy(key) is copy.deepcopy(key) is key


def test_keys_are_equal_where_their_node_ids_are() -> None:
    again = NodeKey(MLDSA87PrivateKey.from_seed_bytes(b"\1" * 32), None)
    assert again == node_key("pq_pure")
    assert {again, node_key("pq_pure"), node_key("pq_pure", 2), node_key("pq_hybrid")} == {again, node_key("pq_pure", 2), node_key("pq_hybrid")}
    assert node_key("pq_pure") != node_key("pq_pure").node_id
