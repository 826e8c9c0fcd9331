"""What a client has seen of logs: none goes back or another way unnoticed, whoever else looks at the same time."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from log_trees import Leaves, entries, tree_hash
from signed import LOG, NOW, ORIGIN, PINNED, WITNESSES, head, note, refused, signer

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.memory import Memory
from rag_stdlib.proof.log.merkle import consistency_path
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.pinned import PinnedLog

SIZE = 24
DATA = entries(SIZE)
FILE = hashlib.sha256(ORIGIN.encode()).hexdigest()


def prove(old: int, new: int) -> list[bytes]:
    return consistency_path(old, new, Leaves(DATA))


def nothing(_old: int, _new: int) -> list[bytes]:
    raise AssertionError("no proof is needed")


def forked(size: int, at: int = 2) -> tuple[bytes, Callable[[int, int], Sequence[bytes]]]:
    """A signed checkpoint of a log with another entry at a place, and honest proofs within that log."""
    other = [*DATA[:at], b"other", *DATA[at + 1:]]
    return (sign_note(Checkpoint(ORIGIN, size, tree_hash(other[:size])).text(), [LOG], NOW), lambda old, new: consistency_path(old, new, Leaves(other)))


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "seen")


def test_the_first_checkpoint_is_remembered_and_then_the_larger_ones(memory: Memory, tmp_path: Path) -> None:
    assert memory.last(ORIGIN) is None
    for size in (0, 0, 3, 3, 4, 24, 24):
        assert memory.current(PINNED, note(size), prove).checkpoint == head(size) == Memory(tmp_path / "seen").last(ORIGIN)
    file = tmp_path / "seen" / f"{FILE}.checkpoint"
    assert file.read_bytes() == note(24)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_log_that_goes_back_is_refused(memory: Memory) -> None:
    memory.current(PINNED, note(9), nothing)
    for size in (0, 1, 8):
        assert refused(lambda size=size: memory.current(PINNED, note(size), prove)) == "rolled_back"  # type: ignore[misc]
    assert memory.last(ORIGIN) == head(9)


@pytest.mark.parametrize("size", [9, 10, 20])
def test_a_log_that_goes_another_way_is_refused_and_its_note_kept(memory: Memory, tmp_path: Path, size: int) -> None:
    memory.current(PINNED, note(9), nothing)
    other, honest = forked(size)
    assert refused(lambda: memory.current(PINNED, other, honest)) == "forked"
    assert refused(lambda: memory.older(PINNED, other, honest)) == "forked"
    assert memory.last(ORIGIN) == head(9)
    assert (tmp_path / "seen" / f"{FILE}.forked").read_bytes() == other
    later, honest = forked(21)
    assert refused(lambda: memory.current(PINNED, later, honest)) == "forked"
    assert (tmp_path / "seen" / f"{FILE}.forked").read_bytes() == other, "the first one is kept"
    assert memory.current(PINNED, note(10), prove).checkpoint == head(10)


def test_without_a_proof_a_larger_tree_is_not_taken_for_the_same(memory: Memory) -> None:
    memory.current(PINNED, note(9), nothing)
    for path in ([], [b"\1" * 32], prove(8, 10), prove(9, 11)):
        assert refused(lambda path=path: memory.current(PINNED, note(10), lambda _old, _new: path)) == "forked"  # type: ignore[misc]

    def gone(_old: int, _new: int) -> list[bytes]:
        raise LogError("unreachable", "nobody there")

    assert refused(lambda: memory.current(PINNED, note(10), gone)) == "unreachable"
    assert memory.last(ORIGIN) == head(9)


def test_an_old_receipts_checkpoint_must_be_of_the_same_tree(memory: Memory) -> None:
    assert memory.older(PINNED, note(5), nothing).checkpoint == head(5)
    assert memory.older(PINNED, note(12), prove).checkpoint == head(12)
    for size in (0, 1, 5, 11, 12):
        assert memory.older(PINNED, note(size), prove).checkpoint == head(size)
    assert memory.last(ORIGIN) == head(12)
    for size in (3, 11, 12):
        other, honest = forked(size)
        assert refused(lambda given=(other, honest): memory.older(PINNED, *given)) == "forked"  # type: ignore[misc]


def test_what_is_not_verified_is_not_remembered(memory: Memory) -> None:
    witnessed = PinnedLog(ORIGIN, (LOG.verifier,), tuple(one.verifier for one in WITNESSES), 2)
    for given, code in ((note(5, signer(2)), "signature_missing"), (note(5).replace(b"\n5\n", b"\n6\n"), "signature_invalid"), (b"x", "note_malformed")):
        assert refused(lambda given=given: memory.current(PINNED, given, nothing)) == code  # type: ignore[misc]
    assert refused(lambda: memory.current(witnessed, note(5), nothing)) == "quorum_missing"
    assert memory.last(ORIGIN) is None


def test_logs_do_not_touch_each_other(memory: Memory) -> None:
    other = "log.example/other"
    key = signer(3, other)
    memory.current(PINNED, note(9), nothing)
    memory.current(PinnedLog(other, (key.verifier,)), sign_note(head(4, origin=other).text(), [key], NOW), nothing)
    assert [memory.last(origin) for origin in (ORIGIN, other)] == [head(9), head(4, origin=other)]


def test_what_was_remembered_outlives_an_exchange_of_keys(memory: Memory) -> None:
    memory.current(PINNED, note(9), nothing)
    new = PinnedLog(ORIGIN, (signer(2).verifier,))
    assert refused(lambda: memory.current(new, note(8, signer(2)), prove)) == "rolled_back"
    assert memory.current(new, note(10, signer(2)), prove).checkpoint == head(10)


@pytest.mark.parametrize("content", [b"", b"x", sign_note("hello\n", [LOG], NOW), sign_note(head(9, origin="log.example/other").text(), [LOG], NOW)])
def test_a_memory_that_is_no_memory_of_the_log_is_not_taken_for_none(memory: Memory, tmp_path: Path, content: bytes) -> None:
    memory.current(PINNED, note(9), nothing)
    (tmp_path / "seen" / f"{FILE}.checkpoint").write_bytes(content)
    assert refused(lambda: memory.current(PINNED, note(3), prove)) == "damaged"
    assert refused(lambda: memory.last(ORIGIN)) == "damaged"


def test_a_folder_or_file_that_others_may_use_is_refused(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, note(9), nothing)
    (tmp_path / "seen" / f"{FILE}.checkpoint").chmod(0o644)
    assert refused(lambda: memory.current(PINNED, note(10), prove)) == "file_unsafe"
    (tmp_path / "seen").chmod(0o777)
    assert refused(lambda: Memory(tmp_path / "seen")) == "file_unsafe"


def test_clients_that_look_at_once_never_go_back(memory: Memory, tmp_path: Path) -> None:
    def look(turn: int) -> None:
        for size in range(turn % 3, SIZE + 1):
            try:
                Memory(tmp_path / "seen").current(PINNED, note(size), prove)
            except LogError as error:
                assert error.code == "rolled_back"  # noqa: PT017 - another was further

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(look, range(6)))
    assert memory.last(ORIGIN) == head(SIZE)


def test_a_smaller_checkpoint_that_comes_while_a_larger_one_is_proved_is_seen(memory: Memory) -> None:
    """While one client asks for a proof of 5 -> 8, another one remembers 20: the first must hear that 8 is behind by now."""
    memory.current(PINNED, note(5), nothing)

    def meanwhile(old: int, new: int) -> list[bytes]:
        if (old, new) == (5, 8):
            memory.current(PINNED, note(20), prove)
        return prove(old, new)

    assert refused(lambda: memory.current(PINNED, note(8), meanwhile)) == "rolled_back"
    assert memory.last(ORIGIN) == head(20)


def test_a_first_checkpoint_that_comes_at_once_with_another_first_one(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Memory._keep

    def slow(self: Memory, seen: Checkpoint | None, shown: object) -> bool:
        monkeypatch.setattr(Memory, "_keep", whole)
        memory.current(PINNED, note(20), prove)
        return whole(self, seen, shown)  # type: ignore[arg-type]

    monkeypatch.setattr(Memory, "_keep", slow)
    assert refused(lambda: memory.current(PINNED, note(8), prove)) == "rolled_back"
    assert memory.last(ORIGIN) == head(20)


def test_where_nothing_can_be_written_that_is_told(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert refused(lambda: memory.current(PINNED, note(9), nothing)) == "disk_full"
    assert list((tmp_path / "seen").iterdir()) == []
