"""A new file: whole or not at all, in nobody's place, and written again only where it is still the same."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import replay
from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.newfile import new_file
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
        assert (left(folder), file.is_there) == ({}, False)
        file.write(b"whole")
        assert (left(folder), file.is_there) == ({"a.json": b"whole"}, True)
        file.write(b"and more")
        assert left(folder) == {"a.json": b"and more"}
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


@pytest.mark.parametrize("force", [False, True])
def test_what_fails_while_it_is_written_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    if force:
        Path("a.json").write_text("mine")
    before = left(folder)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CommandError, match=r"'a\.json' cannot be written: No space left on device; name another file"), new_file("a.json", force=force) as file:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(CommandError):
                file.write(b"new")
        assert (left(folder), file.is_there) == (before, False)
        file.write(b"new")
        monkeypatch.setattr(os, "fsync", full)
        file.write(b"newer")
    assert (left(folder), file.is_there) == ({"a.json": b"new"}, True)


def test_one_that_comes_meanwhile_is_left_too(folder: Path) -> None:
    with pytest.raises(CommandError, match=TAKEN), new_file("a.json") as file:
        Path("a.json").write_text("another's")
        file.write(b"mine")
    assert (left(folder), file.is_there) == ({"a.json": b"another's"}, False)


@pytest.mark.parametrize("force", [False, True])
def test_one_that_takes_its_place_between_two_contents_is_left_and_nothing_is_lost(folder: Path, force: bool) -> None:
    with pytest.raises(CommandError, match=r"^another file has taken the place of 'a\.json', and is left as it is; what was to be written is in '") as caught, \
            new_file("a.json", force=force) as file:
        file.write(b"one")
        Path("a.json").write_text("another's")
        file.write(b"two")
    kept = Path(caught.value.error.rpartition(" in ")[2].strip("'"))
    assert (left(folder), kept.parent, file.is_there) == ({"a.json": b"another's", kept.name: b"two"}, folder, False)


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
            assert (left(folder), file.is_there) == ({}, True)
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

    def test_a_run_that_failed_leaves_what_it_left_when_it_was_recorded(self, folder: Path, trace: str) -> None:
        for content in (b"one", b"another's"):
            with replay.substitute(trace), pytest.raises(PermissionError, match="mine"), new_file("a.json") as file:
                file.write(content)
                raise PermissionError("mine")
            assert left(folder) == {"a.json": b"one"}

    def test_a_run_that_departs_from_its_recording_writes_nothing(self, folder: Path, trace: str) -> None:
        with replay.substitute(trace), pytest.raises(Divergence), new_file("a.json") as file:
            file.write(b"one")
            raise Divergence("tool", "another call")
        assert left(folder) == {}
