"""A federation of 10 to 10,000 shards, simulated: what a question takes, sends and loses, and what a tree or Bloom filters would save.

The code that asks, judges, adds up statistics and merges is the library's own, the payloads are made by its encoder and its filters are
real. Simulated are the calls: `simulation/model.py` says how long they take and what they cost. Time is virtual, so a run takes minutes and
gives the same times again, but for what is measured of the machine (sizes, judging, merging, filters).

Prints the tables of docs/scale.md as Markdown: ``python bench/scale.py``; ``--most 1000`` is a shorter run.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from measure import quantile
from simulation import costs
from simulation.answers import TOP_K, Sample, sample, size
from simulation.costs import TERMS, TOPICS, Judging, Summaries
from simulation.model import CALLS, Latencies
from simulation.nodes import Shard, World
from simulation.page import mean, percent, seconds, table, volume
from simulation.runs import Outcomes, Scenario, ask, shards

from rag_stdlib.contract.cbor import MAX_BYTES
from rag_stdlib.contract.nodekeys import PROFILES, Profile
from rag_stdlib.mesh.federation.bloom import Bloom, rules_out
from rag_stdlib.mesh.federation.settings import QUERY_TIMEOUT_MS, SUMMARY_REPUBLISH_MS
from rag_stdlib.records import Mode

SIZES = {10: 60, 30: 60, 100: 30, 300: 12, 1_000: 6, 3_000: 3, 10_000: 2}  # shards, and how many questions are asked of so many
FANS = (32, 100)
TREE_MODES: tuple[Mode, ...] = ("vector", "hybrid")
MOST_PURE = 1_000  # shards of a tree of the other profile
MODES: tuple[Mode, ...] = ("vector", "lexical", "hybrid")
ROUNDS = {"vector": 1, "lexical": 2, "hybrid": 3}
TIMEOUT_S = QUERY_TIMEOUT_MS / 1_000
NO_END_S = 3_600.0
UNIVERSE = 1_000  # topics that there are
FILTERS = 500  # different ones, however many shards
QUOTA, SHARE, KEPT_S = 256, 1_024, 300.0  # what a node admits: of one caller, over one link, until so long after the deadline


class Bench:
    """What the tables share."""

    def __init__(self, most: int, cores: int) -> None:
        """Make the shards."""
        self.sizes = [count for count in SIZES if count <= most]
        self.cores = cores
        self.sample: Sample = sample()
        self.all = Latencies()
        self.living = replace(self.all, dead=0.0)
        self.with_dead = shards(self.sample, self.sizes[-1], self.all)
        self.without_dead = shards(self.sample, self.sizes[-1], self.living)
        self.judging: Judging = costs.judging(self.without_dead[:300])
        self._known: dict[tuple[object, ...], Outcomes] = {}

    def world(self, profile: Profile, *, dead: bool, listing: bool) -> World:
        """Make a world of its own for a run."""
        calls = replace(CALLS[profile], judge_hit_s=self.judging.judge_hit_s, merge_hit_s=self.judging.merge_hit_s)
        return World(self.all if dead else self.living, calls, costs.sizes(profile), cores=self.cores, listing=listing)

    def run(self, profile: Profile, count: int, scenario: Scenario, *, dead: bool, listing: bool) -> Outcomes:
        """Ask a federation of so many shards; what was asked before is known."""
        key = profile, count, scenario, dead, listing
        if key not in self._known:
            of = (self.with_dead if dead else self.without_dead)[:count]
            self._known[key] = ask(self.sample, of, self.world(profile, dead=dead, listing=listing), scenario)
        return self._known[key]


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=max(SIZES), help="shards of the largest federation")
    parser.add_argument("--cores", type=int, default=4, help="of the node that asks, and of each coordinator")
    options = parser.parse_args()
    began = time.perf_counter()
    bench = Bench(options.most, options.cores)
    measured(bench)
    as_it_is(bench)
    without_end(bench)
    trees(bench)
    filters()
    routing(bench)
    told(bench)
    admitted()
    print(f"\nTook {time.perf_counter() - began:.0f} s.")
    return 0


# --- cells ---

def times(outcomes: Outcomes) -> list[str]:
    """Write the quantiles of the whole answer, and the median of the time to 95 % of the shards."""
    return [*(seconds(quantile(outcomes.whole, share)) for share in (0.5, 0.95, 0.99)), seconds(quantile(outcomes.most, 0.5))]


def lost(outcomes: Outcomes) -> str:
    """Write the share of living shards that are not in the answer."""
    return "all, not listed in time" if outcomes.unlisted == outcomes.count else percent(mean(outcomes.lost))


# --- what is measured ---

def measured(bench: Bench) -> None:
    """Sizes by the real encoder, and the processor's time of judging and merging."""
    sent, answers = bench.sample.sent, bench.sample.answers
    table("Payloads, by the encoder of the mesh", ("mode", "round", "question", "answer"),
          [(*key, volume(size(sent[key])), volume(size(answers[key].payload()))) for key in sent])
    found = [(profile, costs.sizes(profile), CALLS[profile], costs.checking_s(profile)) for profile in PROFILES]
    table("Beside each payload", ("profile", "a question", "an answer", "a provider in a listing", "of which a frame holds", "a publication"),
          [(profile, volume(some.request), volume(some.reply), volume(some.record), f"{MAX_BYTES // some.record}", volume(some.publication))
           for profile, some, _, _ in found])
    table("Processor time of a call on real nodes, from bench/mesh.py, and of checking a signature here",
          ("profile", "who asks", "of that the event loop", "who answers", "a provider in a listing", "a signature"),
          [(profile, *(f"{took * 1e3:.1f} ms" for took in (calls.call_s, calls.loop_s, calls.answer_s, calls.listed_s)), f"{check * 1e3:.2f} ms")
           for profile, _, calls, check in found])
    judge, merge = bench.judging.judge_hit_s, bench.judging.merge_hit_s
    table("Processor time of judging and merging, measured", ("shards", "hits", "judging", "merging"),
          [(f"{count:,}", f"{count * TOP_K:,}", f"{judge * count * TOP_K:.3f} s", f"{merge * count * TOP_K:.3f} s") for count in bench.sizes])


