"""From a path as typed to one below the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_stdlib import Config, Runtime
from rag_stdlib.cli.paths import below_root, plain


@pytest.mark.parametrize(("here", "typed", "named"), [
    (".", "x.db", "x.db"),
    (".", "./x.db", "x.db"),
    (".", "a/b/x.db", "a/b/x.db"),
    (".", ".", "."),
    (".", "../x.db", "../x.db"),
    (".", "..", ".."),
    ("a/b", "x.db", "a/b/x.db"),
    ("a/b", "../x.db", "a/x.db"),
    ("a/b", "../../x.db", "x.db"),
    ("a/b", ".././/../x.db", "x.db"),
    ("a/b", "../../../x.db", "../../../x.db"),
    ("a/b", "..", "a/"),
    ("a/b", "../..", "."),
    ("a/b", "c/../x.db", "a/b/c/../x.db"),
    ("a/b", "", ""),
    (".", "", ""),
])
def test_paths_are_taken_from_the_working_directory_inside_the_root(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, typed: str, named: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / here)
    assert below_root(Runtime(Config(root=str(tmp_path))), typed) == named


def test_paths_are_taken_from_the_root_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path)
    runtime = Runtime(Config(root=str(tmp_path / "root")))
    assert [below_root(runtime, path) for path in ("x.db", "../x.db", "root/x.db")] == ["x.db", "../x.db", "root/x.db"]


def test_absolute_paths_are_cut_at_the_root_through_links_above_it(tmp_path: Path) -> None:
    (tmp_path / "real/base/docs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for root in ("real/base", "link/base"):
        runtime = Runtime(Config(root=str(tmp_path / root)))
        for typed in ("real/base/docs/a.md", "link/base/docs/a.md"):
            assert below_root(runtime, str(tmp_path / typed)) == "docs/a.md"
        assert below_root(runtime, f"{tmp_path}/link/base/docs/") == "docs/"
        assert below_root(runtime, f"{tmp_path}/link/base") == "."


def test_absolute_paths_outside_and_odd_ones_stay_as_typed(tmp_path: Path) -> None:
    runtime = Runtime(Config(root=str(tmp_path)))
    for typed in ("/etc/passwd", "/", f"{tmp_path}/../x", f"/{tmp_path}/x.db"):
        assert below_root(runtime, typed) == typed


def test_a_link_inside_the_root_is_not_resolved(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    assert below_root(Runtime(Config(root=str(tmp_path))), f"{tmp_path}/again/x.db") == "again/x.db"


def test_names_of_documents_have_no_empty_parts_and_dots() -> None:
    assert [plain(path) for path in ("a//b", "./a/", "a/./b", ".", "", "/etc/x", "a/../b")] == [
        "a/b", "a", "a/b", ".", "", "/etc/x", "a/../b"]
