"""What this project aims at in speed and size, against what was measured: ``python bench/checks.py`` after ``bench/run.py``.

Figures of speed come from docs/benchmarks/results.json, each from the run its peers were measured in; exactness, compaction,
bounded memory and threads are looked at here. Writes checks.md, checks.json and profile.txt beside the results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.page import at
from harness.peers import BY_NAME, ONE_THREAD, environment_of
from harness.protocol import KINDS
from harness.runs import BENCH, Measurement
from harness.tables import NOTHING, cell, number
from run import OUT, SIZES, data_set

OURS = "ours"
Results = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """An aim: at most or at least a bound; `measured` None is not measured."""

    item: int
    name: str
    measured: float | None
    bound: float
    unit: str = ""
    least: bool = False
    beside: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the aim is met, or by how much it is missed."""
        if self.measured is None:
            return "not measured"
        if self.measured >= self.bound if self.least else self.measured <= self.bound:
            return "met"
        if not (self.bound and self.measured):
            return "**missed**"
        missed = self.bound / self.measured if self.least else self.measured / self.bound
        return f"**missed** by {number(missed)} x"

    def row(self) -> list[str]:
        """Give the cells of the table."""
        unit = f" {self.unit}" if self.unit else ""
        figure = f"{self.measured:,}" if isinstance(self.measured, int) else number(self.measured)
        shown = NOTHING if self.measured is None else f"{figure}{unit}"
        bound = f"{'>=' if self.least else '<='} {self.bound:,.10g}{unit}"
        return [str(self.item), self.name, bound, shown, self.verdict, self.beside]


def speed(results: Results) -> list[Check]:
    """Check the figures of the results."""
    small, middle, large = (at(results, "sets", f"{rows} real") or {} for rows in (10_000, 100_000, 1_000_000))

    def ours(of: Results, *path: str) -> float | None:
        found: float | None = at(of, "peers", OURS, *path)
        return found

    def p50(of: Results, name: str, peer: str = OURS) -> float | None:
        found: float | None = at(of, "peers", peer, "searches", name, "p50")
        return found

    def times(peer: str, name: str) -> float | None:
        return share(p50(middle, name, peer), p50(middle, name))

    floor = at(middle, "limits", "int8_ms")
    checks = [
        Check(1, "vector search, 10,000 chunks, p50", p50(small, "vector"), 0.6, "ms"),
        Check(1, "vector search, 100,000 chunks, p50", p50(middle, "vector"), 3, "ms",
              beside=f"a plain read of the int8 codes takes {number(floor)} ms" if floor else ""),
        Check(1, "vector search, 1,000,000 chunks, p50", p50(large, "vector"), 20, "ms"),
        Check(1, "memory of the search process, 1,000,000 chunks", ours(large, "search_mb"), 700, "MB"),
        *(Check(1, f"{what}, 100,000 chunks: {BY_NAME[peer].title} to rag-stdlib, p50", times(peer, name), bound, "x",
                least=True)
          for peer, what, name, bound in (
              ("vec0", "vector search", "vector", 8), ("vec0", "hybrid search", "hybrid five", 8),
              ("numpy", "vector search", "vector", 1.5), ("faiss", "vector search", "vector", 1.5))),
        *(Check(2, f"lexical search, {words}, 100,000 chunks, p50", p50(middle, name), bound, "ms")
          for words, name, bound in (
              ("five words, first", "lexical five first", 1.5), ("five words, again", "lexical five", 0.6),
              ("with stop words, first", "lexical stop first", 3), ("with stop words, again", "lexical stop", 3))),
        Check(2, "lexical search, five words, first, 1,000,000 chunks, p50", p50(large, "lexical five first"), 8, "ms"),
        Check(3, "hybrid search, 100,000 chunks, p50", p50(middle, "hybrid five"), 4, "ms"),
        Check(3, "hybrid search, 100,000 chunks, p95", at(middle, "peers", OURS, "searches", "hybrid five", "p95"), 8, "ms"),
        Check(4, "building, 100,000 chunks", ours(middle, "chunks_s"), 30_000, "chunks/s", least=True, beside=_rates(middle)),
        Check(4, "file to vectors and twice the text, 100,000 chunks", _file_share(middle), 1.15, "x"),
        Check(6, "memory of the search process, 100,000 chunks", ours(middle, "search_mb"), 170, "MB"),
        Check(6, "open and first query, 100,000 chunks", ours(middle, "open_first_ms"), 150, "ms"),
        *(Check(8, f"two threads to one, {kind} search, 100,000 chunks", ours(middle, "threads", kind, "ratio"), 1.7, "x", least=True)
          for kind in ("vector", "lexical", "hybrid"))]
    return checks + _while_writing(middle)


