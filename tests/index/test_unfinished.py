"""New files appear under their names whole, all of them or none, and never over another file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib import Failure
from rag_stdlib.index import unfinished
from rag_stdlib.index.unfinished import made_whole
from rag_stdlib.root import Root

NAMES = ["a-0.db", "a-1.db", "a-2.db"]


def make(folder: Path, names: list[str] | None = None, *, anchored: bool = True, before_end: Callable[[], object] = lambda: None) -> None:
    with made_whole(Root(str(folder), anchored=anchored), names or NAMES, busy_seconds=0.2) as hidden:
        for name in hidden:
            (folder / name).write_text(f"data of {name}")
        before_end()


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(Failure) as refused:
        work()
    return refused.value.error.code


def held(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("anchored", [True, False])
def test_files_get_their_names_and_nothing_else_stays(tmp_path: Path, anchored: bool) -> None:
    (tmp_path / "sub").mkdir()
    names = [f"sub/{name}" for name in NAMES]
    make(tmp_path, names, anchored=anchored, before_end=lambda: held(tmp_path) == [] or None)
    assert held(tmp_path) == names
    assert (tmp_path / "sub/a-1.db").read_text() == "data of sub/.a-1.db.unfinished"
    assert all((tmp_path / name).stat().st_nlink == 1 for name in names)


def test_while_they_are_made_none_has_its_name(tmp_path: Path) -> None:
    seen: list[str] = []
    make(tmp_path, before_end=lambda: seen.extend(held(tmp_path)))
    assert seen == [".a-0.db.lock", *(f".{name}.unfinished" for name in NAMES)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_whatever_ends_the_work_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def stop() -> None:
        (tmp_path / ".a-1.db.unfinished-wal").write_text("log")
        raise error

    with pytest.raises(error):
        make(tmp_path, before_end=stop)
    assert held(tmp_path) == []


@pytest.mark.parametrize("there", ["file", "folder", "link", "broken link"])
def test_what_has_one_of_the_names_stays_and_refuses_all(tmp_path: Path, there: str) -> None:
    taken = tmp_path / "a-2.db"
    if there == "file":
        taken.write_text("mine")
    elif there == "folder":
        taken.mkdir()
    else:
        taken.symlink_to("x")
        if there == "link":
            (tmp_path / "x").write_text("mine")
    before = [(path.name, path.lstat().st_ino) for path in sorted(tmp_path.iterdir())]
    assert code_of(lambda: make(tmp_path)) == "index_exists"
    assert [(path.name, path.lstat().st_ino) for path in sorted(tmp_path.iterdir())] == before


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_file_that_sqlite_would_take_for_one_of_the_new_indexes_stays_and_refuses_all(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a-1.db{suffix}").write_bytes(bytes.fromhex("377f0682") + bytes(100))
    assert code_of(lambda: make(tmp_path)) == "not_an_index"
    assert held(tmp_path) == [f"a-1.db{suffix}"]


def test_a_file_that_comes_meanwhile_is_not_written_over_and_names_that_were_given_are_taken_back(tmp_path: Path) -> None:
    assert code_of(lambda: make(tmp_path, before_end=lambda: (tmp_path / "a-2.db").write_text("mine"))) == "index_exists"
    assert held(tmp_path) == ["a-2.db"]
    assert (tmp_path / "a-2.db").read_text() == "mine"


def test_a_file_that_comes_in_the_very_last_moment_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def late(source: str, target: str, **options: Any) -> None:
        if target.endswith("a-1.db"):
            (tmp_path / "a-1.db").write_text("mine")
        link(source, target, **options)

    monkeypatch.setattr(unfinished.os, "link", late)
    assert code_of(lambda: make(tmp_path)) == "index_exists"
    assert (held(tmp_path), (tmp_path / "a-1.db").read_text()) == (["a-1.db"], "mine")


@pytest.mark.parametrize("step", range(6))
def test_ctrl_c_while_names_are_given_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """At each name that is given (0 to 2), and at each of the hidden names that is removed afterwards (3 to 5)."""
    seen: list[str] = []

    def stopping(done: Callable[..., None]) -> Callable[..., None]:
        def around(*arguments: Any, **options: Any) -> None:
            done(*arguments, **options)
            name = Path(str(arguments[0])).name
            if name.endswith(".unfinished") and seen is not None:
                seen.append(name)
                if len(seen) == step + 1:
                    raise KeyboardInterrupt
        return around

    def begin() -> None:
        monkeypatch.setattr(unfinished.os, "link", stopping(os.link))
        monkeypatch.setattr(unfinished.Path, "unlink", stopping(Path.unlink))

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, before_end=begin)
    assert len(seen) > step
    assert held(tmp_path) == []


@pytest.mark.parametrize("number", sorted({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}))
def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(unfinished.os, "link", refuse)
    make(tmp_path)
    assert held(tmp_path) == NAMES
    assert code_of(lambda: make(tmp_path)) == "index_exists"
    (tmp_path / "a-0.db").unlink()
    assert code_of(lambda: make(tmp_path, ["a-0.db", "a-1.db"])) == "index_exists"
    assert held(tmp_path) == NAMES[1:]


@pytest.mark.parametrize(("number", "code"), [(errno.EIO, "index_io"), (errno.ENOSPC, "disk_full"), (errno.EROFS, "index_readonly"),
                                              (errno.EACCES, "index_readonly")])
def test_a_system_that_refuses_a_name_is_an_error_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str) -> None:
    link = os.link

    def refuse(source: str, target: str, **options: Any) -> None:
        if target.endswith("a-2.db"):
            raise OSError(number, os.strerror(number))
        link(source, target, **options)

    monkeypatch.setattr(unfinished.os, "link", refuse)
    assert code_of(lambda: make(tmp_path)) == code
    assert held(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / ".a-0.db.lock").touch()
    for name in (".a-0.db.unfinished", ".a-0.db.unfinished-wal", ".a-0.db.unfinished-shm", ".a-1.db.unfinished"):
        (tmp_path / name).write_text("left")
    make(tmp_path, before_end=lambda: held(tmp_path))
    assert held(tmp_path) == NAMES
    assert (tmp_path / "a-0.db").read_text() == "data of .a-0.db.unfinished"


def test_a_name_that_a_killed_process_had_given_keeps_its_file_and_loses_the_other_name(tmp_path: Path) -> None:
    (tmp_path / "a-0.db").write_text("whole")
    (tmp_path / ".a-0.db.unfinished").hardlink_to(tmp_path / "a-0.db")
    assert code_of(lambda: make(tmp_path)) == "index_exists"
    assert (held(tmp_path), (tmp_path / "a-0.db").stat().st_nlink) == (["a-0.db"], 1)


def test_one_process_at_a_time_makes_them_and_the_next_waits(tmp_path: Path) -> None:
    def another() -> None:
        assert code_of(lambda: make(tmp_path)) == "busy"
        assert held(tmp_path)[0] == ".a-0.db.lock"

    make(tmp_path, before_end=another)
    assert held(tmp_path) == NAMES
    for name in NAMES:
        (tmp_path / name).unlink()
    inside, outcomes = threading.Event(), list[str]()
    waiting = threading.Thread(target=lambda: (inside.wait(), outcomes.append(code_of(lambda: make(tmp_path)))))
    waiting.start()
    with made_whole(Root(str(tmp_path)), NAMES) as hidden:
        inside.set()
        for name in hidden:
            (tmp_path / name).touch()
        waiting.join(0.1)
    waiting.join()
    assert outcomes == ["index_exists"], "it had the lock in its turn, though the file that it waited for is gone"
    assert held(tmp_path) == NAMES


def test_a_lock_whose_file_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, locked = unfinished._lock, list[int]()

    def late(handle: int) -> bool:
        if not locked:  # who had it before lets go of it between this process's opening and locking it
            (tmp_path / ".a-0.db.lock").unlink()
        locked.append(handle)
        return lock(handle)

    monkeypatch.setattr(unfinished, "_lock", late)
    make(tmp_path, before_end=lambda: held(tmp_path).index(".a-0.db.lock"))
    assert (held(tmp_path), len(locked)) == (NAMES, 2)


def test_a_lock_is_let_go_by_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (f"import os\nfrom rag_stdlib.index.unfinished import made_whole\nfrom rag_stdlib.root import Root\n"
               f"with made_whole(Root({str(tmp_path)!r}), {NAMES!r}) as hidden:\n"
               f"    open(os.path.join({str(tmp_path)!r}, hidden[0]), 'w').close()\n    os.kill(os.getpid(), 9)")
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert held(tmp_path) == [".a-0.db.lock", ".a-0.db.unfinished"]
    make(tmp_path)
    assert held(tmp_path) == NAMES


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, "index_readonly"), (errno.EROFS, "index_readonly"), (errno.ENOSPC, "disk_full"),
                                              (errno.EIO, "index_io")])
def test_a_folder_that_takes_no_file_is_named_by_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str) -> None:
    opened = os.open

    def refuse(path: Any, *rest: Any, **options: Any) -> int:
        if str(path).endswith(".lock"):
            raise OSError(number, os.strerror(number))
        return opened(path, *rest, **options)

    monkeypatch.setattr(unfinished.os, "open", refuse)
    with pytest.raises(Failure, match=r"'a-0\.db'") as refused:
        make(tmp_path)
    assert refused.value.error.code == code


def test_names_that_are_too_long_once_they_are_hidden_are_refused(tmp_path: Path) -> None:
    assert code_of(lambda: make(tmp_path, ["x" * 250])) == "path_too_long"
    assert held(tmp_path) == []


def test_a_hidden_name_that_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".a-1.db.unfinished").mkdir()
    assert code_of(lambda: make(tmp_path)) in ("index_io", "index_readonly")
    assert held(tmp_path) == []


def test_a_system_without_file_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "fcntl", None)
    make(tmp_path)
    assert held(tmp_path) == NAMES


@pytest.mark.parametrize("there", ["link", "folder", "fifo", "file"])
def test_a_lock_that_is_something_else_is_neither_followed_nor_waited_for_nor_removed(tmp_path: Path, there: str) -> None:
    lock, outside = tmp_path / "root" / ".a-0.db.lock", tmp_path / "outside"
    lock.parent.mkdir()
    if there == "link":
        lock.symlink_to(outside)
    elif there == "folder":
        lock.mkdir()
    elif there == "fifo":
        os.mkfifo(lock)
    else:
        lock.write_text("mine")
    before = lock.lstat()
    assert code_of(lambda: make(lock.parent)) == ("index_exists" if there in ("fifo", "file") else "index_io")
    assert [path.name for path in lock.parent.iterdir()] == [".a-0.db.lock"]
    assert os.path.samestat(lock.lstat(), before)
    assert not outside.exists()
