"""One question to all shards: who is asked, until when, and what became of each (RAG service contract §4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rag_stdlib.contract.cbor import Value
from rag_stdlib.mesh.errors import CallError, InvalidCall, ReplyRefused
from rag_stdlib.mesh.federation import bloom
from rag_stdlib.mesh.federation.clock import Clock, Deadline, Stragglers, within
from rag_stdlib.mesh.federation.directory import Directory
from rag_stdlib.mesh.federation.failures import NoShards
from rag_stdlib.mesh.federation.judging import (
    Answered,
    EmbeddingMismatch,
    Failed,
    NoSummary,
    NotAsked,
    TimedOut,
    failed,
    judged,
)
from rag_stdlib.mesh.federation.merging import Merger, merge
from rag_stdlib.mesh.federation.payloads import Hit, ShardQuery, query_topics
from rag_stdlib.mesh.federation.responder import Responder
from rag_stdlib.mesh.federation.settings import Settings
from rag_stdlib.mesh.transport import PinnedReply, Transport, checked_seconds
from rag_stdlib.mesh.wire import outgoing

TOP_K: Final = 10

_MAX_INT: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FederatedAnswer:
    """The merged hits, best first, and every shard in exactly one of `answered`, `failed` and `not_asked`, each by node id.

    `merged_by` names the strategy that put the hits in order.
    """

    hits: tuple[Hit, ...]
    answered: tuple[Answered, ...]
    failed: tuple[Failed, ...]
    not_asked: tuple[NotAsked, ...]
    merged_by: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked from: one configuration, and what serves it."""

    transport: Transport
    settings: Settings
    directory: Directory
    responder: Responder
    clock: Clock
    stragglers: Stragglers


async def ask(place: Place, query: Mapping[str, object], top_k: int, timeout_ms: int | None, merger: Merger) -> FederatedAnswer:
    """Ask every shard that the mesh lists and whose summary names this node's embedding, and merge their answers.

    The time counts from here, the listing of the shards included.

    Raises:
        InvalidCall, PayloadRefused: the question is none, or the mesh does not carry it; nobody was asked.
        NoShards: the shards could not be listed in time.
    """
    milliseconds = place.settings.query_timeout_ms if timeout_ms is None else timeout_ms
    if type(milliseconds) is not int:
        raise InvalidCall("timeout_ms is a whole number of milliseconds")
    deadline = Deadline(place.clock, checked_seconds(milliseconds / 1_000), place.settings.procedure)
    payload, topics = _question(query, top_k, place.settings)
    nodes = await _listed(place, deadline)
    verdicts = {node: _before(place, node, topics) for node in nodes}
    outcomes: list[Answered | Failed | NotAsked] = [verdict for verdict in verdicts.values() if verdict is not None]
    outcomes += await _FanOut(place, payload, deadline).ask([node for node, verdict in verdicts.items() if verdict is None])
    outcomes.sort(key=lambda outcome: outcome.node)
    answered = tuple(each for each in outcomes if isinstance(each, Answered))
    lost = tuple(each for each in outcomes if isinstance(each, Failed))
    passed_by = tuple(each for each in outcomes if isinstance(each, NotAsked))
    return FederatedAnswer(tuple(merge(answered, top_k, merger)), answered, lost, passed_by, merger.name)


def _question(query: Mapping[str, object], top_k: int, settings: Settings) -> tuple[Value, tuple[str, ...]]:
    """Return what every shard is sent, a copy that nobody changes on its way, and the topics that it asks for."""
    if not isinstance(query, Mapping):
        raise InvalidCall(f"a query is a map, not {type(query).__name__}")
    if type(top_k) is not int or not 1 <= top_k <= _MAX_INT:
        raise InvalidCall("top_k is a whole number above 0")
    return outgoing(ShardQuery(query, top_k, settings.embedding).payload()), query_topics(query)


async def _listed(place: Place, deadline: Deadline) -> list[str]:
    """List the nodes to ask, each once, by id."""
    try:
        found = await within(deadline, place.stragglers, place.transport.providers(place.settings.procedure))
    except CallError as error:
        raise NoShards(error) from error
    return sorted({info.node.lower() for info in found})


def _before(place: Place, node: str, topics: Sequence[str]) -> Failed | NotAsked | None:
    """Judge a node by its summary; None where it is to be asked."""
    summary = place.directory.summary(node)
    if summary is None:
        return Failed(node, NoSummary(), asked=False)
    if summary.embedding != place.settings.embedding:
        return Failed(node, EmbeddingMismatch(summary.embedding), asked=False)
    return NotAsked(node, summary.shard_id) if bloom.rules_out(summary.bloom, topics) else None


class _FanOut:
    """The calls of one question."""

    def __init__(self, place: Place, payload: Value, deadline: Deadline) -> None:
        """Send everyone the same payload."""
        self._place, self._payload, self._deadline = place, payload, deadline

    async def ask(self, nodes: Sequence[str]) -> list[Answered | Failed]:
        """Ask these nodes at the same time; those that are not done when the time is up are let go."""
        tasks = {node: asyncio.ensure_future(self._one(node)) for node in nodes}
        try:
            await self._deadline.wait(*tasks.values())
            return [self._outcome(node, task) for node, task in tasks.items()]
        finally:
            self._place.stragglers.drop(*tasks.values())

    def _outcome(self, node: str, task: asyncio.Future[Answered | Failed]) -> Answered | Failed:
        if not task.done():
            return Failed(node, TimedOut(), asked=True, took_ms=self._took)
        if task.cancelled():
            return failed(node, RuntimeError("the call was cancelled"), self._took)
        return task.result()

    async def _one(self, node: str) -> Answered | Failed:
        try:
            reply = await self._reply(node)
            return judged(node, reply, self._place.settings.embedding, self._took)
        except Exception as error:  # noqa: BLE001 - whatever asking one shard fails with is that shard's outcome
            return failed(node, error, self._took)

    async def _reply(self, node: str) -> object:
        transport, left = self._place.transport, self._deadline.left
        if left <= 0:
            raise self._deadline.timeout
        if node == transport.node_id:
            return await self._place.responder.answer_here(self._payload)
        reply = await transport.call_pinned(self._place.settings.procedure, self._payload, provider=node, timeout_s=left)
        if not isinstance(reply, PinnedReply) or reply.provider != node:
            raise ReplyRefused("unbound_reply", f"the reply is not that of the node {node}")
        return reply.value

    @property
    def _took(self) -> float:
        return self._deadline.passed * 1_000
