"""What strangers commit, serve and configure has no say over us; what is interrupted leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from git_https import git_server, silent_server, write_certificate
from git_repos import Repo, git

from rag_stdlib.corpus import gitobjects
from rag_stdlib.corpus.git import GitFailure, Mirror
from rag_stdlib.corpus.tree import listing

MakeRepo = Callable[..., Repo]
MANY = 10**9
# Fetch in a process of its own, telling when it begins and how it ends.
CHILD = """
import sys
from pathlib import Path
from rag_stdlib.corpus.git import GitFailure, Mirror
mirror = Mirror(Path(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
try:
    print(mirror.fetch("main", max_bytes=10**9, timeout_s=60), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
except GitFailure as failure:
    print(failure.kind, flush=True)
"""


def fetch(mirror: Mirror, branch: str = "main", timeout_s: float = 60) -> str:
    return mirror.fetch(branch, max_bytes=MANY, timeout_s=timeout_s)


def failure_of(call: Callable[[], object]) -> GitFailure:
    with pytest.raises(GitFailure) as caught:
        call()
    return caught.value


def read(mirror: Mirror, commit: str, path: bytes) -> bytes | None:
    blob = next(entry.id for entry in mirror.entries(commit) if entry.name == path)
    return next(mirror.read_blobs([blob]))[1]


@pytest.fixture
def mirror(tmp_path: Path, repo: Repo) -> Mirror:
    return Mirror(tmp_path / "mirrors" / "source.git", repo.url)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusting(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of an operator who trusts the test's certificate, and goes through no proxy."""
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(certificate))
    return certificate


@pytest.fixture
def served(repo: Repo, trusting: Path) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    programs = Path(git("--exec-path", folder=repo.folder).decode().strip())
    missing = [name for name in ("git-http-backend", "git-remote-https") if not (programs / name).exists()]
    if missing:
        pytest.skip(f"this git comes without {' and '.join(missing)}")
    with git_server(repo.folder.parent, trusting) as (url, seen):
        yield url, seen


# --- settings and programs of others ---


def test_what_a_repository_configures_is_not_run(tmp_path: Path, mirror: Mirror, repo: Repo) -> None:
    trap = f"touch {tmp_path}/sprung"
    for name in ("core.fsmonitor", "core.sshCommand", "core.askPass", "core.pager", "core.editor", "core.alternateRefsCommand",
                 "uploadpack.packObjectsHook", "remote.origin.uploadpack", "credential.helper", "gpg.program", "diff.external",
                 "filter.trap.smudge", "filter.trap.clean", "gc.recentObjectsHook"):
        git("config", name, trap, folder=repo.folder)
    git("config", "core.hooksPath", str(repo.folder / "hooks"), folder=repo.folder)
    git("config", "include.path", str(tmp_path / "more.config"), folder=repo.folder)
    (tmp_path / "more.config").write_text(f'[alias]\n\tfetch = "!{trap}"\n\tls-tree = "!{trap}"\n')
    (repo.folder / "hooks").mkdir(exist_ok=True)
    for name in ("post-checkout", "post-merge", "pre-auto-gc", "reference-transaction", "post-update", "update", "pre-receive"):
        hook = repo.folder / "hooks" / name
        hook.write_text(f"#!/bin/sh\n{trap}\n")
        hook.chmod(0o755)
    head = repo.commit({".gitattributes": "*.md filter=trap diff=trap text eol=crlf export-subst ident\n", "a.md": "line $Id$\n"})
    assert fetch(mirror) == head
    assert read(mirror, head, b"a.md") == b"line $Id$\n", "no filter and no line end has touched it"
    assert not (tmp_path / "sprung").exists()


def test_the_users_settings_and_environment_do_not_reach_git(
        tmp_path: Path, mirror: Mirror, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    trap = f"touch {tmp_path}/sprung"
    (home / ".gitconfig").write_text(f'[url "{tmp_path}/nowhere"]\n\tinsteadOf = {repo.url}\n[core]\n\thooksPath = {home}\n[alias]\n\tx = y\n')
    (home / "reference-transaction").write_text(f"#!/bin/sh\n{trap}\n")
    (home / "reference-transaction").chmod(0o755)
    for name, value in {
            "HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_DIR": str(home), "GIT_WORK_TREE": str(home), "GIT_INDEX_FILE": "/x",
            "GIT_OBJECT_DIRECTORY": str(home), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(home), "GIT_NAMESPACE": "x", "GIT_TEMPLATE_DIR": str(home),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{tmp_path}/nowhere.insteadOf", "GIT_CONFIG_VALUE_0": repo.url,
            "GIT_CONFIG_PARAMETERS": "'core.bare'='false'", "GIT_CONFIG": str(home / ".gitconfig"), "GIT_TRACE": f"{tmp_path}/trace",
            "GIT_DEFAULT_HASH": "sha256", "GIT_SHALLOW_FILE": "/x", "GIT_EXTERNAL_DIFF": trap, "LANGUAGE": "de", "LC_ALL": "de_DE.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    head = fetch(mirror)
    assert read(mirror, head, b"README.md") == b"# Two\n"
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "trace").exists()
    assert {file.name for file in home.iterdir()} == {".gitconfig", "reference-transaction"}


def test_a_repository_of_another_owner_is_reported_in_gits_words(mirror: Mirror, repo: Repo) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(repo.folder, 12_345, 12_345)
    failure = failure_of(lambda: fetch(mirror))
    assert failure.kind == "unreachable"
    assert "dubious ownership" in failure.detail


def test_submodules_are_never_fetched(mirror: Mirror, repo: Repo, make_repo: MakeRepo) -> None:
    other = make_repo("other")
    inner = other.commit({"secret.md": "# Secret\n"})
    repo.commit({".gitmodules": f'[submodule "s"]\n\tpath = s\n\turl = file://{other.folder}\n\tupdate = merge\n'})
    blobs = git("ls-tree", "-z", "main", folder=repo.folder)
    head = repo.commit_tree(blobs + f"160000 commit {inner}\ts\0".encode())
    assert fetch(mirror) == head
    assert not mirror.has(inner)
    assert (b"s", "commit", None) in {(entry.name, entry.kind, entry.size) for entry in mirror.entries(head)}


def test_links_out_of_the_tree_are_entries_and_nothing_else(tmp_path: Path, mirror: Mirror, repo: Repo) -> None:
    (tmp_path / "secret").write_text("secret")
    head = repo.commit({"out.md": f"{tmp_path}/secret", "up": "../../.."}, mode="120000")
    fetch(mirror)
    assert read(mirror, head, b"out.md") == f"{tmp_path}/secret".encode(), "a link is the text of its target, and nobody follows it"
    assert [path for path in mirror.path.rglob("*") if path.is_symlink()] == []


def test_names_of_every_kind_are_kept_apart(mirror: Mirror, repo: Repo) -> None:
    files: dict[str | bytes, str] = {
        "README.md": "1", "readme.md": "2", "ReadMe.MD": "3", "手册/指南.md": "4", "a\nb.md": "5", 'tab\tquote".md': "6", "e\u0301.md": "7",
        "\u00e9.md": "8", b"\xff\xfe.md": "9", "-rf.md": "10", "$(touch x).md": "11", " .md": "12"}
    head = repo.commit(files, parent=None)
    fetch(mirror)
    found = {entry.name: entry.id for entry in mirror.entries(head)}
    contents = dict(zip(found, (data for _, data in mirror.read_blobs(found.values())), strict=True))
    assert contents == {name.encode() if isinstance(name, str) else name: text.encode() for name, text in files.items()}


# --- objects ---


@pytest.mark.parametrize("name", [b"..", b".", b".git", b"a/b.md", b".GIT"])
def test_a_tree_with_a_name_that_leads_elsewhere_is_refused_whole(mirror: Mirror, repo: Repo, name: bytes) -> None:
    blob = bytes.fromhex(repo.put(b"# X\n"))
    repo.commit_of(repo.put(b"100644 %s\0%s" % (name, blob), "tree"))
    failure = failure_of(lambda: fetch(mirror))
    assert failure.kind == "failed"
    assert not mirror.path.exists()


def test_slips_of_old_tools_do_not_keep_a_repository_out(mirror: Mirror, repo: Repo) -> None:
    blob = bytes.fromhex(repo.put(b"# X\n"))
    inner = bytes.fromhex(repo.put(b"100644 x.md\0" + blob, "tree"))
    tree = repo.put(b"040000 docs\0" + inner, "tree")  # folders are 40000 today
    commit = repo.put(f"tree {tree}\nauthor A<a@example.org> 1 +051800\ncommitter A <> 1 +0000\n\n.\n".encode(), "commit")
    git("update-ref", "refs/heads/main", commit, folder=repo.folder)
    assert fetch(mirror) == commit
    assert read(mirror, commit, b"docs/x.md") == b"# X\n"


def test_trees_that_name_one_another_a_million_times_are_refused(mirror: Mirror, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = f"100644 blob {repo.put(b'x')}\tf.md\0"
    for _ in range(12):
        tree = git("mktree", "-z", folder=repo.folder, stdin=inner.encode()).decode().strip()
        inner = "".join(f"040000 tree {tree}\t{name}\0" for name in "abcdefghij")
    repo.commit_tree(inner.encode())
    monkeypatch.setattr(gitobjects, "MAX_TREE_BYTES", 1_000_000)
    began = time.monotonic()
    assert failure_of(lambda: fetch(mirror)).kind == "too_large"
    assert time.monotonic() - began < 30
    assert not mirror.path.exists()


def test_a_replaced_object_is_not_taken_for_the_one_committed(mirror: Mirror) -> None:
    head = fetch(mirror)
    blob = next(entry.id for entry in mirror.entries(head))
    other = git("hash-object", "-w", "--stdin", folder=mirror.path, stdin=b"# Forged\n").decode().strip()
    git("update-ref", f"refs/replace/{blob}", other, folder=mirror.path)
    assert read(mirror, head, b"README.md") == b"# Two\n"


def test_a_file_of_50_megabytes_is_passed_over_and_the_others_are_read(mirror: Mirror, repo: Repo) -> None:
    head = repo.commit({"big.md": b"# Big\n" * 8_400_000})
    fetch(mirror)
    found = listing(mirror, head)
    assert ("big.md", "too_large") in found.passed_over
    assert [file.path for file in found.files] == ["README.md", "docs/a.md"]
    blob = next(entry.id for entry in mirror.entries(head) if entry.name == b"big.md")
    assert [data for _, data in mirror.read_blobs([blob, found.files[0].blob], max_bytes=8_000_000)] == [None, b"# Two\n"]


# --- servers ---


def test_https_is_fetched_in_full_and_in_part(tmp_path: Path, repo: Repo, served: tuple[str, list[tuple[str, dict[str, str]]]]) -> None:
    url, _ = served
    head = git("rev-parse", "main", folder=repo.folder).decode().strip()
    full, shallow = Mirror(tmp_path / "full.git", f"{url}/source.git"), Mirror(tmp_path / "part.git", f"{url}/source.git")
    assert fetch(full) == head
    assert shallow.fetch("main", 1, max_bytes=MANY, timeout_s=60) == head
    assert [git("rev-list", "--count", head, folder=mirror.path) for mirror in (full, shallow)] == [b"2\n", b"1\n"]


def test_nobody_is_asked_for_credentials_and_none_are_sent(
        tmp_path: Path, served: tuple[str, list[tuple[str, dict[str, str]]]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, seen = served
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password secret\n")
    (tmp_path / ".gitconfig").write_text('[credential]\n\thelper = "!echo password=secret; echo username=user; true"\n')
    (tmp_path / "ask").write_text("#!/bin/sh\necho secret\n")
    (tmp_path / "ask").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_ASKPASS", str(tmp_path / "ask"))
    failure = failure_of(lambda: fetch(Mirror(tmp_path / "m.git", f"{url}/locked/x.git")))
    assert failure.kind == "unreachable"
    assert seen
    assert [headers for _, headers in seen if "Authorization" in headers] == []


@pytest.mark.parametrize("protocol", ["http", "ftp", "git"])
def test_a_redirect_to_another_protocol_is_not_followed(
        tmp_path: Path, served: tuple[str, list[tuple[str, dict[str, str]]]], protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        target = f"{protocol}:__127.0.0.1:{other.getsockname()[1]}_x.git"
        assert failure_of(lambda: fetch(Mirror(tmp_path / "m.git", f"{served[0]}/to/{target}"), timeout_s=10)).kind == "unreachable"
        other.settimeout(0.05)
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_redirect_with_credentials_is_not_shown(tmp_path: Path, served: tuple[str, list[tuple[str, dict[str, str]]]]) -> None:
    failure = failure_of(lambda: fetch(Mirror(tmp_path / "m.git", f"{served[0]}/to/https:__user:secret@127.0.0.1:1_x.git")))
    assert failure.kind == "unreachable"
    assert "secret" not in failure.detail


def test_a_certificate_that_nobody_vouches_for_is_refused(
        tmp_path: Path, served: tuple[str, list[tuple[str, dict[str, str]]]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    monkeypatch.setenv("GIT_SSL_CAINFO", "/dev/null")
    assert failure_of(lambda: fetch(Mirror(tmp_path / "m.git", f"{served[0]}/source.git"))).kind == "unreachable"


def test_a_silent_server_is_given_up_with_everything_that_was_started(
        tmp_path: Path, trusting: Path, is_running: Callable[[str], bool]) -> None:
    assert trusting
    with silent_server() as url:
        mirror = Mirror(tmp_path / "m.git", f"{url}/x.git")
        failure = failure_of(lambda: fetch(mirror, timeout_s=0.3))
        assert (failure.kind, failure.detail) == ("timeout", "git ls-remote was not done within 0.3 s")
        wait_for(lambda: not is_running(url))
        assert failure_of(lambda: fetch(mirror, timeout_s=0)).kind == "timeout", "the lock was let go"


def test_words_of_a_server_are_one_line_without_control_characters() -> None:
    failure = GitFailure("failed", "remote: \x1b[2Jgone\r\nhttps://user:pa@ss/word@host/x \u202eevil " + "x" * 1000)
    assert "\x1b" not in failure.detail
    assert "\n" not in failure.detail
    assert "\u202e" not in failure.detail
    assert "word" not in failure.detail
    assert len(failure.detail) == 300


# --- interruptions ---


def started(mirror: Path, url: str) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(mirror), url], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_ctrl_c_ends_everything_and_lets_the_lock_go(
        tmp_path: Path, trusting: Path, repo: Repo, is_running: Callable[[str], bool]) -> None:
    assert trusting
    with silent_server() as url:
        with started(tmp_path / "m.git", f"{url}/x.git") as child:
            wait_for((tmp_path / "m.git.lock").exists)
            time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            assert child.stdout is not None
            assert child.stdout.read() == "interrupted\n"
        wait_for(lambda: not is_running(url))
    assert fetch(Mirror(tmp_path / "m.git", repo.url))


def fetched_when_free(mirror: Mirror) -> str:
    """Fetch; wait while the git of a killed process still holds the mirror."""
    end = time.monotonic() + 30
    while True:
        try:
            return fetch(mirror)
        except GitFailure as failure:
            if failure.kind != "busy" or time.monotonic() > end:
                raise
            time.sleep(0.01)


@pytest.mark.parametrize("first", ["clone", "update"])
def test_a_fetch_that_was_killed_in_the_middle_is_made_good_by_the_next(
        mirror: Mirror, repo: Repo, heavy: dict[str, bytes], is_running: Callable[[str], bool], first: str) -> None:
    before = fetch(mirror) if first == "update" else None
    head = repo.commit(heavy)
    folder = mirror.path if before else mirror.path.with_name("source.git.new")
    with started(mirror.path, repo.url) as child:
        wait_for(lambda: list(folder.glob("objects/pack/tmp_pack_*")))
        child.kill()
    assert child.returncode == -signal.SIGKILL
    if before:
        assert read(mirror, before, b"README.md") == b"# Two\n", "what was served is served still"
    assert fetched_when_free(mirror) == head
    assert read(mirror, head, b"19.bin") == heavy["19.bin"]
    assert not list(mirror.path.rglob("*tmp*"))
    assert {path.name for path in mirror.path.parent.iterdir()} == {"source.git", "source.git.lock"}
    assert not is_running(repo.url)


def test_a_killed_process_keeps_the_lock_as_long_as_its_git_lives(
        tmp_path: Path, trusting: Path, repo: Repo, is_running: Callable[[str], bool]) -> None:
    assert trusting
    with silent_server() as url:
        with started(tmp_path / "m.git", f"{url}/x.git") as child:
            wait_for(lambda: is_running(url))
            child.kill()
        assert failure_of(lambda: fetch(Mirror(tmp_path / "m.git", repo.url))).kind == "busy"
    wait_for(lambda: not is_running(url))  # the server is gone, so git is
    assert fetched_when_free(Mirror(tmp_path / "m.git", repo.url))
