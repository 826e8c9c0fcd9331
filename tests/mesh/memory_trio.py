"""What the tests of the mesh in memory share: three nodes, and ways to answer, wait and fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rag_stdlib.mesh.errors import (
    CallError,
)
from rag_stdlib.mesh.memory import MemoryMesh, MemoryTransport
from rag_stdlib.mesh.transport import Request

ASK = "acme/answer_query"


A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Trio:
    """Two providers and a caller on one mesh, which leave it in the end."""

    def __init__(self) -> None:
        mesh = MemoryMesh()
        self.a, self.b, self.caller = (mesh.node(node_id=node) for node in (A, B, C))

    async def __aenter__(self) -> tuple[MemoryTransport, MemoryTransport, MemoryTransport]:
        """Hand out the three."""
        return self.a, self.b, self.caller

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        async with self.a, self.b, self.caller:
            pass


def saying(value: object) -> Callable[[Request], object]:
    return lambda _request: value


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    while not condition():  # noqa: ASYNC110 - threads cannot set an asyncio.Event
        await asyncio.sleep(0.001)


async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call, and give what it returned or the failure it raised."""
    try:
        return await call
    except CallError as error:
        return error
