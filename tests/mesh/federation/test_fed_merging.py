"""From the hits of many shards to one list."""

from __future__ import annotations

import hashlib
from typing import Any

from fed_mesh import A, B, C, hit
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.merging import AS_ONE, BY_RANK, BY_SCORE, ByStatistics, also_in, merge
from rag_stdlib.mesh.procedures.shapes import MOST_ELSEWHERE

NODES = (A, B, C)


def answered(node: str, *hits: dict[str, Any]) -> Answered:
    return Answered(node, "s", tuple({**each, "node_id": node, "shard_id": "s"} for each in hits))


def places(hits: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["node_id"][:2], each["id"]) for each in hits]


HITS = st.builds(
    lambda name, score, content, path: hit(name, score, **({} if content is None else {"content": content}),
                                           **({} if path is None else {"source_path": path})),
    st.sampled_from("abcd"), st.sampled_from([0.5, 1, 1.0, 2.5, -1]), st.none() | st.sampled_from(["one", "two", ""]),
    st.none() | st.sampled_from(["p.md", "q.md"]))
PLACES: Any = st.sampled_from(["d1", "d2", 7, None, b"d1"]), st.sampled_from([0, 1, 2**63 - 1, 1.0, "0", None])
PLACED = st.builds(lambda some, doc_id, ordinal: {**some, "doc_id": doc_id, "ordinal": ordinal}, HITS, *PLACES)
ANSWERS = st.lists(HITS, max_size=5).flatmap(lambda _: st.tuples(*(st.lists(HITS, max_size=5) for _ in NODES)))


def test_ties_go_by_node_and_then_by_hit() -> None:
    answers = [answered(B, hit("x", 1.0), hit("a", 1)), answered(A, hit("z", 1.0), hit("b", 0.5)), answered(C, hit("a", 2))]
    assert places(merge(answers, 9)) == [("cc", "a"), ("aa", "z"), ("bb", "a"), ("bb", "x"), ("aa", "b")]


def test_integers_and_floats_are_compared_exactly() -> None:
    answers = [answered(A, hit("float", 2.0**53), hit("int", 2**53 + 1))]
    assert places(merge(answers, 9)) == [("aa", "int"), ("aa", "float")]


def test_a_strategy_gets_the_answers_by_node() -> None:
    class Plain:
        name = "plain"

        def order(self, answers: Any) -> list[Any]:
            return [each for answer in answers for each in answer.hits]

    answers = [answered(B, hit("b", 9)), answered(C, hit("c", 5)), answered(A, hit("a", 1))]
    assert places(merge(answers, 2, Plain())) == [("aa", "a"), ("bb", "b")]


def test_by_rank_the_first_of_every_shard_comes_first() -> None:
    answers = [answered(B, hit("b2", 90.0), hit("b1", 91.0)), answered(A, hit("a1", 0.3), hit("a2", 0.2), hit("a3", 0.1))]
    assert places(merge(answers, 4, BY_RANK)) == [("aa", "a1"), ("bb", "b1"), ("aa", "a2"), ("bb", "b2")]
    assert (BY_SCORE.name, BY_RANK.name) == ("score", "rank")


def test_equal_texts_are_one_hit_and_the_other_paths_stand_in_it() -> None:
    answers = [answered(B, hit("b", 0.9, content="same", source_path="b.md", also_in=["c.md", 7])),
               answered(A, hit("a", 0.9, content="same", source_path="a.md"), hit("z", 0.1, content="same"))]
    (found,) = merge(answers, 9)
    assert (found["id"], found["also_in"]) == ("a", ["b.md", "c.md", "z"])


def test_the_own_path_and_repeated_ones_are_left_out() -> None:
    answers = [answered(A, hit("a", 1, content="same", source_path="a.md", also_in=["b.md"])),
               answered(B, hit("a", 1, content="same", source_path="a.md", also_in=["b.md", "a.md"]))]
    assert [each["also_in"] for each in merge(answers, 9)] == [["b.md"]]
    answers = [answered(A, hit("a", 1, content="same", source_path="a.md")), answered(B, hit("a", 1, content="same", source_path="a.md"))]
    assert ["also_in" in each for each in merge(answers, 9)] == [False]


