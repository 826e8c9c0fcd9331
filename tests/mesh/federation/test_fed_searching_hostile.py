"""A search over many shards, one of which lies, changes, or goes in the midst of it; and questions that are none."""

from __future__ import annotations

import asyncio
import hashlib
import math
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from fed_answers import failures, nodes
from fed_indexes import DIM, PARTS, as_bytes, deal, documents, fill, index_shard, with_a_bad_one, wrapped
from fed_mesh import Run, Shards, finding, hit, settle, until

from rag_stdlib import Config, Failure, Runtime, rag_delete
from rag_stdlib.index.resident.cache import RESIDENTS
from rag_stdlib.mesh.errors import InvalidCall, PayloadRefused
from rag_stdlib.mesh.federation.exchange import Asked
from rag_stdlib.mesh.federation.failures import NotConfigured
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.judging import MalformedAnswer, TimedOut
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.federation.responder import Hits
from rag_stdlib.mesh.federation.searching import query_vector, search
from rag_stdlib.mesh.federation.shard import Federation

TEXT = "raven owl"
ROUNDS = ["count", "words", "hits"]
LARGEST = {"v": 1, "words": {"chunks": 2**44, "terms": 2**44, "holding": [2**44, 0]}, "by_vector": {"count": 2**44, "total": "0", "squares": str(2**44 * 10**20)}}


@pytest.fixture
def runtime(tmp_path: Path, birds: Path) -> Iterator[Runtime]:
    """Some documents, a third in each of three indexes; those of the first two together in good.db."""
    RESIDENTS.clear()
    shutil.copytree(birds, tmp_path, dirs_exist_ok=True)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(DIM)) as made:
        yield made
    RESIDENTS.clear()


async def hybrid(asker: Federation, runtime: Runtime, **more: Any) -> FederatedAnswer:
    return await search(asker, TEXT, mode="hybrid", vector=query_vector(runtime, TEXT), **more)


def with_bad(run: Run, runtime: Runtime, bad: Any, **more: Any) -> FederatedAnswer:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            return await hybrid(await with_a_bad_one(mesh, runtime, bad), runtime, **more)

    answer: FederatedAnswer = run(body())
    return answer


def good_alone(runtime: Runtime) -> list[Mapping[str, Any]]:
    return list(IndexShard(runtime, "good.db")(Asked(TEXT, "hybrid").query(), 10).hits)


# --- lies ---

@pytest.mark.parametrize("statistics", [
    {**LARGEST, "words": {"chunks": 2**63 - 1, "terms": 1, "holding": [0, 0]}}, {**LARGEST, "words": {"chunks": 1, "terms": 2**63 - 1, "holding": [0, 0]}},
    {**LARGEST, "words": {"chunks": 2**44 + 1, "terms": 1, "holding": [0, 0]}}, {**LARGEST, "by_vector": {"count": 1, "total": "0", "squares": "9" * 60}},
    {**LARGEST, "by_vector": {"count": 0, "total": "0", "squares": "9"}}, {**LARGEST, "words": {"chunks": 9, "terms": 9, "holding": [0] * 5_000}},
], ids=range(6))
def test_statistics_beyond_all_bounds_cost_their_shard_and_leave_the_others_one_index(run: Run, runtime: Runtime, statistics: Any) -> None:
    answer = with_bad(run, runtime, wrapped(runtime, "2.db", "count", lambda: Hits([], statistics)))
    assert failures(answer) == [(PARTS[2], MalformedAnswer(), True)]
    assert as_bytes(answer.hits) == as_bytes(good_alone(runtime))


def test_the_largest_statistics_that_are_believed_leave_scores_that_are_numbers(run: Run, runtime: Runtime) -> None:
    answer = with_bad(run, runtime, wrapped(runtime, "2.db", "count", lambda: Hits([], LARGEST)))
    assert (nodes(answer.answered), answer.counted) == (PARTS, tuple(PARTS))
    assert len(answer.hits) == 10
    assert all(math.isfinite(each["score"]) for each in answer.hits)


@pytest.mark.parametrize("statistics", [None, {}, {"docs": 5}, {"words": 7}])
def test_hits_with_statistics_of_another_kind_are_placed_by_rank(run: Run, runtime: Runtime, statistics: Any) -> None:
    answer = with_bad(run, runtime, lambda _query, _top_k: Hits([hit("x", 99.0)], statistics))
    assert (nodes(answer.answered), answer.counted, answer.merged_by) == (PARTS, tuple(PARTS[:2]), "statistics and rank")
    assert [answer.hits[0]["id"], answer.hits[1]["id"]] == [good_alone(runtime)[0]["id"], "x"]


