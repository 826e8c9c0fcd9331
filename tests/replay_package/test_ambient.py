"""Which session a call belongs to: contexts, threads, tasks, nesting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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


def test_a_task_beside_a_session_of_another_task_stays_outside(tmp_path: Path) -> None:
    async def with_session(entered: asyncio.Event, leave: asyncio.Event) -> Any:
        with replay.record(tmp_path / "t.jsonl") as session:
            entered.set()
            await leave.wait()
            double(1)
            return session.ran

    async def program() -> tuple[Any, Any]:
        entered, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(with_session(entered, leave))
        await entered.wait()
        beside = replay.current()
        double(5)
        leave.set()
        return beside, await task

    assert asyncio.run(program()) == (None, 1)


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
