"""The [io] root: what a caller's path may name, and that nothing leads out of the root."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rag_stdlib.errors import Failure
from rag_stdlib.root import Root, relative_parts

WAYS = pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
SECRET = b"outside the root"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with a root `data`, a neighbour `data2`, and a file outside."""
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "data2").mkdir()
    (tmp_path / "data2" / "x").write_bytes(SECRET)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "data" / "notes.txt").write_bytes(b"inside")
    (tmp_path / "data" / "a" / "b.db").write_bytes(b"deeper")
    return tmp_path


@pytest.fixture(params=[True, False], ids=["anchored", "plain"])
def root(base: Path, request: pytest.FixtureRequest) -> Root:
    return Root(str(base / "data"), anchored=request.param)


def refusal(root: Root, path: str, *, writing: bool = True) -> str:
    """Take a path as an index is taken; return the code of its refusal, whose message must not show the root."""
    with pytest.raises(Failure) as caught, root.place(path) as place:
        place.check_regular(writing=writing)
    error = caught.value.error
    assert os.path.dirname(root.path) not in str(error).replace(repr(path), "")  # noqa: PTH120 - text only
    return error.code


# --- the table of std/rag §2.2, with our stricter outcomes ---

@pytest.mark.parametrize(("path", "parts"), [
    ("notes.txt", ("notes.txt",)), ("./a/b.db", ("a", "b.db")), ("a//b.db", ("a", "b.db")), ("a/./b.db", ("a", "b.db")),
    ("~/.ssh", ("~", ".ssh")), ("...", ("...",)), ("a/..b", ("a", "..b")), ("b..", ("b..",)), (" ", (" ",)), ("a b/c", ("a b", "c")),
    ("notes:2.db", ("notes:2.db",)), ("x.db?vfs=unix-none", ("x.db?vfs=unix-none",)), ("a\\b", ("a\\b",)), ("%2e%2e/x", ("%2e%2e", "x")),
    ("/p/data/notes.txt", ("notes.txt",)), ("/p//./data/a/b.db", ("a", "b.db")), ("ünï/漢.db", ("ünï", "漢.db")), ("-wal", ("-wal",)),
    ("memory:", ("memory:",)), ("filed", ("filed",)), ("x:memory:", None),
])
def test_paths_below_the_root(path: str, parts: tuple[str, ...] | None) -> None:
    if parts is None:
        with pytest.raises(Failure, match="drive path"):
            relative_parts(path, "/p/data")
    else:
        assert relative_parts(path, "/p/data") == parts


@pytest.mark.parametrize(("path", "code"), [
    ("/etc/passwd", "path_outside_root"), ("//etc//passwd", "path_form"), ("///etc/passwd", "path_outside_root"),
    ("../data/x", "path_parent"), ("a/../b.db", "path_parent"), ("../../etc/passwd", "path_parent"), ("..", "path_parent"),
    ("data/../../x", "path_parent"), ("../data2/x", "path_parent"), ("a/..", "path_parent"), ("/p/data/../x", "path_parent"),
    ("", "path_empty"), (".", "path_empty"), ("./", "path_empty"), ("a/", "path_empty"), ("a/.", "path_empty"), ("/", "path_outside_root"),
    ("/p/data", "path_empty"), ("/p/data/", "path_empty"),
    ("\\\\srv\\share", "path_form"), ("//srv/share", "path_form"), ("C:\\x", "path_form"), ("c:x", "path_form"), ("Z:/x", "path_form"),
    ("a\\..\\..\\b", "path_parent"), ("..\\x", "path_parent"), ("a/..\\b", "path_parent"),
])
def test_paths_that_are_refused_by_their_text(path: str, code: str) -> None:
    with pytest.raises(Failure) as caught:
        relative_parts(path, "/p/data")
    assert caught.value.error.code == code


@pytest.mark.parametrize("path", ["/p/data-secret/x", "/p/data2/x", "/p/dat/x", "/p/data.bak", "/P/data/x"])
def test_r121_the_root_is_compared_by_component(path: str) -> None:
    with pytest.raises(Failure) as caught:
        relative_parts(path, "/p/data")
    assert caught.value.error.code == "path_outside_root"


