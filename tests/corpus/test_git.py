"""Mirrors of real repositories: what is fetched, what is refused, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import Repo, git
from mirroring import beside, fails, fetch, names

from rag_stdlib.corpus import git as git_module
from rag_stdlib.corpus import gitobjects, gitrun
from rag_stdlib.corpus.git import Mirror, remote_head

MakeRepo = Callable[..., Repo]


def count(mirror: Mirror, branch: str = "main") -> int:
    return int(git("rev-list", "--count", f"refs/heads/{branch}", folder=mirror.path))


# --- fetching ---


def test_a_fetch_brings_the_head_and_its_files(mirror: Mirror, repo: Repo) -> None:
    head = repo.commit({"new.md": "# New\n"})
    assert fetch(mirror) == head
    entries = {entry.name: entry for entry in mirror.entries(head)}
    assert list(entries) == [b"README.md", b"docs/a.md", b"new.md"]
    assert {(entry.mode, entry.kind) for entry in entries.values()} == {("100644", "blob")}
    assert list(mirror.read_blobs([entries[b"new.md"].id, entries[b"docs/a.md"].id])) == [
        (entries[b"new.md"].id, b"# New\n"), (entries[b"docs/a.md"].id, b"# A\n")]
    assert entries[b"new.md"].size == 6


def test_the_next_fetch_follows_the_head_and_an_unmoved_head_changes_nothing(mirror: Mirror, repo: Repo) -> None:
    first = fetch(mirror)
    assert fetch(mirror) == first
    second = repo.commit({"more.md": "# More\n"})
    assert fetch(mirror) == second
    assert names(mirror, first) == [b"README.md", b"docs/a.md"]
    assert beside(mirror) == {"source.git", "source.git.lock"}


def test_the_mirror_is_bare_and_has_no_working_files(mirror: Mirror) -> None:
    fetch(mirror)
    assert git("rev-parse", "--is-bare-repository", folder=mirror.path) == b"true\n"
    assert {path.name for path in mirror.path.iterdir()} <= {"HEAD", "config", "objects", "refs", "packed-refs"}


def test_tags_and_other_branches_are_not_fetched(mirror: Mirror, repo: Repo) -> None:
    other = repo.commit({"other.md": "# Other\n"}, "other")
    git("tag", "v1", other, folder=repo.folder)
    git("tag", "-m", "two", "v2", "main", folder=repo.folder)
    fetch(mirror)
    assert git("for-each-ref", "--format=%(refname)", folder=mirror.path) == b"refs/heads/main\n"
    assert not mirror.has(other)


def test_a_head_that_was_forced_elsewhere_is_followed(mirror: Mirror, repo: Repo) -> None:
    fetch(mirror)
    forced = repo.commit({"README.md": "# Rewritten\n"}, parent=None)
    assert fetch(mirror) == forced
    assert names(mirror, forced) == [b"README.md"]


def test_a_deleted_branch_is_unknown_and_the_mirror_still_serves(mirror: Mirror, repo: Repo) -> None:
    head = fetch(mirror)
    git("update-ref", "-d", "refs/heads/main", folder=repo.folder)
    assert "no branch 'main'" in fails("unknown_branch", lambda: fetch(mirror))
    assert names(mirror, head) == [b"README.md", b"docs/a.md"]


def test_an_empty_repository_has_no_branch(tmp_path: Path, make_repo: MakeRepo) -> None:
    mirror = Mirror(tmp_path / "m.git", make_repo("empty").url)
    fails("unknown_branch", lambda: fetch(mirror))
    assert not mirror.path.exists()


@pytest.mark.parametrize("branch", ["", "-x", "--upload-pack=x", "a b", "a..b", "a:b", "*", "x.lock", "@{1}", "a\0b", "a\nb", "\ud800", "/x", "x/"])
def test_what_git_takes_for_no_branch_name_is_an_unknown_branch(mirror: Mirror, branch: str) -> None:
    assert "no name" in fails("unknown_branch", lambda: fetch(mirror, branch))


@pytest.mark.parametrize("branch", ["feature/deep/er", "Grün", "分支", "a'b\"c$(d)", "HEAD", "refs/heads/main"])
def test_branches_of_every_name_are_fetched(mirror: Mirror, repo: Repo, branch: str) -> None:
    head = repo.commit({"b.md": "# B\n"}, branch)
    assert fetch(mirror, branch) == head
    assert mirror.is_ancestor(head, branch)


def test_a_branch_is_not_found_by_the_end_of_a_longer_name(mirror: Mirror, repo: Repo) -> None:
    head = repo.commit({"b.md": "# B\n"}, "x/refs/heads/y")
    assert head
    fails("unknown_branch", lambda: fetch(mirror, "y"))


def test_another_branch_takes_the_place_of_the_first(mirror: Mirror, repo: Repo) -> None:
    main = fetch(mirror)
    other = repo.commit({"other.md": "# Other\n"}, "main2")
    assert fetch(mirror, "main2") == other
    assert (mirror.has(other), mirror.has(main)) == (True, False)
    fails("failed", lambda: mirror.is_ancestor(other, "main"))


def test_a_changed_url_makes_the_mirror_anew(mirror: Mirror, make_repo: MakeRepo) -> None:
    old = fetch(mirror)
    second = make_repo("second")
    head = second.commit({"s.md": "# S\n"})
    moved = Mirror(mirror.path, second.url)
    assert fetch(moved) == head
    assert not moved.has(old)
    assert beside(moved) == {"source.git", "source.git.lock"}


def test_a_branch_whose_tip_is_no_commit_fails(mirror: Mirror, repo: Repo) -> None:
    blob = repo.put(b"text")
    (repo.folder / "refs" / "heads" / "odd").write_text(f"{blob}\n")
    fails("failed", lambda: fetch(mirror, "odd"))


def test_a_repository_of_sha256_ids_fails_as_what_it_is(tmp_path: Path, make_repo: MakeRepo) -> None:
    source = make_repo("long", "--object-format=sha256")
    source.commit({"a.md": "# A\n"})
    assert "40 hex" in fails("failed", lambda: fetch(Mirror(tmp_path / "m.git", source.url)))


# --- the remote ---


def test_a_path_without_a_repository_is_unreachable(tmp_path: Path, repo: Repo) -> None:
    (tmp_path / "plain").mkdir()
    git("bundle", "create", str(tmp_path / "file.bundle"), "main", folder=repo.folder)
    for url in ("nothing", "plain", "file.bundle"):
        fails("unreachable", lambda url=url: fetch(Mirror(tmp_path / "m.git", f"{tmp_path}/{url}")))
    assert not (tmp_path / "m.git").exists()


@pytest.mark.parametrize("url", ["http://example.org/x", "ssh://example.org/x", "git@example.org:x", "file:///x", "ext::sh -c x", "x", "",
                                 "https://user:secret@example.org/x", "https://secret@example.org/x", "/with space", "/nul\0", "-u/x"])
def test_a_mirror_takes_no_url_that_the_list_refuses_and_shows_no_secret(tmp_path: Path, url: str) -> None:
    assert "secret" not in fails("unreachable", lambda: Mirror(tmp_path / "m.git", url))


def test_a_host_that_nobody_answers_at_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fails("unreachable", lambda: fetch(Mirror(tmp_path / "m.git", "https://127.0.0.1:1/x.git")))
    assert {path.name for path in tmp_path.iterdir()} == {"m.git.lock"}


def test_a_lost_remote_leaves_the_mirror_as_it_is(mirror: Mirror, repo: Repo) -> None:
    head = fetch(mirror)
    repo.folder.rename(repo.folder.with_name("gone"))
    fails("unreachable", lambda: fetch(mirror))
    assert names(mirror, head) == [b"README.md", b"docs/a.md"]


def test_a_branch_can_be_asked_for_without_a_mirror(tmp_path: Path, repo: Repo) -> None:
    assert remote_head(repo.url, "main", 60) == git("rev-parse", "main", folder=repo.folder).decode().strip()
    fails("unknown_branch", lambda: remote_head(repo.url, "other", 60))
    fails("unreachable", lambda: remote_head(f"{tmp_path}/none", "main", 60))
    fails("unreachable", lambda: remote_head("http://example.org/x", "main", 60))
    fails("unreachable", lambda: remote_head(f"/{'n' * 5_000}", "main", 60))
    fails("timeout", lambda: remote_head(repo.url, "main", 0))


# --- pins ---


def test_a_pin_is_the_tip_or_an_ancestor(mirror: Mirror, repo: Repo) -> None:
    first = git("rev-parse", "main~1", folder=repo.folder).decode().strip()
    tip = fetch(mirror)
    for commit in (first, tip):
        assert mirror.is_ancestor(commit, "main")
        mirror.check_pin(commit, "main")


def test_a_commit_elsewhere_or_unknown_is_not_on_the_branch(mirror: Mirror, repo: Repo) -> None:
    side = repo.commit({"side.md": "# Side\n"}, "side", parent=git("rev-parse", "main", folder=repo.folder).decode().strip())
    tip = fetch(mirror)
    tree = git("rev-parse", "main^{tree}", folder=repo.folder).decode().strip()
    for commit in (side, "f" * 40, tree, tip.upper(), tip[:12], "main", "HEAD", "", f"{tip}\n", "--all"):
        assert not mirror.is_ancestor(commit, "main")
        fails("commit_not_on_branch", lambda commit=commit: mirror.check_pin(commit, "main"))


def test_a_pin_that_a_forced_push_took_off_the_branch_is_not_on_it(mirror: Mirror, repo: Repo) -> None:
    pinned = fetch(mirror)
    repo.commit({"README.md": "# Rewritten\n"}, parent=None)
    fetch(mirror)
    assert mirror.has(pinned)
    fails("commit_not_on_branch", lambda: mirror.check_pin(pinned, "main"))


def test_a_mirror_that_was_never_fetched_holds_nothing(mirror: Mirror) -> None:
    assert not mirror.has("a" * 40)
    assert not mirror.is_ancestor("a" * 40, "main")
    fails("failed", lambda: list(mirror.entries("a" * 40)))
    fails("failed", lambda: list(mirror.read_blobs(["a" * 40])))
    assert not mirror.path.exists()


# --- depth ---


def test_depth_bounds_the_first_fetch_and_later_ones_bring_what_is_new(mirror: Mirror, repo: Repo) -> None:
    fetch(mirror, depth=1)
    assert count(mirror) == 1
    repo.commit({"b.md": "# B\n"})
    head = repo.commit({"c.md": "# C\n"})
    assert fetch(mirror, depth=1) == head
    assert count(mirror) == 3


def test_a_mirror_made_in_full_is_not_cut_down(mirror: Mirror, repo: Repo) -> None:
    fetch(mirror)
    repo.commit({"b.md": "# B\n"})
    fetch(mirror, depth=1)
    assert count(mirror) == 3


def test_a_shallow_mirror_gets_its_history_when_the_bound_goes(mirror: Mirror, repo: Repo) -> None:
    first = git("rev-parse", "main~1", folder=repo.folder).decode().strip()
    fetch(mirror, depth=1)
    assert not mirror.is_ancestor(first, "main")
    fetch(mirror)
    assert mirror.is_ancestor(first, "main")


def test_a_depth_beyond_what_git_counts_is_the_full_history(mirror: Mirror) -> None:
    fetch(mirror, depth=10**30)
    assert count(mirror) == 2


def test_a_shallow_repository_can_be_mirrored_again_and_again(tmp_path: Path, mirror: Mirror, repo: Repo) -> None:
    fetch(mirror, depth=1)
    second = Mirror(tmp_path / "second.git", str(mirror.path))
    assert fetch(second) == fetch(mirror, depth=1)
    head = repo.commit({"b.md": "# B\n"})
    fetch(mirror, depth=1)
    assert fetch(second) == head
    assert count(second) == 2


# --- size ---


def test_a_repository_over_the_bound_leaves_nothing(mirror: Mirror, repo: Repo, noise: bytes) -> None:
    repo.commit({"big.bin": noise})
    assert "500,000" in fails("too_large", lambda: fetch(mirror, max_bytes=500_000))
    assert beside(mirror) == {"source.git.lock"}


def test_a_mirror_that_outgrew_the_bound_is_made_anew_and_serves_if_it_fits_then(mirror: Mirror, repo: Repo, noise: bytes) -> None:
    small = git("rev-parse", "main", folder=repo.folder).decode().strip()
    repo.commit({"big.bin": noise})
    fetch(mirror)
    head = repo.commit({"small.md": "# Small\n"}, parent=small)
    assert fetch(mirror, max_bytes=500_000) == head
    assert sum(file.stat().st_size for file in mirror.path.rglob("*")) < 500_000


def test_a_mirror_that_outgrows_the_bound_keeps_what_it_had(mirror: Mirror, repo: Repo, noise: bytes) -> None:
    head = fetch(mirror)
    repo.commit({"big.bin": noise})
    fails("too_large", lambda: fetch(mirror, max_bytes=500_000))
    assert names(mirror, head) == [b"README.md", b"docs/a.md"]


def test_a_blob_over_the_readers_bound_is_none_among_others(mirror: Mirror) -> None:
    blobs = {entry.name: entry.id for entry in mirror.entries(fetch(mirror))}
    asked = [blobs[b"docs/a.md"], blobs[b"README.md"], blobs[b"docs/a.md"]]
    assert [data for _, data in mirror.read_blobs(asked, max_bytes=5)] == [b"# A\n", None, b"# A\n"]
    assert list(mirror.read_blobs([])) == []


def test_a_listing_over_its_bound_is_refused(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    head = fetch(mirror)
    monkeypatch.setattr(gitobjects, "MAX_TREE_BYTES", 60)
    fails("too_large", lambda: list(mirror.entries(head)))
    assert mirror.has(head), "a tree that is too large is no damage"


def test_an_output_over_its_bound_is_refused() -> None:
    fails("too_large", lambda: gitrun.run("version", "--build-options", most=10))


def test_a_mirror_over_a_bound_that_was_lowered_is_refused_though_nothing_is_new(mirror: Mirror) -> None:
    head = fetch(mirror)
    fails("too_large", lambda: fetch(mirror, max_bytes=10))
    assert names(mirror, head) == [b"README.md", b"docs/a.md"]


def test_a_transfer_is_stopped_as_soon_as_it_is_too_large(
        mirror: Mirror, repo: Repo, heavy: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(heavy)
    sizes: list[int] = []
    discard = git_module._discard

    def measured(path: Path) -> None:
        sizes.append(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
        discard(path)

    monkeypatch.setattr(git_module, "_discard", measured)
    monkeypatch.setattr(gitrun, "_TICK_SECONDS", 0.005)  # so that a fast machine is not done before the first look
    fails("too_large", lambda: fetch(mirror, max_bytes=500_000))
    assert 500_000 < max(sizes) < 20_000_000
