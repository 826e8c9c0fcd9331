"""A shard in a process of its own: it serves one index on a live mesh, until its input ends.

    python index_process.py < JSON

The first line of its input says where it is and what it serves (`Place`). It prints ``ready``, and then, for each line that it reads, how
many questions its index was asked so far.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS))

from station.station_keys import fixed_key  # noqa: E402 - of the tests' folder

from rag_stdlib import Config, Runtime  # noqa: E402
from rag_stdlib.contract.nodekeys import Profile  # noqa: E402
from rag_stdlib.embed.hashing import HashingEmbedder  # noqa: E402
from rag_stdlib.mesh.federation.indexshard import IndexShard  # noqa: E402
from rag_stdlib.mesh.federation.shard import Federation  # noqa: E402
from rag_stdlib.mesh.macula import MaculaTransport  # noqa: E402

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Place:
    """Where a shard is, and what it serves."""

    profile: Profile
    role: str
    host: str
    port: int
    station: str
    realm_name: str
    realm_id: str
    realm_key: str
    org: str
    root: str
    index: str
    dim: int


class ShardProcess:
    """Such a process, from the side of a test. ``with`` ends it."""

    def __init__(self, place: Place) -> None:
        self._child = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(asdict(place)) + "\n")

    def ready(self) -> None:
        """Wait until it serves."""
        assert self._line() == "ready"

    def asked(self) -> int:
        """Count the questions that its index was asked."""
        assert self._child.stdin is not None
        self._child.stdin.write("asked\n")
        return int(self._line())

    def _line(self) -> str:
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
            assert self._child.wait(20) == 0
        except subprocess.TimeoutExpired:
            self._child.kill()
            raise
        finally:
            assert self._child.stdout is not None
            self._child.stdout.close()


async def serve(place: Place) -> None:
    """Serve until the input ends."""
    key = fixed_key(place.profile, place.role)
    seeds = [(place.host, place.port, place.station)]
    calls: list[Any] = []
    with Runtime(Config(), root=place.root, embedder=HashingEmbedder(place.dim)) as runtime:
        shard = IndexShard(runtime, place.index)

        def counted(query: dict[str, Any], top_k: int) -> Any:
            calls.append(query)
            return shard(query, top_k)

        async with await MaculaTransport.connect(key, seeds, place.realm_id, bytes.fromhex(place.realm_key)) as node, Federation() as member:
            await member.configure(node, bytes.fromhex(place.realm_id), {
                "org": place.org, "shard_id": place.index, "realm_name": place.realm_name, "embedding": shard.embedding()})
            summary = shard.summary()
            await member.register_responder(counted)
            await member.advertise(summary.topics, summary.bloom)
            print("ready", flush=True)  # noqa: T201 - its output is how it is spoken to
            while await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
                print(len(calls), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    asyncio.run(serve(Place(**json.loads(sys.stdin.readline()))))
