"""`rag corpus sync` and `status`: what they show of what a sync does; what it does is tested with the corpus itself."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import Repo, needs_git
from embedder_double import EmbedderDouble

from rag_stdlib.cli import corpus
from rag_stdlib.cli.terminal import cells
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.root import Root

Write = Callable[..., Path]
Rag = Any  # see conftest
pytestmark = needs_git

TEXT = "# Refunds\n\nRefunds are paid within ten days of the return.\n"
SGR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Sources:
    """Repositories beside the index, and the list that names them at their tips."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repos: dict[str, Repo] = {}

    def commit(self, repo_id: str, files: dict[str | bytes, str | bytes | None]) -> str:
        if repo_id not in self.repos:
            self.repos[repo_id] = Repo(self.folder / "src" / f"{repo_id}.git")
        return self.repos[repo_id].commit(files)

    def list(self, pins: dict[str, str | None], **more: Any) -> None:
        entries = [{"id": repo_id, "url": str(self.folder / "src" / f"{repo_id}.git"), "branch": "main",
                    **({"commit": pin} if pin else {}), **more} for repo_id, pin in pins.items()]
        (self.folder / "corpus-repos.json").write_text(json.dumps({"repos": entries}))


@pytest.fixture
def sources(folder: Path, configure: Callable[[Any], None]) -> Sources:
    configure(EmbedderDouble())
    return Sources(folder)


def follow_heads(folder: Path) -> None:
    with (folder / "corvid.toml").open("a") as file:
        file.write('[corpus]\nregime = "head"\n')


class TestReports:
    """The lines at the end of a sync."""

    def test_a_line_for_each_repository_in_the_order_of_the_list(self, rag: Rag, sources: Sources) -> None:
        guide = sources.commit("guide", {"a.md": "# Levers\n\nPull the red lever to stop the machine.\n"})
        book = sources.commit("handbook", {"docs/a.md": TEXT, "docs/b.md": "# Lids\n\nPress the green button to open the lid.\n"})
        sources.list({"handbook": book, "guide": guide})
        done = rag("corpus", "sync", "kb.db")
        assert (done.code, done.err) == (0, "")
        assert done.out == (f"handbook  switched   {book[:12]}  2 new; 2 chunks, 2 embedded\n"
                            f"guide     switched   {guide[:12]}  1 new; 1 chunk, 1 embedded\n")
        assert rag("corpus", "sync", "kb.db").out == (f"handbook  unchanged  {book[:12]}  2 unchanged\n"
                                                      f"guide     unchanged  {guide[:12]}  1 unchanged\n")

    def test_what_a_switch_and_a_removal_change_is_counted(self, rag: Rag, sources: Sources) -> None:
        first = sources.commit("a", {"x.md": TEXT, "y.md": TEXT, "z.md": TEXT})
        other = sources.commit("b", {"x.md": TEXT})
        sources.list({"a": first, "b": other})
        rag("corpus", "sync", "kb.db")
        second = sources.commit("a", {"x.md": TEXT + "More of it.\n", "y.md": None, "new.md": TEXT})
        sources.list({"a": second})
        lines = rag("corpus", "sync", "kb.db").out.splitlines()
        assert lines[0].startswith(f"a  switched   {second[:12]}  1 new, 1 changed, 1 unchanged, 1 gone; 2 chunks")
        assert lines[1:] == [f"b  removed    {'-':<12}  1 gone"]

    def test_files_that_are_passed_over_are_counted_by_reason_and_listed_in_json(self, rag: Rag, sources: Sources) -> None:
        pin = sources.commit("a", {"x.md": TEXT, "main.c": "int x;", "y.c": "int y;", "LICENSE.md": TEXT, "b.md": b"# B\0inary"})
        sources.list({"a": pin})
        assert "\n   passed over: 2 not_markdown, 1 binary, 1 boilerplate\n" in rag("corpus", "sync", "kb.db").out
        sources.list({"a": sources.commit("a", {"x.md": None, "w.md": TEXT})})
        (report,) = rag("corpus", "sync", "kb.db", "--json").json["repos"]
        assert (report["outcome"], report["new"], report["gone"], report["before"]) == ("switched", 1, 1, pin)
        assert ["LICENSE.md", "boilerplate"] in report["passed_over"]

    def test_one_that_fails_stops_no_other_and_the_exit_code_says_so(self, rag: Rag, sources: Sources) -> None:
        good = sources.commit("good", {"a.md": TEXT})
        sources.commit("bad", {"a.md": TEXT})
        sources.list({"bad": "b" * 40, "gone": "c" * 40, "good": good})
        done = rag("corpus", "sync", "kb.db")
        assert done.code == 1
        assert [line.split()[:3] for line in done.out.splitlines()] == [["bad", "failed", "-"], ["gone", "failed", "-"], ["good", "switched", good[:12]]]
        bad, gone = done.err.splitlines()
        assert bad.startswith(f"rag: failed [commit_not_on_branch]: repository 'bad': the pinned commit {'b' * 40} is not on its branch 'main'")
        assert gone.startswith("rag: failed [repo_unreachable]: repository 'gone' cannot be fetched: ")
        assert rag("corpus", "sync", "kb.db", "--json").code == 1

    def test_a_file_that_cannot_be_embedded_is_named_with_its_repository(self, rag: Rag, sources: Sources, configure: Callable[[Any], None]) -> None:
        double = EmbedderDouble()
        double.fail_after = 0
        configure(double)
        pin = sources.commit("a", {b"evil\x1b[2J.md": TEXT, "second.md": TEXT.replace("ten", "twelve")})
        sources.list({"a": pin})
        done = rag("corpus", "sync", "kb.db")
        assert (done.code, done.out.split()[:3]) == (1, ["a", "failed", "-"])
        assert all(line.startswith(("rag: failed [embedder_failed]: 'a': ", "rag: failed: 'a': ")) for line in done.err.splitlines())
        assert "evil" in done.err
        assert "second.md" in done.err
        assert "\x1b" not in done.err

    def test_an_empty_list_takes_everything_out(self, rag: Rag, sources: Sources) -> None:
        sources.list({"a": sources.commit("a", {"a.md": TEXT})})
        rag("corpus", "sync", "kb.db")
        sources.list({})
        assert rag("corpus", "sync", "kb.db").out == "a  removed    -             1 gone\n"
        again = rag("corpus", "sync", "kb.db")
        assert (again.code, again.out, again.err) == (0, "", "rag: note: the list names no repository, and the index serves none\n")

    def test_the_bounds_of_the_configuration_hold(self, rag: Rag, sources: Sources, folder: Path) -> None:
        with (folder / "corvid.toml").open("a") as file:
            file.write("[corpus]\nmax_file_mb = 1\nmax_repo_mb = 2\nfetch_timeout_s = 60\n")
        sources.list({"a": sources.commit("a", {"a.md": TEXT, "large.md": "words and " * 100_001})})
        assert "passed over: 1 too_large" in rag("corpus", "sync", "kb.db").out

    def test_other_regime_other_list(self, rag: Rag, sources: Sources, folder: Path) -> None:
        pin = sources.commit("a", {"docs/a.md": TEXT, "other.md": TEXT})
        follow_heads(folder)
        sources.list({"a": pin})
        assert rag("corpus", "sync", "kb.db").err.startswith("rag: error [corpus_list_refused]: the corpus list 'corpus-repos.json' is refused: ")
        sources.list({"a": None}, paths=["docs"])
        assert rag("corpus", "sync", "kb.db").out.splitlines()[1] == "   passed over: 1 outside_paths"
        moved = sources.commit("a", {"docs/b.md": TEXT})
        assert rag("corpus", "sync", "kb.db").out.startswith(f"a  switched   {moved[:12]}  1 new, 1 unchanged")


