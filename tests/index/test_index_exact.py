"""The answers of all three modes are exactly what a plain second implementation gives."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import apsw
import numpy as np
import pytest
from embedder_double import EmbedderDouble
from index_oracle import WORDS, bm25, coded_cosines, corpus, cosines, queries, standardised

from rag_stdlib import Config, QueryOptions, RagConfig, Runtime, rag_ingest, rag_query
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.index import fusion, vecread, vectors
from rag_stdlib.index.filters import NO_FILTERS, Filters
from rag_stdlib.index.ranking import Ranking
from rag_stdlib.index.resident.cache import Limits
from rag_stdlib.index.search import Found, Query, search
from rag_stdlib.index.store import Store
from rag_stdlib.index.writer import ingest
from rag_stdlib.records import FrozenDict, Mode, SourceDocument
from rag_stdlib.root import Root
from rag_stdlib.text.normalize import index_terms, query_terms

PATH = "index.db"
MODES: tuple[Mode, ...] = ("lexical", "vector", "hybrid")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, EmbedderDouble]:
    store = Store(Root(str(tmp_path_factory.mktemp("exact"))))
    embedder = EmbedderDouble()
    for number, (doc_id, source, text) in enumerate(corpus(60)):
        metadata = FrozenDict({"n": number % 4, "even": number % 2 == 0})
        ingest(store, PATH, SourceDocument(doc_id, source, text, metadata=metadata), 90, embedder=embedder)
    return store, embedder


class Rows:
    """Everything stored, read with plain SQL in the order of ties."""

    def __init__(self, store: Store, embedder: EmbedderDouble) -> None:
        with store.reading(PATH) as connection:
            found = list(connection.execute("SELECT c.seq, c.doc_id, c.ordinal, c.text, d.source, d.metadata FROM rag_chunks c "
                                            "JOIN rag_documents d ON d.id = c.doc_id"))
            vectors_of = vecread.pick(connection, np.array([row[0] for row in found]), embedder.identity().dim)
        self.keys = [(row[1], row[2]) for row in found]
        self.texts = [str(row[3]) for row in found]
        self.sources = [row[4] for row in found]
        self.metadata = [json.loads(str(row[5])) for row in found]
        self.vectors = vectors_of

    def words(self, query: str) -> list[float]:
        scores = bm25({position: index_terms(text).split() for position, text in enumerate(self.texts)},
                      [term for term, _ in query_terms(query)])
        return [scores.get(position, 0.0) for position in range(len(self.texts))]

    def ranked(self, scores: list[float], allowed: list[bool], limit: int) -> list[tuple[tuple[str, int], float]]:
        rows = [(key, score) for key, score, keep in zip(self.keys, scores, allowed, strict=True) if keep]
        return sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]


def asked(store: Store, embedder: EmbedderDouble, text: str, limit: int, mode: Mode, filters: Filters = NO_FILTERS, *,
          min_score: float | None = None, per_document: int | None = None) -> Found:
    """Search with what may be kept in memory, and without; both answer alike."""
    found, from_file = (search(store, PATH, Query(limit, mode, filters, min_score, per_document, limits), [text], embedder)[0]
                        for limits in (Limits(2**30, 2**30), None))
    assert found == from_file
    return found


FILTERS = (
    (Filters(), lambda _source, _metadata: True),
    (Filters(sources=("src/1",)), lambda source, _metadata: source == "src/1"),
    (Filters(metadata=FrozenDict({"n": (1, 3)})), lambda _source, metadata: metadata["n"] in (1, 3)),
    (Filters(source_prefix="src/", metadata=FrozenDict({"even": True, "n": 2})),
     lambda _source, metadata: metadata["even"] and metadata["n"] == 2),
    (Filters(doc_ids=()), lambda _source, _metadata: False),
)


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_r116_vector_mode_is_the_float64_ranking(filled: tuple[Store, EmbedderDouble], limit: int) -> None:
    store, embedder = filled
    rows = Rows(store, embedder)
    for number, text in enumerate(queries(12)):
        filters, passes = FILTERS[number % len(FILTERS)]
        allowed = [bool(passes(*pair)) for pair in zip(rows.sources, rows.metadata, strict=True)]
        scores = cosines(rows.vectors, embedder.embed([text], "query")[0])
        found = asked(store, embedder, text, limit, "vector", filters)
        assert [((chunk.doc_id, chunk.ordinal), chunk.score) for chunk in found.chunks] == rows.ranked(scores, allowed, limit)
        assert all(chunk.vector_score == chunk.score and chunk.lexical_score is None for chunk in found.chunks)


def test_r64_r116_lexical_mode_is_bm25(filled: tuple[Store, EmbedderDouble]) -> None:
    store, embedder = filled
    rows = Rows(store, embedder)
    for number, text in enumerate(queries(40)):
        filters, passes = FILTERS[number % len(FILTERS)]
        wanted = {key: score for key, score, source, metadata in
                  zip(rows.keys, rows.words(text), rows.sources, rows.metadata, strict=True)
                  if score and passes(source, metadata)}
        found = asked(store, embedder, text, 1000, "lexical", filters)
        assert {(chunk.doc_id, chunk.ordinal) for chunk in found.chunks} == wanted.keys()
        for chunk in found.chunks:
            assert chunk.score == pytest.approx(wanted[chunk.doc_id, chunk.ordinal], abs=1e-6)
            assert (chunk.lexical_score, chunk.vector_score) == (chunk.score, None)
        order = [(-(chunk.score or 0.0), chunk.doc_id, chunk.ordinal) for chunk in found.chunks]
        assert order == sorted(order)


@pytest.mark.parametrize("limit", [1, 9, 1000])
def test_r116_hybrid_mode_is_the_sum_of_both_standardised(filled: tuple[Store, EmbedderDouble], limit: int) -> None:
    store, embedder = filled
    rows = Rows(store, embedder)
    for number, text in enumerate([*queries(12, seed=5), "zzz unknownword"]):
        filters, passes = FILTERS[number % len(FILTERS)]
        allowed = [bool(passes(*pair)) for pair in zip(rows.sources, rows.metadata, strict=True)]
        query = embedder.embed([text], "query")[0]
        words = rows.words(text)
        cosine = standardised(cosines(rows.vectors, query), coded_cosines(rows.vectors, query))
        scores = [a + b for a, b in zip(cosine, standardised(words, words), strict=True)]
        by_key = dict(zip(rows.keys, scores, strict=True))
        found = asked(store, embedder, text, limit, "hybrid", filters)
        wanted = rows.ranked(scores, allowed, limit)
        assert len(found.chunks) == len(wanted)
        for chunk, (_, score) in zip(found.chunks, wanted, strict=True):
            assert chunk.score == pytest.approx(score, abs=2e-5)  # the statistics are sums of whole millionths
            assert chunk.score == pytest.approx(by_key[chunk.doc_id, chunk.ordinal], abs=2e-5)
            has_words = words[rows.keys.index((chunk.doc_id, chunk.ordinal))] > 0
            assert (chunk.lexical_score is not None) == has_words
            assert chunk.vector_score is not None


def test_least_score_and_hits_per_document_bound_the_answer(filled: tuple[Store, EmbedderDouble]) -> None:
    store, embedder = filled
    for mode in MODES:
        whole = asked(store, embedder, "refund order invoice", 10_000, mode).chunks
        taken: dict[str, int] = {}
        wanted = []
        for chunk in whole:
            taken[chunk.doc_id] = taken.get(chunk.doc_id, 0) + 1
            if taken[chunk.doc_id] <= 2:
                wanted.append(chunk)
        for limit in (1, 5, 40, 10_000):
            found = asked(store, embedder, "refund order invoice", limit, mode, per_document=2).chunks
            assert found == tuple(wanted[:limit])
        least = whole[len(whole) // 2].score
        assert least is not None
        found = asked(store, embedder, "refund order invoice", 10_000, mode, min_score=least).chunks
        assert found == tuple(chunk for chunk in whole if chunk.score is not None and chunk.score >= least)
        assert len(found) < len(whole)


def test_a_least_score_does_not_make_a_search_look_down_the_whole_ranking(filled: tuple[Store, EmbedderDouble],
                                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    store, embedder = filled
    looked: list[int] = []
    best = Ranking.best

    def watched(self: Ranking, k: int) -> fusion.Ranked:
        looked.append(k)
        return best(self, k)

    monkeypatch.setattr(Ranking, "best", watched)
    for mode in MODES:
        whole = asked(store, embedder, "refund order invoice", 10_000, mode).chunks
        least = whole[2].score
        assert least is not None
        wanted = tuple(chunk for chunk in whole if chunk.score is not None and chunk.score >= least)
        looked.clear()
        assert asked(store, embedder, "refund order invoice", 10, mode, min_score=least).chunks == wanted[:10]
        assert looked == [10, 10]
        looked.clear()  # a cap per document alone still looks further down, and then stops at the least score
        capped = asked(store, embedder, "refund order invoice", 10, mode, min_score=least, per_document=1).chunks
        assert {chunk.doc_id for chunk in capped} == {chunk.doc_id for chunk in wanted}
        assert looked == [10, 10]


def test_r10_no_search_sends_a_nearest_neighbour_query_to_vec0(tmp_path: Path) -> None:
    """`k = ?` and `LIMIT` of vec0 contradict each other in some releases; neither is ever sent."""
    sent: list[str] = []

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: sent.append(event["sql"]))

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        rag_ingest(PATH, "d", "s", " ".join(WORDS), 30)
        rag_ingest(PATH, "e", "s", "refund", 30)
    apsw.connection_hooks.append(watch)
    try:
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
            for mode in ("vector", "hybrid"):
                options = QueryOptions(mode=mode, metadata={}, doc_id=("d", "e"), per_document=1)  # type: ignore[arg-type]
                assert len(rag_query(PATH, "refund order", 2, options).unwrap()) == 2
                assert rag_query(PATH, "refund order", 100).is_ok
    finally:
        apsw.connection_hooks.remove(watch)
    assert any("rag_vectors_chunks" in statement for statement in sent)
    assert [statement for statement in sent if re.search(r"\brag_vectors\b(?!')|\bk\s*=\s*\?", statement)] == []
    assert [statement for statement in sent if "MATCH" in statement and "rag_lexical" not in statement] == []


def test_embedder_of_another_dimension_or_model_is_refused_by_name(filled: tuple[Store, EmbedderDouble]) -> None:
    store, _ = filled
    for other in (EmbedderDouble(dim=16), EmbedderDouble(model="other")):
        for mode in MODES[1:]:
            with pytest.raises(Failure) as failed:
                search(store, PATH, Query(3, mode), ["refund"], other)
            assert failed.value.error.code == "embedding_mismatch"
            assert "hashing/words-sha256, 32 dimensions" in str(failed.value)
            assert other.identity().describe() in str(failed.value)
            assert f"rag reembed {PATH}" in str(failed.value)
        assert other.calls == []  # nothing was asked of a wrong embedder


def test_random_chunks_survive_many_inserts_and_deletes_of_whole_blocks(tmp_path: Path) -> None:
    store, embedder = Store(Root(str(tmp_path))), EmbedderDouble(dim=8)
    rng = random.Random(4)
    words = [f"w{number}" for number in range(5_000)]
    for round_ in range(6):
        for doc in rng.sample(range(4), 3):
            text = " ".join(rng.sample(words, 900 if round_ != 3 else 40))
            ingest(store, PATH, SourceDocument(f"d{doc}", "s", text), 6, embedder=embedder)
    with store.reading(PATH) as connection:
        blocks = [(some.tolist(), part.copy()) for some, part in vecread.slabs(connection, 8)]
        some = {seq: row for listed, part in blocks for seq, row in zip(listed, part, strict=True)}
        texts = dict(connection.execute("SELECT seq, text FROM rag_chunks"))
        seqs = np.array(list(texts)[::-1], np.int64)
        rows = vecread.pick(connection, seqs, 8)
        vectors.load_extension(connection)
        own = {seq: np.frombuffer(blob, "<f4") for seq, blob in
               connection.execute("SELECT rowid, embedding FROM rag_vectors")}
    assert sorted(some) == sorted(texts) == sorted(own)
    assert len(seqs) > 1_024
    fresh = embedder.embed([str(texts[seq]) for seq in seqs.tolist()], "passage")
    for seq, row, again in zip(seqs.tolist(), rows, fresh, strict=True):
        assert row.tobytes() == some[seq].tobytes() == own[seq].tobytes() == again.tobytes()


def test_little_memory_for_vectors_changes_no_answer(tmp_path: Path) -> None:
    """300 vectors of 1,024 dimensions are 1.2 MB, more than the one megabyte allowed."""
    words = [f"word{number % 97} thing{number % 31} item{number}." for number in range(300)]
    found = []
    for megabytes in (1, 512):
        config = Config(root=str(tmp_path), rag=RagConfig(vector_memory_mb=megabytes))
        with Runtime(config, embedder=HashingEmbedder(1_024)):
            rag_ingest("wide.db", "d", "s", "\n".join(words), 20).unwrap()
            for mode in ("vector", "hybrid"):
                hits = rag_query("wide.db", "thing7 word3", 300, QueryOptions(mode=mode)).unwrap()
                found.append([hit.to_dict() for hit in hits])
    assert len(found[0]) >= 300
    assert found[0] == found[2]
    assert found[1] == found[3]
