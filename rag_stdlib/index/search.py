"""One query over one index: scores, filters, the exact best k, and the envelopes of the chunks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw
import numpy as np
import orjson

from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index import fusion, lexical, scan, schema, vectors
from rag_stdlib.index.filters import NO_FILTERS, Filters, allowed_chunks
from rag_stdlib.index.sql import number
from rag_stdlib.index.store import Store
from rag_stdlib.records import NOTHING, EffectEnvelope, FrozenDict, Mode, RagChunkEnvelope, made
from rag_stdlib.text.normalize import MAX_QUERY_TERMS, all_query_terms

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

SEARCH_EFFECT: Final = "std.rag.search"
CHUNK_COLUMNS: Final = (
    "c.seq, c.doc_id, c.chunk_id, c.source, c.text, c.start_char, c.end_char, c.provenance_key, c.ordinal, c.start_line, "
    "c.end_line, c.start_byte, c.end_byte, c.content_sha256, c.page, d.metadata"
)


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for. `per_document` bounds the hits of one document, `min_score` their score in the mode's unit.

    `vector_bytes` bounds the float vectors held in memory at once.
    """

    text: str
    limit: int
    mode: Mode
    filters: Filters = NO_FILTERS
    min_score: float | None = None
    per_document: int | None = None
    vector_bytes: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, best first, and remarks for people."""

    chunks: tuple[RagChunkEnvelope, ...]
    notes: tuple[str, ...] = ()


def search(store: Store, path: str, query: Query, embedder: Embedder | None) -> Found:
    """Answer a query from one snapshot of the index.

    Order: score descending, then doc_id, then ordinal. A blank query finds nothing in every mode. The embedder is
    called between two snapshots, so that no read transaction waits for it.

    Raises:
        Failure: a refusal of the path or file, `embedding_mismatch`, `vectors_missing`, an `embedder_*` code.
    """
    if query.mode != "lexical" and embedder is None:
        raise fail("mode_needs_embedder", mode=query.mode)
    with store.reading(path) as connection:
        if query.mode == "lexical" or embedder is None:
            return _answer(connection, path, query, None)
        holdings = _Holdings.of(connection)
    vector: npt.NDArray[np.float32] | None = None
    if query.text.strip() and holdings.chunks:
        holdings.check(path, embedder)
        vector = boundary.embedded(embedder, [query.text], "query")[0]
    with store.reading(path) as connection:
        if vector is not None:
            _Holdings.of(connection).check(path, embedder)
        return _answer(connection, path, query, vector)


@dataclass(frozen=True, slots=True)
class _Holdings:
    """How many chunks and vectors an index holds, and whose vectors they are."""

    chunks: int
    vectors: int
    identity: EmbedderIdentity | None

    @classmethod
    def of(cls, connection: apsw.Connection) -> _Holdings:
        chunks = number(connection, "SELECT count(*) FROM rag_chunks")
        return cls(chunks, vectors.count(connection), schema.stored_identity(connection))

    def check(self, path: str, embedder: Embedder) -> None:
        """Refuse vectors of another embedder, and chunks without a vector."""
        given = boundary.identified(embedder, self.identity)
        if self.vectors and self.identity is not None and self.identity != given:
            raise fail("embedding_mismatch", path=path, stored=self.identity.describe(), given=given.describe())
        if self.vectors < self.chunks:
            raise fail("vectors_missing", path=path, missing=self.chunks - self.vectors, total=self.chunks,
                       given=given.describe())


def _answer(connection: apsw.Connection, path: str, query: Query, vector: npt.NDArray[np.float32] | None) -> Found:
    if not query.text.strip():
        return Found((), ("the query is blank",))
    if vector is None and query.mode != "lexical":  # there was nothing to embed the query for
        return Found(())
    terms = all_query_terms(query.text)
    ranking = _Ranking(connection, query, terms[:MAX_QUERY_TERMS], vector)
    hits: list[_Hit] = []
    k = query.limit
    while True:
        ranked = ranking.best(k)
        hits = _in_order(connection, path, ranked, query)
        if len(hits) >= query.limit or len(ranked.seqs) < k or _reaches_below(ranked, query.min_score):
            break
        k *= 4  # the cap per document left too few: look further down the ranking
    return Found(tuple(_envelopes(connection, hits[:query.limit], query.mode)), _notes(terms, query.mode))


def _reaches_below(ranked: fusion.Ranked, least: float | None) -> bool:
    """Tell whether the best k hold a score that is too low: whatever comes after them is too low as well."""
    return least is not None and bool((ranked.score < least).any())


def _notes(terms: tuple[tuple[str, bool], ...], mode: Mode) -> tuple[str, ...]:
    if not terms:
        return ("no_terms: the query holds no letter, digit or symbol to look up",)
    if len(terms) > MAX_QUERY_TERMS and mode != "vector":
        return (f"terms_cut: {len(terms)} distinct words, the first {MAX_QUERY_TERMS} count",)
    return ()


class _Ranking:
    """The scores of one query, computed once, asked for its best k."""

    def __init__(self, connection: apsw.Connection, query: Query, terms: tuple[tuple[str, bool], ...],
                 vector: npt.NDArray[np.float32] | None) -> None:
        self._mode = query.mode
        self._allowed = allowed_chunks(connection, query.filters)
        self._seqs, self._scores = np.empty(0, np.int64), np.empty(0, np.float64)
        self._scan: scan.Scan | None = None
        if query.mode != "vector":
            self._seqs, self._scores = lexical.scores(connection, terms)
        if vector is not None:
            self._scan = _scan(connection, vector, query.vector_bytes)

    def best(self, k: int) -> fusion.Ranked:
        if self._scan is None:
            allowed = self._keep(self._seqs)
            return fusion.best_lexical(self._seqs[allowed], self._scores[allowed], k)
        allowed = self._keep(self._scan.seqs)
        if self._mode == "vector":
            return fusion.best_vector(self._scan, allowed, k)
        return fusion.best_hybrid(self._scan, allowed, self._words_by_row(self._scan.seqs), k)

    def _keep(self, seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self._allowed is None:
            return np.arange(len(seqs))
        return np.flatnonzero(np.isin(seqs, self._allowed))

    def _words_by_row(self, seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Line BM25 scores up with the rows of the scan."""
        by_row = np.zeros(len(seqs))
        if len(self._seqs):
            order = np.argsort(self._seqs)
            at = np.searchsorted(self._seqs[order], seqs)
            at[at == len(order)] = 0
            match = self._seqs[order][at] == seqs
            by_row[match] = self._scores[order][at[match]]
        return by_row


