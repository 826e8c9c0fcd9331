"""The processes of `mesh.py`: the station, and those that serve an index over real macula-py nodes.

    python bench/meshnodes.py < JSON

A serving process reads a line of JSON that says where the station is and what to serve (`Place`), and prints the ids of its nodes. Told
``serve``, it serves and says ``serving``; told ``cpu``, it prints the seconds of processor time that it has used so far, the library's own
threads included. The end of its input ends it.

The station is the double of the tests, which is written in Python: it is no measure of a real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path.append(str(TESTS))  # behind the benches' own modules

from rag_stdlib import Config, Runtime  # noqa: E402
from rag_stdlib.contract.nodekeys import NodeKey, Profile  # noqa: E402
from rag_stdlib.embed.hashing import HashingEmbedder  # noqa: E402
from rag_stdlib.mesh.federation.indexshard import IndexShard  # noqa: E402
from rag_stdlib.mesh.federation.shard import Federation  # noqa: E402
from rag_stdlib.mesh.macula import MaculaTransport, Seed  # noqa: E402
from rag_stdlib.mesh.provider import Provider  # noqa: E402
from rag_stdlib.mesh.transport import Request  # noqa: E402

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from station.station_client import StationProcess
    from typing_extensions import Self

DIM = 384
ECHO = "bench_echo_v1"
CONNECT_S = 120.0  # many nodes make their keys at once


@dataclass(frozen=True)
class Station:
    """Where a station is, and whom its realm belongs to."""

    profile: Profile
    host: str
    port: int
    node_id: str
    realm_name: str
    realm_id: str
    realm_key: str
    org: str

    @classmethod
    def of(cls, running: StationProcess) -> Station:
        """Take down where a station runs."""
        return cls(running.profile, running.host, running.port, running.node_id, running.realm_name, running.realm_id,
                   running.realm_key.hex(), running.org)

    async def join(self, key: NodeKey | None = None) -> MaculaTransport:
        """Link a node, under a new key where none is given."""
        return await MaculaTransport.connect(
            key or new_key(self.profile), [Seed(self.host, self.port, self.node_id)], self.realm_id, bytes.fromhex(self.realm_key), timeout_s=CONNECT_S)

    def options(self, shard_id: str, embedding: object) -> dict[str, Any]:
        """Give a federation's options."""
        return {"org": self.org, "shard_id": shard_id, "realm_name": self.realm_name, "embedding": embedding, "query_timeout_ms": 30_000}


@dataclass(frozen=True)
class Place:
    """A serving process: its index below a root, how many nodes it has, and whether they are providers or shards of it."""

    station: Station
    root: str
    index: str
    nodes: int = 1
    shards: bool = False


def new_key(profile: Profile) -> NodeKey:
    """Make a key that stations admit; those of the profile pq_hybrid share one RSA half, which takes seconds to make."""
    if profile == "pq_pure":
        return NodeKey.generate(profile)
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey

    while True:
        key = NodeKey(MLDSA87PrivateKey.generate(), _rsa())
        if key.node_id.startswith("00"):
            return key


@cache
def _rsa() -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    return generate_private_key(65_537, 4_096)


class Serving:
    """A serving process from the side of the bench; ``with`` ends it."""

    def __init__(self, place: Place, running: StationProcess) -> None:
        """Start it, and have its nodes admitted."""
        self._child = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._say(json.dumps(asdict(place)))
        self.nodes: list[str] = json.loads(self._hear())
        for node in self.nodes:
            running.admit(node)
        self._say("serve")
        assert self._hear() == "serving"

    def cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        self._say("cpu")
        return float(self._hear())

    def _say(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")

    def _hear(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def __enter__(self) -> Self:
        """Hand it out."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        finally:
            assert self._child.stdout is not None
            self._child.stdout.close()


class _Nodes:
    """What a serving process does."""

    def __init__(self, place: Place, runtime: Runtime, nodes: list[MaculaTransport], stack: AsyncExitStack) -> None:
        self._place, self._runtime, self._nodes, self._stack = place, runtime, nodes, stack

    async def serve(self) -> None:
        """Serve the index from each node, and beside it what does nothing but answer as much."""
        for node in self._nodes:
            reply = await (self._serve_shard(node) if self._place.shards else self._serve_provider(node))
            await node.serve(f"{self._place.station.org}/{ECHO}", partial(_reply, reply))

    async def _serve_provider(self, node: MaculaTransport) -> object:
        provider = Provider(self._runtime, self._place.index, org=self._place.station.org)
        serving = await provider.serve(node)
        self._stack.push_async_callback(serving.stop)
        return provider.handle("answer_query", {"query_text": "a", "top_k": 10})

    async def _serve_shard(self, node: MaculaTransport) -> object:
        shard, station = IndexShard(self._runtime, self._place.index), self._place.station
        member = await self._stack.enter_async_context(Federation())
        await member.configure(node, bytes.fromhex(station.realm_id), station.options(self._place.index, shard.embedding()))
        await member.register_responder(shard)
        summary = shard.summary()
        await member.advertise(summary.topics, summary.bloom)
        found = shard({"text": "a", "mode": "vector"}, 10)
        return {"hits": [dict(hit) for hit in found.hits]}


def _reply(reply: object, _request: Request) -> object:
    return reply


async def _serve(place: Place) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        runtime = stack.enter_context(Runtime(Config(), root=place.root, embedder=HashingEmbedder(DIM)))
        nodes = await asyncio.gather(*(place.station.join() for _ in range(place.nodes)))
        for node in nodes:
            await stack.enter_async_context(node)
        print(json.dumps([node.node_id for node in nodes]), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if line.strip() == "serve":
                await _Nodes(place, runtime, nodes, stack).serve()
                print("serving", flush=True)
            else:
                print(time.process_time(), flush=True)


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time of another process, to a hundredth; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    given = json.loads(sys.stdin.readline())
    asyncio.run(_serve(Place(**{**given, "station": Station(**given["station"])})))
