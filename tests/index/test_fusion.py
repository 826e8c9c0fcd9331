"""From scans and words to the best k: exact, with every tie, whichever way the scores came about."""

from __future__ import annotations

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_oracle import cosines

from rag_stdlib.index import collection, fusion, scan, schema, vectors
from rag_stdlib.index.collection import Moments
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.resident.cache import State
from rag_stdlib.index.resident.codes import ResidentCodes
from rag_stdlib.index.resident.passing import Passing
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.scratch import ZEROS


def as_words(scores: np.ndarray, *, dense: bool = False, count: int | None = None) -> fusion.Words:
    """Give scores for every row, or only for those that have one."""
    held = np.flatnonzero(scores)[::-1]
    return fusion.Words(None, scores, count or len(scores)) if dense else fusion.Words(held, scores[held], count or len(scores))


vector_sets = st.builds(
    lambda *parts: _unit_rows(*parts),  # noqa: PLW0108 - defined below
    st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([1, 2, 3, 8, 33, 64]),
    st.sampled_from([1.0, 1e-2, 1e-4, 1e-6, 0.0]))
blocks = st.sampled_from([1, 2, 64])  # rows in a block: with few of them, the best of some rows are found by blocks


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
        state, score = in_memory(rows, floats=way != "memory"), np.empty(len(rows))
        assert state.codes is not None
        state.codes.score([asked], score[None])
        return scan.of_state(connection, state, asked, score)
    seqs, found = scan.of_file(connection, asked, by_codes=way == "file by codes")
    assert seqs.tolist() == list(range(0, 3 * len(rows), 3))
    return found


def lie_within_bounds(one: scan.Scan, rows: np.ndarray) -> None:
    """Hold the scores of a scan, all of them and closer ones of some, against the true ones."""
    true = rows.astype(np.longdouble) @ one.query.astype(np.longdouble)
    assert np.all(np.abs(one.score - true.astype(float)) <= one.worst)
    for positions in (np.arange(len(rows)), np.arange(len(rows))[::-2], np.empty(0, np.int64)):
        closer, bound = one.closer(positions)
        assert np.all(np.abs(closer - true[positions].astype(float)) <= bound)
        assert np.all(bound <= one.worst)


WAYS = ("memory", "memory with floats", "some", "file", "file by codes")


@pytest.mark.parametrize("way", WAYS)
def test_rows_score_the_same_wherever_they_are_read(way: str) -> None:
    rows = _unit_rows(5, 100, 64, 1.0)
    one, positions = scanned(rows[1:], rows[0], way), np.array([98, 3, 50, 0])
    assert one.rescore(positions).tolist() == cosines(rows[1:][positions], rows[0])
    if way != "file":
        assert one.score.tolist() == scanned(rows[1:], rows[0]).score.tolist(), "codes give the same products everywhere"


