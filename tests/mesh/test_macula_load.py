"""Many callers at once of one provider, real nodes: each is answered, and each with its own answer. ``bench/mesh.py`` is the long form."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import serving
from station.station_mesh import LiveMesh

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.mesh.errors import ProviderError
from rag_stdlib.mesh.macula import MaculaTransport

pytest_plugins = ("station.station_fixtures",)

CALLERS = 64
CALLING = "bcdefghi"  # the roles of nodes, each of which calls for eight of them
SECONDS = 2.0
MOST = 600  # calls, of the 1,024 that a node admits over one link
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
        while (time.monotonic() < end and sum(answered) < MOST) or not answered[number]:
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
    name, refused = f"{loaded.org}/ingest_status", []

    async def until_refused() -> int:
        key = NodeKey.generate(mesh.profile)
        async with await MaculaTransport.connect(key, mesh.seeds, mesh.station.realm_id, mesh.station.realm_key) as stranger:
            for count in range(2 * ADMITTED):
                try:
                    await stranger.call_pinned(name, provider=mesh.id("a"), timeout_s=PATIENCE_S)
                except ProviderError as error:
                    refused.append(error.name)
                    return count
        return 2 * ADMITTED

    assert mesh.run(until_refused()) == ADMITTED
    assert refused == ["caller_quota"]
    assert mesh.run(mesh.node("b").call_pinned(name, provider=mesh.id("a"), timeout_s=PATIENCE_S)).value
