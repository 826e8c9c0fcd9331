"""Opening an index stays below the root, whatever happens to the names meanwhile (R122, R125, R129)."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from rag_stdlib import Config, Err, Ok, Runtime, carry, rag_check, rag_delete, rag_ingest, rag_search
from rag_stdlib.errors import Failure
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root

SWAPS_AT_LEAST = 1_000


def picture(folder: Path) -> dict[str, tuple[str, int]]:
    return {str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_r125_a_component_swapped_for_a_link_in_a_loop_never_leads_outside(tmp_path: Path) -> None:  # noqa: C901 - one story
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    (root / "real").mkdir()
    outside.mkdir()
    with Runtime(Config(), root=outside):
        assert rag_ingest("index.db", "secret", "s", "the outside secret words", 50).is_ok
    (root / "link").symlink_to(outside)
    before = picture(outside)
    until = time.monotonic() + 10
    swaps = 0
    stopped = threading.Event()

    def swap() -> None:
        nonlocal swaps
        real, link, path = (str(root / name) for name in ("real", "link", "path"))
        while time.monotonic() < until:
            os.rename(real, path)  # noqa: PTH104 - as quick as can be
            os.rename(path, real)  # noqa: PTH104 - as quick as can be
            os.rename(link, path)  # noqa: PTH104 - as quick as can be
            os.rename(path, link)  # noqa: PTH104 - as quick as can be
            swaps += 1
        stopped.set()

    codes: dict[str, int] = {}
    leaks: list[object] = []

    def use(number: int) -> None:
        turn = 0
        while not stopped.is_set():
            turn += 1
            new = f"path/new-{number}-{turn}.db" if turn % 3 == 0 else "path/index.db"
            for result in (rag_ingest(new, f"d{number}-{turn % 5}", "s", f"inside words {turn}", 50),
                           rag_search("path/index.db", "secret words", 5), rag_check(new),
                           rag_delete("path/index.db", "secret")):
                if isinstance(result, Err):
                    codes[result.error.code] = codes.get(result.error.code, 0) + 1
                elif "secret" in str(result.value):
                    leaks.append(result)
                else:
                    codes["ok"] = codes.get("ok", 0) + 1

    with Runtime(Config(), root=root) as runtime:
        threads = [threading.Thread(target=carry(use), args=(number,)) for number in range(3)]
        threads.append(threading.Thread(target=swap))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runtime.close()
        for path in (root / "real").glob("*.db"):
            assert rag_check(f"real/{path.name}").unwrap().clean
    assert swaps > SWAPS_AT_LEAST
    assert leaks == []
    assert picture(outside) == before
    assert codes["ok"] > 20  # some calls met the real folder
    assert codes["path_symlink"] > 20  # and some the link
    assert codes.keys() <= {"ok", "path_symlink", "path_folder_missing", "index_missing", "not_found"}, codes


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

    connect = module._connect

    def late(*args: object, **named: object) -> object:
        (root / f"index.db{suffix}").symlink_to(outside)
        return connect(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_connect", late)
    with pytest.raises(Failure) as failed, store.writing("index.db", create=True):
        pass
    assert failed.value.error.code in ("index_io", "path_symlink")
    assert outside.read_bytes() == b""


def test_a_hard_link_put_in_place_after_the_check_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.db"
    root.mkdir()
    outside.write_bytes(b"")
    from rag_stdlib.index import store as module

    connect = module._connect

    def late(*args: object, **named: object) -> object:
        os.link(outside, root / "index.db")
        return connect(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_connect", late)
    with pytest.raises(Failure) as failed, Store(Root(str(root))).writing("index.db", create=True):
        pass
    assert failed.value.error.code == "path_hard_link"
    assert outside.read_bytes() == b""


def test_a_file_exchanged_while_it_is_opened_is_not_taken_for_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(Config(), root=tmp_path):
        for name in ("a", "b"):
            assert rag_ingest(f"{name}.db", "d", "s", f"words of {name}", 50).is_ok
    from rag_stdlib.index import store as module

    connect = module._connect

    def late(*args: object, **named: object) -> object:
        connection = connect(*args, **named)  # type: ignore[arg-type]
        if (tmp_path / "b.db").exists():
            (tmp_path / "b.db").replace(tmp_path / "a.db")
        return connection

    monkeypatch.setattr(module, "_connect", late)
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