# --- flat ---

def as_it_is(bench: Bench) -> None:
    """Every shard asked by the node itself, with the default time, dead shards, and a listing in each question."""

    def rows() -> Iterable[Sequence[str]]:
        for profile, mode, count in product(PROFILES, MODES, bench.sizes):
            found = bench.run(profile, count, Scenario(mode, SIZES[count], TIMEOUT_S), dead=True, listing=True)
            yield profile, mode, f"{count:,}", *times(found), lost(found), percent(1 - mean(found.recall))

    table(f"One node asks all, in {TIMEOUT_S} s with the listing; 1 % of the shards are dead",
          ("profile", "mode", "shards", "p50 s", "p95 s", "p99 s", "95 % of shards s", "living shards lost", "recall lost"), rows())


def without_end(bench: Bench) -> None:
    """The same without an end, a listing or dead shards: what the fan-out takes and costs."""

    def rows() -> Iterable[Sequence[str]]:
        for profile, mode, count in product(PROFILES, MODES, bench.sizes):
            found = bench.run(profile, count, Scenario(mode, SIZES[count], NO_END_S), dead=False, listing=False)
            yield (profile, mode, f"{count:,}", *times(found), volume(found.sent / found.count), volume(found.received / found.count),
                   f"{found.cores_s / found.count:.2f} s")

    table("One node asks all, without an end; none is dead, and who serves is known",
          ("profile", "mode", "shards", "p50 s", "p95 s", "p99 s", "95 % of shards s", "sent", "received", "processor of the asking node"), rows())


# --- trees ---

def trees(bench: Bench) -> None:
    """The node asks coordinators, and these the shards, or coordinators again."""

    def rows() -> Iterable[Sequence[str]]:
        for profile, mode, count, fan_out in product(PROFILES, TREE_MODES, bench.sizes, (None, *FANS)):
            if count < FANS[0] or (fan_out or 0) >= count or (profile == "pq_pure" and count > MOST_PURE):
                continue
            calm = bench.run(profile, count, Scenario(mode, SIZES[count], NO_END_S, fan_out), dead=False, listing=False)
            hasty = bench.run(profile, count, Scenario(mode, SIZES[count], TIMEOUT_S, fan_out), dead=True, listing=True)
            yield (profile, mode, f"{count:,}", "-" if fan_out is None else str(fan_out), seconds(quantile(calm.whole, 0.5)),
                   volume((calm.sent + calm.received) / calm.count), f"{calm.cores_s / calm.count:.2f} s", seconds(quantile(hasty.whole, 0.5)),
                   lost(hasty), percent(1 - mean(hasty.recall)))

    table(f"A tree of coordinators: without an end, then in {TIMEOUT_S} s with listings and dead shards",
          ("profile", "mode", "shards", "fan-out", "p50 s", "bytes at the root", "processor of the root", f"in {TIMEOUT_S} s: p50 s",
           "living shards lost", "recall lost"), rows())


# --- filters ---

