"""Searches for distinct texts: as many as asked for whatever the number of copies, each with where else it stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib import Config, Runtime, SourceDocument, rag_ingest_many
from rag_stdlib.index import search
from rag_stdlib.index.search import Found, Query
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import Mode

PATH = "kb.db"
MODES: list[Mode] = ["lexical", "vector", "hybrid"]


def ask(runtime: Runtime, text: str, query: Query) -> Found:
    (found,) = search.search(runtime.store, PATH, query, [text], runtime.embedder)
    return found


def fill(copies: dict[str, int]) -> None:
    documents = [SourceDocument(f"{text}-{number}", f"src/{text}-{number}", f"common word {text}")
                 for text, count in copies.items() for number in range(count)]
    rag_ingest_many(PATH, documents, 100).unwrap()


@pytest.mark.parametrize("mode", MODES)
def test_x11_top_k_distinct_hits_whatever_the_number_of_copies(hybrid: Runtime, mode: Mode) -> None:
    fill({"licence": 60, "apple": 1, "pear": 3, "plum": 1, "fig": 25})
    found = ask(hybrid, "common word licence", Query(4, mode, distinct=True))
    assert len(found.chunks) == len({chunk.content_sha256 for chunk in found.chunks}) == 4
    assert found.chunks[0].doc_id == "licence-0"
    assert found.copies[0] == tuple(sorted(f"src/licence-{number}" for number in range(1, 60)))
    everything = ask(hybrid, "common word", Query(9, mode, distinct=True))
    assert {chunk.text.split()[-1]: len(copies) for chunk, copies in zip(everything.chunks, everything.copies, strict=True)} == {
        "licence": 59, "apple": 0, "pear": 2, "plum": 0, "fig": 24}


@pytest.mark.parametrize("mode", MODES)
@given(copies=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 7), min_size=1), limit=st.integers(1, 10))
@settings(max_examples=25)
def test_they_are_the_first_of_each_text_of_the_whole_ranking(tmp_path_factory: pytest.TempPathFactory, mode: Mode, copies: dict[str, int],
                                                             limit: int) -> None:
    from embedder_double import EmbedderDouble

    with Runtime(Config(), root=tmp_path_factory.mktemp("kb"), embedder=EmbedderDouble()) as runtime:
        fill(copies)
        whole = ask(runtime, "common word a b", Query(1000, mode)).chunks
        first: dict[str, list[str]] = {}
        for chunk in whole:
            first.setdefault(chunk.text, []).append(chunk.source)
        found = ask(runtime, "common word a b", Query(limit, mode, distinct=True))
    wanted = list(first.values())[:limit]
    assert [[chunk.source, *more] for chunk, more in zip(found.chunks, found.copies, strict=True)] == wanted


def test_filters_and_bounds_hold_for_distinct_hits(hybrid: Runtime) -> None:
    fill({"licence": 30, "apple": 2, "pear": 1})
    only = QueryOptions(source_prefix="src/apple").filters()
    found = ask(hybrid, "common word", Query(5, "lexical", only, distinct=True))
    assert [(chunk.doc_id, copies) for chunk, copies in zip(found.chunks, found.copies, strict=True)] == [("apple-0", ("src/apple-1",))]
    least = ask(hybrid, "common word apple", Query(5, "hybrid", min_score=0.5, distinct=True))
    assert {chunk.text for chunk in least.chunks} == {"common word apple"}


def test_an_ordinary_search_tells_no_copies(hybrid: Runtime) -> None:
    fill({"licence": 3})
    found = ask(hybrid, "licence", Query(5, "hybrid"))
    assert (len(found.chunks), found.copies) == (3, ())


def test_a_query_may_come_as_a_vector(hybrid: Runtime) -> None:
    fill({"apple": 1, "pear": 1})
    assert hybrid.embedder is not None
    unit = hybrid.embedder.embed(["common word pear"], "query")[0]
    with hybrid.store.snapshot(PATH) as snapshot:
        found = search.nearest(snapshot, PATH, Query(2, "vector", distinct=True), unit)
    assert [chunk.doc_id for chunk in found.chunks] == ["pear-0", "apple-0"]
    assert found.chunks[0].score == pytest.approx(1.0, abs=1e-6)


def test_an_index_without_vectors_has_nothing_near_one(lexical: Runtime) -> None:
    fill({"apple": 1})
    with lexical.store.snapshot(PATH) as snapshot:
        assert search.nearest(snapshot, PATH, Query(2, "vector"), np.ones(32, np.float32)) == Found(())
