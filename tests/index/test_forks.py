"""Processes that fork while an index is open."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rag_stdlib import Config, Runtime, carry, rag_check, rag_ingest, rag_search
from rag_stdlib.errors import Failure
from rag_stdlib.index.forks import ForkGate
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root

PATH = "index.db"


def in_child(work: object) -> int:
    """Fork, run `work` in the child, and return its exit status; 0 if it returned something true."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1  # type: ignore[operator]
        finally:
            os._exit(code)
    for _ in range(200):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_a_child_works_and_both_sides_keep_their_locks(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        assert rag_ingest(PATH, "parent", "s", "written by the parent", 100).is_ok
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(carry(lambda _: rag_search(PATH, "written", 5)), range(8)))
        for ending in ("close", "leave"):
            def work(ending: str = ending) -> bool:
                done = rag_ingest(PATH, f"child-{ending}", "s", "written by a child", 100).is_ok
                found = len(rag_search(PATH, "written", 50).unwrap())
                if ending == "close":
                    runtime.close()
                return done and found >= 2

            assert in_child(work) == 0
            assert rag_ingest(PATH, f"parent-{ending}", "s", "written by the parent", 100).is_ok
        assert rag_check(PATH).unwrap().documents == 5
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


def test_a_parent_that_closes_does_not_take_the_log_from_under_its_child(tmp_path: Path) -> None:
    closed, opened = os.pipe(), os.pipe()
    with Runtime(Config(), root=tmp_path) as runtime:
        assert rag_ingest(PATH, "parent", "s", "first words", 100).is_ok
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert rag_ingest(PATH, "before", "s", "second words", 100).is_ok
                os.write(opened[1], b"x")
                os.read(closed[0], 1)
                assert (tmp_path / f"{PATH}-wal").exists()
                assert rag_ingest(PATH, "after", "s", "third words", 100).is_ok
                code = 0
            finally:
                os._exit(code)
        os.read(opened[0], 1)
        assert len(rag_search(PATH, "words", 5).unwrap()) == 2
        runtime.close()
        os.write(closed[1], b"x")
        assert os.waitpid(child, 0)[1] == 0
        assert len(rag_search(PATH, "words", 5).unwrap()) == 3
        assert rag_check(PATH).unwrap().clean
    for descriptor in (*closed, *opened):
        os.close(descriptor)


def test_a_whole_interpreter_that_forked_ends_without_harm(tmp_path: Path) -> None:
    program = f"""
import os, sys
from rag_stdlib import Config, Runtime, rag_check, rag_ingest, rag_search
runtime = Runtime(Config(), root={str(tmp_path)!r}).__enter__()
assert rag_ingest("index.db", "one", "s", "first words", 100).is_ok
if os.fork() == 0:
    sys.exit(0 if rag_search("index.db", "first", 5).is_ok else 3)  # finalises everything that it inherited
assert rag_ingest("index.db", "two", "s", "second words", 100).is_ok
assert os.wait()[1] == 0
assert rag_ingest("index.db", "three", "s", "third words", 100).is_ok
assert rag_check("index.db").unwrap().clean
assert len(rag_search("index.db", "words", 5).unwrap()) == 3
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert [path.name for path in tmp_path.iterdir()] == [PATH]  # closed at the end of the program, without being asked


def test_a_fork_waits_for_a_call_in_another_thread(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    inside, forked = threading.Event(), threading.Event()
    order = []

    def hold() -> None:
        with store.writing(PATH, create=True):
            inside.set()
            time.sleep(0.3)
            order.append("written")

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(5)

    def work() -> bool:
        with store.reading(PATH) as connection:
            return connection.execute("SELECT count(*) FROM rag_meta").fetchall() != [(0,)]

    assert in_child(work) == 0
    order.append("forked")
    forked.set()
    thread.join()
    assert order == ["written", "forked"]


def test_a_child_forked_inside_a_call_opens_no_index(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))

    def work() -> bool:
        try:
            with store.reading(PATH):
                return False
        except Failure as failure:
            return failure.error.code == "index_io" and "fork" in str(failure)

    with store.writing(PATH, create=True):
        assert in_child(work) == 0
    with store.reading(PATH):
        pass


def test_threads_that_come_during_a_fork_wait_for_its_end() -> None:
    gate = ForkGate(wait_seconds=0.05)
    passed = threading.Event()

    def pass_through() -> None:
        with gate.passing():
            passed.set()

    with gate.passing():
        gate.before_fork()
        with gate.passing():  # the thread that forks does not wait for itself
            pass
        thread = threading.Thread(target=pass_through)
        thread.start()
        assert not passed.wait(0.1)
        gate.after_fork_in_parent()
        assert passed.wait(5)
        thread.join()
    assert not gate.torn


def test_a_fork_that_waits_in_vain_leaves_a_child_that_refuses() -> None:
    gate = ForkGate(wait_seconds=0.05)
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with gate.passing():
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(5)
    gate.before_fork()
    assert in_child(lambda: gate.after_fork_in_child() or gate.torn) == 0
    gate.after_fork_in_parent()
    assert not gate.torn
    leave.set()
    thread.join()


def test_the_name_of_a_shared_memory_file_outlives_the_connection_that_gave_it(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first, second = Store(Root(str(tmp_path))), Store(Root(str(tmp_path)))
    with first.writing(f"a/{PATH}", create=True), second.reading_if_any(f"a/{PATH}"):
        pass
    with second.reading(f"a/{PATH}"):
        first.close()  # the connection that made a/index.db-shm goes, and its descriptor's number is free
        third = Store(Root(str(tmp_path)))
        with third.writing(f"b/{PATH}", create=True):
            pass
    second.close()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [PATH]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [PATH, f"{PATH}-shm", f"{PATH}-wal"]
    third.close()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [PATH]
