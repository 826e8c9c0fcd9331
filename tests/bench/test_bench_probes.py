"""The looks at this library alone, on 300 rows: what they count, and that they count what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters.ours import Library
from conftest import ROWS  # type: ignore[attr-defined]
from harness import probes
from harness.protocol import Feed


@pytest.fixture
def job(data_folder: Path, tmp_path: Path) -> dict[str, Any]:
    Library(tmp_path).build(Feed(data_folder, "real"))
    return {"store": str(tmp_path), "data": str(data_folder), "vectors": "real"}


def test_vector_hits_are_brute_forces(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MANY", ROWS)
    found = probes.exactness(job)
    assert found["ten"]["queries"] > 100
    assert (found["ten"]["wrong"], found["many"]["wrong"]) == (0, 0)
    assert found["many"]["worst"] <= probes.CLOSE


def test_hits_that_are_not_the_best_are_counted(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Library.vector
    monkeypatch.setattr(Library, "vector", lambda self, query, k: whole(self, query, k + 1)[1:])
    monkeypatch.setattr(probes, "MANY", 50)
    found = probes.exactness(job)
    assert found["ten"]["wrong"] == found["ten"]["queries"]


def test_lexical_scores_are_fts5s(job: dict[str, Any]) -> None:
    found = probes.lexical(job)
    assert found["hits"] > 500
    assert found["wrong_counts"] == 0
    assert found["worst"] < 1e-6


def test_hybrid_searches_of_many_begin_with_the_ten(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MANY", ROWS)
    assert probes.hybrid_many(job) == {"queries": 5, "wrong": 0}


def test_little_memory_is_exact_too(job: dict[str, Any]) -> None:
    found = probes.small_memory(job)
    assert found["wrong"] == 0
    assert 0 < found["search_mb"] <= found["search_peak_mb"]


def test_times_of_threads_are_told_apart(job: dict[str, Any]) -> None:
    found = probes.other_threads(job)
    assert found["searching_s"] > 0
    assert found["others_s"] >= 0


def test_half_of_the_documents_are_deleted(job: dict[str, Any]) -> None:
    found = probes.compaction(job)
    assert 0 < found["deleted"] < ROWS
    assert 0 < found["after_mb"] < found["before_mb"]


def test_the_profile_names_a_function_of_this_library(job: dict[str, Any]) -> None:
    found = probes.profile(job)
    assert set(found["largest"]) == {"vector", "lexical", "hybrid"}
    assert all(0 < each["percent"] < 100 and ":" in each["function"] for each in found["largest"].values())
    assert "hybrid search" in found["text"]
    assert "tottime" in found["text"]


def test_scores_of_fts5_are_read_for_every_chunk_with_a_word(job: dict[str, Any]) -> None:
    import apsw

    connection = apsw.Connection(str(Path(job["store"]) / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
    scores = probes._by_fts5(connection, "python")
    holding = sum("python" in text.lower() for document in Feed(Path(job["data"]), "real").documents() for text in document.chunks)
    assert 0 < len(scores) <= holding + 5
    assert np.isfinite(list(scores.values())).all()
