"""A node that asks the shards of its organisation: linked and listening for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.meshnode import KeyFile, MeshNode, Org, fit_org, node_of
from rag_stdlib.cli.optiongroup import ModeOption
from rag_stdlib.config import Config
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.payloads import Embedding
    from rag_stdlib.mesh.federation.shard import Federation
    from rag_stdlib.mesh.macula import MaculaTransport

Listen = Annotated[float, typer.Option("--listen", metavar="S", min=0, max=3_600, help="Wait so many seconds at most for shards to publish what they hold, "
                                                                                      "for peers that do not tell it when asked.")]

_LONGEST_MS: Final = 86_400_000
_LOOK_S: Final = 0.2
_LEARN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask the shards of an organisation: options, as commands take them (`rag_stdlib.cli.optiongroup`)."""

    mode: ModeOption = None
    topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="Only documents with this topic; may be repeated. Shards that have none such are not asked.")] = None
    timeout: Annotated[int | None, typer.Option(metavar="MS", min=1, max=_LONGEST_MS, help="Milliseconds for the question; otherwise as configured.")] = None
    listen: Listen = 0.0
    key: KeyFile = None
    org: Org = None

    def __post_init__(self) -> None:
        """Refuse as usage what no node could ask for."""
        fit_org(self.org)
        if not all(each.strip() for each in self.topic or ()):
            raise typer.BadParameter("a topic is not blank", param_hint="--topic")

    def node(self, config: Config) -> MeshNode:
        """Return the node that asks; it fails as `node_of`."""
        return node_of(config, key=self.key, org=self.org)

    @asynccontextmanager
    async def federation(self, runtime: Runtime, node: MeshNode, text: str) -> AsyncIterator[tuple[Federation, dict[str, Any]]]:
        """Link a node, and give the federation, and what `search` takes for a text beside it and the number of hits.

        Raises:
            CallError: as `asking` and `serving_nodes`.
            Failure: what the embedder fails with.
        """
        from rag_stdlib.mesh.federation.indexshard import embedding_of
        from rag_stdlib.mesh.federation.searching import query_vector

        embedding = await asyncio.to_thread(embedding_of, runtime)
        mode = self.mode or runtime.mode
        vector = None if mode == "lexical" else await asyncio.to_thread(query_vector, runtime, text)
        async with asking(node, embedding) as (_, federation):
            if self.listen:
                await serving_nodes(federation, self.listen)
            yield federation, {"mode": mode, "vector": vector, "topics": self.topic or (), "timeout_ms": self.timeout}


def silence(answered: Sized, failed: Sized, not_asked: Sized, org: str) -> tuple[str, str] | None:
    """Say why there is no answer, as a code and words, where nobody answered and nobody was passed by; None where there is one."""
    if answered or not_asked:
        return None
    return ("no_answer", "no shard answered") if failed else ("no_shards", f"no node serves a shard of {org}")


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