ODD: list[dict[str, Any]] = [
    {"doc_id": 7, "ordinal": "0"}, {"doc_id": b"\xff", "ordinal": 0}, {"doc_id": "d", "ordinal": 2**63 - 1}, {"doc_id": None}, {"ordinal": [1]},
    {"doc_id": {"a": 1}, "ordinal": 1.5}, {"content": b"\xff", "also_in": 7}, {"content": "teal ruff ibis", "also_in": [7, b"x", None], "also_in_left_out": -3},
    {"content": "teal ruff ibis", "also_in": {"a": 1}, "also_in_left_out": 2**63 - 1}, {"source_path": 7, "provenance": [], "meta": "none", "node_id": "me"},
]


def test_hits_of_any_make_are_put_in_one_order(run: Run, runtime: Runtime) -> None:
    scores: list[Any] = [1, 0, -1, 2**63 - 1, -(2**63), 0.5, -0.0, 1e308, 5e-324, 1]
    odd = [hit(f"x{number}", score, **more) for number, (score, more) in enumerate(zip(scores, ODD, strict=True))]
    bad = wrapped(runtime, "2.db", "hits", lambda: Hits(odd, {"v": 1}))
    answer = with_bad(run, runtime, bad, top_k=1_000)
    assert answer.failed == ()
    assert {each["id"] for each in answer.hits} > {f"x{number}" for number in range(7)}
    merged = [each["score"] for each in answer.hits]
    assert merged == sorted(merged, reverse=True)
    assert {each["node_id"] for each in answer.hits} == set(PARTS)
    assert as_bytes([each for each in answer.hits if each["node_id"] != PARTS[2]])


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), True, "1", None, 2**63])
def test_a_score_that_is_no_number_of_the_wire_costs_its_shard(run: Run, runtime: Runtime, score: Any) -> None:
    answer = with_bad(run, runtime, wrapped(runtime, "2.db", "hits", lambda: Hits([hit("x", score)], {"v": 1})))
    assert [(each.node, each.asked) for each in answer.failed] == [(PARTS[2], True)]
    assert (nodes(answer.answered), len(answer.hits)) == (PARTS[:2], 10)


COPIES: list[Any] = [None, 7, {}, [7], [{"digest": 7}], [{"digest": "a", "paths": ["x"], "left_out": 5}], [{"paths": ["x"]}],
                     [{"digest": hashlib.sha256(b"teal ruff ibis").hexdigest(), "paths": [7, None, {}], "left_out": "9"}]]


@pytest.mark.parametrize("copies", COPIES, ids=range(len(COPIES)))
def test_garbage_about_copies_leaves_the_hits_as_they_were(run: Run, runtime: Runtime, copies: Any) -> None:
    answer = tied(run, runtime, lambda: Hits([], {"v": 1, "copies": copies}))
    assert [(each["doc_id"], "also_in" in each) for each in answer.hits] == [("a", False)]


@pytest.mark.parametrize("fails", [lambda: [hit("x", 1.0)], lambda: Hits([], None), lambda: 1 / 0])
def test_a_shard_that_does_not_tell_copies_leaves_the_hits_as_they_were(run: Run, runtime: Runtime, fails: Any) -> None:
    answer = tied(run, runtime, fails)
    assert ([each["doc_id"] for each in answer.hits], nodes(answer.answered), answer.failed) == (["a"], PARTS[:2], ())


def test_copies_beyond_the_end_of_an_answer_are_named_and_the_rest_of_them_counted(run: Run, runtime: Runtime) -> None:
    copies = [{"digest": hashlib.sha256(b"teal owl").hexdigest(), "paths": ["birds/a.txt", "z", "y"], "left_out": 4},
              {"digest": hashlib.sha256(b"owl teal").hexdigest(), "paths": ["unasked"]}]
    answer = tied(run, runtime, lambda: Hits([], {"v": 1, "copies": copies}))
    assert [(each["also_in"], each["also_in_left_out"]) for each in answer.hits] == [(["y", "z"], 4)]


