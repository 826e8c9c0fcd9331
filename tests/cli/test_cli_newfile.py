"""A new file: whole or not at all, in nobody's place, and written again only where it is still the same; and a file that is changed in the same way."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import replay
from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.newfile import new_file, replace_file
from replay.errors import Divergence

TAKEN = r"there is a file 'a\.json' already, and it is left as it is; name another one, or give --force"


def left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "corvid.toml"}


@pytest.fixture
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trace of a run that called nothing, elsewhere."""
    path = str(tmp_path_factory.mktemp("traces") / "run.jsonl")
    with replay.record(path):
        pass
    return path


def test_its_first_content_gives_it_its_name_and_the_next_one_takes_its_place(folder: Path) -> None:
    with new_file("a.json") as file:
        assert (left(folder), file.content) == ({}, None)
        file.write(b"whole")
        assert (left(folder), file.content) == ({"a.json": b"whole"}, b"whole")
        file.write(b"and more")
        assert (left(folder), file.content) == ({"a.json": b"and more"}, b"and more")
        file.write(b"less")
    assert left(folder) == {"a.json": b"less"}
    assert Path("a.json").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    present = os.umask(0)
    os.umask(present)
    return present


def test_each_content_is_on_the_disk_before_anything_else_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, bytes | None]] = []
    real = os.fsync

    def synced(handle: int) -> None:
        what = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        done.append((what, left(folder).get("a.json")))
        real(handle)

    monkeypatch.setattr(os, "fsync", synced)
    with new_file("a.json") as file:
        file.write(b"one")
        file.write(b"two")
    assert done == [("file", None), ("folder", b"one"), ("file", b"one"), ("folder", b"two")]


def test_a_block_that_fails_before_it_writes_leaves_nothing_and_its_error_stays_its_own(folder: Path) -> None:
    with pytest.raises(PermissionError, match="mine"), new_file("a.json"):
        raise PermissionError("mine")
    assert left(folder) == {}


def test_what_is_written_stays_when_the_block_fails(folder: Path) -> None:
    with pytest.raises(PermissionError, match="mine"), new_file("a.json") as file:
        file.write(b"whole")
        raise PermissionError("mine")
    assert left(folder) == {"a.json": b"whole"}


def test_a_block_that_writes_nothing_makes_no_file(folder: Path) -> None:
    with new_file("a.json"):
        pass
    assert left(folder) == {}


def test_a_file_that_is_there_is_left_unless_told_otherwise(folder: Path) -> None:
    Path("a.json").write_text("mine")
    with pytest.raises(CommandError, match=TAKEN), new_file("a.json"):
        pytest.fail("the block is not run")
    with new_file("a.json", force=True) as file:
        assert left(folder) == {"a.json": b"mine"}
        file.write(b"new")
        assert left(folder) == {"a.json": b"new"}
        file.write(b"newer")
    assert left(folder) == {"a.json": b"newer"}


def test_a_file_of_another_kind_is_left_although_told_otherwise(folder: Path) -> None:
    def not_old(path: Path) -> str:
        return "" if path.read_bytes() == b"old" else "it is new"

    Path("a.json").write_bytes(b"mine")
    with pytest.raises(CommandError, match="and it is left as it is, with --force too: it is new; name another one"), new_file("a.json", force=True, over=not_old):
        pytest.fail("the block is not run")
    Path("a.json").write_bytes(b"old")
    with pytest.raises(CommandError, match="and it is left as it is, with --force too: it is new; name another one"), new_file("a.json", force=True, over=not_old) as file:
        Path("a.json").write_bytes(b"mine")
        file.write(b"new")
    assert left(folder) == {"a.json": b"mine"}
    Path("a.json").write_bytes(b"old")
    with new_file("a.json", force=True, over=not_old) as file:
        file.write(b"new")
        file.write(b"newer")
    assert left(folder) == {"a.json": b"newer"}


@pytest.mark.parametrize("force", [False, True])
def test_what_fails_while_it_is_written_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    if force:
        Path("a.json").write_text("mine")
    before = left(folder)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CommandError, match=r"^'a\.json' cannot be written again: No space left on device$"), new_file("a.json", force=force) as file:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(CommandError, match=r"^'a\.json' cannot be written: No space left on device; name another file$"):
                file.write(b"new")
        assert (left(folder), file.content) == (before, None)
        file.write(b"new")
        monkeypatch.setattr(os, "fsync", full)
        file.write(b"newer")
    assert (left(folder), file.content) == ({"a.json": b"new"}, b"new")


