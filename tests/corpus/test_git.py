"""Mirrors of real repositories: what is fetched, what is on the branch, and what a failure leaves."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import Repo, git

from rag_stdlib.corpus import git as git_module
from rag_stdlib.corpus import gitobjects, gitrun
from rag_stdlib.corpus.git import GitFailure, Mirror, remote_head

MakeRepo = Callable[..., Repo]
MANY = 10**9


def fetch(mirror: Mirror, branch: str = "main", depth: int | None = None, max_bytes: int = MANY, timeout_s: float = 60) -> str:
    return mirror.fetch(branch, depth, max_bytes=max_bytes, timeout_s=timeout_s)


def fails(kind: str, call: Callable[[], object]) -> str:
    with pytest.raises(GitFailure) as caught:
        call()
    assert caught.value.kind == kind, caught.value.detail
    assert "\n" not in caught.value.detail
    return caught.value.detail


def count(mirror: Mirror, branch: str = "main") -> int:
    return int(git("rev-list", "--count", f"refs/heads/{branch}", folder=mirror.path))


@pytest.fixture
def mirror(tmp_path: Path, repo: Repo) -> Mirror:
    return Mirror(tmp_path / "mirrors" / "source.git", repo.url)


def names(mirror: Mirror, commit: str) -> list[bytes]:
    return [entry.name for entry in mirror.entries(commit)]


def beside(mirror: Mirror) -> set[str]:
    return {path.name for path in mirror.path.parent.iterdir()}


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


# --- one at a time ---


def test_a_second_process_or_thread_is_told_that_the_mirror_is_busy(mirror: Mirror, repo: Repo) -> None:
    told: list[str] = []

    def other() -> None:
        told.append(fails("busy", lambda: fetch(mirror)))
        told.append(fails("busy", lambda: fetch(Mirror(mirror.path, repo.url))))

    with mirror.hold():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert fetch(mirror), "the holder itself may fetch"
    assert len(told) == 2
    assert fetch(Mirror(mirror.path, repo.url))


def test_the_lock_goes_though_a_git_that_was_just_killed_has_it_open(mirror: Mirror, repo: Repo) -> None:
    with mirror.hold():
        assert mirror._held
        kept = os.dup(mirror._held[1])
    try:
        assert fetch(Mirror(mirror.path, repo.url))
    finally:
        os.close(kept)


def test_a_removed_mirror_leaves_nothing_and_can_be_fetched_again(mirror: Mirror) -> None:
    fetch(mirror)
    mirror.remove()
    assert beside(mirror) == set()
    assert fetch(mirror)
    assert beside(mirror) == {"source.git", "source.git.lock"}


def test_a_lock_that_was_removed_while_it_was_taken_is_not_held(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = mirror.path.with_name("source.git.lock")
    monkeypatch.setattr("fcntl.flock", lambda *_: lock.unlink(missing_ok=True))
    assert "removing" in fails("busy", lambda: fetch(mirror))


# --- what stands in the way ---


def test_a_folder_that_is_no_mirror_is_neither_exchanged_nor_removed(mirror: Mirror) -> None:
    (mirror.path / ".git").mkdir(parents=True)
    (mirror.path / "thesis.txt").write_text("mine")
    for call in (lambda: fetch(mirror), mirror.remove):
        assert "move it away" in fails("failed", call)
    assert (mirror.path / "thesis.txt").read_text() == "mine"


def test_a_file_or_link_in_the_mirrors_place_is_refused(tmp_path: Path, mirror: Mirror) -> None:
    mirror.path.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    mirror.path.symlink_to(tmp_path / "elsewhere")
    fails("failed", lambda: fetch(mirror))
    mirror.path.unlink()
    mirror.path.write_text("a file")
    fails("failed", lambda: fetch(mirror))


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path: Path, repo: Repo) -> None:
    (tmp_path / "file").write_text("")
    fails("failed", lambda: fetch(Mirror(tmp_path / "file" / "m.git", repo.url)))
    unnamable = Mirror(tmp_path / f"{'n' * 300}.git", repo.url)
    fails("failed", lambda: fetch(unnamable))
    fails("failed", lambda: unnamable.has("a" * 40))


def test_without_git_the_failure_says_so(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install" in fails("no_git", lambda: fetch(mirror))
    (tmp_path / "git").mkdir()
    fails("no_git", lambda: fetch(mirror))


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, instead: str) -> None:
    """Put a git on the PATH that does something else for one command."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\nfor word; do [ "$word" = {command} ] && {{ {instead}; }}; done\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_fetch_into_a_mirror_that_takes_too_long_keeps_what_it_had(
        mirror: Mirror, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = fetch(mirror)
    repo.commit({"more.md": "# More\n"})
    stand_in(tmp_path / "slow", monkeypatch, "fetch", "exec sleep 60")
    assert "git fetch" in fails("timeout", lambda: fetch(mirror, timeout_s=0.5))
    assert names(mirror, head) == [b"README.md", b"docs/a.md"]
    assert beside(mirror) == {"source.git", "source.git.lock"}


