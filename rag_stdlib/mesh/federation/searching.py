"""A search over all shards as one index: the rounds of `rag_stdlib.mesh.federation.exchange`, and the merge of what they find.

Where every shard answers all rounds, the hits are those of one index over all documents, in its order and with its scores, to the last
bit. Each round has its share of the time that is left, so that a shard which is slow in one does not take the others' time. A shard that
answers the first round with hits knows nothing of the exchange and is asked no more; its hits are placed by rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rag_stdlib.errors import fail
from rag_stdlib.index.collection import Moments
from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.federation.exchange import (
    PLAIN,
    Asked,
    Exchange,
    Malformed,
    Round,
    Share,
    read_asked,
    read_copies,
    read_share,
)
from rag_stdlib.mesh.federation.indexshard import MOST_HITS
from rag_stdlib.mesh.federation.judging import Answered, Failed, MalformedAnswer
from rag_stdlib.mesh.federation.merging import AS_ONE, ByStatistics, also_in, text_digest
from rag_stdlib.mesh.federation.payloads import Hit
from rag_stdlib.mesh.federation.query import TOP_K, Asking, FederatedAnswer, Place, question
from rag_stdlib.records import MODES, Mode
from rag_stdlib.runtime import Runtime
from rag_stdlib.text.normalize import query_terms

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.shard import Federation

T = TypeVar("T", bound=Any)

_ROUNDS: Final[Mapping[Mode, tuple[Round, ...]]] = {"lexical": ("count", "hits"), "hybrid": ("count", "words", "hits")}


def query_vector(runtime: Runtime, text: str) -> list[float]:
    """Embed a query by the configured embedder, for `search`: as many numbers as its dimension.

    Raises:
        Failure: `mode_needs_embedder` without one, an `embedder_*` code.
    """
    from rag_stdlib.embed import boundary

    embedder = runtime.embedder
    if embedder is None:
        raise fail("mode_needs_embedder", mode="vector")
    return [float(number) for number in boundary.embedded(embedder, [text], "query")[0]]


async def search(federation: Federation, text: str, *, mode: Mode, vector: Sequence[float] | None = None, topics: Sequence[str] = (),
                 top_k: int = TOP_K, timeout_ms: int | None = None) -> FederatedAnswer:
    """Search all shards of a federation as one index.

    Args:
        federation: This node; it has to be configured.
        text: What to look for; blank text finds nothing.
        mode: How; ``lexical``, ``vector`` or ``hybrid``.
        vector: The text's embedding (`query_vector`), in the modes that need one.
        topics: Only documents with one of these may answer; by default all. Scores are of the whole collection all the same, but for shards
            that are passed by for their filters: these are not asked for their statistics either.
        top_k: How many hits to return, 1 to 1,000.
        timeout_ms: For all rounds together; the configuration's `query_timeout_ms` where none is given.

    Returns:
        The hits and every shard's outcome. `merged_by` is ``score`` of a search by vectors; ``statistics`` of the others, ``rank``
        where no shard exchanges them, ``statistics and rank`` where not all do. `counted` are the shards whose statistics are in the scores.

    Raises:
        InvalidCall, PayloadRefused: nothing could be asked so.
        NoShards: the shards could not be listed.
        NotConfigured: what it says.
    """
    if type(top_k) is not int or not 1 <= top_k <= MOST_HITS:
        raise InvalidCall(f"top_k is a whole number from 1 to {MOST_HITS:,}")
    place = federation.place
    asked = _asked(text, mode, vector, (topics,) if isinstance(topics, str) else topics, place.settings.embedding.dim)
    return await _Search(place, asked, top_k, timeout_ms).answer()


def _asked(text: str, mode: Mode, vector: Sequence[float] | None, topics: Sequence[str], dim: int) -> Asked:
    """Make the question, as every shard is going to read it; `dim` is what a vector has to have."""
    if mode not in MODES:
        raise InvalidCall(f"a mode is one of {', '.join(MODES)}, not {mode!r:.100}")
    if (vector is None) != (mode == "lexical"):
        raise InvalidCall(f"a search in mode {mode} takes {'no vector' if mode == 'lexical' else 'a vector'}")
    try:
        asked = read_asked(Asked(text if text != "" else " ", mode, None if vector is None else tuple(vector), tuple(topics)).query())
    except (Malformed, TypeError) as error:
        raise InvalidCall(str(error)) from None
    if asked.vector is not None and len(asked.vector) != dim:
        raise InvalidCall(f"the federation's embedding has {dim} numbers, and the vector {len(asked.vector)}")
    return asked


class _Search:
    """One search on its way."""

    def __init__(self, place: Place, asked: Asked, top_k: int, timeout_ms: int | None) -> None:
        """Begin the time; what cannot be asked is refused."""
        self._asking = Asking(place, timeout_ms)
        self._place, self._asked, self._top_k = place, asked, top_k
        self._terms = len(query_terms(asked.text))
        self._payload(Exchange("count"))
        self._outcomes: list[Answered | Failed] = []  # of shards that are asked no more

    def _payload(self, exchange: Exchange | None) -> Any:  # noqa: ANN401 - a value of the wire
        asked = self._asked
        query = Asked(asked.text, asked.mode, asked.vector, asked.topics, exchange).query()
        return question(query, self._top_k, self._place.settings)[0]

    async def answer(self) -> FederatedAnswer:
        """Ask all rounds."""
        nodes = await self._asking.begin(self._asked.topics) if self._asked.text.strip() else []
        if self._asked.mode == "vector":
            outcomes = await self._asking.round(nodes, self._payload(None))
            return await self._with_copies(self._asking.answer(outcomes, self._top_k, AS_ONE))
        return await self._with_copies(await self._by_words(nodes))

    async def _by_words(self, nodes: list[str]) -> FederatedAnswer:
        exchange = Exchange("hits")
        counted: list[str] = []
        scored: frozenset[str] = frozenset()
        for number, kind in enumerate(rounds := _ROUNDS[self._asked.mode or "lexical"]):
            if not nodes:
                break
            sent = Exchange(kind, exchange.words, exchange.by_vector, exchange.by_words)
            outcomes = await self._asking.round(nodes, self._payload(sent), 1.0 / (len(rounds) - number))
            if kind == "hits":
                last = [_scored(outcome) for outcome in outcomes]
                scored = frozenset(outcome.node for outcome in last if isinstance(outcome, Answered))
                self._outcomes += last
                break
            shares = self._shares(kind, outcomes)
            nodes = list(shares)
            counted = counted or nodes
            exchange = _with_sums(exchange, kind, list(shares.values()))
        others = any(isinstance(outcome, Answered) and outcome.node not in scored for outcome in self._outcomes)
        return self._asking.answer(self._outcomes, self._top_k, ByStatistics(scored, others), counted)

    async def _with_copies(self, answer: FederatedAnswer) -> FederatedAnswer:
        """Ask for copies of hits where they may lie beyond the end of what a shard answered, and name their paths in the hits.

        That is where a shard's last hit is as good as a hit of another shard: of those that are, it answered only the first ones. A shard
        that does not tell in time leaves its copies unnamed.
        """
        wanted = {answered.node: beyond for answered in answer.answered if (beyond := self._beyond(answered, answer.hits))}
        if not wanted:
            return answer
        payload = self._payload(Exchange("copies", digests=tuple(sorted({digest for digests in wanted.values() for digest in digests}))))
        paths: dict[str, set[str]] = {}
        left_out: dict[str, int] = {}
        for outcome in await self._asking.round(sorted(wanted), payload):
            for digest, (more, unnamed) in read_copies((isinstance(outcome, Answered) and outcome.statistics) or {}).items():
                if digest in wanted[outcome.node]:
                    paths.setdefault(digest, set()).update(more)
                    left_out[digest] = left_out.get(digest, 0) + unnamed
        found = {digest: (some, left_out[digest]) for digest, some in paths.items()}
        return replace(answer, hits=tuple(also_in(hit, *found.get(text_digest(hit) or "", ((), 0))) for hit in answer.hits))

    def _beyond(self, answered: Answered, hits: Sequence[Hit]) -> set[str]:
        """Return the digests of hits that are as good as the last of a shard, which has answered as many as it may, and not these."""
        if len(answered.hits) < self._top_k or (answered.statistics or {}).get("v") != PLAIN["v"]:
            return set()
        its_own, last = {text_digest(hit) for hit in answered.hits}, min(hit["score"] for hit in answered.hits)
        found = {text_digest(hit) for hit in hits if hit["score"] == last and hit["node_id"] != answered.node}
        return {digest for digest in found - its_own if digest is not None}

    def _shares(self, kind: Round, outcomes: Iterable[Answered | Failed]) -> dict[str, Share]:
        """Read what shards add to the statistics; the others are done with, those that know of no exchange with their hits."""
        shares: dict[str, Share] = {}
        for outcome in outcomes:
            if isinstance(outcome, Failed) or (kind == "count" and "v" not in (outcome.statistics or {})):
                self._outcomes.append(outcome)
                continue
            share = self._share(kind, outcome)
            if share is None:
                self._outcomes.append(_malformed(outcome))
            else:
                shares[outcome.node] = share
        return shares

    def _share(self, kind: Round, answered: Answered) -> Share | None:
        """Read the share of one shard; None where it is not what the round is for."""
        try:
            share = read_share(answered.statistics or {}, self._terms)
        except Malformed:
            return None
        if kind == "words":
            return share if share.by_words is not None else None
        return share if share.words is not None and (share.by_vector is not None or self._asked.mode == "lexical") else None


def _with_sums(exchange: Exchange, kind: Round, shares: Sequence[Share]) -> Exchange:
    """Return what the next rounds bring along."""
    if kind == "words":
        return Exchange("hits", exchange.words, exchange.by_vector, _sum(share.by_words for share in shares) or Moments(0, 0, 0))
    return Exchange("hits", _sum(share.words for share in shares), _sum(share.by_vector for share in shares))


def _sum(parts: Iterable[T | None]) -> T | None:
    there = [part for part in parts if part is not None]
    return reduce(add, there) if there else None


def _scored(outcome: Answered | Failed) -> Answered | Failed:
    """Hold the hits of the last round to be scored as the round asked for."""
    if isinstance(outcome, Failed) or (outcome.statistics is not None and outcome.statistics.get("v") == PLAIN["v"]):
        return outcome
    return _malformed(outcome)


def _malformed(answered: Answered) -> Failed:
    return Failed(answered.node, MalformedAnswer(), asked=True, took_ms=answered.took_ms)
