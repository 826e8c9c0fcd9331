"""Many callers at once of one provider, real nodes: each is answered, and each with its own answer. ``bench/mesh.py`` is the long form."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import serving
from station.station_mesh import LiveMesh

from rag_stdlib.mesh.errors import ProviderError

pytest_plugins = ("station.station_fixtures",)

CALLERS = 64
CALLING = "bcdefghi"  # the roles of nodes, each of which calls for eight of them
SECONDS = 2.0
PATIENCE_S = 30.0
QUESTIONS = ("raven", "owl", "stork", "snow", "food for the winter", "nuts under leaves", "a mouse", "a nest")
ADMITTED = 256  # calls of one caller, for more than five minutes


@pytest.fixture(scope="module")
def loaded(mesh: LiveMesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A provider on node a, and what it answers to each question."""
    mesh.link("a", *CALLING)
    with serving.runtime(tmp_path_factory.mktemp("loaded")) as runtime:
        provider = serving.with_corpus(runtime, org=mesh.org)
        mesh.run(provider.serve(mesh.node("a")))
        yield provider


def test_64_callers_at_once_are_all_answered_what_they_asked(mesh: LiveMesh, loaded: Any) -> None:
    expected = {text: loaded.handle("answer_query", {"query_text": text, "top_k": 3}) for text in QUESTIONS}
    assert len({str(answer) for answer in expected.values()}) > 3
    answered = [0] * CALLERS

    async def caller(number: int, end: float) -> None:
        node, place = mesh.node(CALLING[number % len(CALLING)]), number
        while time.monotonic() < end or not answered[number]:
            text = QUESTIONS[place % len(QUESTIONS)]
            reply = await node.call_pinned(f"{mesh.org}/answer_query", {"query_text": text, "top_k": 3}, provider=mesh.id("a"), timeout_s=PATIENCE_S)
            assert reply.value == expected[text]
            answered[number] += 1
            place += 1

    async def together() -> None:
        end = time.monotonic() + SECONDS
        await asyncio.gather(*(caller(number, end) for number in range(CALLERS)))

    mesh.run(together())
    assert min(answered) > 0
    assert sum(answered) >= CALLERS


def test_a_caller_that_asks_more_than_is_admitted_is_told_so_and_the_others_are_not(mesh: LiveMesh, loaded: Any) -> None:
    del loaded
    name, refusals = f"{mesh.org}/ingest_status", []

    async def too_much() -> object:
        stranger = await mesh.join("d")
        async with stranger:
            for _ in range(ADMITTED + 1):
                try:
                    await stranger.call_pinned(name, provider=mesh.id("a"), timeout_s=PATIENCE_S)
                except ProviderError as error:
                    refusals.append(error.name)
                    break
        return (await mesh.node("b").call_pinned(name, provider=mesh.id("a"), timeout_s=PATIENCE_S)).value

    assert mesh.run(too_much())
    assert refusals == ["caller_quota"]
