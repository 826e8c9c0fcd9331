"""One question to all shards: the cases of the contract (RAG service contract §4.9)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from fed_answers import A1, A2, B1, TEXT, failures, ids, nodes
from fed_mesh import (
    ME,
    MINILM,
    NOMIC,
    A,
    B,
    Run,
    Shards,
    finding,
    hit,
)

from rag_stdlib.mesh.errors import CallError, RelayError
from rag_stdlib.mesh.federation.failures import NoShards
from rag_stdlib.mesh.federation.judging import (
    CallFailed,
    EmbeddingMismatch,
    MalformedAnswer,
    NoSummary,
    TimedOut,
)
from rag_stdlib.mesh.transport import PinnedReply


class Unresolved(CallError):  # noqa: N818 - the word of another transport
    """A failure that this library has no class for."""

    name = "unresolved"


# --- the cases of the contract -----------------------------------------------------------------------------------------------


def test_query_1_hits_of_all_shards_by_score(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, A1, A2)
            await mesh.shard(B, B1)
            found = await asking.query(TEXT)
            assert found.hits == tuple({**each, "node_id": node, "shard_id": f"shard-{node[:2]}"} for each, node in ((A2, A), (B1, B), (A1, A)))
            assert (nodes(found.answered), found.failed, found.not_asked, found.merged_by) == ([A, B], (), (), "score")
            assert all(each.took_ms > 0 for each in found.answered)

    run(body())


def test_query_2_the_best_of_them(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, A1, A2)
            await mesh.shard(B, B1)
            assert ids(await asking.query(TEXT, top_k=2)) == ["a2", "b1"]

    run(body())


def test_query_3_a_shard_of_another_embedding_is_not_asked(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            await mesh.shard(B, hit("b1", 0.99), embedding=MINILM)
            found = await asking.query(TEXT)
            assert (ids(found), node.dialled) == (["a1"], [A])
            assert failures(found) == [(B, EmbeddingMismatch(MINILM), False)]

    run(body())


def test_query_4_an_answer_of_another_embedding_is_not_merged(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.replies[A] = PinnedReply({"shard_id": "s", "model": MINILM.model, "dim": MINILM.dim, "hits": [A1]}, A)
            found = await asking.query(TEXT)
            assert (found.hits, found.answered) == ((), ())
            assert failures(found) == [(A, EmbeddingMismatch(MINILM), True)]

    run(body())


def test_query_5_a_shard_without_a_summary_is_not_asked(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            silent = await mesh.member(mesh.node(B))
            await silent.register_responder(finding(B1))
            found = await asking.query(TEXT)
            assert (ids(found), node.dialled) == (["a1"], [A])
            assert failures(found) == [(B, NoSummary(), False)]

    run(body())


def test_query_6_a_failed_call_is_told_unchanged(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            await mesh.shard(B, B1)
            node.no_call[B] = error = Unresolved("timeout")
            found = await asking.query(TEXT)
            assert ids(found) == ["a1"]
            (failed,) = found.failed
            assert isinstance(failed.reason, CallFailed)
            assert (failed.node, failed.reason.error, failed.reason.name) == (B, error, "unresolved")

    run(body())


@pytest.mark.parametrize("reply", ["nonsense", None, {}, [], {"shard_id": "s", "model": NOMIC.model, "dim": 768, "hits": [{"id": "h"}]}])
def test_query_7_nonsense_is_a_malformed_answer(reply: Any, run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.replies[A] = PinnedReply(reply, A)
            found = await asking.query(TEXT)
            assert (found.hits, failures(found)) == ((), [(A, MalformedAnswer(), True)])

    run(body())


def test_query_8_and_9_a_slow_shard_costs_its_own_hits_and_leaves_nothing_behind(run: Run, release: threading.Event) -> None:
    def slow(_query: Any, _top_k: int) -> list[Any]:
        release.wait(5)
        return [B1]

    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, A1)
            await mesh.shard(B, search=slow)
            tasks = asyncio.all_tasks()
            began = time.monotonic()
            found = await asking.query(TEXT, timeout_ms=300)
            assert time.monotonic() - began < 1.5
            assert (ids(found), failures(found)) == (["a1"], [(B, TimedOut(), True)])
            await asyncio.sleep(0.05)
            assert asyncio.all_tasks() == tasks
            release.set()

    run(body())


def test_query_10_the_own_shard_answers_without_being_dialled(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, me = await mesh.shard(ME, hit("m1", 0.8), shard_id="mine")
            await mesh.shard(A, A1)
            found = await me.query(TEXT)
            assert (ids(found), node.dialled) == (["m1", "a1"], [A])
            assert found.hits[0] == hit("m1", 0.8, node_id=ME, shard_id="mine")

    run(body())


def test_query_11_a_shard_listed_twice_is_asked_once(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.listed_again = [A, A.upper()]
            found = await asking.query(TEXT)
            assert (ids(found), node.dialled, nodes(found.answered)) == (["a1"], [A], [A])

    run(body())


def test_query_12_shards_that_cannot_be_listed_are_none(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            node.no_listing = error = RelayError("overloaded")
            with pytest.raises(NoShards, match=r"^no_shards: .*overloaded") as caught:
                await asking.query(TEXT)
            assert (caught.value.name, caught.value.reason) == ("no_shards", error)

    run(body())
