"""A federation over real nodes some of which do wrong: each is accounted for once, the others answer in time, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from faulty_shards import GARBAGE, LIE, OURS, SCORE, THEIRS, FaultyProcess, FaultyShard, Place, Way
from leftovers import countable, held, system_threads
from station.station_lies import Lie
from station.station_mesh import LiveMesh, open_mesh, until

from rag_stdlib.mesh.errors import CallTimeout
from rag_stdlib.mesh.federation.failures import NoShards
from rag_stdlib.mesh.federation.judging import EmbeddingMismatch
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.macula_errors import GONE
from rag_stdlib.mesh.transport import HANDLERS

if TYPE_CHECKING:
    from typing_extensions import Self

pytest_plugins = ("station.station_fixtures",)

ROLES = "abcdefghi"
ASKING = "c"
APART = "e"  # is the node of processes
QUERY_MS = 1_500
ROUND_MS = 250
SLACK_S = 2.0  # beyond the deadline of a question, on a machine that is busy
BACK_S = 40.0  # for nodes to find back to a station
MORTAL_S = 5.0  # of silence, the least that nodes take for an end
ROUNDS, WARM = 20, 1


class Crowd:
    """Shards of a mesh, and node c, which asks them. ``async with`` ends all of them."""

    def __init__(self, mesh: LiveMesh) -> None:
        self.mesh = mesh
        self.asking = Federation()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen for shards."""
        await self._stack.enter_async_context(self.asking)
        station = self.mesh.station
        await self.asking.configure(self.mesh.node(ASKING), bytes.fromhex(station.realm_id), {
            "org": station.org, "shard_id": "asking", "realm_name": station.realm_name, "embedding": OURS, "query_timeout_ms": QUERY_MS})
        return self

    async def __aexit__(self, *_: object) -> None:
        """End them."""
        await self._stack.aclose()

    async def shards(self, ways: Mapping[str, Way]) -> dict[str, FaultyShard]:
        """Have nodes of this process serve, and wait until they are known."""
        station, made = self.mesh.station, {}
        for role, way in ways.items():
            shard = FaultyShard(self.mesh.node(role), station.realm_name, station.realm_id, station.org, way, self.mesh.id("a"))
            made[role] = await self._stack.enter_async_context(shard)
        await self.known(*ways)
        return made

    async def process(self, role: str, way: Way) -> FaultyProcess:
        """Have a node in a process of its own serve."""
        at = self.mesh.station
        place = Place(self.mesh.profile, role, at.host, at.port, at.node_id, at.realm_name, at.realm_id, at.realm_key.hex(), at.org, way.value)
        process = self._stack.enter_context(FaultyProcess(place))
        await asyncio.to_thread(process.wait_for, "serving")
        await self.known(role)
        return process

    async def known(self, *roles: str) -> None:
        wanted = set(map(self.mesh.id, roles))
        await until(lambda: wanted <= {shard.node_id for shard in self.asking.shards()})

    async def ask(self, timeout_ms: int = QUERY_MS) -> FederatedAnswer:
        """Ask all; whatever becomes of it, it is known soon after the deadline."""
        began = time.monotonic()
        try:
            return await self.asking.query({"text": "owls"}, timeout_ms=timeout_ms)
        finally:
            assert time.monotonic() - began < timeout_ms / 1_000 + SLACK_S

    async def again(self, fates: Mapping[str, str], timeout_ms: int = QUERY_MS) -> None:
        """Ask until each shard fares so; none is listed while its node has not found back."""
        async with asyncio.timeout(BACK_S):
            while True:
                try:
                    if self.account(await self.ask(timeout_ms)) == fates:
                        return
                except NoShards:
                    pass
                await asyncio.sleep(0.1)

    def account(self, answer: FederatedAnswer) -> dict[str, str]:
        """Say what became of each shard, by its role: ``answered``, or why not."""
        listed = [(each.node, "answered") for each in answer.answered]
        listed += [(each.node, each.reason.name) for each in answer.failed]
        listed += [(each.node, each.reason) for each in answer.not_asked]
        found = {self.role(node): what for node, what in listed}
        assert len(found) == len(listed), "a shard is in one list, and once in it"
        return found

    def role(self, node: str) -> str:
        return next(role for role in ROLES if self.mesh.id(role) == node)

    def hits_of(self, *roles: str) -> list[tuple[str, float, str, str]]:
        """Give what the hits of shards that answer are, in their order."""
        nodes = sorted(map(self.mesh.id, roles))
        return [(f"of {node}", SCORE, node, node[:8]) for node in nodes]


def hits(answer: FederatedAnswer) -> list[tuple[Any, ...]]:
    return [(hit["id"], hit["score"], hit["node_id"], hit["shard_id"]) for hit in answer.hits]


def admitted(mesh: LiveMesh, roles: str = ROLES) -> LiveMesh:
    for role in roles:
        mesh.station.admit(mesh.id(role))
    mesh.link(*(role for role in roles if role != APART))
    return mesh


