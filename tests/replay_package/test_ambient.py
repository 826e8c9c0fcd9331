"""Which session a call belongs to: contexts, threads, tasks, nesting."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

import replay

T = TypeVar("T")


@replay.tool
def double(x: int) -> int:
    return 2 * x


@replay.tool
def outer(x: int) -> int:
    return double(x) + 1


RAN: list[int] = []


@replay.tool
def counted(x: int) -> int:
    RAN.append(x)
    return x


def in_plain_thread(function: Callable[[], T]) -> T | BaseException:
    """Run a function in a thread that carries no context."""
    found: list[T | BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:  # noqa: BLE001 - handed to the test
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_without_a_session_there_is_none() -> None:
    assert replay.current() is None
    assert in_plain_thread(replay.current) is None


def test_a_block_counts_for_its_context_and_ends_with_it(tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl") as session:
        assert replay.current() is session
    assert replay.current() is None


def test_a_worker_thread_belongs_to_the_only_open_session(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path) as session:
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(double, range(4))) == [0, 2, 4, 6]
        assert session.ran == 4
    with replay.substitute(path, matching="keyed") as session:
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(double, range(4))) == [0, 2, 4, 6]
        assert session.answered == 4


def test_a_worker_thread_never_runs_live_inside_a_substitute_session(tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        double(1)
    with pytest.raises(replay.Divergence), replay.substitute(tmp_path / "t.jsonl"):
        error = in_plain_thread(lambda: double(99))
        assert isinstance(error, replay.Divergence)


def test_a_plain_thread_beside_several_sessions_is_refused_and_a_carried_one_is_not(tmp_path: Path) -> None:
    with replay.record(tmp_path / "a.jsonl") as first, replay.record(tmp_path / "b.jsonl") as second:
        error = in_plain_thread(lambda: double(1))
        assert isinstance(error, replay.ReplayError)
        assert "replay.carry" in str(error)
        assert in_plain_thread(replay.carry(lambda: double(1))) == 2
        assert (first.ran, second.ran) == (0, 1), "the innermost block counts"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Calls with 1, 2 and 3, to be replayed."""
    with replay.record(tmp_path / "trace.jsonl"):
        for number in (1, 2, 3):
            double(number)
    return tmp_path / "trace.jsonl"


