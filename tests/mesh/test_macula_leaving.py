"""A node that leaves the mesh, a station that goes away, and what is given back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from leftovers import countable, held
from station.station_mesh import TOPIC, WAIT_S, LiveMesh, echo, open_mesh, until

from rag_stdlib.mesh import macula
from rag_stdlib.mesh.errors import CallError, CallTimeout, ServeRefused, TransportClosed
from rag_stdlib.mesh.macula import MaculaTransport
from rag_stdlib.mesh.transport import Request

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)


# --- leaving ---

def slow_down(node: MaculaTransport, act: str, gate: asyncio.Event) -> None:
    """Have the library's act come back only when the gate is open, though it is done."""
    quick = getattr(node._pool, act)

    async def slow(*arguments: Any, **options: Any) -> Any:
        found = await quick(*arguments, **options)
        await gate.wait()
        return found

    setattr(node._pool, act, slow)


def test_after_leaving_every_act_fails(mesh: LiveMesh) -> None:
    async def left() -> None:
        node = await mesh.join("d")
        subscription = await node.subscribe(TOPIC)
        await asyncio.gather(node.close(), node.close())
        await node.close()
        assert not node.linked
        assert await subscription.next() is None
        for act in (node.call("acme/x"), node.call_pinned("acme/x", provider=node.node_id), node.providers("acme/x"), node.serve("acme/x", echo),
                    node.publish(TOPIC, 1), node.subscribe(TOPIC)):
            with pytest.raises(TransportClosed):
                await act

    mesh.run(left())


def test_leaving_waits_for_a_handler_and_its_reply(mesh: LiveMesh, name: str) -> None:
    gate, entered = threading.Event(), threading.Event()

    def handler(_request: Request) -> str:
        entered.set()
        gate.wait(WAIT_S)
        return "whole"

    async def left() -> object:
        provider, caller = await mesh.pair()
        async with caller:
            await provider.serve(name, handler)
            call = asyncio.create_task(caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S))
            await until(entered.is_set)
            closing = asyncio.create_task(provider.close())
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(closing), 0.1)
            gate.set()
            await closing
            return (await call).value

    assert mesh.run(left()) == "whole"


@pytest.mark.parametrize("act", ["serve", "subscribe"])
@pytest.mark.parametrize("done", [True, False], ids=["begun", "beginning"])
def test_what_began_while_leaving_does_not_stay(mesh: LiveMesh, name: str, act: str, done: bool) -> None:
    async def left() -> None:
        node, gate = await mesh.join("a"), asyncio.Event()
        if done:
            slow_down(node, act, gate)
        begun = asyncio.create_task(node.serve(name, echo) if act == "serve" else node.subscribe(TOPIC))
        await asyncio.sleep(0.1 if done else 0)
        await node.close()
        gate.set()
        with pytest.raises(CallError):
            await begun
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().endswith((name, TOPIC))])

    mesh.run(left())


def test_a_registration_that_no_station_accepts_is_given_up_and_undone(mesh: LiveMesh, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macula, "_REGISTRATION_S", 0.1)

    async def given_up() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            gate = asyncio.Event()
            for act in ("serve", "subscribe"):
                slow_down(provider, act, gate)
            with pytest.raises(ServeRefused, match=r"no station has accepted it within 0\.1 s"):
                await provider.serve(name, echo)
            with pytest.raises(CallTimeout):
                await provider.subscribe(TOPIC)
            gate.set()
            await provider._starts.settle()
            assert await caller.providers(name) == []

    mesh.run(given_up())


def test_a_pool_that_ended_by_itself_is_closed(mesh: LiveMesh, name: str) -> None:
    async def ended() -> None:
        node = await mesh.join("a")
        await node._pool.close()
        for act in (node.serve(name, echo), node.call(name), node.publish(TOPIC, 1), node.subscribe(TOPIC), node.providers(name)):
            with pytest.raises(TransportClosed):
                await act
        assert not node.linked
        await node.close()

    mesh.run(ended())


# --- the station goes away ---

@pytest.fixture
def own_station(mesh: LiveMesh) -> Iterator[LiveMesh]:
    """A mesh that a test may ruin."""
    mesh.needs_the_double()
    with open_mesh("pq_pure") as one:
        yield one


@pytest.mark.parametrize("how", ["drop", "restart"])
def test_serving_and_listening_go_on_when_the_station_is_back(own_station: LiveMesh, how: str) -> None:
    mesh = own_station

    async def survived() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(f"{mesh.org}/x", echo)
            subscription = await caller.subscribe(TOPIC)
            await asyncio.to_thread(getattr(mesh.station, how))
            async with asyncio.timeout(WAIT_S):
                for value in iter(int, None):
                    try:
                        await provider.publish(TOPIC, value)
                        assert (await caller.call_pinned(f"{mesh.org}/x", 1, provider=provider.node_id, timeout_s=2)).value == 1
                        break
                    except CallError:
                        await asyncio.sleep(0.1)
            await provider.publish(TOPIC, "again")
            async with asyncio.timeout(WAIT_S):
                while (event := await subscription.next(WAIT_S)) and event.payload != "again":
                    pass
            assert provider.linked

    mesh.run(survived())


def test_a_call_over_a_station_that_died_ends_in_its_time(own_station: LiveMesh) -> None:
    mesh = own_station

    async def died() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(f"{mesh.org}/x", echo)
            await caller.call_pinned(f"{mesh.org}/x", provider=provider.node_id)
            await provider.close()
            mesh.station.kill()
            for act in (caller.call_pinned(f"{mesh.org}/x", provider=provider.node_id, timeout_s=0.4), caller.call(f"{mesh.org}/y", timeout_s=0.4)):
                began = time.monotonic()
                with pytest.raises(CallTimeout):
                    await act
                assert time.monotonic() - began < 5

    mesh.run(died())


# --- nothing is left behind ---

@countable
def test_threads_tasks_and_sockets_are_given_back(own_station: LiveMesh) -> None:
    mesh = own_station

    async def busy() -> None:
        nodes = provider, caller = await mesh.pair()
        await provider.serve(f"{mesh.org}/x", echo)
        await caller.serve(f"{mesh.org}/ungranted", echo)
        await caller.subscribe(TOPIC)
        await asyncio.gather(*(caller.call_pinned(f"{mesh.org}/x", n, provider=provider.node_id, timeout_s=WAIT_S) for n in range(20)))
        with pytest.raises(CallError):
            await caller.call_pinned(f"{mesh.org}/nothing", provider=provider.node_id)
        for node in nodes:
            await node.close()

    async def counted() -> None:
        before = held()
        for _ in range(3):
            await busy()
        await until(lambda: held() == before)
        assert asyncio.all_tasks() == {asyncio.current_task(), *tasks}

    async def tracked() -> None:
        tasks.update(asyncio.all_tasks())
        await counted()

    tasks: set[Any] = set()
    mesh.run(tracked())
