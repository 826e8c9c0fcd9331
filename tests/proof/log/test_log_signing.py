"""Who signs a log after an exchange of keys, and what stays of the signatures that its checkpoints had."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import changed, new_log, open_log
from signed import LOG, NOW, ORIGIN, head, note, refused, signer, witness

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.notes import MAX_SIGNATURES, Note, Signature, sign_note
from rag_stdlib.proof.log.signing import signed_by

NEW = signer(2)
ROTATED = LogKeys(ORIGIN, (LOG, NEW))
RETIRED = LogKeys(ORIGIN, (NEW,), (LOG.verifier,))
FORGOTTEN = LogKeys(ORIGIN, (NEW,), (), (LOG.verifier,))
LINE = f"{witness().sign(head(3).text(), NOW).line}\n".encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of three entries that a witness cosigned, and of two more."""
    path = tmp_path / "log.db"
    with new_log(path, 3) as log:
        log.add_cosignatures(log.checkpoint(), LINE, [witness().verifier])
        log.append_many([b"x", b"y"])
    return path


@pytest.mark.parametrize(("keys", "signers"), [(ROTATED, (LOG, witness(), NEW)), (RETIRED, (LOG, witness(), NEW)), (FORGOTTEN, (witness(), NEW))], ids=["rotated", "retired", "forgotten"])
@pytest.mark.parametrize("how", ["append", "sign_again"])
def test_the_cosigned_checkpoint_goes_on_with_the_keys(path: Path, keys: LogKeys, signers: tuple[object, ...], how: str) -> None:
    with open_log(path, keys) as log:
        before = log.cosigned()
        assert before == (None if keys is FORGOTTEN else note(3, LOG, witness()))
        log.append(b"z") if how == "append" else log.sign_again()
        assert log.cosigned() == note(3, *signers)  # type: ignore[arg-type]
    with open_log(path, None) as reading:
        assert reading.cosigned() == note(3, *signers)  # type: ignore[arg-type]


def test_a_file_that_was_not_told_at_the_time_is_put_right(path: Path) -> None:
    with open_log(path, FORGOTTEN) as log:
        log.append(b"z")
    connection = f"UPDATE log_cosigned SET checkpoint = x'{note(3, LOG, witness()).hex()}'"
    changed(path, connection)
    with open_log(path, None) as reading:
        assert reading.cosigned() is None, "by what the file says, the key signs no more"
    with open_log(path, FORGOTTEN) as log:
        assert log.cosigned() is None
        log.append(b"again")
        assert log.cosigned() is None
        log.sign_again()
        assert log.cosigned() == note(3, witness(), NEW)


def test_which_checkpoints_are_to_be_trusted(path: Path) -> None:
    broken = Note(head(3).text(), (Signature(ORIGIN, LOG.verifier.key_id, b"\0" * 64),)).to_bytes()
    with open_log(path, RETIRED) as retired, open_log(path, FORGOTTEN) as forgotten:
        assert [retired.is_trusted(one) for one in (note(3), note(3, NEW), note(3, LOG, NEW), note(3, witness()), broken)] == [True, True, True, False, False]
        assert [forgotten.is_trusted(one) for one in (note(3), note(3, NEW), note(3, LOG, NEW), note(3, witness()), broken)] == [False, True, True, False, False]
    with open_log(path, None) as reading:
        assert [reading.is_trusted(one) for one in (note(3), note(3, NEW))] == [True, False], "those that sign by now"
        assert refused(lambda: reading.is_trusted(b"x")) == "note_malformed"


def test_any_checkpoint_of_the_log_can_be_signed_again(path: Path) -> None:
    bad = Signature(ORIGIN, NEW.verifier.key_id, b"\0" * 64)
    other = Checkpoint(ORIGIN, 3, b"\1" * 32).text()
    with open_log(path, FORGOTTEN) as log:
        last = log.checkpoint()
        for given_ in (note(2, LOG, witness()), Note(head(2).text(), (bad, *Note.parse(note(2, LOG, witness())).signatures)).to_bytes()):
            assert log.sign_again(given_) == note(2, witness(), NEW)
        assert log.sign_again(note(2, NEW, witness())) == note(2, NEW, witness())
        assert log.checkpoint() == last
        assert refused(lambda: log.sign_again(sign_note(other, [LOG], NOW))) == "forked"
        assert refused(lambda: log.sign_again(note(6))) == "forked"
        assert refused(lambda: log.sign_again(b"x")) == "note_malformed"
    with open_log(path, None) as reading:
        assert refused(lambda: reading.sign_again(note(2))) == "key_unknown"


def test_no_checkpoint_of_another_tree_is_signed_because_it_was_kept(path: Path) -> None:
    foreign = sign_note(Checkpoint(ORIGIN, 3, b"\1" * 32).text(), [LOG], NOW)
    changed(path, f"UPDATE log_cosigned SET checkpoint = x'{foreign.hex()}'")
    with open_log(path, ROTATED) as log:
        assert refused(lambda: log.append(b"z")) == "forked"
        assert log.size == 5


def test_a_cosigned_checkpoint_without_room_does_not_hold_up_the_log(path: Path) -> None:
    others = tuple(Signature("witness.example/many", bytes([0, 0, 0, number]), b"x") for number in range(MAX_SIGNATURES))
    changed(path, f"UPDATE log_cosigned SET checkpoint = x'{Note(head(3).text(), others).to_bytes().hex()}'")
    with open_log(path, ROTATED) as log:
        assert log.append(b"z").index == 5


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.sampled_from([4, 6]), st.integers(0, 9)), min_size=1, max_size=8))
def test_of_each_key_the_earliest_time_stays(asked: list[tuple[int, int, int]]) -> None:
    text = head(2).text()
    lines = [witness(number, kind).sign(text, time) for number, kind, time in asked]
    merged = Note.parse(signed_by(text, lines)).signatures
    best = {}
    for number, kind, time in asked:
        best[number, kind] = min(best.get((number, kind), 10), time or 10)
    assert {(one.name, one.key_id): int.from_bytes(one.value[:8], "big") for one in merged} == {
        (witness(number, kind).name, witness(number, kind).verifier.key_id): time % 10 for (number, kind), time in best.items()}
    assert all(any(one.verifier.verify(text, line.value) for one in (witness(*each) for each in best)) for line in merged)
