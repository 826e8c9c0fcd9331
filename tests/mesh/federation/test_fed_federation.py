"""Several shards and a node that asks them, from joining to leaving (RAG service contract §4.4, §4.6, §4.8, federation tests)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from fed_mesh import (
    ME,
    MINILM,
    NOMIC,
    PROCEDURE,
    REALM,
    SUMMARIZED,
    TELLING,
    WITHDRAWN,
    A,
    B,
    C,
    ErlangPeer,
    Run,
    Shards,
    StillClock,
    finding,
    hit,
    no_grant,
    options,
    settle,
    until,
)

from rag_stdlib.mesh.errors import ProviderError, RelayError
from rag_stdlib.mesh.federation.failures import InvalidOptions, InvalidOrg, NotConfigured
from rag_stdlib.mesh.federation.granting import NotGranted
from rag_stdlib.mesh.federation.judging import EmbeddingMismatch
from rag_stdlib.mesh.federation.payloads import ShardQuery
from rag_stdlib.mesh.federation.shard import Federation, Status

ONE, TWO, ELSE = "01" * 32, "02" * 32, "03" * 32
TEXT = {"text": "ravens"}
NEW_PROCEDURE = "birds/rag.query_shard_v1"
NEW_TELLING = "birds/rag.shard_summary_v1"
NEW_SUMMARIZED = SUMMARIZED.replace("acme", "birds")
NEW_WITHDRAWN = WITHDRAWN.replace("acme", "birds")


def moved(**more: Any) -> dict[str, Any]:
    return {**options(**more), "org": "birds"}


# --- the contract's federation -----------------------------------------------------------------------------------------------


def test_two_shards_of_one_embedding_answer_and_a_third_is_never_called(run: Run) -> None:
    called: list[Any] = []

    def other(query: Any, top_k: int) -> list[Any]:
        called.append((query, top_k))
        return [hit("else", 0.99)]

    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(ONE, hit("one-best", 0.95), hit("one-worst", 0.10), shard_id="one")
            await mesh.shard(TWO, hit("two-best", 0.50), shard_id="two")
            await mesh.shard(ELSE, search=other, embedding=MINILM, shard_id="else")
            found = await asking.query(TEXT)
            assert [(each["id"], each["node_id"], each["shard_id"]) for each in found.hits] == [
                ("one-best", ONE, "one"), ("two-best", TWO, "two"), ("one-worst", ONE, "one")]
            assert [(each.node, each.reason) for each in found.failed] == [(ELSE, EmbeddingMismatch(MINILM))]
            assert (called, node.dialled) == ([], [ONE, TWO])

    run(body())


def test_a_peer_that_writes_byte_strings_is_asked_and_answered(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, hit("m1", 0.5, content="same", source_path="mine.md"))
            peer = ErlangPeer(mesh.mesh.node(node_id=A), NOMIC, {"id": b"e1", "score": 0.9, "content": b"same", "source_path": b"theirs.md"},
                              {"id": b"e2", "score": 0.1, "extra": {"vector": b"\x00\xff"}})
            mesh.nodes.append(peer)
            await peer.start()
            await settle()
            found = await me.query({"text": "ravens"}, top_k=3)
            assert list(found.hits) == [
                {"id": "e1", "score": 0.9, "content": "same", "source_path": "theirs.md", "node_id": A, "shard_id": "erl", "also_in": ["mine.md"]},
                {"id": "e2", "score": 0.1, "extra": {"vector": b"\x00\xff"}, "node_id": A, "shard_id": "erl"}]
            assert peer.asked == [{"query": {"text": "ravens"}, "top_k": 3, "model": NOMIC.model, "dim": 768}]
            answer = await peer.ask(ME, {"text": b"ravens"}, 2)
            assert set(answer) == {"shard_id", "model", "dim", "hits"}
            assert answer["hits"] == [hit("m1", 0.5, content="same", source_path="mine.md")]
            assert [shard.shard_id for shard in me.shards()] == ["erl", "shard-ee"]
            await peer.inner.publish(WITHDRAWN, {"shard_id": b"erl", "at_ms": 2})
            await settle()
            assert [shard.node_id for shard in me.shards()] == [ME]

    run(body())


def test_sixty_four_questions_at_once_are_each_answered_whole(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, search=lambda query, _top_k: [hit(query["text"], 1.0)])
            await mesh.shard(A, search=lambda query, _top_k: [hit(query["text"], 0.5)])
            found = await asyncio.gather(*(me.query({"text": f"q{number}"}, timeout_ms=20_000) for number in range(64)))
            assert [[each["id"] for each in answer.hits] for answer in found] == [[f"q{number}"] * 2 for number in range(64)]

    run(body())


# --- configuring -------------------------------------------------------------------------------------------------------------


def test_a_refused_configuration_changes_nothing(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, me = await mesh.shard(ME, hit("m1", 1.0))
            for wrong, refusal in ((None, InvalidOptions), ({**options(), "org": "_"}, InvalidOrg)):
                with pytest.raises(refusal):
                    await me.configure(node, REALM, wrong)  # type: ignore[arg-type]
            assert me.status() == Status("granted", advertised=True, shards=1, configured=True)
            assert (node.withdrawn, node.unsubscribed, len(node.published)) == ([], [], 1)

    run(body())


def test_the_status_of_a_node_that_stands_alone(run: Run) -> None:
    async def body() -> None:
        async with Federation() as alone:
            assert alone.status() == Status("not_registered", advertised=False, shards=0, configured=False)

    run(body())


def test_the_same_configuration_again_publishes_again_and_stays_served(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            _, asking = await mesh.asker()
            node, me = await mesh.shard(A, hit("m1", 1.0))
            await mesh.shard(B)
            await me.configure(node, REALM, options(summary_republish_ms=100))
            await settle()
            assert (node.served, node.withdrawn) == ([PROCEDURE, TELLING], [])
            assert [topic for topic, _ in node.published] == [SUMMARIZED] * 2
            assert [shard.node_id for shard in me.shards()] == [A, B]
            assert [shard.shard_id for shard in asking.shards()] == ["s", "shard-bb"]
            await clock.advance(0.25)
            assert [topic for topic, _ in node.published] == [SUMMARIZED] * 4

    run(body())


def test_however_often_it_is_configured_there_is_one_loop(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, me = await mesh.shard(A)
            for _ in range(4):
                await me.configure(node, REALM, options(summary_republish_ms=1_000))
            before = len(node.published)
            await clock.advance(3.0)
            assert len(node.published) - before == 3

    run(body())


def test_another_organisation_takes_back_what_the_first_was_told(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            _, left = await mesh.asker()
            node, me = await mesh.shard(A, hit("m1", 1.0))
            await mesh.shard(B)
            await me.configure(node, REALM, moved())
            await settle()
            assert [topic for topic, _ in node.published] == [SUMMARIZED, WITHDRAWN, NEW_SUMMARIZED]
            assert (node.withdrawn, node.served) == ([TELLING, PROCEDURE], [PROCEDURE, TELLING, NEW_TELLING, NEW_PROCEDURE])
            assert [shard.node_id for shard in left.shards()] == [B]
            assert [shard.node_id for shard in me.shards()] == [A]
            assert [each.topic for each in node.subscribed[2:]] == [NEW_SUMMARIZED, NEW_WITHDRAWN]
            assert me.status().responder == "granted"
            assert [each["id"] for each in (await me.query(TEXT)).hits] == ["m1"]

    run(body())


def test_the_old_organisation_is_not_answered_by_the_new_configuration(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[list[str]] = []

    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, me = await mesh.shard(A, hit("m1", 1.0))
            subscribe = node.subscribe

            async def noted(topic: str) -> Any:
                served.append([info.node for info in await node.providers(PROCEDURE)])
                return await subscribe(topic)

            monkeypatch.setattr(node, "subscribe", noted)
            await me.configure(node, REALM, moved())

    run(body())
    assert served == [[], []]


def test_another_transport_takes_everything_along(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            _, asking = await mesh.asker()
            old, me = await mesh.shard(A, hit("m1", 1.0))
            new = mesh.node(C)
            await me.configure(new, REALM, options())
            await settle()
            assert (old.withdrawn, new.served) == ([TELLING, PROCEDURE], [TELLING, PROCEDURE])
            assert sorted(old.unsubscribed) == [SUMMARIZED, WITHDRAWN]
            assert [shard.node_id for shard in me.shards()] == [C]
            assert [shard.node_id for shard in asking.shards()] == [C]
            assert [each["node_id"] for each in (await asking.query(TEXT)).hits] == [C]

    run(body())


def test_an_old_transport_that_is_gone_holds_nothing_up(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            old, me = await mesh.shard(A)
            old.no_publishing = old.no_end = RelayError("overloaded")
            new = mesh.node(C)
            await me.configure(new, REALM, options())
            assert me.status() == Status("granted", advertised=True, shards=1, configured=True)

    run(body())
    assert "could not be withdrawn" in caplog.text


def test_a_summary_that_cannot_be_published_does_not_undo_a_configuration(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, me = await mesh.shard(A)
            node.no_publishing = RelayError("overloaded")
            await me.configure(node, REALM, moved())
            assert me.status() == Status("granted", advertised=True, shards=1, configured=True)

    run(body())
    assert "could not be published" in caplog.text


def test_a_new_configuration_asks_for_the_grant_at_once_and_old_retries_end(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node = mesh.node(A)
            me = await mesh.member(node, grant_retry_ms=1_000)
            node.no_grant = denied = no_grant()
            await me.register_responder(finding())
            await clock.advance(0.9)
            await me.configure(node, REALM, moved(grant_retry_ms=1_000))
            assert me.status().responder == NotGranted(denied, 0)
            node.no_grant = None
            await clock.advance(0.5)
            assert node.served == []
            await clock.advance(0.6)
            assert node.served == [NEW_PROCEDURE]

    run(body())


def test_another_embedding_holds_from_the_next_question_on(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, me = await mesh.shard(A, hit("m1", 1.0))
            await me.configure(node, REALM, options(MINILM))
            caller = mesh.node(B)
            with pytest.raises(ProviderError) as caught:
                await caller.call_pinned(PROCEDURE, ShardQuery(TEXT, 1, NOMIC).payload(), provider=A)
            assert caught.value.name == "embedding_mismatch"
            reply = await caller.call_pinned(PROCEDURE, ShardQuery(TEXT, 1, MINILM).payload(), provider=A)
            assert reply.value["model"] == MINILM.model

    run(body())


def test_an_act_whose_caller_is_cancelled_is_done_all_the_same(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, me = await mesh.asker()
            node.serving_takes = asyncio.Event()
            registering = asyncio.create_task(me.register_responder(finding()))
            await until(lambda: node.serve_attempts)
            registering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await registering
            node.serving_takes.set()
            await me.advertise()
            assert me.status() == Status("granted", advertised=True, shards=1, configured=True)

    run(body())


def test_closing_goes_on_where_the_caller_of_it_is_cancelled(run: Run) -> None:
    release, entered = threading.Event(), threading.Event()

    def slow(_query: Any, _top_k: int) -> list[Any]:
        entered.set()
        release.wait(5)
        return []

    async def body() -> None:
        async with Shards() as mesh:
            node, me = await mesh.shard(A, search=slow)
            caller = mesh.node(B)
            calling = asyncio.create_task(caller.call_pinned(PROCEDURE, ShardQuery(TEXT, 1, NOMIC).payload(), provider=A))
            await until(entered.is_set)
            closing = asyncio.create_task(me.close())
            await asyncio.sleep(0.02)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            release.set()
            await calling
            await until(lambda: not me.status().configured)
            assert sorted(node.unsubscribed) == [SUMMARIZED, WITHDRAWN]

    run(body())


# --- leaving -----------------------------------------------------------------------------------------------------------------


def test_closing_takes_back_everything_and_leaves_the_transport_open(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            _, asking = await mesh.asker()
            node, me = await mesh.shard(A, hit("m1", 1.0))
            await me.close()
            await settle()
            assert asking.shards() == []
            assert (node.withdrawn, sorted(node.unsubscribed)) == ([TELLING, PROCEDURE], [SUMMARIZED, WITHDRAWN])
            assert me.status() == Status("not_registered", advertised=False, shards=0, configured=False)
            published = len(node.published)
            await clock.advance(500.0)
            assert len(node.published) == published
            assert await node.providers(PROCEDURE) == []
            await me.close()
            with pytest.raises(NotConfigured):
                await me.configure(node, REALM, options())

    run(body())


def test_closing_waits_for_searches(run: Run) -> None:
    release, ended = threading.Event(), threading.Event()

    def slow(_query: Any, _top_k: int) -> list[Any]:
        release.wait(5)
        ended.set()
        return []

    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, search=slow)
            found = await me.query(TEXT, timeout_ms=50)
            assert [each.reason.name for each in found.failed] == ["timeout"]
            closing = asyncio.create_task(me.close())
            await asyncio.sleep(0.05)
            assert not closing.done()
            release.set()
            await closing
            assert ended.is_set()

    before = set(threading.enumerate())
    run(body())
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def test_closing_waits_for_a_call_that_does_not_end_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def stubborn(*_: object, **__: object) -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            ended.append("late")
            raise

    async def body() -> None:
        async with Shards() as mesh:
            node, asking = await mesh.asker()
            await mesh.shard(A)
            monkeypatch.setattr(node, "call_pinned", stubborn)
            await asking.query(TEXT, timeout_ms=50)
            assert ended == []
            await asking.close()
            assert ended == ["late"]

    run(body())


def test_closing_under_a_mesh_that_fails_still_closes(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, me = await mesh.shard(A)
            node.no_publishing = node.no_end = RelayError("overloaded")
            await me.close()
            assert me.status().configured is False

    run(body())
    assert "could not be withdrawn" in caplog.text
