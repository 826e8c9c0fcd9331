"""R36, R186, R188: which journal a file gets, and that side files are SQLite's own business."""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw
import pytest

from rag_stdlib import Config, Runtime, rag_check, rag_ingest, rag_search, rag_stats
from rag_stdlib.index import journal
from rag_stdlib.root import Place, Root

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt/share rw,relatime shared:9 - nfs4 server:/share rw
31 22 0:27 / /mnt/win rw - cifs //server/win rw
32 22 0:28 / /run rw - tmpfs tmpfs rw
33 22 0:1025 / /deep rw - fuse.sshfs host: rw
broken line
34 22 0:29 / /odd rw without a dash
"""


@pytest.mark.parametrize(("version", "safe"), [
    ("3.51.3", True), ("3.51.4", True), ("3.52.0", True), ("3.54.1", True), ("4.0.0", True), ("3.50.7", True), ("3.50.8", True), ("3.44.6", True),
    ("3.44.9", True), ("3.51.2", False), ("3.51.0", False), ("3.50.6", False), ("3.45.0", False), ("3.49.99", False), ("3.44.5", False),
    ("3.8.0", False), ("3.50", False)])
def test_r186_the_log_is_used_only_where_it_is_safe(version: str, safe: bool) -> None:
    assert journal.log_is_safe(version) is safe


@pytest.mark.parametrize(("device", "kind"), [
    (os.makedev(0, 26), "nfs4"), (os.makedev(0, 27), "cifs"), (os.makedev(0, 28), None), (os.makedev(254, 0), None), (os.makedev(9, 9), None),
    (os.makedev(0, 1025), "fuse.sshfs"), (os.makedev(0, 29), None)])
def test_r36_network_file_systems_are_told_by_their_device(device: int, kind: str | None) -> None:
    assert journal.network_file_system(device, MOUNTS) == kind


def test_r36_r186_the_wanted_mode(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert journal.wanted_mode(os.makedev(254, 0), version="3.54.1", mounts=mounts) == "wal"
    assert journal.wanted_mode(os.makedev(0, 26), version="3.54.1", mounts=mounts) == "delete"
    assert journal.wanted_mode(os.makedev(254, 0), version="3.51.2", mounts=mounts) == "delete"
    assert journal.wanted_mode(os.makedev(0, 26), version="3.54.1", mounts=tmp_path / "none") == "wal"


def test_r186_an_index_with_a_rollback_journal_works_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "log_is_safe", lambda _version: False)
    with Runtime(Config(), root=tmp_path):
        for number in range(5):
            assert rag_ingest("index.db", f"d{number}", "s", "words of it", 100).is_ok
        assert len(rag_search("index.db", "words", 10).unwrap()) == 5
        stats = rag_stats("index.db").unwrap()
        assert stats.journal_mode == "delete"
        assert any(notice.startswith("rollback journal (delete)") for notice in stats.notices)
        assert rag_check("index.db").unwrap().clean
        assert [path.name for path in tmp_path.iterdir()] == ["index.db"]


def test_r33_a_busy_file_is_tried_again_until_the_deadline(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    other, connection = apsw.Connection(path), apsw.Connection(path)
    other.execute("CREATE TABLE t(x)")
    other.execute("BEGIN EXCLUSIVE")
    place: Place
    with Root(str(tmp_path)).place("index.db") as place:
        begin = time.monotonic()
        with pytest.raises(apsw.BusyError):
            journal.set_journal_mode(connection, place, time.monotonic() + 0.15)
        assert 0.1 < time.monotonic() - begin < 5
        other.execute("COMMIT")
        journal.set_journal_mode(connection, place, time.monotonic() + 5)
        assert connection.pragma("journal_mode") == "wal"
        journal.set_journal_mode(connection, place, time.monotonic() - 1)
    connection.close()
    other.close()


def test_r33_where_the_log_cannot_be_had_the_file_keeps_its_journal(tmp_path: Path) -> None:
    connection = apsw.Connection(":memory:")
    (tmp_path / "index.db").touch()
    with Root(str(tmp_path)).place("index.db") as place:
        journal.set_journal_mode(connection, place, time.monotonic() + 5)
    assert connection.pragma("journal_mode") == "memory"
    connection.close()


def test_r188_a_strangers_log_is_left_alone(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest("index.db", "d", "s", "words", 100)
        other = apsw.Connection(str(tmp_path / "index.db"))
        assert other.execute("SELECT count(*) FROM rag_chunks").fetchall() == [(1,)]
        runtime.close()
        assert (tmp_path / "index.db-wal").exists()
        rag_ingest("index.db", "e", "s", "words", 100)
        assert other.execute("SELECT count(*) FROM rag_chunks").fetchall() == [(2,)]
        other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["index.db"]
