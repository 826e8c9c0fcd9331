"""Sessions as programs use them: what is recorded comes back, and what differs is said."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import replay
from replay import endings


class World:
    """What tools reach for; a replay must leave it alone."""

    def __init__(self) -> None:
        self.runs: list[Any] = []


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def look(world: World) -> Any:
    @replay.tool
    def look(where: str, limit: int = 3) -> list[str]:
        world.runs.append((where, limit))
        if where == "nowhere":
            raise LookupError(f"no {where}")
        return [f"{where} {number}" for number in range(limit)]

    return look


def test_what_was_recorded_comes_back_and_nothing_runs(tmp_path: Path, world: World, look: Any) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path) as session:
        live = [look("a"), look("b", 1), look("a")]
        assert (session.ran, session.answered) == (3, 0)
    with replay.substitute(path) as again:
        assert [look("a"), look("b", limit=1), look("a")] == live
        assert (again.ran, again.answered, again.unused) == (0, 3, [])
        assert (again.run_id, again.seed, again.trace_path) == (session.run_id, session.seed, str(path))
    assert len(world.runs) == 3


def test_repeated_equal_calls_keep_their_separate_results(tmp_path: Path) -> None:
    """R168."""
    numbers = iter(range(100))

    @replay.tool
    def sample() -> int:
        return next(numbers)

    with replay.record(tmp_path / "t.jsonl"):
        assert [sample() for _ in range(30)] == list(range(30))
    for matching in ("ordered", "keyed"):
        with replay.substitute(tmp_path / "t.jsonl", matching=matching):
            assert [sample() for _ in range(30)] == list(range(30))


def test_time_and_randomness_that_a_program_wraps_come_back(tmp_path: Path) -> None:
    """The table of §6.8: recorded values are returned."""
    given: dict[str, Any] = {"now": 1699999999000, "random": 0.42}

    @replay.tool
    def now() -> int:
        return int(given["now"])

    @replay.tool
    def random() -> float:
        return float(given["random"])

    with replay.record(tmp_path / "t.jsonl"):
        assert (now(), random()) == (1699999999000, 0.42)
    given.update(now=1, random=0.1)
    with replay.substitute(tmp_path / "t.jsonl"):
        assert (now(), random()) == (1699999999000, 0.42)


def test_a_call_that_raised_raises_again(tmp_path: Path, world: World, look: Any) -> None:
    """Bug 22: a call that trapped has a recorded ending."""
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        with pytest.raises(LookupError, match=r"^no nowhere$"):
            look("nowhere")
        assert look("a", 1) == ["a 0"]
    with replay.substitute(path):
        with pytest.raises(LookupError, match=r"^no nowhere$"):
            look("nowhere")
        assert look("a", 1) == ["a 0"]
    assert len(world.runs) == 2


def test_a_result_that_is_no_json_is_refused_alike_live_and_on_replay(tmp_path: Path) -> None:
    @replay.tool
    def pair() -> Any:
        return (1, 2)

    with replay.record(tmp_path / "t.jsonl"), pytest.raises(replay.NotRecordable, match="tuple"):
        pair()
    with replay.substitute(tmp_path / "t.jsonl"), pytest.raises(replay.NotRecordable, match="tuple"):
        pair()


@replay.tool
async def slow(x: int) -> int:
    await asyncio.sleep(0 if x < 10 else 60)
    return x


async def impatient() -> list[Any]:
    """A program that gives up on slow calls, and goes on."""
    found: list[Any] = [await slow(1)]
    try:
        found.append(await asyncio.wait_for(slow(99), 0.05))
    except asyncio.TimeoutError:
        found.append("gave up")
    return [*found, await slow(2)]


def test_a_cancelled_call_is_recorded_as_such_and_replays_to_the_same_ending(tmp_path: Path) -> None:
    """R177."""
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        assert asyncio.run(impatient()) == [1, "gave up", 2]
    results = [event for event in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if event["kind"] == "tool_result"]
    assert [(event["result"], event.get("cancelled")) for event in results] == [(1, None), (None, True), (2, None)]
    with replay.substitute(path):
        assert asyncio.run(impatient()) == [1, "gave up", 2]


def test_a_cancelled_call_that_is_not_cancelled_again_diverges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "CANCEL_SECONDS", 0.01)
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        asyncio.run(impatient())

    async def patient() -> Any:
        return [await slow(1), await slow(99)]

    with pytest.raises(replay.Divergence, match="nobody cancelled it"), replay.substitute(path):
        asyncio.run(patient())


async def ask_all(numbers: list[int]) -> list[int]:
    return list(await asyncio.gather(*(slow(number) for number in numbers)))


def test_gathered_calls_replay_under_keyed_matching_in_any_order(tmp_path: Path) -> None:
    """R164."""
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        asyncio.run(ask_all([1, 2, 3]))
    with replay.substitute(path, matching="keyed"):
        assert asyncio.run(ask_all([3, 1, 2])) == [3, 1, 2]
    with replay.substitute(path):
        assert asyncio.run(ask_all([1, 2, 3])) == [1, 2, 3]
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        asyncio.run(ask_all([1, 3, 2]))
    assert (caught.value.code, caught.value.step) == ("other_call", 4)


def recorded(path: Path, look: Any) -> Path:
    with replay.record(path):
        look("a")
        look("b")
    return path


@pytest.mark.parametrize(("program", "code", "step", "says"), [
    ([("a", 3), ("c", 3)], "other_call", 5, 'differs at $[0]: "b" -> "c"'),
    ([("a", 4)], "other_call", 3, "differs at $[1]: 3 -> 4"),
    ([("b", 3)], "other_call", 3, "this very call stands at step 5: the order changed"),
    ([("a", 3), ("a", 3)], "other_call", 5, "this very call was recorded once, and asked for already"),
    ([("a", 3), ("b", 3), ("a", 3)], "exhausted", None, "all 2 recorded calls were asked; this call was recorded once"),
    ([("a", 3)], "left_over", 5, "one recorded call was not asked for (left over)"),
    ([], "left_over", 3, "2 recorded calls were not asked for (left over)"),
])
def test_ordered_matching_says_what_differs(tmp_path: Path, look: Any, world: World, program: list[Any], code: str, step: int | None,
                                            says: str) -> None:
    """Row 35: changed argument, order, extra call, missing call, early end."""
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        for arguments in program:
            look(*arguments)
    assert (caught.value.code, caught.value.step) == (code, step)
    assert says in str(caught.value)
    assert len(world.runs) == 2, "nothing ran"


def test_another_tool_is_another_call(tmp_path: Path, look: Any) -> None:
    @replay.tool
    def glance(where: str, limit: int = 3) -> list[str]:
        raise AssertionError(where, limit)

    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        glance("a")
    assert (caught.value.code, caught.value.step) == ("other_call", 3)
    assert caught.value.expected is not None
    assert caught.value.got is not None
    assert (caught.value.expected["tool"], caught.value.got["tool"]) == ("look", "glance")


@pytest.mark.parametrize(("program", "code", "says"), [
    ([("b", 3), ("a", 3), ("a", 3)], "consumed", "recorded once and is asked for the 2nd time"),
    ([("c", 3)], "never_recorded", "this call was never recorded"),
    ([("b", 3)], "left_over", "step 3"),
])
def test_keyed_matching_tells_never_recorded_from_used_up_from_left_over(tmp_path: Path, look: Any, program: list[Any], code: str,
                                                                         says: str) -> None:
    """R162."""
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path, matching="keyed"):
        for arguments in program:
            look(*arguments)
    assert caught.value.code == code
    assert says in str(caught.value)
    if code == "never_recorded":
        assert "step 3  look(" in str(caught.value)
        assert "(differs at $[0])" in str(caught.value)


def test_a_missing_trace_is_another_thing_than_a_call_that_was_not_recorded(tmp_path: Path, look: Any, world: World) -> None:
    with pytest.raises(replay.TraceError) as caught, replay.substitute(tmp_path / "none.jsonl"):
        look("a")
    assert caught.value.code == "trace_missing"
    assert world.runs == []


def test_a_divergence_that_the_program_swallows_is_raised_all_the_same(tmp_path: Path, look: Any, world: World) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    seen: list[str] = []
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        for where in ("a", "x", "b"):
            try:
                look(where)
            except Exception as error:  # noqa: BLE001 - as agents do
                seen.append(str(error))
    assert len(seen) == 2, "after the first divergence nothing is answered any more"
    assert seen[0] == seen[1] == str(caught.value)
    assert len(world.runs) == 2


def test_a_divergence_wrapped_by_the_program_is_raised_as_itself(tmp_path: Path, look: Any) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        try:
            look("x")
        except replay.ReplayError as error:
            raise RuntimeError("agent failed") from error
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_left_over_calls_can_be_reported_instead(tmp_path: Path, look: Any) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    with replay.substitute(path, leftover="report") as session:
        look("a")
    assert [call.args for call in session.unused] == [["b", 3]]


def test_a_run_that_failed_replays_to_the_same_failure(tmp_path: Path, look: Any) -> None:
    """Row 32: faithful is faithful, also to a failure."""
    path = tmp_path / "t.jsonl"
    for session in (replay.record(path), replay.substitute(path)):
        with pytest.raises(LookupError, match="no nowhere"), session:
            look("nowhere")
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path), pytest.raises(LookupError):
        look("nowhere")  # caught inside the block this time
    assert caught.value.code == "ended_otherwise"
    assert "ok: false -> true" in str(caught.value)


def test_a_failure_of_the_program_is_not_hidden_by_its_not_being_recorded(tmp_path: Path, look: Any) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(ZeroDivisionError), replay.substitute(path):
        look("a")
        _ = 1 // 0


def test_the_result_of_the_run_is_compared(tmp_path: Path, look: Any) -> None:
    path = tmp_path / "t.jsonl"
    for session in (replay.record(path), replay.substitute(path)):
        with session:
            session.complete({"answer": len(look("a"))})
    with pytest.raises(replay.Divergence, match=r'result: \{"answer":3\} -> null') as caught, replay.substitute(path):
        look("a")
    assert caught.value.path == "$.result"


@pytest.mark.parametrize(("changed", "path"), [({"agent": "other"}, "$.agent"), ({"args": [2]}, "$.args")])
def test_a_run_that_starts_otherwise_diverges_before_anything_is_asked(tmp_path: Path, look: Any, changed: dict[str, Any], path: str) -> None:
    with replay.record(tmp_path / "t.jsonl", agent="desk", args=[1]):
        look("a")
    with pytest.raises(replay.Divergence) as caught, replay.substitute(tmp_path / "t.jsonl", **{"agent": "desk", "args": [1], **changed}):
        pytest.fail("the block was entered")
    assert (caught.value.code, caught.value.step, caught.value.path) == ("started_otherwise", 2, path)


def test_an_unfinished_trace_is_replayed_only_when_asked_to(tmp_path: Path, look: Any) -> None:
    """Row 36, truncated: nothing runs; with incomplete=True it goes as far as it goes."""
    path = recorded(tmp_path / "t.jsonl", look)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]))  # ends after the second call began
    with pytest.raises(replay.TraceError) as refused, replay.substitute(path):
        pytest.fail("the block was entered")
    assert refused.value.code == "trace_incomplete"
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path, incomplete=True):
        assert look("a") == ["a 0", "a 1", "a 2"]
        look("b")
    assert (caught.value.code, caught.value.step) == ("unfinished_call", 5)


def test_a_session_is_used_once_and_in_a_with_statement(tmp_path: Path) -> None:
    session = replay.record(tmp_path / "t.jsonl")
    with pytest.raises(replay.ReplayError, match="not entered"):
        _ = session.unused
    with session:
        pass
    with pytest.raises(replay.ReplayError, match="used once"), session:
        pass


def test_secrets_in_live_arguments_are_redacted_before_they_are_matched(tmp_path: Path, look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 20, R166."""
    monkeypatch.setenv("DESK_TOKEN", "canary-4711-canary")
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        assert look("Bearer canary-4711-canary", 1) == ["Bearer canary-4711-canary 0"]
    assert b"canary" not in path.read_bytes()
    with replay.substitute(path):
        assert look("Bearer canary-4711-canary", 1) == ["Bearer <redacted> 0"]
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        look("canary-4711-canary", 2)
    assert "canary" not in str(caught.value)
    assert "canary" not in json.dumps(caught.value.to_dict())


