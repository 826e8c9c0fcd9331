"""A monitor: two answers to one question are found, and a log that does not keep what it has shown, in its file or published."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from log_trees import entries
from logs import changed, new_log
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, signer

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.fetching import Folder, Site
from rag_stdlib.proof.log.monitor import Conflict, Monitor, Report
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.publish import publish
from rag_stdlib.proof.log.sightings import Sighting, read_sighting
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tiles import PublishedLog


def entry(query: str = "q", answer: str = "a", *, issuer: str = "i", state: str = "s", **others: Any) -> bytes:
    value = {"schema": "rag-stdlib/log-entry/v1", "answer_sha256": answer, "body_sha256": f"{query}{answer}", "index_state": state,
             "issued_at": "2026-12-01T00:00:00Z", "issuer_key_id": issuer, "query_key": query, "signature": "c2ln", **others}
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    Monitor.create(tmp_path / "monitor.db", ORIGIN)
    with Monitor(tmp_path / "monitor.db", PINNED, synchronous="normal", clock=lambda: NOW) as made:
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with new_log(tmp_path / "log.db") as made:
        yield made


def test_an_entry_of_a_certificate_is_read_in_its_one_form() -> None:
    assert read_sighting(entry("q", "a", issuer="i", state="s")) == Sighting("i", "s", "q", "a")


@pytest.mark.parametrize("data", [
    b"", b"x", b"{}", b"null", b"[]", b"\xff", entry()[:-1], entry() + b" ", b" " + entry(), entry(schema="rag-stdlib/log-entry/v2"), entry(extra="x"), entry(query_key=None),
    entry(query_key=1), entry().replace(b'"query_key":"q"', b'"query_key":"q","query_key":"q"'), entry().replace(b'"query_key":"q",', b""),
    entry().replace(b'"q"', b'"\\u0071"'), entry().replace(b'"q"', b'"\\ud800"'), b"[" * 10_000, json.dumps(json.loads(entry())).encode(), entry().replace(b"signature", b"Signature"),
])
def test_what_is_none_is_none(data: bytes) -> None:
    assert read_sighting(data) is None


def test_two_answers_to_one_question_over_one_state_are_a_conflict(monitor: Monitor, log: Log) -> None:
    log.append_many([entry("q1", "a"), entry("q1", "a"), entry("q2", "b"), entry("q1", "b"), entry("q1", "c", state="t"), entry("q1", "c", issuer="j")])
    assert monitor.scan(log) == Report(6, 6, (Conflict(0, 3),))
    log.append_many([entry("q1", "b"), entry("q1", "c"), entry("q2", "x")])
    assert monitor.scan(log) == Report(9, 3, (Conflict(0, 7), Conflict(2, 8)))
    assert monitor.conflicts() == [Conflict(0, 3), Conflict(0, 7), Conflict(2, 8)]
    assert monitor.scan(log) == Report(9, 0)


def test_entries_of_another_kind_are_named_and_disturb_nothing(monitor: Monitor, log: Log) -> None:
    log.append_many([b"", entry("q", "a"), b"\xff\xfe", entry("q", "b")[:-1], b"{" * 60_000, entry("q", "b")])
    assert monitor.scan(log) == Report(6, 6, (Conflict(1, 5),), (0, 2, 3, 4))


def test_a_scan_reads_only_what_is_new(monitor: Monitor, log: Log) -> None:
    asked: list[tuple[int, int]] = []

    class Watched:
        checkpoint, consistency_path = log.checkpoint, log.consistency_path

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
        assert made.scan(log).conflicts == (Conflict(0, 11),)
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


@pytest.mark.parametrize("more", [0, 1, 9])
@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_does_not_keep_its_entries_is_caught(monitor: Monitor, log: Log, tmp_path: Path, change: str, more: int) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    data = CHANGES[change](DATA)
    data += [b"new"] * (len(DATA) - len(data)) + [b"new"] * more
    with rewritten(tmp_path, data) as other:
        report = monitor.scan(other)
        alarm, = report.alarms
        assert (report.size, report.new, alarm.code, alarm.time, alarm.checkpoint) == (10, 0, "forked", NOW, other.checkpoint())
        assert f"entry {3 if change == 'swapped' else 9 if change == 'the last' else 4} is another than it was" in alarm.words
        assert monitor.scan(other).alarms == (alarm,)
    assert monitor.alarms() == [alarm], "it is noted once"
    assert monitor.scan(log) == Report(10, 0), "the log as it was is still known"
    assert PINNED.open(monitor.checkpoint() or b"").checkpoint == head(10)


def test_a_log_that_goes_back_is_caught(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    for size in (0, 9):
        with rewritten(tmp_path, DATA[:size], f"{size}.db") as other:
            for whole in (False, True):
                assert [alarm.code for alarm in monitor.scan(other, whole=whole).alarms] == ["rolled_back"]
    assert [alarm.code for alarm in monitor.alarms()] == ["rolled_back"] * 2


class Lying:
    """A source that serves other entries than the tree that is signed."""

    def __init__(self, log: Log, change: Callable[[list[bytes]], list[bytes]]) -> None:
        self._log, self._change = log, change
        self.checkpoint, self.consistency_path = log.checkpoint, log.consistency_path

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        return iter(self._change(list(self._log.entries(0, stop)))[start:stop])


@pytest.mark.parametrize("change", [lambda data: [*data[:7], b"other", *data[8:]], lambda data: data[:9], lambda data: [b"x"] * len(data), lambda _: []])
def test_entries_that_are_not_those_of_the_signed_tree_are_caught(monitor: Monitor, log: Log, change: Callable[[list[bytes]], list[bytes]]) -> None:
    log.append_many(DATA[:5])
    monitor.scan(log)
    log.append_many(DATA[5:])
    assert [alarm.code for alarm in monitor.scan(Lying(log, change)).alarms] == ["entries_differ"]
    assert monitor.scan(log) == Report(10, 5, (), (5, 6, 7, 8, 9))


def test_an_old_entry_that_is_served_otherwise_is_caught_by_reading_all(monitor: Monitor, log: Log) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    lying = Lying(log, lambda data: [*data[:2], b"other", *data[3:]])
    assert monitor.scan(lying) == Report(10, 0)
    alarm, = monitor.scan(lying, whole=True).alarms
    assert (alarm.code, alarm.words) == ("entries_differ", "entry 2 is another than it was")
    short = Lying(log, lambda data: data[:2])
    assert monitor.scan(short, whole=True).alarms[0].words == "of 10 entries that were there, 2 are served"
    assert monitor.scan(log, whole=True) == Report(10, 0)


def test_where_no_proof_is_to_be_had_it_is_an_alarm_all_the_same(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    log.append_many(DATA)
    monitor.scan(log)

    def gone(_old: int, _new: int) -> list[bytes]:
        raise LogError("unreachable", "nobody there")

    with rewritten(tmp_path, [*DATA[:4], b"other", *DATA[5:], b"new"]) as other:
        lying = Lying(other, lambda data: data)
        lying.consistency_path = gone
        alarm, = monitor.scan(lying).alarms
        assert (alarm.code, "nobody there" in alarm.words) == ("entries_differ", True)


def test_another_tree_is_caught_also_where_the_old_entries_are_served_as_they_were(monitor: Monitor, log: Log, tmp_path: Path) -> None:
    log.append_many(DATA)
    monitor.scan(log)
    with rewritten(tmp_path, [b"other", *DATA[1:], b"new"]) as other:
        lying = Lying(other, lambda data: [*DATA[:1], *data[1:]])
        alarm, = monitor.scan(lying).alarms
        assert (alarm.code, alarm.words) == ("forked", "the log does not continue the tree of 10 entries: the tree of 11 entries does not continue the one of 10")


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
    monitor._database.close_idle()
    for statement in ("UPDATE monitor_state SET edge = x'00'", "UPDATE monitor_state SET size = 'text'", "DELETE FROM monitor_state"):
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
    assert monitor.scan(PublishedLog(fetch)) == Report(302, 2, (Conflict(7, 300),), (301,))
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
