"""What a shard over an index refuses, by the names that callers see, and what leaves it as good as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from fed_asked import INDEX, TEXT, ask, caught_by_caller, failed, hits, put, refused, serving
from fed_indexes import DIM, documents, fill
from fed_mesh import Run, Shards

from rag_stdlib import Config, Failure, RagConfig, Runtime, rag_delete
from rag_stdlib.mesh.federation.exchange import Asked, Exchange
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.searching import query_vector


@pytest.mark.parametrize(("query", "detail"), [
    ({}, "missing_text: text is missing"), ({"text": 7}, "missing_text: text is missing"), ({"words": TEXT}, "missing_text: text is missing"),
    ({"text": TEXT, "mode": "fuzzy"}, "bad_params: mode is one of hybrid, vector, lexical"), ({"text": TEXT, "topics": "coast"}, "bad_params: topics is a list of texts"),
    ({"text": TEXT, "vector": [float("nan")] * DIM}, "bad_params: vector is a list of finite numbers"),
    ({"text": TEXT, "vector": [10**400] * DIM}, "bad_params: vector is a list of finite numbers"),
    ({"text": TEXT, "mode": "vector", "vector": [0] * DIM}, "bad_params: vector is zero, which has no direction"),
    ({"text": TEXT, "mode": "vector", "vector": [1.0] * (DIM - 1)}, f"dimension_mismatch: expected {DIM} numbers, got {DIM - 1}"),
    ({"text": TEXT, "mode": "hybrid", "vector": [1.0] * 100_000}, f"dimension_mismatch: expected {DIM} numbers, got 100000"),
    ({"text": TEXT, "exchange": {"v": 1, "round": "hits", "words": {"chunks": 1, "terms": 1, "holding": [1]}}},
     "bad_params: words are to hold 2 counts, one for each term of the text"),
    ({"text": TEXT, "exchange": {"v": 1, "round": "words", "words": {"chunks": 1, "terms": 1, "holding": [1, 1, 1]}}},
     "bad_params: words are to hold 2 counts, one for each term of the text"),
    ({"text": TEXT, "mode": "hybrid", "exchange": {"v": 1, "round": "hits", "words": {"chunks": 1, "terms": 1, "holding": [1, 1]}}},
     "bad_params: by_vector or by_words is missing"),
])
def test_what_is_no_question_is_refused_by_name(shard: IndexShard, query: dict[str, Any], detail: str) -> None:
    assert refused(shard, query).detail.startswith(detail)


def test_text_that_nobody_can_search_for_is_refused(shard: IndexShard) -> None:
    assert failed(shard, {"text": "a" * 65_537}) == "text_too_large"
    assert failed(shard, {"text": "a\0b"}) == "text_nul"


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_an_index_of_words_is_asked_in_vain_by_vectors(runtime: Runtime, plain: Runtime, mode: str) -> None:
    with plain:
        fill("words.db", documents(10))
    for held in (plain, runtime):
        assert failed(IndexShard(held, "words.db"), {"text": TEXT, "mode": mode, "vector": [1.0] * DIM}) == "vectors_missing"
    assert failed(IndexShard(runtime, "words.db"), {"text": TEXT, "mode": mode}) == "vectors_missing"
    assert failed(IndexShard(plain, "words.db"), {"text": TEXT, "mode": mode}) == "mode_needs_embedder"


def test_an_index_that_is_not_there_yet_is_opening(run: Run, runtime: Runtime) -> None:
    shard = IndexShard(runtime, "later.db")
    assert failed(shard, {"text": TEXT, "mode": "lexical"}) == "index_missing"
    vector = query_vector(runtime, TEXT)
    for query in ({"text": TEXT}, {"text": TEXT, "mode": "vector", "vector": vector}, Asked(TEXT, "lexical", exchange=Exchange("count")).query()):
        assert caught_by_caller(run, shard, query, shard.embedding()).name == "store_opening"


def test_what_is_not_granted_is_refused(run: Run, shard: IndexShard, runtime: Runtime) -> None:
    with Runtime(Config(grant=frozenset()), root=runtime.root.path, embedder=EmbedderDouble(DIM)) as ungranted:
        unable = IndexShard(ungranted, INDEX)
        assert failed(unable, {"text": TEXT}) == "effect_not_granted"
        assert caught_by_caller(run, unable, {"text": TEXT}, shard.embedding()).name == "effect_not_granted"


def test_vectors_of_another_embedder_are_not_searched_for_a_text(runtime: Runtime) -> None:
    fill(INDEX, documents(10))
    with Runtime(Config(), root=runtime.root.path, embedder=EmbedderDouble(DIM, "other")) as other:
        assert failed(IndexShard(other, INDEX), {"text": TEXT, "mode": "vector"}) == "embedding_mismatch"
        with pytest.raises(Failure, match="words-sha256"):
            IndexShard(other, INDEX).embedding()


@pytest.mark.parametrize("more", [{}, {"exchange": {"v": 1, "round": "count"}}])
def test_an_index_that_was_replaced_by_one_of_another_embedding_answers_no_vector_of_the_first(
    run: Run, shard: IndexShard, runtime: Runtime, more: dict[str, Any],
) -> None:
    query = {"text": TEXT, "mode": "vector", "vector": query_vector(runtime, TEXT), **more}
    before = shard.embedding()
    runtime.close()
    (Path(runtime.root.path) / INDEX).unlink()
    with Runtime(Config(), root=runtime.root.path, embedder=EmbedderDouble(DIM, "other")):
        fill(INDEX, documents(30))
    with Runtime(Config(), root=runtime.root.path) as serving_alone:
        replaced = IndexShard(serving_alone, INDEX)
        assert replaced.embedding() != before
        assert caught_by_caller(run, replaced, query, before).name == "embedding_mismatch"
        lexical = {"text": TEXT, "mode": "lexical"}
        assert replaced(lexical, 1).embedding is None


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_vector_of_any_length_leaves_an_empty_index_as_good_as_it_was(runtime: Runtime, mode: Any) -> None:
    put("d", TEXT)
    rag_delete(INDEX, "d").unwrap()
    shard = IndexShard(runtime, INDEX)
    vector = tuple(query_vector(runtime, TEXT))
    assert refused(shard, {"text": TEXT, "mode": mode, "vector": [1.0, 2.0]}).name == "dimension_mismatch"
    assert hits(shard, Asked(TEXT, mode, vector).query()) == []
    assert shard(Asked(TEXT, mode, vector, exchange=Exchange("count")).query(), 1).statistics == {
        "v": 1, "words": {"chunks": 0, "terms": 0, "holding": [0, 0]}, "by_vector": {"count": 0, "total": "0", "squares": "0"}}
    put("d", TEXT)
    assert [each["doc_id"] for each in hits(shard, Asked(TEXT, mode, vector).query())] == ["d"]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_an_index_that_never_held_anything_takes_any_vector_and_finds_nothing(runtime: Runtime, mode: Any) -> None:
    with runtime.store.writing(INDEX, create=True):
        pass
    shard = IndexShard(runtime, INDEX)
    for length in (3, DIM):
        assert hits(shard, Asked(TEXT, mode, (1.0,) * length).query()) == []
    assert hits(shard, Asked(TEXT, mode).query()) == []
    put("d", TEXT)
    assert len(hits(shard, Asked(TEXT, mode).query())) == 1


ABSURD: list[dict[str, Any]] = [
    {"words": {"chunks": 2**63 - 1, "terms": 0, "holding": [2**63 - 1, 0]}}, {"words": {"chunks": 0, "terms": 2**63 - 1, "holding": [0, 0]}},
    {"words": {"chunks": 2**62, "terms": 1, "holding": [1, 1]}}, {"words": {"chunks": 1, "terms": 2**63 - 1, "holding": [1, 1]}},
]
MOMENTS: list[dict[str, Any]] = [
    {"count": 0, "total": "0", "squares": "0"}, {"count": 1, "total": "0", "squares": "1"}, {"count": 2**63 - 1, "total": "0", "squares": "1"},
    {"count": 1, "total": str(10**10), "squares": str(10**20)}, {"count": 1, "total": str(10**10 - 1), "squares": str(10**20)},
    {"count": 2**63 - 1, "total": str(-(10**10) * (2**63 - 1)), "squares": str(10**20 * (2**63 - 1))},
]


@pytest.mark.parametrize("told", ABSURD, ids=range(len(ABSURD)))
def test_absurd_counts_are_answered_with_finite_scores(run: Run, shard: IndexShard, told: dict[str, Any]) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node = await serving(mesh, shard, shard.embedding())
            for round_ in ("words", "hits"):
                answer = await ask(node, {"text": TEXT, "mode": "lexical", "exchange": {"v": 1, "round": round_, **told}}, shard.embedding())
                assert bool(answer["hits"]) == (round_ == "hits")
            for one in MOMENTS:
                for other in MOMENTS[:3]:
                    exchange = {"v": 1, "round": "hits", **told, "by_vector": one, "by_words": other}
                    answer = await ask(node, {"text": TEXT, "mode": "hybrid", "exchange": exchange}, shard.embedding())
                    assert len(answer["hits"]) == 5

    run(body())


def test_an_embedder_that_fails_fails_the_question_alone(run: Run, runtime: Runtime, shard: IndexShard) -> None:
    embedder: Any = runtime.embedder
    embedder.fail_after = 0
    assert caught_by_caller(run, shard, {"text": TEXT}, shard.embedding()).name == "embedder_failed"
    embedder.fail_after = None
    assert hits(shard, {"text": TEXT}) != []


def test_without_an_embedder_a_text_alone_cannot_be_compared_with_vectors(run: Run, shard: IndexShard, runtime: Runtime) -> None:
    vector = query_vector(runtime, TEXT)
    expected = hits(shard, {"text": TEXT, "mode": "vector", "vector": vector})
    with Runtime(Config(rag=RagConfig()), root=runtime.root.path) as without:
        bare = IndexShard(without, INDEX)
        assert caught_by_caller(run, bare, {"text": TEXT}, shard.embedding()).name == "no_embed_model"
        assert hits(bare, {"text": TEXT, "mode": "vector", "vector": vector}) == expected