@pytest.fixture(scope="module")
def mesh(pure_mesh: LiveMesh) -> LiveMesh:
    """Nodes of all roles, granted the organisation's procedures."""
    return admitted(pure_mesh)


@pytest.fixture
def own_station(mesh: LiveMesh) -> Iterator[LiveMesh]:
    """A mesh that a test may ruin."""
    mesh.needs_the_double()
    with open_mesh("pq_pure") as one:
        yield admitted(one)


MATRIX = {"a": Way.ANSWERS, "d": Way.LIES, "f": Way.WAITS, "g": Way.GARBAGE, "h": Way.OTHER_EMBEDDING}
VERDICTS = {"a": "answered", "d": "answered", "e": "timeout", "f": "timeout", "g": "malformed_answer", "h": "embedding_mismatch"}


def test_each_shard_is_accounted_for_and_the_rest_answer_in_time(any_mesh: LiveMesh) -> None:
    """One is killed amidst the question, one sleeps, one answers garbage, one answers another embedding, and one lies about who it is.

    In the profile pq_hybrid, where each node takes a second to make its keys, the one that is killed has to do for the one that sleeps.
    """
    ways = {role: way for role, way in MATRIX.items() if any_mesh.profile == "pq_pure" or way is not Way.WAITS}
    verdicts = {role: VERDICTS[role] for role in (*ways, APART)}

    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            await crowd.shards(ways)
            process = await crowd.process(APART, Way.WAITS)
            asking = asyncio.create_task(crowd.ask())
            await asyncio.to_thread(process.wait_for, "entered")
            process.kill()
            for answer in (await asking, await crowd.ask()):
                assert crowd.account(answer) == verdicts
                lie = ("h", LIE, mesh.id("d"), mesh.id("a")[:8])
                assert hits(answer) == [lie, *crowd.hits_of("a")], "a lie counts as of the node that told it"
                assert all(each.took_ms < QUERY_MS for each in answer.answered)
                assert all(each.asked for each in answer.failed)

    mesh = admitted(any_mesh, "".join((ASKING, *verdicts)))
    mesh.run(asked())


def test_a_shard_that_comes_back_after_it_was_killed_answers_again(mesh: LiveMesh) -> None:
    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            shards = await crowd.shards({"a": Way.ANSWERS, "b": Way.ANSWERS, "i": Way.ELSEWHERE})
            (await crowd.process(APART, Way.ANSWERS)).kill()
            others = {"a": "answered", "b": "answered", "i": "embedding_mismatch"}
            answer = await crowd.ask(600)
            assert crowd.account(answer) == {**others, "e": "timeout"}
            assert hits(answer) == crowd.hits_of("a", "b")
            await crowd.process(APART, Way.ANSWERS)
            answer = await crowd.ask()
            assert crowd.account(answer) == {**others, "e": "answered"}
            assert hits(answer) == crowd.hits_of("a", "b", APART)
            (other,) = answer.failed
            assert (other.asked, other.reason, shards["i"].asked) == (False, EmbeddingMismatch(THEIRS), 0)

    mesh.run(asked())


def test_garbage_of_every_kind_is_a_malformed_answer(mesh: LiveMesh) -> None:
    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            await crowd.shards({"a": Way.ANSWERS, "g": Way.GARBAGE, "h": Way.REFUSES})
            for _ in GARBAGE:
                answer = await crowd.ask()
                assert crowd.account(answer) == {"a": "answered", "g": "malformed_answer", "h": "store_opening"}
                assert hits(answer) == crowd.hits_of("a")

    mesh.run(asked())


def test_a_shard_that_has_gone_or_never_said_what_it_holds_is_accounted_for(mesh: LiveMesh) -> None:
    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            shards = await crowd.shards({"a": Way.ANSWERS, "b": Way.ANSWERS, "d": Way.ANSWERS})
            await shards["b"].federation.withdraw()
            await until(lambda: len(crowd.asking.shards()) == 2)
            assert crowd.account(await crowd.ask()) == {"a": "answered", "b": "no_summary", "d": "answered"}
            await shards["d"].federation.unregister_responder()
            assert crowd.account(await crowd.ask()) == {"a": "answered", "b": "no_summary"}

    mesh.run(asked())


# --- the station ---

@pytest.mark.parametrize("lie", [lie for lie in Lie if lie is not Lie.NONE])
def test_a_station_that_lies_brings_no_answer_in_anothers_name(mesh: LiveMesh, lie: Lie) -> None:
    mesh.needs_the_double()

    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            await crowd.shards({"a": Way.ANSWERS, "b": Way.ANSWERS, "i": Way.ELSEWHERE})
            true = await crowd.ask()
            told = mesh.station.lies_told()
            mesh.station.lie(lie)
            try:
                answer = await crowd.ask(300)
            finally:
                mesh.station.lie(Lie.NONE)
            assert mesh.station.lies_told() - told == 2
            assert crowd.account(answer) == {"a": "timeout", "b": "timeout", "i": "embedding_mismatch"}
            assert answer.hits == ()
            assert await crowd.ask() == true

    mesh.run(asked())