class TestRefusals:
    """What ends a sync before it begins."""

    @pytest.mark.parametrize("command", ["sync", "status"])
    def test_a_list_that_is_missing_or_refused(self, rag: Rag, folder: Path, write: Write, command: str) -> None:
        missing = rag("corpus", command, "kb.db")
        assert (missing.code, missing.out) == (1, "")
        assert missing.err.startswith("rag: error [corpus_list_missing]: there is no corpus list 'corpus-repos.json'; add a repository with: rag corpus add")
        assert rag("corpus", command, "kb.db", "--list", "no/list.json").err.startswith("rag: error [corpus_list_missing]")
        write("bad.json", '{"repos": [{"id": "A"}]}')
        refused = rag("corpus", command, "kb.db", "--list", "bad.json")
        assert refused.err.startswith("rag: error [corpus_list_refused]: the corpus list 'bad.json' is refused: entry 1: id \"A\": ")
        (folder / "link.json").symlink_to(folder / "bad.json")
        assert rag("corpus", command, "kb.db", "--list", "link.json").err.startswith("rag: error [path_symlink]: ")
        assert not (folder / "kb.db").exists()
        assert not (folder / ".rag").exists()

    def test_another_sync_of_the_index(self, rag: Rag, sources: Sources, folder: Path) -> None:
        sources.list({"a": sources.commit("a", {"a.md": TEXT})})
        with SyncPlace(Root(str(folder)), "kb.db").locked():
            assert rag("corpus", "sync", "kb.db").err.startswith("rag: error [corpus_busy]: the index 'kb.db' is being synced by another process")

    @pytest.mark.parametrize("index", ["../kb.db", "corvid.toml", ""])
    def test_an_index_that_can_be_none(self, rag: Rag, sources: Sources, index: str) -> None:
        sources.list({})
        for command in ("sync", "status"):
            refused = rag("corpus", command, index)
            assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)

    def test_effects_that_are_not_granted(self, rag: Rag, sources: Sources, folder: Path) -> None:
        sources.list({})
        for grant, command in (('["rag_read"]', "sync"), ('["rag_write"]', "status")):
            (folder / "corvid.toml").write_text(f'[io]\nroot = "."\n[effects]\ngrant = {grant}\n')
            assert rag("corpus", command, "kb.db").err.startswith(f"rag: error [effect_not_granted]: rag corpus {command} ")


