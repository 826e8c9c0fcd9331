"""Queries over one index: the exact best k of each, filters applied, and the envelopes of the chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw
import numpy as np
import orjson

from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import fusion
from rag_stdlib.index.collection import Wider
from rag_stdlib.index.facts import Facts
from rag_stdlib.index.filters import NO_FILTERS, Filters
from rag_stdlib.index.ranking import Question, Ranking, rankings
from rag_stdlib.index.resident.cache import RESIDENTS, Limits
from rag_stdlib.index.snapshot import Snapshot
from rag_stdlib.index.sql import listed
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.index.store import Store
from rag_stdlib.records import NOTHING, EffectEnvelope, FrozenDict, Mode, RagChunkEnvelope, made
from rag_stdlib.text.normalize import MAX_QUERY_TERMS, all_query_terms

if TYPE_CHECKING:
    import numpy.typing as npt

Vectors: TypeAlias = Mapping[str, "npt.NDArray[np.float32]"]  # of queries, by their texts

SEARCH_EFFECT: Final = "std.rag.search"
_PLACE_COLUMNS: Final = "c.seq, c.doc_id, c.ordinal, c.source, c.content_sha256"
CHUNK_COLUMNS: Final = (
    f"{_PLACE_COLUMNS}, c.chunk_id, c.text, c.start_char, c.end_char, c.provenance_key, c.start_line, "
    "c.end_line, c.start_byte, c.end_byte, c.page, d.metadata"
)


@dataclass(frozen=True, slots=True)
class Query:
    """How to search. `per_document` bounds the hits of one document, `min_score` their score in the mode's unit.

    `limits` bounds what may be kept in memory for later searches; None keeps nothing. `approximate` allows a search by vectors to
    miss some of the best, where that is quicker. `distinct`: chunks with one text are one hit, the first of them, and `limit` counts
    those; the others are its copies. `wider`: scores are those that the collection gives which the index is a part of; such a query has
    one text.
    """

    limit: int
    mode: Mode
    filters: Filters = NO_FILTERS
    min_score: float | None = None
    per_document: int | None = None
    limits: Limits | None = None
    approximate: bool = False
    distinct: bool = False
    wider: Wider | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, best first, and remarks for people.

    `copies`, of a search for distinct texts: for each hit the sources of the other chunks with its text, in order. All are there whose
    score is at least that of the last hit.
    """

    chunks: tuple[RagChunkEnvelope, ...]
    notes: tuple[str, ...] = ()
    copies: tuple[tuple[str, ...], ...] = ()


def search(store: Store, path: str, query: Query, texts: Sequence[str], embedder: Embedder | None) -> list[Found]:
    """Answer queries, which differ in their text only, from one snapshot of the index and with one call of the embedder.

    Order of hits: score descending, then doc_id, then ordinal. A blank query finds nothing in every mode. The embedder is
    called outside any snapshot, so that no read transaction waits for it.

    Raises:
        Failure: a refusal of the path or file, `embedding_mismatch`, `vectors_missing`, an `embedder_*` code.
    """
    vectors = vectors_of(store, path, query.mode, texts, embedder)
    with store.snapshot(path) as snapshot:
        if vectors and embedder is not None:
            refuse_unfit(store, snapshot, path, embedder)
        return answers(snapshot, path, query, texts, vectors)


def vectors_of(store: Store, path: str, mode: Mode, texts: Sequence[str], embedder: Embedder | None) -> Vectors:
    """Embed what a search in this mode has to, once the index is known to hold vectors of the embedder, outside any snapshot.

    The vectors are good for a snapshot that `refuse_unfit` finds fit. None where there is nothing to embed, or no chunk to find.

    Raises:
        Failure: as `search`.
    """
    if mode == "lexical":
        return {}
    if embedder is None:
        raise fail("mode_needs_embedder", mode=mode)
    seen = store.seen(path)
    unfit = _unfit(seen, path, embedder) if seen is not None and seen.chunks else None
    if seen is None or not seen.chunks or unfit is not None:  # else it is looked at once, after embedding
        with store.snapshot(path) as snapshot:
            seen = snapshot.facts
        unfit = _unfit(seen, path, embedder) if seen.chunks else None
    asked = list(dict.fromkeys(text for text in texts if text.strip())) if seen.chunks else []
    if asked and unfit is not None:
        raise unfit
    return dict(zip(asked, boundary.embedded(embedder, asked, "query"), strict=True)) if asked else {}