def test_a_station_that_is_started_again_between_questions_costs_no_shard(own_station: LiveMesh) -> None:
    mesh = own_station

    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            await crowd.shards({"a": Way.ANSWERS, "b": Way.ANSWERS, "g": Way.GARBAGE})
            before = await crowd.ask()
            await asyncio.to_thread(mesh.station.restart)
            await crowd.again(crowd.account(before))
            assert await crowd.ask() == before

    mesh.run(asked())


def test_a_station_that_is_started_again_amidst_a_question_costs_that_question_at_most(own_station: LiveMesh) -> None:
    mesh = own_station

    async def asked() -> None:
        async with Crowd(mesh) as crowd:
            shards = await crowd.shards({"a": Way.WAITS, "b": Way.WAITS, "d": Way.LIES})
            asking = asyncio.create_task(crowd.ask())
            await until(lambda: all(shard.asked for shard in shards.values()))
            await asyncio.to_thread(mesh.station.restart)
            fates = crowd.account(await asking)
            assert fates.keys() == {"a", "b", "d"}
            assert {fates["a"], fates["b"]} <= {"failed", "timeout"}, "their replies could not come back"
            for role in "ab":
                shards[role].gate.set()
            await crowd.again({"a": "answered", "b": "answered", "d": "answered"})

    mesh.run(asked())


def test_a_station_that_dies_without_a_word_holds_up_nobody(mesh: LiveMesh) -> None:
    """That it is gone is known from its silence; until then each question ends in its time, and after that at once."""
    mesh.needs_the_double()

    async def asked() -> None:
        async with Crowd(mortal) as crowd:
            shards = await crowd.shards({"a": Way.WAITS, "b": Way.ANSWERS})
            asking = asyncio.create_task(crowd.ask(600))
            await until(lambda: shards["a"].asked and shards["b"].asked)
            await asyncio.to_thread(mortal.station.kill)
            fates = crowd.account(await asking)
            assert fates.keys() == {"a", "b"}
            assert fates["a"] == "timeout"
            with pytest.raises(NoShards) as caught:
                await crowd.ask(300)
            assert isinstance(caught.value.reason, CallTimeout)
            shards["a"].gate.set()
            await asyncio.to_thread(mortal.station.begin_again)
            await crowd.again({"a": "answered", "b": "answered"})

    with open_mesh("pq_pure", MORTAL_S) as mortal:
        admitted(mortal, "abc")
        mortal.run(asked())


# --- nothing stays behind ---

@countable
def test_twenty_questions_to_a_crowd_that_does_wrong_leave_nothing_behind(mesh: LiveMesh) -> None:
    mesh.needs_the_double()
    ways = {"a": Way.ANSWERS, "b": Way.LIES, "d": Way.REFUSES, "f": Way.WAITS, "g": Way.GARBAGE, "h": Way.OTHER_EMBEDDING, "i": Way.ELSEWHERE}
    fates = {"a": "answered", "b": "answered", "d": "store_opening", "e": "timeout", "f": "timeout", "g": "malformed_answer",
             "h": "embedding_mismatch", "i": "embedding_mismatch"}

    async def asked() -> None:
        async with Crowd(own) as crowd:
            shards = await crowd.shards(ways)
            (await crowd.process(APART, Way.WAITS)).kill()
            most: list[int] = []
            accounted = 0
            for number in range(WARM + ROUNDS):
                if number == WARM:
                    before, tasks = held(pools=False), len(asyncio.all_tasks())
                if number == WARM + ROUNDS // 2:
                    await asyncio.to_thread(own.station.drop)
                    fates["e"] = GONE  # as the station knows now
                    await crowd.again(fates, 2 * ROUND_MS)
                with contextlib.suppress(NoShards):  # a station that is slow to list them, on a busy machine
                    found = crowd.account(await crowd.ask(QUERY_MS if number < WARM else ROUND_MS))
                    assert found.keys() == fates.keys()
                    assert all(fate in (fates[role], "timeout") for role, fate in found.items()), found
                    accounted += 1
                shards["f"].gate.set()
                await until(lambda: shards["f"].idle)
                shards["f"].gate.clear()
                most.append(system_threads())
            assert accounted > ROUNDS // 2
            await until(lambda: held(pools=False) <= before)
            assert len(asyncio.all_tasks()) <= tasks
            assert all(count <= HANDLERS for count in (held() - before).values()), "a pool has its bound"
            assert max(most) - most[WARM] < ROUNDS // 2, "nor does the library start a thread with each"

    with open_mesh("pq_pure") as own:
        outside = held()
        admitted(own)
        own.run(asked())
        own.close()
        own.run(until(lambda: held() <= outside))
