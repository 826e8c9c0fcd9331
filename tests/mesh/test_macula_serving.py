"""Serving on the real mesh: the grant, the threads of the handlers, what they raise, and the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from station.station_mesh import GRANT_RETRY_S, WAIT_S, LiveMesh, echo, until

from rag_stdlib import grant
from rag_stdlib.effects import RAG_READ, RAG_WRITE, refusal
from rag_stdlib.mesh.errors import CallError, CallTimeout, InvalidCall, ProviderError, Refusal, ServeRefused
from rag_stdlib.mesh.federation import granting
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.macula_errors import MeshFailure, NotGranted
from rag_stdlib.mesh.transport import PinnedReply, Request, own_procedure

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)


# --- which procedures ---

def test_what_the_mesh_does_not_let_serve_is_refused(mesh: LiveMesh, name: str) -> None:
    async def refused() -> None:
        node, stranger = await mesh.join("a"), await mesh.join("d", realm_key=None)
        async with node, stranger:
            await node.serve(name, echo)
            for who, procedure, reason in ((node, name, "serves it already"), (node, own_procedure("00" * 32, "x"), "another node"),
                                           (stranger, name, "no realm key")):
                with pytest.raises(ServeRefused, match=reason) as caught:
                    await who.serve(procedure, echo)
                assert not isinstance(caught.value, NotGranted)
            with pytest.raises(MeshFailure, match="no realm key"):
                await stranger.call(name)
            with pytest.raises(InvalidCall, match="plain function"):
                await node.serve(f"{name}_2", asyncio.sleep)
            assert node.ungranted == stranger.ungranted == {}

    mesh.run(refused())


def test_a_procedure_can_be_served_again_after_it_was_stopped(mesh: LiveMesh, name: str) -> None:
    async def again() -> list[object]:
        provider, caller = await mesh.pair()
        async with provider, caller:
            values = []
            for number in range(2):
                served = await provider.serve(name, lambda _request, number=number: number)
                values.append((await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)).value)
                await served.stop()
                await served.stop()
            return values

    assert mesh.run(again()) == [0, 1]


def test_a_nodes_own_namespace_needs_no_grant_and_no_realm_key(mesh: LiveMesh) -> None:
    async def own() -> object:
        provider, caller = await mesh.join("d", realm_key=None), await mesh.join("c", realm_key=None)
        async with provider, caller:
            procedure = own_procedure(provider.node_id, "ring")
            await provider.serve(procedure, lambda request: request.caller)
            return (await caller.call_pinned(procedure, provider=provider.node_id, timeout_s=WAIT_S)).value

    assert mesh.run(own()) == mesh.id("c")


def test_a_grant_that_is_not_there_is_asked_for_until_it_is_and_advertised_once(
    mesh: LiveMesh, name: str, caplog: pytest.LogCaptureFixture,
) -> None:
    mesh.needs_the_double()

    async def granted() -> None:
        node, caller = await mesh.join("d"), mesh.node("c")
        advertised, serve = [], node._pool.serve

        async def counted(*arguments: Any, **options: Any) -> Any:
            advertised.append(await serve(*arguments, **options))
            return advertised[-1]

        async with node:
            node._pool.serve = counted
            served = await node.serve(name, echo)
            assert "procedure delegation" in (served.reason or "")
            assert node.node_id in (served.reason or "")
            assert node.ungranted == {name: served.reason}
            await asyncio.sleep(2.5 * GRANT_RETRY_S)
            assert 2.5 * GRANT_RETRY_S <= served.waiting_s < WAIT_S
            assert (await caller.providers(name), advertised) == ([], [])
            mesh.station.admit(node.node_id)
            await until(lambda: served.reason is None)
            assert (node.ungranted, served.waiting_s) == ({}, 0.0)
            assert (await caller.call_pinned(name, 1, provider=node.node_id, timeout_s=WAIT_S)).value == 1
            await asyncio.sleep(2.5 * GRANT_RETRY_S)
            assert len(advertised) == 1

    mesh.node("c")
    try:
        mesh.run(granted())
    finally:
        mesh.station.revoke(mesh.id("d"))
    assert sum("procedure delegation" in record.message for record in caplog.records) == 1, "the same reason is logged once"


def test_a_shard_that_waits_for_its_grant_says_so_once_and_in_the_words_of_the_mesh(mesh: LiveMesh) -> None:
    mesh.needs_the_double()

    async def waits() -> None:
        async with await mesh.join("d") as node, Federation() as shard:
            await shard.configure(node, bytes.fromhex(mesh.station.realm_id), {
                "org": mesh.org, "shard_id": "s", "realm_name": mesh.station.realm_name, "embedding": {"model": "m", "dim": 1}})
            await shard.register_responder(lambda _query, _top_k: [])
            state = shard.status().responder
            assert isinstance(state, granting.NotGranted)
            assert str(state.reason) == node.ungranted[f"{mesh.org}/rag.query_shard_v1"]
            assert str(state.reason).count("cannot be served here") == 1

    mesh.run(waits())


def test_a_procedure_that_waits_for_its_grant_can_be_stopped(mesh: LiveMesh, name: str) -> None:
    async def stopped() -> None:
        async with await mesh.join("c") as node:
            served = await node.serve(name, echo)
            await served.stop()
            assert node.ungranted == {}

    mesh.run(stopped())


def test_stopping_refuses_new_calls_and_waits_for_those_that_run(mesh: LiveMesh, name: str) -> None:
    gate, entered = threading.Event(), threading.Event()

    def handler(_request: Request) -> str:
        entered.set()
        gate.wait(WAIT_S)
        return "whole"

    async def stopped() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            served = await provider.serve(name, handler)
            call = asyncio.create_task(caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S))
            await until(entered.is_set)
            stops = [asyncio.create_task(served.stop()) for _ in range(2)]
            await asyncio.sleep(0.05)
            with pytest.raises(ProviderError) as caught:
                await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
            assert caught.value.name == "withdrawn"
            assert not any(stop.done() for stop in stops)
            gate.set()
            await asyncio.gather(*stops)
            assert (await call).value == "whole"

    mesh.run(stopped())


def test_a_call_that_cannot_be_read_stops_nothing(mesh: LiveMesh, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a map that says it is bytes, and holds none: the library takes no more calls of the procedure after it."""
    from macula_py import pool

    read = pool.decode_payload

    def reads(text: str) -> Any:
        if "unreadable" in text:
            raise ValueError(text)
        return read(text)

    async def survived() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, echo)
            with pytest.raises(CallError):
                await caller.call_pinned(name, "unreadable", provider=provider.node_id, timeout_s=WAIT_S)
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        assert (await caller.call_pinned(name, 1, provider=provider.node_id, timeout_s=1)).value == 1
                        break
                    except CallError:
                        await asyncio.sleep(0.05)

    monkeypatch.setattr(pool, "decode_payload", reads)
    mesh.run(survived())


