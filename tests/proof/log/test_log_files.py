"""A log's file in rough hands: others' files, damage, exchange under an open log, a full disk, other users, forks."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from log_trees import entries
from logs import KEYS, changed, new_log, open_log
from signed import LOG, NOW, note, refused, signer

from rag_stdlib.errors import fail
from rag_stdlib.proof.log import database
from rag_stdlib.proof.log.database import Database, Kind
from rag_stdlib.proof.log.dberrors import told
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tables import LOG as TABLES

NOBODY = 65_534
DATA = entries(40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_only_the_owner_may_use_the_files(path: Path) -> None:
    before = os.umask(0)
    try:
        with new_log(path, 3) as log:
            log.append(b"x")
            assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {
                "log.db": 0o600, "log.db-wal": 0o600, "log.db-shm": 0o600}
    finally:
        os.umask(before)


def test_nothing_is_made_over_another_file(path: Path) -> None:
    new_log(path, 3).close()
    assert refused(lambda: new_log(path)) == "exists"
    with open_log(path) as log:
        assert log.size == 3
        assert refused(lambda: new_log(path)) == "exists"


def test_a_log_that_is_missing_is_not_made_by_opening_it(path: Path) -> None:
    for at in (path, path.parent / "none" / "log.db"):
        assert refused(lambda at=at: open_log(at)) == "missing"  # type: ignore[misc]
    assert refused(lambda: new_log(path.parent / "none" / "log.db")) == "missing"
    assert not list(path.parent.iterdir())


def test_a_log_whose_making_was_cut_off_is_made_whole(path: Path) -> None:
    path.touch(0o600)
    assert refused(lambda: open_log(path)) == "missing"
    with new_log(path, 2) as log:
        assert log.check() == []


def test_of_those_who_make_one_at_once_one_does(path: Path) -> None:
    said: list[str] = []

    def make() -> None:
        try:
            new_log(path).close()
        except LogError as error:
            said.append(error.code)
        else:
            said.append("made")

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(said) == ["exists"] * 5 + ["made"]


@pytest.mark.parametrize("content", [b"x", b"x" * 511, b"x" * 5_000, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_what_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    assert refused(lambda: open_log(path)) in ("file_foreign", "damaged")
    assert refused(lambda: new_log(path)) in ("file_foreign", "damaged")
    assert path.read_bytes() == content


@pytest.mark.parametrize("statements", [
    ["CREATE TABLE theirs(x)"], ["PRAGMA application_id = 1234"], ["PRAGMA user_version = 7"],
    [f"PRAGMA application_id = {TABLES.application_id}", "PRAGMA user_version = 2"], [f"PRAGMA application_id = {TABLES.application_id}"],
])
def test_other_databases_and_later_versions_are_left_alone(path: Path, statements: list[str]) -> None:
    changed(path, *statements)
    path.chmod(0o600)
    before = path.read_bytes()
    assert refused(lambda: open_log(path)) == "file_foreign"
    assert refused(lambda: new_log(path)) == "file_foreign"
    assert path.read_bytes() == before


def test_files_that_others_may_use_and_what_is_no_plain_file(path: Path) -> None:
    new_log(path, 2).close()
    for mode in (0o640, 0o604, 0o602, 0o660):
        path.chmod(mode)
        assert refused(lambda: open_log(path)) == "file_unsafe"
    path.chmod(0o600)
    beside = path.parent
    (beside / "link.db").symlink_to(path)
    (beside / "folder.db").mkdir()
    os.mkfifo(beside / "pipe.db", 0o600)
    for name in ("link.db", "folder.db", "pipe.db", "log.db-wal", "log.db-shm"):
        assert refused(lambda name=name: open_log(beside / name)) == "file_unsafe"  # type: ignore[misc]
        assert refused(lambda name=name: new_log(beside / name)) == "file_unsafe"  # type: ignore[misc]
    (beside / "hard.db").hardlink_to(path)
    assert refused(lambda: open_log(path)) == "file_unsafe"


def test_a_file_beside_it_that_is_not_sqlites_is_left_alone(path: Path) -> None:
    new_log(path, 2).close()
    beside = path.with_name("log.db-wal")
    beside.write_bytes(b"my notes on whales, which are longer than a header")
    assert refused(lambda: open_log(path)) == "file_unsafe"
    assert beside.read_bytes().startswith(b"my notes")


@pytest.mark.parametrize("name", ["a\0b", "\ud800.db", "x" * 300])
def test_names_that_no_file_has(path: Path, name: str) -> None:
    for call in (open_log, new_log):
        assert refused(lambda call=call: call(Path(f"{path.parent}/{name}"))) == "file_io"  # type: ignore[misc]


@pytest.mark.parametrize("keep", [600, 4_096, 8_192, 20_480])
def test_a_file_that_was_cut_is_refused_and_nothing_is_signed_over_it(path: Path, keep: int) -> None:
    new_log(path, 40).close()
    os.truncate(path, keep)

    def use() -> None:
        with open_log(path) as log:
            log.append(b"x")

    assert refused(use) in ("damaged", "file_foreign", "missing")


@pytest.mark.parametrize("statement", [
    "UPDATE log_entries SET leaf = zeroblob(32) WHERE position = 36", "UPDATE log_nodes SET hash = zeroblob(32) WHERE level = 5", "DELETE FROM log_nodes WHERE level = 2",
    "DELETE FROM log_entries WHERE position = 36", "UPDATE log_nodes SET hash = 'text' WHERE level = 5", "UPDATE log_nodes SET hash = x'00' WHERE level = 2",
    "UPDATE log_state SET checkpoint = x'00'", "DROP TABLE log_nodes", "DELETE FROM log_state", "UPDATE log_state SET checkpoint = 'text'",
])
def test_a_tree_that_is_not_the_signed_one_is_never_signed_over(path: Path, statement: str) -> None:
    """37 entries: complete subtrees of 32, of 4 and of 1 make the right edge."""
    with new_log(path, 37) as log:
        log._database.close_idle()
        changed(path, statement)
        assert refused(lambda: log.append(b"x")) == "damaged"
        assert refused(log.sign_again) == "damaged"
    assert refused(lambda: open_log(path)) == "damaged"


@pytest.mark.parametrize(("statement", "words"), [
    ("UPDATE log_entries SET entry = x'00' WHERE position = 3", "the hash of entry 3 is not that of the entry"),
    ("UPDATE log_entries SET leaf = zeroblob(32) WHERE position = 3", "the hash of entry 3 is not that of the entry"),
    ("UPDATE log_nodes SET hash = zeroblob(32) WHERE level = 1 AND position = 2", "the hash at level 1, position 2 is not that of its entries"),
    ("DELETE FROM log_nodes WHERE level = 3 AND position = 1", "the hash at level 3, position 1 is not that of its entries"),
    ("DELETE FROM log_entries WHERE position = 3", "the log lacks entries between 0 and 37"),
    ("INSERT INTO log_entries VALUES (99, zeroblob(32), x'00')", "there are 38 entries and 34 hashes, and the checkpoint covers 37 and 34"),
    ("INSERT INTO log_nodes VALUES (7, 0, zeroblob(32))", "there are 37 entries and 35 hashes, and the checkpoint covers 37 and 34"),
])
def test_a_check_names_what_is_damaged_in_the_midst(path: Path, statement: str, words: str) -> None:
    with new_log(path, 37) as log:
        assert log.check() == []
        log._database.close_idle()
        changed(path, statement)
        assert words in log.check()


def test_an_entry_ahead_of_the_checkpoint_is_not_taken_for_one(path: Path) -> None:
    with new_log(path, 4) as log:
        log._database.close_idle()
        changed(path, "INSERT INTO log_entries VALUES (4, zeroblob(32), x'00')")
        assert refused(lambda: log.append(b"x")) == "damaged"
        assert (log.size, len(list(log.entries()))) == (4, 4)


@pytest.mark.parametrize(("forged", "code"), [
    (sign_note("hello\n", [LOG], NOW), "damaged"), (note(37, signer(2)), "key_unknown"), (note(37).replace(b"\n37\n", b"\n38\n"), "damaged"),
    (note(36), "rolled_back"), (sign_note(note(37).decode().partition("\n\n")[0].replace("answers", "others") + "\n", [LOG], NOW), "damaged"),
])
def test_a_checkpoint_that_the_log_did_not_sign_over_this_tree_is_not_continued(path: Path, forged: bytes, code: str) -> None:
    with new_log(path, 37) as log:
        log._database.close_idle()
        changed(path, f"UPDATE log_state SET checkpoint = x'{forged.hex()}'")
        assert refused(lambda: log.append(b"x")) == code


def test_an_older_checkpoint_put_back_beside_newer_entries_is_not_continued(path: Path) -> None:
    new_log(path, 37).close()
    changed(path, f"UPDATE log_state SET checkpoint = x'{note(36).hex()}'")
    with open_log(path) as log:
        assert log.size == 36
        assert refused(lambda: log.append(b"x")) == "damaged"


def test_a_log_that_is_exchanged_under_an_open_one_is_not_written(path: Path) -> None:
    copy = path.with_name("copy.db")
    new_log(path, 5).close()
    shutil.copy(path, copy)
    with open_log(path) as log:
        log.append(b"a")
        copy.replace(path)
        assert refused(lambda: log.append(b"b")) == "file_moved"
        assert refused(lambda: log.size) == "file_moved"
    with open_log(path) as log:
        assert log.check() == []


def test_a_log_that_went_back_or_another_way_under_an_open_one_is_not_signed(path: Path) -> None:
    new_log(path, 5).close()
    old = path.read_bytes()
    with open_log(path) as log:
        log.append(b"a")
        log._database.close_idle()
        path.write_bytes(old)
        assert refused(lambda: log.append(b"b")) == "rolled_back"
        with open_log(path) as other:
            other.append_many([b"c", b"d"])
        assert refused(lambda: log.append(b"b")) == "forked"
        assert refused(log.sign_again) == "forked"


def test_a_file_that_is_exchanged_while_it_is_opened_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_log(path, 2).close()
    with monkeypatch.context() as patched:
        patched.setattr(database, "has_moved", lambda _: True)
        assert refused(lambda: open_log(path)) == "file_moved"
    answers = iter([False, False, True])
    with open_log(path) as log:
        log._database.close_idle()
        monkeypatch.setattr(database, "has_moved", lambda _: next(answers))
        assert refused(lambda: log.append(b"x")) == "file_moved", "seen once the lock was had"


def test_a_log_that_is_closed_while_it_is_read_is_closed_then(path: Path) -> None:
    log = new_log(path, 2)
    with log._database.reading():
        log.close()
    assert [file.name for file in path.parent.iterdir()] == ["log.db"]


def test_a_file_without_right_to_write_is_read_and_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_log(path, 2).close()
    monkeypatch.setattr(database, "needs_immutable", lambda *_, **__: True)
    with open_log(path) as log:
        assert log.size == 2
        assert refused(lambda: log.append(b"x")) == "readonly"


def test_where_the_disk_is_full_nothing_is_changed_and_the_log_goes_on_later(path: Path) -> None:
    with new_log(path, 5) as log:
        with log._database.reading() as connection:
            connection.pragma("max_page_count", connection.pragma("page_count") + 1)
        assert refused(lambda: log.append(os.urandom(60_000))) == "disk_full"
        assert (log.size, log.check()) == (5, [])
        with log._database.reading() as connection:
            connection.pragma("max_page_count", 1_000_000)
        assert log.append(b"x").index == 5


def as_nobody(work: Callable[[], object]) -> str:
    """Fork, give up root, and return what `work` returns as text."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(send, str(work()).encode())
        except BaseException as error:  # noqa: BLE001 - it is the answer
            os.write(send, repr(error).encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_and_a_folder_or_file_that_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as folder:  # one that others may reach, whatever pytest's own may be
        Path(folder).chmod(0o755)
        _as_another_user(Path(folder) / "log.db")


def _as_another_user(path: Path) -> None:
    new_log(path, 5).close()

    def use() -> object:
        said: list[Any] = []
        try:
            with open_log(path) as log:
                said.append(log.size)
                log.append(b"x")
        except LogError as error:
            said.append(error.code)
        return said

    assert as_nobody(use) == "['file_io']"
    os.chown(path, NOBODY, NOBODY)
    assert as_nobody(use) == "[5, 'readonly']", "the folder is not his"
    os.chown(path.parent, NOBODY, NOBODY)
    assert as_nobody(use) == "[5]"
    path.chmod(0o400)
    assert as_nobody(use) == "[6, 'readonly']"


def test_a_child_that_is_forked_goes_on_with_the_log_and_so_does_its_parent(path: Path) -> None:
    with new_log(path, 2) as log:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(send, str(log.append(b"child").index).encode())
            os._exit(0)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            assert pipe.read() == b"2"
        os.waitpid(child, 0)
        assert log.append(b"parent").index == 3
        assert log.check() == []


def test_a_log_that_is_forgotten_leaves_nothing_beside_it(path: Path) -> None:
    log = new_log(path, 2)
    log.append(b"x")
    del log
    assert [file.name for file in path.parent.iterdir()] == ["log.db"]


def test_where_the_write_ahead_log_is_not_safe_a_rollback_journal_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_stdlib.index.journal.log_is_safe", lambda _: False)
    with new_log(path, 3) as log:
        log.append(b"x")
        assert [file.name for file in path.parent.iterdir()] == ["log.db"]
        assert log.check() == []


def test_without_anchored_folders_a_log_works_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = database.Root
    monkeypatch.setattr(database, "Root", lambda folder: plain(folder, anchored=False))
    with new_log(path, 3) as log:
        assert log.append(b"x").index == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_commit_is_asked_for_by_default(path: Path) -> None:
    with Log.create(path, KEYS) as log, log._database.reading() as connection:
        assert connection.pragma("synchronous") == 2
    with open_log(path) as log, log._database.reading() as connection:
        assert connection.pragma("synchronous") == 1


@pytest.mark.parametrize(("error", "code"), [
    (apsw.BusyError("x"), "busy"), (apsw.LockedError("x"), "busy"), (apsw.FullError("x"), "disk_full"), (apsw.ReadOnlyError("x"), "readonly"),
    (apsw.NotADBError("x"), "file_foreign"), (apsw.CorruptError("x"), "damaged"), (apsw.SQLError("x"), "damaged"), (apsw.IOError("x"), "file_io"),
    (OSError(5, "x"), "file_io"), (OSError(28, "x"), "disk_full"), (fail("path_permission", path="p", detail="d"), "file_io"),
    (fail("busy", path="p", seconds=1), "busy"), (LogError("forked", "x"), "forked"),
])
def test_what_fails_below_is_told_in_our_words(error: Exception, code: str) -> None:
    def failing() -> None:
        with told("log", "p", 1):
            raise error

    assert refused(failing) == code


def test_an_error_of_ours_is_not_blamed_on_the_file(path: Path) -> None:
    with new_log(path, 2) as log, pytest.raises(KeyError), log._database.reading():
        raise KeyError


def test_a_broken_value_is_blamed_on_the_file_if_it_is_broken(path: Path) -> None:
    kind = Kind("thing", 7, 1, ("CREATE TABLE t(x INTEGER NOT NULL)",))
    thing = Database(path, kind)
    thing.create(lambda connection: connection.execute("INSERT INTO t VALUES (1)") and None)
    thing.close()
    changed(path, "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = 'CREATE TABLE t(x INTEGER NOT NULL CHECK (x > 5))'")
    again = Database(path, kind)

    def failing() -> None:
        with again.reading():
            raise ValueError

    assert refused(failing) == "damaged"
    again.close()


def test_errors_are_a_closed_table_and_travel_between_processes() -> None:
    import pickle

    for made in (LogError("busy", "words"), ):
        again = pickle.loads(pickle.dumps(made))  # noqa: S301 - ours
        assert (type(again), again.code, again.words, str(again)) == (type(made), "busy", "words", "words")
    with pytest.raises(ValueError, match="there is no code"):
        LogError("surprise", "words")


def test_keys_given_for_a_log_are_of_its_name(path: Path) -> None:
    new_log(path).close()
    changed(path, "UPDATE log_state SET origin = 'else.example'")
    assert refused(lambda: open_log(path)) == "key_unknown"
    assert refused(lambda: open_log(path, None)) == "damaged"
    assert isinstance(KEYS, LogKeys)
