"""What a process keeps of its indexes: within bounds, through failures, forks and threads, and read no more than has changed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from embedder_double import EmbedderDouble
from search_oracle import MODES, PATH, Hit, Stored, agree, both, hits, in_memory

from rag_stdlib import (
    Config,
    QueryOptions,
    RagConfig,
    Runtime,
    SourceDocument,
    carry,
    rag_delete,
    rag_ingest,
    rag_ingest_many,
    rag_query,
)
from rag_stdlib.index import vecread
from rag_stdlib.index.filters import NO_FILTERS
from rag_stdlib.index.ranking import Question, rankings
from rag_stdlib.index.resident import cache
from rag_stdlib.index.resident.cache import RESIDENTS, Limits
from rag_stdlib.index.resident.codes import ResidentCodes
from rag_stdlib.index.resident.signs import Signs
from rag_stdlib.index.resident.words import ResidentWords

QUERIES = ["alpha beta1", "refund", "gamma"]
DIM = 8


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    RESIDENTS.clear()


@pytest.fixture
def embedder() -> EmbedderDouble:
    return EmbedderDouble(dim=DIM)


def fill(root: Path, embedder: EmbedderDouble, count: int = 40, path: str = PATH) -> None:
    documents = [SourceDocument(f"d{number}", "s", f"alpha beta{number % 7} gamma" + " refund" * (number % 3))
                 for number in range(count)]
    with Runtime(Config(), root=root, embedder=embedder):
        assert rag_ingest_many(path, documents, 400).is_ok


# --- what an empty index is asked ---

@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_vector_of_another_length_leaves_nothing_in_memory_that_later_searches_fail_of(tmp_path: Path, mode: Any) -> None:
    embedder = EmbedderDouble(DIM)
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        rag_ingest(PATH, "d", "s", "alpha", 100).unwrap()
        rag_delete(PATH, "d").unwrap()
        for dim in (DIM - 1, DIM):
            with runtime.store.snapshot(PATH) as snapshot:
                question = Question((), np.full(dim, 1.0 / np.sqrt(dim), np.float32))
                (found,) = (len(ranking.best(3).rows) for ranking in rankings(snapshot, [question], mode, NO_FILTERS, runtime.limits))
            assert found == 0
        rag_ingest(PATH, "d", "s", "alpha", 100).unwrap()
        assert [chunk.doc_id for chunk in rag_query(PATH, "alpha", 9, QueryOptions(mode=mode)).unwrap()] == ["d"]


# --- bounds ---

@pytest.mark.parametrize(("vector_mb", "lexical_mb", "kept"), [
    (1, 64, (False, True)), (64, 1, (True, False)), (1, 1, (False, False)), (64, 64, (True, True))])
def test_an_index_above_a_bound_is_read_from_the_file(tmp_path: Path, vector_mb: int, lexical_mb: int, kept: tuple[bool, bool],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_stdlib.index.resident import words

    embedder = EmbedderDouble(dim=1_024)
    fill(tmp_path, embedder, 300)  # 1.5 MB of codes and floats
    monkeypatch.setattr(words, "_PER_ROW", 4_000)  # and as many bytes of lengths
    config = Config(rag=RagConfig(vector_memory_mb=vector_mb, lexical_memory_mb=lexical_mb))
    agree(both(tmp_path, embedder, config), tmp_path, embedder, QUERIES, 20)
    states = in_memory()
    assert (any(state.codes for state in states), any(state.words for state in states)) == kept


def test_several_indexes_share_the_bounds_and_the_one_not_used_for_longest_goes(tmp_path: Path) -> None:
    embedder = EmbedderDouble(dim=1_024)
    config = Config(rag=RagConfig(vector_memory_mb=4))  # two of them fit
    for name in "abcd":
        fill(tmp_path, embedder, 300, f"{name}.db")
    with Runtime(config, root=tmp_path, embedder=embedder):
        wanted = rag_query("a.db", "alpha beta1", 9, QueryOptions(mode="hybrid")).unwrap()
        for name in "abcdbacd":
            assert [chunk.score for chunk in rag_query(f"{name}.db", "alpha beta1", 9, QueryOptions(mode="hybrid")).unwrap()] == [
                chunk.score for chunk in wanted]
            assert sum(state.bytes()[0] for state in in_memory()) <= 4_000_000
        keys = [key for key, resident in RESIDENTS._held.items() if resident._state is not None]
        assert len(keys) == 2
        assert [key[2] for key in keys] == ["c.db", "d.db"]  # type: ignore[index]
        for mode in MODES:  # words are bounded by themselves
            rag_query("a.db", "alpha beta1", 9, QueryOptions(mode=mode)).unwrap()  # type: ignore[arg-type]
        assert [key[2] for key in RESIDENTS._held][-1] == "a.db"  # type: ignore[index]


def test_nothing_is_kept_where_nothing_shall_be(tmp_path: Path, embedder: EmbedderDouble) -> None:
    fill(tmp_path, embedder)
    with Runtime(Config(), root=tmp_path, embedder=embedder, resident=False):
        for mode in MODES:
            hits("alpha", mode, 3)
    assert in_memory() == []


# --- failures on the way ---

@pytest.mark.parametrize("failing", [
    (ResidentCodes, "read"), (ResidentCodes, "appended"), (ResidentWords, "changed"), (ResidentWords, "_made"), (Signs, "of")])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, apsw.IOError, apsw.CorruptError])
def test_a_refresh_that_is_broken_off_leaves_no_half_of_it(tmp_path: Path, embedder: EmbedderDouble, failing: tuple[type, str],
                                                           error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, embedder)
    ways = both(tmp_path, embedder)
    agree(ways, tmp_path, embedder, QUERIES)
    if failing == (ResidentCodes, "read"):  # words are there, codes are to be read after words were brought up
        RESIDENTS.clear()
        with ways[0]:
            hits("alpha refund", "lexical", 3)
    with ways[0]:
        rag_ingest(PATH, "n", "s", "alpha alpha beta0 delta refund", 400)
        rag_delete(PATH, "d3")

        def broken(*_: Any, **__: Any) -> None:
            raise error("broken off")

        with monkeypatch.context() as patch:
            patch.setattr(*failing, broken)
            options = QueryOptions(mode="vector", approximate=True) if failing[0] is Signs else QueryOptions(mode="hybrid")
            try:
                rag_query(PATH, "alpha refund", 3, options)
            except (KeyboardInterrupt, MemoryError):
                assert error in (KeyboardInterrupt, MemoryError)
    agree(ways, tmp_path, embedder, [*QUERIES, "alpha delta"])


# --- what is read ---

@contextmanager
def watched() -> Iterator[tuple[Counter[str], list[int]]]:
    """Count the rows that statements of new connections look at in full scans, by statement, and the blobs that are opened."""
    scanned: Counter[str] = Counter()
    blobs: list[int] = []

    def profile(event: Any) -> None:
        steps = event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
        if steps:
            scanned[event["sql"]] += steps

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)

    opened = vecread._Blobs.open

    def counting(self: Any, block: int, size: int | None = None) -> Any:
        blobs.append(block)
        return opened(self, block, size)

    apsw.connection_hooks.append(watch)
    vecread._Blobs.open = counting  # type: ignore[method-assign]
    try:
        yield scanned, blobs
    finally:
        vecread._Blobs.open = opened  # type: ignore[method-assign]
        apsw.connection_hooks.remove(watch)


def large(scanned: Counter[str], rows: int) -> dict[str, int]:
    return {statement: steps for statement, steps in scanned.items() if steps > rows}


def test_a_search_after_a_small_change_reads_what_has_changed_and_no_more(tmp_path: Path, embedder: EmbedderDouble) -> None:
    fill(tmp_path, embedder, 1_500)
    with watched() as (scanned, blobs), Runtime(Config(), root=tmp_path, embedder=embedder):
        hits("alpha beta1", "hybrid", 5)
        assert any("rag_lexical_docsize" in statement for statement in large(scanned, 1_000)), "the watch sees full scans"
        assert len(blobs) >= 1_500 // 32
        for number in range(3):
            rag_ingest(PATH, f"new{number}", "s", f"alpha beta1 new{number}", 400)
            rag_delete(PATH, f"d{number}")
            scanned.clear()
            blobs.clear()
            found = {mode: hits("alpha beta1", mode, 5) for mode in MODES}
            assert large(scanned, 100) == {}
            assert len(blobs) <= 1, "the one vector that came; floats are in memory"
            stored = Stored(tmp_path / PATH, embedder)
            assert found == {mode: stored.best(mode, "alpha beta1", 5) for mode in MODES}


def test_a_search_of_an_unchanged_index_reads_no_vectors_but_those_scored_again(tmp_path: Path, embedder: EmbedderDouble,
                                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_stdlib.index.resident import codes

    monkeypatch.setattr(codes, "FLOAT_BYTES", 0)
    picked: list[int] = []
    pick = vecread.pick
    monkeypatch.setattr(vecread, "pick", lambda connection, seqs, dim: (picked.append(len(seqs)), pick(connection, seqs, dim))[1])
    documents = [SourceDocument(f"d{number}", "s", " ".join(f"w{number * step % 97}" for step in range(1, 9)))
                 for number in range(1_500)]
    with watched() as (scanned, blobs), Runtime(Config(), root=tmp_path, embedder=embedder):
        assert rag_ingest_many(PATH, documents, 400).is_ok
        for query in ("w1 w2 w3", "w5"):
            hits(query, "hybrid", 5)
        scanned.clear()
        blobs.clear()
        picked.clear()
        for mode in ("vector", "hybrid"):
            hits("w1 w2 w3", mode, 5)
        assert large(scanned, 100) == {}
        assert 0 < len(blobs) <= sum(picked)
        assert sum(picked) < 300


# --- forks and threads ---

@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_keeps_nothing_of_its_parents_and_answers_right(tmp_path: Path, embedder: EmbedderDouble) -> None:
    fill(tmp_path, embedder)
    program = f"""
