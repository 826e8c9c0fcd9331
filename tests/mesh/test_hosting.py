"""An index on a mesh: served whole, told anew where it changes, drained without losing a call."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib import Config, Runtime, SourceDocument, rag_delete, rag_ingest_document, rag_reembed
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.errors import CallError, ProviderError, RelayError, ServeRefused, TransportClosed
from rag_stdlib.mesh.federation.bloom import rules_out
from rag_stdlib.mesh.federation.failures import InvalidOrg
from rag_stdlib.mesh.federation.indexshard import LEXICAL, IndexShard
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.responder import Hits
from rag_stdlib.mesh.federation.searching import search
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.hosting import Host, HostedShard
from rag_stdlib.mesh.memory import MemoryMesh, MemoryTransport
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.mesh.transport import Handler, Served
from rag_stdlib.result import Ok

Run = Callable[[Coroutine[Any, Any, Any]], Any]

REALM_NAME = "io.example"
REALM = hashlib.sha256(REALM_NAME.encode()).digest()
OPTIONS = {"org": "acme", "shard_id": "docs", "realm_name": REALM_NAME, "query_timeout_ms": 20_000}
PROCEDURE = "acme/rag.query_shard_v1"
INDEX = "docs.db"
OFTEN_MS = 20
SERVING, ASKING = "aa" * 32, "bb" * 32


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(16)) as made:
        yield made


def put(doc_id: str, text: str, topics: str = "birds") -> None:
    assert isinstance(rag_ingest_document(INDEX, SourceDocument(doc_id, f"{doc_id}.md", text, metadata={"topics": topics}), 200), Ok)


def hosted(runtime: Runtime, search: Any = None, **more: Any) -> HostedShard:
    return HostedShard(search or IndexShard(runtime, INDEX), Federation(), REALM, {**OPTIONS, **more})


@asynccontextmanager
async def asker(mesh: MemoryMesh, embedding: Embedding) -> AsyncIterator[tuple[MemoryTransport, Federation]]:
    """A node that asks, and is no shard."""
    async with mesh.node(node_id=ASKING) as node, Federation() as federation:
        await federation.configure(node, REALM, {**OPTIONS, "embedding": embedding})
        yield node, federation


async def until(holds: Callable[[], object]) -> None:
    """Wait for what happens in other tasks or threads; the test's own limit ends it."""
    while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.005)


def text_of(federation: Federation) -> Mapping[str, tuple[str, ...]]:
    return {shard.node_id: shard.topics for shard in federation.shards()}


def test_provider_and_shard_of_one_index_are_served_and_withdrawn(runtime: Runtime, run: Run) -> None:
    put("ravens", "Ravens store food for the winter.")

    async def body() -> None:
        mesh = MemoryMesh()
        host = Host(mesh.node(node_id=SERVING), provider=Provider(runtime, INDEX, org="acme"), shard=hosted(runtime))
        async with asker(mesh, Embedding("words-sha256", 16)) as (node, federation):
            await host.begin()
            assert host.ungranted == {}
            found = await search(federation, "ravens", mode="lexical")
            assert [(hit["source_path"], hit["node_id"], hit["shard_id"]) for hit in found.hits] == [("ravens.md", SERVING, "docs")]
            answer = await Caller(node, "acme").ask("ravens in winter", provider=SERVING)
            assert [hit.hit["source_path"] for hit in answer.hits] == ["ravens.md"]
            assert text_of(federation) == {SERVING: ("birds",)}
            await host.drain()
            await host.drain()
            assert await node.providers(PROCEDURE) == await node.providers("acme/answer_query") == []
            await until(lambda: not federation.shards())
        with pytest.raises(TransportClosed):
            await host.transport.providers(PROCEDURE)

    run(body())


def test_the_parts_that_are_not_wanted_are_not_served(runtime: Runtime, run: Run) -> None:
    async def served(**parts: Any) -> list[bool]:
        mesh = MemoryMesh()
        host = Host(mesh.node(), **parts)
        async with mesh.node() as node:
            await host.begin()
            found = [bool(await node.providers(name)) for name in ("acme/answer_query", PROCEDURE)]
            await host.drain()
        return found

    assert run(served(provider=Provider(runtime, INDEX, org="acme"))) == [True, False]
    assert run(served(shard=hosted(runtime))) == [False, True]


