"""An index as a part of a wider collection: the scores of the parts are those of one index over everything, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import Config, Runtime, rag_delete, rag_ingest
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.index import search, shares
from rag_stdlib.index.collection import Collection, Moments, Wider
from rag_stdlib.index.resident.cache import RESIDENTS, Limits
from rag_stdlib.records import Mode
from rag_stdlib.result import Ok
from rag_stdlib.text.normalize import query_terms

LIMITS = Limits(10**9, 10**9)
WORDS = ["shard", "index", "the", "of", "query", "vector", "naïve", "東京都", "京都", "km²", "retrieval", "a1", "recall", "merge", "tie"]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    RESIDENTS.clear()
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(24)) as made:
        yield made
    RESIDENTS.clear()


def fill(index: str, documents: dict[str, str]) -> None:
    for doc_id, text in documents.items():
        assert isinstance(rag_ingest(index, doc_id, f"{doc_id}.txt", text, 60), Ok)


def documents(count: int, seed: int = 7) -> dict[str, str]:
    rng = random.Random(seed)
    made = {f"d{number:03d}": " ".join(rng.choices(WORDS, weights=range(len(WORDS), 0, -1), k=rng.randint(3, 40))) for number in range(count)}
    made["copy-1"] = made["copy-2"] = made["d001"]
    return made


def part(index: str, number: int, parts: int, given: dict[str, str]) -> None:
    fill(index, {doc_id: text for place, (doc_id, text) in enumerate(sorted(given.items())) if place % parts == number})


def together(runtime: Runtime, indexes: Sequence[str], text: str, mode: Mode, limits: Limits | None, limit: int = 10) -> list[Any]:
    """Search parts as one collection: what a federation does, without the mesh."""
    terms = query_terms(text)
    vectors = search.vectors_of(runtime.store, indexes[0], mode, [text], runtime.embedder)
    unit = vectors.get(text)
    collection, by_vector, by_words = Collection(0, 0, (0,) * len(terms)), Moments(0, 0, 0), Moments(0, 0, 0)
    for index in indexes:
        with runtime.store.snapshot(index) as snapshot:
            collection += shares.counts(snapshot, terms, limits)
            if unit is not None:
                by_vector += shares.vector_moments(snapshot, unit, limits)
    for index in indexes:
        with runtime.store.snapshot(index) as snapshot:
            by_words += shares.word_moments(snapshot, terms, collection, limits)
    hits = []
    query = search.Query(limit, mode, limits=limits, wider=Wider(collection, (by_vector, by_words)))
    for index in indexes:
        with runtime.store.snapshot(index) as snapshot:
            hits += search.answers(snapshot, index, query, [text], vectors)[0].chunks
    return sorted(hits, key=lambda hit: (-hit.score, hit.doc_id, hit.ordinal))[:limit]


def alone(runtime: Runtime, text: str, mode: Mode, limits: Limits | None, limit: int = 10) -> list[Any]:
    return list(search.search(runtime.store, "all.db", search.Query(limit, mode, limits=limits), [text], runtime.embedder)[0].chunks)


QUERIES = ["shard index", "the of the", "naïve 京", "東京都", "recall of a tie", "nothing here at all", "merge"]


@pytest.mark.parametrize("limits", [LIMITS, None], ids=["memory", "file"])
@pytest.mark.parametrize("mode", ["lexical", "hybrid", "vector"])
def test_three_parts_score_and_order_as_one_index(runtime: Runtime, mode: Mode, limits: Limits | None) -> None:
    given = documents(60)
    fill("all.db", given)
    for number in range(3):
        part(f"{number}.db", number, 3, given)
    found = 0
    for text in QUERIES:
        expected = alone(runtime, text, mode, limits)
        assert together(runtime, ["0.db", "1.db", "2.db"], text, mode, limits) == expected
        found += len(expected)
    assert found > 20


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_chunks_that_went_count_no_more_in_memory_or_file(runtime: Runtime, mode: Mode) -> None:
    given = documents(40)
    fill("all.db", given)
    part("0.db", 0, 2, given)
    part("1.db", 1, 2, given)
    for limits in (LIMITS, None):  # in memory first, so that it is brought up to date afterwards
        together(runtime, ["0.db", "1.db"], "shard index", mode, limits)
    for number, doc_id in enumerate(sorted(given)[:12]):
        assert isinstance(rag_delete("all.db", doc_id), Ok)
        assert isinstance(rag_delete(f"{number % 2}.db", doc_id), Ok)
    fill("all.db", {"new": "shard shard shard"})
    fill("1.db", {"new": "shard shard shard"})
    for limits in (LIMITS, None):
        for text in QUERIES:
            assert together(runtime, ["0.db", "1.db"], text, mode, limits) == alone(runtime, text, mode, limits)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join), min_size=1, max_size=9),
       homes=st.lists(st.integers(0, 2), min_size=9, max_size=9), text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join))
def test_however_documents_are_dealt_out(tmp_path_factory: pytest.TempPathFactory, texts: list[str], homes: list[int], text: str) -> None:
    with Runtime(Config(), root=tmp_path_factory.mktemp("dealt"), embedder=HashingEmbedder(16)) as runtime:
        given = {f"d{number}": words for number, words in enumerate(texts)}
        fill("all.db", given)
        used = sorted(set(homes[:len(texts)]))
        for home in used:
            fill(f"{home}.db", {doc_id: words for (doc_id, words), mine in zip(given.items(), homes, strict=False) if mine == home})
        for mode in ("lexical", "hybrid", "vector"):
            assert together(runtime, [f"{home}.db" for home in used], text, mode, None) == alone(runtime, text, mode, None)  # type: ignore[arg-type]


def test_counts_add_up_whichever_way_they_are_taken(runtime: Runtime) -> None:
    fill("0.db", documents(20))
    fill("1.db", documents(15, seed=8))
    terms = query_terms("shard 京 absent 東京都")
    for limits in (LIMITS, None):
        with runtime.store.snapshot("0.db") as one, runtime.store.snapshot("1.db") as two:
            first, second = shares.counts(one, terms, limits), shares.counts(two, terms, limits)
        assert (first + second).chunks == first.chunks + second.chunks > 30
        assert len(first.holding) == len(terms)
        assert first.holding[terms.index(("absent", False))] == 0
        assert all(0 < count <= first.chunks for term, count in zip(terms, first.holding, strict=True) if term != ("absent", False))
    with runtime.store.snapshot("0.db") as snapshot:
        assert shares.counts(snapshot, terms, LIMITS) == shares.counts(snapshot, terms, None)


def test_moments_of_different_queries_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="zip"):
        Collection(1, 1, (1,)) + Collection(1, 1, (1, 1))


def test_an_index_without_chunks_adds_nothing(runtime: Runtime) -> None:
    fill("0.db", {"d": "shard"})
    assert isinstance(rag_delete("0.db", "d"), Ok)
    unit = search.boundary.embedded(HashingEmbedder(24), ["shard"], "query")[0]
    with runtime.store.snapshot("0.db") as snapshot:
        assert shares.counts(snapshot, query_terms("shard"), LIMITS) == Collection(0, 0, (0,))
        assert shares.vector_moments(snapshot, unit, LIMITS) == Moments(0, 0, 0)
        assert shares.word_moments(snapshot, query_terms("shard"), Collection(5, 9, (3,)), LIMITS) == Moments(0, 0, 0)
