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
from hypothesis import given, settings
from hypothesis import strategies as st
from index_oracle import WORDS, bm25, coded_cosines, corpus, cosines, queries, standardised

from rag_stdlib import Config, QueryOptions, RagConfig, Runtime, rag_ingest, rag_query
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.index import fusion, lexical, scan, vectors
from rag_stdlib.index.filters import Filters
from rag_stdlib.index.search import Found, Query, _Ranking, search
from rag_stdlib.index.store import Store
from rag_stdlib.index.writer import ingest
from rag_stdlib.records import FrozenDict, Mode, SourceDocument
from rag_stdlib.root import Root
from rag_stdlib.text.normalize import index_terms, query_terms

PATH = "index.db"


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
            seqs, vectors_of = vectors.load(connection, embedder.identity().dim)
        order = {seq: position for position, seq in enumerate(seqs.tolist())}
        self.keys = [(row[1], row[2]) for row in found]
        self.texts = [str(row[3]) for row in found]
        self.sources = [row[4] for row in found]
        self.metadata = [json.loads(str(row[5])) for row in found]
        self.vectors = vectors_of[[order[row[0]] for row in found]]

    def words(self, query: str) -> list[float]:
        scores = bm25({position: index_terms(text).split() for position, text in enumerate(self.texts)},
                      [term for term, _ in query_terms(query)])
        return [scores.get(position, 0.0) for position in range(len(self.texts))]

    def ranked(self, scores: list[float], allowed: list[bool], limit: int) -> list[tuple[tuple[str, int], float]]:
        rows = [(key, score) for key, score, keep in zip(self.keys, scores, allowed, strict=True) if keep]
        return sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]


