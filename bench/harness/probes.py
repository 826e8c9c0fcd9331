"""Looks at this library alone, each in a process of its own: ``python -m harness.probes NAME JOB.json``.

A job names a store, its data set, the kind of vectors and a file for the result, as those of `harness.worker` do.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import sys
import threading
import time
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
from adapters.ours import INDEX, Library

import rag_stdlib
from harness import stats
from harness.data import exact_top
from harness.protocol import Query
from harness.worker import K, Set
from rag_stdlib import rag_compact, rag_delete
from rag_stdlib.text.normalize import query_terms

CLOSE = 1e-9  # scores leave the library rounded to nine decimals
MANY = 5_000
PACKAGE = Path(rag_stdlib.__file__).parent


def _opened(job: dict[str, Any], vector_memory_mb: int | None = None) -> Library:
    library = Library(Path(job["store"]))
    library.vector_memory_mb = vector_memory_mb
    library.open()
    return library


def _differences(library: Library, asked: Set, vectors: npt.NDArray[np.float32], k: int) -> dict[str, float]:
    """Count the queries whose `k` hits are not those of brute force in float64: other products, or another order of unequal ones."""
    matrix = np.load(asked.folder / f"vectors-{asked.vectors}.npy", mmap_mode="r")
    _, best = exact_top(matrix, vectors, k)
    wrong, worst = 0, 0.0
    for text, vector, products in zip(asked.questions, vectors, best, strict=False):
        rows = [hit.row for hit in library.hits(library.vector(Query(text, vector), k))]
        mine = matrix[np.array(rows, np.int64)].astype(np.float64) @ vector.astype(np.float64)
        error = float(np.abs(mine - products).max()) if len(set(rows)) == len(products) else np.inf
        wrong += error > CLOSE
        worst = max(worst, error)
    return {"queries": len(vectors), "wrong": wrong, "worst": worst}


def exactness(job: dict[str, Any]) -> dict[str, Any]:
    """Compare every query's ten hits, and a few queries' 5,000, with brute force."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job)
    found = {"ten": _differences(library, asked, asked.query_vectors, K),
             "many": _differences(library, asked, asked.query_vectors[:5], MANY)}
    library.close()
    return found


def lexical(job: dict[str, Any]) -> dict[str, Any]:
    """Compare the scores of lexical and hybrid hits with FTS5's bm25(), for ten hits and for 5,000."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job)
    connection = apsw.Connection(str(Path(job["store"]) / INDEX), flags=apsw.SQLITE_OPEN_READONLY)
    worst, hits, wrong = 0.0, 0, 0
    for text in [*asked.words["five"][:100], *asked.words["stop"][:100]]:
        true = _by_fts5(connection, text)
        for limit in (K, MANY) if text in asked.words["five"][:5] else (K,):
            found = library.lexical(Query(text, asked.query_vectors[0]), limit)
            scores = [chunk.lexical_score or 0.0 for chunk in found]
            expected = sorted(true.values(), reverse=True)[:limit]
            wrong += len(found) != len(expected)
            errors = [abs(true[chunk.chunk_id] - score) for chunk, score in zip(found, scores, strict=True)]
            errors += [abs(mine - best) for mine, best in zip(scores, expected, strict=False)]
            worst, hits = max([worst, *errors]), hits + len(found)
    library.close()
    return {"worst": worst, "hits": hits, "wrong_counts": wrong}


def _by_fts5(connection: apsw.Connection, text: str) -> dict[str, float]:
    """Score every chunk that holds a word of the query by FTS5 itself."""
    terms = " OR ".join('"{}"{}'.format(term.replace('"', '""'), " *" if prefix else "") for term, prefix in query_terms(text))
    found: list[Any] = list(connection.execute(
        "SELECT c.chunk_id, -bm25(rag_lexical) FROM rag_lexical JOIN rag_chunks c ON c.seq = rag_lexical.rowid "
        "WHERE rag_lexical MATCH ?", (terms,)))
    return {str(name): float(score) for name, score in found}


def hybrid_many(job: dict[str, Any]) -> dict[str, Any]:
    """Ask for 5,000 hits of a hybrid search and see that ten are their beginning."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job)
    wrong = 0
    for text, vector in zip(asked.words["five"][:5], asked.query_vectors, strict=False):
        many, few = (library.hybrid(Query(text, vector), limit) for limit in (MANY, K))
        scores = [chunk.score or 0.0 for chunk in many]
        wrong += len(many) != MANY or many[:K] != few or scores != sorted(scores, reverse=True)
    library.close()
    return {"queries": 5, "wrong": wrong}


