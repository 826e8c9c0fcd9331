"""From the hits of many shards to one list."""

from __future__ import annotations

import hashlib
from typing import Any

from fed_mesh import A, B, C, hit
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.merging import BY_RANK, BY_SCORE, merge

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


@given(ANSWERS, st.permutations(range(3)), st.integers(1, 8), st.sampled_from([BY_SCORE, BY_RANK]))
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
