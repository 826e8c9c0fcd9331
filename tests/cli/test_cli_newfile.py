"""A new file: whole or not at all, and in nobody's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.newfile import new_file


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_is_there_when_the_block_ends_well(folder: Path) -> None:
    with new_file("a.json") as put:
        put(b"whole")
        assert not Path("a.json").exists()
    assert Path("a.json").read_bytes() == b"whole"
    assert left(folder) == ["a.json", "corvid.toml"]
    assert Path("a.json").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    present = os.umask(0)
    os.umask(present)
    return present


def test_a_block_that_fails_leaves_nothing_and_its_error_stays_its_own(folder: Path) -> None:
    with pytest.raises(PermissionError, match="mine"), new_file("a.json") as put:
        put(b"half")
        raise PermissionError("mine")
    assert left(folder) == ["corvid.toml"]


def test_a_file_that_is_there_is_left_unless_told_otherwise(folder: Path) -> None:
    Path("a.json").write_text("mine")
    with pytest.raises(CommandError, match=r"there is a file 'a\.json' already"), new_file("a.json"):
        pytest.fail("the block is not run")
    with new_file("a.json", force=True) as put:
        put(b"new")
    assert (Path("a.json").read_bytes(), left(folder)) == (b"new", ["a.json", "corvid.toml"])


def test_one_that_comes_meanwhile_is_left_too(folder: Path) -> None:
    with pytest.raises(CommandError, match="already"), new_file("a.json") as put:
        Path("a.json").write_text("another's")
        put(b"mine")
    assert (Path("a.json").read_text(), left(folder)) == ("another's", ["a.json", "corvid.toml"])


def test_a_link_leads_to_the_file_that_is_meant(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub/a.json")
    with new_file("link") as put:
        put(b"x")
    assert ((folder / "sub" / "a.json").read_bytes(), (folder / "link").is_symlink()) == (b"x", True)


@pytest.mark.parametrize("path", ["nowhere/a.json", "corvid.toml/a.json", "a\0b", "", "."])
@pytest.mark.parametrize("force", [False, True])
def test_what_cannot_be_written_is_said_before_the_block(folder: Path, path: str, force: bool) -> None:
    with pytest.raises(CommandError), new_file(path, force=force) as put:
        put(b"x")
    assert left(folder) == ["corvid.toml"]
