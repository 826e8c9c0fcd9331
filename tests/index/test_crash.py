"""R4, R41, R42: whatever is killed, whenever, the index holds each document as it was before or after."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from writing_child import PATH, text_of

from rag_stdlib import (
    Config,
    Err,
    Ok,
    RagDocumentEnvelope,
    Runtime,
    rag_check,
    rag_get,
    rag_ingest,
    rag_query,
    rag_reembed,
)
from rag_stdlib.options import QueryOptions

CHILD = Path(__file__).with_name("writing_child.py")
Log = list[list[str]]


Kill = Callable[[Path, int, float], Log]


@pytest.fixture(scope="module")
def run_and_kill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kill]:
    """Run a writing process below a root, with a seed for what it does; kill it so many seconds after its first word."""
    logs = tmp_path_factory.mktemp("logs")
    with subprocess.Popen([sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None

        def run(root: Path, seed: int, seconds: float) -> Log:
            log = logs / str(len(list(logs.iterdir())))
            parent.stdin.write(f"{root}\t{seed}\t{log}\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            end = time.monotonic() + 60
            while not (log.exists() and log.read_bytes()):
                assert time.monotonic() < end
                time.sleep(0.001)
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
            assert int(parent.stdout.readline()) == signal.SIGKILL
            lines = log.read_text().splitlines(keepends=True)
            assert lines[0] == "ready\n"
            return [line.split() for line in lines[1:] if line.endswith("\n")]

        yield run
        parent.stdin.close()


def follow(state: dict[str, int], log: Log) -> tuple[str, int] | None:
    """Apply the finished steps; return the one that was under way."""
    under_way = None
    for line in log:
        assert line[0] != "err", line
        if line[0] == "begin":
            under_way = (line[1], int(line[2]))
        else:
            state[line[1]] = int(line[2])
            under_way = None
    return under_way


def stored_version(name: str) -> int:
    match rag_get(PATH, name):
        case Ok(RagDocumentEnvelope() as document):
            version = int(document.source[1:])
            assert document.text == text_of(name, version)
            return version
        case Err(error):
            assert error.code in ("not_found", "index_missing")
            return 0
    raise AssertionError


def held(root: Path, state: dict[str, int], under_way: tuple[str, int] | None) -> None:
    """Hold the index against what was acknowledged, and take over which side of the open step it is on."""
    with Runtime(Config(), root=root, embedder=EmbedderDouble()):
        report = rag_check(PATH)
        if isinstance(report, Err):
            assert report.error.code == "index_missing"
            assert not any(state.values())
        else:
            assert (report.value.problems, report.value.notices) == ((), ())
        for name, version in state.items():
            now = stored_version(name)
            if under_way is not None and under_way[0] == name:
                assert now in (version, under_way[1])
            else:
                assert now == version, name
        if under_way is not None:
            now = stored_version(under_way[0])
            assert now in (state.get(under_way[0], 0), under_way[1])
            state[under_way[0]] = now
        for mode in ("hybrid", "vector", "lexical"):
            if not isinstance(report, Err):
                found = rag_query(PATH, "sentence says", 10_000, QueryOptions(mode=mode)).unwrap()
                assert {chunk.doc_id for chunk in found} == {name for name, version in state.items() if version}


@pytest.mark.slow
def test_r4_killed_fifty_times_at_random_moments(run_and_kill: Kill, tmp_path: Path) -> None:
    rng = random.Random(20)
    state: dict[str, int] = {}
    steps = 0
    for seed in range(50):
        log = run_and_kill(tmp_path, seed, rng.uniform(0.0, 0.15))
        steps += len(log)
        held(tmp_path, state, follow(state, log))
    assert steps > 50


@pytest.mark.slow
def test_r4_killed_while_the_file_is_made(run_and_kill: Kill, tmp_path: Path) -> None:
    left: set[str] = set()
    rng = random.Random(3)
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        state: dict[str, int] = {}
        under_way = follow(state, run_and_kill(root, 1, rng.uniform(0.0, 0.012)))
        left.update(path.name for path in root.iterdir())
        held(root, state, under_way)
        with Runtime(Config(), root=root, embedder=EmbedderDouble()):
            assert rag_ingest(PATH, "after", "v2", text_of("after", 2), 60).is_ok
            assert rag_check(PATH).unwrap().clean
    assert {PATH, f"{PATH}-wal", f"{PATH}-shm"} <= left


@pytest.mark.parametrize("statement", ["journal_mode", "CREATE TABLE rag_documents", "user_version", "INSERT INTO rag_chunks",
                                       "INSERT INTO rag_vectors", "COMMIT"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_r4_killed_at_each_step_of_the_first_ingest(tmp_path: Path, statement: str, when: str) -> None:
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(CHILD.parent.parent)!r})
import apsw
from embedder_double import EmbedderDouble
from rag_stdlib import Config, Runtime, rag_ingest
from rag_stdlib.index import connect
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
class Tracing(apsw.Connection):
    def _around(self, call, text, *rest, **named):
        hit = {statement!r} in text
        if hit and {when!r} == "before" and "journal_mode" not in text: die()
        done = call(text, *rest, **named)
        if hit and rest and "journal_mode" in text and {when!r} == "before": die()
        if hit and {when!r} == "after" and "journal_mode" not in text: die()
        if hit and rest and {when!r} == "after": die()
        return done
    def execute(self, text, *rest, **named): return self._around(super().execute, text, *rest, **named)
    def executemany(self, text, *rest, **named): return self._around(super().executemany, text, *rest, **named)
    def pragma(self, text, *rest, **named): return self._around(super().pragma, text, *rest, **named)
connect.apsw = type("A", (), dict(vars(apsw), Connection=Tracing))
with Runtime(Config(), root={str(tmp_path)!r}, embedder=EmbedderDouble()):
    rag_ingest("index.db", "d", "v2", "one text. another text.", 10)
"""
    child = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        done = (statement, when) == ("COMMIT", "after")
        assert rag_get("index.db", "d").is_ok == done
        again = rag_ingest("index.db", "d", "v2", "one text. another text.", 10)
        assert again == Ok(3)
        assert again.notes == (("unchanged",) if done else ())
        assert rag_check("index.db").unwrap().clean
        assert rag_reembed("index.db").unwrap().embedded == 0