def test_a_call_that_cannot_be_read_takes_no_reply_from_those_before_it(mesh: LiveMesh, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from macula_py import pool

    gate, entered, read = threading.Event(), threading.Event(), pool.decode_payload

    def reads(text: str) -> Any:
        if "unreadable" in text:
            raise ValueError(text)
        return read(text)

    def handler(_request: Request) -> str:
        entered.set()
        gate.wait(WAIT_S)
        return "whole"

    async def kept() -> object:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, handler)
            call = asyncio.create_task(caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S))
            await until(entered.is_set)
            bad = asyncio.create_task(caller.call_pinned(name, "unreadable", provider=provider.node_id, timeout_s=WAIT_S))
            await asyncio.sleep(0.2)
            gate.set()
            assert isinstance((await asyncio.gather(bad, return_exceptions=True))[0], CallError)
            return (await call).value

    monkeypatch.setattr(pool, "decode_payload", reads)
    assert mesh.run(kept()) == "whole"


def test_a_serve_that_is_given_up_is_undone(mesh: LiveMesh, name: str) -> None:
    async def given_up() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            serving = asyncio.create_task(provider.serve(name, echo))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            await provider._starts.settle()
            assert await caller.providers(name) == []
            await provider.serve(name, echo)

    mesh.run(given_up())


# --- handlers ---

