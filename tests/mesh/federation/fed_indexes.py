"""Indexes dealt out to shards, beside one index over the same documents."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from fed_mesh import Shards, settle

from rag_stdlib import Runtime, SourceDocument, rag_ingest_many
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.wire import pack
from rag_stdlib.result import Ok

WORDS = ["raven", "owl", "the", "of", "wren", "heron", "naïve", "東京都", "京都", "km²", "plover", "a1", "teal", "ibis", "ruff"]
QUERIES = ["raven owl", "the of the", "naïve 京", "東京都", "plover of a teal", "nothing of it", "ibis", "!!"]
DIM = 24
PARTS = ["11" * 32, "22" * 32, "33" * 32]


def documents(count: int, seed: int = 7) -> dict[str, str]:
    """Documents with some texts twice, and with ties."""
    rng = random.Random(seed)
    made = {f"d{number:03d}": " ".join(rng.choices(WORDS, weights=range(len(WORDS), 0, -1), k=rng.randint(2, 30))) for number in range(count)}
    made.update({"a-copy": made["d001"], "z-copy": made["d001"], "m-copy": made["d005"]})
    made.update(dict.fromkeys(("b-short", "k-short", "x-short"), "teal ruff ibis"))
    return made


def fill(index: str, given: Mapping[str, str]) -> None:
    listed = [SourceDocument(doc_id, f"birds/{doc_id}.txt", text, metadata={"topics": topic(doc_id)}) for doc_id, text in given.items()]
    assert isinstance(rag_ingest_many(index, listed, 60), Ok)


def topic(doc_id: str) -> str:
    return "coast" if doc_id[-1] in "05" else "wood"


def deal(given: Mapping[str, str], parts: int) -> list[dict[str, str]]:
    """Deal documents out, one by one."""
    return [{doc_id: text for place, (doc_id, text) in enumerate(sorted(given.items())) if place % parts == part} for part in range(parts)]


def plain(hits: Any) -> list[dict[str, Any]]:
    """Hits without where they are from."""
    return [{name: value for name, value in hit.items() if name not in ("node_id", "shard_id")} for hit in hits]


def as_bytes(hits: Any) -> bytes:
    """Hits as they go over the mesh."""
    return pack(json.loads(json.dumps(plain(hits))))


async def index_shard(mesh: Shards, node_id: str, runtime: Runtime, index: str, **more: Any) -> Federation:
    """A node that serves an index, and says so."""
    shard = IndexShard(runtime, index)
    member = await mesh.member(mesh.node(node_id), shard.embedding(), shard_id=index, **more)
    summary = shard.summary()
    await member.register_responder(shard)
    await member.advertise(summary.topics, summary.bloom)
    return member


def wrapped(runtime: Runtime, index: str, when: str, then: Callable[[], Any]) -> Callable[[dict[str, Any], int], Any]:
    """A shard that does as it should until a round, and then something else."""
    shard = IndexShard(runtime, index)

    def answer(query: dict[str, Any], top_k: int) -> Any:
        if query.get("exchange", {}).get("round") == when:
            return then()
        return shard(query, top_k)

    return answer


async def with_a_bad_one(mesh: Shards, runtime: Runtime, search_: Any) -> Federation:
    """Two good shards and a third that is not."""
    for number in (0, 1):
        member = await index_shard(mesh, PARTS[number], runtime, f"{number}.db")
    bad = await mesh.member(mesh.node(PARTS[2]), member.place.settings.embedding, shard_id="bad")
    await bad.register_responder(search_)
    await bad.advertise()
    asker = await mesh.member(mesh.node("ee" * 32), member.place.settings.embedding)
    await settle()
    return asker
