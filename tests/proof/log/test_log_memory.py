"""What a client has seen of logs: none goes back or another way unnoticed, whoever else looks at the same time."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_trees import Leaves, entries, tree_hash
from signed import LOG, NOW, ORIGIN, PINNED, WITNESSES, head, note, refused, signer

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.memory import Memory
from rag_stdlib.proof.log.merkle import compare, comparison_path, consistency_path
from rag_stdlib.proof.log.notes import Note, sign_note
from rag_stdlib.proof.log.pinned import PinnedLog

SIZE = 24
DATA = entries(SIZE)
FILE = hashlib.sha256(ORIGIN.encode()).hexdigest()


def prove(old: int, new: int) -> list[bytes]:
    return comparison_path(old, new, Leaves(DATA))


def nothing(_old: int, _new: int) -> list[bytes]:
    raise AssertionError("no proof is needed")


def showing(checkpoint: bytes) -> Callable[[], bytes]:
    return lambda: checkpoint


def gone(*_: object) -> list[bytes]:
    raise LogError("unreachable", "nobody there")


def torn(*_: object) -> list[bytes]:
    raise ProofError("tile_malformed", "it is none")


def forked(size: int, at: int = 2) -> tuple[bytes, Callable[[int, int], Sequence[bytes]]]:
    """A signed checkpoint of a log with another entry at a place, and the true hashes of that log."""
    other = [*DATA[:at], b"other", *DATA[at + 1:]]
    return (sign_note(Checkpoint(ORIGIN, size, tree_hash(other[:size])).text(), [LOG], NOW), lambda old, new: comparison_path(old, new, Leaves(other)))


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "seen")


def test_the_first_checkpoint_is_remembered_and_then_the_larger_ones(memory: Memory, tmp_path: Path) -> None:
    assert memory.last(ORIGIN) is None
    for size in (0, 0, 3, 3, 4, 24, 24):
        assert memory.current(PINNED, showing(note(size)), prove).checkpoint == head(size) == Memory(tmp_path / "seen").last(ORIGIN)
    file = tmp_path / "seen" / f"{FILE}.checkpoint"
    assert file.read_bytes() == note(24)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("served", [prove, gone, torn, lambda *_: [], lambda *_: [b"\1" * 32]])
def test_a_log_that_shows_less_is_told_as_such_and_accused_of_nothing(memory: Memory, tmp_path: Path, served: Callable[[int, int], Sequence[bytes]]) -> None:
    """Whoever serves it may be behind, and then has not even the hashes of the larger tree."""
    memory.current(PINNED, showing(note(9)), nothing)
    for size in (0, 1, 8):
        with pytest.raises(LogError) as caught:
            memory.current(PINNED, showing(note(size)), served)
        assert (caught.value.code, caught.value.words) == (
            "rolled_back", f"the log {ORIGIN} shows a tree of size {size}, and it showed one of size 9 before: it went back, or whoever serves it is behind")
    assert memory.last(ORIGIN) == head(9)
    assert [path.suffix for path in (tmp_path / "seen").iterdir()] == [".checkpoint"]


@pytest.mark.parametrize("size", [1, 3, 8, 11])
def test_a_smaller_tree_that_is_no_beginning_of_what_was_seen_is_a_fork_where_that_is_shown(memory: Memory, tmp_path: Path, size: int) -> None:
    memory.current(PINNED, showing(note(12)), nothing)
    other, theirs = forked(size, 0)
    for served in (theirs, gone, torn, lambda *_: []):
        assert refused(lambda served=served: memory.current(PINNED, showing(other), served)) == "rolled_back"  # type: ignore[misc]
    assert refused(lambda: memory.current(PINNED, showing(other), prove)) == "forked", "the hashes of the larger tree tell what its beginning is"
    assert evidence(tmp_path) == (head(12), Checkpoint.parse(Note.parse(other).text), prove(size, 12))
    assert memory.last(ORIGIN) == head(12)


def evidence(folder: Path) -> tuple[Checkpoint, Checkpoint, list[bytes]]:
    """Read what is kept of a fork, and see that anyone can: it is enough to show, by the log's own signatures, that there are two trees."""
    told = json.loads((folder / "seen" / f"{FILE}.forked").read_text())
    assert (told.keys(), told["schema"]) == ({"schema", "remembered", "shown", "path"}, "rag-stdlib/log-fork/v1")
    one, other = (PINNED.open(told[name].encode()).checkpoint for name in ("remembered", "shown"))
    path = [base64.b64decode(each, validate=True) for each in told["path"]]
    smaller, larger = sorted((one, other), key=lambda each: each.size)
    assert compare(smaller.size, smaller.root, larger.size, larger.root, path) == "another"
    return one, other, path


