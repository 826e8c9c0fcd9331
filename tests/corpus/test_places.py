"""Where a sync keeps its things: below the root, behind no link, one sync at a time."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rag_stdlib import Failure
from rag_stdlib.corpus import places
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.errors import fail
from rag_stdlib.root import Root


def place(tmp_path: Path, index: str = "kb.db") -> SyncPlace:
    return SyncPlace(Root(str(tmp_path)), index)


def test_it_lies_hidden_beside_the_index(tmp_path: Path) -> None:
    (tmp_path / "in" / "ner").mkdir(parents=True)
    for index, folder in (("kb.db", ".rag/kb.db"), ("in/ner/kb.db", "in/ner/.rag/kb.db"), (str(tmp_path / "in/kb.db"), "in/.rag/kb.db")):
        found = place(tmp_path, index)
        assert found.folder == tmp_path / folder
        assert found.mirror("alpha") == tmp_path / folder / "alpha.git"
        assert not found.folder.exists(), "looking makes nothing"


@pytest.mark.parametrize(("make", "code"), [
    (lambda root: (root / ".rag").symlink_to(root), "path_symlink"),
    (lambda root: ((root / ".rag").mkdir(), (root / ".rag" / "kb.db").symlink_to("/tmp")), "path_symlink"),  # noqa: S108 - a target that is there
    (lambda root: (root / ".rag").write_text("a file"), "path_special"),
    (lambda root: ((root / ".rag").mkdir(), os.mkfifo(root / ".rag" / "kb.db")), "path_special"),
])
def test_what_stands_in_the_way_is_refused(tmp_path: Path, make: object, code: str) -> None:
    make(tmp_path)  # type: ignore[operator]
    with pytest.raises(Failure) as caught:
        place(tmp_path)
    assert caught.value.error.code == code


@pytest.mark.parametrize("index", ["../kb.db", "", "file:kb.db", "a/../b"])
def test_an_index_path_that_is_refused_has_no_place(tmp_path: Path, index: str) -> None:
    with pytest.raises(Failure):
        place(tmp_path, index)


def test_one_sync_at_a_time_also_across_processes(tmp_path: Path) -> None:
    one, other = place(tmp_path), place(tmp_path)
    assert not one.is_locked()
    with one.locked():
        assert other.is_locked()
        with pytest.raises(Failure) as caught, other.locked():
            pytest.fail("two syncs at once")
        assert caught.value.error.code == "corpus_busy"
        program = ("import sys; from rag_stdlib.corpus.places import SyncPlace; from rag_stdlib.root import Root\n"
                   "from rag_stdlib import Failure\n"
                   "try:\n with SyncPlace(Root(sys.argv[1]), 'kb.db').locked(): print('free')\n"
                   "except Failure as failure: print(failure.error.code)")
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == "corpus_busy"
    assert not other.is_locked()
    with other.locked():
        pass


def test_a_lock_is_let_go_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), place(tmp_path).locked():
        raise ZeroDivisionError
    assert not place(tmp_path).is_locked()


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    found = place(tmp_path)
    (tmp_path / ".rag").write_text("put there since")
    with pytest.raises(Failure) as caught, found.locked():
        pytest.fail("no folder to lock in")
    assert caught.value.error.code == "index_io"


def test_mirrors_are_listed_by_repository(tmp_path: Path) -> None:
    found = place(tmp_path)
    assert found.mirrors() == {}
    for name in ("b.git", "a.git", "status.json"):
        (found.folder / name).mkdir(parents=True)
    assert found.mirrors() == {"a": found.folder / "a.git", "b": found.folder / "b.git"}


def test_a_file_system_without_locks_is_an_error_and_no_sync_goes_on_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    found = place(tmp_path)
    with found.locked():
        pass
    monkeypatch.setattr(places.fcntl, "flock", refuse)
    assert not found.is_locked()
    with pytest.raises(Failure) as caught, found.locked():
        pytest.fail("nothing is locked")
    assert (caught.value.error.code, os.strerror(errno.ENOLCK) in caught.value.error) == ("index_io", True)


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    found = place(tmp_path)
    found.folder.mkdir(parents=True)
    (found.folder / "sync.lock").symlink_to(tmp_path / "made")
    with pytest.raises(Failure) as caught, found.locked():
        pytest.fail("it is somebody else's file")
    assert (caught.value.error.code, found.is_locked(), (tmp_path / "made").exists()) == ("index_io", False, False)


def test_a_system_that_knows_no_file_locks_can_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("places_without_locks", places.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.SyncPlace(Root(str(tmp_path)), "kb.db")
    with found.locked():
        assert not found.is_locked()


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_root: Root, path: str) -> str:
        raise fail("path_special", path=path, kind="a device")

    monkeypatch.setattr(Root, "kind_of", refuse)
    with pytest.raises(Failure) as caught:
        place(tmp_path)
    assert caught.value.error.code == "path_special"
