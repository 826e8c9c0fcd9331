"""One question to all shards: who is asked, until when, and what became of each (RAG service contract §4.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rag_stdlib.contract.cbor import Value
from rag_stdlib.mesh.errors import CallError, InvalidCall, ReplyRefused, words_of
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
_LEARNING: Final = 0.25
_LOG: Final = logging.getLogger("rag_stdlib")


@dataclass(frozen=True, slots=True)
class FederatedAnswer:
    """The merged hits, best first, and every shard in exactly one of `answered`, `failed` and `not_asked`, each by node id.

    `merged_by` names the strategy that put the hits in order. `counted` are the shards whose statistics stand in the scores, where
    statistics were exchanged; one of them may have failed later.
    """

    hits: tuple[Hit, ...]
    answered: tuple[Answered, ...]
    failed: tuple[Failed, ...]
    not_asked: tuple[NotAsked, ...]
    merged_by: str
    counted: tuple[str, ...] = ()


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
    asking = Asking(place, timeout_ms)
    payload, topics = question(query, top_k, place.settings)
    outcomes = await asking.round(await asking.begin(topics), payload)
    return asking.answer(outcomes, top_k, merger)


def question(query: Mapping[str, object], top_k: int, settings: Settings) -> tuple[Value, tuple[str, ...]]:
    """Return what every shard is sent, a copy that nobody changes on its way, and the topics that it asks for.

    Raises:
        InvalidCall, PayloadRefused: it is no question, or the mesh does not carry it.
    """
    if not isinstance(query, Mapping):
        raise InvalidCall(f"a query is a map, not {type(query).__name__}")
    if type(top_k) is not int or not 1 <= top_k <= _MAX_INT:
        raise InvalidCall("top_k is a whole number above 0")
    return outgoing(ShardQuery(query, top_k, settings.embedding).payload()), query_topics(query)


class Asking:
    """One question on its way: who is asked, in one round or several, until one deadline, which counts from here."""

    def __init__(self, place: Place, timeout_ms: int | None) -> None:
        """Begin the time; `InvalidCall` for what is none."""
        milliseconds = place.settings.query_timeout_ms if timeout_ms is None else timeout_ms
        if type(milliseconds) is not int:
            raise InvalidCall("timeout_ms is a whole number of milliseconds")
        self._place = place
        self._deadline = Deadline(place.clock, checked_seconds(milliseconds / 1_000), place.settings.procedure)
        self._judged: list[Failed | NotAsked] = []

    async def begin(self, topics: Sequence[str]) -> list[str]:
        """List the shards, and return those that are to be asked, by node id.

        A shard whose summary was not heard yet is asked for that first, if it serves it, for a quarter of the time at most.

        Raises:
            NoShards: they could not be listed in time.
        """
        place = self._place
        try:
            found = await within(self._deadline, place.stragglers, place.transport.providers(place.settings.procedure))
        except CallError as error:
            raise NoShards(error) from error
        nodes = sorted({info.node.lower() for info in found})
        unheard = [node for node in nodes if place.directory.summary(node) is None]
        if unheard:
            await learn(place, unheard, self._deadline.part(_LEARNING))
        verdicts = {node: _before(place, node, topics) for node in nodes}
        self._judged = [verdict for verdict in verdicts.values() if verdict is not None]
        return [node for node, verdict in verdicts.items() if verdict is None]

    async def round(self, nodes: Sequence[str], payload: Value, share: float = 1.0) -> list[Answered | Failed]:
        """Ask these nodes at the same time; those that are not done after this share of the time that is left are let go."""
        deadline = self._deadline.part(share)
        tasks = {node: asyncio.ensure_future(self._one(node, payload, deadline)) for node in nodes}
        try:
            await deadline.wait(*tasks.values())
            return [self._outcome(node, task) for node, task in tasks.items()]
        finally:
            self._place.stragglers.drop(*tasks.values())

    def answer(self, outcomes: Sequence[Answered | Failed], top_k: int, merger: Merger, counted: Iterable[str] = ()) -> FederatedAnswer:
        """Merge what the shards answered."""
        everyone = sorted((*self._judged, *outcomes), key=lambda outcome: outcome.node)
        answered = tuple(each for each in everyone if isinstance(each, Answered))
        lost = tuple(each for each in everyone if isinstance(each, Failed))
        passed_by = tuple(each for each in everyone if isinstance(each, NotAsked))
        return FederatedAnswer(tuple(merge(answered, top_k, merger)), answered, lost, passed_by, merger.name, tuple(sorted(counted)))

    def _outcome(self, node: str, task: asyncio.Future[Answered | Failed]) -> Answered | Failed:
        if not task.done():
            return Failed(node, TimedOut(), asked=True, took_ms=self._took)
        if task.cancelled():
            return failed(node, RuntimeError("the call was cancelled"), self._took)
        return task.result()

    async def _one(self, node: str, payload: Value, deadline: Deadline) -> Answered | Failed:
        try:
            reply = await self._reply(node, payload, deadline)
            return judged(node, reply, self._place.settings.embedding, self._took)
        except Exception as error:  # noqa: BLE001 - whatever asking one shard fails with is that shard's outcome
            return failed(node, error, self._took)

    async def _reply(self, node: str, payload: Value, deadline: Deadline) -> object:
        place = self._place
        left = deadline.left
        if left <= 0:
            raise deadline.timeout
        if node == place.transport.node_id:
            return await place.responder.answer_here(payload)
        return await pinned(place, place.settings.procedure, payload, node, left)

    @property
    def _took(self) -> float:
        return self._deadline.passed * 1_000


async def learn(place: Place, nodes: Sequence[str], deadline: Deadline) -> None:
    """Ask nodes for the summary that they publish, where they serve it; those that do not tell in time stay unheard."""
    procedure = place.settings.summary_procedure
    try:
        listed = await within(deadline, place.stragglers, place.transport.providers(procedure))
    except CallError as error:
        _LOG.debug("those who serve %s could not be listed: %s", procedure, error)
        return
    serving = {info.node.lower() for info in listed} & set(nodes) - {place.transport.node_id}
    tasks = [asyncio.ensure_future(_told(place, procedure, node, deadline)) for node in sorted(serving)]
    try:
        await deadline.wait(*tasks)
    finally:
        place.stragglers.drop(*tasks)


async def _told(place: Place, procedure: str, node: str, deadline: Deadline) -> None:
    try:
        place.directory.hear_summary(node, await pinned(place, procedure, {}, node, deadline.left))
    except Exception as error:  # noqa: BLE001 - whatever asking one node fails with, it is that node that stays unheard
        _LOG.debug("the node %s did not tell its summary: %s", node, words_of(error))


async def pinned(place: Place, procedure: str, payload: Value, node: str, seconds: float) -> Value:
    """Call one node, and return what it answers within so many seconds; a reply that is not bound to it is refused."""
    reply = await place.transport.call_pinned(procedure, payload, provider=node, timeout_s=seconds)
    if not isinstance(reply, PinnedReply) or reply.provider != node:
        raise ReplyRefused("unbound_reply", f"the reply is not that of the node {node}")
    return reply.value


def _before(place: Place, node: str, topics: Sequence[str]) -> Failed | NotAsked | None:
    """Judge a node by its summary; None where it is to be asked."""
    summary = place.directory.summary(node)
    if summary is None:
        return Failed(node, NoSummary(), asked=False)
    if summary.embedding != place.settings.embedding:
        return Failed(node, EmbeddingMismatch(summary.embedding), asked=False)
    return NotAsked(node, summary.shard_id) if bloom.rules_out(summary.bloom, topics) else None
