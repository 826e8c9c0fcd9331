"""Opening an index stays below the root, whatever happens to the names meanwhile (R122, R125, R129)."""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from rag_stdlib import Config, Err, Ok, Runtime, carry, rag_check, rag_delete, rag_ingest, rag_search
from rag_stdlib.errors import Failure
from rag_stdlib.index import vfs
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root

SWAPS_AT_LEAST = 2_000
MET_AT_LEAST = 10  # calls of a kind that met what is inside, and as many that met a link
SECONDS = (4, 30)  # however soon, and however late, enough was swapped and met


def picture(folder: Path) -> dict[str, tuple[str, int]]:
    return {str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*")) if path.is_file()}


class _Swapping:
    """Some seconds in which names below a root change all the time, and what calls said meanwhile."""

    def __init__(self, root: Path, outside: Path) -> None:
        self.root, self.outside = root, outside
        self.began = time.monotonic()
        self.swaps = Counter({"component": 0, "side": 0})
        self.codes: dict[str, Counter[str]] = {"component": Counter(), "side": Counter()}
        self.leaks: list[object] = []

    @property
    def enough(self) -> bool:
        return (self.swaps.total() > SWAPS_AT_LEAST and min(self.swaps.values()) > SWAPS_AT_LEAST / 10
                and all(codes[code] > MET_AT_LEAST for codes in self.codes.values() for code in ("ok", "path_symlink")))

    @property
    def over(self) -> bool:
        least, most = SECONDS
        passed = time.monotonic() - self.began
        return passed > most or (passed > least and self.enough)

    def swap_component(self) -> None:
        real, link, path = (str(self.root / name) for name in ("real", "link", "path"))
        while not self.over:
            os.rename(real, path)  # noqa: PTH104 - as quick as can be
            os.rename(path, real)  # noqa: PTH104 - as quick as can be
            os.rename(link, path)  # noqa: PTH104 - as quick as can be
            os.rename(path, link)  # noqa: PTH104 - as quick as can be
            self.swaps["component"] += 1

    def swap_side_files(self) -> None:
        """Put links to a file outside, and to none, in the place of each side file, and take them away again."""
        for target, suffix in itertools.cycle(itertools.product(("victim", "nowhere"), ("-wal", "-shm", "-journal"))):
            if self.over:
                return
            link = self.root / f"side.db{suffix}"
            with suppress(FileExistsError):  # SQLite's own is there
                link.symlink_to(self.outside / f"{target}{suffix}")
                time.sleep(0)
                link.unlink(missing_ok=True)
                self.swaps["side"] += 1

    def note(self, kind: str, *results: Ok[Any] | Err) -> None:
        for result in results:
            if isinstance(result, Err):
                self.codes[kind][result.error.code] += 1
            elif "secret" in str(result.value):
                self.leaks.append(result)
            else:
                self.codes[kind]["ok"] += 1

    def use(self, number: int) -> None:
        for turn in itertools.count(1):
            if self.over:
                return
            new = f"path/new-{number}-{turn}.db" if turn % 3 == 0 else "path/index.db"
            self.note("component", rag_ingest(new, f"d{number}-{turn % 5}", "s", f"inside words {turn}", 50),
                      rag_search("path/index.db", "secret words", 5), rag_check(new), rag_delete("path/index.db", "secret"))

    def use_side(self) -> None:
        """Open and close anew each time, so that SQLite makes and removes its side files."""
        for turn in itertools.count(1):
            if self.over:
                return
            with Runtime(Config(), root=self.root):
                self.note("side", rag_ingest("side.db", f"d{turn % 5}", "s", f"inside words {turn}", 50),
                          rag_search("side.db", "secret words", 5))

    def run(self) -> None:
        works: list[Callable[[], None]] = [carry(partial(self.use, number)) for number in range(2)]
        threads = [threading.Thread(target=work) for work in (*works, self.use_side, self.swap_component, self.swap_side_files)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_r125_r129_names_swapped_for_links_in_a_loop_never_lead_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    outside.mkdir()
    with Runtime(Config(), root=outside):
        assert rag_ingest("index.db", "secret", "s", "the outside secret words", 50).is_ok
    for suffix in ("-wal", "-shm", "-journal"):
        (outside / f"victim{suffix}").touch()
    (root / "link").symlink_to(outside)
    before = picture(outside)
    with Runtime(Config(), root=root) as runtime:
        swapping = _Swapping(root, outside)
        swapping.run()
        runtime.close()
        for path in (root / "real").glob("*.db"):
            assert rag_check(f"real/{path.name}").unwrap().clean
    assert swapping.leaks == []
    assert picture(outside) == before
    assert swapping.enough, (swapping.swaps, swapping.codes)
    assert swapping.codes["component"].keys() <= {"ok", "path_symlink", "path_folder_missing", "index_missing", "not_found"}


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "fifo", "folder"])
def test_r129_side_files_made_beforehand_are_refused(tmp_path: Path, suffix: str, kind: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.bin"
    root.mkdir()
    outside.write_bytes(b"outside bytes" * 100)
    before = picture(tmp_path)
    name = root / f"index.db{suffix}"
    with Runtime(Config(), root=root) as runtime:
        if suffix:
            assert rag_ingest("index.db", "d", "s", "text", 10).is_ok
            runtime.close()
        if kind in ("link", "dangling link"):
            name.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
        elif kind == "hard link":
            os.link(outside, name)
        elif kind == "fifo":
            os.mkfifo(name)
        else:
            name.mkdir()
        expected = {"hard link": "path_hard_link", "fifo": "path_special", "folder": "path_special"}.get(kind, "path_symlink")
        for result in (rag_ingest("index.db", "e", "s", "more text", 10), rag_search("index.db", "text", 3),
                       rag_delete("index.db", "d"), rag_check("index.db")):
            assert isinstance(result, Err)
            assert result.error.code == expected
            assert f"index.db{suffix}" in str(result.error)
            assert str(tmp_path) not in str(result.error)
    assert outside.read_bytes() == b"outside bytes" * 100
    assert not (tmp_path / "nowhere").exists()
    assert before.items() <= picture(tmp_path).items() or kind == "hard link"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_r125_a_link_put_in_place_after_the_check_is_not_followed(
        tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.bin"
    root.mkdir()
    outside.write_bytes(b"")
    store = Store(Root(str(root)))
    if suffix:
        with store.writing("index.db", create=True):
            pass
        store.close()
    from rag_stdlib.index import store as module

    connect = module.connect

    def late(*args: object, **named: object) -> object:
        (root / f"index.db{suffix}").symlink_to(outside)
        return connect(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "connect", late)
    with pytest.raises(Failure) as failed, store.writing("index.db", create=True):
        pass
    assert failed.value.error.code in ("index_io", "path_symlink")
    assert outside.read_bytes() == b""


def test_a_hard_link_put_in_place_after_the_check_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.db"
    root.mkdir()
    outside.write_bytes(b"")
    from rag_stdlib.index import store as module

    connect = module.connect

    def late(*args: object, **named: object) -> object:
        os.link(outside, root / "index.db")
        return connect(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "connect", late)
    with pytest.raises(Failure) as failed, Store(Root(str(root))).writing("index.db", create=True):
        pass
    assert failed.value.error.code == "path_hard_link"
    assert outside.read_bytes() == b""


def test_a_file_exchanged_while_it_is_opened_is_not_taken_for_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(Config(), root=tmp_path):
        for name in ("a", "b"):
            assert rag_ingest(f"{name}.db", "d", "s", f"words of {name}", 50).is_ok
    from rag_stdlib.index import store as module

    connect = module.connect

    def late(*args: object, **named: object) -> object:
        connection = connect(*args, **named)  # type: ignore[arg-type]
        if (tmp_path / "b.db").exists():
            (tmp_path / "b.db").replace(tmp_path / "a.db")
        return connection

    monkeypatch.setattr(module, "connect", late)
    with Runtime(Config(), root=tmp_path):
        refused = rag_search("a.db", "words", 1)
        assert isinstance(refused, Err)
        assert (refused.error.code, "exchanged" in str(refused.error)) == ("index_io", True)
        assert rag_search("a.db", "words", 1).unwrap()[0].text == "words of b"


@pytest.mark.parametrize("path", ["file:/etc/x?mode=rwc", "file:x.db", ":memory:", "x.db?vfs=unix-none", "a b%20c.db", "é#?&.db"])
def test_r130_a_path_is_never_read_as_a_uri(lexical: Runtime, tmp_path: Path, path: str) -> None:
    result = rag_ingest(path, "d", "s", "text", 10)
    if path.startswith(("file:", ":")):
        assert isinstance(result, Err)
        assert result.error.code == "path_form"
        assert list(tmp_path.iterdir()) == []
    else:
        assert result == Ok(1)
        lexical.close()
        assert [entry.name for entry in tmp_path.iterdir()] == [path]
        assert rag_search(path, "text", 1).unwrap()[0].doc_id == "d"


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_an_index_is_not_called_like_a_side_file(lexical: Runtime, tmp_path: Path, suffix: str) -> None:
    result = rag_ingest(f"x{suffix}", "d", "s", "text", 10)
    assert isinstance(result, Err)
    assert result.error.code == "path_form"
    assert list(tmp_path.iterdir()) == []
    assert lexical.config.root == str(tmp_path)


def test_the_portable_way_serves_and_refuses_alike(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    store = Store(Root(str(root), anchored=False))
    with store.writing("sub/index.db", create=True) as connection:
        connection.execute("INSERT INTO rag_meta VALUES ('x', 1)")
    for _ in range(2):
        with store.reading("sub/index.db") as connection:
            assert connection.execute("SELECT value FROM rag_meta WHERE key = 'x'").fetchall() == [(1,)]
    with pytest.raises(Failure) as failed, store.writing("link/index.db", create=True):
        pass
    assert failed.value.error.code == "path_symlink"
    store.close()
    assert sorted(path.name for path in (root / "sub").iterdir()) == ["index.db"]


def forged_journal(index: Path, super_journal: str, *, wiping: bool) -> bytes:
    """Make a hot journal that names a super-journal, and that may wipe the first page where that is found."""
    page = struct.unpack(">H", index.read_bytes()[16:18])[0]
    magic = bytes.fromhex("d9d505f920a163d7")
    header = (magic + struct.pack(">5I", int(wiping), 0, index.stat().st_size // page, 512, page)).ljust(512, b"\0")
    record = struct.pack(">I", 1) + bytes(page) + struct.pack(">I", 0) if wiping else b""
    name = super_journal.encode()
    return header + record + struct.pack(">I", 2**30 // page + 1) + name + struct.pack(">II", len(name), sum(name)) + magic


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
@pytest.mark.parametrize(("name", "wiping"), [  # a newer SQLite plays a journal whose super-journal's name is not well-formed
    ("outside.txt", False), ("notes.db-mj0123456901", False), ("root/other.txt", False), ("notes.db-mj012345901", True),
    ("x-mj012345901", True), ("root/notes.db-mj012345901", True)])
def test_r129_a_forged_super_journal_is_neither_looked_at_nor_deleted(
        tmp_path: Path, name: str, wiping: bool, anchored: bool) -> None:
    root, named = tmp_path / "root", tmp_path / name
    root.mkdir()
    with Runtime(Config(), root=root):
        assert rag_ingest("notes.db", "d", "s", "hello world", 50).is_ok
    named.write_text("precious\n")
    (root / "notes.db-journal").write_bytes(forged_journal(root / "notes.db", str(named), wiping=wiping))
    store = Store(Root(str(root), anchored=anchored))
    with store.reading("notes.db") as connection:  # had the file been found, the first page would be gone
        assert connection.execute("SELECT text FROM rag_chunks").fetchall() == [("hello world",)]
    store.close()
    assert named.read_text() == "precious\n"
    assert sorted(path.name for path in root.iterdir() if path != named) == ["notes.db"]


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
def test_r129_the_vfs_knows_the_names_of_indexes_in_use_and_no_others(tmp_path: Path, anchored: bool) -> None:
    vfs.confined_vfs()
    confined = vfs._registered[0]
    exists, journal, super_journal = apsw.SQLITE_ACCESS_EXISTS, apsw.SQLITE_OPEN_MAIN_JOURNAL, apsw.SQLITE_OPEN_SUPER_JOURNAL
    for name in ("index.db", "index.db-journal", "index.db-mj0123456901", "victim", "victim-journal"):
        (tmp_path / name).write_text("something")  # SQLite takes an empty file for none
    place = Root(str(tmp_path), anchored=anchored).open_place("index.db")
    FOLDERS.adopt(place)
    own, folder = place.path, place.path.rpartition("/")[0]
    others = [f"{folder}/victim", f"{folder}/victim-journal", f"{folder}/../{tmp_path.name}/victim", f"{own}-mj0123456901",
              f"{folder}/./index.db-journal", f"{folder}//index.db", "index.db", "/etc/passwd", f"{own}/../victim-journal"]
    assert [confined.xAccess(name, exists) for name in (own, f"{own}-journal", f"{own}-wal")] == [True, True, False]
    for name in others:
        assert not confined.xAccess(name, exists)
        with pytest.raises(apsw.IOError):
            confined.xDelete(name, False)
        with pytest.raises(apsw.CantOpenError):
            confined.xOpen(name, [journal | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, 0])
    with pytest.raises(apsw.IOError):
        confined.xDelete(own, False)  # SQLite never deletes the database itself
    with pytest.raises(apsw.CantOpenError):
        confined.xOpen(f"{own}-journal", [super_journal | apsw.SQLITE_OPEN_READONLY, 0])
    confined.xDelete(f"{own}-journal", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.db", "index.db-mj0123456901", "victim", "victim-journal"]
    FOLDERS.release(place)
    assert not confined.xAccess(own, exists)
    assert own not in FOLDERS.names


def test_r129_a_hard_link_is_refused_to_readers_with_the_reason(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        assert rag_ingest("index.db", "d", "s", "text", 10).is_ok
        runtime.close()
        (tmp_path / "twin.db").hardlink_to(tmp_path / "index.db")
        refused = rag_search("twin.db", "text", 1)
    assert isinstance(refused, Err)
    assert refused.error.code == "path_hard_link"
    assert "for writing even to be read" in refused.error