def filters() -> None:
    """How often a filter takes a topic for held that is not."""
    found = [costs.rate(topics, terms) for topics, terms in
             ((10, 0), (100, 0), (20, 2_000), (100, 2_000), (1_000, 2_000), (10_000, 2_000), (20, 20_000), (1_000_000, 0))]
    table("False positives of filters, 20,000 probes each", ("topics", "terms", "filter", "expected", "measured"),
          [(f"{rate.topics:,}", f"{rate.terms:,}", volume(rate.size), f"{rate.expected * 100:.2f} %", f"{rate.measured * 100:.2f} %") for rate in found])


def routing(bench: Bench) -> None:
    """Questions for one topic, with filters and without them."""
    held = give_topics(bench.without_dead)
    filter_size = len(bench.without_dead[0].bloom)
    calls = costs.sizes("pq_hybrid")
    call = calls.request + calls.reply + size(bench.sample.sent["vector", "hits"]) + size(bench.sample.answers["vector", "hits"].payload())

    def rows() -> Iterable[Sequence[str]]:
        for count, topic in product([count for count in bench.sizes if count >= 30], (1, 10, 100)):
            of, name, questions = bench.without_dead[:count], f"topic {topic}", max(2, SIZES[count] // 4)
            having = sum(name in held[number % FILTERS] for number in range(count))
            asked = sum(not rules_out(shard.bloom, [name]) for shard in of)
            flat, routed = (bench.run("pq_hybrid", count, Scenario("vector", questions, NO_END_S, None, topics), dead=False, listing=False)
                            for topics in ((), (name,)))
            spared = (count - asked) * call
            yield (f"{count:,}", f"{topic:,}", f"{having:,}", f"{asked:,}", seconds(quantile(flat.whole, 0.5)), seconds(quantile(routed.whole, 0.5)),
                   f"{flat.cores_s / flat.count:.2f} s", f"{routed.cores_s / routed.count:.2f} s", volume(spared),
                   f"{count * filter_size * 60_000 / SUMMARY_REPUBLISH_MS / spared:.2f}" if spared else "never")

    table(f"Filters of {TOPICS} of {UNIVERSE:,} topics and {TERMS:,} terms ({volume(filter_size)}), questions by vector for one topic, pq_hybrid",
          ("shards", "topic, by frequency", "hold it", "asked", "p50 s, all asked", "p50 s, routed", "processor, all asked", "routed", "bytes spared",
           "pays from questions a minute"), rows())


def give_topics(of: Sequence[Shard]) -> list[set[str]]:
    """Give shards topics by Zipf's law, and filters; the n-th topic is held by one n-th as many as the first."""
    draw = random.Random(11)
    weights = [1 / rank for rank in range(1, UNIVERSE + 1)]
    held: list[set[str]] = []
    for _ in range(min(FILTERS, len(of))):
        topics: set[str] = set()
        while len(topics) < TOPICS:
            topics |= {f"topic {1 + number}" for number in draw.choices(range(UNIVERSE), weights, k=1)}
        held.append(topics)
    made = [Bloom.of(topics, [f"term{draw.randrange(100_000)}" for _ in range(TERMS)]).to_bytes() for topics in held]
    for number, shard in enumerate(of):
        shard.bloom = made[number % len(made)]
    return held


def told(bench: Bench) -> None:
    """What summaries cost each node that asks."""
    found: Summaries = costs.summaries()
    check, beside = costs.checking_s("pq_hybrid"), costs.sizes("pq_hybrid").publication
    each, per_s = found.size + beside, 1_000 / SUMMARY_REPUBLISH_MS
    table(f"Summaries heard by each node that asks, pq_hybrid: {volume(found.size)} with a filter of {volume(found.filter_size)}, {volume(beside)} signed around it, "
          f"every {SUMMARY_REPUBLISH_MS // 1_000} s; looking a topic up takes {found.look_s * 1e6:.0f} µs a shard",
          ("shards", "bytes a minute", "without filters", "rate", "of one processor: signatures", "reading", "memory"),
          [(f"{count:,}", volume(count * each * 60 * per_s), volume(count * (each - found.filter_size) * 60 * per_s), f"{count * each * 8 * per_s / 1e6:.2f} Mbit/s",
            percent(count * check * per_s), percent(count * found.hear_s * per_s), volume(count * (1_024 + found.size))) for count in bench.sizes])


def admitted() -> None:
    """How many questions the mesh's own admission leaves room for."""
    kept = KEPT_S + TIMEOUT_S
    table(f"Questions a minute that a shard admits, of {TIMEOUT_S} s each", ("mode", "calls a question", "of one asking node", "of all, over one link to a station"),
          [(mode, str(rounds), f"{QUOTA / rounds / kept * 60:.0f}", f"{SHARE / rounds / kept * 60:.0f}") for mode, rounds in ROUNDS.items()])


if __name__ == "__main__":
    sys.exit(main())