def test_a_shard_that_is_silent_about_copies_takes_no_more_than_the_time(run: Run, runtime: Runtime, release: threading.Event) -> None:
    answer = tied(run, runtime, lambda: release.wait(20) and [], release, timeout_ms=1_200)
    assert [(each["doc_id"], "also_in" in each) for each in answer.hits] == [("a", False)]


def tied(run: Run, runtime: Runtime, then: Any, release: threading.Event | None = None, **more: Any) -> FederatedAnswer:
    """Two shards whose only hit is as good; the first one's is the best, and the second is asked for copies of it."""
    fill("first.db", {"a": "teal owl"})
    fill("second.db", {"b": "owl teal", "c": "teal owl"})

    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            member = await index_shard(mesh, PARTS[0], runtime, "first.db")
            other = await mesh.member(mesh.node(PARTS[1]), member.place.settings.embedding)
            await other.register_responder(wrapped(runtime, "second.db", "copies", then))
            await other.advertise()
            await settle()
            found = await search(member, "teal owl", mode="lexical", top_k=1, **more)
            if release is not None:
                release.set()
            return found

    answer: FederatedAnswer = run(body())
    return answer


# --- changes in the midst ---

def then_go_on(runtime: Runtime, when: str, first: Any) -> Any:
    """Shard 2, which changes when a round begins."""
    shard = IndexShard(runtime, "2.db")
    done: list[str] = []

    def answer(query: dict[str, Any], top_k: int) -> Any:
        if query.get("exchange", {}).get("round") == when and not done:
            done.append(when)
            with runtime:
                first()
        return shard(query, top_k)

    return answer


def emptied() -> None:
    for doc_id in deal(documents(30), 3)[2]:
        rag_delete("2.db", doc_id).unwrap()


@pytest.mark.parametrize("when", ROUNDS)
def test_an_index_that_is_emptied_between_rounds_has_no_hits_and_the_others_have_theirs(run: Run, runtime: Runtime, when: str) -> None:
    answer = with_bad(run, runtime, then_go_on(runtime, when, emptied))
    assert (nodes(answer.answered), answer.failed) == (PARTS, ())
    assert [len(each.hits) for each in answer.answered] == [10, 10, 0]


@pytest.mark.parametrize("when", ROUNDS)
def test_an_index_that_grows_between_rounds_answers_of_what_it_holds(run: Run, runtime: Runtime, when: str) -> None:
    answer = with_bad(run, runtime, then_go_on(runtime, when, lambda: fill("2.db", {f"n{number}": "raven raven owl" for number in range(40)})))
    assert nodes(answer.answered) == PARTS
    assert any(each["doc_id"].startswith("n") for each in answer.hits)


@pytest.mark.parametrize("when", ROUNDS)
def test_an_index_that_goes_between_rounds_is_failed_as_opening(run: Run, runtime: Runtime, when: str) -> None:
    answer = with_bad(run, runtime, then_go_on(runtime, when, (Path(runtime.root.path) / "2.db").unlink))
    assert [(each.node, each.reason.name, each.asked) for each in answer.failed] == [(PARTS[2], "store_opening", True)]
    assert (nodes(answer.answered), len(answer.hits)) == (PARTS[:2], 10)
    assert answer.counted == tuple(PARTS[:2] if when == "count" else PARTS)


@pytest.mark.parametrize("when", ROUNDS)
def test_a_search_that_is_cancelled_in_any_round_leaves_nothing_behind(run: Run, runtime: Runtime, when: str, release: threading.Event) -> None:
    entered = threading.Event()

    def wait() -> list[Any]:
        entered.set()
        release.wait(20)
        return []

    async def body() -> None:
        async with Shards() as mesh:
            asker = await with_a_bad_one(mesh, runtime, wrapped(runtime, "2.db", when, wait))
            before = asyncio.all_tasks()
            found = asyncio.ensure_future(hybrid(asker, runtime))
            await until(entered.is_set)
            found.cancel()
            with pytest.raises(asyncio.CancelledError):
                await found
            release.set()
            await until(lambda: asyncio.all_tasks() == before)

    run(body())


# --- who asks, and what ---