def test_copies_beyond_the_cut_count_and_do_not_take_a_place() -> None:
    answers = [answered(A, hit("a1", 3, content="x"), hit("a2", 2, content="x"), hit("a3", 1, content="y")),
               answered(B, hit("b", 0, content="x", source_path="late.md"))]
    found = merge(answers, 2)
    assert places(found) == [("aa", "a1"), ("aa", "a3")]
    assert found[0]["also_in"] == ["a2", "late.md"]


def test_a_text_is_known_by_its_own_digest_and_not_by_what_is_said_of_it() -> None:
    digest = hashlib.sha256(b"true").hexdigest()
    answers = [answered(A, hit("evil", 1.0, content="other", provenance={"content_sha256": digest})),
               answered(B, hit("good", 0.5, content="true", provenance={"content_sha256": digest}))]
    assert len(merge(answers, 9)) == 2


def test_hits_without_text_are_never_one() -> None:
    answers = [answered(A, hit("x", 1), hit("y", 1, content=b"\xff")), answered(B, hit("x", 1), hit("y", 1, content=b"\xff"))]
    assert len(merge(answers, 9)) == 4


@given(ANSWERS, st.permutations(range(3)), st.integers(1, 8), st.sampled_from([BY_SCORE, BY_RANK, AS_ONE, ByStatistics(frozenset({A, C}), others=True)]))
def test_the_order_of_completion_does_not_matter(hits: Any, order: list[int], top_k: int, merger: Any) -> None:
    answers = [answered(node, *some) for node, some in zip(NODES, hits, strict=True)]
    assert merge([answers[place] for place in order], top_k, merger) == merge(answers, top_k, merger)


@given(ANSWERS, st.integers(1, 8))
def test_by_score_the_scores_descend_and_no_text_comes_twice(hits: Any, top_k: int) -> None:
    answers = [answered(node, *some) for node, some in zip(NODES, hits, strict=True)]
    found = merge(answers, top_k)
    scores = [each["score"] for each in found]
    texts = [each["content"] for each in found if "content" in each]
    assert scores == sorted(scores, reverse=True)
    assert len(texts) == len(set(texts))
    plain = sum(len([each for each in some if "content" not in each]) for some in hits)
    assert len(found) == min(top_k, plain + len({each["content"] for some in hits for each in some if "content" in each}))


@given(ANSWERS, st.integers(1, 8))
def test_a_better_cut_begins_a_longer_one(hits: Any, top_k: int) -> None:
    answers = [answered(node, *some) for node, some in zip(NODES, hits, strict=True)]
    assert merge(answers, 100)[:top_k] == merge(answers, top_k)


@given(st.lists(st.lists(PLACED, max_size=5), min_size=3, max_size=3), st.permutations(range(3)), st.integers(1, 8),
       st.sampled_from([AS_ONE, ByStatistics(frozenset({A, B}), others=True)]))
def test_whatever_shards_say_of_documents_and_places_there_is_one_order(hits: Any, order: list[int], top_k: int, merger: Any) -> None:
    answers = [answered(node, *some) for node, some in zip(NODES, hits, strict=True)]
    assert merge([answers[place] for place in order], top_k, merger) == merge(answers, top_k, merger)


def test_as_one_ties_go_by_document_and_place_before_node_and_hit() -> None:
    answers = [answered(A, hit("z", 1.0, doc_id="d2", ordinal=0), hit("y", 1.0, doc_id="d1", ordinal=3), hit("x", 0.5, doc_id="a", ordinal=0)),
               answered(B, hit("b", 1, doc_id="d1", ordinal=1), hit("c", 1.0, doc_id="d1", ordinal=3)), answered(C, hit("0", 1.0), hit("1", 2.0))]
    assert places(merge(answers, 9, AS_ONE)) == [("cc", "1"), ("bb", "b"), ("aa", "y"), ("bb", "c"), ("aa", "z"), ("cc", "0"), ("aa", "x")]
    assert AS_ONE.name == "score"


