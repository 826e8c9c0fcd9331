"""rerank_results: score and shared words together (RAG service contract §5.1, X9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import serving
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.procedures.desk import Desk
from rag_stdlib.mesh.procedures.params import Params
from rag_stdlib.mesh.procedures.rerank import rerank_results

NO_DESK: Desk = None  # type: ignore[assignment] # it is not looked at


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def reranked(query: object, hits: object, **more: object) -> list[dict[str, Any]]:
    answer = rerank_results(NO_DESK, Params({"query_id": "q1", "query_text": query, "hits": hits, **more}), None)
    found: list[dict[str, Any]] = answer["hits"]
    return found


def test_the_score_is_065_of_the_hits_own_and_035_of_the_shared_words() -> None:
    hits = [{"chunk_id": "a", "score": 0.9, "content": "nothing of it"}, {"chunk_id": "b", "score": 0.8, "content": "The RAVEN hides: nuts"}]
    first, second = reranked("raven nuts", hits)
    assert (first["chunk_id"], first["semantic_score"], first["lexical_score"]) == ("b", 0.8, 1.0)
    assert first["rerank_score"] == pytest.approx(0.65 * 0.8 + 0.35)
    assert (second["chunk_id"], second["lexical_score"]) == ("a", 0.0)
    assert second["rerank_score"] == pytest.approx(0.65 * 0.9)


def test_words_count_once_and_are_letters_and_digits() -> None:
    (hit,) = reranked("Nut nut NUT-x1 _under_", [{"score": 0, "content": "a nut, x1"}])
    assert hit["lexical_score"] == pytest.approx(2 / 3)
    (hit,) = reranked("Straße 東京 naïve", [{"score": 0, "content": "naïve 東京"}])
    assert hit["lexical_score"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("query", ["", "  ", "?!", "___"])
def test_x9_a_query_without_words_has_a_lexical_score_of_zero(query: str) -> None:
    (hit,) = reranked(query, [{"score": 0.5, "content": "words"}])
    assert (hit["lexical_score"], hit["rerank_score"]) == (0.0, 0.65 * 0.5)


@pytest.mark.parametrize("hit", [
    {"score": 0.5, "content": "raven", "meta": {"kind": "prose"}},
    {b"score": 0.5, b"content": b"raven", b"meta": {b"kind": b"prose"}},
    {"score": 0.5, b"content": "raven", "meta": {b"kind": "prose"}},
])
def test_x9_b20_b23_keys_and_strings_are_read_as_text_or_bytes_and_given_back_as_text(hit: dict[Any, Any]) -> None:
    params = Params({b"query_id": b"q", b"query_text": b"raven", b"hits": [hit], b"reranker_model": b"m"})
    assert rerank_results(NO_DESK, params, None) == {"hits": [{
        "score": 0.5, "content": "raven", "meta": {"kind": "prose"}, "rerank_score": pytest.approx(0.675), "semantic_score": 0.5, "lexical_score": 1.0,
        "reranker_model": "m"}]}


def test_b32_every_hit_is_a_plain_map_and_no_model_is_null() -> None:
    hits = reranked("raven", [{"score": 1, "content": "raven", "raw": b"\xff", "also_in": (b"a.md", "b.md")}, {}])
    assert all(map(serving.is_wire, hits))
    assert [hit["reranker_model"] for hit in hits] == [None, None]
    assert (hits[0]["raw"], hits[0]["also_in"]) == (b"\xff", ["a.md", "b.md"])
    assert hits[1] == {"rerank_score": 0.0, "semantic_score": 0.0, "lexical_score": 0.0, "reranker_model": None}


def test_scores_that_a_hit_already_carries_are_made_anew() -> None:
    (hit,) = reranked("raven", [{"score": 0.2, "content": "", "rerank_score": 9, "semantic_score": 9, "lexical_score": 9, "reranker_model": "theirs"}])
    assert hit == {"score": 0.2, "content": "", "rerank_score": 0.65 * 0.2, "semantic_score": 0.2, "lexical_score": 0.0, "reranker_model": None}


def test_equal_scores_keep_their_order() -> None:
    assert [hit["n"] for hit in reranked("q", [{"n": n, "score": 0.5} for n in range(50)])] == list(range(50))


@pytest.mark.parametrize(("payload", "refused"), [
    ({}, "missing_aggregate_id"), (None, "missing_aggregate_id"), ([], "missing_aggregate_id"), ({"query_id": None}, "missing_aggregate_id"),
    ({"query_id": "q"}, "missing_query_text"), ({"query_id": "q", "query_text": 7}, "missing_query_text"),
    ({"query_id": "q", "query_text": "t"}, "missing_hits"), ({"query_id": "q", "query_text": "t", "hits": None}, "missing_hits"),
    ({"query_id": "q", "query_text": "t", "hits": {}}, "hits_must_be_a_list"), ({"query_id": "q", "query_text": "t", "hits": "hits"}, "hits_must_be_a_list"),
    ({"query_id": "q", "query_text": "t", "hits": [{}, 7]}, "bad_params: hits[1] is no map"),
    ({"query_id": "q", "query_text": "t", "hits": [{"score": "0.5"}]}, "bad_params: hits[0].score is no number"),
])
def test_what_is_missing_is_refused_in_the_contracts_order(tmp_path: Path, payload: object, refused: str) -> None:
    with serving.runtime(tmp_path) as runtime:
        assert serving.refusal_of(serving.served(runtime), "rerank_results", payload).detail == refused


@pytest.mark.parametrize(("hit", "words"), [
    ({1: 2}, "has a key of type int"), ({b"\xff": 1}, "has a key of type bytes"), ({"x": True}, "x is a boolean"), ({"score": True}, "score is a boolean"),
    ({"score": float("nan")}, "score is nan"), ({"score": float("-inf")}, "score is -inf"), ({"score": 10**400}, "beyond 64 bits"),
    ({"x": "\ud800"}, "lone surrogate"), ({"x": {1}}, "of type set"), ({"m": {"$bytes": "AA=="}}, "read as a byte string"),
    ({"x": deep(65)}, "deeper than 63 levels"), ({"x": deep(100_000)}, "deeper than 63 levels"),
])
def test_b31_a_hit_that_no_reply_can_carry_is_refused_by_its_place(tmp_path: Path, hit: dict[Any, Any], words: str) -> None:
    with serving.runtime(tmp_path) as runtime:
        refusal = serving.refusal_of(serving.served(runtime), "rerank_results", {"query_id": "q", "query_text": "t", "hits": [{}, hit]})
    assert refusal.name == "bad_params"
    assert refusal.words.startswith("hits[1]: ")
    assert words in refusal.words


def test_it_reads_no_index(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        assert serving.served(runtime).handle("rerank_results", {"query_id": 1, "query_text": "q", "hits": []}) == {"hits": []}
    assert list(tmp_path.iterdir()) == []


@given(st.text(), st.lists(st.fixed_dictionaries({"score": st.floats(-1, 1) | st.integers(-5, 5), "content": st.text()}), max_size=6))
def test_the_order_is_that_of_the_scores_and_nothing_is_lost(query: str, hits: list[dict[str, Any]]) -> None:
    found = reranked(query, hits)
    scores = [hit["rerank_score"] for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert sorted((hit["score"], hit["content"]) for hit in found) == sorted((hit["score"], hit["content"]) for hit in hits)
    assert all(0 <= hit["lexical_score"] <= 1 for hit in found)