@pytest.mark.parametrize("way", WAYS)
def test_many_rows_are_rescored_a_part_at_a_time(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _unit_rows(5, 100, 64, 1.0)
    one = scanned(rows[1:], rows[0], way)
    monkeypatch.setattr(scan, "_PART", 7)
    for count in (0, 1, 7, 8, 99):
        assert one.rescore(np.arange(count)).tolist() == cosines(rows[1:][:count], rows[0])


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
        lie_within_bounds(one, rows[1:][order])


@settings(deadline=None, max_examples=60, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.sampled_from(WAYS), blocks, st.data())
def test_scan_gives_the_exact_best_k_with_all_ties(rows: np.ndarray, k: int, way: str, block: int, data: st.DataObject) -> None:
    query, rows = rows[0], rows[1:]
    allowed = np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))))
    one = scanned(rows, query, way)
    exact = np.array(cosines(rows, query))
    lie_within_bounds(one, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_BLOCK", block)
        ranked = fusion.best_vector(one, allowed, k)
    cut = sorted(exact[allowed], reverse=True)[min(k, len(allowed)) - 1]
    assert set(ranked.rows.tolist()) == {position for position in allowed.tolist() if exact[position] >= cut}
    assert ranked.score.tolist() == ranked.vector.tolist() == exact[ranked.rows].tolist()
    assert np.isnan(ranked.lexical).all()


@settings(deadline=None, max_examples=100, derandomize=True)
@given(vector_sets, st.integers(1, 70), st.integers(0, 2**31), st.sampled_from(WAYS[:3]),
       st.sampled_from(["memory", "file by codes"]), st.booleans(), blocks)
def test_hybrid_best_k_does_not_depend_on_k_row_order_or_way(rows: np.ndarray, k: int, seed: int, way: str, other: str,
                                                             dense: bool, block: int) -> None:
    query, rows = rows[0], rows[1:]
    rng = np.random.default_rng(seed)
    words = np.where(rng.random(len(rows)) < 0.5, 0.0, rng.integers(1, 4, len(rows)) * 1.5).round(9)
    whole = fusion.best_hybrid(scanned(rows, query, way), None, None, as_words(words), len(rows))
    scores = dict(zip(whole.rows.tolist(), whole.score.tolist(), strict=True))
    assert len(scores) == len(rows)
    order = rng.permutation(len(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_BLOCK", block)
        some = fusion.best_hybrid(scanned(rows[order], query, other), None, None, as_words(words[order], dense=dense), k)
    cut = sorted(scores.values(), reverse=True)[min(k, len(rows)) - 1]
    found = dict(zip(order[some.rows].tolist(), some.score.tolist(), strict=True))
    assert found == {row: score for row, score in scores.items() if score >= cut}
    for row, lexical in zip(order[some.rows].tolist(), some.lexical.tolist(), strict=True):
        assert (lexical == words[row]) if words[row] else np.isnan(lexical)


def off_by_all_that_may_be(rows: np.ndarray, query: np.ndarray, seed: int) -> scan.Scan:
    """Make a scan whose scores are as wrong as its bounds allow, up or down, closer ones each by its own bound."""
    rng = np.random.default_rng(seed)
    exact = np.array(cosines(rows, query))
    bounds = rng.choice([1e-6, 1e-4, 3e-3], len(rows))
    worst = float(rng.choice([4e-3, 5e-2]))
    closer = exact + bounds * rng.choice([-1.0, 0.0, 1.0], len(rows))
    score = exact + worst * rng.choice([-1.0, 0.0, 1.0], len(rows))
    return scan.Scan(query, score, worst + 1e-9, lambda at: (closer[at], bounds[at] + 1e-9), lambda at: rows[at])


@settings(deadline=None, max_examples=80, derandomize=True)
@given(st.integers(0, 2**31), st.sampled_from([1.0, 3e-2, 1e-2]), st.integers(1, 12), st.booleans(), st.booleans(), blocks)
def test_the_best_k_are_exact_however_wrong_scores_are_within_their_bounds(seed: int, spread: float, k: int, some: bool,
                                                                           hybrid: bool, block: int) -> None:
    rng = np.random.default_rng(seed)
    rows = _unit_rows(seed, 60, 8, spread)
    query, rows = rows[0], rows[1:]
    one, exact = off_by_all_that_may_be(rows, query, seed), np.array(cosines(rows, query))
    allowed = np.flatnonzero(rng.random(60) < 0.6) if some else None
    words = np.where(rng.random(60) < 0.5, 0.0, rng.integers(1, 3, 60) * 1.5)
    wanted = exact
    if hybrid:
        by_vector, by_words = Moments.of(one.score), Moments.of(words)
        wanted = ((exact - by_vector.mean) / by_vector.deviation + (words - by_words.mean) / by_words.deviation).round(9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_BLOCK", block)
        found = fusion.best_hybrid(one, None, allowed, as_words(words), k) if hybrid else fusion.best_vector(one, allowed, k)
    may = range(60) if allowed is None else allowed.tolist()
    cut = sorted((wanted[row] for row in may), reverse=True)[:k][-1]
    assert dict(zip(found.rows.tolist(), found.score.tolist(), strict=True)) == {
        row: wanted[row] for row in may if wanted[row] >= cut}


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
@given(st.lists(st.sampled_from([0.0, 1e-6, 0.5, 0.5 + 1e-10, 0.5 + 2e-9, 1.25, 3.0]), min_size=1, max_size=400),
       st.integers(1, 450) | st.integers(1, 9), st.booleans(), blocks, st.data())
def test_lexical_best_k_has_every_tie_and_nothing_without_a_word(scores: list[float], k: int, dense: bool, block: int,
                                                                 data: st.DataObject) -> None:
    allowed = np.array(data.draw(st.none() | st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    mask = None if allowed.shape == () else allowed.astype(bool)
    rounded = [round(score, 9) for score in scores]
    may = [row for row, score in enumerate(rounded) if score > 0 and (mask is None or mask[row])]
    cut = sorted((rounded[row] for row in may), reverse=True)[:k][-1:] or [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_BLOCK", block)
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
    whole = Moments.of(np.array(scores, float))
    parts = Moments.of(np.array(scores[:cut], float)) + Moments.of(np.array(scores[cut:], float))
    assert whole == parts
    padded = Moments.of(np.array(scores, float), count=len(scores) + 7)
    assert padded == Moments.of(np.array([*scores, *[0.0] * 7], float))
    if scores:
        rounded = [round(score * 1e6) / 1e6 for score in scores]
        assert whole.mean == pytest.approx(sum(rounded) / len(rounded), abs=1e-9)
        assert whole.deviation == pytest.approx(float(np.std(rounded)), rel=1e-6, abs=1e-6)
    else:
        assert (whole.mean, whole.deviation) == (0.0, 0.0)


def test_moments_of_large_scores_do_not_overflow() -> None:
    scores = np.full(100_000, 2_000.0)
    scores[0] = -2_000.0
    moments = Moments.of(scores)
    assert moments.squares == 100_000 * (2_000 * 10**6) ** 2
    assert moments.mean == pytest.approx(1999.96)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.floats(-5e3, 5e3) | st.sampled_from([0.0, 1e-6, 2_147.483648, -2_147.483648, 1e5]), max_size=40),
       st.sampled_from([1, 2, 7, 16_384]), st.integers(0, 9))
def test_moments_are_exact_sums_whatever_the_pieces(scores: list[float], piece: int, more: int) -> None:
    millionths = [round(score * 1e6) for score in scores]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "_PIECE", piece)
        moments = Moments.of(np.array(scores, float), len(scores) + more)
    assert moments == Moments(len(scores) + more, sum(millionths), sum(number * number for number in millionths))


# --- words ---

@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.sampled_from([0.0, 1e-6, 0.5, 3.25]), min_size=1, max_size=60), st.integers(0, 2**31), st.floats(1e-3, 1e3))
def test_words_of_some_rows_are_those_of_all_with_zeros_between(scores: list[float], seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    every, at = np.array(scores), rng.integers(0, len(scores), rng.integers(0, 9))
    sums = rng.normal(size=len(scores))
    for dense in (False, True):
        some = as_words(every, dense=dense)
        added = sums.copy()
        some.add_to(added, weight)
        assert added.tolist() == (sums + every * weight).tolist()
        assert some.at(at, len(scores)).tolist() == every[at].tolist()
        assert some.scores.tolist() == as_words(every, dense=dense).scores.tolist(), "they are kept for later searches"
    with ZEROS.floats(len(scores)) as left:
        assert not left.any()


# --- the greatest ---

def plainly(scores: np.ndarray, k: int, slack: float) -> set[int]:
    """Tell which positions reach the k-th greatest less the slack; none that are -inf."""
    least = sorted(scores.tolist(), reverse=True)[:k][-1] - slack
    return {place for place, score in enumerate(scores.tolist()) if score >= least and score > -np.inf}


NUMBERS = st.sampled_from([-np.inf, -np.inf, -1.0, 0.0, 0.25, 0.5, 0.5 - 1e-9, 0.5 + 1e-9, 1.0]) | st.floats(-1.0, 1.0)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(st.lists(NUMBERS, min_size=1, max_size=80), st.integers(1, 20), st.sampled_from([1, 2, 3, 8]),
       st.sampled_from([0.0, 2e-9, 0.3]))
def test_by_blocks_nothing_that_reaches_the_kth_is_missed(numbers: list[float], k: int, block: int, slack: float) -> None:
    """Whatever more there is, reaches the k-th of the blocks' greatest: the bound is as close as it is said to be."""
    scores = np.array(numbers)
    count = len(scores) // block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_BLOCK", block)
        found = fusion._reaching(scores, k, slack).tolist()
        assert len(found) == len(set(found))
        assert plainly(scores, k, slack) <= set(found)
        assert np.all(scores[found] > -np.inf)
        if not slack or count < 4 * k:
            assert set(found) == plainly(scores, k, slack)
        if count >= k:
            tops = scores[:count * block].reshape(count, block).max(axis=1)
            least = np.sort(tops)[count - k] - slack
            by_blocks = fusion._reaching_by_blocks(scores, count, k, slack).tolist()
            assert sorted(by_blocks) == np.flatnonzero((scores >= least) & (scores > -np.inf)).tolist()
            assert count < 4 * k or not slack or by_blocks == found


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.integers(1, 6), st.integers(0, 40), st.integers(0, 63), st.sampled_from([0.0, 0.4, 1.0]), st.booleans(),
       st.integers(0, 2**31))
def test_by_blocks_it_is_the_plain_way_where_the_best_are_in_different_blocks(k: int, more: int, rest: int, gone: float,
                                                                              last: bool, seed: int) -> None:
    """Blocks of the size they have, rows beyond the last of them, rows and whole blocks that are -inf."""
    rng = np.random.default_rng(seed)
    count = 4 * k + more
    scores = rng.uniform(-1.0, 1.0, count * fusion._BLOCK + rest)
    scores[rng.random(len(scores)) < gone] = -np.inf
    scores[:fusion._BLOCK] = -np.inf
    for rank, block in enumerate(rng.permutation(np.arange(1, count))[:k].tolist()):
        scores[block * fusion._BLOCK + rng.integers(fusion._BLOCK)] = 2.0 + rank
    if last and rest:
        scores[-1] = 2.0 - 1e-9  # within the slack, in no block
    found = fusion._reaching(scores, k, 2e-9)
    assert set(found.tolist()) == plainly(scores, k, 2e-9)
    assert len(found) == k + (last and rest > 0)


def test_by_blocks_nothing_is_found_where_all_are_gone() -> None:
    for size in (64, 64 * 8, 64 * 8 + 5):
        assert fusion._reaching(np.full(size, -np.inf), 1, 2e-9).tolist() == []
    scores = np.full(64 * 8 + 5, -np.inf)
    scores[[3, 64 * 8 + 4]] = 0.5, -0.5  # fewer than are asked for, one of them in no block
    assert fusion._reaching(scores, 2, 2e-9).tolist() == [3, 64 * 8 + 4]