def test_what_another_process_ingests_is_found_and_told_within_a_period(runtime: Runtime, run: Run) -> None:
    async def body() -> None:
        mesh = MemoryMesh()
        host = Host(mesh.node(node_id=SERVING), shard=hosted(runtime, summary_republish_ms=OFTEN_MS))
        async with asker(mesh, Embedding("words-sha256", 16)) as (_, federation):
            await host.begin()
            await until(lambda: text_of(federation) == {SERVING: ()})
            for name, topics in (("ravens", "birds"), ("oaks", "trees")):
                await asyncio.to_thread(put, name, f"All about {name}.", topics)
                found = await search(federation, name, mode="lexical")
                assert [hit["source_path"] for hit in found.hits] == [f"{name}.md"]
            await until(lambda: text_of(federation) == {SERVING: ("birds", "trees")})
            assert not rules_out(federation.shards()[0].bloom, ["trees"])
            assert rules_out(federation.shards()[0].bloom, ["fish"])
            await asyncio.to_thread(rag_delete, INDEX, "oaks")
            await until(lambda: text_of(federation) == {SERVING: ("birds",)})
            await host.drain()

    run(body())


def test_an_index_that_does_not_change_is_not_read_again(runtime: Runtime, run: Run) -> None:
    put("ravens", "Ravens store food.")
    shard = IndexShard(runtime, INDEX)
    read: list[str] = []

    class Counting:
        embedding, content = shard.embedding, shard.content

        def summary(self) -> object:
            read.append("summary")
            return shard.summary()

        def __call__(self, query: dict[str, Any], top_k: int) -> object:
            return shard(query, top_k)

    async def body() -> None:
        host = Host(MemoryMesh().node(), shard=(kept := hosted(runtime, Counting())))
        await host.begin()
        await kept.refresh()
        assert read == ["summary"]
        await asyncio.to_thread(put, "owls", "Owls hunt at night.")
        await kept.refresh()
        assert read == ["summary"] * 2
        await host.drain()

    run(body())


def test_an_index_that_is_embedded_anew_is_a_shard_of_the_new_embedding(tmp_path: Path, run: Run) -> None:
    def embedded(dim: int) -> None:
        with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(dim)):
            assert isinstance(rag_reembed(INDEX), Ok)

    async def body(runtime: Runtime) -> None:
        mesh = MemoryMesh()
        kept = hosted(runtime, summary_republish_ms=OFTEN_MS)
        host = Host(mesh.node(node_id=SERVING), shard=kept)
        async with asker(mesh, Embedding("words-sha256", 8)) as (_, federation):
            await host.begin()
            assert kept.embedding == LEXICAL
            for dim in (16, 8):
                await asyncio.to_thread(embedded, dim)
                await until(lambda dim=dim: kept.embedding == Embedding("words-sha256", dim))
            found = await search(federation, "ravens", mode="vector", vector=[1.0] * 8)
            assert [hit["source_path"] for hit in found.hits] == ["ravens.md"]
            await host.drain()

    with Runtime(Config(), root=tmp_path) as runtime:
        put("ravens", "Ravens store food.")
        run(body(runtime))


