"""What the mesh costs: 64 callers at once, one shard of 100,000 chunks, four of 25,000, and what a provider admits.

Real macula-py nodes over the loopback interface: the station, those who serve and the one who asks are processes of their own. The station
is the double of the tests (`tests/station`), written in Python, which relays and checks every call: it is no measure of a real one, and it
shares the machine with the others. So each figure stands beside that of a bare call, which carries as many bytes and does nothing else.

A node admits 256 calls of one caller and 1,024 over one link to a station, in all, until five minutes after their deadlines; that is the
mesh's own rule, and nothing in macula-py changes it. So callers and providers are several nodes here, and a part asks no more than that.

Run it on an idle machine: ``make bench`` or ``python bench/mesh.py``; ``--seconds 5 --chunks 20000 --turns 10`` is a shorter run.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import get_args

from measure import Report, quantile
from meshnodes import DIM, ECHO, Place, Serving, Station, cpu_of
from station.station_client import StationProcess

from rag_stdlib import Config, QueryOptions, Runtime, SourceDocument, rag_ingest_many, rag_query
from rag_stdlib.contract.nodekeys import Profile
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.index import splitting
from rag_stdlib.mesh.errors import CallError
from rag_stdlib.mesh.federation.exchange import Asked
from rag_stdlib.mesh.federation.indexshard import embedding_of
from rag_stdlib.mesh.federation.names import PROCEDURE
from rag_stdlib.mesh.federation.payloads import ShardQuery
from rag_stdlib.mesh.federation.searching import query_vector, search
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.macula import MaculaTransport
from rag_stdlib.mesh.wire import outgoing
from rag_stdlib.records import MODES, Mode

INDEX = "whole.db"
CHUNK_CHARS = 400
DOCUMENT_CHUNKS = 100
HITS = 10
SHARDS = 4
PROVIDERS = 8  # nodes of the process that 64 callers ask
CALLER_QUOTA = 256
PATIENCE_S = 60.0
ROUNDS = {"vector": 1, "lexical": 2, "hybrid": 3}
BOUND = 3  # times a local search, and a bare call


@dataclass
class Bench:
    """What the parts share."""

    running: StationProcess
    station: Station
    runtime: Runtime
    root: str
    questions: list[str]
    report: Report

    def serving(self, index: str, *, nodes: int = 1, shards: bool = False) -> Serving:
        """Serve an index from a process of its own."""
        return Serving(Place(self.station, self.root, index, nodes, shards), self.running)


def build(chunks: int) -> list[str]:
    """Store so many chunks of about 400 characters, a hundred a document, and return questions of five words of some."""
    draw = random.Random(5)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randint(3, 9))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    step = CHUNK_CHARS - CHUNK_CHARS // 5  # chunks overlap by a fifth

    def document(number: int) -> SourceDocument:
        picked = " ".join(draw.choices(words, weights, k=DOCUMENT_CHUNKS * step // 4))
        return SourceDocument(f"d{number:05}", f"docs/{number}.md", picked[:DOCUMENT_CHUNKS * step])

    documents = [document(number) for number in range(max(SHARDS, chunks // DOCUMENT_CHUNKS))]
    rag_ingest_many(INDEX, documents, CHUNK_CHARS).unwrap()
    return [" ".join(draw.choice(documents).text[5_000:6_000].split()[1:6]) for _ in range(200)]


def main() -> int:
    """Measure what is asked for; exit 1 if a bound is missed."""
    options = _options()
    missing = [package for package in ("macula_py", "aioquic") if importlib.util.find_spec(package) is None]
    if missing:
        print(f"not installed, and so no mesh is measured: {', '.join(missing)} (of the extra dev, from Python 3.11 on)")
        return 0
    report = Report()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        runtime = stack.enter_context(Runtime(Config(), root=folder, embedder=HashingEmbedder(DIM)))
        questions = build(options.chunks)
        made = splitting.split(runtime.root, runtime.store, INDEX, SHARDS)
        for text in questions:  # words are read before anything is timed
            rag_query(INDEX, text, HITS, QueryOptions("hybrid")).unwrap()
        running = stack.enter_context(StationProcess(options.profile))
        bench = Bench(running, Station.of(running), runtime, folder, questions, report)
        if "load" in options.parts:
            asyncio.run(load(bench, options.callers, options.seconds))
        if "shard" in options.parts:
            asyncio.run(one_shard(bench, options.turns))
        if "four" in options.parts:
            asyncio.run(four_shards(bench, [shard.index for shard in made], options.turns))
        if "admission" in options.parts:
            asyncio.run(admission(bench))
        print(f"profile {options.profile}, {sum(shard.chunks for shard in made):,} chunks x {DIM}, the tests' station on the same machine\n")
    report.show()
    return 1 if report.missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=get_args(Profile), default="pq_pure", help="of all keys; pq_hybrid is the mesh's default, and slower")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the callers ask")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=30, help="questions of each mode, at most 40")
    parts = ("load", "shard", "four", "admission")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=parts, help=f"some of {','.join(parts)}")
    return parser.parse_args()


# --- many callers ---

@dataclass(frozen=True)
class Load:
    """What many calls at once came to: seconds of each, how long all took, and what failed."""

    times: list[float]
    took_s: float
    errors: Counter[str]

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.times) / self.took_s

    def at(self, share: float) -> float:
        """Return a quantile, in milliseconds."""
        return quantile(self.times, share) * 1e3 if self.times else float("nan")


async def load(bench: Bench, callers: int, seconds: float) -> None:
    """Have callers ask for a while, each its next question after the answer to the one before; then as many bare calls."""
    with bench.serving(INDEX, nodes=PROVIDERS) as serving:
        async with AsyncExitStack() as stack:
            nodes = await asyncio.gather(*(bench.station.join() for _ in range(callers)))
            for node in nodes:
                await stack.enter_async_context(node)
            draw = random.Random(1)

            def payload() -> dict[str, object]:
                return {"query_text": draw.choice(bench.questions), "top_k": HITS}

            async def ask(name: str, number: int) -> None:
                provider = serving.nodes[number % PROVIDERS]
                reply = await nodes[number].call_pinned(f"{bench.station.org}/{name}", payload(), provider=provider, timeout_s=PATIENCE_S)
                assert len(reply.value["hits"]) == HITS  # type: ignore[index, call-overload, arg-type]

            for name in ("answer_query", ECHO):  # links to the provider's station, and words
                await _together(callers, partial(ask, name), lambda done: done < callers)
            end = time.perf_counter() + seconds
            asked = await _together(callers, partial(ask, "answer_query"), lambda _: time.perf_counter() < end)
            bare = await _together(callers, partial(ask, ECHO), lambda done: done < len(asked.times))
            _tell_of_load(bench.report, callers, asked, bare)
            await _listing(bench, nodes[0], PROVIDERS)


def _tell_of_load(report: Report, callers: int, asked: Load, bare: Load) -> None:
    report.add(f"answer_query, {callers} callers for {asked.took_s:.0f} s: errors", asked.errors.total(), "", most=0,
               beside="; ".join(f"{count} x {name}" for name, count in asked.errors.items()) or f"of {len(asked.times):,} calls")
    report.add("throughput", asked.rate, "/s", beside=f"bare calls {bare.rate:.0f} /s, {asked.rate / bare.rate:.2f} x")
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        report.add(name, asked.at(share), "ms", beside=f"bare calls {bare.at(share):.0f} ms, {asked.at(share) / bare.at(share):.2f} x")
    report.add("bare calls: errors", bare.errors.total(), "", most=0)


async def _together(callers: int, ask: Callable[[int], Awaitable[None]], goes_on: Callable[[int], bool]) -> Load:
    """Have callers ask, as long as it goes on by the number of calls that were begun."""
    times: list[float] = []
    errors: Counter[str] = Counter()
    begun = 0

    async def one(number: int) -> None:
        nonlocal begun
        while goes_on(begun):
            begun += 1
            start = time.perf_counter()
            try:
                await ask(number)
                times.append(time.perf_counter() - start)
            except CallError as error:
                errors[error.name] += 1

    start = time.perf_counter()
    await asyncio.gather(*map(one, range(callers)))
    return Load(times, time.perf_counter() - start, errors)


async def _listing(bench: Bench, node: MaculaTransport, expected: int) -> None:
    """Time the listing of those who serve a procedure."""
    times, cpu = [], time.process_time()
    for _ in range(20):
        start = time.perf_counter()
        found = await node.providers(f"{bench.station.org}/{ECHO}")
        times.append(time.perf_counter() - start)
    assert len(found) == expected
    bench.report.add(f"listing {expected} provider{'s' * (expected > 1)}", statistics.median(times) * 1e3, "ms",
                     beside=f"{(time.process_time() - cpu) / len(times) * 1e3:.1f} ms of the asking node's processor")


# --- shards ---

async def one_shard(bench: Bench, turns: int) -> None:
    """Ask a federation of one shard, beside the same searches made here, and bare calls."""
    with bench.serving(INDEX, shards=True) as serving:
        async with await bench.station.join() as node:
            await _call_costs(bench, node, serving)
            await _listing(bench, node, 1)
        for mode in MODES:
            async with await bench.station.join() as node:
                took = await _Turns(bench, node, serving.nodes, mode).all(turns)
                _tell_of_one(bench.report, mode, took)


def _tell_of_one(report: Report, mode: Mode, took: dict[str, float]) -> None:
    local, bare, call, whole = (took[way] for way in ("local", "bare", "call", "federated"))
    bound = BOUND * local + bare
    report.add(f"{mode}: local search", local, "ms", beside=f"a bare call {bare:.1f} ms")
    report.add(f"{mode}: one call to the shard", call, "ms", most=round(bound, 2), beside=f"{(call - bare) / local:.2f} x the local search, and a bare call")
    calls = ROUNDS[mode] + 1
    report.add(f"{mode}: the whole question", whole, "ms", most=round(bound, 2),
               beside=f"{(whole - bare) / local:.2f} x the local search, and a bare call; {whole / (local + calls * bare):.2f} x the local search and "
                      f"the {calls} calls that it takes")


async def four_shards(bench: Bench, indexes: list[str], turns: int) -> None:
    """Ask a federation of four shards in four processes, beside the search of one index over everything."""
    with ExitStack() as stack:
        serving = [stack.enter_context(bench.serving(index, shards=True)) for index in indexes]
        nodes = [node for each in serving for node in each.nodes]
        for mode in MODES:
            async with await bench.station.join() as node:
                took = await _Turns(bench, node, nodes, mode).all(turns)
                bench.report.add(f"{mode}: {len(indexes)} shards", took["federated"], "ms",
                                 beside=f"one index here {took['local']:.1f} ms, a bare call {took['bare']:.1f} ms; the same hits")


class _Turns:
    """Questions of one mode: a search here, a bare call, one call to a shard, and the whole federated search, in turning order."""

    def __init__(self, bench: Bench, node: MaculaTransport, shards: list[str], mode: Mode) -> None:
        self._bench, self._node, self._shards, self._mode = bench, node, shards, mode
        self._embedding = embedding_of(bench.runtime)
        self._federation = Federation()

    async def all(self, turns: int) -> dict[str, float]:
        """Ask, and return the median milliseconds of each way."""
        assert turns * (ROUNDS[self._mode] + 2) < CALLER_QUOTA - 8
        bench, ways = self._bench, {"local": self._local, "bare": self._bare, "call": self._call, "federated": self._federated}
        times: dict[str, list[float]] = {way: [] for way in ways}
        async with self._federation as federation:
            await federation.configure(self._node, bytes.fromhex(bench.station.realm_id), bench.station.options("asking", self._embedding))
            for text in bench.questions[:2]:
                found = await self._federated(text)
                assert [hit["content"] for hit in found] == [hit["content"] for hit in await self._local(text)]
            for turn, text in enumerate(bench.questions[2:turns + 2]):
                for way in [*ways, *ways][turn % len(ways):turn % len(ways) + len(ways)]:
                    start = time.perf_counter()
                    await ways[way](text)
                    times[way].append(time.perf_counter() - start)
        return {way: statistics.median(taken) * 1e3 for way, taken in times.items()}

    async def _local(self, text: str) -> list[dict[str, object]]:
        found = rag_query(INDEX, text, HITS, QueryOptions(self._mode)).unwrap()
        return [{"content": chunk.text} for chunk in found]

    async def _bare(self, text: str) -> None:
        await self._node.call_pinned(f"{self._bench.station.org}/{ECHO}", self._payload(text), provider=self._shards[0])

    async def _call(self, text: str) -> None:
        reply = await self._node.call_pinned(f"{self._bench.station.org}/{PROCEDURE}", self._payload(text), provider=self._shards[0])
        assert reply.value["hits"]  # type: ignore[index, call-overload]

    def _payload(self, text: str) -> object:
        vector = None if self._mode == "lexical" else tuple(query_vector(self._bench.runtime, text))
        return outgoing(ShardQuery(Asked(text, self._mode, vector).query(), HITS, self._embedding).payload())

    async def _federated(self, text: str) -> list[dict[str, object]]:
        vector = None if self._mode == "lexical" else query_vector(self._bench.runtime, text)
        answer = await search(self._federation, text, mode=self._mode, vector=vector, top_k=HITS)
        assert [each.node for each in answer.answered] == sorted(self._shards), answer.failed
        return list(answer.hits)


async def _call_costs(bench: Bench, node: MaculaTransport, serving: Serving) -> None:
    """Count the processor time of a call on each side of it."""
    embedding = embedding_of(bench.runtime)
    payload = ShardQuery(Asked("a", "vector", (0.5,) * DIM).query(), HITS, embedding).payload()

    def used() -> tuple[float, ...]:
        return time.process_time(), time.thread_time(), serving.cpu(), cpu_of(bench.running.pid)

    for name, sent in (("with a vector", payload), ("with a word", {"text": "a"})):
        before, calls, times = used(), 60, []
        for _ in range(calls):
            start = time.perf_counter()
            await node.call_pinned(f"{bench.station.org}/{ECHO}", sent, provider=serving.nodes[0])
            times.append(time.perf_counter() - start)
        asking, loop, answering, station = ((after - first) / calls * 1e3 for first, after in zip(before, used(), strict=True))
        bench.report.add(f"bare call {name}", statistics.median(times) * 1e3, "ms",
                         beside=f"processor time: {asking:.1f} ms of the asking node ({loop:.1f} in its event loop), {answering:.1f} of the other, "
                                f"{station:.1f} of the station")


# --- what a node admits ---

async def admission(bench: Bench) -> None:
    """Call one provider until it refuses: from one node, and from as many as it takes."""
    with bench.serving(INDEX) as serving:
        counts: list[int] = []
        refusals: list[str] = []
        while "share_full" not in refusals and len(counts) < 8:
            async with await bench.station.join() as node:
                count, refusal = await _until_refused(bench, node, serving.nodes[0])
                counts.append(count)
                refusals.append(refusal)
    bench.report.add("calls that a node admits of one caller", counts[0], "", beside=f"then it refuses with {refusals[0]}")
    bench.report.add("calls that it admits over one link", sum(counts), "", beside=f"then it refuses with {refusals[-1]}")


async def _until_refused(bench: Bench, node: MaculaTransport, provider: str) -> tuple[int, str]:
    for count in range(2 * CALLER_QUOTA):
        try:
            await node.call_pinned(f"{bench.station.org}/{ECHO}", None, provider=provider)
        except CallError as error:
            return count, error.name
    return 2 * CALLER_QUOTA, "nothing yet"


if __name__ == "__main__":
    sys.exit(main())