def test_a_node_that_is_a_shard_itself_asks_itself_without_dialling(run: Run, runtime: Runtime) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            members = [await index_shard(mesh, PARTS[number], runtime, f"{number}.db") for number in (0, 1)]
            await settle()
            found = await hybrid(members[0], runtime)
            assert mesh.nodes[0].dialled == [PARTS[1]] * len(mesh.nodes[0].dialled) != []
            return found

    answer = run(body())
    assert as_bytes(answer.hits) == as_bytes(good_alone(runtime))
    assert nodes(answer.answered) == PARTS[:2]


@pytest.mark.parametrize("mode", ["vector", "lexical", "hybrid"])
def test_two_nodes_with_the_same_documents_give_each_text_once(run: Run, runtime: Runtime, mode: Any) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            for node in PARTS[:2]:
                member = await index_shard(mesh, node, runtime, "good.db")
            await settle()
            return await search(member, TEXT, mode=mode, vector=None if mode == "lexical" else query_vector(runtime, TEXT), top_k=200)

    answer = run(body())
    alone = list(IndexShard(runtime, "good.db")(Asked(TEXT, mode).query(), 200).hits)
    found = [(each["id"], each.get("also_in")) for each in answer.hits]
    assert sorted(name for name, _ in found) == sorted(each["id"] for each in alone)
    assert sorted(found, key=str) == sorted(((each["id"], each.get("also_in")) for each in alone), key=str)
    assert {each["node_id"] for each in answer.hits} == {PARTS[0]}


@pytest.mark.parametrize(("text", "more", "words"), [
    (7, {}, "text is missing"), (None, {}, "text is missing"), ("\ud800", {}, "text is missing"), (TEXT, {"topics": ["coast", 7]}, "topics is a list of texts"),
    (TEXT, {"topics": None}, "not iterable"), (TEXT, {"mode": "vector", "vector": [1.0] * (DIM - 1)}, f"has {DIM} numbers, and the vector {DIM - 1}"),
    (TEXT, {"mode": "vector", "vector": [float("nan")] * DIM}, "finite"), (TEXT, {"mode": "vector", "vector": ["1"] * DIM}, "finite"),
    (TEXT, {"mode": "vector", "vector": 7}, "not iterable"), (TEXT, {"mode": ["lexical"]}, "a mode is one of"), (TEXT, {"top_k": 1.0}, "top_k"),
])
def test_what_no_shard_would_answer_is_refused_before_any_is_asked(run: Run, text: Any, more: dict[str, Any], words: str) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asker = await mesh.asker(embedding=IndexShard(Runtime(Config(), root=".", embedder=EmbedderDouble(DIM)), "none.db").embedding())
            await mesh.shard(PARTS[0], search=finding(hit("a", 1.0)))
            with pytest.raises((InvalidCall, PayloadRefused), match=words):
                await search(asker, text, **{"mode": "lexical", **more})
            assert node.dialled == []

    run(body())


def test_one_topic_need_not_be_in_a_list(run: Run, runtime: Runtime) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            member = await index_shard(mesh, PARTS[0], runtime, "good.db")
            one = await search(member, TEXT, mode="lexical", topics="coast")
            assert as_bytes(one.hits) == as_bytes((await search(member, TEXT, mode="lexical", topics=["coast"])).hits) != as_bytes([])

    run(body())


def test_without_a_configuration_nothing_is_searched(run: Run) -> None:
    async def body() -> None:
        async with Federation() as federation:
            with pytest.raises(NotConfigured):
                await search(federation, TEXT, mode="lexical")

    run(body())


def test_a_query_is_embedded_by_the_configured_embedder_or_refused(runtime: Runtime) -> None:
    vector = query_vector(runtime, TEXT)
    assert [type(number) for number in vector] == [float] * DIM
    with Runtime(Config(), root=runtime.root.path) as without, pytest.raises(Failure) as caught:
        query_vector(without, TEXT)
    assert caught.value.error.code == "mode_needs_embedder"


def test_where_every_shard_is_silent_the_answer_is_empty_and_in_time(run: Run, runtime: Runtime, release: threading.Event) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            member = await index_shard(mesh, PARTS[0], runtime, "0.db")
            await member.register_responder(lambda _query, _top_k: release.wait(20) and [])
            began = asyncio.get_running_loop().time()
            found = await search(member, TEXT, mode="lexical", timeout_ms=300)
            assert asyncio.get_running_loop().time() - began < 2.0
            release.set()
            return found

    answer = run(body())
    assert (answer.hits, failures(answer), answer.merged_by) == ((), [(PARTS[0], TimedOut(), True)], "rank")
