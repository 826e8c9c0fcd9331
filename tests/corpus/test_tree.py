"""What of a commit becomes documents, and why the rest does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import Repo, git
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.corpus import tree
from rag_stdlib.corpus.git import GitFailure, Mirror
from rag_stdlib.corpus.tree import Entry, listing


@pytest.fixture
def mirrored(tmp_path: Path, repo: Repo) -> Callable[..., tuple[Mirror, str]]:
    """Mirror the repository; give the mirror and its head."""

    def mirrored() -> tuple[Mirror, str]:
        mirror = Mirror(tmp_path / "m.git", repo.url)
        return mirror, mirror.fetch("main", max_bytes=10**9, timeout_s=60)

    return mirrored


def paths(found: tree.Listing) -> list[str]:
    return [entry.path for entry in found.files]


def test_markdown_files_are_listed_with_blob_and_size_sorted_by_path(mirrored: Callable[..., tuple[Mirror, str]], repo: Repo) -> None:
    repo.commit({"z.md": "zz", "a/b.MD": "b", "a.md": "", "A.md": "x", "a-b.md": "x"})
    found = listing(*mirrored())
    assert paths(found) == ["A.md", "README.md", "a-b.md", "a.md", "a/b.MD", "docs/a.md", "z.md"]
    assert found.passed_over == []
    assert found.files[-1] == Entry("z.md", git("hash-object", "--stdin", folder=repo.folder, stdin=b"zz").decode().strip(), 2)


def test_what_is_passed_over_is_named_with_the_reason(mirrored: Callable[..., tuple[Mirror, str]], repo: Repo) -> None:
    repo.commit({"main.py": "x", "a.markdown": "x", "md": "x", "x.md.txt": "x", "LICENSE.md": "x", ".github/pull.md": "x", b"\xff.md": "x",
                 "big.md": "x" * 21, "fits.md": "x" * 20, "d/" * 30 + "long.md": "x", "d/" * 30 + "l.txt": "x"})
    repo.commit({"link.md": "README.md", "out": "../../etc"}, mode="120000")
    repo.commit({"run.md": "x"}, mode="100755")
    commit = "e" * 40
    repo.commit_tree(git("ls-tree", "-z", "main", folder=repo.folder) + f"160000 commit {commit}\tsub.md\0".encode())
    found = listing(*mirrored(), max_file_bytes=20, max_name_bytes=64)
    assert paths(found) == ["README.md", "docs/a.md", "fits.md", "run.md"]
    assert dict(found.passed_over) == {
        "main.py": "not_markdown", "a.markdown": "not_markdown", "md": "not_markdown", "x.md.txt": "not_markdown", "LICENSE.md": "boilerplate",
        ".github/pull.md": "boilerplate", "\\xff.md": "name_not_utf8", "big.md": "too_large", "d/" * 30 + "long.md": "name_unfit",
        "d/" * 30 + "l.txt": "not_markdown", "link.md": "symlink", "out": "symlink", "sub.md": "submodule"}
    assert found.passed_over == sorted(found.passed_over)


def test_names_of_every_script_and_with_control_characters_are_names(mirrored: Callable[..., tuple[Mirror, str]], repo: Repo) -> None:
    names = ["手册/指南.md", "a\nb.md", "tab\t.md", "e\u0301.md", "\u00e9.md", "\u202e.md", "README.md", "readme.md", ".md", " .md"]
    repo.commit(dict.fromkeys(names, "x"), parent=None)
    assert paths(listing(*mirrored())) == sorted(names)


def test_paths_are_whole_segments_and_several_are_a_union(mirrored: Callable[..., tuple[Mirror, str]], repo: Repo) -> None:
    repo.commit(dict.fromkeys(["docs/b/c.md", "docsx/a.md", "docs.md", "guides/x.md", "guides/y.txt", "a/docs/z.md"], "x"))
    mirror, head = mirrored()
    assert paths(listing(mirror, head, ["docs"])) == ["docs/a.md", "docs/b/c.md"]
    assert paths(listing(mirror, head, ["docs//", "docs/./b", "guides/x.md/"])) == ["docs/a.md", "docs/b/c.md", "guides/x.md"]
    assert paths(listing(mirror, head, ("docs/a.m", "Docs", "c.md"))) == []
    assert paths(listing(mirror, head, ["docs/a.md/b"])) == []
    assert dict(listing(mirror, head, ["guides"]).passed_over) == {
        "README.md": "outside_paths", "a/docs/z.md": "outside_paths", "docs.md": "outside_paths", "docs/a.md": "outside_paths",
        "docs/b/c.md": "outside_paths", "docsx/a.md": "outside_paths", "guides/y.txt": "not_markdown"}


def test_a_commit_that_the_mirror_does_not_hold_is_a_failure(mirrored: Callable[..., tuple[Mirror, str]]) -> None:
    mirror, head = mirrored()
    for commit in ("0" * 40, head[:10], "main"):
        with pytest.raises(GitFailure) as caught:
            listing(mirror, commit)
        assert caught.value.kind == "failed"
    assert paths(listing(mirror, head)) == ["README.md", "docs/a.md"]


def test_an_empty_tree_holds_nothing(mirrored: Callable[..., tuple[Mirror, str]], repo: Repo) -> None:
    repo.commit({}, parent=None)
    assert listing(*mirrored()) == tree.Listing([], [])


@pytest.mark.parametrize("name", ["../x.md", "a/../x.md", "./x.md", "a//x.md", "/x.md"])
def test_a_name_that_leads_elsewhere_is_unfit(name: str) -> None:
    assert tree._name_reason(name.encode(), name, 1_000) == "name_unfit"


SEGMENTS = st.lists(st.sampled_from(["a", "b", "ab", "a.b", "A"]), min_size=1, max_size=4)


@given(SEGMENTS, st.lists(SEGMENTS, min_size=1, max_size=3), st.booleans())
def test_a_path_is_inside_exactly_below_one_that_is_named(path: list[str], kept: list[list[str]], slash: bool) -> None:
    named = [tree._segments("/".join(prefix) + "/" * slash) for prefix in kept]
    text = "/".join(path)
    expected = any(text == prefix or text.startswith(f"{prefix}/") for prefix in map("/".join, kept))
    assert tree._is_inside(tree._segments(text), named) == expected