def share(value: float | None, whole: float | None, times: float = 1) -> float | None:
    """Divide, where both are there; None where not."""
    return None if value is None or not whole else times * value / whole


def _rates(of: Results) -> str:
    return "; ".join(f"{BY_NAME[peer].title} {number(rate)}" for peer in ("vec0", "lancedb", "chroma")
                     if (rate := at(of, "peers", peer, "chunks_s")))


def _file_share(of: Results) -> float | None:
    size = at(of, "peers", OURS, "file_mb")
    return size / (of["rows"] * 1_536 / 1e6 + 2 * of["manifest"]["text_mb"]) if size else None


def _while_writing(of: Results) -> list[Check]:
    found = at(of, "peers", OURS, "writing") or {}
    idle, busy = at(found, "idle", "p95"), at(found, "busy", "p95")
    longest, rate = at(found, "busy", "max"), at(found, "writer", "chunks_s")
    beside = f"the longest search took {number(longest)} ms; the writer replaced {number(rate)} chunks/s" if longest else ""
    return [Check(5, "p95 of searches while another process writes, to idle", share(busy, idle), 3, "x", beside=beside),
            Check(5, "the WAL's largest size meanwhile", found.get("wal_mb"), 64, "MB")]


class Looks:
    """Runs the probes on stores of this library, built for them."""

    def __init__(self, work: Path) -> None:
        """Keep the folder in which stores are made."""
        self.work = work
        self.environments = BENCH / ".venvs"

    def build(self, rows: int, vectors: str) -> Measurement:
        """Build a store of a data set."""
        folder = data_set(rows, self.environments, BENCH / ".cache")
        run = Measurement(folder, rows, vectors, self.work / f"{rows}-{vectors}", self.environments, ("vector",), 1.0)
        run.work.mkdir(parents=True, exist_ok=True)
        run.build(BY_NAME[OURS])
        return run

    def probe(self, run: Measurement, name: str, *, hold: bool = True) -> Results:
        """Run a probe; with `hold`, libraries are told to use one thread. What fails has printed why, and gives nothing."""
        job = run.job(BY_NAME[OURS], name)
        file = run.work / f"{name}.job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        variables = environment_of(BENCH)
        if not hold:
            variables = {key: value for key, value in variables.items() if key not in ONE_THREAD}
        done = subprocess.run([sys.executable, "-m", "harness.probes", name, str(file)], check=False, env=variables, cwd=run.work)
        if done.returncode:
            return {}
        read: Results = json.loads(Path(job["result"]).read_text(encoding="utf-8"))
        return read

    def all(self, out: Path, sizes: list[int]) -> list[Check]:
        """Run every probe on the sizes: exactness on all, the others on the largest."""
        checks: list[Check] = []
        for rows in sizes:
            for vectors in ("random", "real"):
                run = self.build(rows, vectors)
                found = self.probe(run, "exactness")
                checks += _exact(found, f"{rows:,} chunks, {vectors} vectors")
                if vectors == "real" and rows == max(sizes):
                    checks += self._largest(run, out)
                shutil.rmtree(run.work)
        return checks

    def _largest(self, run: Measurement, out: Path) -> list[Check]:
        lexical, many, small = (self.probe(run, name) for name in ("lexical", "hybrid_many", "small_memory"))
        threads = self.probe(run, "other_threads", hold=False)
        profile = self.probe(run, "profile")
        compacted = self.probe(run, "compaction")
        before, after = compacted.get("before_mb"), compacted.get("after_mb")
        where = f"{run.rows:,} chunks"
        if profile:
            (out / "profile.txt").write_text(profile["text"], encoding="utf-8")
        return [
            Check(2, f"lexical scores: largest difference to FTS5's bm25(), {where}", lexical.get("worst"), 1e-6,
                  beside=f"{lexical.get('hits', 0):,} hits"),
            Check(2, f"lexical queries with more or fewer hits than FTS5 finds, {where}", lexical.get("wrong_counts"), 0),
            Check(3, f"hybrid search, limit 5,000, {where}: queries not whole, in order, and with the ten first", many.get("wrong"), 0),
            Check(4, f"file after deleting half and compact, to before, {where}", share(after, before), 0.6, "x",
                  beside=f"{number(before)} to {number(after)} MB, compact took {number(compacted.get('compact_s'))} s"),
            Check(6, f"memory with vector_memory_mb = 16, {where}", small.get("search_mb"), 90, "MB",
                  beside=f"vector p50 {number(small.get('p50'))} ms"),
            Check(6, f"queries that are not exact with it, of {small.get('queries', 0)}", small.get("wrong"), 0),
            *(Check(7, f"largest own share of a function of this library, {kind} search, {where}",
                    at(profile, "largest", kind, "percent"), 15, "%", beside=at(profile, "largest", kind, "function") or "")
              for kind in KINDS),
            Check(8, f"processor time of other threads to that of the searching one, no variable set, {where}",
                  share(threads.get("others_s"), threads.get("searching_s"), 100), 2, "%",
                  beside=f"{threads.get('threads', 0)} other threads")]


