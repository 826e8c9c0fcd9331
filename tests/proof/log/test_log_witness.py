"""A witness: every outcome that C2SP names, one step that two requests cannot divide, and a state that outlives the process."""

from __future__ import annotations

import base64
import hashlib
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_trees import Leaves, entries, tree_hash
from logs import changed
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, signer, witness

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.cosignatures import taken_apart
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.merkle import EMPTY_ROOT, compare, comparison_path, consistency_path
from rag_stdlib.proof.log.notes import Note, read_signatures, sign_note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.witness import MAX_REQUEST_BYTES, Answer, Refusal, Request, Witness, logs_of

NAME = "witness.example/w1"
KEYS = LogKeys(NAME, (witness(1, 4), witness(1, 6)))
SIZE = 20
SOURCE = Leaves(entries(SIZE))
OTHER = PinnedLog("log.example/other", (signer(3, "log.example/other").verifier,))


def opened(path: Path, clock: float = NOW) -> Witness:
    return Witness(path, KEYS, [PINNED, OTHER], synchronous="normal", busy_seconds=30, clock=lambda: clock)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Witness.create(tmp_path / "witness.db", NAME)
    return tmp_path / "witness.db"


@pytest.fixture
def one(path: Path) -> Iterator[Witness]:
    with opened(path) as made:
        yield made


def request(old: int, new: int, checkpoint: bytes | None = None, proof: list[bytes] | None = None) -> bytes:
    return Request(old, tuple(consistency_path(old, new, SOURCE) if proof is None else proof), note(new) if checkpoint is None else checkpoint).to_bytes()


def status(answer: Answer) -> int:
    assert answer.body.endswith(b"\n")
    return answer.status


def test_a_checkpoint_that_continues_the_last_one_is_cosigned_with_every_key(one: Witness) -> None:
    for old, new in ((0, 5), (5, 5), (5, 6), (6, 20), (20, 20)):
        answer = one.add_checkpoint(request(old, new))
        assert answer.status == 200
        lines = read_signatures(answer.body.decode())
        assert [(line.name, taken_apart(line.value)[0]) for line in lines] == [(NAME, NOW)] * 2
        whole = note(new) + answer.body
        assert [signed.name for signed in PinnedLog(ORIGIN, (LOG.verifier,), KEYS.signing, 1).open(whole).cosigned] == [NAME]
        kept = one.checkpoint(ORIGIN)
        assert kept is not None
        assert len(Note.parse(kept).signatures) == 3
        assert PinnedLog(ORIGIN, (LOG.verifier,), KEYS.signing, 1).open(kept).checkpoint == head(new)


def test_an_empty_log_is_cosigned_and_is_continued_by_any(one: Witness) -> None:
    assert [status(one.add_checkpoint(request(0, new))) for new in (0, 0, 3)] == [200, 200, 200]


def test_the_size_last_cosigned_is_told_where_another_is_named(one: Witness) -> None:
    assert one.add_checkpoint(request(3, 5)) == Answer(409, b"0\n", "text/x.tlog.size")
    assert status(one.add_checkpoint(request(0, 5))) == 200
    for old, new in ((0, 5), (0, 20), (4, 6), (4, 4), (6, 20), (6, 6)):
        assert one.add_checkpoint(request(old, new)) == Answer(409, b"5\n", "text/x.tlog.size")


def test_an_old_size_above_the_new_one_is_refused(one: Witness) -> None:
    assert status(one.add_checkpoint(request(6, 5, proof=[]))) == 400
    one.add_checkpoint(request(0, 7))
    assert status(one.add_checkpoint(request(7, 5, proof=[]))) == 400


def other_entries(at: int) -> list[bytes]:
    """The entries of a log that has another one at a place."""
    return [*entries(at), b"other", *entries(SIZE)[at + 1:]]


def fork(size: int, at: int) -> bytes:
    """A checkpoint of that log."""
    return sign_note(Checkpoint(ORIGIN, size, tree_hash(other_entries(at)[:size])).text(), [LOG], NOW)


def fork_path(old: int, new: int, at: int) -> list[bytes]:
    """Its true hashes."""
    return consistency_path(old, new, Leaves(other_entries(at)))


def size_of(checkpoint: bytes) -> int:
    return Checkpoint.parse(Note.parse(checkpoint).text).size


