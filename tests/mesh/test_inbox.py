"""The inbox of a listener: order, bound, waiting, end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.inbox import Inbox
from rag_stdlib.mesh.transport import INBOX, Event

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def event(number: int) -> Event:
    return Event("a" * 64, "topic", number)


@given(count=st.integers(0, 2 * INBOX))
def test_the_latest_256_are_kept_in_their_order_and_the_others_counted(count: int) -> None:
    async def taken() -> list[object]:
        inbox = Inbox()
        for number in range(count):
            inbox.hear(event(number))
        inbox.end()
        assert inbox.dropped == max(0, count - INBOX)
        return [one.payload async for one in inbox]

    assert asyncio.run(taken()) == list(range(max(0, count - INBOX), count))


def test_all_who_wait_are_woken_and_one_of_them_gets_the_event(run: Run) -> None:
    async def woken() -> None:
        inbox = Inbox()
        waiting = [asyncio.create_task(inbox.next()) for _ in range(3)]
        await asyncio.sleep(0)
        inbox.hear(event(1))
        inbox.hear(event(2))
        inbox.end()
        assert sorted(str(found and found.payload) for found in await asyncio.gather(*waiting)) == ["1", "2", "None"]

    run(woken())


def test_a_wait_that_is_cancelled_or_runs_out_loses_no_event(run: Run) -> None:
    async def waited() -> None:
        inbox = Inbox()
        waiting = asyncio.create_task(inbox.next())
        await asyncio.sleep(0)
        inbox.hear(event(1))
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await inbox.next() == event(1)
        assert await inbox.next(0.01) is None
        inbox.hear(event(2))
        assert await inbox.next(0.01) == event(2)

    run(waited())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True])
def test_a_time_that_is_none_is_refused(run: Run, seconds: float) -> None:
    with pytest.raises(InvalidCall):
        run(Inbox().next(seconds))
