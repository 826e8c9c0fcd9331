"""The nodes of a simulated federation: a transport whose calls take virtual time, shards, and coordinators that ask for others.

A coordinator is a shard to those above it. What it is asked it asks the nodes below it, by the library's own code, and answers what these
come to: the sums of their statistics, or the best of their hits. So nothing changes for who asks it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from rag_stdlib.mesh.federation.clock import Stragglers
from rag_stdlib.mesh.federation.directory import Directory
from rag_stdlib.mesh.federation.exchange import PLAIN, Asked, Share, read_asked, read_share
from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.merging import AS_ONE, merge
from rag_stdlib.mesh.federation.payloads import ShardAnswer, Summary
from rag_stdlib.mesh.federation.query import Asking, Place
from rag_stdlib.mesh.federation.responder import Responder
from rag_stdlib.mesh.federation.settings import settings
from rag_stdlib.mesh.transport import PinnedReply, ProviderInfo, Transport
from rag_stdlib.records import Mode
from simulation.answers import EMBEDDING, TOP_K, size
from simulation.model import SEED, Costs, Latencies, Sizes
from simulation.virtual import Cores, VirtualClock

if TYPE_CHECKING:
    from rag_stdlib.contract.cbor import Value

REALM_NAME: Final = "io.example"
REALM: Final = hashlib.sha256(REALM_NAME.encode()).digest()
OWN_SHARE: Final = 0.8  # of the time that a coordinator is given, for those whom it asks

_OPTIONS: Final = {"org": "acme", "realm_name": REALM_NAME, "embedding": EMBEDDING, "summary_republish_ms": 86_400_000}
_ASKED_BYTES: Final = 100  # of the payload of a listing
_DEAD, _SLOW = 37, 11  # the first ones


class World:
    """What all nodes of a run share."""

    def __init__(self, latencies: Latencies, costs: Costs, sizes: Sizes, *, cores: int, listing: bool, seed: int = SEED) -> None:
        """Draw from `seed`; without `listing`, who serves is known and costs nothing."""
        self.latencies, self.costs, self.sizes, self.cores, self.listing = latencies, costs, sizes, cores, listing
        self.draw = random.Random(seed)
        self._read: tuple[object, Asked] | None = None

    def asked(self, payload: Any) -> Asked:  # noqa: ANN401 - a value of the wire
        """Read a question; all nodes are sent the same one, so it is read once."""
        if self._read is None or self._read[0] is not payload:
            self._read = payload, read_asked(payload["query"])
        return self._read[1]


class Callee(Protocol):
    """Whoever is asked."""

    @property
    def node_id(self) -> str:
        """Its id."""

    async def answer(self, payload: Any, timeout_s: float) -> tuple[Value, int]:  # noqa: ANN401 - a value of the wire
        """Answer a question, with the bytes of the answer."""

    def reached(self, text: str) -> int:
        """Count the shards whose hits are in what was answered to a question."""


class Links:
    """What a `rag_stdlib.mesh.transport.Transport` does for one who asks: it lists the callees, and calls them."""

    profile: Final = "pq_pure"

    def __init__(self, world: World, node: str, callees: Sequence[Callee]) -> None:
        """Be the node that asks these."""
        self.node_id: Final = node
        self.cores, self._loop = Cores(world.cores), Cores(1)
        self.sent = self.received = self.calls = 0
        self.callees: Mapping[str, Callee] = {callee.node_id: callee for callee in callees}
        self._world = world
        self._last: tuple[object, int] = None, 0

    async def providers(self, _procedure: str) -> list[ProviderInfo]:
        """List the callees; each of their advertisements is checked."""
        world, count = self._world, len(self.callees)
        if world.listing:
            await self.cores.work(world.costs.send_s)
            self.sent += world.sizes.request + _ASKED_BYTES
            await asyncio.sleep(world.latencies.way(world.draw))
            self.received += world.sizes.reply + count * world.sizes.record
            await self.cores.work(world.costs.receive_s + count * world.costs.listed_s)
        return [ProviderInfo(node) for node in self.callees]

    async def call_pinned(self, _procedure: str, payload: object = None, *, provider: str, timeout_s: float = 5.0) -> PinnedReply:
        """Call one of them; a call that is given up before its turn to be signed is never sent."""
        world = self._world
        await self.cores.work(world.costs.send_s)
        self.calls += 1
        self.sent += world.sizes.request + self._size(payload)
        way = world.latencies.way(world.draw)
        await asyncio.sleep(way / 2)
        value, taken = await self.callees[provider].answer(payload, timeout_s)
        await asyncio.sleep(way / 2)
        self.received += world.sizes.reply + taken
        await self.cores.work(world.costs.receive_s, urgent=True)
        await self._loop.work(world.costs.loop_s + hits_in(value) * world.costs.judge_hit_s)
        return PinnedReply(value, provider)

    async def merge(self, answered: Sequence[Answered]) -> None:
        """Take the time to merge answers."""
        await self._loop.work(sum(len(each.hits) for each in answered) * self._world.costs.merge_hit_s)

    @property
    def used_s(self) -> float:
        """Seconds of its processors so far."""
        return self.cores.used_s + self._loop.used_s

    def _size(self, payload: object) -> int:
        if self._last[0] is not payload:  # all calls of a round carry the same one
            self._last = payload, size(payload)
        return self._last[1]


class Shard:
    """A shard of a simulated index. Its answers are ready, and take the time that a search takes."""

    def __init__(self, number: int, answers: Mapping[tuple[Mode, str], Value], latencies: Latencies) -> None:
        """Be slow, dead or neither; the share of each is the same in the first few shards as in many."""
        self.node_id: Final = node_id(f"shard {number}")
        self.world: World | None = None
        self.bloom = b""
        self.dead: Final = _among(number, latencies.dead, _DEAD)
        self._factor = latencies.slow_factor if _among(number, latencies.slow, _SLOW) else 1.0
        self._answers = {key: (answer, size(answer)) for key, answer in answers.items()}

    @property
    def vector_answer(self) -> Any:  # noqa: ANN401 - a value of the wire
        """What it answers to a question by vector; its hits are those of every mode."""
        return self._answers["vector", "hits"][0]

    async def answer(self, payload: Any, timeout_s: float) -> tuple[Value, int]:  # noqa: ANN401, ARG002 - a shard looks at no time
        """Answer after a while, or never."""
        if self.dead:
            await asyncio.Event().wait()
        assert self.world is not None
        asked = self.world.asked(payload)
        kind = "hits" if asked.exchange is None else asked.exchange.round
        mode = asked.mode or "vector"
        await asyncio.sleep((self.world.costs.answer_s + self.world.latencies.search(mode, kind, self.world.draw)) * self._factor)
        return self._answers[mode, kind]

    def reached(self, _text: str) -> int:
        """It is itself in what it answers."""
        return 1


class Coordinator:
    """Asks for those above it, and answers what the nodes below come to. It asks those alone who have answered the round before."""

    def __init__(self, name: str, world: World, callees: Sequence[Callee]) -> None:
        """Stand between."""
        self.node_id: Final = node_id(name)
        self.links = Links(world, self.node_id, callees)
        self._world = world
        self._place = place(self.links, callees)
        self._left: dict[str, list[str]] = {}
        self._reached: dict[str, int] = {}

    async def answer(self, payload: Any, timeout_s: float) -> tuple[Value, int]:  # noqa: ANN401 - a value of the wire
        """Ask, and answer before those above give up."""
        asked = self._world.asked(payload)
        await self.links.cores.work(self._world.costs.answer_s)
        asking = Asking(self._place, max(1, round(timeout_s * OWN_SHARE * 1_000)))
        nodes = self._left.get(asked.text) or await asking.begin(asked.topics)
        answered = [outcome for outcome in await asking.round(nodes, payload) if isinstance(outcome, Answered)]
        self._left[asked.text] = [each.node for each in answered]
        if asked.exchange is None or asked.exchange.round == "hits":
            self._reached[asked.text] = sum(self.links.callees[each.node].reached(asked.text) for each in answered)
            await self.links.merge(answered)
            found = ShardAnswer(self.node_id[:8], EMBEDDING, tuple(merge(answered, TOP_K, AS_ONE)), PLAIN)
        else:
            found = ShardAnswer(self.node_id[:8], EMBEDDING, (), _sum([read_share(each.statistics or {}) for each in answered]).statistics())
        return found.payload(), size(found.payload())  # type: ignore[return-value]

    def reached(self, text: str) -> int:
        """Count the shards below whose hits were merged."""
        return self._reached.get(text, 0)


def place(links: Links, callees: Sequence[Callee]) -> Place:
    """Make the place of a node that knows the summaries of those whom it asks."""
    clock, made = VirtualClock(), settings(REALM, {**_OPTIONS, "shard_id": links.node_id[:8]})
    directory = Directory(clock, made.stale_s)
    for callee in callees:
        directory.hear_summary(callee.node_id, Summary(callee.node_id[:8], EMBEDDING, (), getattr(callee, "bloom", b""), 0).payload())
    return Place(cast("Transport", links), made, directory, Responder(clock), clock, Stragglers())


def tree(world: World, shards: Sequence[Shard], fan_out: int) -> Sequence[Callee]:
    """Set coordinators over shards, and over coordinators, of `fan_out` each, until a node can ask the topmost."""
    level: Sequence[Callee] = shards
    height = 0
    while len(level) > fan_out:
        groups = [level[start:start + fan_out] for start in range(0, len(level), fan_out)]
        level = [Coordinator(f"coordinator {height} {number}", world, group) for number, group in enumerate(groups)]
        height += 1
    return level


def node_id(name: str) -> str:
    """Name a node."""
    return hashlib.sha256(name.encode()).hexdigest()


def hits_in(answer: Any) -> int:  # noqa: ANN401 - a value of the wire
    """Count the hits of an answer."""
    return len(answer["hits"])


def _among(number: int, share: float, first: int) -> bool:
    return share > 0 and number % round(1 / share) == first


def _sum(shares: Sequence[Share]) -> Share:
    parts: dict[str, Any] = {}
    for name in ("words", "by_vector", "by_words"):
        there = [part for share in shares if (part := getattr(share, name)) is not None]
        if there:
            parts[name] = reduce(add, there)
    return Share(**parts)
