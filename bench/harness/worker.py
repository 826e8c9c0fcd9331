"""The process that measures one library, in that library's environment: ``python -m harness.worker JOB.json``.

The job names the phase and where to write its result. `build`: makes a store. `search`: opens it and times each search.
`threads`: queries a second with one thread and with two. `write`: replaces documents until told to stop. `watch`: times
searches before and while another process writes.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness import stats
from harness.protocol import Adapter, Document, Feed, Query, Vectors

K = 10
FEWEST = 20  # queries of a pass, however long they take
WARM = 3


@dataclass
class Set:
    """The queries of a data set and the exact answers to the first of them."""

    folder: Path
    vectors: str

    def __post_init__(self) -> None:
        """Read the files."""
        read = json.loads((self.folder / "queries.json").read_text(encoding="utf-8"))
        self.questions: list[str] = read["questions"]
        self.words: dict[str, list[str]] = {"five": read["five"], "stop": read["stop"]}
        self.query_vectors: Vectors = np.load(self.folder / f"queries-{self.vectors}.npy")
        self.least = np.load(self.folder / f"truth-{self.vectors}.npz")["products"][:, -1]

    def passes(self, kinds: Sequence[str]) -> Iterator[tuple[str, str, list[Query]]]:
        """Yield (name, kind, queries) of what is timed, in an order in which the first use of words is the first."""
        asked = {"five": self.words["five"], "stop": self.words["stop"], "question": self.questions[:len(self.least)]}
        queries = {name: [Query(text, vector) for text, vector in zip(texts, itertools.cycle(self.query_vectors))]
                   for name, texts in asked.items()}
        for name, kind, words in (("vector", "vector", "question"), ("lexical five first", "lexical", "five"),
                                  ("lexical five", "lexical", "five"), ("lexical stop first", "lexical", "stop"),
                                  ("lexical stop", "lexical", "stop"), ("hybrid five", "hybrid", "five"),
                                  ("hybrid question", "hybrid", "question")):
            if kind in kinds:
                yield name, kind, queries[words]

    def recall(self, found: Sequence[Sequence[int]]) -> float:
        """Give the share of rows found that are among the ten best; a row as near as the tenth is, whichever it is."""
        matrix = np.load(self.folder / f"vectors-{self.vectors}.npy", mmap_mode="r")
        good = 0
        for rows, vector, least in zip(found, self.query_vectors, self.least, strict=False):
            products = matrix[np.array(sorted(set(rows)), np.int64)].astype(np.float64) @ vector.astype(np.float64)
            good += int((products >= least - 1e-12).sum())
        return good / (len(found) * K)


def adapter_of(job: dict[str, Any]) -> Adapter:
    """Make the adapter that the job names."""
    library: Adapter = importlib.import_module(f"adapters.{job['adapter']}").Library(Path(job["store"]))
    return library


def build(job: dict[str, Any]) -> dict[str, Any]:
    """Build the store; the time in which the harness reads rows is taken off."""
    start = time.perf_counter()
    adapter = adapter_of(job)
    adapter.load()
    loaded = time.perf_counter()
    feed = Feed(Path(job["data"]), job["vectors"])
    before = stats.memory_mb()["now"]
    adapter.build(feed)
    seconds = time.perf_counter() - loaded - feed.seconds
    return {"build_s": seconds, "chunks_s": len(feed) / seconds, "load_ms": (loaded - start) * 1e3,
            "build_before_mb": before, "build_peak_mb": stats.memory_mb()["peak"]}


@dataclass
class Pass:
    """What a pass gave: the seconds of each query, the rows that it found, and the processor's seconds."""

    seconds: list[float] = field(default_factory=list)
    found: list[list[int]] = field(default_factory=list)
    processor: float = 0.0

    def figures(self) -> dict[str, float]:
        """Give latencies, and how many cores were busy meanwhile."""
        return {**stats.latencies(self.seconds), "cores": self.processor / sum(self.seconds)}


def timed(adapter: Adapter, kind: str, queries: Sequence[Query], budget: float) -> Pass:
    """Time each query, until all are done or, after the fewest, the budget of seconds is spent."""
    search, done = getattr(adapter, kind), Pass()
    end = time.perf_counter() + budget
    for query in queries:
        processor, start = time.process_time(), time.perf_counter()
        hits = search(query, K)
        done.seconds.append(time.perf_counter() - start)
        done.processor += time.process_time() - processor
        done.found.append([hit.row for hit in checked(adapter.hits(hits))])
        if len(done.seconds) >= FEWEST and time.perf_counter() > end:
            break
    return done