@pytest.mark.parametrize("path", ["a\\b", "a/b\\c", "notes.txt:stream", "ab/c:d", "a\\", "/p/data/a\\b"])
def test_where_backslashes_separate_neither_they_nor_colons_are_names(path: str) -> None:
    with pytest.raises(Failure, match="backslash or colon") as caught:
        relative_parts(path, "/p/data", separator="\\")
    assert caught.value.error.code == "path_form"
    assert relative_parts("a/b.db", "/p/data", separator="\\") == ("a", "b.db")


@pytest.mark.parametrize("path", ["a/" * 2_048 + "x", "n" * 4_097, "漢" * 1_366, "../" * 2_000, "/p" * 1_000_000])
def test_a_path_too_long_for_any_system_is_refused_at_once_and_shown_short(path: str) -> None:
    with pytest.raises(Failure) as caught:
        relative_parts(path, "/p/data")
    assert caught.value.error.code == "path_too_long"
    assert len(caught.value.error) < 300
    assert f"{path[:100]}…{path[-100:]}" in caught.value.error
    assert relative_parts("a/" * 2_047 + "x", "/p/data")[-1] == "x"


def test_a_root_at_the_top_holds_every_absolute_path() -> None:
    assert relative_parts("/etc/hosts", "/") == ("etc", "hosts")


@pytest.mark.parametrize("path", ["a\0b", "\0", "notes.txt\0", "../\0"])
def test_r126_nul_is_refused_first(root: Root, path: str) -> None:
    assert refusal(root, path) == "path_nul"


@pytest.mark.parametrize("path", ["a\ud83d", "\udcff.db"])
def test_a_lone_surrogate_is_no_file_name(root: Root, path: str) -> None:
    assert refusal(root, path) == "invalid_text"


@pytest.mark.parametrize("path", ["root/../../etc", "..", "a/../../secret.txt", "./.."])
def test_r124_no_parent_component_at_all(root: Root, path: str) -> None:
    assert refusal(root, path) == "path_parent"


@pytest.mark.parametrize(("path", "code"), [
    ("", "path_empty"), (".", "path_empty"), ("..", "path_parent"), ("a/", "path_empty"), ("notes.txt/", "path_empty"), ("a/./", "path_empty"),
])
def test_r128_what_names_no_file(root: Root, path: str, code: str) -> None:
    assert refusal(root, path) == code


@pytest.mark.parametrize("path", ["file:/etc/x?mode=rwc", "file:x", "FILE:///x", ":memory:", ":memory:x", "http://h/x.db", "s3://b/x"])
def test_r130_uris_and_memory_names_are_refused(root: Root, path: str) -> None:
    assert refusal(root, path) == "path_form"


# --- what stands there ---

@WAYS
def test_a_file_below_the_root_is_read(base: Path, anchored: bool) -> None:
    root = Root(str(base / "data"), anchored=anchored)
    assert root.read_file("notes.txt") == b"inside"
    assert root.read_file("a/b.db") == b"deeper"
    assert root.read_file(str(base / "data" / "a" / "b.db")) == b"deeper"
    with root.place("a/new.db") as place:
        assert place.check_regular(writing=True) is None
        Path(place.path).write_bytes(b"made")
        assert place.stat() is not None
    assert (base / "data" / "a" / "new.db").read_bytes() == b"made"


def test_the_root_itself_may_be_reached_through_links(base: Path) -> None:
    (base / "by-link").symlink_to(base / "data")
    for anchored in (True, False):
        assert Root(str(base / "by-link"), anchored=anchored).read_file("notes.txt") == b"inside"


