"""The mesh in memory: who is reached, who is not, and what the two sides see of each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from memory_trio import ASK, A, B, C, Run, Trio, outcome, saying

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.mesh.errors import (
    InvalidCall,
    NoProvider,
    PayloadRefused,
    ProviderError,
    Refusal,
    RelayError,
    ServeRefused,
)
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import PinnedReply, ProviderInfo, Request, UnpinnedReply, own_procedure

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


# --- nodes -------------------------------------------------------------------------------------------------------------------


def test_a_node_is_known_by_its_key(pure_key: Callable[[int], NodeKey]) -> None:
    key = pure_key(1)
    node = MemoryMesh().node(key=key)
    assert (node.node_id, node.profile) == (key.node_id, "pq_pure")


def test_a_node_without_a_key_has_an_id_all_the_same() -> None:
    mesh = MemoryMesh()
    one, two, named = mesh.node(), mesh.node(profile="pq_hybrid"), mesh.node(node_id=A.upper())
    assert len({one.node_id, two.node_id}) == 2
    assert len(one.node_id) == 64
    assert (one.profile, two.profile, named.node_id) == ("pq_pure", "pq_hybrid", A)


def test_two_nodes_of_one_id_are_refused_until_the_first_has_left(run: Run) -> None:
    mesh = MemoryMesh()
    first = mesh.node(node_id=A)
    with pytest.raises(InvalidCall, match="on this mesh already"):
        mesh.node(node_id=A)
    run(first.close())
    second = mesh.node(node_id=A)

    async def body() -> None:
        await second.serve(ASK, saying("second"))
        await first.close()
        assert (await second.call_pinned(ASK, provider=A)).value == "second"
        with pytest.raises(InvalidCall):
            mesh.node(node_id=A)
        await second.close()

    run(body())


@pytest.mark.parametrize("wrong", [{"node_id": A}, {"profile": "pq_hybrid"}])
def test_id_and_profile_are_those_of_the_key(wrong: dict[str, Any], pure_key: Callable[[int], NodeKey]) -> None:
    with pytest.raises(InvalidCall, match="its key"):
        MemoryMesh().node(key=pure_key(1), **wrong)


# --- who is reached ----------------------------------------------------------------------------------------------------------


def test_a_pinned_call_reaches_exactly_the_node_it_names(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            await a.serve(ASK, saying("a"))
            await b.serve(ASK, saying("b"))
            assert await caller.call_pinned(ASK, provider=A) == PinnedReply("a", A)
            assert await caller.call_pinned(ASK, provider=B.upper()) == PinnedReply("b", B)

    run(body())


def test_an_unpinned_call_does_not_tell_who_answered(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            await a.serve(ASK, saying("a"))
            await b.serve(ASK, saying("b"))
            reply = await caller.call(ASK)
            assert reply == UnpinnedReply("b")
            assert not hasattr(reply, "provider")
            assert not isinstance(reply, PinnedReply)

    run(body())


def test_providers_are_listed_freshest_first(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            assert await caller.providers(ASK) == []
            served = await a.serve(ASK, saying(1))
            await b.serve(ASK, saying(2))
            assert await caller.providers(ASK) == [ProviderInfo(B), ProviderInfo(A)]
            await served.stop()
            await a.serve(ASK, saying(3))
            assert await caller.providers(ASK) == [ProviderInfo(A), ProviderInfo(B)]
            assert (await caller.call(ASK)).value == 3

    run(body())


def test_nobody_withdrawn_and_never_there_are_told_apart(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            assert isinstance(await outcome(caller.call(ASK)), NoProvider)
            never = await outcome(caller.call_pinned(ASK, provider=A))
            assert (type(never), never.provider) == (NoProvider, A)
            served = await a.serve(ASK, saying(1))
            assert isinstance(await outcome(caller.call_pinned(ASK, provider=B)), NoProvider)
            await served.stop()
            await served.stop()
            gone = await outcome(caller.call_pinned(ASK, provider=A))
            assert (type(gone), gone.code) == (RelayError, "unknown_next_peer")
            assert isinstance(await outcome(caller.call(ASK)), NoProvider)
            await a.serve(ASK, saying(2))
            assert (await caller.call_pinned(ASK, provider=A)).value == 2
            await b.close()
            assert isinstance(await outcome(caller.call_pinned(ASK, provider=B)), NoProvider)
            await a.close()
            assert isinstance(await outcome(caller.call_pinned(ASK, provider=A)), RelayError)

    run(body())


def test_stopping_an_old_service_leaves_the_new_one(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            old = await a.serve(ASK, saying("old"))
            await old.stop()
            await a.serve(ASK, saying("new"))
            await old.stop()
            assert (await caller.call_pinned(ASK, provider=A)).value == "new"

    run(body())


def test_a_node_calls_itself_like_any_other(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            await a.serve(ASK, lambda request: request.caller)
            assert (await a.call_pinned(ASK, provider=A)).value == A

    run(body())


def test_a_nodes_own_namespace_is_served_by_it_alone(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            mine = own_procedure(A, "status")
            await a.serve(mine, saying("mine"))
            assert (await caller.call(mine)).value == "mine"
            with pytest.raises(ServeRefused, match="another node"):
                await b.serve(mine, saying("not mine"))

    run(body())


def test_a_procedure_is_served_once_by_a_node(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            await a.serve(ASK, saying(1))
            with pytest.raises(ServeRefused, match="already"):
                await a.serve(ASK, saying(2))

    run(body())


@pytest.mark.parametrize("name", [
    "", "plain", "/name", "org/", "_/name", "é" * 256 + "/x", "a/" + "x" * 511, "~/x", "~ab/x", f"~{A}", f"~{'g' * 64}/x", "a/\ud83d",
])
def test_a_malformed_procedure_is_refused(name: str, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            for act in (a.serve(name, saying(1)), caller.call(name), caller.call_pinned(name, provider=A), caller.providers(name)):
                with pytest.raises(InvalidCall):
                    await act

    run(body())


def test_a_name_of_512_bytes_is_served(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            name = "a/" + "é" * 255
            await a.serve(name, saying(1))
            assert (await caller.call(name)).value == 1

    run(body())


@pytest.mark.parametrize("provider", ["", "zz", A[:-1], A + "a", f"{A}\n", "g" * 64, None, bytes.fromhex(A)])
def test_a_malformed_provider_is_refused(provider: Any, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, saying(1))
            with pytest.raises(InvalidCall, match="64 hex digits"):
                await caller.call_pinned(ASK, provider=provider)

    run(body())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), pytest.param(10**5_000, id="huge"), True, "5", None])
def test_a_time_that_is_none_is_refused(seconds: Any, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, saying(1))
            for act in (caller.call(ASK, timeout_s=seconds), caller.call_pinned(ASK, provider=A, timeout_s=seconds),
                        caller.publish("topic", 1, ttl_s=seconds)):
                with pytest.raises(InvalidCall, match="seconds"):
                    await act

    run(body())


# --- what crosses ------------------------------------------------------------------------------------------------------------


def test_payloads_cross_as_values_and_share_nothing(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            seen: list[Request] = []
            answer = {"list": [1]}

            def handler(request: Request) -> object:
                seen.append(request)
                return answer

            await a.serve(ASK, handler)
            asked = {"pair": (1, 2.0), "none": None, "raw": b"\xff"}
            reply = await caller.call(ASK, asked)
            assert seen == [Request(ASK, {"pair": [1, 2.0], "none": None, "raw": b"\xff"}, C)]
            assert reply.value == answer
            assert reply.value is not answer
            answer["list"].append(2)
            assert reply.value == {"list": [1]}

    run(body())


def test_a_request_that_cannot_cross_never_reaches_the_handler(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            called: list[object] = []
            await a.serve(ASK, called.append)
            for payload in ({"flag": True}, float("nan"), {"$bytes": "YQ=="}, b"x" * 0xFFFFFF):
                with pytest.raises(PayloadRefused):
                    await caller.call_pinned(ASK, payload, provider=A)
                with pytest.raises(PayloadRefused):
                    await caller.publish("topic", payload)
            assert called == []

    run(body())


@pytest.mark.parametrize(("value", "detail"), [
    ({"hits": [{"flag": True}]}, "payload_refused: hits[0].flag is a boolean; the mesh carries 1 and 0"),
    (b"x" * 0xFFFFFF, "payload_too_large: it takes more than 16,777,215 bytes"),
    (object(), "payload_refused: the payload is of type object; the mesh carries text, plain numbers, null, bytes, lists and maps"),
])
def test_a_reply_that_cannot_cross_is_the_handlers_error(value: object, detail: str, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, saying(value))
            error = await outcome(caller.call(ASK))
            assert (type(error), error.code, error.detail) == (ProviderError, "handler_error", detail)
            assert error.name == detail.partition(":")[0]

    run(body())


def raising(error: BaseException) -> Callable[[Request], NoReturn]:
    def handler(_request: Request) -> NoReturn:
        raise error

    return handler


class UnwritableError(Exception):
    """An exception that has no words."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no words")


