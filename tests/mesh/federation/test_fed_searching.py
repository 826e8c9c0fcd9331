"""Many shards searched as one index: hits, order and scores are those of one index over everything, to the last bit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fed_answers import failures, nodes
from fed_indexes import (
    DIM,
    PARTS,
    QUERIES,
    as_bytes,
    deal,
    documents,
    fill,
    index_shard,
    plain,
    with_a_bad_one,
    wrapped,
)
from fed_mesh import MINILM, ErlangPeer, Run, Shards, finding, hit, settle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import Config, Runtime
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.index.resident.cache import RESIDENTS
from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.federation.bloom import Bloom
from rag_stdlib.mesh.federation.exchange import Asked, Exchange
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.judging import EmbeddingMismatch, MalformedAnswer, TimedOut
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.federation.responder import Hits
from rag_stdlib.mesh.federation.searching import query_vector, search
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.procedures.answering import answer_query
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.records import Mode

ELSE = "44" * 32
MODES: list[Mode] = ["vector", "lexical", "hybrid"]


@pytest.fixture(params=[True, False], ids=["memory", "file"])
def runtime(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    RESIDENTS.clear()
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(DIM), resident=request.param) as made:
        yield made
    RESIDENTS.clear()


@pytest.fixture
def dealt(runtime: Runtime) -> Runtime:
    given = documents(60)
    fill("all.db", given)
    for number, part in enumerate(deal(given, 3)):
        fill(f"{number}.db", part)
    return runtime


async def three(mesh: Shards, runtime: Runtime) -> Federation:
    """Three shards, and a node that asks them."""
    members = [await index_shard(mesh, node, runtime, f"{number}.db") for number, node in enumerate(PARTS)]
    asker = await mesh.member(mesh.node("ee" * 32), members[0].place.settings.embedding)
    await settle()
    return asker


def vector(runtime: Runtime, text: str, mode: Mode) -> list[float] | None:
    return None if mode == "lexical" else query_vector(runtime, text)


def alone(runtime: Runtime, text: str, mode: Mode, top_k: int = 10, **more: Any) -> list[Mapping[str, Any]]:
    """What one index over everything answers."""
    return list(IndexShard(runtime, "all.db")(Asked(text, mode, **more).query(), top_k).hits)


@pytest.mark.parametrize("mode", MODES)
def test_three_shards_answer_as_one_index_byte_for_byte(run: Run, dealt: Runtime, mode: Mode) -> None:
    async def body() -> int:
        async with Shards() as mesh:
            asker = await three(mesh, dealt)
            found = 0
            for text in QUERIES:
                for top_k in (1, 3, 10, 200):
                    answer = await search(asker, text, mode=mode, vector=vector(dealt, text, mode), top_k=top_k)
                    expected = alone(dealt, text, mode, top_k)
                    assert as_bytes(answer.hits) == as_bytes(expected)
                    assert (nodes(answer.answered), answer.failed, answer.not_asked) == (PARTS, (), ())
                    assert answer.merged_by == ("score" if mode == "vector" else "statistics")
                    assert answer.counted == (() if mode == "vector" else tuple(PARTS))
                    assert {each["node_id"] for each in answer.hits} <= set(PARTS)
                    found += len(expected)
            return found

    assert run(body()) > 300


@pytest.mark.parametrize("mode", MODES)
def test_it_is_also_what_a_provider_of_the_one_index_answers(run: Run, dealt: Runtime, mode: Mode) -> None:
    with Runtime(Config(root=str(dealt.config.root)), embedder=HashingEmbedder(DIM), mode=mode, resident=dealt.resident) as serving:
        provider = Provider(serving, "all.db", org="acme")

        async def body() -> None:
            async with Shards() as mesh:
                asker = await three(mesh, dealt)
                for text in QUERIES:
                    answer = await search(asker, text, mode=mode, vector=vector(dealt, text, mode))
                    reply: Any = provider.handle(answer_query.__name__, {"query_text": text})
                    more = ("id", "doc_id", "ordinal", "start_char", "end_char", "lexical_score", "vector_score")
                    bare = [{name: value for name, value in each.items() if name not in more} for each in plain(answer.hits)]
                    assert as_bytes(bare) == as_bytes(reply["hits"])

        run(body())


def test_copies_in_several_shards_are_one_hit_that_names_the_others(run: Run, dealt: Runtime) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            answer = await search(await three(mesh, dealt), "teal ruff ibis", mode="lexical", top_k=1)
            assert answer.hits[0]["doc_id"] == "b-short"
            assert answer.hits[0]["also_in"] == ["birds/k-short.txt", "birds/x-short.txt"]

    run(body())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.sampled_from(["raven", "owl", "raven owl", "owl raven", "wren", "raven raven"]), min_size=1, max_size=14),
       homes=st.lists(st.integers(0, 2), min_size=14, max_size=14), text=st.sampled_from(["raven", "owl wren", "raven owl", "!"]),
       top_k=st.integers(1, 4), mode=st.sampled_from(MODES))
def test_ties_and_copies_come_out_as_in_one_index_however_documents_are_dealt(
    run: Run, tmp_path_factory: pytest.TempPathFactory, texts: list[str], homes: list[int], text: str, top_k: int, mode: Mode,
) -> None:
    with Runtime(Config(), root=tmp_path_factory.mktemp("dealt"), embedder=HashingEmbedder(8)) as runtime:
        given = {f"d{number:02d}": words for number, words in enumerate(texts)}
        fill("all.db", given)
        parts = [{doc_id: words for (doc_id, words), home in zip(given.items(), homes, strict=False) if home == part} for part in range(3)]
        used = [number for number, part in enumerate(parts) if part]
        for number in used:
            fill(f"{number}.db", parts[number])

        async def body() -> None:
            async with Shards() as mesh:
                for number in used:
                    member = await index_shard(mesh, PARTS[number], runtime, f"{number}.db")
                answer = await search(member, text, mode=mode, vector=None if mode == "lexical" else query_vector(runtime, "raven owl"), top_k=top_k)
                given_vector = {} if mode == "lexical" else {"vector": tuple(query_vector(runtime, "raven owl"))}
                assert as_bytes(answer.hits) == as_bytes(alone(runtime, text, mode, top_k, **given_vector))

        run(body())


@pytest.mark.parametrize("mode", MODES)
def test_topics_leave_the_statistics_of_the_whole_collection(run: Run, dealt: Runtime, mode: Mode) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            asker = await three(mesh, dealt)
            for text in QUERIES[:3]:
                answer = await search(asker, text, mode=mode, vector=vector(dealt, text, mode), topics=["Coast "])
                assert as_bytes(answer.hits) == as_bytes(alone(dealt, text, mode, topics=("coast",)))
                assert answer.hits
                none = await search(asker, text, mode=mode, vector=vector(dealt, text, mode), topics=["inland"])
                assert (none.hits, nodes(none.not_asked)) == ((), PARTS)

    run(body())


def test_another_embedding_is_never_asked_and_leaves_the_others_answer_as_it_is(run: Run, dealt: Runtime) -> None:
    calls: list[Any] = []

    def other(*asked: Any) -> list[Any]:
        calls.append(asked)
        return [hit("x", 0.99)]

    async def body() -> None:
        async with Shards() as mesh:
            asker = await three(mesh, dealt)
            await mesh.shard(ELSE, embedding=MINILM, search=other)
            for mode in MODES:
                answer = await search(asker, "raven owl", mode=mode, vector=vector(dealt, "raven owl", mode))
                assert as_bytes(answer.hits) == as_bytes(alone(dealt, "raven owl", mode))
                assert failures(answer) == [(ELSE, EmbeddingMismatch(MINILM), False)]

    run(body())
    assert calls == []


MANGLED: list[Any] = [
    {"v": 2}, {"v": 1}, {"v": 1, "words": None}, {"v": 1, "words": {"chunks": 1, "terms": 1, "holding": [1]}},
    {"v": 1, "words": {"chunks": 1, "terms": 1, "holding": [2, 0]}}, {"v": 1, "words": {"chunks": -1, "terms": 1, "holding": [0, 0]}},
    {"v": 1, "words": {"chunks": 1.0, "terms": 1, "holding": [0, 0]}},
    {"v": 1, "words": {"chunks": 9, "terms": 9, "holding": [1, 1]}},  # by_vector is missing
    {"v": 1, "words": {"chunks": 9, "terms": 9, "holding": [1, 1]}, "by_vector": {"count": 1, "total": 5, "squares": 25}},
    {"v": 1, "words": {"chunks": 9, "terms": 9, "holding": [1, 1]}, "by_vector": {"count": 1, "total": "5", "squares": "24"}},
    {"v": 1, "words": {"chunks": 9, "terms": 9, "holding": [1, 1]}, "by_vector": {"count": 1, "total": "5", "squares": "9" * 61}},
]


@pytest.mark.parametrize("statistics", MANGLED, ids=range(len(MANGLED)))
def test_mangled_statistics_cost_their_shard_alone(run: Run, dealt: Runtime, statistics: Any) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            asker = await with_a_bad_one(mesh, dealt, wrapped(dealt, "2.db", "count", lambda: Hits([], statistics)))
            return await search(asker, "raven owl", mode="hybrid", vector=query_vector(dealt, "raven owl"))

    answer = run(body())
    assert failures(answer) == [(PARTS[2], MalformedAnswer(), True)]
    assert (nodes(answer.answered), answer.counted, answer.merged_by) == (PARTS[:2], tuple(PARTS[:2]), "statistics")
    assert len(answer.hits) == 10


@pytest.mark.parametrize(("when", "then"), [("words", lambda: Hits([], {"v": 1})), ("words", list), ("hits", lambda: [hit("x", 1.0)])])
def test_a_shard_that_leaves_the_exchange_is_malformed_and_known_to_have_been_counted(run: Run, dealt: Runtime, when: str, then: Any) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            asker = await with_a_bad_one(mesh, dealt, wrapped(dealt, "2.db", when, then))
            return await search(asker, "raven owl", mode="hybrid", vector=query_vector(dealt, "raven owl"))

    answer = run(body())
    assert failures(answer) == [(PARTS[2], MalformedAnswer(), True)]
    assert (nodes(answer.answered), answer.counted) == (PARTS[:2], tuple(PARTS))


@pytest.mark.parametrize("when", ["count", "words", "hits"])
def test_a_shard_that_sleeps_in_one_round_does_not_take_the_time_of_the_others(run: Run, dealt: Runtime, when: str, release: threading.Event) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            asker = await with_a_bad_one(mesh, dealt, wrapped(dealt, "2.db", when, lambda: release.wait(20) and []))
            began = asyncio.get_running_loop().time()
            found = await search(asker, "raven owl", mode="hybrid", vector=query_vector(dealt, "raven owl"), timeout_ms=1_500)
            assert asyncio.get_running_loop().time() - began < 2.5
            release.set()
            return found

    answer = run(body())
    assert failures(answer) == [(PARTS[2], TimedOut(), True)]
    assert nodes(answer.answered) == PARTS[:2]
    assert len(answer.hits) == 10


def test_a_peer_that_knows_nothing_of_the_exchange_is_asked_once_and_placed_by_rank(run: Run, dealt: Runtime) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            asker = await three(mesh, dealt)
            embedding = asker.place.settings.embedding
            peer = ErlangPeer(mesh.mesh.node(node_id=ELSE), embedding, {"id": b"e1", "score": 0.3}, {"id": b"e2", "score": 0.4})
            await peer.start()
            await settle()
            for mode in MODES:
                peer.asked.clear()
                answer = await search(asker, "raven owl", mode=mode, vector=vector(dealt, "raven owl", mode), top_k=4)
                assert (nodes(answer.answered), answer.failed) == ([*PARTS, ELSE], ())
                assert len(peer.asked) == 1
                assert peer.asked[0]["query"]["text"] == "raven owl"
                assert answer.merged_by == ("score" if mode == "vector" else "statistics and rank")
                if mode != "vector":
                    ours = alone(dealt, "raven owl", mode)
                    assert [each["id"] for each in answer.hits] == [ours[0]["id"], "e2", ours[1]["id"], "e1"]
            only = await mesh.member(mesh.node("ef" * 32), MINILM)
            await peer.close()
            assert (await search(only, "raven", mode="lexical")).hits == ()

    run(body())


def test_peers_alone_are_merged_by_rank(run: Run) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            _, asker = await mesh.asker()
            await mesh.shard(PARTS[0], hit("a1", 5.0), hit("a2", 4.0))
            await mesh.shard(PARTS[1], hit("b1", 0.5))
            return await search(asker, "raven", mode="lexical")

    answer = run(body())
    assert [each["id"] for each in answer.hits] == ["a1", "b1", "a2"]
    assert (answer.merged_by, answer.counted) == ("rank", ())


def test_a_node_that_has_just_come_asks_for_the_summaries_it_has_not_heard(run: Run, dealt: Runtime) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            for number, node in enumerate(PARTS):
                member = await index_shard(mesh, node, dealt, f"{number}.db")
            late = await mesh.member(mesh.node("ef" * 32), member.place.settings.embedding)
            assert late.shards() == []
            answer = await search(late, "raven", mode="lexical")
            assert (nodes(answer.answered), answer.failed) == (PARTS, ())
            assert [each.shard_id for each in late.shards()] == ["0.db", "1.db", "2.db"]

    run(body())


def test_blank_text_finds_nothing_and_asks_nobody(run: Run, dealt: Runtime) -> None:
    async def body() -> FederatedAnswer:
        async with Shards() as mesh:
            return await search(await three(mesh, dealt), " \n", mode="lexical")

    answer = run(body())
    assert (answer.hits, answer.answered, answer.failed) == ((), (), ())


@pytest.mark.parametrize(("more", "words"), [
    ({"mode": "fuzzy"}, "a mode is one of"), ({"mode": "vector"}, "takes a vector"), ({"mode": "hybrid"}, "takes a vector"),
    ({"mode": "lexical", "vector": [1.0]}, "takes no vector"), ({"mode": "lexical", "top_k": 0}, "top_k"), ({"mode": "lexical", "top_k": 1_001}, "top_k"),
    ({"mode": "lexical", "top_k": True}, "top_k"), ({"mode": "lexical", "timeout_ms": 0}, "time"), ({"mode": "lexical", "timeout_ms": 1.5}, "timeout_ms"),
])
def test_what_cannot_be_asked_is_refused_before_anyone_is(run: Run, more: dict[str, Any], words: str) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asker = await mesh.asker()
            await mesh.shard(PARTS[0], search=finding(hit("a", 1.0)))
            with pytest.raises(InvalidCall, match=words):
                await search(asker, "raven", **more)
            assert node.dialled == []

    run(body())


def test_the_filter_passes_over_shards_without_the_topic_and_says_so(run: Run, dealt: Runtime) -> None:
    given = {"c0": "raven at the coast"}
    fill("coast.db", given)

    async def body() -> None:
        async with Shards() as mesh:
            member = await index_shard(mesh, PARTS[0], dealt, "coast.db")
            shard = IndexShard(dealt, "all.db")
            other = await mesh.member(mesh.node(PARTS[1]), shard.embedding())
            await other.register_responder(shard)
            await other.advertise(["wood"], Bloom.of(["wood"]).to_bytes())
            asker = await mesh.member(mesh.node("ee" * 32), member.place.settings.embedding)
            answer = await search(asker, "raven", mode="lexical", topics=["coast"])
            assert (nodes(answer.answered), nodes(answer.not_asked)) == ([PARTS[0]], [PARTS[1]])
            assert [each["doc_id"] for each in answer.hits] == ["c0"]

    run(body())


def test_rounds_are_told_by_what_they_bring_along() -> None:
    assert Asked("raven", "lexical", exchange=Exchange("count")).query() == {
        "text": "raven", "mode": "lexical", "exchange": {"v": 1, "round": "count"}}