def test_a_relative_root_is_anchored_where_it_is_made(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    root = Root("data")
    monkeypatch.chdir("/")
    assert root.read_file("notes.txt") == b"inside"


@pytest.mark.parametrize("target", ["secret.txt", "data/notes.txt", "nowhere", "data2", "data/a"])
def test_r122_a_link_is_followed_neither_as_file_nor_as_folder(base: Path, root: Root, target: str) -> None:
    """File, folder and dangling links, out of the root or within it."""
    (base / "data" / "link").symlink_to(base / target)
    assert refusal(root, "link") == "path_symlink"
    assert refusal(root, "link", writing=False) == "path_symlink"
    assert refusal(root, "link/x") == "path_symlink"
    with pytest.raises(Failure) as caught:
        root.read_file("link")
    assert caught.value.error.code == "path_symlink"


@pytest.mark.parametrize("path", ["up/secret.txt", "a/up/secret.txt", "loop/x", "a/self/b.db"])
def test_r122_a_link_among_the_folders_is_refused_wherever_it_leads(base: Path, root: Root, path: str) -> None:
    (base / "data" / "up").symlink_to("..")
    (base / "data" / "a" / "up").symlink_to("../..")
    (base / "data" / "loop").symlink_to("loop")
    (base / "data" / "a" / "self").symlink_to(".")
    assert refusal(root, path) == "path_symlink"


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_r129_side_files_are_checked_like_the_file(base: Path, root: Root, suffix: str) -> None:
    side = base / "data" / f"notes.txt{suffix}"
    side.symlink_to(base / "secret.txt")
    assert refusal(root, "notes.txt", writing=False) == "path_symlink"
    side.unlink()
    os.mkfifo(side)
    assert refusal(root, "notes.txt", writing=False) == "path_special"
    side.unlink()
    side.hardlink_to(base / "secret.txt")
    assert refusal(root, "notes.txt") == "path_hard_link"
    assert root.read_file("notes.txt") == b"inside", "a plain file has no side files"


def test_r129_a_hard_link_is_read_but_not_written(base: Path, root: Root) -> None:
    (base / "data" / "hard.db").hardlink_to(base / "secret.txt")
    assert refusal(root, "hard.db") == "path_hard_link"
    with root.place("hard.db") as place:
        status = place.check_regular(writing=False)
    assert status is not None
    assert status.st_nlink == 2


@pytest.fixture
def special(base: Path) -> Iterator[dict[str, str]]:
    """Something of every kind that is no regular file, by the words that name it."""
    os.mkfifo(base / "data" / "fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.open(base / "data", os.O_RDONLY)
    server.bind(f"/proc/self/fd/{here}/sock")  # a socket's path is short
    kinds = {"a folder": "a", "a FIFO": "fifo", "a socket": "sock"}
    try:
        os.mknod(base / "data" / "null", 0o600 | 0o020000, os.makedev(1, 3))
        kinds["a device"] = "null"
    except PermissionError:
        pass  # only root makes devices
    yield kinds
    server.close()
    os.close(here)


def test_r129_only_regular_files_are_opened(root: Root, special: dict[str, str]) -> None:
    for kind, name in special.items():
        with pytest.raises(Failure) as caught:
            root.read_file(name)
        assert caught.value.error.code == "path_special"
        assert kind in caught.value.error
        assert refusal(root, name) == "path_special"


def test_a_file_is_no_folder(root: Root) -> None:
    assert refusal(root, "notes.txt/x") == "path_folder_missing"
    assert refusal(root, "missing/x") == "path_folder_missing"
    assert refusal(root, "missing/deeper/x") == "path_folder_missing"


@pytest.mark.parametrize("path", ["n" * 300, "n" * 300 + "/x", "a/" + "n" * 251 + ".db-journal", "漢" * 100])
def test_names_too_long_for_the_file_system(root: Root, path: str) -> None:
    assert refusal(root, path) == "path_too_long"


def test_the_longest_name_is_a_name(base: Path, root: Root) -> None:
    name = "n" * 247  # with "-journal" 255, the file system's limit
    with root.place(name) as place:
        assert place.check_regular(writing=True) is None
    deep = base / "data" / Path(*["d" * 50] * 20)
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"deep")
    assert root.read_file("/".join(["d" * 50] * 20 + ["x"])) == b"deep"


def test_a_missing_file_is_missing(root: Root) -> None:
    with pytest.raises(Failure) as caught:
        root.read_file("none.txt")
    assert caught.value.error.code == "file_missing"


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody for the block, where the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def open_base() -> Iterator[Path]:
    """A folder that any user may enter; the one of pytest is its owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for inner in folder.iterdir():
            inner.chmod(0o755)


@WAYS
def test_permissions_are_the_operators(open_base: Path, anchored: bool) -> None:
    (open_base / "file").write_bytes(b"x")
    (open_base / "file").chmod(0)
    (open_base / "closed").mkdir()
    (open_base / "closed").chmod(0)
    root = Root(str(open_base), anchored=anchored)
    for touch, path in ((root.read_file, "file"), (root.read_file, "closed/x"), (root.list_folder, "closed"), (root.kind_of, "closed/x/y")):
        with pytest.raises(Failure) as caught, without_privileges():
            touch(path)
        assert (caught.value.error.code, caught.value.error.fix) == ("path_permission", "operator")
        assert str(open_base) not in caught.value.error


def test_a_root_that_may_not_be_entered_is_the_operators(open_base: Path) -> None:
    (open_base / "closed" / "data").mkdir(parents=True)
    (open_base / "closed").chmod(0)
    with pytest.raises(Failure) as caught, without_privileges():
        Root(str(open_base / "closed" / "data")).read_file("x")
    assert caught.value.error.code == "root_unusable"


@WAYS
def test_a_root_that_is_no_folder_is_the_operators(base: Path, anchored: bool) -> None:
    for name in ("missing", "secret.txt"):
        with pytest.raises(Failure) as caught:
            Root(str(base / name), anchored=anchored).read_file("x")
        assert (caught.value.error.code, caught.value.error.fix) == ("root_unusable", "operator")
        assert str(base) not in caught.value.error


def test_read_file_is_capped(base: Path, root: Root) -> None:
    (base / "data" / "big").write_bytes(b"x" * 1001)
    assert len(root.read_file("big", cap=1001)) == 1001
    with pytest.raises(Failure, match=r"'big' is 1,001 bytes; the most is 1,000") as caught:
        root.read_file("big", cap=1000)
    assert caught.value.error.code == "file_too_large"
    assert root.read_file("notes.txt", cap=6) == b"inside"


def test_an_empty_file_is_empty(base: Path, root: Root) -> None:
    (base / "data" / "empty").touch()
    assert root.read_file("empty", cap=0) == b""


# --- looking around ---

def test_folders_are_listed_and_nothing_is_followed(base: Path, root: Root, special: dict[str, str]) -> None:
    (base / "data" / "link").symlink_to(base)
    listed = {name: (kind, size) for name, kind, size in root.list_folder(".")}
    assert listed["notes.txt"] == ("file", 6)
    assert listed["a"][0] == "folder"
    assert listed["link"][0] == "link"
    assert listed["fifo"][0] == listed["sock"][0] == "other"
    assert list(listed) == sorted(listed)
    assert len(listed) == 2 + len(special), "`a` is among the special ones"
    assert [entry[:2] for entry in root.list_folder("a/")] == [("b.db", "file")]
    for path, code in (("link", "path_symlink"), ("notes.txt", "path_folder_missing"), ("none", "path_folder_missing"), ("..", "path_parent")):
        with pytest.raises(Failure) as caught:
            root.list_folder(path)
        assert caught.value.error.code == code


@pytest.mark.parametrize(("path", "kind"), [
    (".", "folder"), ("a", "folder"), ("a/", "folder"), ("notes.txt", "file"), ("link", "link"), ("fifo", "other"), ("none", None),
])
def test_the_kind_of_a_path(base: Path, root: Root, path: str, kind: str | None) -> None:
    (base / "data" / "link").symlink_to(base)
    os.mkfifo(base / "data" / "fifo")
    assert root.kind_of(path) == kind