def answering(trace: Path) -> replay.Session:
    return replay.substitute(trace, matching="keyed", leftover="report")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The arguments with which `counted` ran."""
    monkeypatch.setattr(f"{__name__}.RAN", [])
    return RAN


def test_a_task_beside_a_session_of_another_task_belongs_to_it(tmp_path: Path) -> None:
    async def with_session(entered: asyncio.Event, leave: asyncio.Event) -> Any:
        with replay.record(tmp_path / "t.jsonl") as session:
            entered.set()
            await leave.wait()
            double(1)
            return session

    async def program() -> tuple[Any, Any]:
        entered, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(with_session(entered, leave))
        await entered.wait()
        beside = replay.current()
        double(5)
        leave.set()
        return beside, await task

    beside, session = asyncio.run(program())
    assert beside is session
    assert session.ran == 2


def test_a_task_that_is_older_than_the_block_is_answered_in_it(trace: Path) -> None:
    async def program() -> tuple[int, int]:
        go = asyncio.Event()

        async def work() -> int:
            await go.wait()
            return double(1)

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        with answering(trace) as session:
            go.set()
            return await task, session.answered

    assert asyncio.run(program()) == (2, 1)


def test_a_block_entered_in_one_task_is_that_of_the_next_one_and_can_be_left_in_a_third(trace: Path) -> None:
    """As loops do that set up a fixture, run a test and tear down, each in a task of its own."""
    session = answering(trace)

    async def enter() -> None:
        session.__enter__()

    async def test() -> tuple[Any, int]:
        return replay.current(), double(1)

    async def leave() -> None:
        session.__exit__(None, None, None)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(enter())
        assert loop.run_until_complete(test()) == (session, 2)
        loop.run_until_complete(leave())
        assert replay.current() is None
    finally:
        loop.close()
    assert session.answered == 1


def test_the_main_thread_belongs_to_the_session_of_another_thread(trace: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with answering(trace):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(30)
    session = replay.current()
    leave.set()
    thread.join()
    assert isinstance(session, replay.Session)
    assert replay.current() is None


def test_a_thread_of_a_pool_that_once_held_a_session_belongs_to_the_next_one(trace: Path) -> None:
    def hold() -> None:
        with answering(trace):
            double(1)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold).result()
        with answering(trace) as session:
            assert pool.submit(double, 1).result() == 2
    assert session.answered == 1


def test_blocks_may_end_out_of_order(trace: Path) -> None:
    first, second, third = answering(trace), answering(trace), answering(trace)
    for session in (first, second, third):
        session.__enter__()
    assert replay.current() is third
    for session, innermost in ((second, third), (third, first), (first, None)):
        session.__exit__(None, None, None)
        assert replay.current() is innermost


def test_several_sessions_refuse_a_task_that_stands_in_none(trace: Path) -> None:
    async def program() -> None:
        go = asyncio.Event()

        async def work() -> int:
            await go.wait()
            return double(1)

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        with answering(trace), answering(trace):
            go.set()
            with pytest.raises(replay.ReplayError, match="2 replay sessions are open"):
                await task

    asyncio.run(program())


def test_a_session_inside_a_recorded_call_is_one_and_ends_with_its_block(trace: Path, ran: list[int]) -> None:
    @replay.tool
    def around(x: int) -> int:
        with replay.substitute(recorded_count, leftover="report") as inner:
            found = counted(x)
            assert inner.answered == 1
        return found + counted(10)

    recorded_count = trace.with_name("count.jsonl")
    with replay.record(recorded_count):
        counted(1)
    with replay.record(trace.with_name("o.jsonl")) as session:
        assert around(1) == 11
    assert ran == [1, 10]
    assert session.ran == 1, "what it calls behind the inner block is a part of it again"


def outliving(session: replay.Session, *calls: int) -> list[Any]:
    """Call from a task that was begun inside the block of a session, after its end."""

    async def program() -> list[Any]:
        go = asyncio.Event()

        async def work() -> list[Any]:
            await go.wait()
            found: list[Any] = []
            for number in calls:
                try:
                    found.append(counted(number))
                except replay.ReplayError as error:
                    found.append(str(error))
            return found

        with session:
            task = asyncio.ensure_future(work())
            await asyncio.sleep(0)
        go.set()
        return await task

    return asyncio.run(program())


@pytest.mark.parametrize("mode", ["record", "once", "all", "new_episodes", "differential"])
def test_a_task_that_outlives_a_recording_runs_live_and_is_told_once(trace: Path, ran: list[int], mode: Any) -> None:
    if mode == "differential":
        with replay.record(trace.with_name("x.jsonl")):
            pass
    session = replay.use_trace(mode, trace.with_name("x.jsonl"))
    with pytest.warns(replay.TraceWarning, match="is over: a call that was begun inside its block") as caught:
        assert outliving(session, 1, 2) == [1, 2]
    assert len(caught) == 1
    assert ran == [1, 2]


@pytest.mark.parametrize("mode", ["substitute", "none", "once", "mutation"])
def test_a_task_that_outlives_a_replay_is_refused_and_nothing_runs(trace: Path, ran: list[int], mode: Any) -> None:
    how = replay.ReplayOptions(leftover="report")
    session = replay.mutation(trace, 1, 5) if mode == "mutation" else replay.use_trace(mode, trace, replaying=how)
    if mode == "mutation":
        with session:
            double(1)
            found = replay.carry(replay.current)
        with pytest.raises(replay.ReplayError, match="is over"):
            found()
    else:
        assert all("is over, and this call was begun inside its block" in text for text in outliving(session, 1, 2))
    assert ran == []


def test_what_outlives_an_inner_block_belongs_to_the_one_around_it(trace: Path) -> None:
    with answering(trace) as around:
        with replay.record(trace.with_name("inner.jsonl")):
            late = replay.carry(lambda: double(1))
        assert late() == 2
    assert around.answered == 1


def test_what_outlives_a_replay_is_not_recorded_by_the_session_around_it(trace: Path, ran: list[int]) -> None:
    with replay.record(trace.with_name("around.jsonl")):
        with answering(trace):
            late = replay.carry(lambda: counted(1))
        with pytest.raises(replay.ReplayError, match="is over"):
            late()
    assert ran == []


def test_what_outlives_a_recording_belongs_to_the_next_session(trace: Path) -> None:
    with replay.record(trace.with_name("first.jsonl")):
        late = replay.carry(lambda: double(1))
    with answering(trace) as session:
        assert in_plain_thread(late) == 2
    assert session.answered == 1


def test_a_call_that_is_under_way_when_a_recording_ends_keeps_its_result(tmp_path: Path) -> None:
    async def program() -> int:
        go = asyncio.Event()

        @replay.tool
        async def slow(x: int) -> int:
            await go.wait()
            return x

        with replay.record(tmp_path / "t.jsonl"):
            task = asyncio.ensure_future(slow(4))
            await asyncio.sleep(0)
        go.set()
        return await task

    with pytest.warns(replay.TraceWarning, match="is over"):
        assert asyncio.run(program()) == 4


def test_a_call_that_comes_while_a_recording_ends_runs_live(tmp_path: Path, ran: list[int]) -> None:
    with replay.record(tmp_path / "t.jsonl") as session:
        pass
    late: replay.Call[int] = replay.Call("counted", lambda: [3], int, int)
    with pytest.warns(replay.TraceWarning, match="is over"):
        assert session.call(late, lambda: counted(3)) == 3
    assert ran == [3]


def test_a_thread_that_outlives_a_replay_runs_live(trace: Path, ran: list[int]) -> None:
    """It never stood in the block: it only belonged to what was open."""
    go = threading.Event()

    def work() -> int:
        go.wait(30)
        return counted(7)

    with ThreadPoolExecutor(1) as pool:
        with answering(trace):
            late = pool.submit(work)
        go.set()
        assert late.result() == 7
    assert ran == [7]


def test_a_loop_closed_over_a_pending_call_leaves_nothing_behind(tmp_path: Path) -> None:
    @replay.tool
    async def forever() -> None:
        await asyncio.sleep(0)  # yields once, and needs no loop for it

    with replay.record(tmp_path / "t.jsonl") as session:
        pending = forever()
        contextvars.copy_context().run(pending.send, None)
        pending.close()  # in another context than it ran in
        assert double(1) == 2
        assert session.ran == 2, "the call behind it is recorded: it is part of no other"


def test_a_live_block_left_in_another_context_is_left(trace: Path) -> None:
    def fixture() -> Iterator[None]:
        with replay.live():
            yield

    made = fixture()
    context = contextvars.copy_context()
    context.run(next, made)
    assert list(made) == []
    with answering(trace) as session:
        assert context.run(replay.current) is None, "where it was entered it goes on, as the context has it"
        assert replay.current() is session


def test_what_a_recorded_call_calls_is_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path) as session:
        assert outer(3) == 7
        assert session.ran == 1
    with replay.substitute(path) as session:
        assert outer(3) == 7
        assert session.answered == 1


def test_a_live_block_steps_out_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path) as session, replay.live():
        assert double(4) == 8
        assert replay.current() is None
    assert session.ran == 0
    with replay.substitute(path), replay.live():
        assert double(21) == 42


def test_an_inner_session_hides_the_outer_one(tmp_path: Path) -> None:
    with replay.record(tmp_path / "a.jsonl") as outer_one:
        double(1)
        with replay.record(tmp_path / "b.jsonl") as inner:
            double(2)
        double(3)
    assert (outer_one.ran, inner.ran) == (2, 1)
