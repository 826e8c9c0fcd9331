"""Several queries at once answer as the single ones do, from one state of the index."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from spec_validator import violations

import replay
from rag_stdlib import (
    Config,
    Err,
    Ok,
    QueryOptions,
    Runtime,
    SourceDocument,
    ToolShapeError,
    rag_ingest,
    rag_ingest_many,
    rag_query,
    rag_search_many,
)
from rag_stdlib.index import quantize, ranking

PATH = "index.db"
MODES = ("lexical", "vector", "hybrid")
WORDS = ["refund", "order", "invoice", "courier", "parcel", "customs", "return", "window", "warehouse", "label", "carrier", "返金", "c++"]


def texts(count: int, seed: int, least: int, most: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(least, most))) for _ in range(count)]


TEXTS = [*texts(8, 1, 1, 4), "", "   ", "zzz", *texts(8, 2, 1, 3), "refund", "refund", "?!", "order " * 70 + " ".join(f"w{n}" for n in range(80))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    with Runtime(Config(), root=root, embedder=EmbedderDouble()):
        documents = [SourceDocument(f"doc-{number % 3}-{number}", f"src/{number % 4}", text, metadata={"n": number % 5})
                     for number, text in enumerate([*texts(60, 3, 5, 60), *texts(20, 4, 1, 1)])]
        assert rag_ingest_many(PATH, documents, 90).is_ok
        assert rag_ingest("empty.db", "d", "s", "", 90).is_ok
    return root


@pytest.fixture(params=[True, False], ids=["from memory", "from the file"])
def runtime(folder: Path, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(), resident=request.param) as made:
        yield made


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"metadata": {"n": 3}}, {"source": ("src/1", "src/2"), "per_document": 1}, {"doc_id_prefix": "doc-0", "min_score": 0.05},
                                     {"doc_id": "no such"}, {"min_score": 0.3, "per_document": 2, "metadata": {"n": (0, 1)}}])
def test_each_answer_is_that_of_a_single_call(mode: Any, options: dict[str, Any]) -> None:
    asked = QueryOptions(mode=mode, **options)
    many = rag_search_many(PATH, TEXTS, 7, asked)
    assert isinstance(many, Ok)
    assert len(many.value) == len(TEXTS)
    notes: list[str] = []
    for number, (text, found) in enumerate(zip(TEXTS, many.value, strict=True)):
        single = rag_query(PATH, text, 7, asked)
        assert isinstance(single, Ok)
        assert [chunk.to_dict() for chunk in found] == [chunk.to_dict() for chunk in single.value]
        notes += [f"query {number}: {note}" for note in single.notes]
    assert list(many.notes) == notes
    assert any("blank" in note for note in notes)
    assert any("terms_cut" in note for note in notes) == (mode != "vector")


def test_no_queries_have_no_answers_and_blank_ones_ask_no_embedder(folder: Path) -> None:
    embedder = EmbedderDouble()
    with Runtime(Config(), root=folder, embedder=embedder):
        assert rag_search_many(PATH, [], 5) == Ok([])
        assert rag_search_many(PATH, ["", " \t\n"], 5) == Ok([[], []])
        assert rag_search_many("empty.db", ["refund", ""], 5) == Ok([[], []])
        assert embedder.calls == []
        assert rag_search_many("absent.db", [], 5).error.code == "index_missing"  # type: ignore[union-attr]
        assert len(rag_search_many(PATH, ["refund", "order", "refund", " "], 5).unwrap()) == 4
    assert embedder.calls == [("query", ("refund", "order"))], "one call, each distinct text once"


def test_without_an_embedder_it_is_said_once(folder: Path) -> None:
    with Runtime(Config(), root=folder):
        result = rag_search_many(PATH, ["refund", "!?"], 5)
        assert isinstance(result, Ok)
        assert [note.partition(":")[0] for note in result.notes] == ["lexical search", "query 1"]
        assert rag_search_many(PATH, ["refund"], 5, QueryOptions(mode="vector")).error.code == "mode_needs_embedder"  # type: ignore[union-attr]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(("arguments", "shown"), [
    ((PATH, "refund", 5), "queries is str 'refund'"), ((PATH, None, 5), "queries is NoneType"), ((PATH, {"refund"}, 5), "queries is set"),
    ((PATH, [b"x"], 5), r"queries[0] is bytes b'x'"), ((PATH, ["a", 5, None], 5), "queries[1] is int 5"), ((PATH, ["a", ["b"]], 5), "queries[1] is list"),
    ((PATH, ("a", None), 5), "queries[1] is NoneType"), ((PATH, ["a"], "5"), "limit is str"), ((PATH, ["a"], 5, None), "options is NoneType"),
    ((PATH, ["a"], 5, QueryOptions(approximate="yes")), "options.approximate is str")])  # type: ignore[arg-type]
def test_a_wrong_shape_names_what_does_not_fit(arguments: tuple[Any, ...], shown: str) -> None:
    with pytest.raises(ToolShapeError) as failed:
        rag_search_many(*arguments)
    assert str(failed.value).startswith("tool `rag_search_many` failed: expected (index_path: String, queries: List<String>, limit: Int, options: QueryOptions)")
    assert shown in str(failed.value)


@pytest.mark.usefixtures("runtime")
def test_one_query_that_is_refused_refuses_all() -> None:
    for bad, code in (("\ud800", "invalid_text"), ("x" * 70_000, "text_too_large"), ("a\x00b", "text_nul")):
        result = rag_search_many(PATH, ["refund", bad], 5)
        assert isinstance(result, Err)
        assert result == rag_query(PATH, bad, 5)
        assert result.error.code == code
    assert rag_search_many(PATH, ["refund"], 0).error.code == rag_query(PATH, "refund", 0).error.code  # type: ignore[union-attr]


def test_tuples_are_taken_for_lists(folder: Path) -> None:
    with Runtime(Config(), root=folder, embedder=EmbedderDouble()):
        assert rag_search_many(PATH, ("refund", "order"), 3) == rag_search_many(PATH, ["refund", "order"], 3)


def test_few_scores_at_a_time_change_no_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(Config(), root=folder, embedder=EmbedderDouble()):
        for mode in MODES:
            options = QueryOptions(mode=mode)  # type: ignore[arg-type]
            whole = rag_search_many(PATH, TEXTS, 9, options)
            for bytes_, together, product in ((1, 32, 262_144), (2**30, 2, 262_144), (2**30, 64, 1)):
                with monkeypatch.context() as patch:
                    patch.setattr(ranking, "_SCORE_BYTES", bytes_)
                    patch.setattr(ranking, "_TOGETHER", together)
                    patch.setattr(quantize, "_SMALL_PRODUCT", product)
                    assert rag_search_many(PATH, TEXTS, 9, options) == whole


def test_it_is_recorded_and_replayed(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.rtrace"
    asked = [(PATH, ["refund order", "", "?!"], 3), (PATH, [], 2), ("absent.db", ["x"], 1), (PATH, ["refund"], 0)]

    def run() -> list[Any]:
        return [rag_search_many(*arguments) for arguments in asked]

    with replay.record(file), Runtime(Config(), root=folder, embedder=EmbedderDouble()):
        live = run()
    assert violations(file) == []
    assert [result.is_ok for result in live] == [True, True, False, False]
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = EmbedderDouble()
    broken.fail_after = 0
    with replay.substitute(file), Runtime(Config(), root=empty, embedder=broken):
        again = run()
    assert again == live
    assert [repr(result) for result in again] == [repr(result) for result in live]
    assert [result.notes for result in again if isinstance(result, Ok)] == [result.notes for result in live if isinstance(result, Ok)]
    assert broken.calls == []


linux = pytest.mark.skipif(sys.platform != "linux", reason="the CPU time of single threads is read from /proc")


@linux
def test_no_thread_but_the_callers_works(tmp_path: Path) -> None:
    """A process of its own, whose BLAS library may use two threads: the other one's CPU time does not grow."""
    program = f"""
import sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.resident.codes import ResidentCodes

def others():
    mine = threading.get_native_id()
    return {{task.name: sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
            for task in Path("/proc/self/task").iterdir() if int(task.name) != mine}}

rng = np.random.default_rng(1)
rows = rng.normal(size=(20_000, 64)).astype(np.float32)
rows /= np.linalg.norm(rows, axis=1, keepdims=True)
codes = ResidentCodes.none(64, floats=True).appended(rows)
asked = [Asked.of(row) for row in rows[:32]]
room = np.empty((len(asked), codes.count))
codes.score(asked, room)
before = others()
for _ in range(60):
    codes.score(asked, room)
after = others()
wide = rng.normal(size=(1500, 1500))
for _ in range(3):
    wide @ wide
print(sum(after.values()) - sum(before.values()), sum(others().values()) - sum(after.values()), len(after))
"""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env, cwd=tmp_path)
    grown, by_blas, threads = map(int, done.stdout.split())
    assert grown == 0
    assert threads == 0 or by_blas > 0, "the measure sees a library's threads where there are some"


@linux
def test_a_whole_search_uses_no_thread_but_the_callers(tmp_path: Path) -> None:
    program = f"""
import sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from embedder_double import EmbedderDouble
from rag_stdlib import Config, QueryOptions, Runtime, rag_ingest, rag_search_many

def others():
    mine = threading.get_native_id()
    return sum(sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
               for task in Path("/proc/self/task").iterdir() if int(task.name) != mine)

with Runtime(Config(), root={str(tmp_path)!r}, embedder=EmbedderDouble(dim=64)):
    assert rag_ingest("i.db", "d", "s", " ".join(f"w{{n % 997}}" for n in range(80_000)), 22).unwrap() >= 20_000
    queries = [f"w{{n}} w{{n + 1}}" for n in range(32)]
    for mode in ("vector", "hybrid"):
        rag_search_many("i.db", queries, 10, QueryOptions(mode=mode)).unwrap()
    before = others()
    for mode in ("vector", "hybrid", "vector"):
        rag_search_many("i.db", queries, 10, QueryOptions(mode=mode)).unwrap()
    print(others() - before)
"""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["0"]
