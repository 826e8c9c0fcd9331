"""Tiles: the arithmetic of C2SP, the bytes, folders that any web server can show, and trees read back from them."""

from __future__ import annotations

import gzip
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_trees import Leaves, entries, tree_hash
from logs import new_log, open_log
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, witness

from rag_stdlib.proof.log import merkle, publish
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.fetching import Folder, Site
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.tiles import (
    MAX_BUNDLE_BYTES,
    Fetch,
    Tile,
    TiledLog,
    bundle,
    level_width,
    read_bundle,
    tiles_of,
)

MANY = 600
DATA = entries(MANY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "site"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("tile", "path"), [
    (Tile(0, 0), "tile/0/000"), (Tile(3, 1_234_067), "tile/3/x001/x234/067"), (Tile(63, 999), "tile/63/999"), (Tile(1, 1_000), "tile/1/x001/000"),
    (Tile(0, 273, 112), "tile/0/273.p/112"), (Tile(None, 1_234_067, 8), "tile/entries/x001/x234/067.p/8"), (Tile(None, 0, 256), "tile/entries/000"),
])
def test_names_are_those_of_c2sp(tile: Tile, path: str) -> None:
    assert tile.path == path


def test_a_log_of_70_000_has_the_tiles_that_c2sp_names() -> None:
    tiles = [tile for tile in tiles_of(70_000) if tile.level is not None]
    assert [[tile.width for tile in tiles if tile.level == level] for level in range(4)] == [[256] * 273 + [112], [256, 17], [1], []]
    assert [(tile.level, tile.index, tile.width) for tile in tiles_of(256)] == [(None, 0, 256), (0, 0, 256), (1, 0, 1)]
    assert list(tiles_of(0)) == []


@given(st.integers(0, 300_000), st.integers(0, 300_000))
def test_tiles_cover_a_log_and_new_ones_are_those_that_changed(one: int, other: int) -> None:
    since, size = sorted((one, other))
    every = set(tiles_of(size))
    assert set(tiles_of(size, since)) == every - set(tiles_of(since))
    for level in range(3):
        assert sum(tile.width for tile in every if tile.level == level) == level_width(level, size) == size // 256**level


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_bundles_are_read_as_they_were_written(made: list[bytes]) -> None:
    data = bundle(made)
    assert read_bundle(data, len(made)) == made
    for width in (len(made) - 1, len(made) + 1):
        assert refused(lambda width=width: read_bundle(data, width)) == "tile_malformed"  # type: ignore[misc]


@given(st.binary(max_size=60), st.integers(0, 8))
def test_any_bytes_are_a_bundle_that_writes_itself_again_or_are_refused(data: bytes, width: int) -> None:
    try:
        read = read_bundle(data, width)
    except ProofError as error:
        assert error.code == "tile_malformed"  # noqa: PT017 - or it is read
    else:
        assert bundle(read) == data


def test_a_published_log_is_read_back_with_all_its_proofs(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db", MANY) as log:
        assert publish.publish(log, folder) == head(MANY)
    assert files(folder) == ["checkpoint", "tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2", "tile/entries/000", "tile/entries/001", "tile/entries/002.p/88"]
    assert (folder / "tile/0/000").read_bytes() == b"".join(map(merkle.leaf_hash, DATA[:256]))
    assert (folder / "tile/1/000.p/2").read_bytes() == tree_hash(DATA[:256]) + tree_hash(DATA[256:512])
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in files(folder)} == {0o644}
    fetch = Folder(folder)
    shown = PINNED.open(fetch("checkpoint", 10_000) or b"").checkpoint
    tiled, source = TiledLog(fetch, shown.size), Leaves(DATA)
    assert merkle.root(MANY, tiled) == shown.root
    for position in (0, 1, 255, 256, 511, 512, MANY - 1):
        assert merkle.inclusion_path(position, MANY, tiled) == merkle.inclusion_path(position, MANY, source)
    for old in (1, 2, 255, 256, 257, 512, 513, MANY - 1, MANY):
        assert merkle.consistency_path(old, MANY, tiled) == merkle.consistency_path(old, MANY, source)
        assert merkle.comparison_path(old, MANY, tiled) == merkle.comparison_path(old, MANY, source)
    assert list(tiled.entries(0, MANY)) == DATA
    for start, stop in ((0, 0), (3, 7), (250, 260), (255, 256), (256, 257), (511, MANY), (MANY, MANY)):
        assert list(tiled.entries(start, stop)) == DATA[start:stop]


