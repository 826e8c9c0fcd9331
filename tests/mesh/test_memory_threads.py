"""Handlers of the mesh in memory: in threads, in their context, within their time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from memory_trio import ASK, A, Run, Trio, outcome, until

from rag_stdlib import RAG_READ, RAG_WRITE, grant
from rag_stdlib.effects import refusal
from rag_stdlib.mesh.errors import (
    CallTimeout,
    InvalidCall,
)
from rag_stdlib.mesh.memory import HANDLERS
from rag_stdlib.mesh.transport import Request

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


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