class TestCtrlC:
    """A sync that is stopped."""

    def test_it_says_what_is_stored_and_goes_on_when_it_is_run_again(self, rag: Rag, sources: Sources, configure: Callable[[Any], None]) -> None:
        def stop(texts: Sequence[str]) -> None:
            if any("second" in text for text in texts):
                raise KeyboardInterrupt

        configure(EmbedderDouble(before=stop))
        sources.list({"a": sources.commit("a", {"a.md": TEXT}), "b": sources.commit("b", {"a.md": TEXT.replace("ten", "second")})})
        stopped = rag("corpus", "sync", "kb.db")
        assert (stopped.code, stopped.out) == (130, "")
        assert stopped.err == ("rag: stopped; what was switched is stored and the rest is served as before, as rag corpus status shows, "
                               "and the same command goes on from there\n")
        assert " s, stopped after 1 of 2 repositories; 1 file new or changed" in rag("corpus", "status", "kb.db").out
        configure(EmbedderDouble())
        assert [line.split()[1] for line in rag("corpus", "sync", "kb.db").out.splitlines()] == ["unchanged", "switched"]


class Terminal(StringIO):
    """A screen that keeps what was written."""

    def isatty(self) -> bool:
        return True


class TestProgress:
    """The bars of a sync."""

    @pytest.mark.parametrize("width", [80, 130])
    def test_repository_and_file_are_shown_and_nothing_is_cut(self, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width))
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        with corpus._bars() as told:
            for repo_id in ("handbook", "documentation-of-everything"):
                told(repo_id, "", 0, 0)
                time.sleep(0.15)
                told(repo_id, "docs/[bold]a\x1b[2J.md", 999_000_000, 1_999_000_000)
                time.sleep(0.15)
                told(repo_id, "", 1_999_000_000, 1_999_000_000)
        text = SGR.sub("", screen.getvalue())
        assert "handbook" in text
        assert "documentation-o\u2026" in text
        assert "999.0 MB of 2.0 GB" in text
        assert ("docs/[bold]a\ufffd[2J.md" in text) == ("fetching" in text) == ("storing" in text) == (width >= 100)
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
        assert all(sum(map(cells, line)) <= width for line in lines)

    def test_a_pipe_gets_none(self, spawn: Any, sources: Sources) -> None:
        sources.list({})
        done = spawn("corpus", "sync", "kb.db", env={"PYTHONWARNINGS": "error"})
        assert (done.returncode, done.stdout) == (0, b"")
        assert b"\x1b" not in done.stderr


