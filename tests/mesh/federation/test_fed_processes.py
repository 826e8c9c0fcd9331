"""Shards in processes of their own, real nodes on a live mesh: three answer as one index does, and a fourth of another embedding is not asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fed_indexes import DIM, QUERIES, as_bytes, deal, documents, fill
from index_process import Place, ShardProcess
from station.station_mesh import LiveMesh

from rag_stdlib import Config, Runtime
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.mesh.federation.exchange import Asked
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.judging import EmbeddingMismatch
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.federation.searching import query_vector, search
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.records import Mode

pytest_plugins = ("station.station_fixtures",)

OTHER_DIM = 12
ROLES = ("a", "b", "c", "d")
MODES: list[Mode] = ["vector", "lexical", "hybrid"]


class Scene:
    """Shards a, b and c with a third of the documents each, d with a few of another embedding, and this process, which asks."""

    def __init__(self, mesh: LiveMesh, runtime: Runtime, processes: list[ShardProcess]) -> None:
        self.mesh = mesh
        self.runtime = runtime
        self.processes = processes
        self._one = IndexShard(runtime, "all.db")

    def ask(self, text: str, mode: Mode) -> FederatedAnswer:
        async def asked() -> FederatedAnswer:
            async with Federation() as asking:
                station = self.mesh.station
                await asking.configure(self.mesh.node("e"), bytes.fromhex(station.realm_id), {
                    "org": station.org, "shard_id": "asking", "realm_name": station.realm_name, "embedding": self._one.embedding(),
                    "query_timeout_ms": 30_000})
                return await search(asking, text, mode=mode, vector=self._vector(text, mode))

        return self.mesh.run(asked())

    def alone(self, text: str, mode: Mode) -> list[Any]:
        vector = self._vector(text, mode)
        return list(self._one(Asked(text, mode, None if vector is None else tuple(vector)).query(), 10).hits)

    def _vector(self, text: str, mode: Mode) -> list[float] | None:
        return None if mode == "lexical" else query_vector(self.runtime, text)


@pytest.fixture(scope="module")
def scene(any_mesh: LiveMesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root: Path = tmp_path_factory.mktemp("shards")
    given = documents(90)
    with Runtime(Config(), root=root, embedder=HashingEmbedder(OTHER_DIM)):
        fill("d.db", dict(list(given.items())[:5]))
    station = any_mesh.station
    with Runtime(Config(), root=root, embedder=HashingEmbedder(DIM)) as runtime, ExitStack() as running:
        fill("all.db", given)
        for role, part in zip(ROLES, deal(given, 3), strict=False):
            fill(f"{role}.db", part)
        processes = []
        for role in ROLES:
            station.admit(any_mesh.id(role))
            processes.append(running.enter_context(ShardProcess(Place(
                any_mesh.profile, role, station.host, station.port, station.node_id, station.realm_name, station.realm_id,
                station.realm_key.hex(), station.org, str(root), f"{role}.db", OTHER_DIM if role == "d" else DIM))))
        for process in processes:
            process.ready()
        any_mesh.link("e")
        yield Scene(any_mesh, runtime, processes)


@pytest.mark.parametrize("mode", MODES)
def test_three_processes_answer_as_one_index_and_the_other_embedding_is_not_asked(scene: Scene, mode: Mode) -> None:
    before = [process.asked() for process in scene.processes]
    found = 0
    for text in QUERIES:
        answer = scene.ask(text, mode)
        expected = scene.alone(text, mode)
        assert as_bytes(answer.hits) == as_bytes(expected)
        assert [each.node for each in answer.answered] == sorted(scene.mesh.id(role) for role in "abc")
        (other,) = answer.failed
        assert (other.node, other.asked, other.reason) == (
            scene.mesh.id("d"), False, EmbeddingMismatch(Embedding("words-sha256", OTHER_DIM)))
        found += len(expected)
    assert found > 50
    rounds = {"vector": 1, "lexical": 2, "hybrid": 3}[mode] * len(QUERIES)
    after = [process.asked() - count for process, count in zip(scene.processes, before, strict=True)]
    assert all(count >= rounds for count in after[:3])
    assert after[3] == 0
