"""Asking a shard over an index, by itself and as a caller on the mesh does."""

from __future__ import annotations

from typing import Any

import pytest
from fed_mesh import PROCEDURE, A, Node, Run, Shards, settle

from rag_stdlib import Failure, rag_ingest
from rag_stdlib.mesh.errors import ProviderError, Refusal
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.payloads import Embedding, ShardQuery

INDEX = "birds.db"
TEXT = "raven owl"


def put(doc_id: str, text: str, index: str = INDEX) -> None:
    rag_ingest(index, doc_id, f"{doc_id}.txt", text, 80).unwrap()


def hits(shard: IndexShard, query: dict[str, Any], top_k: int = 10) -> list[Any]:
    return list(shard(query, top_k).hits)


def refused(shard: IndexShard, query: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        shard(query, 5)
    return caught.value


def failed(shard: IndexShard, query: dict[str, Any]) -> str:
    with pytest.raises(Failure) as caught:
        shard(query, 5)
    return caught.value.error.code


async def ask(node: Node, query: dict[str, Any], embedding: Embedding) -> Any:
    payload = ShardQuery(query, 5, embedding).payload()
    return (await node.inner.call_pinned(PROCEDURE, payload, provider=A)).value


async def serving(mesh: Shards, shard: IndexShard, embedding: Embedding) -> Node:
    """Serve a shard, and return another node that calls it."""
    member = await mesh.member(mesh.node(A), embedding)
    await member.register_responder(shard)
    await settle()
    node, _ = await mesh.asker()
    return node


def caught_by_caller(run: Run, shard: IndexShard, query: dict[str, Any], embedding: Embedding) -> ProviderError:
    async def body() -> None:
        async with Shards() as mesh:
            await ask(await serving(mesh, shard, embedding), query, embedding)

    with pytest.raises(ProviderError) as caught:
        run(body())
    return caught.value
