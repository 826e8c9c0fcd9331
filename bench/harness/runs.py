"""The order of a run: build every store, then rounds in which each library searches in turn, then threads, then writing.

Each step is a process of its own. Libraries take turns within a round, so that a drift of the machine's speed meets all of
them; the figures are medians over the rounds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import stats
from harness.peers import Peer, environment_of, python_of

BENCH = Path(__file__).parents[1]
LONGEST = 600  # seconds of a process of up to 100,000 rows; six times as long beyond
BUILT_AGAIN = 10  # seconds: a store that takes no longer is built anew in each round


class PhaseError(Exception):
    """A measuring process failed; the last line it printed says why."""


@dataclass
class Measurement:
    """One data set and the libraries that are run on it: stores below `work`, one folder for each library."""

    data: Path
    rows: int
    vectors: str
    work: Path
    environments: Path
    kinds: tuple[str, ...]
    budget: float
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: list[dict[str, float]] = field(default_factory=list)

    def job(self, peer: Peer, phase: str, **more: object) -> dict[str, Any]:
        """Describe a step."""
        store = self.work / peer.name / "store"
        return {"phase": phase, "adapter": peer.adapter, "store": str(store), "data": str(self.data), "vectors": self.vectors,
                "kinds": self.kinds, "budget": self.budget, "result": str(self.work / peer.name / f"{phase}.json"), **more}

    def start(self, peer: Peer, job: dict[str, Any]) -> subprocess.Popen[str]:
        """Start the process of a step."""
        file = Path(job["result"]).with_suffix(".job.json")
        file.write_text(json.dumps(job), encoding="utf-8")
        Path(job["result"]).unlink(missing_ok=True)
        return subprocess.Popen([python_of(peer, self.environments), "-m", "harness.worker", str(file)], text=True,
                                env=environment_of(BENCH), cwd=self.work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self, process: subprocess.Popen[str], job: dict[str, Any], limit: float | None = None) -> dict[str, Any]:
        """Wait for a step and read its result.

        Raises:
            PhaseError: the process failed or took too long.
        """
        limit = limit or LONGEST * (1 if self.rows <= 100_000 else 6)
        try:
            _, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise PhaseError(f"{job['phase']}: more than {limit:.0f} s") from None
        if process.returncode:
            raise PhaseError(f"{job['phase']}: {(errors.strip().splitlines() or ['no message'])[-1][:300]}")
        read: dict[str, Any] = json.loads(Path(job["result"]).read_text(encoding="utf-8"))
        return read

    def step(self, peer: Peer, phase: str) -> dict[str, Any]:
        """Do a step from start to end."""
        job = self.job(peer, phase)
        return self.finish(self.start(peer, job), job)

    def build(self, peer: Peer) -> dict[str, Any]:
        """Make the library's store in an empty folder."""
        store = self.work / peer.name / "store"
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir(parents=True)
        built = self.step(peer, "build")
        return {**built, "file_mb": stats.size_mb(store)}

    def while_writing(self, peer: Peer) -> dict[str, Any]:
        """Time searches while another process replaces documents; give the latencies, the writer's rate and the WAL's peak."""
        words = self.work / peer.name / "words"
        shutil.rmtree(words, ignore_errors=True)
        words.mkdir()
        writing, watching = self.job(peer, "write", words=str(words)), self.job(peer, "watch", words=str(words))
        processes = [writer := self.start(peer, writing)]
        peak, start = 0, time.monotonic()
        try:
            while not (words / "ready").exists() and writer.poll() is None:
                time.sleep(0.01)
            processes.append(watcher := self.start(peer, watching))
            while watcher.poll() is None and writer.poll() is None and time.monotonic() < start + LONGEST:
                peak = max([peak, *(_size(file) for file in (self.work / peer.name / "store").glob("*-wal"))])
                time.sleep(0.005)
            (words / "stop").touch()
            written, watched = self.finish(writer, writing, 60), self.finish(watcher, watching, 120)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return {**watched, "writer": written, "wal_mb": peak / 1e6}

    def read_limits(self) -> None:
        """Time plain reads of as many bytes as the vectors have."""
        done = subprocess.run([sys.executable, "-m", "harness.machine", str(self.rows)], env=environment_of(BENCH), text=True,
                              check=True, capture_output=True)
        self.limits.append(json.loads(done.stdout))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # gone since it was listed
        return 0


def measure(run: Measurement, peers: Sequence[Peer], rounds: int, *, whole: bool) -> None:
    """Fill `run.figures` by the libraries' names; with `whole`, threads and searching while another process writes too."""
    builds: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in peers}
    searches: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in peers}
    going = list(peers)
    for number in range(rounds):
        run.read_limits()
        for peer in list(going):
            name = f"{run.rows:,} {run.vectors}, round {number + 1}, {peer.title}"
            try:
                if not builds[peer.name] or builds[peer.name][-1]["build_s"] <= BUILT_AGAIN:
                    builds[peer.name].append(run.build(peer))
                searches[peer.name].append(run.step(peer, "search"))
            except PhaseError as error:
                going.remove(peer)
                run.figures[peer.name] = {"failed": str(error)}
                print(f"  {name}: {error}", flush=True)
            else:
                print(f"  {name}: built {builds[peer.name][-1]['build_s']:.1f} s, {_first_p50(searches[peer.name][-1])}", flush=True)
    for peer in going:
        figures = {**stats.over_rounds(builds[peer.name]), **stats.over_rounds(searches[peer.name]), "rounds": rounds,
                   "builds": len(builds[peer.name])}
        run.figures[peer.name] = {**figures, **(_threads_and_writing(run, peer) if whole else {})}


def _threads_and_writing(run: Measurement, peer: Peer) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    try:
        figures.update(run.step(peer, "threads"))
        if peer.replaces:
            figures["writing"] = run.while_writing(peer)
    except PhaseError as error:
        figures["partly"] = str(error)
        print(f"  {run.rows:,} {peer.title}: {error}", flush=True)
    return figures


def _first_p50(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {figures['p50']:.2f} ms" for name, figures in found["searches"].items())
