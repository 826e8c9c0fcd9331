"""What a client pins: no verification without a key, and a quorum of witnesses that are really several."""

from __future__ import annotations

from typing import Any

import pytest
from signed import LOG, NOW, ORIGIN, PINNED, WITNESSES, head, note, refused, signer, witness

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.merkle import EMPTY_ROOT
from rag_stdlib.proof.log.notes import NoteSigner, Signature, sign_note
from rag_stdlib.proof.log.pinned import Cosigned, PinnedLog

OLD, NEW = LOG, signer(2)
KEYS = tuple(one.verifier for one in WITNESSES)


def pinned(quorum: int = 0, *keys: NoteSigner) -> PinnedLog:
    return PinnedLog(ORIGIN, tuple(key.verifier for key in keys or (LOG,)), KEYS, quorum)


def test_a_checkpoint_of_the_pinned_log_opens() -> None:
    opened = PINNED.open(note(4))
    assert (opened.checkpoint, opened.note, opened.keys, opened.cosigned) == (head(4), note(4), (LOG.verifier.text(),), ())


def test_without_a_key_of_the_log_nothing_can_be_verified() -> None:
    assert refused(lambda: PinnedLog(ORIGIN, ())) == "keys_unfit"
    assert refused(lambda: PinnedLog(ORIGIN, (), KEYS)) == "keys_unfit"


@pytest.mark.parametrize("origin", ["", "a\nb", "x" * 256])
def test_an_origin_that_is_none_cannot_be_pinned(origin: str) -> None:
    assert refused(lambda: PinnedLog(origin, (LOG.verifier,))) == "checkpoint_malformed"


def test_pins_that_would_verify_less_than_they_seem() -> None:
    same = NoteSigner("witness.example/other-name", bytes([101]) * 32, 4)
    for keys, witnesses, quorum in (
        ((LOG,), (witness(1, 4), same), 0),  # one key under two names
        ((LOG,), (signer(1, "witness.example/x", 4),), 0),  # the log's own key as a witness
        ((LOG,), (signer(9, ORIGIN, 4),), 0),  # the log's name as a witness
        ((LOG,), (signer(9, "witness.example/x", 1),), 0),  # a key that does not cosign
        ((LOG, signer(9, ORIGIN, 4)), (), 0),  # a witness's key as the log's
        ((LOG,), (witness(1, 4), witness(1, 6)), 2),  # two keys of one witness
        ((LOG,), (), 1), ((LOG,), WITNESSES, 4), ((LOG,), WITNESSES, -1),
    ):
        given = tuple(one.verifier for one in keys), tuple(one.verifier for one in witnesses)
        assert refused(lambda given=given, quorum=quorum: PinnedLog(ORIGIN, *given, quorum)) == "keys_unfit"  # type: ignore[misc]


@pytest.mark.parametrize("quorum", [True, 1.0, "1", None])
def test_a_quorum_is_a_number(quorum: Any) -> None:
    assert refused(lambda: PinnedLog(ORIGIN, (LOG.verifier,), KEYS, quorum)) == "keys_unfit"


def test_r154_a_witness_with_keys_of_both_kinds_counts_once() -> None:
    twice = note(3, LOG, witness(1, 4), witness(1, 6), witness(1, 4))
    assert refused(lambda: pinned(2).open(twice)) == "quorum_missing"
    assert pinned(1).open(twice).cosigned == (Cosigned("witness.example/w1", NOW),)
    assert [one.name[-2:] for one in pinned(2).open(note(3, LOG, witness(1, 6), witness(3, 4))).cosigned] == ["w1", "w3"]
    assert len(pinned(3).open(note(3, LOG, *WITNESSES)).cosigned) == 3


def test_the_latest_time_of_a_witness_is_told() -> None:
    text = head(3).text()
    lines = [LOG.sign(text, NOW), *(witness(1, kind).sign(text, NOW + shift) for kind, shift in ((4, 5), (6, 9), (4, 7)))]
    data = (text + "\n" + "".join(f"{line.line}\n" for line in lines)).encode()
    assert pinned(1).open(data).cosigned == (Cosigned("witness.example/w1", NOW + 9),)


def test_unknown_witnesses_do_not_count_and_do_no_harm() -> None:
    unknown = witness(9)
    bad = Signature(unknown.name, unknown.verifier.key_id, b"x" * 72)
    data = note(3, LOG, unknown) + f"{bad.line}\n".encode()
    assert pinned().open(data).cosigned == ()
    assert refused(lambda: pinned(1).open(data)) == "quorum_missing"


def test_a_known_signature_that_fails_refuses_the_checkpoint_and_says_whose() -> None:
    log, cosigner = (Signature(one.name, one.verifier.key_id, b"x" * 72) for one in (LOG, witness(1, 4)))
    assert refused(lambda: pinned().open(note(3, NEW, witness(1, 4)) + f"{log.line}\n".encode())) == "signature_invalid"
    assert refused(lambda: pinned().open(note(3) + f"{cosigner.line}\n".encode())) == "cosignature_invalid"
    assert pinned().open(note(3, LOG, witness(1, 4)).replace(b"\n3\n", b"\n3\n")).checkpoint.size == 3


def test_a_quorum_of_witnesses_does_not_speak_for_the_log() -> None:
    assert refused(lambda: pinned(3).open(note(3, *WITNESSES))) == "signature_missing"
    assert refused(lambda: pinned().open(note(3, NEW))) == "signature_missing"


def test_another_log_that_signs_with_the_same_key_is_another_log() -> None:
    data = sign_note(head(3, origin="log.example/second").text(), [LOG], NOW)
    assert refused(lambda: PINNED.open(data)) == "origin_mismatch"


def test_while_keys_are_exchanged_either_will_do() -> None:
    for signers in ((OLD,), (OLD, NEW), (NEW,)):
        assert pinned(0, OLD, NEW).open(note(3, *signers)).checkpoint == head(3)
    assert refused(lambda: pinned(0, NEW).open(note(3, OLD))) == "signature_missing"
    assert pinned(0, NEW).open(note(3, OLD, NEW)).keys == (NEW.verifier.text(),)
    assert pinned(0, OLD, NEW).open(note(3, NEW, OLD)).keys == (NEW.verifier.text(), OLD.verifier.text())


def test_a_log_may_sign_with_ml_dsa() -> None:
    key = signer(4, ORIGIN, 6)
    assert PinnedLog(ORIGIN, (key.verifier,)).open(note(3, key)).keys == (key.verifier.text(),)


def test_what_is_signed_must_be_a_checkpoint() -> None:
    assert refused(lambda: PINNED.open(sign_note("hello\n", [LOG], NOW))) == "checkpoint_malformed"
    assert refused(lambda: PINNED.open(sign_note(head(3).text() + "extension\n", [LOG], NOW))) == "checkpoint_malformed"
    assert refused(lambda: PINNED.open(sign_note(Checkpoint(ORIGIN, 0, EMPTY_ROOT[::-1]).text(), [LOG], NOW))) == "checkpoint_malformed"
    assert refused(lambda: PINNED.open(b"hello")) == "note_malformed"
