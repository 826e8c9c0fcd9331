"""Files beside their place: whole and on the disk before they get the name, with the rights that are asked for, and gone where they do not get it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_stdlib.wholefile import beside, mode_of, sync_file, sync_folder, written_beside

MASK = 0o027


@pytest.fixture(autouse=True)
def _masked() -> Iterator[None]:
    before = os.umask(MASK)
    yield
    os.umask(before)


@pytest.mark.parametrize(("mode", "had"), [(None, 0o666 & ~MASK), (0o600, 0o600), (0o644, 0o644), (0o666, 0o666)])
def test_it_has_its_rights_before_anything_is_in_it(tmp_path: Path, mode: int | None, had: int) -> None:
    with beside(tmp_path / "a", mode) as (path, file):
        assert (path.parent, path.stat().st_size, path.stat().st_mode & 0o7777) == (tmp_path, 0, had)
        file.write(b"x")
        sync_file(file)
        assert path.read_bytes() == b"x"
        path.replace(tmp_path / "a")
    assert ([path.name for path in tmp_path.iterdir()], mode_of(tmp_path / "a")) == (["a"], had)


def test_what_gets_no_name_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), written_beside(tmp_path / "a", b"new") as path:
        assert path.read_bytes() == b"new"
        raise KeyboardInterrupt
    with written_beside(tmp_path / "a", b"new") as path:
        os.link(path, tmp_path / "b")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old", "b": b"new"}


def test_the_rights_on_a_file_are_those_of_its_users(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o4751)
    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "b")) == (0o751, None)


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path: Path) -> None:
    sync_folder(tmp_path / "none")
    sync_folder(tmp_path)