def small_memory(job: dict[str, Any]) -> dict[str, Any]:
    """Search with vector_memory_mb = 16: memory after 200 searches of each kind, time, and exactness."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job, 16)
    seconds: list[float] = []
    for text, vector in zip(asked.words["five"], asked.query_vectors, strict=False):
        query = Query(text, vector)
        library.lexical(query, K)
        start = time.perf_counter()
        library.vector(query, K)
        seconds.append(time.perf_counter() - start)
        library.hybrid(query, K)
    memory = stats.memory_mb()
    checked = _differences(library, asked, asked.query_vectors[:200], K)
    library.close()
    return {"search_mb": memory["now"], "search_peak_mb": memory["peak"], **stats.latencies(seconds), **checked}


def other_threads(job: dict[str, Any]) -> dict[str, Any]:
    """Give the processor's time of threads besides the searching one, with no variable set that would hold any back."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job)
    before = _thread_seconds()
    for text, vector in zip(asked.words["five"], asked.query_vectors, strict=False):
        for kind in library.kinds:
            getattr(library, kind)(Query(text, vector), K)
    spent = {thread: seconds - before.get(thread, 0.0) for thread, seconds in _thread_seconds().items()}
    mine = spent.pop(threading.get_native_id())
    library.close()
    return {"searching_s": mine, "others_s": sum(spent.values()), "threads": len(spent)}


def _thread_seconds() -> dict[int, float]:
    """Give the processor's time of each thread of this process, to the system's tick of mostly 10 ms."""
    tick = os.sysconf("SC_CLK_TCK")
    return {int(task.name): sum(map(int, (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13])) / tick
            for task in Path("/proc/self/task").iterdir()}


def compaction(job: dict[str, Any]) -> dict[str, Any]:
    """Delete every other document and compact; give the sizes before and after."""
    library = _opened(job)
    before = stats.size_mb(library.folder)
    lines = (Path(job["data"]) / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [json.loads(line)["id"] for line in lines]
    deleted = sum(rag_delete(INDEX, name).unwrap() for name in documents[::2])
    start = time.perf_counter()
    rag_compact(INDEX).unwrap()
    seconds = time.perf_counter() - start
    library.close()
    return {"before_mb": before, "after_mb": stats.size_mb(library.folder), "deleted": deleted, "compact_s": seconds}


def profile(job: dict[str, Any]) -> dict[str, Any]:
    """Profile warm searches of each kind, with cProfile, by own time; `text` is the report."""
    asked, library = Set(Path(job["data"]), job["vectors"]), _opened(job)
    queries = [Query(text, vector) for text, vector in zip(asked.words["five"], asked.query_vectors, strict=False)]
    reports, shares = [], {}
    for kind in library.kinds:
        call = getattr(library, kind)
        for query in queries:
            call(query, K)
        recorded = cProfile.Profile()
        recorded.enable()
        for query in queries:
            call(query, K)
        recorded.disable()
        out = StringIO()
        read = pstats.Stats(recorded, stream=out).strip_dirs().sort_stats("tottime")
        read.print_stats(22)
        reports.append(f"{kind} search, {len(queries)} warm queries of {asked.folder.name} chunks, k = {K}\n{out.getvalue().strip()}\n")
        shares[kind] = _largest(recorded)
    library.close()
    return {"text": "\n\n".join(reports), "largest": shares}


def _largest(recorded: cProfile.Profile) -> dict[str, Any]:
    """Name the function of this library with the largest own time, and its share of all."""
    entries = pstats.Stats(recorded).stats.items()  # type: ignore[attr-defined]
    whole = sum(own for _, (_, _, own, _, _) in entries)
    ours = [(own, f"{Path(file).name}:{name}") for (file, _, name), (_, _, own, _, _) in entries
            if Path(file).is_relative_to(PACKAGE)]
    own, name = max(ours)
    return {"function": name, "percent": 100 * own / whole}


PROBES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    probe.__name__: probe for probe in (exactness, lexical, hybrid_many, small_memory, other_threads, compaction, profile)}


def main(arguments: Sequence[str]) -> None:
    """Run the probe named on the command line."""
    name, file = arguments
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    Path(job["result"]).write_text(json.dumps(PROBES[name](job)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
