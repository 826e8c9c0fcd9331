"""Shards of a live mesh, each of which does right or wrong in its own way: in this process, or in one that a test can kill.

    python faulty_shards.py < JSON

The first line of its input says where it is and what it does (`Place`). It prints ``serving``, then ``entered`` for each question that it
is asked, and goes on until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

TESTS = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

from station.station_keys import fixed_key  # noqa: E402 - of the tests' folder

from rag_stdlib.contract.nodekeys import Profile  # noqa: E402
from rag_stdlib.mesh.errors import Refusal  # noqa: E402
from rag_stdlib.mesh.federation import names  # noqa: E402
from rag_stdlib.mesh.federation.payloads import Embedding  # noqa: E402
from rag_stdlib.mesh.federation.shard import Federation  # noqa: E402
from rag_stdlib.mesh.macula import MaculaTransport  # noqa: E402
from rag_stdlib.mesh.transport import Request, Transport  # noqa: E402

if TYPE_CHECKING:
    from typing_extensions import Self

OURS: Final = Embedding("words", 4)
THEIRS: Final = Embedding("words", 8)
LONGEST_S: Final = 60.0
SCORE: Final = 0.5
LIE: Final = 9.0
HIT: Final = {"id": "h", "score": LIE}
GARBAGE: Final = (
    None, 7, "nonsense", b"\0\xff", [], {}, [[HIT]], {"hits": [HIT]}, {"shard_id": "s", "model": "words", "dim": 4},
    {"shard_id": "s", "model": "words", "dim": 4, "hits": {}}, {"shard_id": 1, "model": "words", "dim": 4, "hits": [HIT]},
    {"shard_id": "s", "model": "words", "dim": "4", "hits": [HIT]}, {"shard_id": "s", "model": "words", "dim": 4, "hits": [HIT, {"id": "h"}]},
    {"shard_id": "s", "model": "words", "dim": 4, "hits": [{"id": 1, "score": 1.0}]}, {"shard_id": "s", "model": "words", "dim": 4, "hits": [None]},
)


class Way(str, Enum):
    """What a shard does."""

    ANSWERS = "answers"  # one hit, which is called after its node
    WAITS = "waits"  # and answers when its gate is opened, which may be never
    REFUSES = "refuses"
    ELSEWHERE = "elsewhere"  # its summary names another embedding
    OTHER_EMBEDDING = "other_embedding"  # its summary names ours, and its answers another
    GARBAGE = "garbage"
    LIES = "lies"  # whatever it says, it says in the name of another node


class FaultyShard:
    """A shard on a node; ``async with`` has it serve. `entered` is told of each question, and `gate` lets those go on that wait."""

    def __init__(self, node: Transport, realm_name: str, realm_id: str, org: str, way: Way, victim: str = "") -> None:
        self.node, self.way = node, way
        self.gate = threading.Event()
        self.entered: Callable[[], object] = threading.Event().set
        self.asked = 0
        self.idle = True
        self.federation = Federation()
        self._realm_name, self._realm, self._org, self._victim = realm_name, bytes.fromhex(realm_id), org, victim
        self._garbage = cycle(GARBAGE)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve."""
        if self.way in (Way.OTHER_EMBEDDING, Way.GARBAGE, Way.LIES):
            await self._serve_by_hand()
        else:
            await self._serve_as_member()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Withdraw; what waits goes on."""
        self.gate.set()
        await self._stack.aclose()

    async def _serve_as_member(self) -> None:
        await self._stack.enter_async_context(self.federation)
        await self.federation.configure(self.node, self._realm, {
            "org": self._org, "shard_id": self.node.node_id[:8], "realm_name": self._realm_name,
            "embedding": THEIRS if self.way is Way.ELSEWHERE else OURS})
        await self.federation.register_responder(self._search)
        await self.federation.advertise()

    def _search(self, _query: dict[str, Any], _top_k: int) -> list[dict[str, Any]]:
        self._enter()
        if self.way is Way.REFUSES:
            raise Refusal("store_opening")
        if self.way is Way.WAITS:
            self.idle = False
            self.gate.wait(LONGEST_S)
            self.idle = True
        return [{"id": f"of {self.node.node_id}", "score": SCORE}]

    def _enter(self) -> None:
        self.asked += 1
        self.entered()

    async def _serve_by_hand(self) -> None:
        """Serve as no federation of ours would."""
        for procedure, answer in ((names.procedure(self._org), self._wrong), (names.summary_procedure(self._org), lambda _request: self._summary())):
            served = await self.node.serve(procedure, answer)
            self._stack.push_async_callback(served.stop)
        await self.node.publish(names.summarized_topic(self._realm_name, self._org), self._summary())

    def _summary(self) -> dict[str, Any]:
        return {"shard_id": self._victim[:8], "model": OURS.model, "dim": OURS.dim, "topics": [], "bloom": b"", "at_ms": 0,
                **dict.fromkeys(("node_id", "publisher", "provider"), self._victim)}

    def _wrong(self, _request: Request) -> object:
        self._enter()
        if self.way is Way.GARBAGE:
            return next(self._garbage)
        named = THEIRS if self.way is Way.OTHER_EMBEDDING else OURS
        claims = dict.fromkeys(("node_id", "node", "provider", "signed_by"), self._victim)
        return {"shard_id": self._victim[:8], "model": named.model, "dim": named.dim, "hits": [{**HIT, **claims, "shard_id": self._victim[:8]}], **claims}


@dataclass(frozen=True)
class Place:
    """Where a shard in a process of its own is, and what it does."""

    profile: Profile
    role: str
    host: str
    port: int
    station: str
    realm_name: str
    realm_id: str
    realm_key: str
    org: str
    way: str


class FaultyProcess:
    """A shard in a process of its own, from the side of a test. ``with`` ends it."""

    def __init__(self, place: Place) -> None:
        self._child = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(asdict(place)) + "\n")

    def wait_for(self, word: str) -> None:
        """Wait until it says so: ``serving`` or ``entered``."""
        assert self._child.stdout is not None
        assert self._child.stdout.readline().strip() == word

    def kill(self) -> None:
        """End it at once, by a signal that it cannot see."""
        self._child.kill()
        self._child.wait(LONGEST_S)

    def __enter__(self) -> Self:
        """Hand it out."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(LONGEST_S)
        finally:
            self._child.kill()
            self._child.stdout.close()


async def _serve(place: Place) -> None:
    key, seeds = fixed_key(place.profile, place.role), [(place.host, place.port, place.station)]
    async with await MaculaTransport.connect(key, seeds, place.realm_id, bytes.fromhex(place.realm_key)) as node:
        shard = FaultyShard(node, place.realm_name, place.realm_id, place.org, Way(place.way))
        shard.entered = lambda: print("entered", flush=True)  # noqa: T201 - its output is how it is spoken to
        async with shard:
            print("serving", flush=True)  # noqa: T201 - as above
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(_serve(Place(**json.loads(sys.stdin.readline()))))
