"""From scans and words to the best k: exact, with every tie, whichever way the scores came about."""

from __future__ import annotations

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_oracle import cosines

from rag_stdlib.index import fusion, scan, schema, vectors
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.resident.cache import State
from rag_stdlib.index.resident.codes import ResidentCodes
from rag_stdlib.index.resident.passing import Passing
from rag_stdlib.index.resident.rows import Rows


def as_words(scores: np.ndarray, *, dense: bool = False, count: int | None = None) -> fusion.Words:
    """Give scores for every row, or only for those that have one."""
    held = np.flatnonzero(scores)[::-1]
    return fusion.Words(None, scores, count or len(scores)) if dense else fusion.Words(held, scores[held], count or len(scores))


vector_sets = st.builds(
    lambda *parts: _unit_rows(*parts),  # noqa: PLW0108 - defined below
    st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([1, 2, 3, 8, 33, 64]), st.sampled_from([1.0, 1e-2, 1e-4, 1e-6, 0.0]))


def _unit_rows(seed: int, count: int, dim: int, spread: float) -> np.ndarray:
    """Random directions; a small `spread` puts all of them near one, so that codes cannot tell them apart."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=dim) + spread * rng.normal(size=(count + 1, dim))
    rows[np.abs(rows).sum(axis=1) == 0] = 1.0
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def in_file(rows: np.ndarray, seqs: np.ndarray) -> apsw.Connection:
    """Store rows as an index stores them."""
    connection = apsw.Connection(":memory:")
    vectors.load_extension(connection)
    schema.create_vectors(connection, rows.shape[1])
    vectors.add(connection, seqs.tolist(), rows)
    return connection


def in_memory(rows: np.ndarray, *, floats: bool) -> State:
    held = Rows.of(np.arange(len(rows)) * 3)
    return State("index", 1, None, held, Passing(), ResidentCodes.none(rows.shape[1], floats=floats).appended(rows))


def scanned(rows: np.ndarray, query: np.ndarray, way: str = "memory") -> scan.Scan:
    """Scan rows in one of the ways of a search; rows are numbered in order."""
    asked = Asked.of(query)
    connection = in_file(rows, np.arange(len(rows)) * 3)
    if way == "some":
        return scan.of_some(connection, in_memory(rows, floats=False), asked, np.arange(len(rows)))
    if way in ("memory", "memory with floats"):
        return scan.of_state(connection, in_memory(rows, floats=way != "memory"), asked)
    seqs, found = scan.of_file(connection, asked, by_codes=way == "file by codes")
    assert seqs.tolist() == list(range(0, 3 * len(rows), 3))
    return found


WAYS = ("memory", "memory with floats", "some", "file", "file by codes")


@pytest.mark.parametrize("way", WAYS)
def test_rows_score_the_same_wherever_they_are_read(way: str) -> None:
    rows = _unit_rows(5, 100, 64, 1.0)
    one, positions = scanned(rows[1:], rows[0], way), np.array([98, 3, 50, 0])
    assert one.rescore(positions).tolist() == cosines(rows[1:][positions], rows[0])
    if way != "file":
        assert one.score.tolist() == scanned(rows[1:], rows[0]).score.tolist(), "codes give the same products everywhere"


def test_rows_that_the_file_keeps_in_another_order_are_put_in_order() -> None:
    rows = _unit_rows(6, 70, 8, 1.0)
    seqs = np.random.default_rng(3).permutation(70) + 1
    connection = in_file(rows[1:], seqs)
    asked = Asked.of(rows[0])
    for by_codes in (False, True):
        found, one = scan.of_file(connection, asked, by_codes=by_codes)
        assert found.tolist() == list(range(1, 71))
        order = np.argsort(seqs)
        assert one.rescore(np.arange(70)).tolist() == cosines(rows[1:][order], rows[0])
        assert np.all(np.abs(one.score - rows[1:][order].astype(float) @ rows[0].astype(float)) <= one.bound(np.arange(70)))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.sampled_from(WAYS), st.data())
def test_scan_gives_the_exact_best_k_with_all_ties(rows: np.ndarray, k: int, way: str, data: st.DataObject) -> None:
    query, rows = rows[0], rows[1:]
    allowed = np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))))
    one = scanned(rows, query, way)
    exact = np.array(cosines(rows, query))
    bound = one.bound(np.arange(len(rows)))
    assert np.all(np.abs(one.score - rows.astype(float) @ query.astype(float)) <= bound)
    assert np.all(bound <= one.worst)
    ranked = fusion.best_vector(one, allowed, k)
    cut = sorted(exact[allowed], reverse=True)[min(k, len(allowed)) - 1]
    assert set(ranked.rows.tolist()) == {position for position in allowed.tolist() if exact[position] >= cut}
    assert ranked.score.tolist() == ranked.vector.tolist() == exact[ranked.rows].tolist()
    assert np.isnan(ranked.lexical).all()


@settings(deadline=None, max_examples=100, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.integers(0, 2**31), st.sampled_from(WAYS[:3]), st.sampled_from(["memory", "file by codes"]), st.booleans())
def test_hybrid_best_k_does_not_depend_on_k_row_order_or_way(rows: np.ndarray, k: int, seed: int, way: str, other: str,
                                                             dense: bool) -> None:
    query, rows = rows[0], rows[1:]
    rng = np.random.default_rng(seed)
    words = np.where(rng.random(len(rows)) < 0.5, 0.0, rng.integers(1, 4, len(rows)) * 1.5).round(9)
    whole = fusion.best_hybrid(scanned(rows, query, way), None, None, as_words(words), len(rows))
    scores = dict(zip(whole.rows.tolist(), whole.score.tolist(), strict=True))
    assert len(scores) == len(rows)
    order = rng.permutation(len(rows))
    some = fusion.best_hybrid(scanned(rows[order], query, other), None, None, as_words(words[order], dense=dense), k)
    cut = sorted(scores.values(), reverse=True)[min(k, len(rows)) - 1]
    found = dict(zip(order[some.rows].tolist(), some.score.tolist(), strict=True))
    assert found == {row: score for row, score in scores.items() if score >= cut}
    for row, lexical in zip(order[some.rows].tolist(), some.lexical.tolist(), strict=True):
        assert (lexical == words[row]) if words[row] else np.isnan(lexical)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.integers(0, 2**31))
def test_rows_that_are_gone_count_nowhere(rows: np.ndarray, k: int, seed: int) -> None:
    query, rows = rows[0], rows[1:]
    rng = np.random.default_rng(seed)
    live = rng.random(len(rows)) < 0.7
    live[0] = True
    words = np.where(live & (rng.random(len(rows)) < 0.5), rng.integers(1, 4, len(rows)) * 1.5, 0.0)
    kept = np.flatnonzero(live)
    wanted = fusion.best_hybrid(scanned(rows[kept], query), None, None, as_words(words[kept]), k)
    found = fusion.best_hybrid(scanned(rows, query), live, kept, as_words(words, count=len(kept)), k)
    assert dict(zip(found.rows.tolist(), found.score.tolist(), strict=True)) == dict(
        zip(kept[wanted.rows].tolist(), wanted.score.tolist(), strict=True))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.sampled_from([0.0, 1e-6, 0.5, 0.5 + 1e-10, 0.5 + 2e-9, 1.25, 3.0]), min_size=1, max_size=400), st.integers(1, 450), st.booleans(), st.data())
def test_lexical_best_k_has_every_tie_and_nothing_without_a_word(scores: list[float], k: int, dense: bool, data: st.DataObject) -> None:
    allowed = np.array(data.draw(st.none() | st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    mask = None if allowed.shape == () else allowed.astype(bool)
    rounded = [round(score, 9) for score in scores]
    may = [row for row, score in enumerate(rounded) if score > 0 and (mask is None or mask[row])]
    cut = sorted((rounded[row] for row in may), reverse=True)[:k][-1:] or [0.0]
    found = fusion.best_lexical(as_words(np.array(scores), dense=dense), mask, k)
    assert sorted(found.rows.tolist()) == [row for row in may if rounded[row] >= cut[0]]
    assert found.score.tolist() == found.lexical.tolist() == [rounded[row] for row in found.rows.tolist()]
    assert np.isnan(found.vector).all()


def test_a_thousand_random_vectors_of_64_dimensions() -> None:
    rows = _unit_rows(11, 1_000, 64, 1.0)
    one = scanned(rows[1:], rows[0])
    exact = cosines(rows[1:], rows[0])
    for k in (1, 10, 100, 1_000):
        found = fusion.best_vector(one, None, k)
        wanted = sorted(range(1_000), key=lambda position: -exact[position])[:k]
        assert set(found.rows.tolist()) >= set(wanted)
        assert len(found.rows) <= k + 2


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
