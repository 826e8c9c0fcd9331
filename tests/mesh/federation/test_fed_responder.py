"""A node as a shard: its grant, and how it answers (RAG service contract §4.6, responder tests)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from fed_mesh import (
    ME,
    MINILM,
    NOMIC,
    PROCEDURE,
    REALM,
    A,
    B,
    Node,
    Run,
    SealingNode,
    Shards,
    StillClock,
    finding,
    hit,
    no_grant,
    options,
    until,
)

from rag_stdlib import RAG_READ, grant
from rag_stdlib.effects import refusal
from rag_stdlib.errors import fail
from rag_stdlib.mesh.errors import InvalidCall, ProviderError, Refusal, RelayError
from rag_stdlib.mesh.federation.failures import ConfidentialityRefused, NotConfigured
from rag_stdlib.mesh.federation.granting import NotGranted
from rag_stdlib.mesh.federation.payloads import Embedding, ShardAnswer, ShardQuery, read_answer
from rag_stdlib.mesh.federation.responder import Hits, Responder
from rag_stdlib.mesh.federation.settings import settings
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.records import FrozenDict

FAST: dict[str, Any] = {"grant_retry_ms": 100}
QUESTION = ShardQuery({"text": "ravens"}, 3, NOMIC).payload()


def ready(search: Any, embedding: Embedding = NOMIC) -> Responder:
    """A responder with a configuration and a callback, served nowhere."""
    made = Responder(StillClock())
    made.use(settings(REALM, options(embedding)))
    made.register(search)
    return made


def refusal_of(responder: Responder, payload: object = QUESTION) -> Refusal:
    with pytest.raises(Refusal) as caught:
        responder.answer(payload)
    return caught.value


# --- the grant ---------------------------------------------------------------------------------------------------------------


def test_without_a_registration_the_status_says_so(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker()
            assert member.status().responder == "not_registered"
            assert node.served == []

    run(body())


def test_a_granted_responder_is_advertised_once(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            await member.register_responder(finding())
            assert member.status().responder == "granted"
            await clock.advance(1.0)
            assert (node.served, node.serve_attempts) == ([PROCEDURE], 1)

    run(body())


def test_a_refused_grant_is_told_with_its_reason_and_since_when(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_grant = denied = no_grant()
            await member.register_responder(finding())
            assert member.status().responder == NotGranted(denied, 0)
            await clock.advance(0.25)
            assert member.status().responder == NotGranted(denied, 250)
            assert (node.served, node.serve_attempts) == ([], 3)

    run(body())


def test_a_late_grant_is_taken_up_once(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_grant = no_grant()
            await member.register_responder(finding())
            await clock.advance(0.35)
            node.no_grant = None
            await clock.advance(0.1)
            assert member.status().responder == "granted"
            await clock.advance(3.0)
            assert node.served == [PROCEDURE]

    run(body())


def test_a_defect_in_asking_does_not_end_the_asking(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_grant = RuntimeError("a defect")
            await member.register_responder(finding())
            state = member.status().responder
            assert isinstance(state, NotGranted)
            assert "a defect" in str(state.reason)
            node.no_grant = None
            await clock.advance(0.1)
            assert member.status().responder == "granted"

    run(body())
    assert "a defect" in caplog.text


def test_before_the_first_answer_nothing_is_granted(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker()
            node.serving_takes = asyncio.Event()
            registering = asyncio.create_task(member.register_responder(finding()))
            await until(lambda: node.serve_attempts)
            assert member.status().responder == NotGranted(None, 0)
            node.serving_takes.set()
            await registering
            assert member.status().responder == "granted"

    run(body())


def test_a_retry_under_way_when_the_responder_goes_leaves_nothing_served(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_grant = no_grant()
            await member.register_responder(finding())
            node.no_grant, node.serving_takes = None, asyncio.Event()
            await clock.advance(0.1)
            leaving = asyncio.create_task(member.unregister_responder())
            await asyncio.sleep(0.01)
            node.serving_takes.set()
            await leaving
            assert await node.providers(PROCEDURE) == []
            await clock.advance(1.0)
            assert (node.served, node.withdrawn, node.serve_attempts) == ([PROCEDURE], [PROCEDURE], 2)

    run(body())


def test_a_second_registration_begins_anew_and_the_retries_of_the_first_end(run: Run) -> None:
    async def body() -> None:
        async with Shards(clock := StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_grant = no_grant()
            await member.register_responder(finding(hit("old", 1)))
            await clock.advance(0.05)
            await member.register_responder(finding(hit("new", 1)))
            assert member.status().responder == NotGranted(node.no_grant, 0)
            assert node.serve_attempts == 2
            await clock.advance(0.2)
            assert node.serve_attempts == 4
            node.no_grant = None
            await clock.advance(0.1)
            assert node.served == [PROCEDURE]
            await member.register_responder(finding(hit("newest", 1)))
            assert (node.served, node.withdrawn) == ([PROCEDURE], [])
            caller = mesh.node(B)
            reply = await caller.call_pinned(PROCEDURE, QUESTION, provider=ME)
            assert [each["id"] for each in reply.value["hits"]] == ["newest"]

    run(body())


def test_unregistering_withdraws_what_was_granted_and_answers_no_responder(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker()
            await member.register_responder(finding())
            await member.unregister_responder()
            assert (node.withdrawn, member.status().responder) == ([PROCEDURE], "not_registered")
            await member.unregister_responder()
            assert node.withdrawn == [PROCEDURE]

    run(body())


def test_unregistering_without_a_grant_has_nothing_to_withdraw(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker()
            node.no_grant = no_grant()
            await member.register_responder(finding())
            await member.unregister_responder()
            assert (node.withdrawn, member.status().responder) == ([], "not_registered")

    run(body())


def test_what_cannot_be_withdrawn_holds_nothing_up(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker()
            await member.register_responder(finding())
            node.no_end = RelayError("overloaded")
            await member.unregister_responder()
            assert member.status().responder == "not_registered"

    run(body())
    assert "could not be withdrawn" in caplog.text


def test_registering_before_configuring_keeps_nothing(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            member = Federation()
            mesh.federations.append(member)
            with pytest.raises(NotConfigured):
                await member.register_responder(finding())
            assert member.status().responder == "not_registered"
            node = mesh.node(ME)
            await member.configure(node, REALM, options())
            assert (member.status().responder, node.serve_attempts) == ("not_registered", 0)

    run(body())


async def _coroutine(_query: Any, _top_k: int) -> list[Any]:
    return []


async def _generator(_query: Any, _top_k: int) -> AsyncIterator[Any]:
    yield {}


class _Awaited:
    async def __call__(self, _query: Any, _top_k: int) -> list[Any]:
        return []


@pytest.mark.parametrize("search", [None, [hit("h", 1)], _coroutine, _generator, _Awaited(), partial(_coroutine)])
def test_a_search_that_a_thread_cannot_run_is_refused(search: Any, run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker()
            with pytest.raises(InvalidCall, match="plain function"):
                await member.register_responder(search)
            assert (member.status().responder, node.serve_attempts) == ("not_registered", 0)

    run(body())


# --- sealing -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "modes"), [({}, []), ({"confidential": "required"}, ["required"]), ({"confidential": "off"}, ["off"])])
def test_a_mode_of_sealing_goes_into_the_advertisement_only_where_it_is_set(more: dict[str, Any], modes: list[str], run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node = mesh.node(ME, SealingNode)
            member = await mesh.member(node, **more)
            await member.register_responder(finding())
            assert (node.modes, node.served) == (modes, [PROCEDURE])

    run(body())


def test_a_transport_that_cannot_seal_serves_what_may_be_open(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker(confidential="preferred")
            await member.register_responder(finding())
            assert node.served == [PROCEDURE]

    run(body())


@pytest.mark.parametrize("kind", [SealingNode, Node])
def test_sealing_is_not_promised_without_a_key(kind: type[Node], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SealingNode, "names_kem_key", False)

    async def body() -> None:
        async with Shards() as mesh:
            with pytest.raises(ConfidentialityRefused, match="kem_advertise_disabled"):
                await mesh.member(mesh.node(ME, kind), confidential="required")

    run(body())


def test_another_mode_is_advertised_anew(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node = mesh.node(ME, SealingNode)
            member = await mesh.member(node)
            await member.register_responder(finding())
            await member.configure(node, REALM, options(confidential="required"))
            assert (node.modes, node.served, node.withdrawn) == (["required"], [PROCEDURE] * 2, [PROCEDURE])

    run(body())


# --- answers -----------------------------------------------------------------------------------------------------------------


def test_a_query_reaches_the_callback_with_text_keys_and_its_number(run: Run) -> None:
    asked: list[Any] = []

    def search(query: dict[str, Any], top_k: int) -> list[dict[str, Any]]:
        asked.append((query, top_k, threading.current_thread() is threading.main_thread()))
        return [hit("h", 0.5, content="text")]

    async def body() -> None:
        async with Shards() as mesh:
            await mesh.shard(A, search=search, shard_id="one")
            caller = mesh.node(B)
            reply = await caller.call_pinned(PROCEDURE, {**QUESTION, "query": {"text": b"ravens", "deep": [{"a": 1.5}]}}, provider=A)
            assert read_answer(reply.value) == ShardAnswer("one", NOMIC, (hit("h", 0.5, content="text"),))

    run(body())
    assert asked == [({"text": b"ravens", "deep": [{"a": 1.5}]}, 3, False)]


def test_a_refusal_travels_as_its_name(run: Run) -> None:
    def offline(_query: Any, _top_k: int) -> Any:
        raise Refusal("index_offline")

    async def body() -> None:
        async with Shards() as mesh:
            await mesh.shard(A, search=offline)
            caller = mesh.node(B)
            with pytest.raises(ProviderError) as caught:
                await caller.call_pinned(PROCEDURE, QUESTION, provider=A)
            assert caught.value.name == "index_offline"

    run(body())


def test_refusals_come_in_the_contracts_order() -> None:
    calls: list[Any] = []
    responder = Responder(StillClock())
    other = ShardQuery({}, 1, MINILM).payload()
    assert refusal_of(responder, "nonsense").name == "no_responder"
    responder.register(lambda query, top_k: calls.append((query, top_k)) or [])
    assert refusal_of(responder, "nonsense").name == "not_configured"
    responder.use(settings(REALM, options()))
    assert refusal_of(responder, {**other, "top_k": 0}).name == "malformed_query"
    assert refusal_of(responder, other).name == "embedding_mismatch"
    assert calls == []
    assert responder.answer(QUESTION) == ShardAnswer("s", NOMIC, ()).payload()
    assert calls == [({"text": "ravens"}, 3)]


@pytest.mark.parametrize("found", [
    None, "hits", b"hits", 7, {"id": "h", "score": 1}, [{"id": "h"}], [hit("h", 1), {"score": 1}], ["h"], [["id", "score"]], [None],
    [{"id": 7, "score": 1}], [hit("h", float("nan"))], [hit("h", True)], [hit("h", 1, flag=True)], [hit("h", np.float32(1))],
    [hit("\ud800", 1)], [hit("h", 1, meta={1: 2})], Hits([hit("h", 1)], [1]), Hits(None), Hits([hit("h", 1)], {"a": True})])  # type: ignore[arg-type]
def test_hits_that_are_none_refuse_the_whole_answer(found: Any) -> None:
    assert refusal_of(ready(lambda _query, _top_k: found)).name == "malformed_hits"


def test_an_answer_that_no_frame_holds_is_refused_by_name() -> None:
    assert refusal_of(ready(finding(hit("h", 1, content="x" * (1 << 24))))).name == "payload_too_large"


def test_any_iterable_of_any_mappings_is_a_list_of_hits() -> None:
    def search(_query: Any, top_k: int) -> Any:
        for number in range(top_k):
            yield FrozenDict({"id": f"h{number}", "score": number})

    assert ready(search).answer(QUESTION) == ShardAnswer("s", NOMIC, tuple(hit(f"h{number}", number) for number in range(3))).payload()


def test_statistics_of_a_search_go_along() -> None:
    found = Hits([hit("h", 1.0)], {"documents": 12})
    assert ready(lambda _query, _top_k: found).answer(QUESTION) == ShardAnswer("s", NOMIC, (hit("h", 1.0),), {"documents": 12}).payload()


def test_failures_of_the_library_travel_as_the_contracts_names() -> None:
    def missing(_query: Any, _top_k: int) -> Any:
        raise fail("index_missing", path="docs.db")

    refused = refusal_of(ready(missing))
    assert (refused.name, refused.words) == ("store_opening", "")


def test_a_search_that_fails_is_refused_without_a_word_of_why(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_query: Any, _top_k: int) -> Any:
        raise RuntimeError("/home/someone/secret.db")

    refused = refusal_of(ready(broken))
    assert (refused.name, refused.words) == ("internal", "")
    assert "secret.db" in caplog.text


def test_a_search_that_would_end_the_program_ends_its_own_answer(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, me = await mesh.shard(ME, search=lambda _query, _top_k: sys.exit(3))
            (failed,) = (await me.query({"text": "ravens"})).failed
            assert failed.reason.name == "internal"

    run(body())


def test_a_callback_runs_in_the_context_of_its_registration(run: Run) -> None:
    errors: list[Any] = []

    def search(_query: Any, _top_k: int) -> list[Any]:
        errors.append(refusal("search", (RAG_READ,), frozenset({"rag_read"})))
        return []

    async def body() -> None:
        async with Shards() as mesh:
            node, member = await mesh.asker()
            with grant(RAG_READ):
                await member.register_responder(search)
            caller = mesh.node(A)
            with grant():
                await caller.call_pinned(PROCEDURE, QUESTION, provider=ME)
                await member.advertise()
                await member.query({"text": "ravens"})
                await member.configure(node, REALM, {**options(), "org": "birds"})
                await caller.call_pinned("birds/rag.query_shard_v1", QUESTION, provider=ME)

    run(body())
    assert errors == [None, None, None]


def test_one_slow_search_holds_up_no_other(run: Run) -> None:
    release = threading.Event()

    def search(query: dict[str, Any], _top_k: int) -> list[Any]:
        if query["text"] == "slow":
            release.wait(10)
        return [hit(query["text"], 1)]

    async def body() -> None:
        async with Shards() as mesh:
            await mesh.shard(A, search=search)
            caller = mesh.node(B)
            slow = asyncio.create_task(caller.call_pinned(PROCEDURE, ShardQuery({"text": "slow"}, 1, NOMIC).payload(), provider=A))
            quick = await caller.call_pinned(PROCEDURE, ShardQuery({"text": "quick"}, 1, NOMIC).payload(), provider=A)
            assert quick.value["hits"] == [hit("quick", 1)]
            assert not slow.done()
            release.set()
            assert (await slow).value["hits"] == [hit("slow", 1)]

    run(body())