@pytest.mark.parametrize(("old", "checkpoint", "proof", "proven"), [
    (0, note(5), [b"\1" * 32], False), (0, note(0), [b"\1" * 32], False), (0, sign_note(Checkpoint(ORIGIN, 0, b"\1" * 32).text(), [LOG], NOW), [], True),
    (7, note(7), [b"\1" * 32], False), (7, fork(7, 3), [], True), (7, fork(7, 3), [b"\1" * 32], True), (7, fork(8, 3), None, False), (7, fork(8, 3), fork_path(7, 8, 3), True),
    (7, fork(20, 0), None, False), (7, fork(20, 0), fork_path(7, 20, 0), True), (7, note(8), [], False), (7, note(8), [b"\1" * 32], False), (7, note(8), [b"\1" * 32] * 4, False),
    (7, note(20), [b"\1" * 32] * 63, False), (7, note(20), fork_path(7, 20, 0), False), (8, fork(12, 3), fork_path(8, 12, 3), False),
    (8, fork(12, 3), comparison_path(8, 12, Leaves(other_entries(3))), True), (8, fork(12, 3), comparison_path(8, 12, SOURCE), False), (8, note(12), comparison_path(8, 12, SOURCE), False),
])
def test_what_is_refused_accuses_the_log_only_where_it_proves_it(one: Witness, old: int, checkpoint: bytes, proof: list[bytes] | None, proven: bool) -> None:
    if old:
        assert status(one.add_checkpoint(request(0, old))) == 200
    before = one.checkpoint(ORIGIN)
    proof = consistency_path(old, size_of(checkpoint), SOURCE) if proof is None else proof
    answer = one.add_checkpoint(request(old, size_of(checkpoint), checkpoint, proof))
    assert status(answer) == 422
    assert one.checkpoint(ORIGIN) == before
    kept, = one.refusals(ORIGIN)
    assert kept == Refusal(NOW, answer.body.decode().strip(), checkpoint, proven, before or b"", tuple(proof))
    assert not one.refusals(OTHER.origin)


def test_the_evidence_is_enough_by_itself_however_the_witness_goes_on(path: Path) -> None:
    with opened(path) as one:
        one.add_checkpoint(request(0, 7))
        assert status(one.add_checkpoint(request(7, 12, fork(12, 3), fork_path(7, 12, 3)))) == 422
        assert status(one.add_checkpoint(request(7, 20))) == 200
    with opened(path) as again:
        kept, = again.refusals(ORIGIN)
    signed = PinnedLog(ORIGIN, (LOG.verifier,), KEYS.signing, 1).open(kept.cosigned).checkpoint
    shown = PINNED.open(kept.checkpoint).checkpoint
    assert (signed, shown.size, kept.proven) == (head(7), 12, True)
    assert compare(signed.size, signed.root, shown.size, shown.root, kept.proof) == "another"


def sizes_of(refusals: list[Refusal], *, proven: bool) -> list[int]:
    return [size_of(each.checkpoint) for each in refusals if each.proven is proven]


def test_garbage_takes_no_room_from_evidence(one: Witness) -> None:
    """A stranger has true checkpoints of an honest log, and sends them with false proofs until there is no more room; then the log forks."""
    one.add_checkpoint(request(0, 3))
    sizes = [Checkpoint(ORIGIN, size, hashlib.sha256(str(size).encode()).digest()) for size in range(4, 84)]
    for turn in range(2):
        for each in sizes:
            assert status(one.add_checkpoint(request(3, each.size, sign_note(each.text(), [LOG], NOW), [bytes([turn]) * 32] * 5))) == 422
    assert sizes_of(one.refusals(ORIGIN), proven=False) == list(range(20, 84)), "the last ones, each once"
    assert sizes_of(one.refusals(ORIGIN), proven=True) == []
    assert status(one.add_checkpoint(request(3, 20, fork(20, 0), fork_path(3, 20, 0)))) == 422
    for size in range(70):
        assert status(one.add_checkpoint(request(3, 3, sign_note(Checkpoint(ORIGIN, 3, bytes([size]) * 32).text(), [LOG], NOW), []))) == 422
    for each in sizes[:70]:
        assert status(one.add_checkpoint(request(3, each.size, sign_note(each.text(), [LOG], NOW), []))) == 422
    kept = one.refusals(ORIGIN)
    assert sizes_of(kept, proven=True) == [20] + [3] * 63, "the first ones show what it did, and nothing drives them out"
    assert sizes_of(kept, proven=False) == list(range(10, 74))
    assert not one.refusals(OTHER.origin)


