"""Leaving the mesh in memory, and facts that are told on it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from memory_trio import ASK, A, B, Run, Trio, outcome, saying, until

from rag_stdlib.mesh.errors import (
    InvalidCall,
    RelayError,
    TransportClosed,
)
from rag_stdlib.mesh.memory import HANDLERS
from rag_stdlib.mesh.transport import Event, Request, UnpinnedReply

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


# --- leaving -----------------------------------------------------------------------------------------------------------------


def test_after_leaving_every_act_fails(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            await a.close()
            await a.close()
            for act in (a.call(ASK), a.call_pinned(ASK, provider=B), a.providers(ASK), a.serve(ASK, saying(1)), a.publish("t", 1),
                        a.subscribe("t")):
                with pytest.raises(TransportClosed):
                    await act

    run(body())


@pytest.mark.parametrize("leaving", ["stop", "close"])
def test_leaving_waits_for_handlers_and_refuses_the_queue(leaving: str, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, begun, ended = threading.Event(), [], []

            def handler(request: Request) -> object:
                begun.append(request.payload)
                gate.wait(10)
                ended.append(request.payload)
                return request.payload

            served = await a.serve(ASK, handler)
            calls = [asyncio.create_task(outcome(caller.call(ASK, number))) for number in range(HANDLERS + 3)]
            await until(lambda: len(begun) == HANDLERS)
            left = asyncio.create_task(served.stop() if leaving == "stop" else a.close())
            again = asyncio.create_task(served.stop() if leaving == "stop" else a.close())
            await asyncio.sleep(0.02)
            assert not left.done()
            assert not again.done()
            gate.set()
            await asyncio.gather(left, again)
            assert sorted(ended) == list(range(HANDLERS))
            outcomes = await asyncio.gather(*calls)
            assert sorted(each.value for each in outcomes if isinstance(each, UnpinnedReply)) == list(range(HANDLERS))
            refused = [each for each in outcomes if not isinstance(each, UnpinnedReply)]
            assert [(type(each), each.code) for each in refused] == [(RelayError, "unknown_next_peer")] * 3

    run(body())


def test_closing_waits_also_for_what_was_stopped_and_still_runs(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, ended = threading.Event(), []

            def handler(_request: Request) -> None:
                gate.wait(10)
                ended.append(1)

            served = await a.serve(ASK, handler)
            call = asyncio.create_task(caller.call(ASK))
            await asyncio.sleep(0.01)
            stopping = asyncio.create_task(served.stop())
            await asyncio.sleep(0.01)
            closing = asyncio.create_task(a.close())
            await asyncio.sleep(0.02)
            assert not closing.done()
            gate.set()
            await asyncio.gather(closing, stopping, call)
            assert ended == [1]

    run(body())


def test_closing_that_was_given_up_can_be_done_again(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, begun = threading.Event(), threading.Event()

            def handler(_request: Request) -> int:
                begun.set()
                gate.wait(10)
                return 1

            await a.serve(ASK, handler)
            call = asyncio.create_task(caller.call(ASK))
            await until(begun.is_set)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(a.close(), 0.02)
            gate.set()
            await a.close()
            assert (await call).value == 1

    run(body())


def test_a_mesh_goes_on_in_the_next_loop(run: Run) -> None:
    trio = Trio()

    async def serve() -> None:
        await trio.a.serve(ASK, saying(1))
        waiting = await trio.caller.subscribe("topic")
        assert await waiting.next(0.001) is None
        kept.append(waiting)

    async def use() -> None:
        assert (await trio.caller.call(ASK)).value == 1
        await trio.a.publish("topic", 2)
        event = await kept[0].next(1)
        assert event is not None
        assert event.payload == 2
        async with trio:
            pass

    kept: list[Any] = []
    run(serve())
    run(use())


def test_two_loops_at_once_are_refused(run: Run) -> None:
    trio, errors = Trio(), []

    def elsewhere() -> None:
        errors.append(asyncio.run(outcome(trio.b.providers(ASK))))

    async def body() -> None:
        async with trio:
            await trio.a.serve(ASK, saying(1))
            thread = threading.Thread(target=elsewhere)
            thread.start()
            await until(lambda: not thread.is_alive())

    run(body())
    assert isinstance(errors[0], InvalidCall)
    assert "one event loop" in str(errors[0])


# --- facts -------------------------------------------------------------------------------------------------------------------


def test_facts_reach_those_who_listen_in_their_order(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            await a.publish("topic", "before anyone listens")
            inbox, other, own = await caller.subscribe("topic"), await b.subscribe("another"), await a.subscribe("topic")
            for number in range(3):
                await a.publish("topic", {"n": number})
            assert [await inbox.next(1) for _ in range(3)] == [Event(A, "topic", {"n": number}) for number in range(3)]
            assert await inbox.next(0.001) is None
            assert await other.next(0.001) is None
            assert (await own.next(1)) == Event(A, "topic", {"n": 0})

    run(body())


def test_each_listener_has_its_own_copy(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            one, two = await b.subscribe("topic"), await caller.subscribe("topic")
            await a.publish("topic", [1])
            first = await one.next(1)
            assert first is not None
            assert isinstance(first.payload, list)
            first.payload.append(2)
            assert await two.next(1) == Event(A, "topic", [1])

    run(body())


def test_one_who_waits_is_woken(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            inbox = await caller.subscribe("topic")
            waiting = [asyncio.create_task(inbox.next()), asyncio.create_task(inbox.next())]
            await asyncio.sleep(0.001)
            await a.publish("topic", 1)
            await a.publish("topic", 2)
            events = await asyncio.gather(*waiting)
            assert sorted(event.payload for event in events if event is not None) == [1, 2]  # type: ignore[type-var]
            one_of_two = [asyncio.create_task(inbox.next()), asyncio.create_task(inbox.next(0.02))]
            await asyncio.sleep(0.001)
            await a.publish("topic", 3)
            done = await asyncio.wait(one_of_two, timeout=0.1)
            assert 3 in [task.result().payload for task in done[0] if task.result()]  # type: ignore[union-attr]
            await inbox.stop()
            await asyncio.gather(*one_of_two)

    run(body())


def test_a_full_inbox_drops_the_oldest_and_counts(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            inbox = await caller.subscribe("topic")
            for number in range(256 + 10):
                await a.publish("topic", number)
            assert inbox.dropped == 10
            first = await inbox.next(1)
            assert first is not None
            assert first.payload == 10
            await inbox.stop()
            rest = [event.payload async for event in inbox]
            assert rest == list(range(11, 266))

    run(body())


@pytest.mark.parametrize("ending", ["stop", "close"])
def test_iteration_ends_with_the_subscription(ending: str, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            inbox = await caller.subscribe("topic")

            async def collect() -> list[object]:
                return [event.payload async for event in inbox]

            collecting = asyncio.create_task(collect())
            await a.publish("topic", 1)
            await asyncio.sleep(0.001)
            await (inbox.stop() if ending == "stop" else caller.close())
            await a.publish("topic", "nobody listens")
            assert await collecting == [1]
            assert await inbox.next() is None
            assert inbox.dropped == 0

    run(body())


@pytest.mark.parametrize("topic", ["", "é" * 257, "a\udc00"])
def test_a_malformed_topic_is_refused(topic: str, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            with pytest.raises(InvalidCall):
                await a.subscribe(topic)
            with pytest.raises(InvalidCall):
                await a.publish(topic, 1)

    run(body())


def test_a_fact_lives_an_hour_at_most(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            await a.publish("topic", 1, ttl_s=3_600)
            with pytest.raises(InvalidCall, match="3,600"):
                await a.publish("topic", 1, ttl_s=3_601)

    run(body())


def test_a_cancelled_wait_loses_no_event(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            inbox = await caller.subscribe("topic")
            waiting = asyncio.create_task(inbox.next())
            await asyncio.sleep(0.001)
            waiting.cancel()
            await a.publish("topic", 1)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await inbox.next(1)) == Event(A, "topic", 1)

    run(body())


# --- how fast ----------------------------------------------------------------------------------------------------------------


def test_a_call_costs_little(run: Run) -> None:
    async def body() -> float:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, saying({"hits": ["text"] * 10}))
            await caller.call(ASK)
            begin = time.perf_counter()
            for _ in range(100):
                await caller.call(ASK)
            return (time.perf_counter() - begin) / 100

    assert run(body()) < 0.05