def refuse_unfit(store: Store, snapshot: Snapshot, path: str, embedder: Embedder) -> None:
    """Refuse a snapshot whose vectors are of another embedder, or that has chunks without one.

    Raises:
        Failure: `embedding_mismatch`, `vectors_missing`.
    """
    facts = snapshot.facts
    store.see(path, facts)
    unfit = _unfit(facts, path, embedder)
    if unfit is not None:
        raise unfit


def _unfit(facts: Facts, path: str, embedder: Embedder) -> Failure | None:
    """Refuse vectors of another embedder, and chunks without a vector."""
    stored = facts.embedder
    given = boundary.identified(embedder, stored)
    if facts.vectors and stored is not None and stored != given:
        return fail("embedding_mismatch", path=path, stored=stored.describe(), given=given.describe())
    if facts.vectors < facts.chunks:
        return fail("vectors_missing", path=path, missing=facts.chunks - facts.vectors, total=facts.chunks, given=given.describe())
    return None


def answers(snapshot: Snapshot, path: str, query: Query, texts: Sequence[str], vectors: Vectors) -> list[Found]:
    """Answer each text from a snapshot; one that is blank, or that there was nothing to embed for, finds nothing.

    Raises:
        Failure: `index_corrupt`.
    """
    terms = {text: all_query_terms(text) for text in texts if text.strip() and (query.mode == "lexical" or text in vectors)}
    questions = [Question(some[:MAX_QUERY_TERMS], vectors.get(text)) for text, some in terms.items()]
    near = query.limit if query.approximate else 0
    ranked = rankings(snapshot, questions, query.mode, query.filters, query.limits, near, query.wider) if questions else iter(())
    try:
        found = {text: _found(snapshot.connection, path, query, ranking, _notes(some, query.mode))
                 for (text, some), ranking in zip(terms.items(), ranked, strict=True)}
    except Failure:  # it may be what is in memory that does not fit the file any more
        RESIDENTS.forget(snapshot.key)
        raise
    return [found[text] if text in found else Found((), () if text.strip() else ("the query is blank",)) for text in texts]


def nearest(snapshot: Snapshot, path: str, query: Query, unit: npt.NDArray[np.float32]) -> Found:
    """Answer a query that comes as a vector: float32 of the index's dimension and of unit length; `query` is in mode vector.

    Raises:
        Failure: `index_corrupt`.
    """
    if not snapshot.facts.vectors:
        return Found(())
    return answers(snapshot, path, query, ["vector"], {"vector": unit})[0]


def _found(connection: apsw.Connection, path: str, query: Query, ranking: Ranking, notes: tuple[str, ...]) -> Found:
    k = query.limit
    while True:
        ranked = ranking.best(k)
        seqs = ranking.seqs[ranked.rows]
        whole = len(seqs) <= 2 * query.limit  # else the rows themselves are fetched of the hits only
        rows = _stored(connection, path, seqs, CHUNK_COLUMNS if whole else _PLACE_COLUMNS)
        hits = _in_order(seqs.tolist(), rows, ranked, query)
        if len(hits) >= query.limit or len(ranked.rows) < k or _reaches_below(ranked, query.min_score):
            break
        k *= 4  # the cap per document, or texts that come back, left too few: look further down the ranking
    hits = hits[:query.limit]
    if not whole:
        rows = _stored(connection, path, np.array([hit.seq for hit in hits], np.int64), CHUNK_COLUMNS)
    chunks = tuple(envelope(rows[hit.seq], {"score": hit.score, "mode": query.mode, "lexical_score": hit.lexical,
                                            "vector_score": hit.vector}, SEARCH_EFFECT) for hit in hits)
    return Found(chunks, notes, tuple(tuple(hit.copies) for hit in hits) if query.distinct else ())


