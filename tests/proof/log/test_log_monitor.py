"""A monitor: what it reads and keeps, and that it finds a log that does not keep what it has shown, in its file or published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from log_trees import entries
from logs import changed, entry, new_log
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, signer, witness

from rag_stdlib.proof.log.answers import Conflict
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.fetching import Folder, Site
from rag_stdlib.proof.log.monitor import Monitor, Report
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.publish import publish
from rag_stdlib.proof.log.sightings import Sighting
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tiles import PublishedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with new_log(tmp_path / "log.db") as made:
        yield made


def test_entries_of_another_kind_are_named_and_disturb_nothing(monitor: Monitor, log: Log) -> None:
    log.append_many([b"", entry("q", "a"), b"\xff\xfe", entry("q", "b")[:-1], b"{" * 60_000, entry("q", "b")])
    assert monitor.scan(log) == Report(6, 6, (Conflict(1, 5, True),), (0, 2, 3, 4))


def test_a_scan_reads_only_what_is_new(monitor: Monitor, log: Log) -> None:
    asked: list[tuple[int, int]] = []

    class Watched:
        checkpoint, comparison_path = log.checkpoint, log.comparison_path

        def entries(self, start: int, stop: int) -> Iterator[bytes]:
            asked.append((start, stop))
            return log.entries(start, stop)

    for count in (3, 0, 5, 2_000):
        log.append_many(entry(f"q{log.size}-{number}") for number in range(count))
        assert monitor.scan(Watched()).new == count  # type: ignore[arg-type]
    assert asked == [(0, 3), (3, 3), (3, 8), (8, 2_008)]
    assert PINNED.open(monitor.checkpoint() or b"").checkpoint.size == 2_008


def test_the_state_outlives_the_process(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "monitor.db"
    Monitor.create(path, ORIGIN)
    for size in (0, 1, 6, 11):
        log.append_many(entry(f"q{number}") for number in range(log.size, size))
        with Monitor(path, PINNED) as made:
            assert made.scan(log) == Report(size, size - max(0, size - 5) if size > 1 else size)
    log.append(entry("q0", "other"))
    with Monitor(path, PINNED) as made:
        assert made.scan(log).conflicts == (Conflict(0, 11, True),)
        assert made.checkpoint() == log.checkpoint()


def rewritten(tmp_path: Path, data: list[bytes], name: str = "other.db") -> Log:
    """A log of the same key with other entries."""
    made = new_log(tmp_path / name)
    made.append_many(data)
    return made


DATA = entries(10)
CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "dropped": lambda data: data[:4] + data[5:], "rewritten": lambda data: [*data[:4], b"other", *data[5:]], "swapped": lambda data: [*data[:3], data[4], data[3], *data[5:]],
    "inserted": lambda data: [*data[:4], b"other", *data[4:]], "the last": lambda data: [*data[:9], b"other"],
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("more", [0, 1, 9])
@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_does_not_keep_its_entries_is_caught(monitor: Monitor, log: Log, tmp_path: Path, change: str, more: int, whole: bool) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    data = CHANGES[change](DATA)
    data += [b"new"] * (len(DATA) - len(data)) + [b"new"] * more
    with rewritten(tmp_path, data) as other:
        report = monitor.scan(other, whole=whole)
        alarm, = report.alarms
        assert (report.size, report.new, alarm.code, alarm.time, alarm.checkpoint) == (10, 0, "forked", NOW, other.checkpoint())
        assert f"entry {3 if change == 'swapped' else 9 if change == 'the last' else 4} is another than it was" in alarm.words
        assert monitor.scan(other, whole=whole).alarms == (alarm,)
    assert monitor.alarms() == [alarm], "it is noted once"
    assert monitor.scan(log) == Report(10, 0), "the log as it was is still known"
    assert PINNED.open(monitor.checkpoint() or b"").checkpoint == head(10)


@pytest.mark.parametrize("whole", [False, True])
def test_a_log_that_goes_back_is_caught(monitor: Monitor, log: Log, tmp_path: Path, whole: bool) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    for size in (0, 9):
        with rewritten(tmp_path, DATA[:size], f"{size}.db") as other:
            alarm, = monitor.scan(other, whole=whole).alarms
            assert (alarm.code, alarm.words) == (
                "rolled_back", f"the log shows a tree of size {size}, and it showed one of size 10 before: it went back, or whoever serves it is behind")
    assert [alarm.code for alarm in monitor.alarms()] == ["rolled_back"] * 2


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("size", [1, 8, 9])
def test_a_smaller_tree_that_was_never_the_logs_is_a_fork(monitor: Monitor, log: Log, tmp_path: Path, size: int, whole: bool) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    with rewritten(tmp_path, [b"other", *DATA[1:size]]) as other:
        alarm, = monitor.scan(other, whole=whole).alarms
        assert (alarm.code, alarm.words) == ("forked", f"the log shows a tree of size {size} that is not the beginning of its tree of size 10")
        gone = Served(other, tiles=failing, entries=failing)
        assert monitor.scan(gone, whole=whole).alarms == (alarm,), "the signed checkpoint is enough"


def failing(*_: Any) -> Any:
    raise LogError("unreachable", "nobody there")


def torn(*_: Any) -> Any:
    raise ProofError("tile_malformed", "it is none")


class Served:
    """A log as someone else serves it: true checkpoints, and what he makes of the hashes and the entries."""

    def __init__(self, log: Log, *, tiles: Callable[[list[bytes]], Any] = lambda path: path, entries: Callable[[list[bytes]], Any] = lambda data: data) -> None:
        self._log, self._tiles, self._entries = log, tiles, entries
        self.checkpoint = log.checkpoint

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        return list(self._tiles(self._log.comparison_path(old_size, new_size)))

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        return iter(self._entries(list(self._log.entries(0, stop)))[start:stop])


TILES: dict[str, Callable[[list[bytes]], Any]] = {
    "true": lambda path: path, "garbage": lambda path: [b"\1" * 32] * len(path), "none": lambda _: [], "too many": lambda path: [*path, *path], "turned": lambda path: path[::-1],
    "no hashes": lambda path: [each[:31] for each in path], "gone": failing, "torn": torn,
}
ENTRIES: dict[str, Callable[[list[bytes]], Any]] = {
    "a new one": lambda data: [*data[:-1], b"garbage"], "an old and a new one": lambda data: [data[0], b"garbage", *data[2:-1], b"garbage"], "all": lambda data: [b"garbage"] * len(data),
    "too few": lambda data: data[:-1], "none": lambda _: [],
}


@pytest.mark.parametrize("size", [0, 5, 8])
@pytest.mark.parametrize("tiles", TILES)
def test_whoever_serves_garbage_makes_no_fork_of_an_honest_log(monitor: Monitor, log: Log, tiles: str, size: int) -> None:
    log.append_many(DATA[:size])
    monitor.scan(log)
    log.append_many(DATA[size:])
    for served in ENTRIES.values():
        for whole in (False, True):
            alarm, = monitor.scan(Served(log, tiles=TILES[tiles], entries=served), whole=whole).alarms
            assert (alarm.code, "may be at fault" in alarm.words) == ("entries_differ", True)
            assert ("the log goes on" in alarm.words) is (size > 0 and tiles == "true")
    assert monitor.scan(log, whole=True) == Report(10, 10 - size, (), tuple(range(size, 10))), "served rightly, it goes on"


@pytest.mark.parametrize("entries", [failing, torn])
@pytest.mark.parametrize("tiles", TILES)
def test_where_an_honest_log_cannot_be_read_that_is_no_alarm(monitor: Monitor, log: Log, tiles: str, entries: Callable[..., Any]) -> None:
    log.append_many(DATA[:8])
    monitor.scan(log)
    log.append_many(DATA[8:])
    assert refused(lambda: monitor.scan(Served(log, tiles=TILES[tiles], entries=entries))) == ("unreachable" if entries is failing else "tile_malformed")
    assert (monitor.alarms(), monitor.scan(log).new) == ([], 2)


@pytest.mark.parametrize("size", [5, 8, 10])
def test_a_fork_is_proven_by_its_entries_whatever_becomes_of_its_hashes(monitor: Monitor, log: Log, tmp_path: Path, size: int) -> None:
    log.append_many(DATA[:size])
    monitor.scan(log)
    with rewritten(tmp_path, [*DATA[:4], b"other", *DATA[5:]]) as other:
        for tiles in TILES.values():
            for whole in (False, True):
                alarm, = monitor.scan(Served(other, tiles=tiles), whole=whole).alarms
                assert (alarm.code, alarm.words) == ("forked", f"the log does not continue its tree of size {size}: entry 4 is another than it was")


@pytest.mark.parametrize("size", [5, 8, 10])
def test_a_fork_is_proven_by_its_hashes_whatever_becomes_of_its_entries(monitor: Monitor, log: Log, tmp_path: Path, size: int) -> None:
    log.append_many(DATA[:size])
    monitor.scan(log)
    with rewritten(tmp_path, [*DATA[:4], b"other", *DATA[5:]]) as other:
        for served in (*ENTRIES.values(), failing, torn):
            for whole in (False, True):
                alarm, = monitor.scan(Served(other, entries=served), whole=whole).alarms
                assert (alarm.code, alarm.words) == ("forked", f"the log does not continue its tree of size {size}"), "which one is another is not shown by other entries"


@pytest.mark.parametrize("size", [5, 8])
@pytest.mark.parametrize("tiles", [name for name in TILES if name != "true"])
def test_a_fork_of_which_nothing_true_is_served_is_an_alarm_all_the_same(monitor: Monitor, log: Log, tmp_path: Path, tiles: str, size: int) -> None:
    log.append_many(DATA[:size])
    monitor.scan(log)
    with rewritten(tmp_path, [b"other", *DATA[1:]]) as other:
        alarm, = monitor.scan(Served(other, tiles=TILES[tiles], entries=lambda data: [*DATA[:1], *data[1:]])).alarms
        assert (alarm.code, "is not shown; whoever serves it may be at fault" in alarm.words) == ("entries_differ", True)
        assert monitor.scan(other).alarms[0].code == "forked", "until it is"


def test_a_source_that_serves_something_else_each_time_is_at_fault_itself(monitor: Monitor, log: Log) -> None:
    log.append_many(DATA[:5])
    monitor.scan(log)
    log.append_many(DATA[5:])
    turns = iter([b"garbage", DATA[9]])
    alarm, = monitor.scan(Served(log, tiles=failing, entries=lambda data: [*data[:9], next(turns)])).alarms
    assert (alarm.code, "the log goes on" in alarm.words) == ("entries_differ", True)


def test_an_old_entry_that_is_served_otherwise_is_caught_by_reading_all(monitor: Monitor, log: Log) -> None:
    log.append_many(DATA[:8])
    monitor.scan(log)
    lying = Served(log, entries=lambda data: [*data[:2], b"other", *data[3:]])
    assert monitor.scan(lying) == Report(8, 0)
    for size in (8, 10):
        log.append_many(DATA[log.size:size])
        alarm, = monitor.scan(lying, whole=True).alarms
        assert (alarm.code, alarm.words) == ("entries_differ", "entry 2 is served as another than it is in the signed tree, which has it as it was; whoever serves it may be at fault")
        assert monitor.checkpoint() == note(8), "nothing of it is taken over"
    assert monitor.scan(log, whole=True).new == 2
    short = Served(log, entries=lambda data: data[:2])
    assert monitor.scan(short, whole=True).alarms[0].words == "the entries of the signed tree from 2 on are not served; whoever serves them may be at fault"
    assert refused(lambda: monitor.scan(Served(log, entries=failing), whole=True)) == "unreachable"
    assert monitor.scan(log, whole=True) == Report(10, 0)


def test_what_the_entries_of_a_conflict_say_is_read_where_they_still_are(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    log.append_many([entry("q", "a"), b"x", entry("q", "b")])
    conflict, = monitor.scan(log).conflicts
    both = Sighting("i", "s", "q", "w", "a", "qa"), Sighting("i", "s", "q", "w", "b", "qb")
    assert monitor.sightings(conflict, log) == both
    assert monitor.sightings(conflict, Served(log, entries=lambda data: [*data[:2], entry("q", "b", issuer="j")])) == (both[0], None), "no other key is accused"
    assert monitor.sightings(conflict, Served(log, entries=lambda data: data[:1])) == (both[0], None)
    assert monitor.sightings(conflict, Served(log, entries=failing)) == (None, None)
    with rewritten(tmp_path, [b"other"]) as other:
        assert monitor.sightings(conflict, other) == (None, None)
    log.append(b"more")
    assert monitor.sightings(conflict, log) == both


def test_what_cannot_be_verified_or_reached_changes_nothing(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    with Monitor(tmp_path / "monitor.db", PinnedLog(ORIGIN, (signer(2).verifier,))) as strict:
        assert refused(lambda: strict.scan(log)) == "signature_missing"
    assert refused(lambda: monitor.scan(PublishedLog(Folder(tmp_path / "none")))) == "missing"
    folder = tmp_path / "site"
    log.append(b"more")
    publish(log, folder)
    (folder / "tile/entries/000.p/11").unlink()
    assert refused(lambda: monitor.scan(PublishedLog(Folder(folder)))) == "missing"
    assert (monitor.alarms(), monitor.scan(log).new) == ([], 1)


def test_a_log_is_held_to_what_it_signs_whoever_cosigned_it(tmp_path: Path, log: Log) -> None:
    Monitor.create(tmp_path / "m.db", ORIGIN)
    witnessed = PinnedLog(ORIGIN, (LOG.verifier,), (witness(1).verifier,), 1)
    log.append_many(DATA)
    assert refused(lambda: witnessed.open(log.checkpoint())) == "quorum_missing"
    with Monitor(tmp_path / "m.db", witnessed) as made:
        assert made.scan(log).size == 10


def test_of_two_scans_at_once_the_one_waits_and_none_takes_the_log_to_have_gone_back(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    """While one scan is shown a checkpoint, another one must not read more of the log."""
    log.append_many(DATA[:5])

    class Slow:
        entries, comparison_path = log.entries, log.comparison_path

        def checkpoint(self) -> bytes:
            shown = log.checkpoint()
            log.append_many(DATA[5:])
            with Monitor(tmp_path / "monitor.db", PINNED, busy_seconds=0.05) as other:
                assert refused(lambda: other.scan(log)) == "busy"
            return shown

    assert monitor.scan(Slow()).size == 5  # type: ignore[arg-type]
    assert (monitor.scan(log).size, monitor.alarms()) == (10, [])


def test_a_state_of_another_release_is_told_as_such(tmp_path: Path, monitor: Monitor) -> None:
    monitor.close()
    changed(tmp_path / "monitor.db", "DROP TABLE monitor_conflicts", "PRAGMA user_version = 1")
    with pytest.raises(LogError) as caught:
        Monitor(tmp_path / "monitor.db", PINNED)
    assert caught.value.code == "file_foreign"
    assert caught.value.words.endswith("was made by another release: it is of version 1, and 2 is known here; go on with that release, or make a new one")


def test_a_monitor_of_another_log_and_one_without_state(tmp_path: Path, monitor: Monitor) -> None:
    assert monitor.checkpoint() is None
    assert refused(lambda: Monitor(tmp_path / "none.db", PINNED)) == "missing"
    assert refused(lambda: Monitor.create(tmp_path / "monitor.db", ORIGIN)) == "exists"
    assert refused(lambda: Monitor(tmp_path / "monitor.db", PinnedLog("log.example/other", (LOG.verifier,)))) == "origin_mismatch"


def test_a_state_that_contradicts_itself_is_damaged(tmp_path: Path, monitor: Monitor, log: Log) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    monitor._database.close_idle()
    changed(tmp_path / "monitor.db", "DELETE FROM monitor_leaves WHERE position = 3")
    assert refused(lambda: monitor.scan(log, whole=True)) == "damaged"
    for size in (5, 12):
        with rewritten(tmp_path, [b"other", *entries(12)[1:size]], f"{size}.db") as other:
            assert refused(lambda other=other: monitor.scan(other)) == "damaged"  # type: ignore[misc]
    assert monitor.alarms() == [], "no log is accused by a file that is damaged"
    monitor._database.close_idle()
    for statement in ("UPDATE monitor_state SET edge = zeroblob(64)", "UPDATE monitor_state SET edge = x'00'", "UPDATE monitor_state SET edge = CAST(x'ff' AS TEXT)", "UPDATE monitor_state SET size = 'text'", "DELETE FROM monitor_state"):
        changed(tmp_path / "monitor.db", statement)
        assert refused(lambda: monitor.scan(log)) == "damaged"
        monitor._database.close_idle()
    assert refused(monitor.checkpoint) == "damaged"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    (tmp_path / "site").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_published_log_is_watched_in_its_folder_and_over_http(monitor: Monitor, log: Log, tmp_path: Path, site: str) -> None:
    folder, fetch = tmp_path / "site", Site(site)
    log.append_many(entry(f"q{number}") for number in range(300))
    publish(log, folder)
    assert monitor.scan(PublishedLog(Folder(folder))) == Report(300, 300)
    log.append_many([entry("q7", "other"), b"x"])
    publish(log, folder)
    assert monitor.scan(PublishedLog(fetch)) == Report(302, 2, (Conflict(7, 300, True),), (301,))
    assert monitor.scan(PublishedLog(fetch), whole=True) == Report(302, 0)
    data = [*log.entries()]
    with rewritten(tmp_path, [*data[:280], b"other", *data[281:], b"new"]) as other:
        publish(other, tmp_path / "forked")
        alarm, = monitor.scan(PublishedLog(Folder(tmp_path / "forked"))).alarms
        assert (alarm.code, "entry 280 is another than it was" in alarm.words) == ("forked", True)
    fetch.close()


def test_a_tile_that_was_changed_under_a_signed_tree_is_caught(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    log.append_many(DATA)
    publish(log, folder)
    bundle = folder / "tile/entries/000.p/10"
    bundle.write_bytes(bundle.read_bytes().replace(b"entry 7", b"entry 0"))
    assert [alarm.code for alarm in monitor.scan(PublishedLog(Folder(folder))).alarms] == ["entries_differ"]
    assert note(10) == log.checkpoint()