class Unspeakable(Exception):  # noqa: N818
    """An exception that cannot be written."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError


@pytest.mark.parametrize(("raised", "detail"), [
    (Refusal("dimension_mismatch", "expected 384 numbers, got 768"), "dimension_mismatch: expected 384 numbers, got 768"),
    (Refusal("not_found", "語" * 200), "not_found: " + "語" * 81), (Refusal("not_found", "a\0b \ud800"), "not_found: a\\0b \\ud800"),
    (ValueError("it\0is broken"), "it\\0is broken"), (RuntimeError(), "RuntimeError"), (RuntimeError("\ud800"), "\\ud800"),
    (RuntimeError("x" * 1_000), "x" * 256), (Unspeakable(), "Unspeakable"), (SystemExit(3), "3"), (KeyboardInterrupt(), "KeyboardInterrupt"),
], ids=lambda value: repr(value)[:24])
def test_what_a_handler_raises_is_the_callers_error(
    mesh: LiveMesh, name: str, raised: BaseException, detail: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[tuple[object, ...]] = []  # a report with a lone surrogate in it could not go from process to process
    monkeypatch.setattr("rag_stdlib.mesh.macula_serving._LOG.exception", lambda *words: logged.append(words))

    def handler(_request: Request) -> object:
        raise raised

    async def failing() -> None:
        provider, caller = mesh.node("a"), mesh.node("c")
        served = await provider.serve(name, handler)
        with pytest.raises(ProviderError) as caught:
            await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
        assert (caught.value.code, caught.value.detail) == ("handler_error", detail)
        assert caught.value.name == getattr(raised, "name", caught.value.name)
        await served.stop()

    mesh.link("a", "c")
    mesh.run(failing())
    assert len(logged) == (0 if isinstance(raised, Refusal) else 1)


def test_handlers_run_in_threads_in_the_context_of_serve(mesh: LiveMesh, name: str) -> None:
    seen: list[tuple[str, bool]] = []

    def handler(_request: Request) -> object:
        refused = refusal("test", [RAG_WRITE], frozenset({"rag_read", "rag_write"}))
        seen.append((threading.current_thread().name, refused is None))
        return None

    async def served() -> None:
        node = await mesh.join("a")
        async with node:
            with grant(RAG_READ):
                await node.serve(name, handler)
            await node.call_pinned(name, provider=node.node_id, timeout_s=WAIT_S)

    mesh.run(served())
    assert seen == [(f"mesh-{mesh.id('a')[:8]}_0", False)]


def test_at_most_eight_handlers_of_a_node_run_and_the_loop_goes_on(mesh: LiveMesh, name: str) -> None:
    gate, running, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def handler(_request: Request) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.wait(WAIT_S)
        with lock:
            running[0] -= 1
        return 1

    async def crowded() -> list[PinnedReply]:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, handler)
            calls = [asyncio.create_task(caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)) for _ in range(20)]
            await until(lambda: running[0] == 8)
            await asyncio.sleep(0.2)
            gate.set()
            return await asyncio.gather(*calls)

    assert len(mesh.run(crowded())) == 20
    assert most == [8]


def test_a_call_whose_time_ran_out_in_the_queue_never_runs(mesh: LiveMesh, name: str) -> None:
    gate, ran = threading.Event(), []

    def handler(request: Request) -> object:
        ran.append(request.payload)
        gate.wait(WAIT_S)
        return None

    async def queued() -> None:
        provider, caller = await mesh.pair()
        async with provider, caller:
            await provider.serve(name, handler)
            full = [asyncio.create_task(caller.call_pinned(name, "first", provider=provider.node_id, timeout_s=WAIT_S)) for _ in range(8)]
            await until(lambda: len(ran) == 8)
            with pytest.raises(CallTimeout, match=r"within 0\.3 s"):
                await caller.call_pinned(name, "late", provider=provider.node_id, timeout_s=0.3)
            await asyncio.sleep(0.3)  # the call's own time began when it was signed, a little later
            gate.set()
            await asyncio.gather(*full)
            await caller.call_pinned(name, "after", provider=provider.node_id, timeout_s=WAIT_S)

    mesh.run(queued())
    assert ran == ["first"] * 8 + ["after"]
