"""A node that asks the shards of its organisation: linked and listening for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.meshnode import MeshNode

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.payloads import Embedding
    from rag_stdlib.mesh.federation.shard import Federation
    from rag_stdlib.mesh.macula import MaculaTransport

Listen = Annotated[float, typer.Option("--listen", metavar="S", min=0, max=3_600, help="Wait so many seconds at most for shards to publish what they hold, "
                                                                                      "for peers that do not tell it when asked.")]

_LOOK_S: Final = 0.2
_LEARN_S: Final = 5.0


@asynccontextmanager
async def asking(node: MeshNode, embedding: Embedding) -> AsyncIterator[tuple[MaculaTransport, Federation]]:
    """Link a node that is no shard, and hear what shards publish.

    Raises:
        CallError: No station answers, or the node cannot take part.
    """
    from rag_stdlib.mesh.federation.shard import Federation

    async with await node.connect() as transport, Federation() as federation:
        await federation.configure(transport, bytes.fromhex(node.realm_id), {
            "org": node.org, "shard_id": "asking", "realm_name": node.realm, "embedding": embedding, "query_timeout_ms": node.config.query_timeout_ms,
            "summary_republish_ms": node.config.summary_republish_ms})
        yield transport, federation


async def serving_nodes(federation: Federation, listen_s: float) -> list[str]:
    """List the nodes that serve as shards, by id, and ask those for their summary that did not publish it yet.

    It listens for `listen_s` seconds at most, while there is one that is not known.

    Raises:
        CallError: They could not be listed.
    """
    from rag_stdlib.mesh.federation.clock import Deadline
    from rag_stdlib.mesh.federation.query import learn

    place = federation.place
    end = place.clock.monotonic() + listen_s
    while True:
        nodes = sorted({info.node.lower() for info in await place.transport.providers(place.settings.procedure)})
        unheard = [node for node in nodes if place.directory.summary(node) is None]
        if unheard:
            await learn(place, unheard, Deadline(place.clock, _LEARN_S, place.settings.summary_procedure))
        known = all(place.directory.summary(node) is not None for node in nodes)
        if (nodes and known) or place.clock.monotonic() >= end:
            return nodes
        await asyncio.sleep(_LOOK_S)
