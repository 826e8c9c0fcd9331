"""Which files an ingest takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_stdlib.cli import walk
from rag_stdlib.cli.walk import pick
from rag_stdlib.errors import Failure, fail
from rag_stdlib.root import Root

Write = Callable[..., Path]


def picked(folder: Path, *paths: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    return list(pick(Root(str(folder)), paths or (".",), include, exclude).files)


def test_folders_are_walked_in_the_order_of_names_and_sizes_are_known(folder: Path, write: Write) -> None:
    for name in ("docs/b.md", "docs/a/z.txt", "docs/c.txt"):
        write(name, "12345")
    found = pick(Root(str(folder)), ["docs"], (), ())
    assert [(file.path, file.size) for file in found.files.values()] == [("docs/a/z.txt", 5), ("docs/b.md", 5), ("docs/c.txt", 5)]
    assert (found.folders, found.passed_over, found.errors) == (["docs"], 0, [])


def test_hidden_names_links_special_files_and_unknown_kinds_are_passed_over(folder: Path, write: Write) -> None:
    write("docs/kept.txt")
    write("docs/.hidden.txt")
    write("docs/.git/config.txt")
    write("docs/picture.png")
    write("elsewhere/secret.txt")
    (folder / "docs/link.txt").symlink_to(folder / "elsewhere/secret.txt")
    (folder / "docs/linked").symlink_to(folder / "elsewhere")
    os.mkfifo(folder / "docs/pipe.txt")
    found = pick(Root(str(folder)), ["docs"], (), ())
    assert list(found.files) == ["docs/kept.txt"]
    assert found.passed_over == 6
    assert found.errors == []


@pytest.mark.parametrize(("rules", "kept"), [
    ("*.log.txt\n", ["a.txt", "deep/b.txt", "deep/build/d.txt", "build/e.txt"]),
    ("build/\n", ["a.txt", "c.log.txt", "deep/b.txt"]),
    ("/build/\n", ["a.txt", "c.log.txt", "deep/b.txt", "deep/build/d.txt"]),
    ("build\n!deep/build\n", ["a.txt", "c.log.txt", "deep/b.txt", "deep/build/d.txt"]),
    ("*.txt\n!b.txt\n", ["deep/b.txt"]),
    ("deep/*\n!deep/b.txt\n", ["a.txt", "c.log.txt", "build/e.txt", "deep/b.txt"]),
    ("deep/**/d.txt\n", ["a.txt", "c.log.txt", "build/e.txt", "deep/b.txt"]),
    ("# a comment\n\n  \n", ["a.txt", "c.log.txt", "build/e.txt", "deep/b.txt", "deep/build/d.txt"]),
    ("\ufeffbuild/\r\n*.log.txt\r\n", ["a.txt", "deep/b.txt"]),
    ("a.tx\x0b\n", ["a.txt", "c.log.txt", "build/e.txt", "deep/b.txt", "deep/build/d.txt"]),
])
def test_a_gitignore_is_honoured(folder: Path, write: Write, rules: str, kept: list[str]) -> None:
    for name in ("a.txt", "c.log.txt", "deep/b.txt", "deep/build/d.txt", "build/e.txt"):
        write(f"docs/{name}")
    write("docs/.gitignore", rules)
    assert picked(folder, "docs") == sorted((f"docs/{name}" for name in kept), key=lambda path: path.split("/"))


def test_a_nested_gitignore_has_the_last_word_below_it(folder: Path, write: Write) -> None:
    for name in ("docs/a.txt", "docs/inner/a.txt", "docs/inner/b.txt", "docs/inner/deeper/a.txt"):
        write(name)
    write("docs/.gitignore", "a.txt\n")
    write("docs/inner/.gitignore", "!/a.txt\nb.txt\n")
    assert picked(folder, "docs") == ["docs/inner/a.txt"]


def test_a_gitignore_above_the_named_folder_counts_up_to_the_root(folder: Path, write: Write) -> None:
    for name in ("top/mid/docs/a.txt", "top/mid/docs/b.txt", "top/mid/docs/c.txt", "top/mid/docs/d.txt"):
        write(name)
    write(".gitignore", "a.txt\n")
    write("top/.gitignore", "/mid/docs/b.txt\n/docs/d.txt\n")
    write("top/mid/.gitignore", "docs/c.txt\n")
    assert picked(folder, "top/mid/docs") == ["top/mid/docs/d.txt"]


def test_a_named_file_is_taken_whatever_the_gitignore_says(folder: Path, write: Write) -> None:
    write("docs/a.txt")
    write("docs/.hidden.txt")
    write("docs/.gitignore", "*\n")
    assert picked(folder, "docs/a.txt", "docs/.hidden.txt", "docs") == ["docs/a.txt", "docs/.hidden.txt"]


def test_a_gitignore_that_is_a_link_or_a_folder_does_not_count(folder: Path, write: Write) -> None:
    write("docs/a.txt")
    write("docs/sub/a.txt")
    write("elsewhere/rules", "*\n")
    (folder / "docs/.gitignore").symlink_to(folder / "elsewhere/rules")
    (folder / "docs/sub/.gitignore").mkdir()
    assert picked(folder, "docs") == ["docs/a.txt", "docs/sub/a.txt"]


def test_a_gitignore_that_cannot_be_read_is_an_error_beside_the_files(folder: Path, write: Write) -> None:
    write("docs/a.txt")
    write("docs/.gitignore", "x\n" * 600_000)
    write("docs/sub/.gitignore", "!\n")
    write("docs/sub/b.txt")
    found = pick(Root(str(folder)), ["docs"], (), ())
    assert list(found.files) == ["docs/a.txt", "docs/sub/b.txt"]
    assert [(name, error.code) for name, error in found.errors] == [
        ("docs/.gitignore", "file_too_large"), ("docs/sub/.gitignore", "file_unreadable")]


@pytest.mark.parametrize(("include", "exclude", "kept"), [
    (("*.md",), (), ["a.md", "sub/c.md"]),
    (("*.md", "b.*"), (), ["a.md", "b.txt", "sub/c.md"]),
    (("sub/*",), (), ["sub/c.md", "sub/d.txt"]),
    ((), ("*.txt",), ["a.md", "sub/c.md"]),
    (("*.md",), ("sub/*",), ["a.md"]),
    (("*.MD",), (), []),
    (("[ab].*",), ("a*",), ["b.txt"]),
])
def test_patterns_choose_by_name_or_path_below_the_folder(
        folder: Path, write: Write, include: tuple[str, ...], exclude: tuple[str, ...], kept: list[str]) -> None:
    for name in ("a.md", "b.txt", "sub/c.md", "sub/d.txt"):
        write(f"docs/{name}")
    assert picked(folder, "docs", include=include, exclude=exclude) == [f"docs/{name}" for name in kept]
    assert picked(folder / "docs", include=include, exclude=exclude) == kept


def test_each_name_that_cannot_be_taken_says_why(folder: Path, write: Write) -> None:
    target = write("docs/a.txt")
    (folder / "link.txt").symlink_to(target)
    os.mkfifo(folder / "pipe.txt")
    found = pick(Root(str(folder)), ["nothing.txt", "no/folder.txt", "link.txt", "pipe.txt", "../x.txt", "/etc/passwd", "",
                                     "docs/a.txt"], (), ())
    assert list(found.files) == ["docs/a.txt"]
    assert [error.code for _, error in found.errors] == [
        "file_missing", "path_folder_missing", "path_symlink", "path_special", "path_parent", "path_outside_root", "path_empty"]


def test_without_a_usable_root_nothing_is_listed(tmp_path: Path) -> None:
    with pytest.raises(Failure) as raised:
        pick(Root(str(tmp_path / "gone")), ["a.txt", "b.txt"], (), ())
    assert raised.value.error.code == "root_unusable"


def test_a_folder_that_cannot_be_listed_is_an_error_beside_the_others(
        folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("docs/closed/a.txt")
    write("docs/open/b.txt")
    listed = Root.list_folder

    def refusing(self: Root, path: str) -> list[tuple[str, str, int]]:
        if path == "docs/closed":
            raise fail("path_permission", path=path, detail="Permission denied")
        return listed(self, path)

    monkeypatch.setattr(walk.Root, "list_folder", refusing)
    found = pick(Root(str(folder)), ["docs"], (), ())
    assert list(found.files) == ["docs/open/b.txt"]
    assert [(name, error.code) for name, error in found.errors] == [("docs/closed", "path_permission")]


def test_what_is_kept_out_is_passed_over(folder: Path, write: Write) -> None:
    write("notes")
    write("a.txt")
    found = pick(Root(str(folder)), ["."], ("notes", "a.txt"), (), {"notes"})
    assert list(found.files) == ["a.txt"]


def test_a_very_deep_folder_is_walked_to_its_end(folder: Path) -> None:
    deep = folder
    for _ in range(1_100):  # deeper than Python's stack
        deep = deep / "d"
        deep.mkdir()
    (deep / "last.txt").write_text("at the bottom")
    found = pick(Root(str(folder)), ["."], (), ())
    (deep / "last.txt").unlink()
    while deep != folder:  # nor does pytest's own clean-up reach so deep
        deep.rmdir()
        deep = deep.parent
    assert found.errors == []
    assert [Path(path).name for path in found.files][-1] == "last.txt"
