"""Facts on the real mesh: who hears them, and that listening goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from station.station_mesh import TOPIC, WAIT_S, LiveMesh, echo, until

from rag_stdlib.mesh import macula_facts
from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.macula_errors import MeshFailure
from rag_stdlib.mesh.transport import Event

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)


def test_facts_reach_those_who_listen_in_their_order(mesh: LiveMesh) -> None:
    async def told() -> list[Event]:
        speaker, listener = await mesh.pair()
        async with speaker, listener:
            subscription = await listener.subscribe(TOPIC)
            other = await listener.subscribe(f"{TOPIC}x")
            for number in range(3):
                await speaker.publish(TOPIC, {"n": number, "b": b"\0"}, ttl_s=60)
            events = [await subscription.next(WAIT_S) for _ in range(3)]
            assert await other.next(0.05) is None
            await subscription.stop()
            await subscription.stop()
            assert await subscription.next() is None
            assert (subscription.dropped, other.dropped) == (0, 0)
            return events

    assert mesh.run(told()) == [Event(mesh.id("a"), TOPIC, {"n": number, "b": b"\0"}) for number in range(3)]


def test_what_waited_can_be_taken_after_the_end_and_iteration_ends(mesh: LiveMesh) -> None:
    async def ended() -> list[object]:
        speaker, listener = await mesh.pair()
        async with speaker, listener:
            subscription = await listener.subscribe(TOPIC)
            await speaker.publish(TOPIC, "last")
            await until(lambda: subscription._events)
            await subscription.stop()
            return [event.payload async for event in subscription]

    assert mesh.run(ended()) == ["last"]


@pytest.mark.parametrize("ttl_s", [0, -1, 3_601, float("nan")])
def test_a_fact_lives_an_hour_at_most(mesh: LiveMesh, ttl_s: float) -> None:
    with pytest.raises(InvalidCall):
        mesh.run(mesh.node("c").publish(TOPIC, {}, ttl_s=ttl_s))


def test_a_dropped_subscription_is_made_again(mesh: LiveMesh, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(macula_facts, "RESUBSCRIBE_S", 0.05)

    async def dropped() -> object:
        speaker, listener = await mesh.pair()
        async with speaker, listener:
            subscription = await listener.subscribe(TOPIC)
            first, failures, subscribe = subscription._source, [MeshFailure("no station link is up")] * 3, subscription._listen

            async def fails_at_first() -> Any:
                if failures:
                    raise failures.pop()
                return await subscribe()

            subscription._listen = fails_at_first
            await first.stop()
            await until(lambda: subscription._source not in (None, first))
            assert failures == []
            await speaker.publish(TOPIC, "after")
            event = await subscription.next(WAIT_S)
            return event and event.payload

    assert mesh.run(dropped()) == "after"
    assert caplog.text.count("cannot be made") == 1, "the same reason is logged once"


def test_stopping_in_the_moment_in_which_it_is_made_again_ends_both(mesh: LiveMesh, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The act that makes it ends just then, and takes the cancellation with it."""
    monkeypatch.setattr(macula_facts, "RESUBSCRIBE_S", 0.01)

    async def stopped() -> None:
        async with await mesh.join("a") as node:
            subscription, served = await node.subscribe(TOPIC), await node.serve(name, echo)
            entered = []

            async def deaf(act: Any) -> Any:
                entered.append(act)
                try:
                    await asyncio.sleep(WAIT_S)
                except asyncio.CancelledError:
                    return await act()

            listen, advertise = subscription._listen, served._advertise
            subscription._listen, served._advertise = lambda: deaf(listen), lambda answer: deaf(lambda: advertise(answer))
            await subscription._source.stop()
            served._native._loop.cancel()
            await until(lambda: len(entered) == 2)
            await asyncio.gather(subscription.stop(), served.stop())
            assert subscription._source is served._native is None
            assert await node.providers(name) == []

    mesh.run(stopped())


def test_a_fact_that_cannot_be_read_is_passed_over(mesh: LiveMesh, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from macula_py import pool

    read = pool.decode_payload

    def reads(text: str) -> Any:
        if "unreadable" in text:
            raise ValueError("Only base64 data is allowed")
        return read(text)

    async def heard() -> object:
        speaker, listener = await mesh.pair()
        async with speaker, listener:
            subscription = await listener.subscribe(TOPIC)
            for fact in ("unreadable", "good"):
                await speaker.publish(TOPIC, fact)
            event = await subscription.next(WAIT_S)
            return event and event.payload

    monkeypatch.setattr(pool, "decode_payload", reads)
    assert mesh.run(heard()) == "good"
    assert "passed over" in caplog.text
