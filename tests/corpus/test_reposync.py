"""One repository's sync goes wrong in every place it can, and the index, the other repositories and the counts are right all the same."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from git_repos import Repo
from syncing import INDEX, A, commits, found, listed, paths, synced

from rag_stdlib import Runtime
from rag_stdlib.corpus import gitcodes, reposync, status
from rag_stdlib.corpus.git import GitFailure, Mirror
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.status import last_scan
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import corpuswrite
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root


def once(error: Exception, real: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that fails the first time and is `real` from then on."""
    left = [error]

    def called(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments, **named)

    return called


@pytest.mark.parametrize(("error", "code"), [
    (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
    (OSError(errno.EACCES, "Permission denied"), "index_io"),
    (OSError("without a number"), "index_io"),
    (MemoryError(), "internal"),
])
def test_whatever_the_system_refuses_one_repository_has_the_others_go_on(
        hybrid: Runtime, alpha: Repo, beta: Repo, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str) -> None:
    monkeypatch.setattr(reposync, "TemporaryFile", once(error, reposync.TemporaryFile))
    report = synced(hybrid, listed(alpha), listed(beta, "beta"))
    assert (report["alpha"].outcome, report["beta"].outcome) == ("failed", "switched")
    assert report["alpha"].code == code
    assert (list(commits(hybrid)), paths(hybrid)) == (["beta"], ["beta/guide.md"])
    assert synced(hybrid, listed(alpha), listed(beta, "beta"))["alpha"].outcome == "switched"
    assert len(found("apples bananas")) == 2


def test_new_files_wait_beside_the_index_and_not_where_temporary_files_are(
        hybrid: Runtime, alpha: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, folders = reposync.TemporaryFile, []

    def opened(**named: Any) -> Any:
        folders.append(named["dir"])
        return real(**named)

    monkeypatch.setattr(reposync, "TemporaryFile", opened)
    synced(hybrid, listed(alpha))
    place = SyncPlace(Root(str(tmp_path)), INDEX)
    assert folders == [place.folder]
    assert {path.name for path in place.folder.iterdir()} == {"alpha.git", "alpha.git.lock", "status.json", "sync.lock"}


def test_git_is_ended_with_a_sync_that_is_interrupted(
        hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, real = [], Mirror.read_blobs

    def kept(*arguments: Any) -> Any:
        reading.append(real(*arguments))
        return reading[-1]

    def interrupt(_texts: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Mirror, "read_blobs", kept)
    monkeypatch.setattr(reposync, "_GROUP_CHUNKS", 1)
    embedder.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        synced(hybrid, listed(alpha))
    assert [iterator.gi_frame for iterator in reading] == [None], "closed, though somebody still has it"


def test_the_files_are_counted_while_they_are_read(
        hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced(hybrid, listed(alpha))
    alpha.commit({"c.md": A.replace("Apples", "Pears"), "d.md": A.replace("Apples", "Plums")})
    place, counts = SyncPlace(Root(str(tmp_path)), INDEX), []
    embedder.before = lambda _texts: counts.append(last_scan(place))
    monkeypatch.setattr(status, "_WRITE_SECONDS", 0.0)
    synced(hybrid, listed(alpha))
    assert [(told["state"], told["files_total"], told["files_seen"]) for told in counts] == [("scanning", 4, 3)], "as the last file was begun"
    told = last_scan(place)
    assert (told["files_total"], told["files_seen"], told["files_changed"], told["files_unchanged"]) == (4, 4, 2, 2)


def test_a_file_of_too_many_chunks_is_passed_over_and_one_that_is_refused_fails(
        hybrid: Runtime, alpha: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    real = reposync.new_file
    faults = {"README.md": fail("too_many_chunks", cap=1, chunk_chars=1)}

    def cut(repo: object, path: str, *more: Any) -> object:
        if path in faults:
            raise faults[path]
        return real(repo, path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(reposync, "new_file", cut)
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.passed_over, paths(hybrid)) == ("switched", (("README.md", "too_many_chunks"),), ["alpha/docs/b.md"])
    alpha.commit({"c.md": A})
    faults["c.md"] = fail("index_io", path=INDEX, detail="x")
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code, [path for path, *_ in report.failed]) == ("failed", "index_io", ["c.md"])
    assert report.error.startswith("c.md: ")


# --- somebody else writes between the making ready and the switch ---

def meddle(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    real = corpuswrite.switch

    def switch(store: Store, path: str, *more: Any) -> bool:
        with store.writing(path) as connection:
            connection.execute(statement)
        return real(store, path, *more)

    monkeypatch.setattr(corpuswrite, "switch", switch)


@pytest.mark.parametrize("statement", [
    "UPDATE rag_corpora SET branch = 'other'",
    "DELETE FROM rag_corpus_files WHERE doc_id LIKE '%README.md'",
    "DELETE FROM rag_corpus_staging",
    "DROP TABLE rag_corpus_staging",
])
def test_a_switch_that_was_made_ready_for_another_state_is_refused(
        hybrid: Runtime, alpha: Repo, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    synced(hybrid, listed(alpha))
    before = commits(hybrid)
    alpha.commit({"c.md": A.replace("Apples", "Pears")})
    with monkeypatch.context() as patched:
        meddle(patched, statement)
        report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code) == ("failed", "corpus_changed")
    with hybrid.store.reading(INDEX) as connection:
        assert connection.execute("SELECT commit_id FROM rag_corpora").fetchall() == [(before["alpha"],)]


def test_vectors_of_another_embedder_are_lent_to_nobody(tmp_path: Path, alpha: Repo, embedder: EmbedderDouble) -> None:
    from rag_stdlib import Config

    with Runtime(Config(), root=tmp_path) as lexical:
        synced(lexical, listed(alpha))
    alpha.commit({"README.md": None, "moved.md": A})
    with Runtime(Config(), root=tmp_path, embedder=embedder) as hybrid:
        assert synced(hybrid, listed(alpha))["alpha"].embedded == 1


# --- taking out, and what git says ---

def test_a_repository_that_cannot_be_taken_out_now_is_told_and_stays_whole(hybrid: Runtime, alpha: Repo, beta: Repo,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    synced(hybrid, listed(alpha), listed(beta, "beta"))
    with monkeypatch.context() as patched:
        patched.setattr(corpuswrite, "remove_repo", once(fail("busy", path=INDEX, seconds=5), corpuswrite.remove_repo))
        report = synced(hybrid, listed(beta, "beta"))
    assert [(one.id, one.outcome, one.code) for one in report.values()] == [("beta", "unchanged", ""), ("alpha", "failed", "busy")]
    assert (list(commits(hybrid)), len(found("apples"))) == (["alpha", "beta"], 1)
    assert synced(hybrid, listed(beta, "beta"))["alpha"].outcome == "removed"
    assert list(commits(hybrid)) == ["beta"]


def test_staged_vectors_that_cannot_be_thrown_away_now_fail_no_sync(
        hybrid: Runtime, alpha: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpuswrite, "unstage", once(fail("busy", path=INDEX, seconds=5), corpuswrite.unstage))
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "switched"
    with hybrid.store.reading(INDEX) as connection:
        assert connection.execute("SELECT count(*) FROM rag_corpus_staging").fetchall() == [(2,)]
    synced(hybrid, listed(alpha))
    with hybrid.store.reading(INDEX) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'rag_corpus_staging'").fetchall() == []


@pytest.mark.parametrize(("kind", "code"), [
    ("no_git", "git_missing"), ("unknown_branch", "repo_branch"), ("commit_not_on_branch", "commit_not_on_branch"), ("timeout", "repo_timeout"),
    ("busy", "corpus_busy"), ("unreachable", "repo_unreachable"), ("too_large", "repo_too_large"), ("failed", "repo_failed")])
def test_what_git_fails_with_has_a_code(kind: Any, code: str) -> None:
    made = gitcodes.as_failure(GitFailure(kind, "the detail"), ListedRepo("alpha", "/a", "main", "d" * 40), 7)
    assert isinstance(made, Failure)
    assert made.error.code == code
    assert "\n" not in str(made.error)
