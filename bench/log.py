"""What the transparency log costs: an append with its receipt as the log grows, proofs, verification, watching; and fifty kills.

Medians of one run on one machine. Run it on an idle machine: ``make bench`` or ``python bench/log.py``; ``--most 100000`` ends at a smaller log.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Report, median_seconds

from rag_stdlib.proof.log.logkeys import LogKeys, load_keys, new_keys
from rag_stdlib.proof.log.merkle import verify_consistency
from rag_stdlib.proof.log.monitor import Monitor
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.publish import publish
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log

ORIGIN = "log.example/bench"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TIMED = 500  # appends that are timed one by one, at each size
KILLS = 50
FLAT = 1.5  # the largest log may take so many times as long as the smallest
CHILD = """
import base64, sys
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.store import Log
with Log(sys.argv[1], load_keys(sys.argv[2]), synchronous="normal", busy_seconds=60) as log:
    for turn in range(10**9):
        entry = f"{sys.argv[3]}-{turn}"
        print(entry, base64.b64encode(log.append(entry.encode()).to_bytes()).decode(), flush=True)
"""


def entry(number: int) -> bytes:
    """Make an entry as the log of an issuer holds it."""
    def digest(text: str) -> str:
        return hashlib.sha256(f"{text} {number}".encode()).hexdigest()

    value = {"answer_sha256": digest("answer"), "body_sha256": digest("body"), "index_state": digest("state"), "issued_at": "2026-12-01T00:00:00Z",
             "issuer_key_id": "1" * 64, "query_key": digest("query"), "schema": "rag-stdlib/log-entry/v1", "signature": base64.b64encode(bytes(64)).decode()}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def entries(start: int, stop: int) -> Iterator[bytes]:
    return (entry(number) for number in range(start, stop))


def timed(work: Callable[[int], object], start: int, count: int) -> list[float]:
    """Time `work` for each number from `start` on."""
    times = []
    for number in range(start, start + count):
        begin = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - begin)
    return times


def appending(report: Report, folder: Path, keys: LogKeys, most: int) -> Log:
    """Time appends with their receipts in logs of growing sizes, in turn, so that all have the same machine; return the largest."""
    sizes, data = [size for size in SIZES if size <= most], [entry(number) for number in range(TIMED)]
    logs = {size: Log.create(folder / f"{size}.db", keys, synchronous="normal") for size in sizes}
    for size, log in logs.items():
        log.append_many(entries(0, size - TIMED))
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for made in data:
        for size, log in logs.items():
            times[size] += timed(lambda _, log=log, made=made: log.append(made), 0, 1)  # type: ignore[misc]
    took = {size: statistics.median(seconds) for size, seconds in times.items()}
    for size in sizes:
        report.add(f"append with receipt, {size:,} entries, no fsync", took[size] * 1e3, "ms", most=1.0,
                   beside=f"{took[size] / took[sizes[0]]:.2f} x that at {sizes[0]:,}; the mean is {statistics.mean(times[size]) * 1e3:.2f} ms")
    report.add(f"append at {sizes[-1]:,} beside {sizes[0]:,} entries", took[sizes[-1]] / took[sizes[0]], "x", most=FLAT)
    with Log.create(folder / "safe.db", keys) as safe:
        safe.append_many(entries(0, 1_000))
        report.add("append with receipt, 1,000 entries, on the disk when it returns", statistics.median(timed(lambda _: safe.append(data[0]), 0, 100)) * 1e3, "ms")
    for size in sizes[:-1]:
        logs[size].close()
    return logs[sizes[-1]]


def proofs(report: Report, log: Log, pins: PinnedLog) -> None:
    """Say how long proofs are beside the theory, and what making and verifying them takes."""
    size, rng = log.size, random.Random(1)
    height = (size - 1).bit_length()
    positions = [rng.randrange(size) for _ in range(200)]
    longest = max(len(log.receipt(position).path) for position in positions)
    report.add(f"hashes in a receipt, {size:,} entries", longest, "", most=height, beside=f"the theory: ceil(log2 n) = {height}; {height * 45} bytes of base64")
    olds = [rng.randrange(1, size) for _ in range(200)]
    report.add("hashes in a proof of consistency", max(len(log.consistency_path(old, size)) for old in olds), "", most=height + 1,
               beside=f"the theory: ceil(log2 n) + 1 = {height + 1}")
    receipt, logged = log.receipt(positions[0]), log.entry(positions[0])
    data = receipt.to_bytes()
    report.add("making a receipt of an old entry", statistics.median(timed(lambda turn: log.receipt(positions[turn]), 0, 200)) * 1e3, "ms")
    report.add("parsing and verifying a receipt", median_seconds(lambda: Receipt.parse(data).verify(logged, pins), runs=100) * 1e3, "ms",
               beside=f"{len(data):,} bytes")
    report.add("proof of consistency", median_seconds(lambda: log.consistency_path(size // 3, size), runs=100) * 1e3, "ms")


def reading(report: Report, log: Log) -> None:
    """Time the reading of a checkpoint, alone and while four threads append."""
    alone, stop = statistics.median(timed(lambda _: log.checkpoint(), 0, 500)), threading.Event()

    def work() -> None:
        while not stop.is_set():
            log.append(b"x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    busy = timed(lambda _: log.checkpoint(), 0, 500)
    stop.set()
    for thread in threads:
        thread.join()
    report.add("reading a checkpoint while four threads append", statistics.median(busy) * 1e3, "ms",
               beside=f"alone {alone * 1e3:.2f} ms; the slowest of 500 took {max(busy) * 1e3:.1f} ms")


def watching(report: Report, folder: Path, keys: LogKeys, pins: PinnedLog) -> None:
    """Time a scan of new entries, and the publishing of a log as files."""
    count = 20_000
    Monitor.create(folder / "monitor.db", ORIGIN)
    with Log.create(folder / "watched.db", keys) as log, Monitor(folder / "monitor.db", pins) as monitor:
        rates = []
        for start in (0, count):
            log.append_many(entries(start, start + count))
            begin = time.perf_counter()
            assert monitor.scan(log).new == count
            rates.append(count / (time.perf_counter() - begin))
        report.add(f"scanning {count:,} new entries", rates[1], "/s", beside=f"{rates[1] / rates[0]:.2f} x the speed of the first {count:,}")
        begin = time.perf_counter()
        publish(log, folder / "site")
        report.add(f"publishing {2 * count:,} entries", time.perf_counter() - begin, "s")


def killing(report: Report, folder: Path, keys_file: Path, pins: PinnedLog) -> None:
    """Kill a process that appends, again and again, and hold what it was told against the log."""
    path, rng, told = folder / "killed.db", random.Random(2), []
    Log.create(path, load_keys(keys_file)).close()
    for kill in range(KILLS):
        command = [sys.executable, "-c", CHILD, str(path), str(keys_file), f"k{kill}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as child:
            assert child.stdout is not None
            first = child.stdout.readline()
            time.sleep(rng.random() * 0.05)
            os.kill(child.pid, signal.SIGKILL)
            told += [line.split() for line in (first + child.stdout.read()).splitlines(keepends=True) if line.endswith(b"\n")]
    lost = 0
    with Log(path, load_keys(keys_file)) as log:
        last = pins.open(log.checkpoint()).checkpoint
        for logged, written in told:
            receipt = Receipt.parse(base64.b64decode(written))
            seen = receipt.verify(logged, pins).checkpoint
            verify_consistency(seen.size, seen.root, last.size, last.root, log.consistency_path(seen.size, last.size))
            lost += log.entry(receipt.index) != logged
        assert log.check() == []
        report.add(f"acknowledged entries lost in {KILLS} kills", lost, "", most=0, beside=f"{len(told):,} were acknowledged; the log has {log.size:,}")


def main() -> int:
    """Measure everything; exit 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, choices=SIZES, default=SIZES[-1], help="entries of the largest log")
    most, report = parser.parse_args().most, Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = new_keys(folder / "log.keys", ORIGIN)
        pins = PinnedLog(ORIGIN, keys.signing)
        with appending(report, folder, keys, most) as log:
            proofs(report, log, pins)
            reading(report, log)
        watching(report, folder, keys, pins)
        killing(report, folder, folder / "log.keys", pins)
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