@pytest.mark.parametrize(("raised", "detail", "name"), [
    (Refusal("dimension_mismatch", "expected 384 numbers, got 768"), "dimension_mismatch: expected 384 numbers, got 768", "dimension_mismatch"),
    (ValueError("no such thing"), "no such thing", "handler_error"),
    (ValueError(), "ValueError", "handler_error"),
    (ValueError("é" * 300), "é" * 128, "handler_error"),
    (ValueError("lone \ud83d"), "lone \\ud83d", "handler_error"),
    (UnwritableError(), "UnwritableError", "handler_error"),
    (TimeoutError("slow disk"), "slow disk", "handler_error"),
    (asyncio.CancelledError(), "CancelledError", "handler_error"),
    (SystemExit(3), "3", "handler_error"),
    (KeyboardInterrupt(), "KeyboardInterrupt", "handler_error"),
    (StopIteration(1), "1", "handler_error"),
    (RecursionError("too deep"), "too deep", "handler_error"),
], ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "")
def test_what_a_handler_raises_ends_its_own_call_only(raised: BaseException, detail: str, name: str, run: Run,
                                                      caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="rag_stdlib")  # a report with a lone surrogate in it cannot go from process to process

    async def body() -> None:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, raising(raised))
            error = await outcome(caller.call(ASK))
            assert (type(error), error.code, error.detail, error.name) == (ProviderError, "handler_error", detail, name)

    run(body())


def test_the_unexpected_is_logged_and_a_refusal_is_not(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with Trio() as (a, b, caller):
            await a.serve(ASK, raising(Refusal("not_found")))
            await outcome(caller.call(ASK))
            assert caplog.records == []
            await b.serve(ASK, raising(ValueError("a defect")))
            await outcome(caller.call(ASK))

    with caplog.at_level(logging.ERROR, logger="rag_stdlib"):
        run(body())
    record, = caplog.records
    assert ASK in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a defect"
