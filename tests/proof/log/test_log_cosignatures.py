"""Cosignatures of both kinds: what exactly is signed, and that nothing else passes for it."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from signed import LOG, NOW, ORIGIN, head, refused, signer, witness

from rag_stdlib.proof.log.cosignatures import message, taken_apart
from rag_stdlib.proof.log.notes import NoteSigner, VerifierKey, open_note, sign_note

HEAD = head(5)
TEXT = HEAD.text()
both = pytest.mark.parametrize("kind", [4, 6])


def test_an_ed25519_cosignature_is_over_two_lines_and_the_text() -> None:
    made = witness(1, 4)
    value = made.sign(TEXT, NOW).value
    assert (len(value), value[:8]) == (72, struct.pack(">Q", NOW))
    public = Ed25519PublicKey.from_public_bytes(made.verifier.public)
    public.verify(value[8:], b"cosignature/v1\ntime 1790000000\n" + TEXT.encode())


def test_an_ml_dsa_cosignature_is_over_names_size_and_root() -> None:
    made = witness(1, 6)
    value = made.sign(TEXT, NOW).value
    assert (len(value), len(made.verifier.public)) == (8 + 2_420, 1_312)
    name, origin = made.name.encode(), ORIGIN.encode()
    signed = (b"subtree/v1\x0a\x00" + bytes([len(name)]) + name + NOW.to_bytes(8, "big") + bytes([len(origin)]) + origin
              + bytes(8) + (5).to_bytes(8, "big") + HEAD.root)
    MLDSA44PublicKey.from_public_bytes(made.verifier.public).verify(value[8:], signed)


@both
def test_a_cosigned_checkpoint_opens_with_the_key_of_log_or_witness(kind: int) -> None:
    data = sign_note(TEXT, [LOG, witness(1, kind)], NOW)
    for key in (LOG.verifier, witness(1, kind).verifier):
        assert [signed for signed, _ in open_note(data, [key]).signed] == [key]
    assert taken_apart(open_note(data, [witness(1, kind).verifier]).signed[0][1].value)[0] == NOW


@both
def test_what_a_cosignature_is_bound_to(kind: int) -> None:
    made = witness(1, kind)
    value = made.sign(TEXT, NOW).value
    assert made.verifier.verify(TEXT, value)
    for other in (head(4).text(), head(5, origin="log.example/other").text(), TEXT.replace("\n5\n", "\n6\n"), TEXT[:-1], TEXT + "extension\n", ""):
        assert not made.verifier.verify(other, value)
    assert not made.verifier.verify(TEXT, struct.pack(">Q", NOW + 1) + value[8:])
    assert not made.verifier.verify(TEXT, struct.pack(">Q", 2**63) + value[8:])
    for cut in (b"", value[:7], value[:8], value[8:], value[:-1], value + b"\0", value[::-1], b"\0" * len(value)):
        assert not made.verifier.verify(TEXT, cut)
    assert not witness(2, kind).verifier.verify(TEXT, value)


def test_the_kinds_do_not_pass_for_each_other_though_the_key_is_the_same() -> None:
    seed = b"\x2a" * 32
    notes, cosigner = NoteSigner("w.example", seed, 1), NoteSigner("w.example", seed, 4)
    assert notes.verifier.public == cosigner.verifier.public
    assert notes.verifier.key_id != cosigner.verifier.key_id
    assert not cosigner.verifier.verify(TEXT, notes.sign(TEXT, NOW).value)
    assert not cosigner.verifier.verify(TEXT, struct.pack(">Q", NOW) + notes.sign(TEXT, NOW).value)
    assert not notes.verifier.verify(TEXT, cosigner.sign(TEXT, NOW).value)
    assert not notes.verifier.verify(TEXT, cosigner.sign(TEXT, NOW).value[8:])


def test_an_ml_dsa_key_is_bound_to_its_name_and_an_ed25519_key_is_not() -> None:
    for kind, bound in ((4, False), (6, True)):
        one, other = (signer(9, name, kind) for name in ("one.example", "other.example"))
        assert other.verifier.verify(TEXT, one.sign(TEXT, NOW).value) is not bound


@both
@pytest.mark.parametrize("time", [-1, 2**63, 1.5, True])
def test_times_that_cannot_be_stated(kind: int, time: Any) -> None:
    with pytest.raises(ValueError, match="cannot state"):
        witness(1, kind).sign(TEXT, time)


@both
@pytest.mark.parametrize("time", [0, 1, 2**63 - 1])
def test_times_that_can(kind: int, time: int) -> None:
    value = witness(1, kind).sign(TEXT, time).value
    assert witness(1, kind).verifier.verify(TEXT, value)
    assert taken_apart(value) == (time, value[8:])


def test_only_checkpoints_are_cosigned() -> None:
    for text in ("hello\n", TEXT + "extension\n", "\n"):
        for kind in (4, 6):
            assert refused(lambda text=text, kind=kind: message(kind, "w.example", NOW, text)) == "checkpoint_malformed"  # type: ignore[misc]
            assert refused(lambda text=text, kind=kind: witness(1, kind).sign(text, NOW)) == "checkpoint_malformed"  # type: ignore[misc]


def test_names_of_the_greatest_length_fit_the_structure() -> None:
    long, origin = "w" * 255, "o" * 255
    made = NoteSigner(long, b"\3" * 32, 6)
    text = head(3, origin=origin).text()
    assert VerifierKey.parse(made.verifier.text()).verify(text, made.sign(text, NOW).value)


@both
@settings(max_examples=30)
@given(st.binary(max_size=100))
def test_any_bytes_are_no_cosignature(kind: int, value: bytes) -> None:
    assert not witness(1, kind).verifier.verify(TEXT, value)