def search(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store and time the first query and each kind of search."""
    asked = Set(Path(job["data"]), job["vectors"])
    start = time.perf_counter()
    adapter = adapter_of(job)
    adapter.load()
    loaded = time.perf_counter()
    before = stats.memory_mb()["now"]
    opening = time.perf_counter()
    adapter.open()
    opened = time.perf_counter()
    first = getattr(adapter, adapter.kinds[0])
    first(Query(asked.questions[-1], asked.query_vectors[-1]), K)
    result: dict[str, Any] = {"load_ms": (loaded - start) * 1e3, "open_ms": (opened - opening) * 1e3,
                              "open_first_ms": (time.perf_counter() - opening) * 1e3, "before_mb": before, "searches": {}}
    nearest: list[list[int]] = []
    for name, kind, queries in asked.passes([kind for kind in adapter.kinds if kind in job["kinds"]]):
        if kind == "vector":
            timed(adapter, kind, queries[-WARM:], 1.0)
        done = timed(adapter, kind, queries, job["budget"])
        result["searches"][name] = done.figures()
        nearest = done.found if kind == "vector" else nearest
    memory = stats.memory_mb()
    result.update(search_mb=memory["now"], search_peak_mb=memory["peak"])
    if nearest:  # reads the matrix, so after the memory
        result["searches"]["vector"]["recall"] = asked.recall(nearest)
    adapter.close()
    return result


def checked(hits: Sequence[Any]) -> Sequence[Any]:
    """Refuse hits without text or document: an adapter that leaves them out measures something else."""
    if not all(hit.text and hit.document for hit in hits):
        raise RuntimeError("a hit without text or document")
    return hits


def threads(job: dict[str, Any]) -> dict[str, Any]:
    """Count the queries a second of each kind with one thread and with two."""
    asked = Set(Path(job["data"]), job["vectors"])
    adapter = adapter_of(job)
    adapter.load()
    adapter.open()
    result: dict[str, Any] = {}
    wanted = {"vector": "vector", "lexical": "lexical five", "hybrid": "hybrid five"}
    for name, kind, queries in asked.passes([kind for kind in adapter.kinds if kind in job["kinds"]]):
        if wanted[kind] == name:
            timed(adapter, kind, queries, 1.0)
            one, two = (_rate(adapter, kind, queries, count, job["budget"]) for count in (1, 2))
            result[kind] = {"one": one, "two": two, "ratio": two / one}
    adapter.close()
    return {"threads": result}


def _rate(adapter: Adapter, kind: str, queries: Sequence[Query], count: int, seconds: float) -> float:
    done: list[int] = []
    barrier = threading.Barrier(count)

    def work(reader: Adapter) -> None:
        call, turns = getattr(reader, kind), itertools.cycle(queries)
        call(next(turns), K)
        barrier.wait()
        end, number = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            call(next(turns), K)
            number += 1
        done.append(number)

    workers = [threading.Thread(target=adapter.threaded(work)) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if len(done) != count:
        raise RuntimeError("a searching thread failed")
    return sum(done) / seconds


def churned(job: dict[str, Any]) -> list[tuple[Document, Document]]:
    """Give documents as they are stored and as they are revised, each with vectors of the data set."""
    folder = Path(job["data"])
    matrix = np.load(folder / f"vectors-{job['vectors']}.npy", mmap_mode="r")
    pairs = []
    for read in json.loads((folder / "churn.json").read_text(encoding="utf-8")):
        row, spans = read["first_row"], read["spans"]
        vectors = np.array(matrix[row:row + len(spans)])
        revised = read["revised"]
        pairs.append((Document(read["id"], row, read["text"], spans, vectors),
                      Document(read["id"], row, revised["text"], revised["spans"], np.roll(vectors, 1, axis=0))))
    return pairs


def write(job: dict[str, Any]) -> dict[str, Any]:
    """Replace documents, from the word go until the word stop, one call and one transaction each."""
    pairs = churned(job)
    words = Path(job["words"])
    adapter = adapter_of(job)
    adapter.load()
    adapter.open_writer([document for pair in pairs for document in pair])
    (words / "ready").touch()
    while not (words / "go").exists():
        time.sleep(0.01)
    start, rows, documents = time.perf_counter(), 0, 0
    for turn in itertools.count(1):
        for pair in pairs:
            adapter.replace(pair[turn % 2])
            rows += len(pair[0].spans)
            documents += 1
            if (words / "stop").exists():
                seconds = time.perf_counter() - start
                adapter.close()
                return {"chunks_s": rows / seconds, "documents": documents}
    raise AssertionError


def watch(job: dict[str, Any]) -> dict[str, Any]:
    """Time searches for a while, say go, time searches while the other process writes, say stop."""
    asked = Set(Path(job["data"]), job["vectors"])
    words = Path(job["words"])
    adapter = adapter_of(job)
    adapter.load()
    adapter.open()
    kind = adapter.kinds[-1]
    *_, (_, _, queries) = (each for each in asked.passes([kind]) if each[0] in ("vector", "lexical five", "hybrid five"))
    call = getattr(adapter, kind)
    timed(adapter, kind, queries, 1.0)
    idle = _for_seconds(call, queries, job["budget"])
    (words / "go").touch()
    busy = _for_seconds(call, queries, 2 * job["budget"])
    (words / "stop").touch()
    adapter.close()
    return {"kind": kind, "idle": stats.latencies(idle), "busy": stats.latencies(busy)}


def _for_seconds(call: Callable[[Query, int], Any], queries: Sequence[Query], budget: float) -> list[float]:
    seconds: list[float] = []
    end = time.perf_counter() + budget
    for query in itertools.cycle(queries):
        start = time.perf_counter()
        call(query, K)
        seconds.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return seconds


PHASES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "build": build, "search": search, "threads": threads, "write": write, "watch": watch}


def main() -> None:
    """Do the job named on the command line."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(job["result"]).write_text(json.dumps(PHASES[job["phase"]](job)), encoding="utf-8")


if __name__ == "__main__":
    main()
