"""How deep and how wide a payload may be on the real mesh: the last that crosses does so whole, and the next is refused before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from station.station_mesh import TOPIC, WAIT_S, LiveMesh, echo

from rag_stdlib.mesh.errors import PayloadRefused, ProviderError
from rag_stdlib.mesh.transport import Request
from rag_stdlib.mesh.wire import PAYLOAD_DEPTH, PAYLOAD_ITEMS

pytest_plugins = ("station.station_fixtures",)


def lists(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def maps(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"k": value}
    return value


def wide_list(items: int) -> Any:
    return [1] * (items - 1)


def wide_map(items: int) -> Any:
    """A map of one list, and as many pairs as are left."""
    pairs, odd = divmod(items - 4, 2)
    return {**{str(number): 1 for number in range(pairs)}, "list": [1] * (1 + odd)}


FULL = [(lists, PAYLOAD_DEPTH), (maps, PAYLOAD_DEPTH), (wide_list, PAYLOAD_ITEMS), (wide_map, PAYLOAD_ITEMS)]
of_each_kind = pytest.mark.parametrize(("make", "most"), FULL, ids=[make.__name__ for make, _ in FULL])


@of_each_kind
def test_a_call_and_its_reply_are_filled_to_the_last_item_and_not_beyond(mesh: LiveMesh, name: str, make: Callable[[int], Any], most: int) -> None:
    value, more = make(most), make(most + 1)
    seen: list[object] = []

    def handler(request: Request) -> object:
        seen.append(request.payload)
        return more if request.payload == "more" else request.payload

    async def crossed() -> None:
        provider, caller = mesh.node("a"), mesh.node("c")
        served = await provider.serve(name, handler)
        assert (await caller.call_pinned(name, value, provider=provider.node_id, timeout_s=WAIT_S)).value == value
        with pytest.raises(PayloadRefused, match=r"deeper than 63|more than 131,008"):
            await caller.call_pinned(name, more, provider=provider.node_id, timeout_s=WAIT_S)
        assert seen == [value]
        with pytest.raises(ProviderError, match=r"deeper than 63|more than 131,008") as caught:
            await caller.call_pinned(name, "more", provider=provider.node_id, timeout_s=WAIT_S)
        assert caught.value.name == "payload_refused"
        await served.stop()

    mesh.link("a", "c")
    mesh.run(crossed())


@of_each_kind
def test_a_fact_is_filled_to_the_last_item_and_not_beyond(mesh: LiveMesh, make: Callable[[int], Any], most: int) -> None:
    value, more = make(most), make(most + 1)

    async def told() -> None:
        speaker, listener = mesh.node("a"), mesh.node("c")
        subscription = await listener.subscribe(TOPIC)
        with pytest.raises(PayloadRefused):
            await speaker.publish(TOPIC, more)
        await speaker.publish(TOPIC, value)
        event = await subscription.next(WAIT_S)
        assert event is not None
        assert event.payload == value
        await subscription.stop()

    mesh.link("a", "c")
    mesh.run(told())


@of_each_kind
def test_a_sealed_call_and_its_reply_hold_as_much(mesh: LiveMesh, name: str, make: Callable[[int], Any], most: int) -> None:
    value, more = make(most), make(most + 1)

    async def crossed() -> None:
        provider, caller = await mesh.join("b", kem_advertise=True), mesh.node("c")
        async with provider:
            await provider.serve_sealed(name, echo, confidential="required")
            assert (await caller.call_pinned(name, value, provider=provider.node_id, timeout_s=WAIT_S)).value == value
            with pytest.raises(PayloadRefused):
                await caller.call_pinned(name, more, provider=provider.node_id, timeout_s=WAIT_S)

    mesh.link("c")
    mesh.run(crossed())


@of_each_kind
def test_the_bounds_are_those_of_the_library(mesh: LiveMesh, make: Callable[[int], Any], most: int) -> None:
    """Which says why it sends no fact, but of a reply that is too much tells the caller nothing."""
    import macula_py

    node = mesh.node("a")
    mesh.run(node._pool.publish(node.realm, TOPIC, make(most)))
    with pytest.raises(macula_py.MaculaError, match=r"more than (63|131008)"):
        mesh.run(node._pool.publish(node.realm, TOPIC, make(most + 1)))
