"""A mesh for a test module: one running station, nodes that are linked to it, and one event loop for all of them.

Everything is shared by the tests of the module (`station.station_fixtures`), so each of them serves procedures of its own names and stops
what it has begun.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import pytest
from station.station_client import REAL, StationProcess
from station.station_frames import IDLE_S
from station.station_keys import fixed_key

from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.mesh.macula import MaculaTransport, Seed
from rag_stdlib.mesh.transport import Request

T = TypeVar("T")

LONGEST_S = 60.0
GRANT_RETRY_S = 0.1
WAIT_S = 20.0  # for what comes at once, on a machine that is not busy
TOPIC = "io.example.test/acme/rag/shard/shard_summarized_v1"
PROVIDERS = ("a", "b")  # are granted the organisation's procedures; c and d are not


class LiveMesh:
    """A station and the nodes on it."""

    def __init__(self, station: StationProcess, runner: Any) -> None:
        self.station = station
        self.org = station.org
        self.profile = station.profile
        self._runner = runner
        self._nodes: dict[str, MaculaTransport] = {}
        for role in PROVIDERS:
            station.admit(self.key(role).node_id)

    @property
    def seeds(self) -> list[Seed]:
        return [Seed(self.station.host, self.station.port, self.station.node_id)]

    def key(self, role: str) -> NodeKey:
        return fixed_key(self.profile, role)

    def id(self, role: str) -> str:
        return self.key(role).node_id

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, on the module's event loop and in the context of the caller: its grant, its runtime."""
        return self._runner.run(asyncio.wait_for(coroutine, LONGEST_S), context=copy_context())

    async def join(self, role: str, **options: Any) -> MaculaTransport:
        """Link a node of a test's own, which it closes."""
        options = {"realm_key": self.station.realm_key, "grant_retry_s": GRANT_RETRY_S, **options}
        return await MaculaTransport.connect(self.key(role), self.seeds, self.station.realm_id, options.pop("realm_key"), **options)

    async def pair(self) -> tuple[MaculaTransport, MaculaTransport]:
        """Link two nodes of a test's own, which it closes: a provider, under the key a, and a caller, under d."""
        return await self.join("a"), await self.join("d")

    def node(self, role: str) -> MaculaTransport:
        """Give a node that the module's tests share."""
        self.link(role)
        return self._nodes[role]

    def link(self, *roles: str) -> None:
        """Link shared nodes, all at once: each makes a key for its connections first, which takes seconds in the profile pq_hybrid."""

        async def linked() -> list[MaculaTransport]:
            return await asyncio.gather(*(self.join(role) for role in missing))

        missing = [role for role in roles if role not in self._nodes]
        if missing:
            self._nodes.update(zip(missing, self.run(linked()), strict=True))

    def needs_the_double(self) -> None:
        """Skip a test of what a real station does not do on demand."""
        if not self.station.is_double:
            pytest.skip(f"{REAL} names a real station, which does not do this on demand")

    def close(self) -> None:
        for node in self._nodes.values():
            self.run(node.close())


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)


def echo(request: Request) -> object:
    """Answer what was asked."""
    return request.payload


@contextmanager
def open_mesh(profile: Profile, idle_s: float = IDLE_S) -> Iterator[LiveMesh]:
    """Start a station and end it; skips where a part of it is not installed."""
    pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
    if REAL not in os.environ and importlib.util.find_spec("aioquic") is None:
        pytest.skip("aioquic is not installed, which the tests' station needs")
    with StationProcess(profile, idle_s) as station, asyncio.Runner() as runner:
        mesh = LiveMesh(station, runner)
        try:
            yield mesh
        finally:
            mesh.close()