def test_one_that_comes_meanwhile_is_left_too(folder: Path) -> None:
    with pytest.raises(CommandError, match=TAKEN), new_file("a.json") as file:
        Path("a.json").write_text("another's")
        file.write(b"mine")
    assert (left(folder), file.content) == ({"a.json": b"another's"}, None)


@pytest.mark.parametrize("force", [False, True])
def test_one_that_takes_its_place_between_two_contents_is_left_and_nothing_is_lost(folder: Path, force: bool) -> None:
    with pytest.raises(CommandError, match=r"^another file has taken the place of 'a\.json', and is left as it is; what was to be written is in '") as caught, \
            new_file("a.json", force=force) as file:
        file.write(b"one")
        Path("a.json").write_text("another's")
        file.write(b"two")
    kept = Path(caught.value.error.rpartition(" in ")[2].strip("'"))
    assert (left(folder), kept.parent, file.content) == ({"a.json": b"another's", kept.name: b"two"}, folder, None)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("step", [(os, "fsync"), (os, "link"), (Path, "replace"), (Path, "unlink")])
@pytest.mark.parametrize("first", [[], [b"one"]])
@pytest.mark.parametrize("force", [False, True])
def test_what_stands_under_the_name_is_known_wherever_it_is_interrupted(
        folder: Path, monkeypatch: pytest.MonkeyPatch, force: bool, first: list[bytes], step: tuple[Any, str], late: bool) -> None:
    if force:
        Path("a.json").write_bytes(b"mine")
    real = getattr(*step)

    def pressed(*given: Any) -> None:
        if late:
            real(*given)
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), new_file("a.json", force=force) as file:
        for content in first:
            file.write(content)
        with monkeypatch.context() as patch:
            patch.setattr(*step, pressed)
            file.write(b"two")
    stands = left(folder).get("a.json")
    assert stands in (None, b"mine", b"one", b"two")
    assert file.content == (None if stands == b"mine" else stands)


@pytest.mark.usefixtures("folder")
def test_the_rights_on_a_file_that_is_written_over_stay() -> None:
    Path("a.json").write_text("mine")
    for mode in (0o600, 0o640, 0o666):
        Path("a.json").chmod(mode)
        with new_file("a.json", force=True) as file:
            file.write(b"one")
            assert Path("a.json").stat().st_mode & 0o7777 == mode
            file.write(b"two")
        assert Path("a.json").stat().st_mode & 0o7777 == mode


def test_a_name_may_be_as_long_as_a_name_can_be(folder: Path) -> None:
    name = "\U0001f511" * 62 + "x.json"
    with new_file(name) as file:
        file.write(b"one")
        Path(name).write_text("another's")
        with pytest.raises(CommandError, match="has taken the place"):
            file.write(b"two")
    assert sorted(left(folder).values()) == [b"another's", b"two"]


def test_one_that_was_taken_away_between_two_contents_gets_its_name_again(folder: Path) -> None:
    with new_file("a.json") as file:
        file.write(b"one")
        Path("a.json").rename("b.json")
        file.write(b"two")
    assert left(folder) == {"a.json": b"two", "b.json": b"one"}