class TestStatus:
    """`rag corpus status`."""

    def test_before_the_first_sync(self, rag: Rag, sources: Sources) -> None:
        pin = sources.commit("a", {"a.md": TEXT})
        sources.list({"a": pin})
        told = rag("corpus", "status", "kb.db")
        assert (told.code, told.err) == (0, "rag: note: there is no index 'kb.db' yet\n")
        assert told.out == f"a  not served  listed: main at {pin[:12]}\nno sync is known of\n"

    def test_why_the_last_sync_failed_stands_below_the_repository(self, rag: Rag, sources: Sources) -> None:
        sources.commit("a", {"a.md": TEXT})
        sources.list({"a": "b" * 40})
        rag("corpus", "sync", "kb.db")
        first, why, last = rag("corpus", "status", "kb.db").out.splitlines()
        assert first == f"a  not served  listed: main at {'b' * 12}"
        assert why.startswith(f"   failed at the last sync [commit_not_on_branch]: repository 'a': the pinned commit {'b' * 40} is not on its branch 'main'")
        assert last.startswith("last sync: ")

    def test_each_state_a_repository_can_be_in(self, rag: Rag, sources: Sources) -> None:
        pins = {name: sources.commit(name, {"a.md": TEXT, "b.md": TEXT}) for name in ("asis", "moved", "left")}
        sources.list(pins)
        rag("corpus", "sync", "kb.db")
        tip = sources.commit("moved", {"a.md": None})
        new = sources.commit("new", {"a.md": TEXT})
        sources.list({"new": new, "asis": pins["asis"], "moved": tip})
        told = rag("corpus", "status", "kb.db")
        assert (told.code, told.err) == (0, "")
        *rows, last = told.out.splitlines()
        assert rows == [
            f"new    not served  listed: main at {new[:12]}",
            f"asis   served      main at {pins['asis'][:12]}, 2 files",
            f"moved  behind      main at {pins['moved'][:12]}, 2 files; listed: main at {tip[:12]}",
            f"left   not listed  main at {pins['left'][:12]}, 2 files",
        ]
        assert re.fullmatch(r"last sync: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, [\d.]+ s, 3 of 3 repositories; "
                            r"6 files new or changed, 0 unchanged, 0 failed; \d+ chunks?", last)

    def test_in_the_regime_head_other_paths_are_behind_and_the_branch_is_not_asked(self, rag: Rag, sources: Sources, folder: Path) -> None:
        follow_heads(folder)
        tip = sources.commit("a", {"docs/a.md": TEXT})
        sources.list({"a": None})
        rag("corpus", "sync", "kb.db")
        sources.commit("a", {"docs/a.md": TEXT + "More.\n"})
        assert rag("corpus", "status", "kb.db").out.startswith(f"a  served      main at {tip[:12]}, 1 file\n")
        sources.list({"a": None}, paths=["docs"])
        assert rag("corpus", "status", "kb.db").out.startswith(f"a  behind      main at {tip[:12]}, 1 file; listed: main\n")

    def test_json_has_what_is_served_what_is_listed_and_the_sync(self, rag: Rag, sources: Sources) -> None:
        pin = sources.commit("a", {"a.md": TEXT})
        sources.list({"a": pin})
        rag("corpus", "sync", "kb.db")
        found = rag("corpus", "status", "kb.db", "--json").json
        at = {"url": sources.repos["a"].url, "branch": "main", "commit": pin}
        assert found["repos"] == [{"id": "a", "state": "served", "served": at, "listed": at, "files": 1}]
        assert (found["sync"]["state"], found["sync"]["repos_done"], found["sync"]["files_changed"]) == ("idle", 1, 1)

    def test_nothing_listed_and_nothing_served(self, rag: Rag, sources: Sources) -> None:
        sources.list({})
        told = rag("corpus", "status", "kb.db")
        assert told.out == "no sync is known of\n"
        assert told.err.endswith("rag: note: the list names no repository, and the index serves none\n")

    @pytest.mark.parametrize(("kept", "locked", "line"), [
        ({"state": "scanning", "started_at": 1_700_000_000_000, "repos_done": 1, "repos_total": 3, "files_seen": 1200, "files_total": 3000,
          "current": {"repo": "a", "path": "x\x1b[2J.md"}}, True,
         "syncing since 2023-11-14 22:13:20 UTC: 1 of 3 repositories done, at a/x\ufffd[2J.md; 1,200 of 3,000 files read, 0 failed"),
        ({"state": "scanning", "started_at": 1_700_000_000_000, "current": None}, True,
         "syncing since 2023-11-14 22:13:20 UTC: 0 of 0 repositories done; 0 of 0 files read, 0 failed"),
        ({"state": "scanning", "started_at": 1_700_000_000_000, "repos_done": 1, "repos_total": 1}, False,
         "last sync: begun 2023-11-14 22:13:20 UTC, ended before its time with 1 of 1 repository done; run rag corpus sync again"),
        ({"state": "idle", "started_at": 10**30, "repos_done": "x\x1b", "files_changed": None}, False,
         "last sync: at no known time, 0.0 s, 0 of 0 repositories; 0 files new or changed, 0 unchanged, 0 failed; 0 chunks"),
        ({"state": 7}, False, "no sync is known of"),
        ({"state": [], "started_at": 0}, False,
         "last sync: 1970-01-01 00:00:00 UTC, 0.0 s, 0 of 0 repositories; 0 files new or changed, 0 unchanged, 0 failed; 0 chunks"),
    ])
    def test_what_is_kept_of_a_sync_is_told_whatever_it_is(
            self, rag: Rag, sources: Sources, folder: Path, kept: dict[str, Any], locked: bool, line: str) -> None:
        sources.list({})
        place = SyncPlace(Root(str(folder)), "kb.db")
        with place.locked():
            place.status.write_text(json.dumps(kept))
            told = rag("corpus", "status", "kb.db") if locked else None
        told = told or rag("corpus", "status", "kb.db")
        assert (told.code, told.out) == (0, f"{line}\n")


@pytest.mark.parametrize("words", [("add", "/srv/a"), ("sync", "kb.db")])
def test_a_system_without_file_locks_is_told_of_in_a_line(rag: Rag, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "fcntl" else find(name, *more))
    refused = rag("corpus", *words)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert "POSIX file locks" in refused.err
