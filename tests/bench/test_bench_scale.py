"""The simulation of a federation: time that passes only where everyone waits, answers as the library gives them, and tables of all that."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import scale
from simulation import costs
from simulation.answers import EMBEDDING, TOP_K, Sample, sample, size
from simulation.model import CALLS, Latencies
from simulation.nodes import Shard, World
from simulation.page import percent, seconds, volume
from simulation.runs import Outcomes, Scenario, ask, shards
from simulation.virtual import Cores, run

from rag_stdlib.mesh.federation.payloads import read_answer
from rag_stdlib.records import MODES, Mode

COUNT = 40  # number 37 is dead, and 11 is slow
LONG_S = 600.0


@pytest.fixture(scope="module")
def asked() -> Sample:
    return sample()


@pytest.fixture(scope="module")
def living(asked: Sample) -> list[Shard]:
    return shards(asked, COUNT, Latencies(dead=0.0))


def world(latencies: Latencies | None = None, *, listing: bool = False) -> World:
    return World(latencies or Latencies(), CALLS["pq_pure"], costs.sizes("pq_pure"), cores=4, listing=listing)


def outcomes(asked: Sample, of: list[Shard], mode: Mode = "vector", fan_out: int | None = None, timeout_s: float = LONG_S) -> Outcomes:
    return ask(asked, of, world(), Scenario(mode, 3, timeout_s, fan_out))


# --- time ---

def test_an_hour_passes_at_once_and_sleepers_wake_in_order() -> None:
    woken: list[float] = []

    async def sleep(wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        woken.append(asyncio.get_running_loop().time())

    async def all_of_them() -> float:
        await asyncio.gather(*map(sleep, (3_600.0, 1.0, 60.0)))
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert run(all_of_them()) == pytest.approx(3_600.0)
    assert woken == pytest.approx([1.0, 60.0, 3_600.0])
    assert time.perf_counter() - began < 5


def test_a_thread_is_waited_for_in_virtual_time_too() -> None:
    async def threaded() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: "done")

    assert run(threaded()) == "done"


def test_work_waits_for_a_processor_and_what_is_urgent_goes_first() -> None:
    done: list[tuple[str, float]] = []

    async def busy() -> float:
        cores = Cores(2)

        async def work(name: str, urgent: bool = False) -> None:
            await cores.work(1.0, urgent=urgent)
            done.append((name, asyncio.get_running_loop().time()))

        given_up = asyncio.ensure_future(work("given up"))
        tasks = [asyncio.ensure_future(work(name, urgent)) for name, urgent in (("a", False), ("b", False), ("c", False), ("urgent", True))]
        await asyncio.sleep(0.5)
        given_up.cancel()
        tasks[1].cancel()  # while it waits for its turn
        await asyncio.gather(given_up, *tasks, return_exceptions=True)
        return cores.used_s

    assert run(busy()) == pytest.approx(3.5)
    assert done == [("a", pytest.approx(1.0)), ("urgent", pytest.approx(1.5)), ("c", pytest.approx(2.0))]


# --- answers ---

def test_each_shard_answers_each_round_as_a_real_one_does(asked: Sample) -> None:
    draw = random.Random(1)
    first, second = asked.of_shard(0, draw), asked.of_shard(1, draw)
    assert set(first) == {("vector", "hits"), ("lexical", "count"), ("lexical", "hits"), ("hybrid", "count"), ("hybrid", "words"), ("hybrid", "hits")}
    for (_, kind), answer in first.items():
        read = read_answer(answer)
        assert read is not None
        assert read.embedding == EMBEDDING
        assert len(read.hits) == (TOP_K if kind == "hits" else 0)
        assert read.statistics is not None or kind == "hits"
    texts = [hit["content"] for answers in (first, second) for hit in answers["vector", "hits"]["hits"]]  # type: ignore[index,call-overload]
    assert len(set(texts)) == 2 * TOP_K
    assert abs(size(first["hybrid", "hits"]) - size(asked.answers["hybrid", "hits"].payload())) < 200


@pytest.mark.parametrize("mode", MODES)
def test_every_living_shard_is_reached_where_there_is_time_and_a_tree_finds_the_same(asked: Sample, living: list[Shard], mode: Mode) -> None:
    flat, tree = outcomes(asked, living, mode), outcomes(asked, living, mode, fan_out=6)
    for found in (flat, tree):
        assert found.lost == [0.0] * 3
        assert found.recall == [1.0] * 3
        assert all(most <= whole for most, whole in zip(found.most, found.whole, strict=True))
    assert flat.calls == 3 * COUNT * scale.ROUNDS[mode]
    assert tree.calls == 3 * 2 * scale.ROUNDS[mode]
    assert tree.received < flat.received / 4
    assert tree.cores_s < flat.cores_s / 4


def test_a_run_gives_the_same_times_again(asked: Sample, living: list[Shard]) -> None:
    assert outcomes(asked, living).whole == outcomes(asked, living).whole


def test_a_dead_shard_takes_all_the_time_and_is_no_loss(asked: Sample) -> None:
    found = outcomes(asked, shards(asked, COUNT, Latencies()), timeout_s=30.0)
    assert found.whole == pytest.approx([30.0] * 3)
    assert max(found.most) < 30
    assert found.lost == [0.0] * 3


def test_who_is_late_is_lost_and_so_are_its_hits(asked: Sample, living: list[Shard]) -> None:
    found = outcomes(asked, living, timeout_s=0.06)
    assert found.whole == pytest.approx([0.06] * 3)
    assert all(0 < lost < 1 for lost in found.lost)
    assert min(found.recall) < 1
    assert all(most == float("inf") for most in found.most)


def test_shards_that_cannot_be_listed_in_time_are_all_lost(asked: Sample, living: list[Shard]) -> None:
    found = ask(asked, living, world(listing=True), Scenario("vector", 2, 0.05))
    assert (found.unlisted, found.lost, found.recall) == (2, [1.0, 1.0], [0.0, 0.0])


def test_topics_spare_the_shards_whose_filters_know_none_of_them(asked: Sample) -> None:
    of = shards(asked, COUNT, Latencies(dead=0.0))
    held = scale.give_topics(of)
    found = ask(asked, of, world(), Scenario("vector", 1, LONG_S, None, ("topic 3",)))
    assert sum("topic 3" in topics for topics in held) <= found.calls < COUNT


# --- what is measured ---

@pytest.mark.parametrize("profile", ["pq_pure", "pq_hybrid"])
def test_what_is_signed_takes_a_key_and_a_signature(profile: str) -> None:
    found = costs.sizes(profile)  # type: ignore[arg-type]
    least = {"pq_pure": 7_219, "pq_hybrid": 8_257}[profile]
    assert all(least < some < least + 500 for some in (found.request, found.reply, found.publication))
    assert 3 * least < found.record < 3 * least + 1_500


def test_rates_of_filters_are_what_is_expected_of_them() -> None:
    for topics, terms in ((100, 0), (20, 500)):
        found = costs.rate(topics, terms, probes=5_000)
        assert found.measured == pytest.approx(found.expected, abs=0.006)


def test_judging_and_summaries_take_time(living: list[Shard]) -> None:
    judging, summaries = costs.judging(living), costs.summaries()
    assert 0 < judging.merge_hit_s < judging.judge_hit_s < 0.01
    assert summaries.filter_size < summaries.size
    assert 0 < summaries.look_s < 0.01


# --- the page ---

def test_cells_are_short() -> None:
    assert [seconds(value) for value in (0.123, 12.3, float("inf"))] == ["0.12", "12", "never"]
    assert [volume(count) for count in (100, 99_000, 1.25e6, 2e9)] == ["100 B", "99.0 kB", "1.2 MB", "2,000 MB"]
    assert [percent(share) for share in (0.0, 0.00123, 0.5)] == ["0", "0.12 %", "50 %"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scale, "SIZES", {COUNT: 1})
    monkeypatch.setattr(scale, "FANS", (8,))
    monkeypatch.setattr(sys, "argv", ["scale.py"])
    rate = costs.rate
    monkeypatch.setattr(costs, "rate", lambda topics, terms: rate(min(topics, 100), min(terms, 100), 200))
    return


@pytest.mark.usefixtures("small")
def test_all_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("\n### ") == 11
    for table in printed.split("\n### ")[1:]:
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len(rows) > 2
        assert len({row.count("|") for row in rows}) == 1


def test_a_world_without_anything_slow_is_the_fan_out_alone(asked: Sample) -> None:
    calm = replace(Latencies(), dead=0.0, slow=0.0, held_up=0.0, sigma=0.0, search_sigma=0.0)
    found = ask(asked, shards(asked, 1, calm), world(calm), Scenario("vector", 1, LONG_S))
    made = CALLS["pq_pure"]
    assert found.whole == pytest.approx([calm.median_s + made.call_s + made.answer_s + 0.0055])
