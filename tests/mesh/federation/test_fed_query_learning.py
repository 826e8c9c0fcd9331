"""A node that has not heard a shard's summary asks for it: what it learns so, and what it loses by those who lie or keep silent."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from fed_answers import TEXT, failures, ids, nodes
from fed_mesh import MINILM, NOMIC, PROCEDURE, TELLING, A, B, Node, Run, Shards, StillClock, finding, hit, settle, until

from rag_stdlib.mesh.errors import CallError, CallTimeout, Refusal
from rag_stdlib.mesh.federation.judging import EmbeddingMismatch, NoSummary
from rag_stdlib.mesh.federation.payloads import Embedding, Summary
from rag_stdlib.mesh.transport import PinnedReply, ProviderInfo


def summary(embedding: Embedding = NOMIC, bloom: bytes = b"", **more: Any) -> dict[str, Any]:
    return {**Summary("liar", embedding, ("coast",), bloom, 5).payload(), **more}


async def liar(mesh: Shards, tell: Any) -> tuple[Node, list[Any]]:
    """The node B, which serves both procedures and has published nothing; what it was asked to search for is noted."""
    node, asked = mesh.node(B), []

    def search(request: Any) -> dict[str, Any]:
        asked.append(request.payload)
        return {"shard_id": "liar", "model": NOMIC.model, "dim": NOMIC.dim, "hits": [hit("b", 0.9)]}

    await node.inner.serve(PROCEDURE, search)
    await node.inner.serve(TELLING, tell if callable(tell) else lambda _request: tell)
    return node, asked


def failing(error: BaseException) -> Any:
    def tell(_request: Any) -> Any:
        raise error

    return tell


GARBAGE: list[Any] = [
    None, [], "summary", b"\xff", 7, {}, summary(shard_id=None), summary(model=7), summary(dim=0), summary(dim="768"), summary(topics="coast"),
    summary(topics=[7]), summary(bloom="text"), summary(at_ms=1.5), summary(bloom=bytes(2 * 1024 * 1024)), summary(topics=["t" * 1_000] * 1_000),
    failing(Refusal("no_summary")), failing(ValueError("broken")), failing(SystemExit(1)), {"hits": [{"a": [[[[]]]]}]},
]


@pytest.mark.parametrize("tell", GARBAGE, ids=range(len(GARBAGE)))
def test_a_node_that_tells_no_summary_is_not_asked_and_costs_the_others_nothing(run: Run, tell: Any) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            await mesh.shard(A, hit("a", 0.5))
            _, asked = await liar(mesh, tell)
            _, asker = await mesh.asker()
            answer = await asker.query(TEXT)
            assert (ids(answer), nodes(answer.answered)) == (["a"], [A])
            assert failures(answer) == [(B, NoSummary(), False)]
            assert asked == []

    run(body())


def test_what_a_node_tells_counts_as_what_it_publishes(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asked = await liar(mesh, summary())
            node, asker = await mesh.asker()
            assert ids(await asker.query(TEXT)) == ["b"]
            assert [(shard.node_id, shard.shard_id, shard.topics) for shard in asker.shards()] == [(B, "liar", ("coast",))]
            await asker.query(TEXT)
            assert node.dialled == [B] * 3
            assert len(asked) == 2

    run(body())


def test_another_embedding_is_learnt_and_its_shard_never_asked(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asked = await liar(mesh, summary(MINILM))
            _, asker = await mesh.asker()
            assert failures(await asker.query(TEXT)) == [(B, EmbeddingMismatch(MINILM), False)]
            assert asked == []

    run(body())


def test_a_summary_that_another_node_answered_is_none(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            await liar(mesh, summary())
            node, asker = await mesh.asker()
            for reply in (PinnedReply(summary(), A), summary(), None):
                node.replies[B] = reply
                assert failures(await asker.query(TEXT)) == [(B, NoSummary(), False)]

    run(body())


@pytest.mark.parametrize("error", [CallTimeout(TELLING, 1.0), CallError("odd"), RuntimeError("a defect of the transport")])
def test_a_call_that_fails_leaves_its_node_unheard(run: Run, error: Exception) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            await mesh.shard(A, hit("a", 0.5))
            await liar(mesh, summary())
            node, asker = await mesh.asker()
            node.no_call[B] = error
            answer = await asker.query(TEXT)
            assert (ids(answer), failures(answer)) == (["a"], [(B, NoSummary(), False)])

    run(body())


def test_a_node_that_never_tells_takes_a_part_of_the_time_and_no_more(run: Run, release: threading.Event) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            await liar(mesh, lambda _request: release.wait(20) and summary())
            await mesh.shard(A, search=lambda _query, _top_k: [hit("a", 0.5)])
            _, asker = await mesh.asker()
            began = asyncio.get_running_loop().time()
            answer = await asker.query(TEXT, timeout_ms=2_000)
            assert 0.4 < asyncio.get_running_loop().time() - began < 2.0
            assert (ids(answer), failures(answer)) == (["a"], [(B, NoSummary(), False)])
            release.set()

    run(body())


class Deaf(Node):
    """A node to which nobody says who tells summaries."""

    failing: Exception | None = None

    async def providers(self, procedure: str) -> list[ProviderInfo]:
        if procedure == TELLING:
            if self.failing is not None:
                raise self.failing
            await asyncio.Event().wait()
        return await super().providers(procedure)


@pytest.mark.parametrize("error", [None, CallError("odd"), CallTimeout(TELLING, 1.0)])
def test_where_nobody_can_be_listed_those_that_are_known_are_asked(run: Run, error: Exception | None) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node = mesh.node("ee" * 32, Deaf)
            node.failing = error
            asker = await mesh.member(node)
            await liar(mesh, summary())
            await mesh.shard(A, hit("a", 0.5))
            answer = await asker.query(TEXT, timeout_ms=2_000)
            assert (ids(answer), failures(answer)) == (["a"], [(B, NoSummary(), False)])

    run(body())


def test_a_node_does_not_ask_itself_for_what_it_has_not_advertised(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node = mesh.node(A)
            member = await mesh.member(node)
            await member.register_responder(finding(hit("a", 1.0)))
            assert failures(await member.query(TEXT)) == [(A, NoSummary(), False)]
            assert node.dialled == []

    run(body())


def test_a_summary_that_has_become_stale_is_asked_for_again(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            told: list[Any] = []
            await liar(mesh, lambda request: told.append(request) or summary())
            _, asker = await mesh.asker(summary_republish_ms=1_000)
            for at in (0.0, 2.0, 1.5):
                clock.now += at
                assert ids(await asker.query(TEXT)) == ["b"]
            assert len(told) == 2

    run(body())


def test_a_question_that_is_cancelled_while_it_learns_leaves_nothing_behind(run: Run, release: threading.Event) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            entered = threading.Event()
            await liar(mesh, lambda _request: entered.set() or (release.wait(20) and summary()))
            _, asker = await mesh.asker()
            question = asyncio.ensure_future(asker.query(TEXT))
            await until(entered.is_set)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            release.set()
            await settle()
            assert asker.shards() == []

    run(body())


def test_a_shard_that_is_gone_is_not_brought_back_by_what_it_told(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, member = await mesh.shard(A, hit("a", 0.5))
            _, asker = await mesh.asker()
            assert ids(await asker.query(TEXT)) == ["a"]
            await member.withdraw()
            await settle()
            assert failures(await asker.query(TEXT)) == [(A, NoSummary(), False)]
            await member.unregister_responder()
            assert (await asker.query(TEXT)).failed == ()

    run(body())
