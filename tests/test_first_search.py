"""The first search of an index reads the file and keeps nothing; who asks again gets it from memory, with the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from search_oracle import in_memory

from rag_stdlib import Config, QueryOptions, Runtime, rag_ingest, rag_query, rag_search_many
from rag_stdlib.index.resident.cache import RESIDENTS

PATH = "index.db"


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_the_second_search_makes_what_the_first_did_without(tmp_path: Path, mode: str) -> None:
    RESIDENTS.clear()
    options = QueryOptions(mode=mode)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        rag_ingest(PATH, "d", "s", "refund order. two weeks. order again.", 14).unwrap()
        first = rag_query(PATH, "refund order", 5, options).unwrap()
        assert in_memory() == []
        second = rag_query(PATH, "refund order", 5, options).unwrap()
        (state,) = in_memory()
        assert (state.words is not None, state.codes is not None) == (mode != "vector", mode != "lexical")
        assert first == second
        rag_ingest(PATH, "e", "s", "another refund.", 14).unwrap()
        assert len(rag_query(PATH, "refund", 9, options).unwrap()) >= len(rag_query(PATH, "refund", 1, options).unwrap()) == 1
        assert in_memory()[0].generation == 2, "what is there is brought up to date at once"


def test_several_queries_make_it_at_once(tmp_path: Path) -> None:
    RESIDENTS.clear()
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "refund order. two weeks.", 14).unwrap()
        rag_search_many(PATH, ["refund"], 5).unwrap()
        assert in_memory() == []
        RESIDENTS.clear()
        rag_search_many(PATH, ["refund", "weeks"], 5).unwrap()
        assert len(in_memory()) == 1


def test_a_runtime_that_keeps_nothing_never_does(tmp_path: Path) -> None:
    RESIDENTS.clear()
    with Runtime(Config(), root=tmp_path, resident=False):
        rag_ingest(PATH, "d", "s", "refund order. two weeks.", 14).unwrap()
        for _ in range(3):
            rag_search_many(PATH, ["refund", "weeks"], 5).unwrap()
        assert in_memory() == []