def _scan(connection: apsw.Connection, vector: npt.NDArray[np.float32], keep_bytes: int) -> scan.Scan:
    dim = len(vector)

    def again(seqs: npt.NDArray[np.int64]) -> Matrix:
        found = vectors.load_some(connection, seqs.tolist(), dim)
        return np.array([found[seq] for seq in seqs.tolist()], np.float32).reshape(-1, dim)

    return scan.scan(vectors.blocks(connection, dim), vector, again, keep_bytes)


@dataclass(frozen=True, slots=True)
class _Hit:
    seq: int
    score: float
    lexical: float | None
    vector: float | None


def _in_order(connection: apsw.Connection, path: str, ranked: fusion.Ranked, query: Query) -> list[_Hit]:
    """Sort by score, doc_id and ordinal, and apply the bounds on score and hits per document."""
    seqs = ranked.seqs.tolist()
    places = {seq: (doc_id, ordinal) for seq, doc_id, ordinal in connection.execute(
        "SELECT seq, doc_id, ordinal FROM rag_chunks WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps(seqs),))}
    if len(places) != len(seqs):
        raise fail("index_corrupt", path=path, detail="terms or vectors are stored that belong to no chunk")
    rows = zip(seqs, ranked.score.tolist(), ranked.lexical.tolist(), ranked.vector.tolist(), strict=True)
    hits: list[_Hit] = []
    taken: dict[str, int] = {}
    for seq, score, words, vector in sorted(rows, key=lambda row: (-row[1], *places[row[0]])):
        if query.min_score is not None and score < query.min_score:
            break
        doc_id = places[seq][0]
        taken[doc_id] = taken.get(doc_id, 0) + 1
        if query.per_document is None or taken[doc_id] <= query.per_document:
            hits.append(_Hit(seq, score, _number(words), _number(vector)))
    return hits


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _envelopes(connection: apsw.Connection, hits: list[_Hit], mode: Mode) -> Iterator[RagChunkEnvelope]:
    seqs = json.dumps([hit.seq for hit in hits])
    rows = {row[0]: row for row in connection.execute(
        f"SELECT {CHUNK_COLUMNS} FROM rag_chunks c JOIN rag_documents d ON d.id = c.doc_id "
        "WHERE c.seq IN (SELECT value FROM json_each(?))", (seqs,))}
    for hit in hits:
        found: Mapping[str, Any] = {"score": hit.score, "mode": mode, "lexical_score": hit.lexical,
                                    "vector_score": hit.vector}
        yield envelope(rows[hit.seq], found, SEARCH_EFFECT)


def envelope(row: tuple[Any, ...], found: Mapping[str, Any], effect: str) -> RagChunkEnvelope:
    """Make the envelope of a stored chunk (a row of `CHUNK_COLUMNS`); `found` holds its scores and mode, `effect` made it."""
    (_seq, doc_id, chunk_id, source, text, start_char, end_char, key, ordinal, start_line, end_line, start_byte, end_byte,
     digest, page, metadata) = row
    meta = made(EffectEnvelope, {"effect_name": effect, "provenance_key": key, "approval_label": "", "cache_key": "",
                                 "replay_key": effect})
    return made(RagChunkEnvelope, {
        "doc_id": doc_id, "chunk_id": chunk_id, "source": source, "text": text, "start_char": start_char, "end_char": end_char,
        "provenance_key": key, "effect_meta": meta, "ordinal": ordinal, "start_line": start_line, "end_line": end_line,
        "start_byte": start_byte, "end_byte": end_byte, "content_sha256": digest, "score": found["score"], "mode": found["mode"],
        "lexical_score": found["lexical_score"], "vector_score": found["vector_score"], "page": page,
        "metadata": NOTHING if metadata == "{}" else FrozenDict(orjson.loads(metadata))})