def test_a_git_that_says_nothing_more_and_does_not_end_is_ended(
        mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "mute", monkeypatch, "ls-remote", "exec sleep 60 >&- 2>&-")
    fails("timeout", lambda: fetch(mirror, timeout_s=0.3))


def test_a_place_that_git_cannot_make_a_repository_in_is_a_failure_in_its_words(
        mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "full", monkeypatch, "init", "echo 'fatal: No space left on device' >&2; exit 128")
    assert fails("failed", lambda: fetch(mirror)) == "No space left on device"
    assert beside(mirror) == {"source.git.lock"}


def test_a_mirror_that_could_not_be_tidied_up_serves_as_well(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "untidy", monkeypatch, "gc", "exit 128")
    assert mirror.has(fetch(mirror))


def test_looking_for_a_commit_without_git_is_no_sign_of_damage(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = fetch(mirror)
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        fails("no_git", lambda: mirror.has(head))
    assert mirror.has(head)


def test_a_system_that_starts_no_process_is_a_failure(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    assert "temporarily" in fails("failed", lambda: fetch(mirror))


# --- put right by the next fetch ---


def pack(mirror: Mirror) -> Path:
    return next((mirror.path / "objects" / "pack").glob("*.pack"))


def cut(mirror: Mirror) -> None:
    pack(mirror).chmod(0o644)
    pack(mirror).write_bytes(pack(mirror).read_bytes()[:40])


def flip(mirror: Mirror) -> None:
    """Change a byte in every object's data, as a failing disk does."""
    file = pack(mirror)
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    for position in range(40, len(data) - 20, 7):
        data[position] ^= 0x55
    file.write_bytes(data)


HARM: dict[str, Callable[[Mirror], object]] = {
    "no HEAD": lambda mirror: (mirror.path / "HEAD").unlink(),
    "an empty config": lambda mirror: (mirror.path / "config").write_text(""),
    "a broken config": lambda mirror: (mirror.path / "config").write_bytes(b"[\0"),
    "an empty ref": lambda mirror: (mirror.path / "refs/heads/main").write_text(""),
    "no pack": lambda mirror: pack(mirror).unlink(),
    "no index of the pack": lambda mirror: pack(mirror).with_suffix(".idx").unlink(),
    "a pack cut off": cut,
    "a pack with flipped bytes": flip,
    "locks": lambda mirror: [(mirror.path / name).write_text("") for name in ("config.lock", "shallow.lock", "refs/heads/main.lock")],
    "pieces of packs": lambda mirror: [(mirror.path / "objects" / name).write_text("x" * 9) for name in ("pack/tmp_pack_1", "pack/.tmp-1-p")],
    "no objects": lambda mirror: [file.unlink() for file in (mirror.path / "objects").rglob("*.*")],
}


@pytest.mark.parametrize("harm", HARM)
def test_the_next_fetch_puts_a_harmed_mirror_right(mirror: Mirror, repo: Repo, harm: str) -> None:
    fetch(mirror)
    HARM[harm](mirror)
    head = repo.commit({"more.md": "# More\n"})
    assert fetch(mirror) == head
    blobs = [entry.id for entry in mirror.entries(head)]
    assert [data for _, data in mirror.read_blobs(blobs)] == [b"# Two\n", b"# A\n", b"# More\n"]
    assert mirror.is_ancestor(git("rev-parse", "main~2", folder=repo.folder).decode().strip(), "main")
    assert not list(mirror.path.rglob("*.lock"))
    assert not list(mirror.path.rglob("*tmp*"))


@pytest.mark.parametrize("harm", [name for name in HARM if "pack" in name or name.startswith("no ")])
def test_harm_is_seen_where_nothing_is_new_on_the_branch(mirror: Mirror, harm: str) -> None:
    head = fetch(mirror)
    HARM[harm](mirror)
    assert fetch(mirror) == head
    assert len(list(mirror.read_blobs(entry.id for entry in mirror.entries(head)))) == 2


def test_a_blob_that_is_not_what_its_id_says_is_never_given_and_the_next_fetch_mends_it(mirror: Mirror) -> None:
    head = fetch(mirror)
    packed = pack(mirror).read_bytes()
    pack(mirror).unlink()
    git("unpack-objects", folder=mirror.path, stdin=packed)
    blob, other = (next(entry.id for entry in mirror.entries(head)),
                   git("hash-object", "-w", "--stdin", folder=mirror.path, stdin=b"# Ten\n").decode().strip())
    right, wrong = (mirror.path / "objects" / name[:2] / name[2:] for name in (blob, other))
    wrong.replace(right)
    assert fetch(mirror) == head, "no listing shows it"
    fails("failed", lambda: list(mirror.read_blobs([blob])))
    assert not mirror.has(head), "a mirror that proved damaged holds nothing until it is fetched again"
    assert fetch(mirror) == head
    assert list(mirror.read_blobs([blob])) == [(blob, b"# Two\n")]


@pytest.mark.parametrize("part", ["main^{tree}", "main:README.md"])
@pytest.mark.parametrize("harm", ["gone", "cut off"])
def test_each_object_that_is_gone_or_cut_off_is_a_failure_of_whoever_reads_it(mirror: Mirror, repo: Repo, noise: bytes, part: str, harm: str) -> None:
    repo.commit({"README.md": noise})
    head = fetch(mirror)
    blob = next(entry.id for entry in mirror.entries(head))
    packed = pack(mirror).read_bytes()
    pack(mirror).unlink()
    git("unpack-objects", folder=mirror.path, stdin=packed)
    harmed = git("rev-parse", part, folder=mirror.path).decode().strip()
    file = mirror.path / "objects" / harmed[:2] / harmed[2:]
    file.chmod(0o644)
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-20])

    def read() -> None:
        list(mirror.entries(head))
        list(mirror.read_blobs([blob]))

    fails("failed", read)
    assert not mirror.has(head)
    assert fetch(mirror) == head
    read()