@pytest.mark.parametrize("seen", [1, 8, 9, 16])
@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_log_that_goes_another_way_is_refused_and_what_proves_it_is_kept(memory: Memory, tmp_path: Path, seen: int, more: int) -> None:
    memory.current(PINNED, showing(note(seen)), nothing)
    other, honest = forked(seen + more, 0)
    assert refused(lambda: memory.current(PINNED, showing(other), honest)) == "forked"
    assert refused(lambda: memory.older(PINNED, other, honest)) == "forked"
    assert memory.last(ORIGIN) == head(seen)
    assert evidence(tmp_path) == (head(seen), Checkpoint.parse(Note.parse(other).text), list(honest(seen, seen + more)) if more else [])
    kept = (tmp_path / "seen" / f"{FILE}.forked").read_bytes()
    later, honest = forked(23, 0)
    assert refused(lambda: memory.current(PINNED, showing(later), honest)) == "forked"
    assert (tmp_path / "seen" / f"{FILE}.forked").read_bytes() == kept, "the first one is kept"
    assert memory.current(PINNED, showing(note(seen + 1)), prove).checkpoint == head(seen + 1)
    assert evidence(tmp_path)[0] == head(seen), "whatever is seen later"


def test_of_a_tree_of_a_power_of_two_the_hashes_tell_a_fork_only_with_its_own_root(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, showing(note(8)), nothing)
    other, honest = forked(12)
    assert refused(lambda: memory.current(PINNED, showing(other), lambda old, new: honest(old, new)[1:])) == "consistency_not_shown"
    assert [path.suffix for path in (tmp_path / "seen").iterdir()] == [".checkpoint"]
    assert refused(lambda: memory.current(PINNED, showing(other), honest)) == "forked"
    assert evidence(tmp_path)[1].size == 12


def unshown(tmp_path: Path, call: Callable[[], object]) -> None:
    """See that a call accuses nobody and changes nothing."""
    before = {path.name: path.read_bytes() for path in (tmp_path / "seen").iterdir()}
    with pytest.raises(ProofError) as caught:
        call()
    assert caught.value.code == "consistency_not_shown"
    assert {path.name: path.read_bytes() for path in (tmp_path / "seen").iterdir()} == before


@pytest.mark.parametrize("seen", [8, 9])
def test_whoever_serves_garbage_makes_no_fork_of_an_honest_log(memory: Memory, tmp_path: Path, seen: int) -> None:
    memory.current(PINNED, showing(note(seen)), nothing)
    real = prove(seen, 10)
    for path in ([], [b"\1" * 32], [b"\1" * 32] * len(real), [b""], [b"\1" * 32] * 70, real[1:] + real[:1], real[:-1], [*real, real[0]], prove(7, 10), prove(9, 11), forked(10)[1](seen, 10)):
        unshown(tmp_path, lambda path=path: memory.current(PINNED, showing(note(10)), lambda _old, _new: path))  # type: ignore[misc]
        unshown(tmp_path, lambda path=path: memory.older(PINNED, note(10), lambda _old, _new: path))  # type: ignore[misc]
    unshown(tmp_path, lambda: memory.current(PINNED, showing(note(10)), torn))
    assert memory.current(PINNED, showing(note(10)), prove).checkpoint == head(10), "served rightly, it goes on"


@pytest.mark.parametrize("seen", [8, 9])
def test_a_fork_whose_hashes_are_not_shown_is_not_taken_for_the_same_log_either(memory: Memory, tmp_path: Path, seen: int) -> None:
    memory.current(PINNED, showing(note(seen)), nothing)
    other, _ = forked(10)
    for path in ([], [b"\1" * 32] * 3, prove(seen, 10), consistency_path(seen, 10, Leaves(DATA))):
        unshown(tmp_path, lambda path=path: memory.current(PINNED, showing(other), lambda _old, _new: path))  # type: ignore[misc]