def test_a_link_leads_to_the_file_that_is_meant(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub/a.json")
    with new_file("link") as file:
        file.write(b"x")
        file.write(b"y")
    assert ((folder / "sub" / "a.json").read_bytes(), (folder / "link").is_symlink()) == (b"y", True)


@pytest.mark.parametrize("path", ["nowhere/a.json", "corvid.toml/a.json", "a\0b", "", ".", "pipe"])
@pytest.mark.parametrize("force", [False, True])
def test_what_cannot_be_written_is_said_before_the_block(folder: Path, path: str, force: bool) -> None:
    os.mkfifo("pipe")
    before = sorted(folder.iterdir())
    with pytest.raises(CommandError, match=r"cannot be written: .*; name another"), new_file(path, force=force):
        pytest.fail("the block is not run")
    assert sorted(folder.iterdir()) == before


class TestReplayed:
    """In a replay, which finds what the recorded run wrote."""

    def test_it_is_written_at_the_end_of_the_block(self, folder: Path, trace: str) -> None:
        with replay.substitute(trace), new_file("a.json") as file:
            file.write(b"one")
            file.write(b"two")
            assert (left(folder), file.content) == ({}, None)
        assert left(folder) == {"a.json": b"two"}

    @pytest.mark.parametrize("force", [False, True])
    def test_the_same_content_is_left_as_it_is(self, folder: Path, trace: str, force: bool) -> None:
        Path("a.json").write_bytes(b"two")
        before = Path("a.json").stat()
        with replay.substitute(trace), new_file("a.json", force=force) as file:
            file.write(b"one")
            file.write(b"two")
        after = Path("a.json").stat()
        assert (left(folder), after.st_ino, after.st_mtime_ns) == ({"a.json": b"two"}, before.st_ino, before.st_mtime_ns)

    def test_another_content_is_left_unless_told_otherwise(self, folder: Path, trace: str) -> None:
        Path("a.json").write_bytes(b"one")

        def twice(**options: Any) -> None:
            with replay.substitute(trace), new_file("a.json", **options) as file:
                file.write(b"one")
                file.write(b"two")

        with pytest.raises(CommandError, match=TAKEN):
            twice()
        assert left(folder) == {"a.json": b"one"}
        twice(force=True)
        assert left(folder) == {"a.json": b"two"}

    @pytest.mark.parametrize("error", [PermissionError("mine"), KeyboardInterrupt(), Divergence("tool", "another call")])
    @pytest.mark.parametrize("force", [False, True])
    def test_a_run_that_fails_writes_nothing(self, folder: Path, trace: str, force: bool, error: BaseException) -> None:
        for before in ({}, {"a.json": b"recorded"}):
            for name, content in before.items():
                Path(name).write_bytes(content)
            with replay.substitute(trace), pytest.raises(type(error)), new_file("a.json", force=force) as file:
                file.write(b"one")
                raise error
            assert left(folder) == before


class TestReplaced:
    """A file that takes a new content where it still holds the old one."""

    def test_it_is_changed_with_its_rights_and_on_the_disk(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("a.json").write_bytes(b"old")
        Path("a.json").chmod(0o640)
        synced: list[tuple[bool, bytes]] = []
        real = os.fsync

        def told(handle: int) -> None:
            synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), Path("a.json").read_bytes()))
            real(handle)

        monkeypatch.setattr(os, "fsync", told)
        replace_file("a.json", b"new", held=b"old")
        assert (left(folder), Path("a.json").stat().st_mode & 0o7777) == ({"a.json": b"new"}, 0o640)
        assert synced == [(False, b"old"), (True, b"new")]

    @pytest.mark.parametrize("now", [b"", b"other", b"older", b"ol", None])
    def test_one_that_holds_something_else_is_left(self, folder: Path, now: bytes | None) -> None:
        if now is not None:
            Path("a.json").write_bytes(now)
        before = left(folder)
        with pytest.raises(CommandError, match=r"^'a\.json' was changed meanwhile, and is left as it is$"):
            replace_file("a.json", b"new", held=b"old")
        assert left(folder) == before

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_what_is_no_file_by_now_is_left(self, folder: Path, make: Callable[[str], None]) -> None:
        make("a.json")
        with pytest.raises(CommandError, match="was changed meanwhile"):
            replace_file("a.json", b"new", held=b"")
        assert [path.name for path in folder.iterdir() if path.name != "corvid.toml"] == ["a.json"]

    def test_a_link_leads_to_the_file(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "a.json").write_bytes(b"old")
        (folder / "link").symlink_to("sub/a.json")
        replace_file("link", b"new", held=b"old")
        assert ((folder / "sub" / "a.json").read_bytes(), (folder / "link").is_symlink()) == (b"new", True)

    def test_what_cannot_be_written_is_told_and_holds_what_it_held(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("a.json").write_bytes(b"old")

        def full(_handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(CommandError, match=r"^'a\.json' cannot be written: No space left on device; name another file$"):
                replace_file("a.json", b"new", held=b"old")
        for path in ("nowhere/a.json", "a\0b"):
            with pytest.raises(CommandError, match="cannot be written: "):
                replace_file(path, b"new", held=b"old")
        assert left(folder) == {"a.json": b"old"}

    def test_of_those_who_change_it_at_once_one_does(self, folder: Path) -> None:
        Path("a.json").write_bytes(b"old")
        told: list[str] = []

        def change(content: bytes) -> None:
            try:
                replace_file("a.json", content, held=b"old")
                told.append(content.decode())
            except CommandError as error:
                told.append(error.error)

        threads = [threading.Thread(target=change, args=(b"new %d" % number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        changed = [each for each in told if each.startswith("new")]
        assert (len(told), len(changed), left(folder)) == (8, 1, {"a.json": changed[0].encode()})