import os, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from embedder_double import EmbedderDouble
from search_oracle import MODES, PATH, hits, in_memory
from rag_stdlib import Config, Runtime, rag_ingest
from rag_stdlib.index.resident.cache import RESIDENTS

with Runtime(Config(), root={str(tmp_path)!r}, embedder=EmbedderDouble(dim={DIM})) as runtime:
    wanted = [hits("alpha beta1", mode, 9) for mode in MODES]
    assert len(in_memory()) == 1
    resident = next(iter(RESIDENTS._held.values()))
    holding, release = threading.Event(), threading.Event()
    def hold():
        with RESIDENTS._lock, resident._lock:
            holding.set()
            release.wait(30)
    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    child = os.fork()
    if child == 0:
        code = 3
        try:
            assert in_memory() == []
            assert [hits("alpha beta1", mode, 9) for mode in MODES] == wanted
            assert len(in_memory()) == 1
            rag_ingest(PATH, "fromchild", "s", "alpha beta1", 400)
            assert hits("alpha beta1", "hybrid", 50)[0][0] == "fromchild:0"
            code = 0
        finally:
            os._exit(code)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert hits("alpha beta1", "hybrid", 50)[0][0] == "fromchild:0"
"""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], check=False, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_answer_beside_a_writer_is_that_of_one_generation(tmp_path: Path, embedder: EmbedderDouble,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_stdlib.index.resident import words

    monkeypatch.setattr(cache, "_LEAST_GONE", 4)
    monkeypatch.setattr(words, "RECENT_ROWS", 6)
    rng = random.Random(3)
    names = ["alpha", "beta", "gamma", "返金"]
    steps: list[tuple[str, str | None]] = [
        (f"d{rng.randrange(12)}", None if rng.random() < 0.25 else " ".join(rng.choices(names, k=rng.randint(1, 6))))
        for _ in range(60)]
    queries = ["alpha beta", "返", "gamma"]
    wanted: dict[tuple[str, str], list[list[Hit]]] = {(mode, query): [] for mode in MODES for query in queries}

    with Runtime(Config(), root=tmp_path, embedder=embedder):
        for path in (PATH, "rehearsal.db"):
            rag_ingest(path, "first", "s", "alpha beta gamma", 400)
        for doc_id, text in [("first", "alpha beta gamma"), *steps]:
            do_quietly("rehearsal.db", doc_id, text)
            stored = Stored(tmp_path / "rehearsal.db", embedder)
            for (mode, query), answers in wanted.items():
                answers.append(stored.best(mode, query, 5))
        over = threading.Event()
        counts: Counter[str] = Counter()

        def search(number: int) -> None:
            turn = random.Random(number)
            place = dict.fromkeys(wanted, 0)
            while not over.is_set() or not counts[f"{number}"]:
                mode, query = turn.choice(list(wanted))
                found = hits(query, mode, 5)
                answers = wanted[mode, query]
                assert found in answers[place[mode, query]:], "of no generation, or of one before the last one seen"
                place[mode, query] = answers.index(found, place[mode, query])
                counts[f"{number}"] += 1

        with ThreadPoolExecutor(9) as pool:
            searching = [pool.submit(carry(search), number) for number in range(8)]
            for doc_id, text in steps:
                do_quietly(PATH, doc_id, text)
            over.set()
            for future in searching:
                future.result(timeout=120)
        assert len(counts) == 8
        for (mode, query), answers in wanted.items():
            assert hits(query, mode, 5) == answers[-1]


def do_quietly(path: str, doc_id: str, text: str | None) -> None:
    """Store or delete a document; one that is not there stays away."""
    result = rag_delete(path, doc_id) if text is None else rag_ingest(path, doc_id, "s", text, 400)
    assert result.is_ok or result.error.code == "not_found"


def test_limits_of_the_configuration_are_those_of_the_search(tmp_path: Path) -> None:

    config = Config(rag=RagConfig(vector_memory_mb=3, lexical_memory_mb=5))
    assert Runtime(config, root=tmp_path).limits == Limits(3_000_000, 5_000_000)
    assert Runtime(config, root=tmp_path, resident=False).limits is None
