"""Measure this library beside those that users would pick instead: ``make bench`` or ``python bench/run.py``.

Makes the environments and data sets it needs, runs every library in processes of its own, and writes results.json, a page of
tables and plots to docs/benchmarks/. Options run a part: ``--sizes 10k --peers ours,numpy --vectors real``; what a part
measures replaces those figures in results.json and leaves the others; the page names those of another run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from harness import data, machine, stats
from harness.corpus import read_corpus
from harness.page import write_page
from harness.peers import BY_NAME, PEERS, Peer, install, versions
from harness.protocol import KINDS
from harness.runs import Measurement, measure

BENCH = Path(__file__).parent
OUT = BENCH.parent / "docs" / "benchmarks"
SIZES = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}
BUDGET = {1_000: 1.0, 10_000: 1.0, 100_000: 2.0, 1_000_000: 5.0}  # seconds of a pass


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k,100k,1m", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--peers", default=",".join(BY_NAME), help=f"of {', '.join(BY_NAME)}")
    parser.add_argument("--vectors", default="real,random", help="real, random or both; 1m has real ones only")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--rounds", type=int, help="3 unless said otherwise, and 2 for 1m")
    parser.add_argument("--no-threads", action="store_true", help="leave out two threads, and searching while another process writes")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--work", type=Path, default=BENCH / ".work", help="where stores are made")
    given = parser.parse_args()
    for name, allowed in (("sizes", SIZES), ("peers", BY_NAME), ("vectors", ("real", "random")), ("kinds", KINDS)):
        chosen = [each.strip() for each in getattr(given, name).lower().split(",")]
        if unknown := [each for each in chosen if each not in allowed]:
            parser.error(f"--{name}: {', '.join(unknown)} is none of {', '.join(allowed)}")
        setattr(given, name, chosen)
    return given


def data_set(rows: int, environments: Path, cache: Path) -> Path:
    """Give the folder of a data set, made if it is not there."""
    folder = cache / str(rows)
    if not data.ready(folder, rows):
        print(f"making the data set of {rows:,} rows", flush=True)
        corpus = read_corpus(environments.iterdir() if environments.is_dir() else ())
        shutil.rmtree(folder, ignore_errors=True)
        data.make(folder, corpus, rows, data.Embedded(cache / "embedded.npz"))
    return folder


def one_set(given: argparse.Namespace, peers: list[Peer], rows: int, vectors: str, results: dict[str, Any]) -> int:
    """Run the libraries on one data set and put their figures into the results; return how many failed."""
    environments = BENCH / ".venvs"
    folder = data_set(rows, environments, BENCH / ".cache")
    kinds = tuple(given.kinds if vectors == "real" else ["vector"])
    chosen = [peer for peer in peers
              if rows <= peer.most_rows and set(peer.kinds) & set(kinds) and (vectors == "real" or peer.random)]
    run = Measurement(folder, rows, vectors, given.work, environments, kinds, BUDGET[rows])
    start, started = time.monotonic(), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    measure(run, chosen, given.rounds or (3 if rows <= data.MOST_RANDOM else 2), whole=vectors == "real" and not given.no_threads)
    key = f"{rows} {vectors}"
    kept = results["sets"].setdefault(key, {"peers": {}})
    kept.update(rows=rows, vectors=vectors, limits=stats.over_rounds(run.limits),
                manifest=json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    for name, figures in run.figures.items():
        kept["peers"][name] = {**figures, "run": started}
    print(f"{key}: {time.monotonic() - start:.0f} s", flush=True)
    shutil.rmtree(given.work, ignore_errors=True)
    return sum("failed" in figures for figures in run.figures.values())


def main() -> int:
    """Run what was asked for; exit 1 if a library that was installed failed."""
    given = arguments()
    given.work = given.work.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    (BENCH / ".cache").mkdir(exist_ok=True)
    file = given.out / "results.json"
    results: dict[str, Any] = {"sets": {}, "versions": {}, "absent": {}}
    if file.is_file():
        results = json.loads(file.read_text(encoding="utf-8"))
    peers = [peer for peer in PEERS if peer.name in given.peers]
    for peer in list(peers):
        results["absent"].pop(peer.name, None)
        if problem := install(peer, BENCH / ".venvs"):
            results["absent"][peer.name] = problem
            peers.remove(peer)
            print(f"{peer.title} is left out: {problem}")
        else:
            results["versions"][peer.name] = versions(peer, BENCH / ".venvs")
    given.work.mkdir(parents=True, exist_ok=True)
    results["machine"] = machine.facts(given.work)
    failed = 0
    for size in sorted({SIZES[name] for name in given.sizes}):
        for vectors in given.vectors:
            if vectors == "real" or size <= data.MOST_RANDOM:
                given.work.mkdir(parents=True, exist_ok=True)
                failed += one_set(given, peers, size, vectors, results)
                file.write_text(json.dumps(results, indent=1), encoding="utf-8")
    write_page(results, given.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