def asked(store: Store, embedder: EmbedderDouble, text: str, limit: int, mode: Mode, filters: Filters) -> Found:
    return search(store, PATH, Query(text, limit, mode, filters), embedder)


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
    for mode in ("lexical", "vector", "hybrid"):
        whole = search(store, PATH, Query("refund order invoice", 10_000, mode), embedder).chunks
        taken: dict[str, int] = {}
        wanted = []
        for chunk in whole:
            taken[chunk.doc_id] = taken.get(chunk.doc_id, 0) + 1
            if taken[chunk.doc_id] <= 2:
                wanted.append(chunk)
        for limit in (1, 5, 40, 10_000):
            found = search(store, PATH, Query("refund order invoice", limit, mode, per_document=2), embedder).chunks
            assert found == tuple(wanted[:limit])
        least = whole[len(whole) // 2].score
        assert least is not None
        found = search(store, PATH, Query("refund order invoice", 10_000, mode, min_score=least), embedder).chunks
        assert found == tuple(chunk for chunk in whole if chunk.score is not None and chunk.score >= least)
        assert len(found) < len(whole)


def test_a_least_score_does_not_make_a_search_look_down_the_whole_ranking(filled: tuple[Store, EmbedderDouble],
                                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    store, embedder = filled
    looked: list[int] = []
    best = _Ranking.best

    def watched(self: _Ranking, k: int) -> fusion.Ranked:
        looked.append(k)
        return best(self, k)

    monkeypatch.setattr(_Ranking, "best", watched)
    for mode in ("lexical", "vector", "hybrid"):
        whole = search(store, PATH, Query("refund order invoice", 10_000, mode), embedder).chunks
        least = whole[2].score
        assert least is not None
        wanted = tuple(chunk for chunk in whole if chunk.score is not None and chunk.score >= least)
        looked.clear()
        assert search(store, PATH, Query("refund order invoice", 10, mode, min_score=least), embedder).chunks == wanted[:10]
        assert looked == [10]
        looked.clear()  # a cap per document alone still looks further down, and then stops at the least score
        capped = search(store, PATH, Query("refund order invoice", 10, mode, min_score=least, per_document=1), embedder).chunks
        assert {chunk.doc_id for chunk in capped} == {chunk.doc_id for chunk in wanted}
        assert looked == [10]


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
    assert any("rag_vectors_vector_chunks00" in statement for statement in sent)
    assert [statement for statement in sent if re.search(r"\brag_vectors\b(?!')|\bk\s*=\s*\?", statement)] == []
    assert [statement for statement in sent if "MATCH" in statement and "rag_lexical" not in statement] == []


vector_sets = st.builds(
    lambda *parts: _unit_rows(*parts),  # noqa: PLW0108 - defined below
    st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([1, 2, 3, 8, 33, 64]), st.sampled_from([1.0, 1e-2, 1e-4, 1e-6, 0.0]))


def _unit_rows(seed: int, count: int, dim: int, spread: float) -> np.ndarray:
    """Random directions; a small `spread` puts all of them near one, so that codes cannot tell them apart."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=dim) + spread * rng.normal(size=(count + 1, dim))
    rows[np.abs(rows).sum(axis=1) == 0] = 1.0
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def scanned(seqs: np.ndarray, rows: np.ndarray, query: np.ndarray, keep_bytes: int = 2**30) -> scan.Scan:
    """Scan rows given in blocks of sixteen, as the index gives them in blocks of 1,024."""
    at = {seq: position for position, seq in enumerate(seqs.tolist())}
    blocks = [(seqs[start:start + 16], rows[start:start + 16]) for start in range(0, len(rows), 16)]
    return scan.scan(blocks, query, lambda wanted: rows[[at[seq] for seq in wanted.tolist()]], keep_bytes)


@pytest.mark.parametrize("keep_bytes", [0, 16 * 64 * 4, 2**30])
def test_rows_that_are_not_kept_are_read_again_and_score_the_same(keep_bytes: int) -> None:
    rows = _unit_rows(5, 100, 64, 1.0)
    seqs = np.arange(99) * 7
    kept, other = scanned(seqs, rows[1:], rows[0]), scanned(seqs, rows[1:], rows[0], keep_bytes)
    assert kept.score.tolist() == other.score.tolist()
    positions = np.array([98, 3, 50, 0])
    assert kept.rescore(positions).tolist() == other.rescore(positions).tolist() == cosines(rows[1:][positions], rows[0])


@settings(deadline=None, max_examples=150, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.data())
def test_scan_gives_the_exact_best_k_with_all_ties(rows: np.ndarray, k: int, data: st.DataObject) -> None:
    query, rows = rows[0], rows[1:]
    allowed = np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))))
    one = scanned(np.arange(len(rows)) * 3, rows, query)
    exact = np.array(cosines(rows, query))
    assert np.all(np.abs(one.score - rows.astype(float) @ query.astype(float)) <= one.bound)
    ranked = fusion.best_vector(one, allowed, k)
    cut = sorted(exact[allowed], reverse=True)[min(k, len(allowed)) - 1]
    assert set(ranked.seqs.tolist()) == {3 * position for position in allowed.tolist() if exact[position] >= cut}
    assert ranked.score.tolist() == [exact[seq // 3] for seq in ranked.seqs.tolist()]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.integers(0, 2**31))
def test_hybrid_best_k_does_not_depend_on_k_or_row_order(rows: np.ndarray, k: int, seed: int) -> None:
    query, rows = rows[0], rows[1:]
    rng = np.random.default_rng(seed)
    words = np.where(rng.random(len(rows)) < 0.5, 0.0, rng.integers(1, 4, len(rows)) * 1.5).round(9)
    seqs = np.arange(len(rows))
    whole = fusion.best_hybrid(scanned(seqs, rows, query), seqs, words, len(rows))
    scores = dict(zip(whole.seqs.tolist(), whole.score.tolist(), strict=True))
    assert len(scores) == len(rows)
    order = rng.permutation(len(rows))
    some = fusion.best_hybrid(scanned(seqs[order], rows[order], query), seqs, words[order], k)
    cut = sorted(scores.values(), reverse=True)[min(k, len(rows)) - 1]
    assert dict(zip(some.seqs.tolist(), some.score.tolist(), strict=True)) == {
        seq: score for seq, score in scores.items() if score >= cut}


def test_a_thousand_random_vectors_of_64_dimensions() -> None:
    rows = _unit_rows(11, 1_000, 64, 1.0)
    one = scanned(np.arange(1_000), rows[1:], rows[0])
    exact = cosines(rows[1:], rows[0])
    for k in (1, 10, 100, 1_000):
        found = fusion.best_vector(one, np.arange(1_000), k)
        wanted = sorted(range(1_000), key=lambda position: -exact[position])[:k]
        assert set(found.seqs.tolist()) >= set(wanted)
        assert len(found.seqs) <= k + 2


def test_codes_scan_alike_without_the_vector_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for dim in (64, 1_041):
        rows = _unit_rows(3, 50, dim, 1.0)
        fast = scanned(np.arange(50), rows[1:], rows[0])
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, "simsimd", None)
            plain = scanned(np.arange(50), rows[1:], rows[0])
        assert fast.score.tolist() == plain.score.tolist()


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.floats(-5e3, 5e3), max_size=40), st.integers(0, 40))
def test_r117_r118_moments_add_up_over_shards(scores: list[float], cut: int) -> None:
    whole = fusion.Moments.of(np.array(scores, float))
    parts = fusion.Moments.of(np.array(scores[:cut], float)) + fusion.Moments.of(np.array(scores[cut:], float))
    assert whole == parts
    padded = fusion.Moments.of(np.array(scores, float), count=len(scores) + 7)
    assert padded == fusion.Moments.of(np.array([*scores, *[0.0] * 7], float))
    if scores:
        rounded = [round(score * 1e6) / 1e6 for score in scores]
        assert whole.mean == pytest.approx(sum(rounded) / len(rounded), abs=1e-9)
        assert whole.deviation == pytest.approx(float(np.std(rounded)), rel=1e-6, abs=1e-6)
    else:
        assert (whole.mean, whole.deviation) == (0.0, 0.0)


def test_moments_of_large_scores_do_not_overflow() -> None:
    scores = np.full(100_000, 2_000.0)
    scores[0] = -2_000.0
    moments = fusion.Moments.of(scores)
    assert moments.squares == 100_000 * (2_000 * 10**6) ** 2
    assert moments.mean == pytest.approx(1999.96)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.lists(st.sampled_from(WORDS[:8]), max_size=12), min_size=1, max_size=12),
       st.lists(st.sampled_from(WORDS[:10]), min_size=1, max_size=4, unique=True), st.sets(st.integers(0, 11)))
def test_bm25_after_deletions_is_that_of_what_is_left(texts: list[list[str]], terms: list[str], gone: set[int]) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("""CREATE VIRTUAL TABLE rag_lexical USING fts5(terms, content='', tokenize="ascii tokenchars '+#'")""")
    rows = [(number, " ".join(words)) for number, words in enumerate(texts)]
    lexical.add(connection, rows)
    lexical.remove(connection, [row for row in rows if row[0] in gone])
    left = {number: words for number, words in enumerate(texts) if number not in gone}
    seqs, scores = lexical.scores(connection, [(term, False) for term in terms])
    wanted = bm25(left, terms) if left else {}
    assert dict(zip(seqs.tolist(), scores.tolist(), strict=True)) == pytest.approx(wanted, abs=1e-6)


def test_embedder_of_another_dimension_or_model_is_refused_by_name(filled: tuple[Store, EmbedderDouble]) -> None:
    store, _ = filled
    for other in (EmbedderDouble(dim=16), EmbedderDouble(model="other")):
        for mode in ("vector", "hybrid"):
            with pytest.raises(Failure) as failed:
                search(store, PATH, Query("refund", 3, mode), other)
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
        seqs, rows = vectors.load(connection, 8)
        some = vectors.load_some(connection, seqs.tolist(), 8)
        texts = dict(connection.execute("SELECT seq, text FROM rag_chunks"))
        vectors.load_extension(connection)
        own = {seq: np.frombuffer(blob, "<f4") for seq, blob in
               connection.execute("SELECT rowid, embedding FROM rag_vectors")}
    assert sorted(seqs.tolist()) == sorted(texts) == sorted(own)
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