def test_an_index_that_cannot_be_read_leaves_what_was_told(runtime: Runtime, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put("ravens", "Ravens store food.")

    async def body() -> None:
        mesh = MemoryMesh()
        host = Host(mesh.node(node_id=SERVING), shard=hosted(runtime, summary_republish_ms=OFTEN_MS))
        async with asker(mesh, Embedding("words-sha256", 16)) as (_, federation):
            await host.begin()
            await until(lambda: text_of(federation) == {SERVING: ("birds",)})
            (tmp_path / INDEX).rename(tmp_path / "aside.db")
            (tmp_path / INDEX).write_text("no index")
            await until(lambda: "stays as it was" in caplog.text)
            assert text_of(federation) == {SERVING: ("birds",)}
            (tmp_path / INDEX).unlink()
            (tmp_path / "aside.db").rename(tmp_path / INDEX)
            await asyncio.to_thread(put, "oaks", "Oaks.", "trees")
            await until(lambda: text_of(federation) == {SERVING: ("birds", "trees")})
            await host.drain()

    with caplog.at_level(logging.WARNING, "rag_stdlib"):
        run(body())
    assert "Traceback" not in caplog.text


class Slow:
    """A search that says when it has begun, and waits to be let go."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def embedding(self) -> Embedding:
        return LEXICAL

    def content(self) -> str:
        return "c"

    def summary(self) -> Any:
        return type("Summary", (), {"topics": (), "bloom": b"", "content": "c"})()

    def __call__(self, _query: dict[str, Any], _top_k: int) -> Hits:
        self.entered.set()
        assert self.release.wait(20)
        return Hits(({"id": "a", "score": 1.0},))


def test_draining_waits_for_the_calls_that_run_and_takes_no_more(runtime: Runtime, run: Run) -> None:
    slow = Slow()
    question = {"query": {"text": "x"}, "top_k": 1, "model": LEXICAL.model, "dim": LEXICAL.dim}

    async def body() -> None:
        mesh = MemoryMesh()
        host = Host(mesh.node(node_id=SERVING), shard=hosted(runtime, slow))
        async with mesh.node() as node:
            await host.begin()
            call = asyncio.create_task(node.call_pinned(PROCEDURE, question, provider=SERVING, timeout_s=20))
            await until(slow.entered.is_set)
            draining = asyncio.create_task(host.drain())
            await asyncio.sleep(0.05)
            draining.cancel()  # it goes on all the same
            with pytest.raises(asyncio.CancelledError):
                await draining
            assert not call.done()
            with pytest.raises(RelayError):
                await node.call_pinned(PROCEDURE, question, provider=SERVING)
            slow.release.set()
            assert [hit["id"] for hit in (await call).value["hits"]] == ["a"]
            await host.drain()

    run(body())


@pytest.mark.parametrize(("options", "org", "kind"), [({"org": "a/b"}, "acme", InvalidOrg), ({}, f"~{ASKING}", ServeRefused)])
def test_what_may_not_be_served_leaves_nothing_behind(runtime: Runtime, run: Run, options: dict[str, str], org: str, kind: type[CallError]) -> None:
    async def body() -> None:
        mesh = MemoryMesh()
        host = Host(mesh.node(), provider=Provider(runtime, INDEX, org=org), shard=hosted(runtime, **options))
        with pytest.raises(kind):
            await host.begin()
        async with mesh.node() as node:
            assert await node.providers(PROCEDURE) == []
        await host.drain()
        with pytest.raises(TransportClosed):
            await host.transport.providers(PROCEDURE)

    run(body())


def test_an_index_of_another_embedder_is_refused_at_the_start(tmp_path: Path, run: Run) -> None:
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(8)):
        put("ravens", "Ravens store food.")

    async def body(runtime: Runtime) -> None:
        host = Host(MemoryMesh().node(), shard=hosted(runtime))
        with pytest.raises(Failure) as caught:
            await host.begin()
        await host.drain()
        assert caught.value.error.code == "embedding_mismatch"

    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(16)) as runtime:
        run(body(runtime))


class Withheld:
    """A node whose organisation does not grant it the shard's procedure, and keeps the provider's waiting."""

    ungranted: Mapping[str, str] = {"acme/answer_query": "no delegation"}

    def __init__(self, inner: MemoryTransport) -> None:
        self._inner = inner
        self.granted = False

    async def serve(self, procedure: str, handler: Handler) -> Served:
        if procedure == PROCEDURE and not self.granted:
            raise ServeRefused(procedure, "no delegation")
        return await self._inner.serve(procedure, handler)

    def __getattr__(self, name: str) -> Any:
        """Be a node in everything else."""
        return getattr(self._inner, name)


def test_what_waits_for_a_grant_is_told_until_it_comes(runtime: Runtime, run: Run) -> None:
    async def body() -> None:
        node = Withheld(MemoryMesh().node())
        host = Host(node, shard=hosted(runtime, grant_retry_ms=OFTEN_MS))  # type: ignore[arg-type]
        await host.begin()
        assert host.ungranted == {"acme/answer_query": "no delegation", PROCEDURE: f"{PROCEDURE} cannot be served here: no delegation"}
        node.granted = True
        await until(lambda: host.ungranted == {"acme/answer_query": "no delegation"})
        await host.drain()
        assert host.ungranted == {"acme/answer_query": "no delegation"}

    run(body())


def test_a_node_that_cannot_take_leave_is_drained_all_the_same(runtime: Runtime, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        host = Host(MemoryMesh().node(), provider=Provider(runtime, INDEX, org="acme"))
        await host.begin()
        inner = host._serving

        class Failing:
            async def stop(self) -> None:
                await inner.stop()
                raise ProviderError("gone")

        host._serving = Failing()  # type: ignore[assignment]
        await host.drain()
        with pytest.raises(TransportClosed):
            await host.transport.providers(PROCEDURE)

    run(body())
    assert "could not be withdrawn: the provider answered gone" in caplog.text


def test_a_summary_that_cannot_be_published_or_told_does_not_end_the_serving(
        runtime: Runtime, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    put("ravens", "Ravens store food.")

    async def body() -> None:
        mesh = MemoryMesh()
        kept = hosted(runtime, summary_republish_ms=OFTEN_MS)
        host = Host(mesh.node(node_id=SERVING), shard=kept)

        async def silent(*_: object, **__: object) -> None:
            raise RelayError("overloaded")

        host.transport.publish = silent  # type: ignore[method-assign]
        await host.begin()
        assert "could not be published: the mesh could not relay the call: overloaded" in caplog.text

        def broken() -> str:
            raise OSError("no disk")

        kept._shard.content = broken  # type: ignore[method-assign]
        await until(lambda: "OSError: no disk" in caplog.text)
        async with asker(mesh, Embedding("words-sha256", 16)) as (_, federation):
            assert len((await search(federation, "ravens", mode="lexical")).hits) == 1
        del host.transport.publish
        await host.drain()

    run(body())
