"""An index as a shard: what it answers the questions of its federation with, and what it says about itself.

`IndexShard.embedding` is what to configure a federation with, the shard itself what to register as its search, and `summary` what to
advertise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rag_stdlib.corpus import describe
from rag_stdlib.effects import RAG_READ, authority, refusal
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import corpora, schema, search, served, shares
from rag_stdlib.index.collection import Wider
from rag_stdlib.index.filters import NO_FILTERS, Filters
from rag_stdlib.index.search import Query, Vectors
from rag_stdlib.index.snapshot import Snapshot
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.federation.bloom import Bloom
from rag_stdlib.mesh.federation.exchange import PLAIN, Asked, Exchange, Malformed, Share, read_asked
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.responder import Hits
from rag_stdlib.mesh.procedures import replies, shapes, vectors
from rag_stdlib.mesh.procedures.desk import content_of
from rag_stdlib.records import Mode, RagChunkEnvelope
from rag_stdlib.runtime import Runtime
from rag_stdlib.text.normalize import query_terms
from rag_stdlib.values import MAX_QUERY_BYTES, check_text

LEXICAL: Final = Embedding("lexical", 1)  # what an index without vectors says it is of, as the contract has every shard name something
MOST_HITS: Final = 1_000

_TOPICS: Final = 100  # listed for people, and none that is longer than so many characters; the filter holds all of them
_TOPIC_CHARS: Final = 200
_TERMS: Final = 2_000  # the most frequent ones, in the filter


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """What a shard tells of its index: up to 100 of its topics, the filter, and a digest that changes when the index does ("": not known).

    Topics of more than 200 characters are in the filter only.
    """

    topics: tuple[str, ...]
    bloom: bytes
    content: str


def embedding_of(runtime: Runtime) -> Embedding:
    """Return what the configured embedder makes vectors of; `LEXICAL` without one.

    Raises:
        Failure: what the embedder's identity fails with.
    """
    embedder = runtime.embedder
    if embedder is None:
        return LEXICAL
    return _named(boundary.identified(embedder))


class IndexShard:
    """The search of a shard over the index at a path below the runtime's root; give it to `Federation.register_responder`.

    It answers what `rag_stdlib.mesh.federation.exchange` describes, each question from one snapshot of the index, under the authority of
    the runtime. A hit is as the RAG service contract has it (`chunk_id`, `content`, `score`, `source_path`, `provenance`, `meta`,
    `also_in`), with its `id`, and with the `doc_id`, `ordinal`, `start_char`, `end_char`, `lexical_score` and `vector_score` of `rag_search`.
    """

    def __init__(self, runtime: Runtime, index: str) -> None:
        """Search `index`; nothing is opened yet."""
        self._runtime = runtime
        self._index = index

    def __call__(self, query: Mapping[str, Any], top_k: int) -> Hits:
        """Answer a question with its best `top_k` distinct texts, at most 1,000, or with the statistics of its round.

        Raises:
            Refusal: `missing_text`, `bad_params`, `dimension_mismatch`, `payload_too_large`.
            Failure: what a search fails with; `effect_not_granted`.
        """
        try:
            asked = read_asked(query)
        except Malformed as error:
            raise Refusal(error.refusal, str(error)) from None
        check_text("text", asked.text, MAX_QUERY_BYTES)
        with authority():
            forbidden = refusal("rag.query_shard", (RAG_READ,), self._runtime.config.grant)
            if forbidden is not None:
                raise Failure(forbidden)
            return self._answered(asked, min(top_k, MOST_HITS))

    def embedding(self) -> Embedding:
        """Return what the vectors of the index are of, or of an index that is not there yet, will be; `LEXICAL` where there are none.

        Raises:
            Failure: `embedding_mismatch` where the configured embedder is another one, and every refusal of the file but `index_missing`.
        """
        try:
            with self._runtime.store.snapshot(self._index) as snapshot:
                if schema.stored_identity(snapshot.connection) is not None:
                    return _named(describe.identity_of(snapshot.connection, self._index, self._runtime.embedder))
        except Failure as failure:
            if failure.error.code != "index_missing":
                raise
        return embedding_of(self._runtime)

    def summary(self) -> ShardSummary:
        """Read the topics and the most frequent terms of the index.

        Raises:
            Failure: every refusal of the file but `index_missing`, which is an index without anything.
        """
        try:
            with self._runtime.store.snapshot(self._index) as snapshot:
                topics = served.topics(snapshot.connection)
                terms = served.frequent_terms(snapshot.connection, _TERMS)
                content = content_of(snapshot).get("index_content", "")
        except Failure as failure:
            if failure.error.code != "index_missing":
                raise
            topics, terms, content = [], [], ""
        return ShardSummary(tuple(topic for topic in topics if len(topic) <= _TOPIC_CHARS)[:_TOPICS], Bloom.of(topics, terms).to_bytes(), content)

    def content(self) -> str:
        """Return the digest of what the index holds now; "" where it is not known, or where there is no index."""
        try:
            with self._runtime.store.snapshot(self._index) as snapshot:
                return content_of(snapshot).get("index_content", "")
        except Failure as failure:
            if failure.error.code != "index_missing":
                raise
            return ""

    def _answered(self, asked: Asked, top_k: int) -> Hits:
        mode = asked.mode or ("lexical" if self.embedding() == LEXICAL else "vector")
        embedded = self._embedded(asked, mode)
        with self._runtime.store.snapshot(self._index) as snapshot:
            self._refuse_unfit(snapshot, asked, mode, embedded)
            found = self._found(snapshot, asked, top_k, mode, embedded)
            identity = snapshot.facts.embedder if mode != "lexical" else None
            return found if identity is None else replace(found, embedding=_named(identity))

    def _found(self, snapshot: Snapshot, asked: Asked, top_k: int, mode: Mode, embedded: Vectors) -> Hits:
        exchange = asked.exchange
        if exchange is None or exchange.round == "hits":
            return self._hits(snapshot, asked, top_k, mode, embedded)
        if exchange.round == "copies":
            return Hits((), {**PLAIN, "copies": _copies(snapshot, exchange.digests, asked.topics)})
        return Hits((), self._share(snapshot, asked, exchange, embedded).statistics())

    def _embedded(self, asked: Asked, mode: Mode) -> Vectors:
        if mode == "lexical" or not asked.text.strip() or (asked.exchange is not None and asked.exchange.round == "copies"):
            return {}
        if asked.vector is not None:
            return {asked.text: vectors.unit(asked.vector, "vector")}
        return search.vectors_of(self._runtime.store, self._index, mode, [asked.text], self._runtime.embedder)

    def _refuse_unfit(self, snapshot: Snapshot, asked: Asked, mode: Mode, embedded: Vectors) -> None:
        facts = snapshot.facts
        if mode == "lexical":
            return
        if facts.chunks and (facts.embedder is None or facts.vectors < facts.chunks):
            raise fail("vectors_missing", path=self._index, missing=facts.chunks - facts.vectors, total=facts.chunks, given="the federation's embedding")
        if asked.vector is not None and facts.embedder is not None and len(asked.vector) != facts.embedder.dim:
            raise Refusal("dimension_mismatch", f"expected {facts.embedder.dim} numbers, got {len(asked.vector)}")
        if embedded and asked.vector is None and self._runtime.embedder is not None:
            search.refuse_unfit(self._runtime.store, snapshot, self._index, self._runtime.embedder)

    def _share(self, snapshot: Snapshot, asked: Asked, exchange: Exchange, embedded: Vectors) -> Share:
        terms, limits = query_terms(asked.text), self._runtime.limits
        if exchange.round == "count":
            unit = embedded.get(asked.text)
            by_vector = None if unit is None else shares.vector_moments(snapshot, unit, limits)
            return Share(shares.counts(snapshot, terms, limits), by_vector)
        return Share(by_words=shares.word_moments(snapshot, terms, _wider(exchange, len(terms)).words, limits))

    def _hits(self, snapshot: Snapshot, asked: Asked, top_k: int, mode: Mode, embedded: Vectors) -> Hits:
        wider = None
        if asked.exchange is not None:
            wider = _wider(asked.exchange, len(query_terms(asked.text)))
            if mode == "hybrid" and wider.moments is None:
                raise Refusal("bad_params", "by_vector or by_words is missing")
        query = Query(top_k, mode, _filters(snapshot, asked.topics), limits=self._runtime.limits, distinct=True, wider=wider)
        found = search.answers(snapshot, self._index, query, [asked.text], embedded if snapshot.facts.vectors else {})[0]
        sections = corpora.sections(snapshot.connection, list({chunk.doc_id for chunk in found.chunks}))
        hits = [_hit(chunk, shapes.hit(chunk, sections.get(chunk.doc_id), copies))
                for chunk, copies in zip(found.chunks, found.copies, strict=True)]
        content, bounded = content_of(snapshot).get("index_content"), replies.hits_within_bounds(hits)
        more = {"content": content, "left_out": bounded.get("left_out")}
        return Hits(bounded["hits"], {**PLAIN, **{name: value for name, value in more.items() if value}})


def _named(identity: EmbedderIdentity) -> Embedding:
    return Embedding(describe.model_name(identity), identity.dim)


def _copies(snapshot: Snapshot, digests: Sequence[str], topics: Sequence[str]) -> list[dict[str, Any]]:
    """Name the sources of texts, as many as a hit names and one more, which may be the hit's own; those beyond a reply's bounds are left out."""
    most = shapes.MOST_ELSEWHERE + 1
    found = served.sources_of(snapshot.connection, digests, _filters(snapshot, topics).doc_ids)
    rows = [{"digest": digest, "paths": paths[:most], **({"left_out": len(paths) - most} if len(paths) > most else {})} for digest, paths in found.items()]
    named: list[dict[str, Any]] = replies.hits_within_bounds(rows)["hits"]
    return named


def _filters(snapshot: Snapshot, topics: Sequence[str]) -> Filters:
    return Filters(doc_ids=served.documents_with_topics(snapshot.connection, topics)) if topics else NO_FILTERS


def _wider(exchange: Exchange, terms: int) -> Wider:
    """Return the collection of a round; raises Refusal."""
    words, by_vector, by_words = exchange.words, exchange.by_vector, exchange.by_words
    if words is None or len(words.holding) != terms:
        raise Refusal("bad_params", f"words are to hold {terms} counts, one for each term of the text")
    return Wider(words, (by_vector, by_words) if by_vector is not None and by_words is not None else None)


def _hit(chunk: RagChunkEnvelope, shape: dict[str, Any]) -> dict[str, Any]:
    parts = {"lexical_score": chunk.lexical_score, "vector_score": chunk.vector_score}
    return {"id": shape["chunk_id"], **shape, "doc_id": chunk.doc_id, "ordinal": chunk.ordinal, "start_char": chunk.start_char,
            "end_char": chunk.end_char,
            **{name: score for name, score in parts.items() if score is not None}}
