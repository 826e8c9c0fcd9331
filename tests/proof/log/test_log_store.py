"""The log in its file: receipts, proofs and checkpoints, and what it refuses to sign."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_trees import Leaves, audit_path, entries, tree_hash
from logs import KEYS, new_log, open_log
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, signer, witness

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.cosignatures import taken_apart
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.merkle import comparison_path, consistency_path, verify_consistency
from rag_stdlib.proof.log.notes import Note, sign_note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import MAX_ENTRY_BYTES, Log

SIZE = 21
DATA = entries(SIZE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_a_new_log_has_a_signed_checkpoint_of_the_empty_tree(path: Path) -> None:
    with new_log(path) as log:
        assert (log.origin, log.size, log.checkpoint()) == (ORIGIN, 0, note(0))
        assert PINNED.open(log.checkpoint()).checkpoint == head(0)
        assert list(log.entries()) == log.check() == []


def test_each_append_has_a_receipt_that_verifies_under_a_checkpoint_that_continues_the_last(path: Path) -> None:
    with new_log(path) as log:
        for position, entry in enumerate(DATA):
            receipt = log.append(entry)
            assert Receipt.parse(receipt.to_bytes()) == receipt
            assert (receipt.index, list(receipt.path)) == (position, audit_path(position, DATA[:position + 1]))
            assert receipt.verify(entry, PINNED).checkpoint == head(position + 1)
            assert log.checkpoint() == receipt.checkpoint
            root = tree_hash(DATA[:position])
            verify_consistency(position, root, position + 1, head(position + 1).root, log.consistency_path(position, position + 1))
        assert (log.size, list(log.entries()), log.check()) == (SIZE, DATA, [])


def test_what_was_appended_is_there_when_the_log_is_opened_again(path: Path) -> None:
    new_log(path, 3).close()
    for size in range(3, 9):
        with open_log(path) as log:
            assert (log.size, log.checkpoint()) == (size, note(size))
            log.append(DATA[size])
    assert [file.name for file in path.parent.iterdir()] == ["log.db"]


@pytest.mark.parametrize("sizes", [[SIZE], [0, 1, 0, 20], [4, 4, 13], [1] * SIZE])
def test_entries_appended_at_once_make_the_same_tree(path: Path, sizes: list[int]) -> None:
    with new_log(path) as log:
        for size in sizes:
            start = log.size
            made = log.append_many(DATA[start:start + size])
            assert (made.positions, made.checkpoint) == (range(start, start + size), note(start + size))
            for position in made.positions:
                assert log.receipt(position, made.checkpoint).verify(DATA[position], PINNED).checkpoint.size == start + size
        assert log.check() == []


def test_batches_of_many_thousands(path: Path) -> None:
    many = entries(9_001)
    with new_log(path, 5) as log:
        made = log.append_many(iter(many[5:]))
        assert made.positions == range(5, 9_001)
        assert PINNED.open(made.checkpoint).checkpoint.root == tree_hash(many)
        assert list(log.entries()) == many
        assert log.receipt(4_242).verify(many[4_242], PINNED).checkpoint.size == 9_001
        assert log.check() == []


def test_every_receipt_and_every_consistency_under_every_checkpoint(path: Path) -> None:
    source = Leaves(DATA)
    with new_log(path, SIZE) as log:
        for size in range(1, SIZE + 1):
            for position in range(size):
                assert log.receipt(position, note(size)).verify(DATA[position], PINNED).checkpoint == head(size)
            assert [log.consistency_path(old, size) for old in range(size + 1)] == [consistency_path(old, size, source) for old in range(size + 1)]
            assert [log.comparison_path(old, size) for old in range(size + 1)] == [comparison_path(old, size, source) for old in range(size + 1)]
        for level in range(5):
            assert log.hashes(level, 0, SIZE >> level) == [source.hash_at(level, index) for index in range(SIZE >> level)]


def test_what_the_log_does_not_have(path: Path) -> None:
    with new_log(path, 5) as log:
        for call in (lambda: log.receipt(5), lambda: log.receipt(-1), lambda: log.receipt(3, note(3)), lambda: log.receipt(0, note(0)), lambda: log.consistency_path(2, 6),
                     lambda: log.consistency_path(3, 2), lambda: log.consistency_path(-1, 2), lambda: list(log.entries(0, 6)), lambda: list(log.entries(-1)),
                     lambda: list(log.entries(4, 3)), lambda: log.entry(5), lambda: log.hashes(0, 5, 1), lambda: log.hashes(2, 1, 1), lambda: log.hashes(-1, 0, 1),
                     lambda: log.hashes(0, 0, -1), lambda: log.hashes(0, -1, 1),
                     lambda: log.comparison_path(2, 6), lambda: log.comparison_path(3, 2), lambda: log.comparison_path(-1, 2)):
            assert refused(call) == "out_of_range"
        assert (log.entry(4), list(log.entries(2, 2)), log.hashes(3, 0, 0)) == (DATA[4], [], [])


def test_a_receipt_is_made_under_checkpoints_of_this_log_only(path: Path) -> None:
    other = sign_note(Checkpoint(ORIGIN, 4, tree_hash([*DATA[:3], b"other"])).text(), [LOG], NOW)
    elsewhere = sign_note(head(4, origin="log.example/second").text(), [LOG], NOW)
    with new_log(path, 5) as log:
        for foreign in (other, elsewhere, note(6)):
            assert refused(lambda foreign=foreign: log.receipt(0, foreign)) == "forked"  # type: ignore[misc]
        assert refused(lambda: log.receipt(0, b"x")) == "note_malformed"


@pytest.mark.parametrize("entry", [b"", b"\0", b"x" * MAX_ENTRY_BYTES, bytes(range(256))])
def test_entries_are_any_bytes(path: Path, entry: bytes) -> None:
    with new_log(path) as log:
        log.append(entry).verify(entry, PINNED)
        assert log.entry(0) == entry


def test_what_is_there_is_not_appended_again(path: Path) -> None:
    with new_log(path, 5) as log:
        log.append(DATA[2])
        placed = log.append_missing([b"new", DATA[2], b"newer", b"new", DATA[0]])
        assert (placed.positions, placed.new, log.size) == ((6, 2, 7, 6, 0), range(6, 8), 8)
        assert (list(log.entries(6)), log.check()) == ([b"new", b"newer"], [])
        before = log.checkpoint()
        for given in ([DATA[4], b"newer"], []):
            placed = log.append_missing(given)
            assert (placed.positions, list(placed.new), log.checkpoint()) == ((4, 7) if given else (), [], before)
        assert refused(lambda: log.append_missing([b"x", b"x" * (MAX_ENTRY_BYTES + 1)])) == "entry_too_large"
        assert log.size == 8
    with open_log(path, None) as log:
        assert log.append_missing([DATA[1]]).positions == (1,)
        assert refused(lambda: log.append_missing([b"x"])) == "key_unknown"


def test_what_another_appends_while_it_is_searched_for_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_log(path, 5) as log, open_log(path) as other:
        real = log.hashes

        def hashes(level: int, start: int, count: int) -> list[bytes]:
            found = real(level, start, count)
            other.append_many([b"theirs", b"both", b"both"])
            return found

        monkeypatch.setattr(log, "hashes", hashes)
        placed = log.append_missing([b"mine", b"both", DATA[1]])
        assert (placed.positions, placed.new) == ((8, 6, 1), range(8, 9))
        assert log.append_missing([b"both", b"later"]).positions == (6, 12)
        assert log.check() == []


@given(st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"])), max_size=6))
def test_whatever_is_asked_for_is_there_once(tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]]) -> None:
    with new_log(tmp_path_factory.mktemp("log") / "log.db") as log:
        for batch in batches:
            placed = log.append_missing(batch)
            assert [log.entry(position) for position in placed.positions] == batch
        assert sorted(log.entries()) == sorted({entry for batch in batches for entry in batch})


def test_an_entry_that_is_too_large_appends_nothing_of_its_batch(path: Path) -> None:
    with new_log(path, 2) as log:
        assert refused(lambda: log.append(b"x" * (MAX_ENTRY_BYTES + 1))) == "entry_too_large"
        assert refused(lambda: log.append_many([b"a", b"x" * (MAX_ENTRY_BYTES + 1), b"b"])) == "entry_too_large"
        with pytest.raises(TypeError):
            log.append("text")  # type: ignore[arg-type]
        assert (log.size, log.check()) == (2, [])


def test_a_source_of_entries_that_fails_appends_nothing(path: Path) -> None:
    def failing() -> object:
        yield b"a"
        raise ZeroDivisionError

    with new_log(path, 2) as log:
        with pytest.raises(ZeroDivisionError):
            log.append_many(failing())  # type: ignore[arg-type]
        assert (log.size, log.check()) == (2, [])


def test_without_keys_a_log_is_only_read(path: Path) -> None:
    new_log(path, 5).close()
    with open_log(path, None) as log:
        assert (log.origin, log.size, log.receipt(3).verify(DATA[3], PINNED).checkpoint) == (ORIGIN, 5, head(5))
        for call in (lambda: log.append(b"x"), log.sign_again, lambda: log.append_many([])):
            assert refused(call) == "key_unknown"


def test_the_keys_of_another_log_do_not_open_it(path: Path) -> None:
    new_log(path, 5).close()
    for keys in (LogKeys(ORIGIN, (signer(2),)), LogKeys("log.example/second", (signer(1, "log.example/second"),))):
        assert refused(lambda keys=keys: open_log(path, keys)) == "key_unknown"  # type: ignore[misc]
    with open_log(path) as log:
        assert log.size == 5


def test_a_log_that_signs_with_ml_dsa_states_the_time(path: Path) -> None:
    keys = LogKeys(ORIGIN, (LOG, signer(4, ORIGIN, 6)))
    with new_log(path, 3, keys) as log:
        signatures = Note.parse(log.checkpoint()).signatures
        assert taken_apart(signatures[1].value)[0] == NOW
        for key in keys.signing:
            assert log.append(b"x").verify(b"x", PinnedLog(ORIGIN, (key,))).keys == (key.text(),)


def test_keys_of_a_witness_sign_no_log(path: Path) -> None:
    for kinds in ((4,), (4, 6), (1, 4)):
        keys = LogKeys(ORIGIN, tuple(signer(9, ORIGIN, kind) for kind in kinds))
        assert refused(lambda keys=keys: new_log(path, 0, keys)) == "keys_unfit"  # type: ignore[misc]
    new_log(path).close()
    assert refused(lambda: open_log(path, keys)) == "keys_unfit"


def test_keys_are_exchanged_with_overlap_and_all_processes_keep_to_it(path: Path) -> None:
    new = signer(2)
    with new_log(path, 2) as first, open_log(path, LogKeys(ORIGIN, (LOG, new))) as second:
        assert len(Note.parse(first.append(b"a").checkpoint).signatures) == 1
        both = second.append(b"b")
        for pins in ((LOG.verifier,), (new.verifier,), (LOG.verifier, new.verifier)):
            assert both.verify(b"b", PinnedLog(ORIGIN, pins)).checkpoint.size == 4
        assert refused(lambda: first.append(b"c")) == "key_unknown", "it would leave the new key out"
        assert first.size == 4
        assert refused(lambda: open_log(path)) == "key_unknown"
        with open_log(path, LogKeys(ORIGIN, (new,), (LOG.verifier,))) as third:
            after = third.append(b"d")
            assert after.verify(b"d", PinnedLog(ORIGIN, (new.verifier,))).keys == (new.verifier.text(),)
            assert refused(lambda: after.verify(b"d", PINNED)) == "signature_missing"
            assert [one.name for one in Note.parse(second.append(b"e").checkpoint).signatures] == [ORIGIN], "a retired key comes not back"
            assert third.receipt(0).verify(DATA[0], PinnedLog(ORIGIN, (LOG.verifier, new.verifier))).checkpoint.size == 6
            assert third.check() == []


def test_the_present_checkpoint_is_signed_again_after_an_exchange_of_keys(path: Path) -> None:
    new = signer(2)
    new_log(path, 2).close()
    with open_log(path, LogKeys(ORIGIN, (LOG, new))) as log:
        again = log.sign_again()
        assert again == log.checkpoint() == note(2, LOG, new)
        assert log.append(DATA[2]).checkpoint == note(3, LOG, new)


def test_a_log_whose_only_key_at_hand_is_retired_signs_nothing(path: Path) -> None:
    new = signer(2)
    new_log(path, 2).close()
    with open_log(path, LogKeys(ORIGIN, (LOG, new))) as log:
        log.append(b"a")
    with open_log(path, LogKeys(ORIGIN, (new,), (LOG.verifier,))) as log:
        log.append(b"b")
    assert refused(lambda: open_log(path)) == "key_unknown"


def test_cosignatures_are_kept_with_the_checkpoint_they_are_of(path: Path) -> None:
    one, two = witness(1, 4), witness(2, 4)
    keys = (one.verifier, two.verifier)
    with new_log(path, 5) as log:
        assert log.cosigned() is None
        first = log.add_cosignatures(note(5), f"{one.sign(head(5).text(), NOW).line}\n{witness(3).sign(head(5).text(), NOW).line}\n".encode(), keys)
        assert first == log.cosigned() == note(5, LOG, one)
        log.append(DATA[5])
        assert log.add_cosignatures(note(5), f"{two.sign(head(5).text(), NOW).line}\n".encode(), keys) == note(5, LOG, one, two)
        receipt = log.receipt(2, log.cosigned())
        assert receipt.verify(DATA[2], PinnedLog(ORIGIN, (LOG.verifier,), keys, 2)).checkpoint == head(5)
        assert log.add_cosignatures(note(6), f"{two.sign(head(6).text(), NOW).line}\n".encode(), keys) == note(6, LOG, two)
        assert log.cosigned() == note(6, LOG, two)
        assert log.add_cosignatures(note(4), f"{one.sign(head(4).text(), NOW).line}\n".encode(), keys) == note(4, LOG, one)
        assert log.cosigned() == note(6, LOG, two), "the larger one stays"
        for time in (NOW + 9, 0):
            assert log.add_cosignatures(note(6), f"{two.sign(head(6).text(), time).line}\n".encode(), keys) == note(6, LOG, two), "the earlier time shows more, and 0 is none"


def test_what_is_no_cosignature_of_this_log_is_not_kept(path: Path) -> None:
    keys, text = (witness().verifier,), head(3).text()
    good = witness().sign(text, NOW)
    forked = Checkpoint(ORIGIN, 3, b"\1" * 32)
    with new_log(path, 5) as log:
        for checkpoint, lines, code in (
            (note(3), f"{witness(3).sign(text, NOW).line}\n".encode(), "signature_missing"), (note(3), b"", "note_malformed"), (note(3), b"\xff\n", "note_malformed"),
            (note(3), good.line.encode(), "note_malformed"), (note(4), f"{good.line}\n".encode(), "cosignature_invalid"), (b"x", f"{good.line}\n".encode(), "note_malformed"),
            (sign_note(forked.text(), [LOG], NOW), f"{witness().sign(forked.text(), NOW).line}\n".encode(), "forked"),
            (note(6), f"{witness().sign(head(6).text(), NOW).line}\n".encode(), "forked"),
        ):
            assert refused(lambda given=(checkpoint, lines): log.add_cosignatures(*given, keys)) == code  # type: ignore[misc]
        assert log.cosigned() is None


def test_threads_share_a_log(path: Path) -> None:
    with new_log(path) as log, ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda number: (f"t{number}".encode(), log.append(f"t{number}".encode())), range(80)))
        assert sorted(receipt.index for _, receipt in receipts) == list(range(80))
        for entry, receipt in receipts:
            receipt.verify(entry, PINNED)
        assert (log.size, log.check()) == (80, [])


def test_reading_waits_for_no_append(path: Path) -> None:
    with new_log(path, 3) as log, open_log(path) as other:
        inside, done = threading.Event(), threading.Event()

        def slow() -> object:
            yield b"a"
            inside.set()
            assert done.wait(30)

        writing = threading.Thread(target=other.append_many, args=(slow(),))
        writing.start()
        assert inside.wait(30)
        start = time.monotonic()
        seen = [(log.size, log.checkpoint(), log.receipt(1).index, list(log.entries())) for _ in range(20)]
        took = time.monotonic() - start
        done.set()
        writing.join(30)
        assert seen == [(3, note(3), 1, DATA[:3])] * 20
        assert took < 5
        assert log.size == 4


def test_sixteen_threads_that_append_do_not_hold_up_a_checkpoint_read(path: Path) -> None:
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            log.append(f"w{number}".encode())

    with new_log(path) as log, ThreadPoolExecutor(16) as pool:
        running = [pool.submit(work, number) for number in range(16)]
        sizes = [PINNED.open(log.checkpoint()).checkpoint.size for _ in range(100)]
        stop.set()
        for one in running:
            one.result(60)
        assert sizes == sorted(sizes)
        assert log.check() == []


def test_a_writer_that_holds_the_log_too_long_is_told_of(path: Path) -> None:
    new_log(path, 2).close()
    with open_log(path) as log, open_log(path, busy_seconds=0.05) as other, log._database.writing():
        assert refused(lambda: other.append(b"x")) == "busy"
        assert other.size == 2
    with open_log(path, busy_seconds=0.05) as log, log._database.writing():
        assert refused(lambda: log.append(b"x")) == "busy", "threads of one process wait no longer"


def test_a_closed_log_can_be_closed_again(path: Path) -> None:
    log = new_log(path)
    log.close()
    log.close()
    assert isinstance(log, Log)
    with pytest.raises(LogError):
        Log.create(path, KEYS)