@pytest.mark.parametrize("again", [False, True])
def test_a_fork_that_the_path_of_a_request_cannot_prove_is_kept_behind_garbage(one: Witness, again: bool) -> None:
    """The cosigned tree is one complete subtree, whose root the path leaves out; what is refused of it is a checkpoint that the log has to explain."""
    one.add_checkpoint(request(0, 4))
    ask = request(4, 12, fork(12, 0), fork_path(4, 12, 0))
    if again:
        assert status(one.add_checkpoint(ask)) == 422
    for size in range(5, 75):
        assert status(one.add_checkpoint(request(4, size, sign_note(Checkpoint(ORIGIN, size, b"\1" * 32).text(), [LOG], NOW), [b"\1" * 32]))) == 422
    assert status(one.add_checkpoint(ask)) == 422
    kept = one.refusals(ORIGIN)
    assert (len(kept), kept[-1].checkpoint, kept[-1].proven, kept[-1].proof) == (64, fork(12, 0), False, tuple(fork_path(4, 12, 0)))
    signed, shown = (PINNED.open(note).checkpoint for note in (kept[-1].cosigned, kept[-1].checkpoint))
    path = comparison_path(4, 12, Leaves(other_entries(0)))
    assert compare(signed.size, signed.root, shown.size, shown.root, path) == "another", "whoever has the root that the path leaves out proves it later"


def test_only_trusted_keys_of_known_logs_are_heard(one: Witness) -> None:
    foreign = sign_note(head(5, origin="log.example/unknown").text(), [signer(1)], NOW)
    assert status(one.add_checkpoint(request(0, 5, foreign))) == 404
    for bad in (note(5, signer(2)), note(5, witness(1, 4)), note(5).replace(b"\n5\n", b"\n6\n"), sign_note(head(5, origin=OTHER.origin).text(), [LOG], NOW),
                note(5) + f"{signer().sign('other', NOW).line}\n".encode()):
        assert status(one.add_checkpoint(request(0, 5, bad))) == 403
    assert status(one.add_checkpoint(request(0, 5, note(5, signer(2), LOG, witness(9))))) == 200
    kept = one.checkpoint(ORIGIN)
    assert kept is not None
    assert [line.name for line in Note.parse(kept).signatures] == [ORIGIN, NAME, NAME], "what strangers wrote below it is not kept"


def test_logs_do_not_touch_each_other(one: Witness) -> None:
    other = signer(3, OTHER.origin)
    text = head(4, origin=OTHER.origin).text()
    assert status(one.add_checkpoint(request(0, 9))) == 200
    assert status(one.add_checkpoint(request(0, 4, sign_note(text, [other], NOW)))) == 200
    assert [Checkpoint.parse(Note.parse(one.checkpoint(origin) or b"").text).size for origin in (ORIGIN, OTHER.origin)] == [9, 4]
    assert one.checkpoint_by_hash(hashlib.sha256(ORIGIN.encode()).hexdigest()) == one.checkpoint(ORIGIN)
    for digest in ("", "00" * 32, hashlib.sha256(ORIGIN.encode()).hexdigest().upper(), hashlib.sha256(b"log.example/unknown").hexdigest()):
        assert one.checkpoint_by_hash(digest) is None


REQUEST = request(7, 20)
LINES = REQUEST.split(b"\n")


@pytest.mark.parametrize("body", [
    b"", b"\n\n", b"old 0\n\n", b"old 0\n" + note(5), b"old\n\n" + note(5), b"old 00\n\n" + note(5), b"old -1\n\n" + note(5), b"old +1\n\n" + note(5), b"old 1 \n\n" + note(5),
    b"Old 0\n\n" + note(5), b"old 0\n\n\n" + note(5), b"old 0\n\n" + note(5)[:-1], b"old 0\r\n\r\n" + note(5), b"old 9223372036854775808\n\n" + note(5), b"old 0\n\n" + b"x",
    b"old 0\nAAAA\n\n" + note(5), b"old 0\n!\n\n" + note(5), "old 0\né\n\n".encode() + note(5), b"old 0\n" + b"\n".join([LINES[1]] * 64) + b"\n\n" + note(5),
    REQUEST.replace(LINES[1], LINES[1] + b"="), REQUEST + b"x" * MAX_REQUEST_BYTES, b"old 0\n\n" + sign_note("hello\n", [LOG], NOW), b"old 0\n\n" + sign_note(head(5).text() + "more\n", [LOG], NOW),
    b" " + REQUEST, b"old 0\n\n" + note(5) + b"x",
], ids=lambda body: repr(body[:30]))
def test_malformed_requests_are_refused(one: Witness, body: bytes) -> None:
    assert status(one.add_checkpoint(body)) == 400
    assert one.checkpoint(ORIGIN) is None


@given(st.builds(Request, st.integers(0, 2**63 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63).map(tuple), st.just(note(5))))
def test_a_request_that_is_written_reads_the_same(made: Request) -> None:
    assert Request.parse(made.to_bytes()) == made


PIECES = st.sampled_from([b"old ", b"0", b"7", b"\n", b"\n\n", LINES[1], note(5), b"\xff", b"="])


@given(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=8).map(b"".join)))
def test_any_bytes_are_a_request_that_writes_itself_again_or_are_refused(data: bytes) -> None:
    try:
        read = Request.parse(data)
    except ProofError as error:
        assert error.code == "request_malformed"  # noqa: PT017 - or it is read
    else:
        assert read.to_bytes() == data


