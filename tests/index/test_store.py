"""Connections: who may open what, and what becomes of SQLite's errors."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from audit_watch import audited
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Err,
    QueryOptions,
    Runtime,
    rag_check,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import check, schema, vectors
from rag_stdlib.index import connect as connect_module
from rag_stdlib.index.foreign import foreign_index
from rag_stdlib.index.forks import GATE, ForkGate
from rag_stdlib.index.sqlerrors import translated
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root

PATH = "index.db"
NOBODY = 65_534


def error_code(call: Callable[[], object]) -> str:
    with pytest.raises(Failure) as failed:
        call()
    return failed.value.error.code


def touch(store: Store, path: str = PATH, *, create: bool = True) -> None:
    with store.writing(path, create=create):
        pass


@pytest.mark.parametrize(("raised", "code"), [
    (apsw.BusyError("x"), "busy"), (apsw.LockedError("x"), "busy"), (apsw.ProtocolError("x"), "busy"), (apsw.FullError("x"), "disk_full"),
    (apsw.ReadOnlyError("x"), "index_readonly"), (apsw.PermissionsError("x"), "path_permission"), (apsw.AuthError("x"), "path_permission"),
    (apsw.NotADBError("x"), "not_an_index"), (apsw.CorruptError("x"), "index_corrupt"), (apsw.SQLError("no such table"), "index_corrupt"),
    (apsw.ConstraintError("x"), "index_corrupt"), (apsw.MismatchError("x"), "index_corrupt"), (apsw.IOError("disk\n I/O error"), "index_io"),
    (apsw.CantOpenError("x"), "index_io"), (apsw.NoMemError("x"), "index_io"), (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "index_corrupt")])
def test_sqlites_errors_become_rows_of_our_table(raised: Exception, code: str) -> None:
    with pytest.raises(Failure) as failed, translated(PATH, 3.0):
        raise raised
    assert failed.value.error.code == code
    assert "\n" not in str(failed.value)
    assert failed.value.__cause__ is raised


def test_an_error_of_sqlite_names_its_extended_code() -> None:
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_FSYNC
    with pytest.raises(Failure, match="SQLITE_IOERR_FSYNC"), translated(PATH):
        raise error


def test_a_defect_in_a_block_stays_a_defect_where_the_file_is_sound(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    touch(store)
    with pytest.raises(TypeError, match="a defect"), store.reading(PATH):
        raise TypeError("a defect")


def test_threads_of_one_store_write_in_turn_and_wait_no_longer_than_allowed(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)), busy_seconds=0.2)
    touch(store)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.writing(PATH):
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(5)
    assert error_code(lambda: touch(store)) == "busy"
    touch(store, "other.db")
    leave.set()
    thread.join()
    touch(store)


def test_a_process_that_was_forked_inside_a_call_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = ForkGate()
    with gate.passing():
        gate.before_fork()
        gate.after_fork_in_child()
    assert gate.torn
    store = Store(Root(str(tmp_path)))
    monkeypatch.setattr(GATE, "_torn", gate.torn)
    assert error_code(lambda: touch(store)) == "index_io"
    with pytest.raises(Failure, match="forked"), foreign_index(Root(str(tmp_path)), PATH):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_is_said_before_a_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_named: Any) -> None:
        raise apsw.CantOpenError("unable to open database file")

    store = Store(Root(str(tmp_path)))
    monkeypatch.setattr(connect_module.apsw, "Connection", refuse)
    assert error_code(lambda: touch(store)) == "path_permission"  # there is nothing to be read
    monkeypatch.setattr(connect_module, "_folder_writable", lambda _place: False)
    assert error_code(lambda: touch(store)) == "index_readonly"
    (tmp_path / PATH).touch()
    assert error_code(lambda: touch(store)) == "index_io"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="rag-stdlib-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


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
def test_another_user_reads_what_it_may_and_is_told_what_it_may_not(shared: Path) -> None:
    with Runtime(Config(), root=shared):
        rag_ingest(PATH, "d", "s", "some words", 20)
        rag_ingest("secret.db", "d", "s", "some words", 20)
        assert rag_search(PATH, "words", 1).is_ok  # loads what the other user may not be able to load
        assert rag_stats(PATH).is_ok
        assert rag_delete(PATH, "x").is_ok is False
    (shared / "secret.db").chmod(0o600)
    (shared / PATH).chmod(0o644)
    before = {path.name: path.read_bytes() for path in shared.iterdir()}

    def work() -> list[object]:
        os.chdir("/")
        with Runtime(Config(), root=shared):
            found = rag_search(PATH, "words", 1)
            results = [rag_ingest(PATH, "e", "s", "t", 5), rag_delete(PATH, "d"), rag_ingest("new.db", "d", "s", "t", 5),
                       rag_search("secret.db", "words", 1), rag_ingest("secret.db", "d", "s", "t", 5)]
            return [len(found.unwrap()), *(result.error.code for result in results if isinstance(result, Err)), rag_stats(PATH).is_ok]

    assert as_nobody(work) == str([1, *["index_readonly"] * 3, *["path_permission"] * 2, True])
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == before


def test_sqlite_vec_that_does_not_load_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite_vec

    monkeypatch.setattr(sqlite_vec, "loadable_path", lambda: "/nowhere/vec0")
    connection = apsw.Connection(":memory:")
    assert error_code(lambda: vectors.load_extension(connection)) == "sqlite_unfit"
    connection.close()


def test_r20_reading_needs_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_connection: apsw.Connection) -> None:
        raise fail("sqlite_unfit", version="3", detail="no extensions here")

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as runtime:
        rag_ingest(PATH, "d", "s", "some words", 20)
        runtime.close()
        monkeypatch.setattr(vectors, "load_extension", refuse)
        for mode in ("vector", "hybrid", "lexical"):
            found = rag_query(PATH, "words", 3, QueryOptions(mode=mode)).unwrap()  # type: ignore[arg-type]
            assert [(chunk.doc_id, chunk.mode) for chunk in found] == [("d", mode)]
        assert rag_check(PATH).unwrap().clean
        assert rag_ingest(PATH, "d", "s", "other words", 20).is_ok, "vectors are written by plain SQL"
        assert rag_delete(PATH, "d").is_ok
        for refused in (rag_compact(PATH), rag_ingest("new.db", "d", "s", "some words", 20)):  # the table is made by the extension
            assert isinstance(refused, Err)
            assert refused.error.code == "sqlite_unfit"
        assert rag_check(PATH).unwrap().clean


def test_without_a_vector_table_there_are_no_vectors() -> None:
    connection = apsw.Connection(":memory:")
    assert vectors.count(connection) == 0
    assert vectors.load_some(connection, [1, 2], 4) == {}
    seqs, rows = vectors.load(connection, 4)
    assert (seqs.shape, rows.shape) == ((0,), (0, 4))
    connection.close()


def test_a_vector_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "v.db"))
    vectors.load_extension(connection)
    schema.create_vectors(connection, 2)
    import numpy as np

    vectors.add(connection, [1], np.array([[0.0, 1.0]], np.float32))
    connection.execute("UPDATE rag_vectors_vector_chunks00 SET vectors = x'0000'")
    with pytest.raises(apsw.CorruptError):
        vectors.load_some(connection, [1], 2)
    connection.close()


def test_check_gives_up_where_the_file_cannot_be_read_at_the_moment() -> None:
    connection = apsw.Connection(":memory:")

    def busy(_connection: apsw.Connection) -> Iterator[str]:
        yield "one"
        raise apsw.BusyError("x")

    problems: list[str] = []
    with pytest.raises(apsw.BusyError):
        check._collect(problems, busy, connection)
    assert problems == ["one"]
    connection.close()


def test_a_forgotten_store_gives_its_descriptors_back(tmp_path: Path) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = Store(Root(str(tmp_path)))
    touch(store)
    assert len(list(Path("/proc/self/fd").iterdir())) > before
    del store
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


def test_no_more_than_a_few_idle_connections_are_kept(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    for number in range(20):
        touch(store, f"{number}.db")
    assert len(store._idle) == 8
    store.close()
    assert len(list(tmp_path.iterdir())) == 20


def test_a_connection_in_use_when_the_store_closes_is_not_kept(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    touch(store)
    with store._connection(PATH) as handle:
        store.close()
        assert store._put_idle(handle) is handle
    assert store._idle == []
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


def test_r33_a_file_that_a_reader_met_empty_gets_its_log_all_the_same(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    (tmp_path / PATH).touch()  # another process is making it
    with store.reading_if_any(PATH) as connection:
        assert connection is None
    touch(store)
    store.close()
    assert (tmp_path / PATH).read_bytes()[16:20] == b"\x40\x00\x02\x02"  # pages of 16,384 bytes, log mode


def test_each_use_of_an_index_is_told_to_audit_hooks_before_it_begins(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    uses: list[Callable[[], Any]] = [
        lambda: store.writing("new.db", create=True), lambda: store.reading("new.db"), lambda: store.reading_if_any("new.db"),
        lambda: store.exclusive("new.db"), lambda: foreign_index(Root(str(tmp_path)), "new.db")]
    for use in uses:
        with audited(PermissionError("forbidden")) as events, pytest.raises(PermissionError, match="forbidden"), use():
            raise AssertionError("lent all the same")
        assert events == [("rag_stdlib.index", ("new.db",))]
        assert list(tmp_path.iterdir()) == []
    with audited() as events:
        touch(store, "new.db")
    assert events == [("rag_stdlib.index", ("new.db",))]
    store.close()