def test_damage_met_while_looking_for_a_commit_makes_the_mirror_anew(mirror: Mirror) -> None:
    head = fetch(mirror)
    (mirror.path / "config").write_text("[core]\nrepositoryFormatVersion = 99\n")
    assert not mirror.has(head)
    assert fetch(mirror) == head
    assert mirror.has(head)


def test_what_is_asked_for_by_no_id_or_is_no_blob_is_refused(mirror: Mirror) -> None:
    head = fetch(mirror)
    for asked in ("HEAD", "a" * 39, head, "0" * 40):
        fails("failed", lambda asked=asked: list(mirror.read_blobs([asked])))
        fetch(mirror)
    for asked in ("HEAD", "main", f"{head} README.md"):
        fails("failed", lambda asked=asked: list(gitobjects.tree(mirror.path, asked)))


@pytest.mark.parametrize("left", ["empty", "half"])
def test_a_half_made_folder_is_made_whole(mirror: Mirror, left: str) -> None:
    for name in ("source.git", "source.git.new", "source.git.old"):
        (mirror.path.with_name(name) / ("objects/pack" if left == "half" else "")).mkdir(parents=True)
    assert fetch(mirror)
    assert beside(mirror) == {"source.git", "source.git.lock"}


def test_many_fetches_leave_few_packs(mirror: Mirror, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitrun, "_SETTINGS", (*gitrun._SETTINGS, "gc.autoPackLimit=2"))
    for number in range(4):
        repo.commit({"n.md": f"# {number}\n"})
        head = fetch(mirror)
    assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) <= 2
    assert names(mirror, head) == [b"README.md", b"docs/a.md", b"n.md"]


def test_reading_may_be_given_up_in_the_middle(mirror: Mirror) -> None:
    head = fetch(mirror)
    entries = mirror.entries(head)
    first = next(entries)
    reading = mirror.read_blobs([first.id, first.id])
    assert next(reading) == (first.id, b"# Two\n")
    reading.close()
    entries.close()
    assert mirror.has(head)
