"""A grant on a mesh that keeps a procedure waiting for it, and asks by itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fed_mesh import ME, PROCEDURE, REALM, Node, Shards, StillClock, finding, no_grant, options

from rag_stdlib.mesh.errors import CallError
from rag_stdlib.mesh.federation.granting import NotGranted
from rag_stdlib.mesh.transport import Handler, Served

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Waiting:
    """What is served once it is granted; `refusal` says why it waits, and `waiting_s` for how long it has."""

    def __init__(self, inner: Served, refusal: CallError | None) -> None:
        self._inner = inner
        self.refusal = refusal
        self.waiting_s = 1.25

    async def stop(self) -> None:
        await self._inner.stop()


class WaitingNode(Node):
    """A node whose mesh never refuses to serve: it waits for the grant."""

    refusal: CallError | None = None

    async def serve(self, procedure: str, handler: Handler) -> Served:
        self.waiting = Waiting(await super().serve(procedure, handler), self.refusal)
        return self.waiting


def test_what_the_mesh_keeps_waiting_is_not_granted_and_its_reason_is_told_as_it_is(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node = mesh.node(ME, WaitingNode)
            node.refusal = refusal = no_grant()
            member = await mesh.member(node)
            await member.register_responder(finding())
            assert member.status().responder == NotGranted(refusal, 1_250)
            node.waiting.refusal = None
            assert member.status().responder == "granted"
            node.waiting.refusal, node.waiting.waiting_s = refusal, 0.5
            assert member.status().responder == NotGranted(refusal, 500), "a grant that ran out begins another run"
            assert node.serve_attempts == 1, "the mesh asks by itself"

    run(body())


def test_a_configuration_asks_again_for_what_waits_and_leaves_alone_what_is_granted(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node = mesh.node(ME, WaitingNode)
            node.refusal = no_grant()
            member = await mesh.member(node)
            await member.register_responder(finding())
            node.refusal = None
            for attempts in (2, 2):
                await member.configure(node, REALM, options())
                assert (node.serve_attempts, node.withdrawn) == (attempts, [PROCEDURE])
                assert member.status().responder == "granted"

    run(body())
