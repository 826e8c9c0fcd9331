"""Matching itself: used bytes, threads, nearest calls, and the wording of what does not match."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from replay.matching import Asked, Keyed, Ordered, _at_the_ends, described, make_matcher
from replay.recorder import Call
from replay.redaction.redactor import Redactor

REDACTOR = Redactor(environ={})


def asked(tool: str, *args: Any, kind: Any = "tool") -> Asked:
    return Asked.of(Call(tool, lambda: list(args), lambda value: value, lambda value: value, kind=kind), REDACTOR)


@replay.tool
def f(x: Any) -> Any:
    return x


def calls_of(path: Path, *values: Any) -> Any:
    with replay.record(path):
        for value in values:
            f(value)
    return replay.load_trace(path).calls


JSON = st.recursive(st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, -0.0, 1.0, 0.1 + 0.2]) | st.text(max_size=3),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=8)


@given(st.lists(JSON, max_size=6), st.randoms())
@settings(deadline=None)
def test_keyed_matching_answers_any_order_of_the_same_calls_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, values: list[Any],
                                                                            random: Any) -> None:
    calls = calls_of(tmp_path_factory.mktemp("t") / "t.jsonl", *values)
    matcher = Keyed(calls)
    shuffled = list(values)
    random.shuffle(shuffled)
    taken = [matcher.take(asked("f", value)) for value in shuffled]
    assert [asked("f", value).key for value in shuffled] == [call.key for call in taken]
    assert sorted(call.number for call in taken) == list(range(1, len(values) + 1))
    assert matcher.unused() == []
    with pytest.raises(replay.Divergence):
        matcher.take(asked("f", values[0] if values else None))


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, False), ([1], [1.0]), ({"a": 1}, {"a": True})])
def test_values_that_python_calls_equal_are_different_calls(tmp_path: Path, one: Any, other: Any) -> None:
    calls = calls_of(tmp_path / "t.jsonl", one)
    for matching in ("ordered", "keyed"):
        with pytest.raises(replay.Divergence):
            make_matcher(matching, calls).take(asked("f", other))  # type: ignore[arg-type]
        assert make_matcher(matching, calls).take(asked("f", one)).number == 1  # type: ignore[arg-type]


def test_the_order_of_keys_and_the_sign_of_zero_make_no_other_call(tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "t.jsonl", {"a": 1, "b": -0.0})
    assert Ordered(calls).take(asked("f", {"b": 0.0, "a": 1})).number == 1


def test_a_prompt_is_no_tool(tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "t.jsonl", 1)
    with pytest.raises(replay.Divergence):
        Keyed(calls).take(asked("f", 1, kind="llm"))
    with pytest.raises(replay.Divergence):
        Ordered(calls).expected(asked("f", 1, kind="llm"))


@pytest.mark.parametrize("matching", ["ordered", "keyed"])
def test_threads_never_get_the_same_recording(tmp_path: Path, matching: Any) -> None:
    calls = calls_of(tmp_path / "t.jsonl", *[0] * 400)
    matcher = make_matcher(matching, calls)
    taken: list[int] = []

    def work() -> None:
        taken.extend(matcher.take(asked("f", 0)).number for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 401))


@pytest.mark.parametrize("matching", ["ordered", "keyed"])
def test_matchers_that_share_a_buffer_share_what_was_used(tmp_path: Path, matching: Any) -> None:
    calls = calls_of(tmp_path / "t.jsonl", *[0] * 4)
    shared = bytearray(4)
    lock = threading.Lock()
    one, other = (make_matcher(matching, calls, shared, lambda: lock) for _ in range(2))
    assert [one.take(asked("f", 0)).number, other.take(asked("f", 0)).number, one.take(asked("f", 0)).number] == [1, 2, 3]
    assert [call.number for call in other.unused()] == [4]
    assert one.is_used(2)
    assert not one.is_used(3)


def test_the_nearest_calls_are_those_with_most_in_common_each_once(tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "t.jsonl", "refund policy", "refund policy", "shipping", "zebra", "refunds policy")
    with pytest.raises(replay.Divergence) as caught:
        Keyed(calls).take(asked("f", "refund police"))
    assert [near["args"] for near in caught.value.nearest[:2]] == [["refund policy"], ["refunds policy"]]
    assert len(caught.value.nearest) == 3
    assert str(caught.value).splitlines()[:4] == [
        "replay divergence at the end: this call was never recorded", '  got       f("refund police")', "  nearest recorded calls:",
        '    step 3  f("refund policy")  (differs at $[0])']


def test_a_call_of_an_unknown_tool_has_no_nearest(tmp_path: Path) -> None:
    with pytest.raises(replay.Divergence) as caught:
        Keyed(calls_of(tmp_path / "t.jsonl", 1)).take(asked("g", 1))
    assert caught.value.nearest == ()
    assert "nearest" not in str(caught.value)


@pytest.mark.parametrize(("times", "says"), [(1, "recorded once and is asked for the 2nd time"), (2, "recorded 2 times and is asked for the 3rd time"),
                                             (10, "for the 11th time"), (21, "for the 22nd time"), (30, "for the 31st time")])
def test_a_call_asked_once_more_than_recorded_says_how_often(tmp_path: Path, times: int, says: str) -> None:
    matcher = Keyed(calls_of(tmp_path / "t.jsonl", *[0] * times))
    for _ in range(times):
        matcher.take(asked("f", 0))
    with pytest.raises(replay.Divergence, match=says):
        matcher.take(asked("f", 0))


@pytest.mark.parametrize("matching", ["ordered", "keyed"])
def test_a_call_that_nothing_answers_is_found_out_without_a_text(tmp_path: Path, matching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """E: what is new beside a thousand long recordings costs no more than what is old."""
    matcher = make_matcher(matching, calls_of(tmp_path / "t.jsonl", 1, 2))
    monkeypatch.setattr(type(matcher), "_nearest", lambda *_: pytest.fail("nobody reads it"))
    assert matcher.find(asked("f", 9)) is None
    one, two = matcher.find(asked("f", 1)), matcher.find(asked("f", 2))
    assert [call and call.number for call in (one, two)] == [1, 2]
    assert [matcher.find(asked("f", value)) for value in (1, 9)] == [None, None]
    assert [matcher.code_of(asked("f", value)) for value in (1, 9)] == (["exhausted"] * 2 if matching == "ordered" else ["consumed", "never_recorded"])


def test_the_next_call_in_order_is_expected_whatever_its_arguments(tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "t.jsonl", 1, 2)
    ordered, keyed = Ordered(calls), Keyed(calls)
    assert [call and call.number for call in (ordered.expected(asked("f", value)) for value in (7, 8, 9))] == [1, 2, None]
    assert [call and call.number for call in (keyed.expected(asked("f", value)) for value in (2, 8, 1))] == [2, None, 1]
    with pytest.raises(replay.Divergence, match="another call came"):
        Ordered(calls).expected(asked("g", 1))


@pytest.mark.parametrize(("times", "says"), [(1, "the trace ends here, its one recorded call was asked; this call was recorded once"),
                                             (2, "the trace ends here, all 2 recorded calls were asked; this call was recorded 2 times")])
def test_the_end_of_the_trace_says_how_many_calls_it_has(tmp_path: Path, times: int, says: str) -> None:
    """R2-23."""
    matcher = Ordered(calls_of(tmp_path / "t.jsonl", *[0] * times))
    for _ in range(times):
        matcher.take(asked("f", 0))
    with pytest.raises(replay.Divergence, match=says):
        matcher.take(asked("f", 0))


def test_of_many_long_calls_the_nearest_is_found_among_those_that_begin_and_end_alike(tmp_path: Path) -> None:
    texts = [f"{number * 7919 % 1000:03} " + f"page {number} " * 400 + f" {number * 104729 % 1000:03}" for number in range(300)]
    calls = calls_of(tmp_path / "t.jsonl", *texts)
    wanted = texts[217]
    with pytest.raises(replay.Divergence) as caught:
        Keyed(calls).take(asked("f", wanted[:2000] + "x" + wanted[2001:]))
    assert caught.value.nearest[0]["step"] == calls[217].step


def test_how_many_calls_are_compared_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(tmp_path / "t.jsonl", "x" * 50, "y" * 50, "x" * 49)
    monkeypatch.setattr("replay.matching._COMPARED_BYTES", 100)
    with pytest.raises(replay.Divergence) as caught:
        Keyed(calls).take(asked("f", "x" * 48))
    assert [near["step"] for near in caught.value.nearest] == [calls[0].step, calls[1].step]


@given(st.binary(min_size=1, max_size=30), st.binary(min_size=1, max_size=30))
@settings(deadline=None)
def test_what_two_texts_have_in_common_at_their_ends_is_counted(one: bytes, other: bytes) -> None:
    def common(left: bytes, right: bytes) -> int:
        return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))

    assert _at_the_ends(one, other) == common(one, other) + common(one[::-1], other[::-1])


def test_long_arguments_are_cut_where_calls_are_named() -> None:
    assert len(described(asked("f", "x" * 500, "y" * 500))) < 140
