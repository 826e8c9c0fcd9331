"""A user's file that happens to be called like a side file of SQLite's is neither emptied nor deleted (R129)."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from rag_stdlib import Err, Ok, Runtime, rag_check, rag_delete, rag_ingest, rag_search
from rag_stdlib.errors import Failure
from rag_stdlib.index.foreign import foreign_index
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root

INDEX = "travel"
NOTES = b"Day 1: we took the train to the coast.\n"
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
SUFFIXES = pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])


def make_index(folder: Path, state: str) -> None:
    if state == "empty":
        (folder / INDEX).touch()
    elif state == "sound":
        with Runtime(root=folder):
            assert rag_ingest(INDEX, "d", "s", "some words", 20).is_ok


@SUFFIXES
@pytest.mark.parametrize("content", [NOTES, b"x", b"SQLite format 3\0", bytes(3) + NOTES], ids=["notes", "short", "database", "zeros"])
@pytest.mark.parametrize("state", ["missing", "empty", "sound"])
def test_r129_a_users_file_beside_the_index_stays_as_it_is(tmp_path: Path, suffix: str, content: bytes, state: str) -> None:
    make_index(tmp_path, state)
    (tmp_path / f"{INDEX}{suffix}").write_bytes(content)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Runtime(root=tmp_path):
        results = {"writing": rag_ingest(INDEX, "e", "s", "other words", 20), "search": rag_search(INDEX, "words", 1),
                   "check": rag_check(INDEX), "delete": rag_delete(INDEX, "d")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for call, result in results.items():
        assert isinstance(result, Err)
        if state == "missing" and call != "writing" and result.error.code == "index_missing":
            continue
        assert result.error.code == "not_an_index"
        assert f"'{INDEX}{suffix}'" in result.error
        assert "choose another name for the index" in result.error


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_r129_it_is_seen_beside_an_index_that_is_open_already(tmp_path: Path, suffix: str) -> None:
    store = Store(Root(str(tmp_path)))
    with store.writing(INDEX, create=True):
        pass
    side = tmp_path / f"{INDEX}{suffix}"
    side.unlink(missing_ok=True)
    side.write_bytes(NOTES)
    with pytest.raises(Failure, match=suffix), store.writing(INDEX):
        pass
    assert side.read_bytes() == NOTES
    side.unlink()


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
@pytest.mark.parametrize(("suffix", "content", "states"), [
    ("-journal", b"", ("missing", "empty", "sound")), ("-wal", b"", ("missing", "empty", "sound")),
    ("-journal", bytes(512), ("empty", "sound")), ("-journal", JOURNAL_MAGIC + bytes(504), ("empty", "sound")),
    ("-wal", bytes.fromhex("377f0682") + bytes(28), ("sound",)), ("-wal", bytes.fromhex("377f0683") + bytes(28), ("sound",)),
    ("-wal", bytes(4096), ("sound",)), ("-shm", bytes(3), ("sound",)), ("-shm", bytes(32_768), ("sound",)),
])
def test_what_sqlite_left_is_its_own(tmp_path: Path, suffix: str, content: bytes, states: tuple[str, ...], anchored: bool) -> None:
    for state in ("missing", "empty", "sound"):
        folder = tmp_path / state
        folder.mkdir()
        make_index(folder, state)
        (folder / f"{INDEX}{suffix}").write_bytes(content)
        with Root(str(folder), anchored=anchored).place(INDEX) as place:
            if state in states:
                refuse_alien_side_files(place)
            else:
                with pytest.raises(Failure):
                    refuse_alien_side_files(place)
        if state in states:
            with Runtime(root=folder):
                assert rag_ingest(INDEX, "e", "s", "other words", 20) == Ok(1)
                assert rag_check(INDEX).unwrap().clean


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
def test_a_side_file_that_goes_away_or_is_swapped_for_a_link_meanwhile(
        tmp_path: Path, anchored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    make_index(tmp_path, "sound")
    side, real = tmp_path / f"{INDEX}-wal", os.open
    side.write_bytes(NOTES)

    def racing(path: str, flags: int, **named: int) -> int:
        if path.endswith("-wal"):
            side.unlink(missing_ok=True)
            if swapped:
                side.symlink_to(tmp_path / INDEX)
        return real(path, flags, **named)

    monkeypatch.setattr(os, "open", racing)
    with Root(str(tmp_path), anchored=anchored).place(INDEX) as place:
        swapped = False
        refuse_alien_side_files(place)
        side.write_bytes(NOTES)
        swapped = True
        with pytest.raises(Failure) as caught:
            refuse_alien_side_files(place)
    assert caught.value.error.code == "path_symlink"


@SUFFIXES
@pytest.mark.parametrize("state", ["empty", "sound"])
def test_r129_importing_leaves_a_users_file_alone(tmp_path: Path, suffix: str, state: str) -> None:
    make_index(tmp_path, state)
    side = tmp_path / f"{INDEX}{suffix}"
    side.write_bytes(NOTES)
    with pytest.raises(Failure, match="choose another name"), foreign_index(Root(str(tmp_path)), INDEX):
        pass
    assert side.read_bytes() == NOTES


def test_importing_does_not_drop_the_locks_that_this_process_holds(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "old.db"))
    connection.execute("CREATE TABLE rag_documents(id, source, media_type, text)")
    connection.execute("BEGIN IMMEDIATE")
    with foreign_index(Root(str(tmp_path)), "old.db") as found:
        assert found.count == 0
    child = os.fork()
    if child == 0:  # a process of its own: what it may lock, the parent no longer holds
        import fcntl

        with (tmp_path / "old.db").open("rb+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0x4000_0001)  # SQLite's reserved byte
            except OSError:
                os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    connection.close()
