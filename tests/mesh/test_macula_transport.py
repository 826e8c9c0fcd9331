"""A node on the real mesh, over the tests' station: how it links, and what its calls carry and come to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from station.station_keys import fixed_key
from station.station_mesh import TOPIC, WAIT_S, LiveMesh, echo

from rag_stdlib import Failure
from rag_stdlib.keyfile import save_new_key
from rag_stdlib.mesh.errors import (
    CallTimeout,
    InvalidCall,
    NoProvider,
    PayloadRefused,
    ProviderError,
    RelayError,
    ReplyRefused,
)
from rag_stdlib.mesh.macula import MaculaTransport, realm_id
from rag_stdlib.mesh.macula_errors import GONE
from rag_stdlib.mesh.macula_serving import PAYLOAD_BYTES, carried
from rag_stdlib.mesh.transport import PinnedReply, Request, UnpinnedReply, own_procedure

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)

STATION_ID = "00" + "11" * 31


# --- connecting ---

def test_a_realms_id_is_the_digest_of_its_name() -> None:
    assert realm_id("io.macula")[:8] + realm_id("io.macula")[-4:] == "abb81b5afcd1"


@pytest.mark.parametrize("form", ["file", "key"])
def test_a_node_is_known_by_its_key(mesh: LiveMesh, form: str, tmp_path: Path) -> None:
    key = mesh.key("d")
    save_new_key(tmp_path / "node.key", key)

    async def joined() -> tuple[Any, ...]:
        given = key if form == "key" else tmp_path / "node.key"
        async with await MaculaTransport.connect(given, mesh.seeds, mesh.station.realm_id, profile="pq_pure") as node:
            return node.node_id, node.profile, node.realm, node.linked

    assert mesh.run(joined()) == (key.node_id, "pq_pure", mesh.station.realm_id, True)


@pytest.mark.parametrize("wrong", [
    {"seeds": []}, {"seeds": [("", 1, STATION_ID)]}, {"seeds": [("a b", 1, STATION_ID)]}, {"seeds": [("h\0", 1, STATION_ID)]},
    {"seeds": [("h", 0, STATION_ID)]}, {"seeds": [("h", 65_536, STATION_ID)]}, {"seeds": [("h", True, STATION_ID)]},
    {"seeds": [("h", "1", STATION_ID)]}, {"seeds": [("h", 1, "00" * 31)]}, {"realm": "io.example"}, {"realm_key": b"junk"},
    {"profile": "pq_hybrid"}, {"timeout_s": 0}, {"timeout_s": float("nan")}, {"grant_retry_s": -1},
], ids=str)
def test_what_cannot_be_connected_is_refused(mesh: LiveMesh, wrong: dict[str, Any]) -> None:
    arguments = {"key": mesh.key("d"), "seeds": [("127.0.0.1", 1, STATION_ID)], "realm": mesh.station.realm_id, **wrong}
    with pytest.raises(InvalidCall):
        mesh.run(MaculaTransport.connect(**arguments))


def test_a_realms_key_is_of_the_nodes_profile(mesh: LiveMesh) -> None:
    with pytest.raises(InvalidCall, match="profile pq_pure"):
        mesh.run(mesh.join("d", realm_key=fixed_key("pq_hybrid", "realm").public))


def test_a_key_whose_id_no_station_admits_is_refused(mesh: LiveMesh) -> None:
    with pytest.raises(InvalidCall, match="8 zero bits"):
        mesh.run(MaculaTransport.connect(mesh.key("realm"), mesh.seeds, mesh.station.realm_id))


def test_a_key_file_that_does_not_do_is_named(mesh: LiveMesh, tmp_path: Path) -> None:
    save_new_key(tmp_path / "node.key", mesh.key("d"))
    for file, profile, code in (("none.key", None, "key_file_missing"), ("node.key", "pq_hybrid", "key_file_invalid")):
        with pytest.raises(Failure) as caught:
            mesh.run(MaculaTransport.connect(tmp_path / file, mesh.seeds, mesh.station.realm_id, profile=profile))
        assert caught.value.error.code == code


@pytest.mark.parametrize("seed", [("127.0.0.1", 1, STATION_ID), ("no.such.host.invalid", 1, STATION_ID), None], ids=["nobody", "no name", "another"])
def test_a_station_that_does_not_prove_its_id_in_time_is_none(mesh: LiveMesh, seed: tuple[str, int, str] | None) -> None:
    seed = seed or (mesh.station.host, mesh.station.port, STATION_ID)
    began = time.monotonic()
    with pytest.raises(CallTimeout, match=rf"{seed[0]}:{seed[1]}"):
        mesh.run(MaculaTransport.connect(mesh.key("d"), [seed], mesh.station.realm_id, timeout_s=0.3))
    assert time.monotonic() - began < 5


# --- calls ---

async def answered(mesh: LiveMesh, name: str, handler: Callable[[Request], object], payload: object = None) -> PinnedReply:
    """Serve, call once, and stop."""
    provider, caller = await mesh.pair()
    async with provider, caller:
        await provider.serve(own_procedure(provider.node_id, "x") if name == "own" else name, handler)
        return await caller.call_pinned(name, payload, provider=provider.node_id, timeout_s=WAIT_S)


VALUES = [
    None, 0, -1, 2**63 - 1, -(2**63), 1.0, -0.0, 5e-324, 1.7976931348623157e308, "", "a\0é\u2028語👋", b"", b"\0\xff" * 100, [], {}, [[1.0, None]],
    {"$bytes": "AA==", "more": 1}, {"bytes": b"\x01", "nested": {"b": [b"\x02"]}}, {"": 0},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_crosses_both_ways_unchanged(mesh: LiveMesh, name: str, value: object) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> object:
        seen.append(request)
        return request.payload

    async def crossed() -> PinnedReply:
        served = await mesh.node("a").serve(name, handler)
        try:
            return await mesh.node("c").call_pinned(name, value, provider=mesh.id("a").upper(), timeout_s=WAIT_S)
        finally:
            await served.stop()

    mesh.link("a", "c")
    reply = mesh.run(crossed())
    assert seen == [Request(name, value, mesh.id("c"))]
    assert reply == PinnedReply(value, mesh.id("a"))
    assert repr(reply.value) == repr(value) or isinstance(value, dict)


def test_a_pinned_call_reaches_the_node_it_names_and_an_unpinned_one_any(mesh: LiveMesh, name: str) -> None:
    async def asked() -> None:
        nodes = {role: await mesh.node(role).serve(name, lambda _request, role=role: role) for role in ("a", "b")}
        for role in nodes:
            assert (await mesh.node("c").call_pinned(name, provider=mesh.id(role), timeout_s=WAIT_S)).value == role
        assert (await mesh.node("c").call(name, timeout_s=WAIT_S)).value in nodes
        assert type(await mesh.node("c").call(name, timeout_s=WAIT_S)) is UnpinnedReply
        for served in nodes.values():
            await served.stop()

    mesh.link("a", "b", "c")
    mesh.run(asked())


@pytest.mark.parametrize(("value", "words"), [
    (True, "boolean"), ({"flag": [False]}, r"flag\[0\]"), ({"$bytes": "AA=="}, "bytes"), ("\ud800", "surrogate"), (float("nan"), "finite"),
    (2**63, "64 bits"), ({1: 2}, "keys are text"), (object(), "object"), ("x" * PAYLOAD_BYTES, "payload_too_large"),
    ("x" * (PAYLOAD_BYTES + 20_000), "payload_too_large"),
], ids=lambda value: repr(value)[:20])
def test_a_payload_that_would_be_mangled_is_never_sent(mesh: LiveMesh, value: object, words: str) -> None:
    node = mesh.node("c")
    for act in (node.call("acme/x", value), node.call_pinned("acme/x", value, provider=mesh.id("a")), node.publish(TOPIC, value)):
        with pytest.raises(PayloadRefused, match=words):
            mesh.run(act)


@pytest.mark.parametrize(("value", "words"), [
    (True, "boolean"), ({"$bytes": "AA=="}, "bytes"), ("\ud800", "surrogate"), (float("inf"), "finite"), (object(), "object"),
    ("x" * PAYLOAD_BYTES, "payload_too_large"),
], ids=lambda value: repr(value)[:20])
def test_a_reply_that_would_be_mangled_is_the_handlers_error(mesh: LiveMesh, name: str, value: object, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        mesh.run(answered(mesh, name, lambda _request: value))
    assert caught.value.name in {"payload_refused", "payload_too_large"}


def test_the_largest_payload_crosses(mesh: LiveMesh, name: str) -> None:
    value = b"x" * (PAYLOAD_BYTES - 5)
    assert carried(value) is value
    assert mesh.run(answered(mesh, name, lambda request: len(request.payload), value)).value == len(value)


def test_many_calls_at_once_are_all_answered(mesh: LiveMesh, name: str) -> None:
    async def many() -> list[object]:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, echo)
            calls = (caller.call_pinned(name, number, provider=provider.node_id, timeout_s=WAIT_S) for number in range(64))
            return [reply.value for reply in await asyncio.gather(*calls)]

    assert mesh.run(many()) == list(range(64))


def test_nobody_withdrawn_and_silent_are_told_apart(mesh: LiveMesh, name: str) -> None:
    gate = threading.Event()

    async def told() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            for pinned in ({}, {"provider": provider.node_id}):
                with pytest.raises(NoProvider):
                    await (caller.call_pinned if pinned else caller.call)(name, timeout_s=WAIT_S, **pinned)
            assert await caller.providers(name) == []
            served = await provider.serve(name, lambda _request: gate.wait(WAIT_S) and None)
            with pytest.raises(NoProvider):
                await caller.call_pinned(name, provider=mesh.id("b"), timeout_s=WAIT_S)
            with pytest.raises(CallTimeout):
                await caller.call_pinned(name, provider=provider.node_id, timeout_s=0.2)
            gate.set()
            await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
            await served.stop()
            with pytest.raises(RelayError, match=GONE):
                await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)

    mesh.run(told())


def test_a_cancelled_call_ends_at_once(mesh: LiveMesh, name: str) -> None:
    gate = threading.Event()

    async def cancelled() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, lambda _request: gate.wait(WAIT_S) and None)
            call = asyncio.create_task(caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S))
            await asyncio.sleep(0.2)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gate.set()

    mesh.run(cancelled())


@pytest.mark.parametrize("pinned", [True, False])
def test_a_remembered_provider_that_is_gone_is_looked_up_and_called_once_more(mesh: LiveMesh, name: str, pinned: bool) -> None:
    async def moved() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, echo)
            asked, losing = [], caller._pool.call

            async def lose(*arguments: Any, **options: Any) -> Any:
                from macula_py import RelayError as NativeRelayError

                asked.append(options["provider"])
                if len(asked) == 1:
                    raise NativeRelayError(GONE)
                return await losing(*arguments, **options)

            caller._pool.call = lose
            call = caller.call_pinned(name, 7, provider=provider.node_id) if pinned else caller.call(name, 7)
            assert (await call).value == 7
            assert asked == [provider.node_id if pinned else None, provider.node_id]

    mesh.run(moved())


def test_another_relay_error_is_not_tried_again(mesh: LiveMesh, name: str) -> None:
    async def once() -> None:
        from macula_py import RelayError as NativeRelayError

        async with await mesh.join("d") as node:
            asked = []

            async def overloaded(*_arguments: Any, **options: Any) -> Any:
                asked.append(options["provider"])
                raise NativeRelayError("overloaded")

            node._pool.call = overloaded
            with pytest.raises(RelayError, match="overloaded"):
                await node.call_pinned(name, provider=mesh.id("a"))
            assert asked == [mesh.id("a")]

    mesh.run(once())


def test_an_unpinned_call_finds_the_next_provider_where_one_has_left(mesh: LiveMesh, name: str) -> None:
    async def left() -> None:
        caller, one, other = await mesh.join("d"), await mesh.join("a"), await mesh.join("b")
        async with caller, one, other:
            await one.serve(name, lambda _request: "one")
            served = await other.serve(name, lambda _request: "other")
            await caller.call(name, timeout_s=WAIT_S)
            await served.stop()
            assert {(await caller.call(name, timeout_s=WAIT_S)).value for _ in range(3)} == {"one"}

    mesh.run(left())


@pytest.mark.parametrize("left", [0.0, -1.0])
def test_no_time_left_for_a_second_look_is_a_timeout(mesh: LiveMesh, left: float) -> None:
    node = mesh.node("c")
    for act in (node._called("acme/x", None, None, left, 3.0), node._listed("acme/x", left, 3.0)):
        with pytest.raises(CallTimeout, match="within 3 s"):
            mesh.run(act)


def test_providers_are_listed_freshest_first_each_once(mesh: LiveMesh, name: str) -> None:
    async def listed() -> list[str]:
        caller, one, other = await mesh.join("d"), await mesh.join("a"), await mesh.join("b")
        async with caller, one, other:
            await one.serve(name, echo)
            await other.serve(name, echo)
            return [provider.node for provider in await caller.providers(name)]

    assert mesh.run(listed()) == [mesh.id("b"), mesh.id("a")]


def test_a_reply_that_cannot_be_read_is_refused(mesh: LiveMesh, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from macula_py import pool

    def fails(_text: str) -> Any:
        raise ValueError("Only base64 data is allowed")

    async def refused() -> None:
        provider, caller = mesh.node("a"), mesh.node("c")
        served = await provider.serve(name, lambda _request: monkeypatch.setattr(pool, "decode_payload", fails))
        with pytest.raises(ReplyRefused, match="malformed_reply"):
            await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
        monkeypatch.undo()
        await served.stop()

    mesh.link("a", "c")
    mesh.run(refused())


@pytest.mark.parametrize("wrong", ["", "x", "/x", "a/", "_/x", "a/x\0y", "~x/y", "a/" + "x" * 511, "a/\ud800"])
def test_a_malformed_procedure_is_refused(mesh: LiveMesh, wrong: str) -> None:
    node = mesh.node("c")
    for act in (node.call(wrong), node.call_pinned(wrong, provider=node.node_id), node.providers(wrong), node.serve(wrong, echo)):
        with pytest.raises(InvalidCall):
            mesh.run(act)


@pytest.mark.parametrize("wrong", ["", "x" * 513, "a\0b", "\ud800"])
def test_a_malformed_topic_is_refused(mesh: LiveMesh, wrong: str) -> None:
    for act in (mesh.node("c").publish(wrong, {}), mesh.node("c").subscribe(wrong)):
        with pytest.raises(InvalidCall):
            mesh.run(act)


@pytest.mark.parametrize("options", [{"provider": "zz"}, {"timeout_s": 0}, {"timeout_s": True}])
def test_a_malformed_call_is_refused(mesh: LiveMesh, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall):
        mesh.run(mesh.node("c").call_pinned("acme/x", **{"provider": mesh.id("a"), **options}))
