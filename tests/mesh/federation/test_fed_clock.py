"""Time, and the ends of things that wait for it."""

from __future__ import annotations

import asyncio
import time

import pytest
from fed_mesh import Run, StillClock, settle

from rag_stdlib.mesh.errors import CallTimeout
from rag_stdlib.mesh.federation.clock import Deadline, Ending, Stragglers, SystemClock, within


def test_the_system_clock_is_the_machines(run: Run) -> None:
    clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1_000) < 5_000
    before = clock.monotonic()
    run(clock.sleep(0.01))
    assert clock.monotonic() - before >= 0.009


def test_a_pause_ends_with_the_loop(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        ending = Ending(clock)
        pause = asyncio.create_task(ending.pause(60.0))
        await clock.advance(59.0)
        assert not pause.done()
        assert not ending
        ending.tell()
        await pause
        assert ending
        await ending.pause(60.0)

    run(body())


def test_what_is_waited_for_is_returned_or_raised(run: Run) -> None:
    async def value() -> int:
        return 7

    async def defect() -> None:
        raise KeyError("defect")

    async def body() -> None:
        ending = Ending(StillClock())
        assert await ending.first(value()) == 7
        with pytest.raises(KeyError):
            await ending.first(defect())

    run(body())


def test_a_deadline_counts_down_to_nothing(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        deadline = Deadline(clock, 2.0, "acme/x")
        await clock.advance(0.5)
        assert (deadline.passed, deadline.left) == (0.5, 1.5)
        await clock.advance(5.0)
        assert deadline.left == 0.0
        await deadline.wait()
        assert str(deadline.timeout) == "no reply from acme/x within 2 s"

    run(body())


def test_an_act_that_is_too_slow_is_let_go_and_ends_in_its_own_time(run: Run) -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)
            ended.append("late")
            raise RuntimeError("and with a failure") from None

    async def body() -> None:
        clock, stragglers = StillClock(), Stragglers()
        act = asyncio.create_task(within(Deadline(clock, 1.0, "x/y"), stragglers, stubborn()))
        await clock.advance(1.0)
        with pytest.raises(CallTimeout):
            await act
        assert ended == []
        await stragglers.ended()
        assert ended == ["late"]
        await stragglers.ended()

    run(body())


def test_an_act_whose_caller_is_cancelled_is_let_go(run: Run) -> None:
    async def body() -> None:
        clock, stragglers = StillClock(), Stragglers()
        act = asyncio.create_task(within(Deadline(clock, 1.0, "x/y"), stragglers, asyncio.sleep(60)))
        await settle()
        act.cancel()
        with pytest.raises(asyncio.CancelledError):
            await act
        await stragglers.ended()

    run(body())


def test_tasks_that_are_done_need_no_letting_go(run: Run) -> None:
    async def defect() -> None:
        raise KeyError("defect")

    async def body() -> None:
        stragglers = Stragglers()
        failed, fine, gone = (asyncio.ensure_future(each) for each in (defect(), asyncio.sleep(0), asyncio.sleep(60)))
        gone.cancel()
        await asyncio.wait([failed, fine, gone])
        stragglers.drop(failed, fine, gone)
        await stragglers.ended()

    run(body())