def test_a_divergence_is_json(tmp_path: Path, look: Any) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        look("c")
    assert json.loads(json.dumps(caught.value.to_dict(), allow_nan=False))["code"] == "other_call"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_who_stops_the_program_is_not_told_of_a_hidden_divergence_instead(tmp_path: Path, look: Any, stop: type[BaseException]) -> None:
    path = recorded(tmp_path / "t.jsonl", look)
    with pytest.raises(stop), replay.substitute(path) as session:
        with suppress(replay.Divergence):
            look("x")
        raise stop
    assert isinstance(session.problem, replay.Divergence)


FORKING = """
import os, sys, threading
import replay

@replay.tool
def double(x: int) -> int:
    print("ran", x, flush=True)
    return 2 * x

def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = work() or 0
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def forking(folder: Path, program: str) -> list[str]:
    """Run a program that forks; return what it prints."""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING + textwrap.dedent(program)], cwd=folder, text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("matching", ["ordered", "keyed"])
def test_forked_children_record_and_replay_with_the_process_that_opened_the_session(tmp_path: Path, matching: str) -> None:
    assert forking(tmp_path, f"""
        for session in (replay.record("t.jsonl"), replay.substitute("t.jsonl", matching={matching!r})):
            with session:
                double(1)
                for number in (2, 3):
                    assert in_child(lambda: double(number) != 2 * number) == 0
                assert double(4) == 8
    """) == ["ran 1", "ran 2", "ran 3", "ran 4"]
    assert [call.args for call in replay.load_trace(tmp_path / "t.jsonl").calls] == [[1], [2], [3], [4]]


def test_a_forked_child_that_leaves_the_block_ends_nothing(tmp_path: Path) -> None:
    assert forking(tmp_path, """
        def run(*modes):
            for mode in modes:
                me = os.getpid()
                try:
                    with replay.use_trace(mode, "t.jsonl"):
                        assert double(1) == 2
                        if not (child := os.fork()):
                            sys.exit(0)
                        assert os.waitpid(child, 0)[1] == 0
                        assert double(2) == 4
                finally:
                    if os.getpid() != me:
                        assert replay.current() is None
                        os._exit(0)
        run("all", "none", "new_episodes", "differential")
    """) == ["ran 1", "ran 2"] * 2
    assert [call.args for call in replay.load_trace(tmp_path / "t.jsonl").calls] == [[1], [2]]
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_what_a_forked_child_would_keep_for_itself_is_refused(tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        replay.tool(name="double")(lambda x: 2 * x)(1)
    refused = ("ReplayError double was called in a forked process, and what this session finds is kept by the process that opened it; "
               "run the whole program by rag record or rag replay, or use threads")
    assert forking(tmp_path, """
        for session in (replay.differential("t.jsonl"), replay.mutation("t.jsonl", 1, 5), replay.use_trace("new_episodes", "t.jsonl")):
            with session:
                print(in_child(lambda: double(1)))
                print(double(1))
    """) == [refused, "1", "ran 1", "2", refused, "1", "5", refused, "1", "2"]


def test_a_fork_beside_threads_that_are_being_answered_is_answered_too(tmp_path: Path) -> None:
    assert forking(tmp_path, """
        import contextlib, io
        with contextlib.redirect_stdout(io.StringIO()), replay.record("t.jsonl"):
            for number in range(3000):
                double(number)
        with replay.substitute("t.jsonl", matching="keyed", leftover="report") as session:
            def spin(numbers):
                for number in numbers:
                    double(number)
            threads = [threading.Thread(target=spin, args=(range(at, 2900, 3),)) for at in range(3)]
            for thread in threads:
                thread.start()
            codes = [in_child(lambda: double(2999 - number) != 2 * (2999 - number)) for number in range(10)]
            for thread in threads:
                thread.join()
            print(codes, len(session.unused))
    """) == [f"{[0] * 10} 90"]