def test_as_one_a_place_that_is_no_place_comes_after_those_that_are() -> None:
    odd: list[dict[str, Any]] = [{"doc_id": "a", "ordinal": "0"}, {"doc_id": "a", "ordinal": 1.0}, {"doc_id": b"a", "ordinal": 0}, {"doc_id": "a"}]
    answers = [answered(A, *(hit(f"{number}", 1.0, **more) for number, more in enumerate(odd)), hit("9", 1.0, doc_id="z", ordinal=-1))]
    assert places(merge(answers, 9, AS_ONE)) == [("aa", name) for name in "90123"]


def test_by_statistics_scored_shards_are_one_order_and_each_other_shard_is_its_own() -> None:
    answers = [answered(A, hit("a1", 3.0), hit("a2", 1.0)), answered(B, hit("b1", 2.0)), answered(C, hit("c2", 88.0), hit("c1", 99.0))]
    merger = ByStatistics(frozenset({A, B}), others=True)
    assert places(merge(answers, 9, merger)) == [("aa", "a1"), ("cc", "c1"), ("bb", "b1"), ("cc", "c2"), ("aa", "a2")]


def test_by_statistics_is_named_for_what_was_merged_how() -> None:
    names = [ByStatistics(frozenset(scored), others=others).name for scored in ({A}, set()) for others in (False, True)]
    assert names == ["statistics", "statistics and rank", "rank", "rank"]


@given(ANSWERS, st.integers(1, 8))
def test_by_statistics_of_none_is_by_rank_and_of_all_as_one(hits: Any, top_k: int) -> None:
    answers = [answered(node, *some) for node, some in zip(NODES, hits, strict=True)]
    assert merge(answers, top_k, ByStatistics(frozenset(), others=True)) == merge(answers, top_k, BY_RANK)
    assert merge(answers, top_k, ByStatistics(frozenset(NODES), others=False)) == merge(answers, top_k, AS_ONE)


def test_a_thousand_paths_are_named_and_the_others_counted() -> None:
    paths = [f"p{number:04d}" for number in range(1_500)]
    first = hit("a", 1.0, content="same", source_path="a.md", also_in=paths[::2])
    answers = [answered(A, {**first, "also_in_left_out": 5}), answered(B, hit("b", 1.0, content="same", source_path="b.md", also_in=paths[1::2], also_in_left_out=7)),
               answered(C, hit("c", 1.0, content="same", source_path="a.md"))]
    (found,) = merge(answers, 9)
    assert found["also_in"] == ["b.md", *paths][:MOST_ELSEWHERE]
    assert found["also_in_left_out"] == 501 + 5 + 7


def test_what_a_shard_left_out_stays_counted_where_nothing_is_merged() -> None:
    (found,) = merge([answered(A, hit("a", 1.0, content="same", also_in=["b"], also_in_left_out=3))], 9)
    assert (found["also_in"], found["also_in_left_out"]) == (["b"], 3)


def test_counts_that_are_none_count_nothing() -> None:
    for odd in (0, -1, True, 2.5, "9", None, 2**60):
        found = also_in(hit("a", 1.0, source_path="a.md", also_in_left_out=odd), ["a.md", "b.md"])
        assert (found["also_in"], "also_in_left_out" in found) == (["b.md"], False)
    assert also_in(hit("a", 1.0, also_in=["x"], also_in_left_out=2), ["y"], 4)["also_in_left_out"] == 6


def test_paths_that_are_none_are_passed_over() -> None:
    assert also_in(hit("a", 1.0, source_path=b"\xff", also_in={"b": 1}), []) == hit("a", 1.0, source_path=b"\xff")
    assert also_in(hit("a", 1.0, also_in=["b", 7, None, b"c", ["d"]]), ["a", "e"])["also_in"] == ["b", "e"]