def _stored(connection: apsw.Connection, path: str, seqs: npt.NDArray[np.int64], columns: str) -> dict[int, tuple[Any, ...]]:
    """Fetch rows of chunks, by seq; each begins with `_PLACE_COLUMNS`."""
    table, binding = listed(seqs)
    rows = {row[0]: row for row in sql_rows(
        connection, f"SELECT {columns} FROM {table} a CROSS JOIN rag_chunks c ON c.seq = a.value "
                    "JOIN rag_documents d ON d.id = c.doc_id", (binding,))}
    if len(rows) != len(seqs):
        raise fail("index_corrupt", path=path, detail="terms or vectors are stored that belong to no chunk")
    return rows


def _reaches_below(ranked: fusion.Ranked, least: float | None) -> bool:
    """Tell whether the best k hold a score that is too low: whatever comes after them is too low as well."""
    return least is not None and bool((ranked.score < least).any())


def _notes(terms: tuple[tuple[str, bool], ...], mode: Mode) -> tuple[str, ...]:
    if not terms:
        return ("no_terms: the query holds no letter, digit or symbol to look up",)
    if len(terms) > MAX_QUERY_TERMS and mode != "vector":
        return (f"terms_cut: {len(terms)} distinct words, the first {MAX_QUERY_TERMS} count",)
    return ()


@dataclass(frozen=True, slots=True)
class _Hit:
    seq: int
    score: float
    lexical: float | None
    vector: float | None
    copies: list[str]


def _in_order(seqs: Sequence[int], stored: Mapping[int, tuple[Any, ...]], ranked: fusion.Ranked, query: Query) -> list[_Hit]:
    """Sort by score, doc_id and ordinal, apply the bounds on score and hits per document, and put copies to the text they are of."""
    rows = zip(seqs, ranked.score.tolist(), ranked.lexical.tolist(), ranked.vector.tolist(), strict=True)
    hits: list[_Hit] = []
    taken: dict[str, int] = {}
    texts: dict[str, _Hit] = {}
    for seq, score, words, vector in sorted(rows, key=lambda row: (-row[1], *stored[row[0]][1:3])):
        if query.min_score is not None and score < query.min_score:
            break
        _, doc_id, _, source, digest = stored[seq][:5]
        if query.distinct and digest in texts:
            texts[digest].copies.append(source)
            continue
        taken[doc_id] = taken.get(doc_id, 0) + 1
        if query.per_document is None or taken[doc_id] <= query.per_document:
            hits.append(_Hit(seq, score, _number(words), _number(vector), []))
            texts[digest] = hits[-1]
    return hits


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def envelope(row: tuple[Any, ...], found: Mapping[str, Any], effect: str) -> RagChunkEnvelope:
    """Make the envelope of a stored chunk (a row of `CHUNK_COLUMNS`); `found` holds its scores and mode, `effect` made it."""
    (_seq, doc_id, ordinal, source, digest, chunk_id, text, start_char, end_char, key, start_line, end_line, start_byte, end_byte,
     page, metadata) = row
    meta = made(EffectEnvelope, {"effect_name": effect, "provenance_key": key, "approval_label": "", "cache_key": "",
                                 "replay_key": effect})
    return made(RagChunkEnvelope, {
        "doc_id": doc_id, "chunk_id": chunk_id, "source": source, "text": text, "start_char": start_char, "end_char": end_char,
        "provenance_key": key, "effect_meta": meta, "ordinal": ordinal, "start_line": start_line, "end_line": end_line,
        "start_byte": start_byte, "end_byte": end_byte, "content_sha256": digest, "score": found["score"], "mode": found["mode"],
        "lexical_score": found["lexical_score"], "vector_score": found["vector_score"], "page": page,
        "metadata": NOTHING if metadata == "{}" else FrozenDict(orjson.loads(metadata))})
