"""The seam between a tool and what records it.

This folder is not called `replay`: with tests/ on the path, a folder of that name would stand in for the package.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from replay import Call, Recorder


class Remembering:
    """A recorder of somebody else's."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[Any], Any]] = []

    def call(self, call: Call[Any], run: Callable[[], Any]) -> Any:
        encoded = call.encode(run())
        self.seen.append((call.tool, call.arguments(), encoded))
        return call.decode(encoded)

    async def acall(self, call: Call[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        encoded = call.encode(await run())
        self.seen.append((call.tool, call.arguments(), encoded))
        return call.decode(encoded)


def test_the_protocol_is_met_by_shape() -> None:
    recorder = Remembering()
    as_recorder: Recorder = recorder

    async def run() -> int:
        return 4

    assert as_recorder.call(Call("sum", lambda: [1, 2], str, int), lambda: 3) == 3
    assert asyncio.run(as_recorder.acall(Call("sum", lambda: [2, 2], str, int), run)) == 4
    assert recorder.seen == [("sum", [1, 2], "3"), ("sum", [2, 2], "4")]


def test_a_call_is_frozen() -> None:
    call: Call[int] = Call("tool", list, str, int)
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.tool = "other"  # type: ignore[misc]


def test_a_call_without_further_words_is_a_tools_without_facts() -> None:
    call: Call[int] = Call("tool", list, str, int)
    assert (call.kind, call.plain, call.raises, call.facts(), call.ranking) == ("tool", False, (), {}, None)
