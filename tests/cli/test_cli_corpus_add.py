"""`rag corpus add`: one more entry on the list, and nothing else changed or lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import Repo, needs_git

from rag_stdlib import Config, Runtime
from rag_stdlib.cli import corpuslist
from rag_stdlib.corpus.listwrite import Changed
from rag_stdlib.root import Root

Write = Callable[..., Path]
Rag = Any  # see conftest

LIST = "corpus-repos.json"
PIN = "a" * 40


@pytest.fixture
def head(folder: Path) -> None:
    """The regime head."""
    (folder / "corvid.toml").write_text('[io]\nroot = "."\n[corpus]\nregime = "head"\n')


def entries(folder: Path, name: str = LIST) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((folder / name).read_text())["repos"]
    return listed


def test_the_list_is_made_and_added_to(rag: Rag, folder: Path) -> None:
    added = rag("corpus", "add", "https://example.org/org/Hand_Book.git", "--commit", PIN)
    assert (added.code, added.out, added.err) == (0, f"added hand-book: main at {PIN}\n", "")
    rag("corpus", "add", "/srv/guide", "--id", "g", "--branch", "trunk", "--commit", PIN)
    assert entries(folder) == [
        {"id": "hand-book", "url": "https://example.org/org/Hand_Book.git", "branch": "main", "commit": PIN},
        {"id": "g", "url": "/srv/guide", "branch": "trunk", "commit": PIN},
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["corpus-repos.json", "corvid.toml"], "nothing is left beside it"


def test_an_id_that_is_listed_is_an_error_that_says_how_to_replace_it(rag: Rag, folder: Path) -> None:
    rag("corpus", "add", "/srv/a", "--commit", PIN)
    before = (folder / LIST).read_bytes()
    refused = rag("corpus", "add", "/srv/other/a", "--commit", PIN)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == ("rag: error: the id 'a' is in the list already (corpus-repos.json); "
                           "--replace puts this entry in the place of that one\n")
    assert (folder / LIST).read_bytes() == before
    replaced = rag("corpus", "add", "/srv/other/a", "--commit", PIN, "--replace")
    assert (replaced.code, replaced.out) == (0, f"replaced a: main at {PIN}\n")
    assert [entry["url"] for entry in entries(folder)] == ["/srv/other/a"]


def test_in_the_regime_head_no_commit_is_named(rag: Rag, folder: Path, head: None) -> None:  # noqa: ARG001
    added = rag("corpus", "add", "https://example.org/a", "--depth", "3", "--path", "docs", "--path", "README.md")
    assert (added.code, added.out) == (0, "added a: the head of main\n")
    assert entries(folder) == [{"id": "a", "url": "https://example.org/a", "branch": "main", "depth": 3, "paths": ["docs", "README.md"]}]
    refused = rag("corpus", "add", "https://example.org/b", "--commit", PIN)
    assert (refused.code, refused.err) == (
        2, "rag: usage: --commit is for the regime pinned, and [corpus] regime is head; see rag corpus add --help\n")


@pytest.mark.parametrize("option", [("--depth", "1"), ("--path", "docs")])
def test_in_the_regime_pinned_the_whole_history_and_all_paths_count(rag: Rag, option: tuple[str, str]) -> None:
    refused = rag("corpus", "add", "https://example.org/b", "--commit", PIN, *option)
    assert refused.code == 2
    assert f"{option[0]} is for the regime head" in refused.err


@needs_git
class TestHeads:
    """Without --commit, the branch's present head is pinned."""

    def test_it_is_asked_for_and_told(self, rag: Rag, folder: Path) -> None:
        source = Repo(folder / "src" / "hand.git")
        source.commit({"a.md": "# One\n"})
        tip = source.commit({"a.md": "# Two\n"})
        added = rag("corpus", "add", source.url)
        assert (added.code, added.out, added.err) == (0, f"added hand: main at {tip}, its present head\n", "")
        assert entries(folder)[0]["commit"] == tip

    def test_a_pin_is_moved_to_the_present_head_by_replacing_it(self, rag: Rag, folder: Path) -> None:
        source = Repo(folder / "hand.git")
        source.commit({"a.md": "# One\n"})
        rag("corpus", "add", "hand.git")
        tip = source.commit({"a.md": "# Two\n"})
        assert rag("corpus", "add", "hand.git", "--replace").out == f"replaced hand: main at {tip}, its present head\n"

    @pytest.mark.parametrize(("url", "branch", "code"), [
        ("hand.git", "nope", "repo_branch"), ("hand.git", "-x", "repo_branch"), ("nothing-here", "main", "repo_unreachable"),
        ("corvid.toml", "main", "repo_unreachable"),
    ])
    def test_one_that_cannot_be_had_leaves_the_list_as_it_was(self, rag: Rag, folder: Path, url: str, branch: str, code: str) -> None:
        Repo(folder / "hand.git").commit({"a.md": "# One\n"})
        refused = rag("corpus", "add", url, "--id", "x", f"--branch={branch}")
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [{code}]: ")
        assert not (folder / LIST).exists()

    def test_nobody_is_asked_for_an_entry_that_cannot_stand(self, rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_stdlib.corpus.git.remote_head", lambda *_asked: pytest.fail("asked"))
        assert rag("corpus", "add", "http://example.org/a").code == 1
        assert rag("corpus", "add", "/srv/a", "--id", "A").code == 1

    def test_without_git_it_says_so(self, rag: Rag, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        (folder / "bin").mkdir()
        monkeypatch.setenv("PATH", str(folder / "bin"))
        assert rag("corpus", "add", str(folder)).err.startswith("rag: error [git_missing]: ")


@pytest.mark.parametrize(("typed", "url"), [("../a", "a"), ("a/", "root/a"), ("./x/../a", "root/a"), (".", "root"), ("a b", None)])
def test_a_folder_typed_from_here_becomes_absolute(rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, url: str | None) -> None:
    (folder / "root").mkdir()
    monkeypatch.chdir(folder / "root")
    added = rag("corpus", "add", typed, "--id", "a", "--commit", PIN, "--list", str(folder / LIST))
    if url is None:
        assert "white space" in added.err
    else:
        assert added.code == 0
        assert entries(folder)[0]["url"] == str(folder / url)


@pytest.mark.parametrize("url", ["http://example.org/a", "ssh://example.org/a", "git@example.org:a/b.git", "file:///srv/a", "https://u:hunter2@e.org/a", ""])
def test_an_address_that_no_list_may_name_is_refused_by_the_rule(rag: Rag, folder: Path, url: str) -> None:
    refused = rag("corpus", "add", url, "--id", "a", "--commit", PIN)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith('rag: error: it cannot stand on a corpus list: id "a": the url ')
    assert "hunter2" not in refused.err
    assert not (folder / LIST).exists()


@pytest.mark.parametrize("url", ["/", "/srv/日本語", "https://"])
def test_where_no_id_can_be_made_one_is_asked_for(rag: Rag, url: str) -> None:
    refused = rag("corpus", "add", url, "--commit", PIN)
    assert (refused.code, refused.err) == (1, f"rag: error: no id can be made from {url!r}; give one with --id\n")


@pytest.mark.parametrize("arguments", [("/srv/\udcff",), ("/srv/a", "--branch", "\udcff"), ("/srv/a", "--id", "a\udcff"), ("/srv/a", "--commit", "\0"),
                                       ("/srv/" + "a" * 5000,)])
def test_text_that_is_none_is_refused_before_anything_is_written(rag: Rag, folder: Path, arguments: tuple[str, ...]) -> None:
    refused = rag("corpus", "add", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert refused.err.startswith(("rag: error [invalid_text]", "rag: error [text_nul]", "rag: error [text_too_large]"))
    assert not (folder / LIST).exists()


class TestListFile:
    """The file that is changed."""

    def test_it_is_the_configured_one_below_the_root_wherever_one_is(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "lists").mkdir()
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n[corpus]\nlist = "lists/mine.json"\n')
        monkeypatch.chdir(folder / "lists")
        assert rag("corpus", "add", "/srv/a", "--commit", PIN).code == 0
        assert rag("corpus", "add", "/srv/b", "--commit", PIN, "--list", "other.json").code == 0
        assert (entries(folder, "lists/mine.json")[0]["id"], entries(folder, "lists/other.json")[0]["id"]) == ("a", "b")

    @pytest.mark.parametrize(("name", "code"), [
        ("../out.json", "path_parent"), ("no/such/folder.json", "path_folder_missing"), ("link.json", "path_symlink"), ("folder", "path_special"),
        ("", "path_empty"), ("x" * 300, "path_too_long"),
    ])
    def test_a_path_that_is_refused_is_one_line(self, rag: Rag, folder: Path, name: str, code: str) -> None:
        (folder / "folder").mkdir()
        (folder / "link.json").symlink_to(folder / "corvid.toml")
        before = (folder / "corvid.toml").read_bytes()
        refused = rag("corpus", "add", "/srv/a", "--commit", PIN, "--list", name)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert f"[{code}]" in refused.err
        assert (folder / "corvid.toml").read_bytes() == before

    @pytest.mark.parametrize("content", ["", "{", '{"repos": 1}', '{"repos": [{"id": "a"}]}', "[" * 5000, "x" * 1_000_001])
    def test_a_list_that_is_refused_stays_as_it_is(self, rag: Rag, folder: Path, write: Write, content: str) -> None:
        write(LIST, content)
        refused = rag("corpus", "add", "/srv/a", "--commit", PIN, "--replace")
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith("rag: error [corpus_list_refused]: the corpus list 'corpus-repos.json' is refused: ")
        assert (folder / LIST).read_text() == content
        assert len(list(folder.iterdir())) == 2, "nothing is left beside it"

    def test_its_mode_and_other_keys_are_kept(self, rag: Rag, folder: Path, write: Write) -> None:
        write(LIST, '{"comment": "ours", "repos": []}').chmod(0o640)
        rag("corpus", "add", "/srv/a", "--commit", PIN)
        assert json.loads((folder / LIST).read_text())["comment"] == "ours"
        assert (folder / LIST).stat().st_mode & 0o777 == 0o640

    def test_a_folder_that_cannot_be_written_is_one_line(self, rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = os.open

        def forbidden(path: Any, flags: int, *more: Any, **where: Any) -> int:
            if str(path).endswith(".new"):  # what a folder without the right to write says to all but root
                raise PermissionError(13, "Permission denied")
            return opened(path, flags, *more, **where)

        monkeypatch.setattr(os, "open", forbidden)
        refused = rag("corpus", "add", "/srv/a", "--commit", PIN)
        assert (refused.code, refused.err) == (1, "rag: error: 'corpus-repos.json' cannot be written: Permission denied\n")

    def test_a_disk_that_is_full_leaves_the_list_whole(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        rag("corpus", "add", "/srv/a", "--commit", PIN)
        before = (folder / LIST).read_bytes()

        def full(_handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        refused = rag("corpus", "add", "/srv/b", "--commit", PIN)
        assert (refused.code, refused.err) == (1, "rag: error: 'corpus-repos.json' cannot be written: No space left on device\n")
        assert (folder / LIST).read_bytes() == before
        assert len(list(folder.iterdir())) == 2

    def test_what_a_killed_add_left_is_no_obstacle(self, rag: Rag, folder: Path, write: Write) -> None:
        write(f".{LIST}.new", "half a list " * 1000)
        assert rag("corpus", "add", "/srv/a", "--commit", PIN).code == 0
        assert [entry["id"] for entry in entries(folder)] == ["a"]
        assert not (folder / f".{LIST}.new").exists()

    @pytest.mark.parametrize("make", [lambda path: os.link(path.parent / "corvid.toml", path), os.mkfifo,
                                      lambda path: path.symlink_to(path.parent / "corvid.toml"), os.mkdir])
    def test_what_is_no_file_of_its_own_is_not_written_through(self, rag: Rag, folder: Path, make: Callable[[Path], None]) -> None:
        before = (folder / "corvid.toml").read_bytes()
        make(folder / f".{LIST}.new")
        refused = rag("corpus", "add", "/srv/a", "--commit", PIN)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert (folder / "corvid.toml").read_bytes() == before
        assert not (folder / LIST).exists()

    def test_many_at_once_lose_nothing(self, folder: Path) -> None:
        children = [subprocess.Popen([sys.executable, "-m", "rag_stdlib", "corpus", "add", f"/srv/r{number}", "--commit", PIN], cwd=folder,
                                     stdout=subprocess.DEVNULL) for number in range(4)]
        assert [child.wait(timeout=60) for child in children] == [0] * 4
        assert {entry["id"] for entry in entries(folder)} == {"r0", "r1", "r2", "r3"}

    def test_who_waits_for_the_list_sees_what_was_written_meanwhile(self, folder: Path) -> None:
        runtime = Runtime(Config(root=str(folder)))
        first_is_in, first_may_go, seen = threading.Event(), threading.Event(), list[bytes | None]()

        def first(held: bytes | None) -> Changed:
            seen.append(held)
            first_is_in.set()
            assert first_may_go.wait(30)
            return Changed("first", replaced=False)

        def second(held: bytes | None) -> Changed:
            seen.append(held)
            return Changed("second", replaced=False)

        threads = [threading.Thread(target=corpuslist.change_list, args=(runtime, LIST, change)) for change in (first, second)]
        threads[0].start()
        assert first_is_in.wait(30)
        threads[1].start()
        threads[1].join(0.2)
        first_may_go.set()
        for thread in threads:
            thread.join(30)
        assert (seen, (folder / LIST).read_text()) == ([None, b"first"], "second")

    def test_where_paths_cannot_be_anchored_it_is_written_all_the_same(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_stdlib.runtime.Root", lambda path: Root(path, anchored=False))
        assert rag("corpus", "add", "/srv/a", "--commit", PIN).code == 0
        assert [entry["id"] for entry in entries(folder)] == ["a"]


def test_without_the_effect_nothing_is_written(rag: Rag, folder: Path) -> None:
    (folder / "corvid.toml").write_text('[io]\nroot = "."\n[effects]\ngrant = ["rag_read"]\n')
    refused = rag("corpus", "add", "/srv/a", "--commit", PIN)
    assert refused.err.startswith("rag: error [effect_not_granted]: rag corpus add uses the effect rag_write")
    assert not (folder / LIST).exists()


def test_without_a_root_nothing_is_written(rag: Rag, folder: Path) -> None:
    (folder / "corvid.toml").unlink()
    assert rag("corpus", "add", "/srv/a", "--commit", PIN).err.startswith("rag: error [root_unconfigured]: ")