def test_the_state_outlives_the_process(path: Path) -> None:
    with opened(path) as first:
        assert status(first.add_checkpoint(request(0, 9))) == 200
    with opened(path) as second:
        assert second.checkpoint(ORIGIN) is not None
        assert status(second.add_checkpoint(request(0, 5))) == 409
        assert status(second.add_checkpoint(request(9, 9, fork(9, 3), []))) == 422
        assert status(second.add_checkpoint(request(9, 20))) == 200


def test_a_witness_without_its_state_is_not_made_on_the_way(tmp_path: Path, path: Path) -> None:
    assert refused(lambda: opened(tmp_path / "none.db")) == "missing"
    assert refused(lambda: Witness.create(path, NAME)) == "exists"
    other = LogKeys("witness.example/w2", (witness(2, 6),))
    assert refused(lambda: Witness(path, other, [PINNED])) == "key_unknown"
    with opened(path) as again:
        assert again.checkpoint(ORIGIN) is None


def test_keys_and_logs_that_no_witness_can_have(path: Path) -> None:
    unfit = [(LogKeys(NAME, (signer(1, NAME, 1),)), [PINNED]), (KEYS, [PINNED, PinnedLog(ORIGIN, (signer(2).verifier,))])]
    for keys, logs in unfit:
        assert refused(lambda keys=keys, logs=logs: Witness(path, keys, logs)) == "keys_unfit"  # type: ignore[misc]
        assert refused(lambda keys=keys, logs=logs: logs_of(keys, logs)) == "keys_unfit"  # type: ignore[misc]
    assert logs_of(KEYS, [PINNED, OTHER]) == {ORIGIN: PINNED, OTHER.origin: OTHER}


def test_a_state_of_another_release_is_told_as_such(path: Path) -> None:
    changed(path, "ALTER TABLE witness_refusals DROP COLUMN cosigned", "PRAGMA user_version = 1")
    assert refused(lambda: opened(path)) == "file_foreign"


def test_times_never_go_back(path: Path) -> None:
    for size, clock, stated in ((5, NOW, NOW), (6, NOW - 1_000, NOW), (7, NOW + 3.9, NOW + 3)):
        with opened(path, clock) as made:
            old = size - 1 if size > 5 else 0
            assert {taken_apart(line.value)[0] for line in read_signatures(made.add_checkpoint(request(old, size)).body.decode())} == {stated}


def test_while_keys_of_the_log_are_exchanged_either_is_heard(path: Path) -> None:
    new = signer(2)
    with Witness(path, KEYS, [PinnedLog(ORIGIN, (LOG.verifier, new.verifier))], synchronous="normal") as made:
        assert [status(made.add_checkpoint(request(old, size, note(size, *keys)))) for old, size, keys in ((0, 3, (LOG,)), (3, 4, (LOG, new)), (4, 5, (new,)))] == [200] * 3


def test_two_requests_at_once_cannot_roll_it_back(path: Path) -> None:
    """From size 4, one asks for 9 and one for 20: one of them is cosigned, the other hears of it."""
    for turn in range(12):
        state = path.with_name(f"w{turn}.db")
        Witness.create(state, NAME)
        with opened(state) as one, opened(state) as two:
            assert status(one.add_checkpoint(request(0, 4))) == 200
            gate = threading.Barrier(2)

            def ask(made: Witness, size: int, gate: threading.Barrier = gate) -> tuple[int, int]:
                gate.wait(10)
                return size, status(made.add_checkpoint(request(4, size)))

            with ThreadPoolExecutor(2) as pool:
                done = dict(pool.map(ask, (one, two), (9, 20)))
            assert sorted(done.values()) == [200, 409]
            last = Checkpoint.parse(Note.parse(one.checkpoint(ORIGIN) or b"").text)
            assert done[last.size] == 200


def test_threads_that_ask_for_all_sizes_see_it_grow_only(one: Witness) -> None:
    sizes: list[int] = []

    def climb(start: int) -> None:
        old = 0
        for size in itertools.chain(range(start, SIZE + 1), [SIZE]):
            answer = one.add_checkpoint(request(old, max(old, size)))
            if answer.status == 409:
                old = int(answer.body)
            elif answer.status == 200:
                old = max(old, size)
                sizes.append(old)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(climb, range(1, 7)))
    assert len(set(sizes)) > 3
    assert Checkpoint.parse(Note.parse(one.checkpoint(ORIGIN) or b"").text).size == max(sizes)


def test_the_root_of_no_entry_is_fixed() -> None:
    assert base64.b64encode(EMPTY_ROOT) == b"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
