"""Syncing two real repositories: the right state after each thing that happens to them, and nothing half done (B4, B9, B16, X4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from git_repos import Repo, git
from syncing import INDEX, A, B, commits, found, listed, paths, reasons, synced

from rag_stdlib import Config, Failure, Runtime, rag_get, rag_ingest, rag_stats
from rag_stdlib.corpus import reposync
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.reposync import RepoReport
from rag_stdlib.corpus.status import last_scan
from rag_stdlib.corpus.sync import SyncLimits, sync
from rag_stdlib.index import corpora, served
from rag_stdlib.root import Root

MakeRepo = Callable[..., Repo]


def head(repo: Repo, branch: str = "main") -> str:
    return git("rev-parse", f"refs/heads/{branch}", folder=repo.folder).decode().strip()


# --- the regimes ---

def test_two_repositories_are_served_at_their_heads_in_list_order(hybrid: Runtime, alpha: Repo, beta: Repo) -> None:
    report = synced(hybrid, listed(beta, "beta"), listed(alpha))
    assert [(one.id, one.outcome, one.new, one.before) for one in report.values()] == [("beta", "switched", 1, ""), ("alpha", "switched", 2, "")]
    assert list(commits(hybrid).items()) == [("beta", head(beta)), ("alpha", head(alpha))]
    assert paths(hybrid) == ["alpha/README.md", "alpha/docs/b.md", "beta/guide.md"]
    assert len(found("apples bananas cherries")) == 3


def test_b16_a_pin_serves_the_reviewed_commit_whatever_is_pushed(hybrid: Runtime, alpha: Repo) -> None:
    pin = head(alpha)
    pushed = alpha.commit({"README.md": "# Alpha\n\nUnreviewed words about quinces and their bitter skins.\n"})
    assert synced(hybrid, listed(alpha, commit=pin))["alpha"].outcome == "switched"
    assert commits(hybrid) == {"alpha": pin}
    assert found("quinces") == []
    report = synced(hybrid, listed(alpha, commit=pin))["alpha"]
    assert (report.outcome, report.unchanged) == ("unchanged", 2)
    moved = synced(hybrid, listed(alpha, commit=pushed))["alpha"]
    assert (moved.outcome, moved.before, moved.new, moved.changed, moved.unchanged, moved.gone) == ("switched", pin, 0, 1, 1, 0)
    assert (commits(hybrid), len(found("quinces"))) == ({"alpha": pushed}, 1)


def test_a_pin_can_move_back(hybrid: Runtime, alpha: Repo) -> None:
    first = head(alpha)
    second = alpha.commit({"README.md": None})
    synced(hybrid, listed(alpha, commit=second))
    assert paths(hybrid) == ["alpha/docs/b.md"]
    synced(hybrid, listed(alpha, commit=first))
    assert (commits(hybrid), paths(hybrid)) == ({"alpha": first}, ["alpha/README.md", "alpha/docs/b.md"])


@pytest.mark.parametrize("where", ["another branch", "nowhere"])
def test_a_pin_that_is_not_on_the_branch_is_refused_and_what_was_served_stays(hybrid: Runtime, alpha: Repo, where: str) -> None:
    pin = head(alpha)
    synced(hybrid, listed(alpha, commit=pin))
    stray = alpha.commit({"README.md": "# Stray\n\nWords of a branch that nobody reviewed, about plums.\n"}, "side") if where == "another branch" else "d" * 40
    report = synced(hybrid, listed(alpha, commit=stray))["alpha"]
    assert (report.outcome, report.code, report.commit) == ("failed", "commit_not_on_branch", pin)
    assert stray in report.error
    assert (commits(hybrid), found("plums")) == ({"alpha": pin}, [])


def test_a_forced_push_moves_a_followed_head_and_takes_a_pin_off_its_branch(hybrid: Runtime, alpha: Repo) -> None:
    pin = head(alpha)
    synced(hybrid, listed(alpha, commit=pin))
    forced = alpha.commit({"README.md": "# Alpha\n\nRewritten history about damsons and their dark juice.\n"}, parent=None)
    report = synced(hybrid, listed(alpha, commit=forced))["alpha"]
    assert (report.outcome, report.gone, report.changed) == ("switched", 1, 1)
    assert synced(hybrid, listed(alpha, commit=pin))["alpha"].code == "commit_not_on_branch"
    assert commits(hybrid) == {"alpha": forced}
    assert synced(hybrid, listed(alpha))["alpha"].commit == forced
    other = alpha.commit({"docs/c.md": B}, parent=None)
    assert synced(hybrid, listed(alpha))["alpha"].commit == other
    assert (commits(hybrid), paths(hybrid)) == ({"alpha": other}, ["alpha/docs/c.md"])


# --- files come, change and go ---

def test_b4_the_branch_head_story(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    alpha.commit({"long.md": "# Long\n\n" + "Every sentence here is about medlars. " * 200})
    synced(hybrid, listed(alpha))
    with hybrid.store.reading(INDEX) as connection:
        old = [served.chunk_id(chunk) for chunk in served.chunks_of(connection, "corpus:alpha/long.md", 500)]
    asked = embedder.texts
    alpha.commit({"long.md": "# Long\n\nOne short sentence about loquats, and a little more of it.\n", "docs/b.md": None})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.changed, report.unchanged, report.gone, report.embedded) == (1, 1, 1, 1)
    assert embedder.texts == asked + 1
    assert (found("medlars"), len(found("loquats")), found("bananas")) == ([], 1, [])
    with hybrid.store.reading(INDEX) as connection:
        assert [served.chunk(connection, name) for name in old] == [None] * len(old)
        blobs = corpora.state(connection, "alpha").blobs
    assert blobs.keys() == {"corpus:alpha/README.md", "corpus:alpha/long.md"}
    calls = len(embedder.calls)
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "unchanged"
    assert len(embedder.calls) == calls


def test_a_renamed_file_keeps_its_vectors(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    synced(hybrid, listed(alpha))
    asked = embedder.texts
    alpha.commit({"docs/b.md": None, "docs/renamed.md": B})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.new, report.gone, report.embedded, embedder.texts) == (1, 1, 0, asked)
    assert paths(hybrid) == ["alpha/README.md", "alpha/docs/renamed.md"]
    assert len(found("bananas")) == 1


def test_b7_what_is_no_text_is_read_as_far_as_it_goes_or_passed_over(hybrid: Runtime, alpha: Repo) -> None:
    latin = "# Café\n\nUn café au lait, s'il vous plaît, et un croissant beurré.\n".encode("latin-1")
    image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" * 40
    alpha.commit({"latin.md": latin, "image.md": image, "late-nul.md": b"# Zero\n\n" + b"Words about nectarines. " * 400 + b"\0 end of it.\n"})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert report.outcome == "switched"
    assert reasons(report.passed_over)["image.md"] == "binary"
    assert "alpha/image.md" not in paths(hybrid)
    document = rag_get(INDEX, "corpus:alpha/latin.md").unwrap()
    assert document.text.startswith("# Caf\N{REPLACEMENT CHARACTER}\n\nUn caf\N{REPLACEMENT CHARACTER} au lait")
    with hybrid.store.reading(INDEX) as connection:
        assert served.document_bytes(connection, "corpus:alpha/latin.md") == latin
        assert (served.document_bytes(connection, "corpus:alpha/late-nul.md") or b"").endswith(b"\0 end of it.\n")
    assert len(found("croissant")) == 1
    alpha.commit({"latin.md": image})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.gone, reasons(report.passed_over)["latin.md"]) == (1, "binary")
    assert found("croissant") == []


def test_links_submodules_boilerplate_and_large_files_are_passed_over_by_rule(hybrid: Runtime, alpha: Repo) -> None:
    alpha.commit({"out.md": "../../../etc/passwd"}, mode="120000")
    alpha.commit({"LICENSE.md": A, ".github/ISSUE.md": A, "huge.md": b"# Huge\n\n" + b"x" * 50_000_000, "code.py": "print()"})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert report.outcome == "switched"
    assert dict(report.passed_over) == {"out.md": "symlink", "LICENSE.md": "boilerplate", ".github/ISSUE.md": "boilerplate",
                                        "huge.md": "too_large", "code.py": "not_markdown"}
    assert (paths(hybrid), commits(hybrid)) == (["alpha/README.md", "alpha/docs/b.md"], {"alpha": head(alpha)})
    assert found("passwd root") == []


def test_b10_names_in_any_script(hybrid: Runtime, alpha: Repo) -> None:
    alpha.commit({"指南/入门.md": A, b"bad\xff.md": A, "line\nbreak.md": A})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert "alpha/指南/入门.md" in paths(hybrid)
    assert "alpha/line\nbreak.md" in paths(hybrid)
    assert [reason for _, reason in report.passed_over] == ["name_not_utf8"]


def test_only_the_listed_paths_and_other_paths_later(hybrid: Runtime, alpha: Repo) -> None:
    alpha.commit({"docsx/c.md": A, "docs/deep/d.md": B})
    synced(hybrid, listed(alpha, paths=("docs/",)))
    assert paths(hybrid) == ["alpha/docs/b.md", "alpha/docs/deep/d.md"]
    assert synced(hybrid, listed(alpha, paths=("docs/",)))["alpha"].outcome == "unchanged"
    report = synced(hybrid, listed(alpha, paths=("docs/deep", "README.md")))["alpha"]
    assert (report.new, report.unchanged, report.gone) == (1, 1, 1)
    assert paths(hybrid) == ["alpha/README.md", "alpha/docs/deep/d.md"]


def test_files_of_the_same_name_do_not_collide(hybrid: Runtime, alpha: Repo, beta: Repo) -> None:
    beta.commit({"README.md": "# Other\n\nAnother readme, about another fruit: the persimmon.\n"})
    synced(hybrid, listed(alpha), listed(beta, "beta"))
    assert {"alpha/README.md", "beta/README.md"} <= set(paths(hybrid))
    assert len(found("apples")) == len(found("persimmon")) == 1


def test_a_repository_that_leaves_the_list_loses_all(hybrid: Runtime, alpha: Repo, beta: Repo, tmp_path: Path) -> None:
    synced(hybrid, listed(alpha), listed(beta, "beta"))
    report = synced(hybrid, listed(beta, "beta"))
    assert (report["alpha"].outcome, report["alpha"].gone) == ("removed", 2)
    assert (list(commits(hybrid)), paths(hybrid), found("apples")) == (["beta"], ["beta/guide.md"], [])
    assert not SyncPlace(Root(str(tmp_path)), INDEX).mirror("alpha").exists()
    last = synced(hybrid)["beta"]
    assert (last.outcome, last.before, last.gone) == ("removed", head(beta), 1)
    assert RepoReport.from_dict(last.to_dict()) == last
    assert commits(hybrid) == {}


def test_another_branch_or_address_of_the_same_repository(hybrid: Runtime, alpha: Repo, make_repo: MakeRepo) -> None:
    side = alpha.commit({"README.md": "# Side\n\nA branch of its own about kumquats and their peel.\n"}, "side", parent=None)
    synced(hybrid, listed(alpha))
    assert synced(hybrid, listed(alpha, branch="side"))["alpha"].commit == side
    assert (paths(hybrid), len(found("kumquats"))) == (["alpha/README.md"], 1)
    moved = make_repo("elsewhere")
    moved.commit({"README.md": A})
    assert synced(hybrid, listed(moved))["alpha"].commit == head(moved)
    assert len(found("apples")) == 1


# --- what fails keeps what was ---

def test_a_repository_that_fails_keeps_no_other_from_moving(hybrid: Runtime, alpha: Repo, beta: Repo) -> None:
    gone = ListedRepo("gone", str(alpha.folder) + "-missing", "main")
    report = synced(hybrid, listed(alpha), gone, listed(beta, "beta"))
    assert [one.outcome for one in report.values()] == ["switched", "failed", "switched"]
    assert (report["gone"].code, report["gone"].commit) == ("repo_unreachable", "")
    assert list(commits(hybrid)) == ["alpha", "beta"]
    missing = synced(hybrid, listed(alpha, branch="nope"), listed(beta, "beta"))["alpha"]
    assert (missing.code, "nope" in missing.error) == ("repo_branch", True)
    assert commits(hybrid)["alpha"] == head(alpha)


def test_an_embedder_that_fails_leaves_the_old_head_whole_and_embeds_nothing_twice(
        hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reposync, "_GROUP_CHUNKS", 1)
    before = head(alpha)
    synced(hybrid, listed(alpha))
    content = rag_stats(INDEX).unwrap().content
    alpha.commit({"README.md": A.replace("Apples", "Pears"), **{f"new{n}.md": f"# New {n}\n\nFile number {n} with words about quince {n}.\n" for n in range(8)}})
    embedder.fail_after, asked = 4, embedder.texts
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code, report.commit) == ("failed", "embedder_failed", before)
    assert len(report.failed) >= 1
    assert (commits(hybrid), rag_stats(INDEX).unwrap().content, found("pears quince")) == ({"alpha": before}, content, [])
    embedder.fail_after = None
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "switched"
    assert embedder.texts - asked == 9, "what was embedded before the failure was kept"
    assert commits(hybrid) == {"alpha": head(alpha)}


def test_b9_one_file_that_crashes_the_chunker_is_named_and_the_head_does_not_move(
        hybrid: Runtime, alpha: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    before = head(alpha)
    synced(hybrid, listed(alpha))
    alpha.commit({"crash.md": "# Crash\n\nThis one crashes the program that reads it.\n", "fine.md": "# Fine\n\nThis one is fine, and waits.\n"})
    real = reposync.new_file

    def crashing(repo: object, path: str, blob: str, data: bytes) -> object:
        if path == "crash.md":
            raise ZeroDivisionError(path)
        return real(repo, path, blob, data)  # type: ignore[arg-type]

    monkeypatch.setattr(reposync, "new_file", crashing)
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code, [(path, code) for path, code, _ in report.failed]) == ("failed", "internal", [("crash.md", "internal")])
    assert (commits(hybrid), "crash.md" in caplog.text) == ({"alpha": before}, True)
    monkeypatch.undo()
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "switched"


def test_a_repository_beyond_the_bounds_is_refused(hybrid: Runtime, alpha: Repo, noise: bytes) -> None:
    alpha.commit({"blob.bin": noise})
    report = synced(hybrid, listed(alpha), limits=SyncLimits(repo_bytes=200_000))["alpha"]
    assert (report.outcome, report.code) == ("failed", "repo_too_large")
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "switched"


def test_another_embedder_is_refused_before_anything_is_cut(hybrid: Runtime, alpha: Repo, tmp_path: Path) -> None:
    synced(hybrid, listed(alpha))
    alpha.commit({"new.md": B})
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model="another")) as other:
        report = synced(other, listed(alpha))["alpha"]
    assert (report.outcome, report.code) == ("failed", "embedding_mismatch")


def test_without_an_embedder_a_corpus_is_searched_by_its_words(lexical: Runtime, alpha: Repo) -> None:
    report = synced(lexical, listed(alpha))["alpha"]
    assert (report.outcome, report.embedded, len(found("apples"))) == ("switched", 0, 1)
    with pytest.raises(Failure) as caught:
        commits(lexical)
    assert caught.value.error.code == "no_embed_model"


def test_x1_a_document_that_stands_where_a_file_belongs_is_not_replaced(hybrid: Runtime, alpha: Repo) -> None:
    rag_ingest(INDEX, "corpus:alpha/README.md", "mine", "my own words about my own things", 100).unwrap()
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code) == ("failed", "corpus_conflict")
    assert (rag_get(INDEX, "corpus:alpha/README.md").unwrap().text, commits(hybrid)) == ("my own words about my own things", {})


def test_syncing_needs_the_right_to_write(tmp_path: Path, alpha: Repo) -> None:
    with Runtime(Config(grant=frozenset({"rag_read"})), root=tmp_path, embedder=EmbedderDouble()) as runtime, pytest.raises(Failure) as caught:
        sync(runtime, INDEX, [listed(alpha)])
    assert caught.value.error.code == "effect_not_granted"
    assert not (tmp_path / INDEX).exists()


def test_an_interrupted_sync_is_gone_on_with(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reposync, "_GROUP_CHUNKS", 1)
    alpha.commit({f"{n}.md": f"# File {n}\n\nThe file of number {n} is about fruit number {n}.\n" for n in range(6)})
    place, calls = SyncPlace(Root(str(tmp_path)), INDEX), 0

    def interrupt(_texts: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt

    embedder.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        synced(hybrid, listed(alpha))
    assert commits(hybrid) == {}
    assert (last_scan(place)["state"], place.is_locked()) == ("idle", False)
    asked = embedder.texts
    assert synced(hybrid, listed(alpha))["alpha"].outcome == "switched"
    assert (asked, embedder.texts) == (3, 8)


def test_the_status_counts_what_was_done(hybrid: Runtime, alpha: Repo, beta: Repo, tmp_path: Path) -> None:
    heard: list[tuple[str, str, int, int]] = []
    sync(hybrid, INDEX, [listed(alpha), listed(beta, "beta")], told=lambda *told: heard.append(told), clock=lambda: 100.0)
    told = last_scan(SyncPlace(Root(str(tmp_path)), INDEX))
    assert {name: told[name] for name in ("state", "repos_total", "repos_done", "files_total", "files_seen", "files_changed", "files_unchanged",
                                          "files_embedded", "files_failed", "chunks_written", "last_ingest_at", "current")} == {
        "state": "idle", "repos_total": 2, "repos_done": 2, "files_total": 3, "files_seen": 3, "files_changed": 3, "files_unchanged": 0,
        "files_embedded": 3, "files_failed": 0, "chunks_written": 3, "last_ingest_at": 100_000, "current": None}
    assert [(repo, file) for repo, file, _, _ in heard if file] == [("alpha", "README.md"), ("alpha", "docs/b.md"), ("beta", "guide.md")]
    assert all(done <= total for _, _, done, total in heard)


def test_readers_see_one_head_or_the_other_while_syncs_go_on(tmp_path: Path, alpha: Repo, embedder: EmbedderDouble) -> None:
    """X4: description and hits come from one snapshot, so no answer straddles two heads."""
    bodies = {state: {f"{name}.md": f"# {name}\n\nCommon words of the page {name} in its state {state}, nothing else.\n" for name in "abcd"} for state in "12"}
    stop, torn, seen = threading.Event(), [], set()

    def ask() -> None:
        from rag_stdlib.corpus.describe import describe, identity_of
        from rag_stdlib.index import search

        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as reader:
            while not stop.wait(0.002):  # the sync gets its turns, too
                with reader.store.snapshot(INDEX) as snapshot:
                    described = describe(snapshot.connection, identity_of(snapshot.connection, INDEX, reader.embedder))
                    (answer,) = search.answers(snapshot, INDEX, search.Query(20, "lexical"), ["common words"], {})
                commit = described["repos"][0]["commit"]
                states = {chunk.text.split("state ")[1][0] for chunk in answer.chunks}
                if {chunk.metadata["commit"] for chunk in answer.chunks} != {commit} or len(answer.chunks) != 4 or len(states) != 1:
                    torn.append((described, answer))
                seen.add(commit)

    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        alpha.commit({"README.md": None, "docs/b.md": None, **bodies["1"]})
        synced(runtime, listed(alpha))
        readers = [threading.Thread(target=ask) for _ in range(2)]
        for reader in readers:
            reader.start()
        for turn in range(10):
            alpha.commit(bodies["21"[turn % 2]])
            assert synced(runtime, listed(alpha))["alpha"].outcome == "switched"
        stop.set()
        for reader in readers:
            reader.join()
    assert torn == []
    assert len(seen) > 2
