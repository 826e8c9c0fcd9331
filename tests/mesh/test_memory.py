"""The mesh in memory: who is reached, who is not, and what the two sides see of each other."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

import pytest

from rag_stdlib import RAG_READ, RAG_WRITE, grant
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.effects import refusal
from rag_stdlib.mesh.errors import (
    CallError,
    CallTimeout,
    InvalidCall,
    NoProvider,
    PayloadRefused,
    ProviderError,
    Refusal,
    RelayError,
    ServeRefused,
    TransportClosed,
)
from rag_stdlib.mesh.memory import HANDLERS, MemoryMesh, MemoryTransport
from rag_stdlib.mesh.transport import Event, PinnedReply, ProviderInfo, Request, UnpinnedReply, own_procedure

ASK = "acme/answer_query"
A, B, C = "aa" * 32, "bb" * 32, "cc" * 32
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []


class Trio:
    """Two providers and a caller on one mesh, which leave it in the end."""

    def __init__(self) -> None:
        mesh = MemoryMesh()
        self.a, self.b, self.caller = (mesh.node(node_id=node) for node in (A, B, C))

    async def __aenter__(self) -> tuple[MemoryTransport, MemoryTransport, MemoryTransport]:
        """Hand out the three."""
        return self.a, self.b, self.caller

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        async with self.a, self.b, self.caller:
            pass


def saying(value: object) -> Callable[[Request], object]:
    return lambda _request: value


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    while not condition():  # noqa: ASYNC110 - threads cannot set an asyncio.Event
        await asyncio.sleep(0.001)


async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call, and give what it returned or the failure it raised."""
    try:
        return await call
    except CallError as error:
        return error


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


# --- threads and time ----------------------------------------------------------------------------------------------------------


def test_handlers_run_in_threads_and_the_loop_goes_on(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, names = threading.Event(), []

            def handler(_request: Request) -> int:
                names.append(threading.current_thread().name)
                assert gate.wait(10)
                return 1

            await a.serve(ASK, handler)
            pending = asyncio.create_task(caller.call(ASK))
            await until(lambda: bool(names))
            assert not pending.done()
            gate.set()
            assert (await pending).value == 1
            assert names[0].startswith(f"mesh-{A[:8]}")

    run(body())


def test_at_most_eight_handlers_of_a_node_run_at_once(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            running, most, lock = 0, 0, threading.Lock()

            def handler(_request: Request) -> int:
                nonlocal running, most
                with lock:
                    running += 1
                    most = max(most, running)
                time.sleep(0.005)
                with lock:
                    running -= 1
                return 1

            await a.serve(ASK, handler)
            await a.serve("acme/other", handler)
            replies = await asyncio.gather(*(caller.call(name) for name in (ASK, "acme/other") * 20))
            assert len(replies) == 40
            assert 1 < most <= HANDLERS

    run(body())


def test_a_late_reply_is_dropped(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, finished = threading.Event(), []

            def handler(request: Request) -> object:
                if request.payload == "slow":
                    gate.wait(10)
                finished.append(request.payload)
                return request.payload

            await a.serve(ASK, handler)
            error = await outcome(caller.call(ASK, "slow", timeout_s=0.02))
            assert (type(error), error.seconds, finished) == (CallTimeout, 0.02, [])
            assert (await caller.call(ASK, "quick")).value == "quick"
            gate.set()
            await until(lambda: len(finished) == 2)
            assert (await caller.call(ASK, "again")).value == "again"

    run(body())


def test_a_call_whose_time_ran_out_in_the_queue_never_runs(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate, seen = threading.Event(), []

            def handler(request: Request) -> int:
                seen.append(request.payload)
                gate.wait(10)
                return 1

            await a.serve(ASK, handler)
            busy = [asyncio.create_task(caller.call(ASK, number)) for number in range(HANDLERS)]
            await until(lambda: len(seen) == HANDLERS)
            assert isinstance(await outcome(caller.call(ASK, "late", timeout_s=0.02)), CallTimeout)
            gate.set()
            await asyncio.gather(*busy)
            assert "late" not in seen

    run(body())


def test_a_cancelled_call_is_cancelled(run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, caller):
            gate = threading.Event()
            await a.serve(ASK, lambda _request: gate.wait(10) and None)
            call = asyncio.create_task(caller.call(ASK))
            await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gate.set()

    run(body())


def test_a_handler_has_the_grant_and_the_context_of_serve(run: Run) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    def may(effect: Any) -> int:
        return 0 if refusal("tool", (effect,), frozenset({"rag_read", "rag_write"})) else 1

    async def body() -> None:
        async with Trio() as (a, _b, caller):
            variable.set("at serve")
            with grant(RAG_READ):
                await a.serve(ASK, lambda _request: [may(RAG_READ), may(RAG_WRITE), variable.get()])
            variable.set("later")
            with grant():
                assert (await caller.call(ASK)).value == [1, 0, "at serve"]

    run(body())


def test_what_one_handler_sets_no_other_sees(run: Run) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    def handler(request: Request) -> str:
        seen = variable.get()
        variable.set(str(request.payload))
        return seen

    async def body() -> None:
        async with Trio() as (a, _b, caller):
            await a.serve(ASK, handler)
            assert {(await caller.call(ASK, number)).value for number in range(20)} == {"none"}  # type: ignore[comparison-overlap]

    run(body())


async def _awaited(_request: Request) -> None:
    """Stand for a handler that would have to be awaited."""


def _generated(_request: Request) -> Iterator[int]:
    yield 1


class _Awaited:
    """An object that would have to be awaited when it is called."""

    async def __call__(self, _request: Request) -> None:
        """Answer nothing."""


@pytest.mark.parametrize("handler", [_awaited, _generated, partial(_awaited), _Awaited(), None, "acme"])
def test_a_handler_is_a_plain_function(handler: Any, run: Run) -> None:
    async def body() -> None:
        async with Trio() as (a, _b, _caller):
            with pytest.raises(InvalidCall, match="plain function"):
                await a.serve(ASK, handler)

    run(body())


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