def test_a_folder_grows_with_the_log_and_full_tiles_are_never_written_again(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db") as log:
        publish.publish(log, folder)
        assert files(folder) == ["checkpoint"]
        seen: dict[str, bytes] = {}
        for size in (1, 2, 255, 256, 257, 300, 512, 513):
            log.append_many(DATA[log.size:size])
            publish.publish(log, folder)
            kept = {name: (folder / name).stat().st_ino for name in seen}
            assert (folder / "checkpoint").read_bytes() == note(size)
            tiled = TiledLog(Folder(folder), size)
            assert merkle.root(size, tiled) == head(size).root
            assert list(tiled.entries(0, size)) == DATA[:size]
            seen = {name: (folder / name).read_bytes() for name in files(folder) if ".p" not in name and name != "checkpoint"}
            before = {name: (folder / name).stat().st_ino for name in seen}
            assert all(before[name] == kept[name] for name in kept)
    assert "tile/0/000.p" not in {str(path.relative_to(folder)) for path in folder.rglob("*")}, "partial tiles go when the full one is there"


def test_where_a_partial_tile_is_gone_the_full_one_serves(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db", 100) as log:
        publish.publish(log, folder)
        log.append_many(DATA[100:300])
        publish.publish(log, folder)
    tiled = TiledLog(Folder(folder), 100)
    assert merkle.root(100, tiled) == head(100).root
    assert list(tiled.entries(0, 100)) == DATA[:100]


def test_a_cosigned_checkpoint_is_published_where_it_is_asked_for(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db", 5) as log:
        log.add_cosignatures(note(5), f"{witness().sign(head(5).text(), NOW).line}\n".encode(), [witness().verifier])
        log.append(DATA[5])
        assert publish.publish(log, folder, log.cosigned()) == head(5)
        assert (folder / "checkpoint").read_bytes() == note(5, LOG, witness())


def test_a_folder_never_goes_back_or_another_way(tmp_path: Path, folder: Path) -> None:
    fork = sign_note(Checkpoint(ORIGIN, 4, b"\1" * 32).text(), [LOG], NOW)
    with new_log(tmp_path / "log.db", 9) as log:
        publish.publish(log, folder)
        before = {name: (folder / name).read_bytes() for name in files(folder)}
        assert refused(lambda: publish.publish(log, folder, note(8))) == "rolled_back"
        assert refused(lambda: publish.publish(log, folder, fork)) == "forked"
        assert refused(lambda: publish.publish(log, folder, note(10))) == "forked"
        assert refused(lambda: publish.publish(log, folder, b"x")) == "note_malformed"
        for other, code in ((fork, "forked"), (sign_note(head(4, origin="log.example/other").text(), [LOG], NOW), "origin_mismatch"), (b"x", "note_malformed")):
            (folder / "checkpoint").write_bytes(other)
            assert refused(lambda: publish.publish(log, folder)) == code
            (folder / "checkpoint").write_bytes(before["checkpoint"])
        assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_a_publishing_that_is_cut_off_shows_the_old_checkpoint_and_is_made_good(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_log(tmp_path / "log.db", 3) as log:
        publish.publish(log, folder)
        log.append_many(DATA[3:400])
        whole, left = publish._write, [2]

        def failing(path: Path, data: bytes) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, os.strerror(28))
            whole(path, data)

        with monkeypatch.context() as patched:
            patched.setattr(publish, "_write", failing)
            assert refused(lambda: publish.publish(log, folder)) == "disk_full"
        assert (folder / "checkpoint").read_bytes() == note(3)
        publish.publish(log, folder)
        assert list(TiledLog(Folder(folder), 400).entries(0, 400)) == DATA[:400]
    assert not [name for name in files(folder) if "/." in name or name.startswith(".")]


def test_what_is_written_half_leaves_nothing(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise OSError(5, "x")

    with new_log(tmp_path / "log.db", 3) as log:
        monkeypatch.setattr(os, "fsync", failing)
        assert refused(lambda: publish.publish(log, folder)) == "file_io"
    assert files(folder) == []


def test_tiles_that_are_missing_or_of_another_width_are_told_of(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db", 300) as log:
        publish.publish(log, folder)
    tiled = TiledLog(Folder(folder), 300)
    for level, index in ((0, 300), (9, 0), (8, 1), (0, 10**9), (60, 0)):
        assert refused(lambda at=(level, index): tiled.hash_at(*at)) == "out_of_range"  # type: ignore[misc]
    for name, content, code in (("tile/0/001.p/44", None, "missing"), ("tile/0/001.p/44", b"x" * 43 * 32, "tile_malformed"), ("tile/0/001.p/44", b"x" * 9_000, "reply_malformed"),
                                ("tile/entries/000", b"\0", "tile_malformed"), ("tile/entries/000", None, "missing"), ("tile/entries/000", bytes(MAX_BUNDLE_BYTES + 1), "reply_malformed")):
        path = folder / name
        before = path.read_bytes()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        again = TiledLog(Folder(folder), 300)
        assert refused(lambda again=again: [*again.entries(0, 2), again.hash_at(0, 299)]) == code  # type: ignore[misc]
        path.write_bytes(before)


def test_a_folder_is_read_without_following_links_or_waiting(tmp_path: Path) -> None:
    fetch = Folder(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert (fetch("file", 1), fetch("none", 1), fetch("file/none", 1), fetch("pipe", 1)) == (b"x", None, None, b"")
    assert [refused(lambda name=name: fetch(name, 9)) for name in ("link", "folder", "a\0b")] == ["file_unsafe", "file_unsafe", "file_io"]  # type: ignore[misc]
    assert refused(lambda: fetch("file", 0)) == "reply_malformed"


@pytest.fixture
def site(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_published_log_is_read_over_http_from_any_web_server(tmp_path: Path, folder: Path, site: str) -> None:
    with new_log(tmp_path / "log.db", MANY) as log:
        publish.publish(log, folder)
    fetch = Site(site)
    assert fetch("checkpoint", 10_000) == note(MANY)
    assert fetch("none", 10) is None
    tiled = TiledLog(fetch, MANY)
    assert merkle.root(MANY, tiled) == head(MANY).root
    assert list(tiled.entries(0, MANY)) == DATA
    fetch.close()


def answering(reply: Callable[[httpx.Request], httpx.Response]) -> Fetch:
    return Site("http://log.example/a", transport=httpx.MockTransport(reply), timeout=0.2)


ABC = gzip.compress(b"abc", mtime=0)


@pytest.mark.parametrize(("status", "content", "coding", "expected"), [
    (200, b"abc", None, b"abc"), (200, b"abc", "identity", b"abc"), (200, ABC, "gzip", b"abc"), (200, gzip.compress(b"x" * 10, mtime=0), "gzip", b"x" * 10),
    (404, b"", None, None), (410, b"", None, None), (500, b"", None, "unreachable"), (302, b"", None, "unreachable"), (206, b"abc", None, "unreachable"),
    (200, b"x" * 11, None, "reply_malformed"), (200, gzip.compress(b"x" * 1_000_000, mtime=0)[:60], "gzip", "reply_malformed"), (200, ABC[:-9], "gzip", "reply_malformed"),
    (200, b"abc", "gzip", "reply_malformed"), (200, b"abc", "br", "reply_malformed"),
])
def test_what_a_web_server_may_answer_and_what_not(status: int, content: bytes, coding: str | None, expected: bytes | str | None) -> None:
    headers = {"location": "/elsewhere", **({"content-encoding": coding} if coding else {})}
    fetch = answering(lambda _: httpx.Response(status, content=iter([content]), headers=headers))
    most = 60 if coding == "gzip" and len(content) > 10 else 10
    if isinstance(expected, str):
        assert refused(lambda: fetch("x", most)) == expected
    else:
        assert fetch("x", most) == expected


def test_a_server_that_cannot_be_reached_or_dribbles() -> None:
    def failing(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    def dribbling(_: httpx.Request) -> httpx.Response:
        def parts() -> Iterator[bytes]:
            while True:
                time.sleep(0.15)
                yield b"x"
        return httpx.Response(200, content=parts())

    assert refused(lambda: answering(failing)("x", 10)) == "unreachable"
    assert refused(lambda: answering(dribbling)("x", 1_000)) == "unreachable"
    assert refused(lambda: Site("http://[bad")("x", 10)) == "unreachable"
    assert refused(lambda: Site("ftp://log.example")("x", 10)) == "unreachable"


def test_of_those_who_publish_at_once_none_takes_the_folder_back(tmp_path: Path, folder: Path) -> None:
    with new_log(tmp_path / "log.db") as log, ThreadPoolExecutor(4) as pool:
        notes = [log.append(entry).checkpoint for entry in DATA[:40]]

        def show(checkpoint: bytes) -> str:
            try:
                return str(publish.publish(log, folder, checkpoint).size)
            except LogError as error:
                return error.code

        said = set(pool.map(show, notes))
    assert said - {"rolled_back"} >= {"40"}
    assert (folder / "checkpoint").read_bytes() == notes[-1]
    assert list(TiledLog(Folder(folder), 40).entries(0, 40)) == DATA[:40]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with new_log(tmp_path / "log.db", 2) as log:
        assert refused(lambda: publish.publish(log, tmp_path / "file")) == "file_io"


def test_a_log_that_is_opened_to_be_read_can_be_published(tmp_path: Path, folder: Path) -> None:
    new_log(tmp_path / "log.db", 2).close()
    with open_log(tmp_path / "log.db", None) as log:
        assert publish.publish(log, folder).size == 2

