"""The seam between a tool and what records it.

This folder is not called `replay`: with tests/ on the path, a folder of that name would stand in for the package.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import pytest

from replay import LIVE, Call, Live, Recorder


def never(*_args: object) -> NoReturn:
    raise AssertionError("a live call encodes nothing")


CALL: Call[Any] = Call("tool", never, never, never)


def test_live_runs_the_call_once_and_returns_its_very_result() -> None:
    runs: list[object] = []

    def run() -> object:
        runs.append(object())
        return runs[-1]

    assert LIVE.call(CALL, run) is runs[0]
    assert len(runs) == 1


def test_live_lets_an_exception_through() -> None:
    with pytest.raises(ZeroDivisionError):
        LIVE.call(CALL, lambda: 1 // 0)


def test_the_protocol_is_met_by_shape() -> None:
    class Remembering:
        def __init__(self) -> None:
            self.seen: list[tuple[str, list[Any], Any]] = []

        def call(self, call: Call[Any], run: Any) -> Any:
            encoded = call.encode(run())
            self.seen.append((call.tool, call.arguments(), encoded))
            return call.decode(encoded)

    recorder = Remembering()
    as_recorder: Recorder = recorder
    result = as_recorder.call(Call("sum", lambda: [1, 2], str, int), lambda: 3)
    assert (result, recorder.seen) == (3, [("sum", [1, 2], "3")])
    assert isinstance(LIVE, Live)


def test_a_call_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CALL.tool = "other"  # type: ignore[misc]
