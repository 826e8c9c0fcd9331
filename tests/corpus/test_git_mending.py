"""Mirrors of real repositories: one fetch at a time, and what is put right by the next."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import Repo, git
from mirroring import beside, fails, fetch, names

from rag_stdlib.corpus import gitobjects, gitrun
from rag_stdlib.corpus.git import Mirror

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
