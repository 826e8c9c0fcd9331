"""What an attacker who swaps files and folders while they are opened gains: nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.errors import Failure
from rag_stdlib.root import Root

WAYS = pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
SECRET = b"outside the root"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with a root `data` and a neighbour `data2` that holds what must not be read."""
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "data2").mkdir()
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "data" / "notes.txt").write_bytes(b"inside")
    (tmp_path / "data" / "a" / "b.db").write_bytes(b"deeper")
    return tmp_path


def test_r125_an_open_place_stays_with_its_folder_when_a_parent_is_swapped(base: Path) -> None:
    root = Root(str(base / "data"))
    with root.place("a/b.db") as place:
        (base / "data" / "a").rename(base / "data" / "moved")
        (base / "data" / "a").symlink_to(base / "data2")
        (base / "data2" / "b.db").write_bytes(SECRET)
        assert Path(place.path).read_bytes() == b"deeper"
        root.recheck(place)


def test_r125_a_plain_place_is_checked_again(base: Path) -> None:
    root = Root(str(base / "data"), anchored=False)
    with root.place("a/b.db") as place:
        root.recheck(place)
        (base / "data" / "a").rename(base / "data" / "moved")
        (base / "data" / "a").symlink_to(base / "data2")
        with pytest.raises(Failure) as caught:
            root.recheck(place)
    assert caught.value.error.code == "path_symlink"


def swap_while_opening(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]) -> None:
    """Let an attacker act just before and just after the opening of `b.db`."""
    real = os.open

    def racing(path: str, flags: int, **kwargs: Any) -> int:
        if not path.endswith("b.db"):
            return real(path, flags, **kwargs)
        before()
        try:
            return real(path, flags, **kwargs)
        finally:
            after()

    monkeypatch.setattr(os, "open", racing)


@WAYS
def test_r125_a_folder_swapped_for_a_link_and_back_gives_nothing_away(
        base: Path, anchored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, moved = base / "data" / "a", base / "data" / "moved"
    (base / "data2" / "b.db").write_bytes(SECRET)

    def swap() -> None:
        inside.rename(moved)
        inside.symlink_to(base / "data2")

    def swap_back() -> None:
        inside.unlink()
        moved.rename(inside)

    swap_while_opening(monkeypatch, swap, swap_back)
    if anchored:
        assert Root(str(base / "data")).read_file("a/b.db") == b"deeper"
    else:
        with pytest.raises(Failure) as caught:
            Root(str(base / "data"), anchored=False).read_file("a/b.db")
        assert caught.value.error.code == "file_unreadable"
        assert "exchanged" in caught.value.error


@WAYS
@pytest.mark.parametrize(("kind", "code"), [("fifo", "path_special"), ("link", "path_symlink"), ("none", "path_folder_missing")])
def test_r125_a_file_swapped_for_something_else_is_refused(
        base: Path, anchored: bool, monkeypatch: pytest.MonkeyPatch, kind: str, code: str) -> None:
    file = base / "data" / "a" / "b.db"

    def swap() -> None:
        file.unlink()
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "link":
            file.symlink_to(base / "secret.txt")

    swap_while_opening(monkeypatch, swap, lambda: None)
    with pytest.raises(Failure) as caught:
        Root(str(base / "data"), anchored=anchored).read_file("a/b.db")
    assert caught.value.error.code == code


def test_a_link_that_is_gone_when_it_is_explained_is_a_missing_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "data" / "link").symlink_to(base)
    root, real = Root(str(base / "data")), os.stat

    def racing(path: str, **kwargs: Any) -> os.stat_result:
        (base / "data" / "link").unlink(missing_ok=True)
        return real(path, **kwargs)

    monkeypatch.setattr(os, "stat", racing)
    with pytest.raises(Failure) as caught:
        root.open_place("link/x")
    assert caught.value.error.code == "path_folder_missing"


@pytest.mark.parametrize(("error", "words"), [(OSError(errno.EIO, "x"), "Input/output error"), (OSError(), "unknown error")])
def test_other_failures_of_the_system_keep_its_words(
        base: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str) -> None:
    def broken(*_args: object, **_kwargs: object) -> None:
        raise error

    root = Root(str(base / "data"), anchored=False)
    monkeypatch.setattr(os, "lstat", broken)
    with pytest.raises(Failure, match=words) as caught:
        root.kind_of("notes.txt")
    assert caught.value.error.code == "index_io"


@WAYS
def test_descriptors_are_let_go_whatever_happens(base: Path, anchored: bool) -> None:
    (base / "data" / "link").symlink_to(base)
    os.mkfifo(base / "data" / "fifo")
    root = Root(str(base / "data"), anchored=anchored)
    paths = ["notes.txt", "a/b.db", "missing/x", "link/x", "link", "fifo", "a", "a/none", "../x", "notes.txt/x", "n" * 300 + "/x"]

    def touch_all() -> None:
        for path in paths:
            for touch in (root.read_file, root.kind_of, root.list_folder):
                try:
                    touch(path)
                except Failure:
                    continue

    touch_all()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    for _ in range(1_000 // len(paths)):
        touch_all()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names only


def test_a_place_closes_once(base: Path) -> None:
    place = Root(str(base / "data")).open_place("a/b.db")
    place.close()
    place.close()
    assert place.folder == -1
