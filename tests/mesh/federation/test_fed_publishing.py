"""A shard's summary as it is told to whoever asks, beside being published (`rag.shard_summary_v1`)."""

from __future__ import annotations

from typing import Any

import pytest
from fed_mesh import (
    MINILM,
    NOMIC,
    REALM,
    TELLING,
    A,
    Node,
    Run,
    SealingNode,
    Shards,
    StillClock,
    finding,
    hit,
    no_grant,
    options,
    settle,
)

from rag_stdlib.mesh.errors import CallError, NoProvider, PayloadRefused, ProviderError, Refusal, RelayError
from rag_stdlib.mesh.federation.bloom import Bloom
from rag_stdlib.mesh.federation.directory import Directory
from rag_stdlib.mesh.federation.payloads import Summary, read_summary
from rag_stdlib.mesh.federation.publishing import telling
from rag_stdlib.mesh.federation.settings import settings
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.transport import Handler, Request, Served

BLOOM = Bloom.of(["coast"]).to_bytes()


async def told(node: Node) -> Summary:
    """What the node A tells another one that asks."""
    summary = read_summary((await node.inner.call_pinned(TELLING, {}, provider=A)).value)
    assert summary is not None
    return summary


async def pair(mesh: Shards, **more: Any) -> tuple[Node, Federation, Node]:
    """A node that may be a shard, and one that asks it."""
    node = mesh.node(A)
    member = await mesh.member(node, **more)
    return node, member, mesh.node("ee" * 32)


def test_nothing_is_told_before_anything_is_advertised(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            await member.register_responder(finding(hit("a", 1.0)))
            with pytest.raises(NoProvider):
                await told(asker)
            assert TELLING not in node.served

    run(body())


def test_what_is_advertised_is_told_and_so_is_what_takes_its_place(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member, asker = await pair(mesh, shard_id="library")
            await member.advertise(["coast"], BLOOM)
            assert await told(asker) == Summary("library", NOMIC, ("coast",), BLOOM, 1_000_000)
            clock.now += 7.0
            await member.advertise(["wood"])
            assert await told(asker) == Summary("library", NOMIC, ("wood",), b"", 1_007_000)
            assert node.served == [TELLING]

    run(body())


def test_what_is_withdrawn_is_told_no_more_and_told_again_once_it_is_back(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            await member.withdraw()
            assert node.withdrawn == [TELLING]
            with pytest.raises(RelayError):
                await told(asker)
            await member.withdraw()
            await member.advertise(["wood"])
            assert (await told(asker)).topics == ("wood",)
            await member.close()
            with pytest.raises(RelayError):
                await told(asker)

    run(body())


def test_another_embedding_is_told_as_soon_as_it_is_configured(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            await member.configure(node, REALM, options(MINILM))
            summary = await told(asker)
            assert (summary.embedding, summary.topics) == (MINILM, ("coast",))
            assert (node.served, node.withdrawn) == ([TELLING], [])

    run(body())


def test_another_organisation_is_told_and_the_first_no_more(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            await member.configure(node, REALM, {**options(), "org": "beta"})
            with pytest.raises(RelayError):
                await told(asker)
            reply = await asker.inner.call_pinned("beta/rag.shard_summary_v1", {}, provider=A)
            summary = read_summary(reply.value)
            assert summary is not None
            assert summary.topics == ("coast",)

    run(body())


def test_another_mode_of_sealing_is_advertised_anew(run: Run) -> None:
    async def body() -> list[str]:
        async with Shards() as mesh:
            node = mesh.node(A, SealingNode)
            member = await mesh.member(node, confidential="off")
            await member.advertise(["coast"])
            await member.configure(node, REALM, options(confidential="required"))
            await member.configure(node, REALM, options(confidential="required"))
            assert (await told(mesh.node("ee" * 32))).topics == ("coast",)
            return list(node.modes)

    assert run(body()) == ["off", "required"]


def test_without_a_grant_it_is_published_and_told_once_that_is_there(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member, asker = await pair(mesh, grant_retry_ms=1_000)
            node.no_grant = no_grant()
            await member.advertise(["coast"])
            assert len(node.published) == 1
            with pytest.raises(NoProvider):
                await told(asker)
            await clock.advance(1.0)
            assert node.serve_attempts == 2
            node.no_grant = None
            await clock.advance(1.0)
            assert (await told(asker)).topics == ("coast",)
            await clock.advance(5.0)
            assert (node.serve_attempts, node.served) == (3, [TELLING])

    run(body())


def test_a_shard_that_leaves_while_it_waits_for_the_grant_serves_nothing_later(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member, _ = await pair(mesh, grant_retry_ms=1_000)
            node.no_grant = no_grant()
            await member.advertise(["coast"])
            await member.withdraw()
            node.no_grant = None
            await clock.advance(10.0)
            assert node.served == []

    run(body())


def test_what_cannot_be_published_is_told_all_the_same(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            node.no_publishing = CallError("the mesh is gone")
            with pytest.raises(CallError, match="the mesh is gone"):
                await member.advertise(["coast"])
            assert (await told(asker)).topics == ("coast",)

    run(body())


@pytest.mark.parametrize("payload", [None, {}, [], "which?", {"who": b"\xff"}, 7])
def test_whatever_is_asked_the_summary_is_told(run: Run, payload: Any) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            reply: Any = await asker.inner.call_pinned(TELLING, payload, provider=A)
            assert reply.value["topics"] == ["coast"]

    run(body())


class Keeping:
    """A transport that keeps the handler it is given."""

    node_id = A

    async def serve(self, _procedure: str, handler: Handler) -> Served:
        self.handler = handler
        return Nothing()


class Nothing:
    """What is served by nobody."""

    async def stop(self) -> None:
        """Have nothing to withdraw."""


def test_a_summary_that_went_in_the_meantime_is_refused_by_name(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        directory, keeping = Directory(clock, 9.0), Keeping()
        serving = telling(keeping, settings(REALM, options()), directory, clock)  # type: ignore[arg-type]
        await serving.start()
        directory.keep_own(A, Summary("s", NOMIC, (), b"", 0))
        request = Request(TELLING, {}, A)
        reply: Any = keeping.handler(request)
        assert reply["at_ms"] == 1_000_000
        directory.drop_own()
        with pytest.raises(Refusal, match="no_summary"):
            keeping.handler(request)
        await serving.stop()

    run(body())


def test_what_other_nodes_would_pass_over_is_not_advertised(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            with pytest.raises((CallError, PayloadRefused)):
                await member.advertise(["wood"], bytes(2 * 1024 * 1024))
            await settle()
            assert (await told(asker)).topics == ("coast",)
            assert len(node.published) == 1

    run(body())


def test_a_shard_tells_only_for_itself(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            _, member, asker = await pair(mesh)
            await member.advertise(["coast"])
            other = await mesh.member(mesh.node("bb" * 32))
            await other.register_responder(finding())
            await settle()
            with pytest.raises(NoProvider):
                await asker.inner.call_pinned(TELLING, {}, provider="bb" * 32)
            with pytest.raises(ProviderError):
                await asker.inner.call_pinned("acme/rag.query_shard_v1", {}, provider="bb" * 32)

    run(body())
