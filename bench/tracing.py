"""What recording costs, how fast a replay answers, and what reading a large trace takes.

Recording is measured as the difference between a warm search with and without a session, interleaved, so that the machine's
drift falls on both. The large trace is made here, verified in a process of its own whose peak memory is read from the kernel.
Run it on an idle machine: ``make bench`` or ``python bench/tracing.py``.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from core import english_like
from measure import Report

import replay
from rag_stdlib import Config, Runtime, rag_ingest, rag_search
from replay.redaction.redactor import Redactor
from replay.tracefile.writer import TraceWriter

HITS = 10
ROUNDS = 40
CALLS = 50
GIGABYTE = 1_000_000_000
VERIFY = """
import resource, sys, time
import replay
start = time.perf_counter()
verdict = replay.verify_trace(sys.argv[1])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, verdict.ok, verdict.events)
"""


def filled() -> list[str]:
    """Make an index of 300 documents; return queries that fill a page of hits."""
    text = english_like(400_000)
    for number in range(300):
        rag_ingest("bench.db", f"doc{number}", "prose", text[number * 1200:(number + 1) * 1200], 800).unwrap()
    words = text.lower().split()
    draw = random.Random(3)
    queries = [" ".join(draw.sample(words, 3)) for _ in range(CALLS * 3)]
    return [query for query in queries if len(rag_search("bench.db", query, HITS).unwrap()) == HITS][:CALLS]


def timed(queries: list[str]) -> list[float]:
    """Time each query once."""
    times = []
    for query in queries:
        start = time.perf_counter()
        rag_search("bench.db", query, HITS)
        times.append(time.perf_counter() - start)
    return times


def recording(report: Report, folder: Path, queries: list[str]) -> None:
    """Compare each query with itself, recorded and not, in alternating rounds."""
    timed(queries)
    plain: list[list[float]] = []
    recorded: list[list[float]] = []
    with replay.record(folder / "cost.jsonl") as session:
        for _ in range(ROUNDS):
            with replay.live():
                plain.append(timed(queries))
            recorded.append(timed(queries))
        assert session.ran == ROUNDS * len(queries)
    live = [statistics.median(times) for times in zip(*plain, strict=True)]
    with_trace = [statistics.median(times) for times in zip(*recorded, strict=True)]
    cost = statistics.median(a - b for a, b in zip(with_trace, live, strict=True))
    size = (folder / "cost.jsonl").stat().st_size / (ROUNDS * len(queries))
    report.add(f"recording, added to a warm call with {HITS} hits", cost * 1e6, "us", most=60,
               beside=f"{cost / statistics.median(live):.2f} x the call itself; {size / 1000:.1f} kB a call")


def substituting(report: Report, folder: Path, queries: list[str]) -> None:
    """Answer the same calls from the trace."""
    path = folder / "many.jsonl"
    with replay.record(path):
        for _ in range(ROUNDS):
            timed(queries)
    lexical = statistics.median(timed(queries))
    for matching in ("ordered", "keyed"):
        with replay.substitute(path, matching=matching):
            start = time.perf_counter()
            for _ in range(ROUNDS):
                for query in queries:
                    rag_search("bench.db", query, HITS)
            seconds = time.perf_counter() - start
        rate = ROUNDS * len(queries) / seconds
        report.add(f"substitute, {matching}, {HITS} hits a call", rate, "calls/s", least=20_000,
                   beside=f"{rate * lexical:.0f} x as fast as the live call")


def large(report: Report, folder: Path) -> None:
    """Verify a trace of one gigabyte in a streaming pass."""
    path = folder / "large.jsonl"
    writer = TraceWriter.create(str(path), agent="bench", args=[], redactor=Redactor())
    result = [{"id": f"d:{number}", "text": english_like(800, number), "score": 1.5} for number in range(HITS)]
    size = len(json.dumps(result))
    for number in range(GIGABYTE // size + 1):
        step = writer.append("tool_call", {"tool": "search", "args": ["bench.db", f"query {number}", HITS]})
        writer.append("tool_result", {"tool": "search", "result": result, "call": step})
    writer.complete(ok=True)
    done = subprocess.run([sys.executable, "-c", VERIFY, str(path)], capture_output=True, text=True, check=True)
    seconds, peak, ok, events = done.stdout.split()
    assert ok == "True"
    written = path.stat().st_size
    start = time.perf_counter()
    subprocess.run(["sha256sum", str(path)], capture_output=True, check=True)
    plain = time.perf_counter() - start
    report.add("verifying a trace of 1 GB, peak memory", float(peak) / 1e6, "MB", most=200,
               beside=f"{written / 1e6 / float(seconds):,.0f} MB/s, {int(events):,} events; {float(seconds) / plain:.1f} x the time of sha256sum")


def main() -> int:
    """Run everything; exit 1 if a bound is missed."""
    report = Report()
    with tempfile.TemporaryDirectory() as name, Runtime(Config(), root=name):
        folder = Path(name)
        queries = filled()
        recording(report, folder, queries)
        substituting(report, folder, queries)
        large(report, folder)
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
