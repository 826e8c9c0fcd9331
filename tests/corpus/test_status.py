"""How a sync stands is told while it goes, and afterwards, also where it never came to its end."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.status import Watch, last_scan
from rag_stdlib.root import Root


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_sync_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    place, clock, heard = SyncPlace(Root(str(tmp_path)), "kb.db"), Clock(), []
    assert last_scan(place) == {"state": "unknown"}
    with place.locked():
        watch = Watch(place.status, clock, lambda *told: heard.append(told))
        watch.begin(2)
        assert last_scan(place)["state"] == "scanning"
        clock.now += 10
        watch.at("alpha", "a.md", 5, 10)
        watch.counts.files_changed += 1
        told = last_scan(place)
        assert told["current"] == {"repo": "alpha", "path": "a.md"}
        assert (told["started_at"], told["finished_at"], told["duration_ms"], told["repos_total"]) == (1_000_000, None, None, 2)
        watch.stored()
        clock.now += 5
        watch.end()
    told = last_scan(place)
    assert (told["state"], told["current"], told["finished_at"], told["duration_ms"]) == ("idle", None, 1_015_000, 15_000)
    assert (told["files_changed"], told["last_ingest_at"]) == (1, 1_010_000)
    assert heard == [("alpha", "a.md", 5, 10)]


def test_files_in_quick_succession_write_the_file_once(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(tmp_path / "status.json", clock)
    watch.begin(1)
    written = (tmp_path / "status.json").stat().st_mtime_ns
    for number in range(100):
        watch.at("alpha", f"{number}.md", number, 100)
    assert (tmp_path / "status.json").stat().st_mtime_ns == written
    clock.now += 1
    watch.at("alpha", "late.md", 100, 100)
    assert json.loads((tmp_path / "status.json").read_text())["current"]["path"] == "late.md"


def test_a_sync_that_died_is_unknown_and_the_last_ingest_is_remembered(tmp_path: Path) -> None:
    place, clock = SyncPlace(Root(str(tmp_path)), "kb.db"), Clock()
    with place.locked():
        watch = Watch(place.status, clock)
        watch.begin(1)
        watch.stored()
        watch.end()
        clock.now += 60
        Watch(place.status, clock).begin(1)
    told = last_scan(place)
    assert (told["state"], told["last_ingest_at"]) == ("unknown", 1_000_000)


def test_a_status_that_cannot_be_kept_or_read_stops_nothing(tmp_path: Path) -> None:
    place = SyncPlace(Root(str(tmp_path)), "kb.db")
    watch = Watch(place.status, Clock())  # its folder is not there
    watch.begin(1)
    watch.end()
    place.folder.mkdir(parents=True)
    for text in ("[]", "{", "\udcff", "[" * 100_000):
        place.status.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert last_scan(place) == {"state": "unknown"}


def test_a_clock_that_is_set_back_stops_no_telling_and_makes_no_negative_duration(tmp_path: Path) -> None:
    place, clock = SyncPlace(Root(str(tmp_path)), "kb.db"), Clock()
    with place.locked():
        watch = Watch(place.status, clock)
        watch.begin(1)
        clock.now -= 500
        watch.at("alpha", "a.md", 0, 1)
        assert last_scan(place)["current"] == {"repo": "alpha", "path": "a.md"}
        watch.end()
    assert last_scan(place)["duration_ms"] == 0


def test_what_stands_in_the_way_is_not_written_through_nor_waited_for(tmp_path: Path) -> None:
    place, clock = SyncPlace(Root(str(tmp_path)), "kb.db"), Clock()
    other = tmp_path / "other.json"
    other.write_text('{"state": "idle", "last_ingest_at": 7}')
    with place.locked():
        (place.folder / "status.new").symlink_to(other)
        Watch(place.status, clock).begin(1)
        assert last_scan(place)["state"] == "scanning"
        assert other.read_text() == '{"state": "idle", "last_ingest_at": 7}'
        place.status.unlink()
        place.status.symlink_to(other)
        assert last_scan(place) == {"state": "unknown"}
        place.status.unlink()
        os.mkfifo(place.status)
        assert last_scan(place) == {"state": "unknown"}
        place.status.unlink()
        place.status.mkdir()
        assert last_scan(place) == {"state": "unknown"}
        Watch(place.status, clock).begin(1)
        assert {path.name for path in place.folder.iterdir()} == {"status.json", "sync.lock"}, "what could not be put in its place is gone"
