"""One question to all shards: what the contract leaves open."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from fed_answers import A1, B1, TEXT, failures, ids, nodes
from fed_mesh import (
    ME,
    MINILM,
    NOMIC,
    PROCEDURE,
    SUMMARIZED,
    A,
    B,
    C,
    Run,
    Shards,
    StillClock,
    finding,
    hit,
    settle,
    until,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.mesh.errors import CallTimeout, InvalidCall, PayloadRefused, ProviderError, RelayError
from rag_stdlib.mesh.federation.bloom import Bloom
from rag_stdlib.mesh.federation.failures import NoShards, NotConfigured
from rag_stdlib.mesh.federation.judging import (
    Answered,
    CallFailed,
    Crashed,
    EmbeddingMismatch,
    Failed,
    MalformedAnswer,
    NoSummary,
    NotAsked,
    TimedOut,
)
from rag_stdlib.mesh.federation.merging import BY_RANK
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.transport import PinnedReply, UnpinnedReply

# --- what the contract leaves open -------------------------------------------------------------------------------------------


def test_no_shards_at_all_is_no_failure(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            assert await asking.query(TEXT) == FederatedAnswer((), (), (), (), "score")

    run(body())


def test_the_time_counts_from_the_question_the_listing_included(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.listing_takes = asyncio.Event()
            question = asyncio.create_task(asking.query(TEXT, timeout_ms=1_000))
            await clock.advance(0.9)
            assert not question.done()
            await clock.advance(0.2)
            with pytest.raises(NoShards) as caught:
                await question
            assert isinstance(caught.value.reason, CallTimeout)

    run(body())


def test_a_shard_gets_only_the_time_that_the_listing_left(run: Run, release: threading.Event) -> None:
    def slow(_query: Any, _top_k: int) -> list[Any]:
        release.wait(5)
        return []

    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, search=slow)
            node.listing_takes = asyncio.Event()
            question = asyncio.create_task(asking.query(TEXT, timeout_ms=20_000))
            await clock.advance(15.0)
            node.listing_takes.set()
            await clock.advance(4.9)
            assert not question.done()
            await clock.advance(0.2)
            await until(question.done)
            assert failures(await question) == [(A, TimedOut(), True)]
            release.set()

    run(body())


def test_where_the_listing_took_all_the_time_every_shard_timed_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            listed = await node.providers(PROCEDURE)

            async def late(_procedure: str) -> Any:
                clock.now += 2.0
                return listed

            monkeypatch.setattr(node, "providers", late)
            found = await asking.query(TEXT, timeout_ms=1_000)
            assert (failures(found), node.dialled) == ([(A, TimedOut(), True)], [])

    run(body())


def test_a_slow_own_shard_times_out_like_any_other(run: Run, release: threading.Event) -> None:
    def slow(_query: Any, _top_k: int) -> list[Any]:
        release.wait(5)
        return []

    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, search=slow)
            await mesh.shard(A, A1)
            found = await me.query(TEXT, timeout_ms=300)
            assert (ids(found), failures(found)) == (["a1"], [(ME, TimedOut(), True)])
            release.set()

    run(body())


def test_the_own_shards_refusal_is_that_of_any_shard(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, search=lambda _query, _top_k: [{"id": "h"}])
            (failed,) = (await me.query(TEXT)).failed
            assert isinstance(failed.reason, CallFailed)
            assert isinstance(failed.reason.error, ProviderError)
            assert failed.reason.name == "malformed_hits"
            assert "malformed_hits" in str(failed.reason)

    run(body())


def test_a_defect_in_asking_one_shard_is_that_shards_outcome(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            for each in (A, B, C):
                await mesh.shard(each, hit(each[:2], 1))
            node.no_call = {A: RuntimeError("a defect"), B: asyncio.CancelledError()}
            found = await asking.query(TEXT)
            assert ids(found) == ["cc"]
            assert failures(found) == [(A, Crashed("RuntimeError: a defect"), True), (B, Crashed("RuntimeError: the call was cancelled"), True)]

    run(body())


def test_a_transports_own_timeout_is_a_timeout(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.no_call[A] = CallTimeout(PROCEDURE, 1.0)
            assert failures(await asking.query(TEXT)) == [(A, TimedOut(), True)]

    run(body())


@pytest.mark.parametrize("reply", [UnpinnedReply({}), PinnedReply({}, B), None])
def test_a_reply_that_is_not_the_nodes_does_not_count(reply: Any, run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            node.replies[A] = reply
            (failed,) = (await asking.query(TEXT)).failed
            assert failed.reason.name == "unbound_reply"

    run(body())


def test_a_shard_cannot_say_that_its_hits_are_anothers(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, hit("a1", 1, node_id=B, shard_id="other"))
            (found,) = (await asking.query(TEXT)).hits
            assert (found["node_id"], found["shard_id"]) == (A, "shard-aa")

    run(body())


def test_a_shard_that_was_withdrawn_and_one_that_is_gone_are_failed(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            _, shard = await mesh.shard(A, A1)
            node.listed_again = [A, C]
            await node.inner.publish(SUMMARIZED, {})
            await shard.unregister_responder()
            found = await asking.query(TEXT)
            assert [(each.node, each.reason.name, each.asked) for each in found.failed] == [(A, "unknown_next_peer", True), (C, "no_summary", False)]

    run(body())


def test_every_shard_is_asked_the_same_with_the_four_keys_alone(run: Run) -> None:
    asked: list[Any] = []

    def search(query: dict[str, Any], top_k: int) -> list[Any]:
        asked.append((query, top_k))
        return []

    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, search=search)
            await mesh.shard(B, search=search)
            await asking.query({"text": "ravens", "vector": [0.5, -1.25]}, top_k=7)

    run(body())
    assert asked == [({"text": "ravens", "vector": [0.5, -1.25]}, 7)] * 2


def test_a_query_that_is_changed_meanwhile_goes_as_it_was(run: Run) -> None:
    asked: list[Any] = []

    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, search=lambda query, _top_k: asked.append(query) or [])
            node.listing_takes = asyncio.Event()
            query: dict[str, Any] = {"words": ["ravens"]}
            question = asyncio.create_task(asking.query(query))
            await settle()
            query["words"].append("owls")
            node.listing_takes.set()
            await question

    run(body())
    assert asked == [{"words": ["ravens"]}]


def test_the_merger_is_named_and_gets_the_statistics(run: Run) -> None:
    class Counting:
        name = "counting"

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def order(self, answers: Any) -> list[Any]:
            self.seen = [(each.node, each.statistics) for each in answers]
            return [{**each, "score": 0.0} for answer in answers for each in answer.hits]

    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            for each in (A, B):
                await mesh.shard(each, hit(each[:2], 1))
            node.replies[B] = PinnedReply({"shard_id": "s", "model": NOMIC.model, "dim": 768, "hits": [B1], "statistics": {"n": 3}}, B)
            merger = Counting()
            found = await asking.query(TEXT, merger=merger)
            assert (ids(found), found.merged_by, merger.seen) == (["aa", "b1"], "counting", [(A, None), (B, {"n": 3})])
            assert (await asking.query(TEXT, merger=BY_RANK)).merged_by == "rank"

    run(body())


# --- topics ------------------------------------------------------------------------------------------------------------------


def test_a_shard_whose_filter_holds_none_of_the_topics_is_not_asked(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1, bloom=Bloom.of(["birds"], ["ravens"]).to_bytes())
            await mesh.shard(B, B1, bloom=Bloom.of(["ships"], ["birds"]).to_bytes())
            await mesh.shard(C, hit("c1", 0.1), bloom=b"\x00" * 1_024)
            found = await asking.query({**TEXT, "topics": [" BIRDS "]})
            assert (ids(found), node.dialled, found.failed) == (["a1", "c1"], [A, C], ())
            assert found.not_asked == (NotAsked(B, "shard-bb"),)
            assert found.not_asked[0].reason == "topics_absent"

    run(body())


@pytest.mark.parametrize("topics", [None, [], [" "], "ships", ["ships", 7], 7])
def test_without_topics_every_shard_is_asked(topics: Any, run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, A1, bloom=Bloom.of(["birds"]).to_bytes())
            assert ids(await asking.query({**TEXT, "topics": topics})) == ["a1"]

    run(body())


# --- questions that are none -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "more", "error"), [
    ("text", {}, InvalidCall), (None, {}, InvalidCall), (TEXT, {"top_k": 0}, InvalidCall), (TEXT, {"top_k": True}, InvalidCall),
    (TEXT, {"top_k": 2**63}, InvalidCall), (TEXT, {"top_k": 1.0}, InvalidCall), (TEXT, {"timeout_ms": 0}, InvalidCall),
    (TEXT, {"timeout_ms": 1.5}, InvalidCall), (TEXT, {"timeout_ms": True}, InvalidCall), (TEXT, {"timeout_ms": 10**9}, InvalidCall),
    ({"flag": True}, {}, PayloadRefused), ({"text": "\ud800"}, {}, PayloadRefused), ({7: 1}, {}, PayloadRefused)])
def test_what_shards_cannot_be_asked_is_refused_before_anyone_is(query: Any, more: dict[str, Any], error: type[Exception], run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A, A1)
            with pytest.raises(error):
                await asking.query(query, **more)
            assert node.dialled == []

    run(body())


def test_without_a_configuration_nothing_is_asked(run: Run) -> None:
    async def body() -> None:
        async with Federation() as alone:
            with pytest.raises(NotConfigured, match="configure the federation first"):
                await alone.query(TEXT)

    run(body())


def test_a_question_that_is_cancelled_leaves_nothing_behind(run: Run, release: threading.Event) -> None:
    entered = threading.Event()

    def slow(_query: Any, _top_k: int) -> list[Any]:
        entered.set()
        release.wait(5)
        return []

    async def body() -> None:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, search=slow)
            tasks = asyncio.all_tasks()
            question = asyncio.create_task(asking.query(TEXT))
            await until(entered.is_set)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            await settle()
            assert asyncio.all_tasks() == tasks
            release.set()

    run(body())


KINDS = ("answers", "silent", "other", "refuses", "nonsense", "crashes", "skipped", "unbound")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=6), st.integers(1, 4))
def test_every_shard_is_in_exactly_one_list(kinds: list[str], top_k: int) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            members = {f"{number:064x}": kind for number, kind in enumerate(kinds)}
            for name, kind in members.items():
                if kind == "silent":
                    silent = await mesh.member(mesh.node(name))
                    await silent.register_responder(finding())
                    continue
                bloom = Bloom.of(["ships"]).to_bytes() if kind == "skipped" else b""
                await mesh.shard(name, hit("h", 1.0), embedding=MINILM if kind == "other" else NOMIC, bloom=bloom)
                if kind in ("refuses", "crashes"):
                    node.no_call[name] = RelayError("overloaded") if kind == "refuses" else ValueError("a defect")
                if kind in ("nonsense", "unbound"):
                    node.replies[name] = PinnedReply("nonsense", name if kind == "nonsense" else ME)
            found = await asking.query({**TEXT, "topics": ["birds"]}, top_k=top_k)
            lists = [nodes(found.answered), nodes(found.failed), nodes(found.not_asked)]
            assert sorted(name for each in lists for name in each) == sorted(members)
            assert all(each == sorted(each) for each in lists)
            assert set(lists[0]) == {name for name, kind in members.items() if kind == "answers"}
            assert set(lists[2]) == {name for name, kind in members.items() if kind == "skipped"}
            assert len(found.hits) == min(top_k, kinds.count("answers"))

    asyncio.run(body())


def test_outcomes_are_equal_whatever_time_they_took() -> None:
    assert Failed(A, TimedOut(), asked=True, took_ms=1.0) == Failed(A, TimedOut(), asked=True, took_ms=2.0)
    assert Answered(A, "s", (), took_ms=1.0) == Answered(A, "s", ())
    assert [str(each) for each in (NoSummary(), TimedOut(), MalformedAnswer(), Crashed("x"), EmbeddingMismatch(MINILM))] == [
        "no_summary", "timeout", "malformed_answer", "crashed: x", "embedding_mismatch: it is of all-minilm of dimension 384"]