@given(st.data())
def test_hashes_of_any_kind_never_make_a_fork_of_an_honest_log(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    seen = data.draw(st.integers(1, SIZE - 1))
    shown = data.draw(st.integers(seen + 1, SIZE))
    real = prove(seen, shown)
    path = data.draw(st.one_of(st.lists(st.binary(min_size=32, max_size=32), max_size=9), st.permutations(real), st.lists(st.sampled_from(real), max_size=9)))
    memory = Memory(tmp_path_factory.mktemp("any") / "seen")
    memory.current(PINNED, showing(note(seen)), nothing)
    try:
        memory.current(PINNED, showing(note(shown)), lambda _old, _new: path)
    except ProofError as error:
        assert error.code == "consistency_not_shown"  # noqa: PT017 - or it is the true path
    else:
        assert path in (real, consistency_path(seen, shown, Leaves(DATA)))


def test_what_a_source_fails_by_is_told_and_what_was_seen_stays(memory: Memory) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    assert refused(lambda: memory.current(PINNED, showing(note(10)), gone)) == "unreachable"
    assert refused(lambda: memory.current(PINNED, gone, prove)) == "unreachable"  # type: ignore[arg-type]
    assert memory.last(ORIGIN) == head(9)


def test_an_old_receipts_checkpoint_must_be_of_the_same_tree(memory: Memory) -> None:
    assert memory.older(PINNED, note(5), nothing).checkpoint == head(5)
    assert memory.older(PINNED, note(12), prove).checkpoint == head(12)
    for size in (0, 1, 5, 11, 12):
        assert memory.older(PINNED, note(size), prove).checkpoint == head(size)
    assert memory.last(ORIGIN) == head(12)
    for size in (3, 4, 8, 11, 12):
        other, theirs = forked(size)
        assert refused(lambda other=other: memory.older(PINNED, other, prove)) == "forked", "the hashes of the larger tree show what its beginning is"  # type: ignore[misc]
        if size < 12:
            assert refused(lambda given=(other, theirs): memory.older(PINNED, *given)) == "consistency_not_shown"  # type: ignore[misc]
    assert memory.last(ORIGIN) == head(12)


def test_what_is_not_verified_is_not_remembered(memory: Memory) -> None:
    for bad, code in ((note(5, signer(2)), "signature_missing"), (note(5).replace(b"\n5\n", b"\n6\n"), "signature_invalid"), (b"x", "note_malformed")):
        assert refused(lambda bad=bad: memory.current(PINNED, showing(bad), nothing)) == code  # type: ignore[misc]
    assert memory.last(ORIGIN) is None


def test_a_log_is_held_to_what_it_signed_whoever_cosigned_it(memory: Memory, tmp_path: Path) -> None:
    """Witnesses refuse to cosign a fork, and have not been asked yet about the last checkpoint of an honest log."""
    witnessed = PinnedLog(ORIGIN, (LOG.verifier,), tuple(one.verifier for one in WITNESSES), 2)
    assert refused(lambda: witnessed.open(note(9))) == "quorum_missing"
    assert memory.older(witnessed, note(5, LOG, *WITNESSES), nothing).cosigned == ()
    assert memory.current(witnessed, showing(note(9)), prove).checkpoint == head(9)
    assert memory.older(witnessed, note(7, LOG, *WITNESSES), prove).checkpoint == head(7), "what is cosigned may be behind what is remembered"
    broken = note(10) + f"{WITNESSES[0].sign(head(9).text(), NOW).line}\n".encode()
    assert refused(lambda: witnessed.open(broken)) == "cosignature_invalid"
    assert memory.current(witnessed, showing(broken), prove).checkpoint == head(10)
    other, theirs = forked(12)
    assert refused(lambda: memory.current(witnessed, showing(other), theirs)) == "forked"
    assert evidence(tmp_path)[0] == head(10)


def test_logs_do_not_touch_each_other(memory: Memory) -> None:
    other = "log.example/other"
    key = signer(3, other)
    memory.current(PINNED, showing(note(9)), nothing)
    memory.current(PinnedLog(other, (key.verifier,)), showing(sign_note(head(4, origin=other).text(), [key], NOW)), nothing)
    assert [memory.last(origin) for origin in (ORIGIN, other)] == [head(9), head(4, origin=other)]


def test_what_was_remembered_outlives_an_exchange_of_keys(memory: Memory) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    new = PinnedLog(ORIGIN, (signer(2).verifier,))
    assert refused(lambda: memory.current(new, showing(note(8, signer(2))), prove)) == "rolled_back"
    assert memory.current(new, showing(note(10, signer(2))), prove).checkpoint == head(10)


@pytest.mark.parametrize("content", [b"", b"x", sign_note("hello\n", [LOG], NOW), sign_note(head(9, origin="log.example/other").text(), [LOG], NOW)])
def test_a_memory_that_is_no_memory_of_the_log_is_not_taken_for_none(memory: Memory, tmp_path: Path, content: bytes) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    (tmp_path / "seen" / f"{FILE}.checkpoint").write_bytes(content)
    assert refused(lambda: memory.current(PINNED, showing(note(3)), prove)) == "damaged"
    assert refused(lambda: memory.last(ORIGIN)) == "damaged"


def test_a_file_that_others_may_use_is_refused(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    (tmp_path / "seen" / f"{FILE}.checkpoint").chmod(0o644)
    assert refused(lambda: memory.current(PINNED, showing(note(10)), prove)) == "file_unsafe"


def test_a_folder_that_others_may_write_to_is_refused_and_one_that_they_may_read_is_not(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    folder = tmp_path / "seen"
    for mode in (0o777, 0o720, 0o702, 0o1777):
        folder.chmod(mode)
        assert refused(lambda: Memory(folder)) == "file_unsafe"
    folder.chmod(0o755)
    assert Memory(folder).last(ORIGIN) == head(9)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_a_folder_of_another_user_is_refused(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    os.chown(tmp_path / "seen", 65_534, 65_534)
    assert refused(lambda: Memory(tmp_path / "seen")) == "file_unsafe", "he could take the checkpoint away, and the client would know of none"


def test_a_file_with_a_second_name_is_taken_and_the_second_name_keeps_what_was(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, showing(note(9)), nothing)
    (tmp_path / "copy").hardlink_to(tmp_path / "seen" / f"{FILE}.checkpoint")
    assert memory.current(PINNED, showing(note(10)), prove).checkpoint == head(10)
    assert (tmp_path / "copy").read_bytes() == note(9)


def test_clients_that_look_at_once_never_go_back(memory: Memory, tmp_path: Path) -> None:
    def look(turn: int) -> None:
        for size in range(turn % 3, SIZE + 1):
            try:
                Memory(tmp_path / "seen").current(PINNED, showing(note(size)), prove)
            except LogError as error:
                assert error.code == "rolled_back"  # noqa: PT017 - another was further

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(look, range(6)))
    assert memory.last(ORIGIN) == head(SIZE)


def test_a_log_that_grows_while_one_client_asks_has_not_gone_back(memory: Memory, tmp_path: Path) -> None:
    """Before a client is shown 8, or while it asks for a proof of 5 -> 8, another one remembers 20: 8 was true when it was shown, and is of the same tree."""
    memory.current(PINNED, showing(note(5)), nothing)

    def overtaken() -> bytes:
        memory.current(PINNED, showing(note(20)), prove)
        return note(8)

    assert memory.current(PINNED, overtaken, prove).checkpoint == head(8)
    assert memory.last(ORIGIN) == head(20)
    assert refused(lambda: memory.current(PINNED, overtaken, prove)) == "rolled_back", "20 was seen before it was asked for"

    second = Memory(tmp_path / "second")
    second.current(PINNED, showing(note(5)), nothing)

    def meanwhile(old: int, new: int) -> list[bytes]:
        if (old, new) == (5, 8):
            second.current(PINNED, showing(note(20)), prove)
        return prove(old, new)

    assert second.current(PINNED, showing(note(8)), meanwhile).checkpoint == head(8)
    assert second.last(ORIGIN) == head(20)


def test_of_two_clients_that_are_shown_two_trees_at_once_one_finds_it_out(memory: Memory) -> None:
    memory.current(PINNED, showing(note(5)), nothing)
    other, _ = forked(8)

    def overtaken() -> bytes:
        memory.current(PINNED, showing(note(20)), prove)
        return other

    assert refused(lambda: memory.current(PINNED, overtaken, prove)) == "forked"


def test_a_first_checkpoint_that_comes_at_once_with_another_first_one(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Memory._keep

    def slow(self: Memory, seen: Checkpoint | None, shown: object) -> bool:
        monkeypatch.setattr(Memory, "_keep", whole)
        memory.current(PINNED, showing(note(20)), prove)
        return whole(self, seen, shown)  # type: ignore[arg-type]

    monkeypatch.setattr(Memory, "_keep", slow)
    assert memory.current(PINNED, showing(note(8)), prove).checkpoint == head(8)
    assert memory.last(ORIGIN) == head(20)


def test_where_nothing_can_be_written_that_is_told(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert refused(lambda: memory.current(PINNED, showing(note(9)), nothing)) == "disk_full"
    assert list((tmp_path / "seen").iterdir()) == []
