"""What a client has seen of logs: none goes back or another way unnoticed, whoever else looks at the same time."""

from __future__ import annotations

import base64
import hashlib
import json
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
    memory.current(PINNED, note(seen), nothing)
    other, honest = forked(seen + more, 0)
    assert refused(lambda: memory.current(PINNED, other, honest)) == "forked"
    assert refused(lambda: memory.older(PINNED, other, honest)) == "forked"
    assert memory.last(ORIGIN) == head(seen)
    assert evidence(tmp_path) == (head(seen), Checkpoint.parse(Note.parse(other).text), list(honest(seen, seen + more)) if more else [])
    kept = (tmp_path / "seen" / f"{FILE}.forked").read_bytes()
    later, honest = forked(23, 0)
    assert refused(lambda: memory.current(PINNED, later, honest)) == "forked"
    assert (tmp_path / "seen" / f"{FILE}.forked").read_bytes() == kept, "the first one is kept"
    assert memory.current(PINNED, note(seen + 1), prove).checkpoint == head(seen + 1)
    assert evidence(tmp_path)[0] == head(seen), "whatever is seen later"


def test_of_a_tree_of_a_power_of_two_the_hashes_tell_a_fork_only_with_its_own_root(memory: Memory, tmp_path: Path) -> None:
    memory.current(PINNED, note(8), nothing)
    other, honest = forked(12)
    assert refused(lambda: memory.current(PINNED, other, lambda old, new: honest(old, new)[1:])) == "consistency_not_shown"
    assert [path.suffix for path in (tmp_path / "seen").iterdir()] == [".checkpoint"]
    assert refused(lambda: memory.current(PINNED, other, honest)) == "forked"
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
    memory.current(PINNED, note(seen), nothing)
    real = prove(seen, 10)
    for path in ([], [b"\1" * 32], [b"\1" * 32] * len(real), [b""], [b"\1" * 32] * 70, real[1:] + real[:1], real[:-1], [*real, real[0]], prove(7, 10), prove(9, 11), forked(10)[1](seen, 10)):
        for call in (memory.current, memory.older):
            unshown(tmp_path, lambda path=path, call=call: call(PINNED, note(10), lambda _old, _new: path))  # type: ignore[misc]

    def torn(_old: int, _new: int) -> list[bytes]:
        raise ProofError("tile_malformed", "it is none")

    unshown(tmp_path, lambda: memory.current(PINNED, note(10), torn))
    assert memory.current(PINNED, note(10), prove).checkpoint == head(10), "served rightly, it goes on"


@pytest.mark.parametrize("seen", [8, 9])
def test_a_fork_whose_hashes_are_not_shown_is_not_taken_for_the_same_log_either(memory: Memory, tmp_path: Path, seen: int) -> None:
    memory.current(PINNED, note(seen), nothing)
    other, _ = forked(10)
    for path in ([], [b"\1" * 32] * 3, prove(seen, 10), consistency_path(seen, 10, Leaves(DATA))):
        unshown(tmp_path, lambda path=path: memory.current(PINNED, other, lambda _old, _new: path))  # type: ignore[misc]


@given(st.data())
def test_hashes_of_any_kind_never_make_a_fork_of_an_honest_log(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    seen = data.draw(st.integers(1, SIZE - 1))
    shown = data.draw(st.integers(seen + 1, SIZE))
    real = prove(seen, shown)
    path = data.draw(st.one_of(st.lists(st.binary(min_size=32, max_size=32), max_size=9), st.permutations(real), st.lists(st.sampled_from(real), max_size=9)))
    memory = Memory(tmp_path_factory.mktemp("any") / "seen")
    memory.current(PINNED, note(seen), nothing)
    try:
        memory.current(PINNED, note(shown), lambda _old, _new: path)
    except ProofError as error:
        assert error.code == "consistency_not_shown"  # noqa: PT017 - or it is the true path
    else:
        assert path in (real, consistency_path(seen, shown, Leaves(DATA)))


def test_what_a_source_fails_by_is_told_and_what_was_seen_stays(memory: Memory) -> None:
    memory.current(PINNED, note(9), nothing)

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
    for size in (3, 4, 8, 11, 12):
        other, theirs = forked(size)
        assert refused(lambda other=other: memory.older(PINNED, other, prove)) == "forked", "the hashes of the larger tree show what its beginning is"  # type: ignore[misc]
        if size < 12:
            assert refused(lambda given=(other, theirs): memory.older(PINNED, *given)) == "consistency_not_shown"  # type: ignore[misc]
    assert memory.last(ORIGIN) == head(12)


def test_what_is_not_verified_is_not_remembered(memory: Memory) -> None:
    witnessed = PinnedLog(ORIGIN, (LOG.verifier,), tuple(one.verifier for one in WITNESSES), 2)
    for bad, code in ((note(5, signer(2)), "signature_missing"), (note(5).replace(b"\n5\n", b"\n6\n"), "signature_invalid"), (b"x", "note_malformed")):
        assert refused(lambda bad=bad: memory.current(PINNED, bad, nothing)) == code  # type: ignore[misc]
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