def _exact(found: Results, where: str) -> list[Check]:
    ten, many = (at(found, name, "queries") or 0 for name in ("ten", "many"))
    return [Check(1, f"vector search, {ten:,} queries, {where}: not as float64 brute force", at(found, "ten", "wrong"), 0),
            Check(3, f"vector search, limit 5,000, {many} queries, {where}: not as brute force", at(found, "many", "wrong"), 0)]


def main() -> int:
    """Check everything; exit 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k,100k", help=f"of {', '.join(SIZES)}; empty for the figures of the results alone")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--work", type=Path, default=BENCH / ".work")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "results.json"
    results: Results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    sizes = sorted(SIZES[name] for name in given.sizes.split(",") if name)
    checks = speed(results) + (Looks(given.work.resolve()).all(given.out, sizes) if sizes else [])
    write(checks, given.out)
    return 1 if any(check.verdict.startswith("**") for check in checks) else 0


def write(checks: list[Check], out: Path) -> None:
    """Print the table and write it as Markdown and JSON."""
    ordered = sorted(checks, key=lambda check: check.item)
    lines = ["| | aim | bound | measured | verdict | beside it |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(cell, check.row()))} |" for check in ordered]
    page = "\n".join(lines) + "\n"
    print(page)
    (out / "checks.md").write_text(
        "# Aims and figures\n\nWritten by `make bench`; do not edit. Speeds are medians of the run in [README.md](README.md), of one "
        f"machine; where an aim is missed, the verdict says by how much.\n\n{page}", encoding="utf-8")
    written = [{"item": check.item, "aim": check.name, "bound": check.bound, "unit": check.unit, "at_least": check.least,
                "measured": check.measured, "verdict": check.verdict.replace("*", "")} for check in ordered]
    (out / "checks.json").write_text(json.dumps(written, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
