"""Runs of a simulated federation: questions by the library's own search, and what became of them."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from rag_stdlib.mesh.federation.failures import NoShards
from rag_stdlib.mesh.federation.query import FederatedAnswer, Place
from rag_stdlib.mesh.federation.searching import search
from rag_stdlib.records import Mode
from simulation.answers import TOP_K, Sample
from simulation.model import SEED, Latencies
from simulation.nodes import Callee, Links, Shard, World, node_id, place, tree
from simulation.virtual import run

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.shard import Federation

GAP_S = 1.0  # between two questions


@dataclass(frozen=True)
class Scenario:
    """How a federation is asked; without `fan_out`, every shard is asked by the node itself."""

    mode: Mode
    questions: int
    timeout_s: float
    fan_out: int | None = None
    topics: tuple[str, ...] = ()


@dataclass
class Outcomes:
    """What became of the questions of a run; times in seconds, of each question."""

    whole: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)  # until 95 % of the shards had answered; infinite where fewer did
    lost: list[float] = field(default_factory=list)  # the share of living shards whose hits are not in the answer
    recall: list[float] = field(default_factory=list)  # of the best hits of all living shards
    sent: int = 0
    received: int = 0
    calls: int = 0
    cores_s: float = 0.0
    unlisted: int = 0
    real_s: float = 0.0

    @property
    def count(self) -> int:
        """How many questions there were."""
        return len(self.whole)


def shards(sample: Sample, count: int, latencies: Latencies, seed: int = SEED) -> list[Shard]:
    """Make so many shards; those of a smaller federation are the first of a larger one."""
    draw = random.Random(seed)
    return [Shard(number, sample.of_shard(number, draw), latencies) for number in range(count)]


def ask(sample: Sample, of: Sequence[Shard], world: World, scenario: Scenario) -> Outcomes:
    """Run a scenario."""
    for shard in of:
        shard.world = world
    return run(_asked(sample, of, world, scenario))


class _Root:
    """The node that asks, as far as a search looks at a `Federation`."""

    def __init__(self, world: World, callees: Sequence[Callee]) -> None:
        self.links = Links(world, node_id("asking"), callees)
        self.place: Place = place(self.links, callees)


async def _asked(sample: Sample, of: Sequence[Shard], world: World, scenario: Scenario) -> Outcomes:
    root, outcomes = _Root(world, of if scenario.fan_out is None else tree(world, of, scenario.fan_out)), Outcomes()
    living = [shard for shard in of if not shard.dead]
    best = {hit["id"] for hit in sorted((hit for shard in living for hit in shard.vector_answer["hits"]), key=lambda hit: -hit["score"])[:TOP_K]}
    vector = None if scenario.mode == "lexical" else sample.vector
    loop, began = asyncio.get_running_loop(), time.process_time()
    for number in range(scenario.questions):
        text, start = sample.text(number), loop.time()
        answer: FederatedAnswer | None = None
        try:
            answer = await search(cast("Federation", root), text, mode=scenario.mode, vector=vector, topics=scenario.topics, top_k=TOP_K,
                                  timeout_ms=round(scenario.timeout_s * 1_000))
            await root.links.merge(answer.answered)
        except NoShards:
            outcomes.unlisted += 1
        outcomes.whole.append(loop.time() - start)
        _note(outcomes, answer, root.links, text, len(of), len(living), best)
        await asyncio.sleep(GAP_S)
    outcomes.real_s = time.process_time() - began
    outcomes.sent, outcomes.received, outcomes.calls = root.links.sent, root.links.received, root.links.calls
    outcomes.cores_s = root.links.used_s
    await root.place.stragglers.ended()
    return outcomes


def _note(outcomes: Outcomes, answer: FederatedAnswer | None, links: Links, text: str, count: int, living: int, best: set[Any]) -> None:
    answered = () if answer is None else answer.answered
    reached, most = 0, math.inf
    for each in sorted(answered, key=lambda each: each.took_ms):
        reached += links.callees[each.node].reached(text)
        if reached >= 0.95 * count and most == math.inf:
            most = each.took_ms / 1_000
    outcomes.most.append(most)
    outcomes.lost.append(1 - reached / living)
    outcomes.recall.append(len(best & {hit["id"] for hit in (answer.hits if answer is not None else ())}) / len(best))
