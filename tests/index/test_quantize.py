"""int8 codes: whole products on every path, and bounds that hold for every vector."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import simsimd
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import quantize
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.scan import exact_scores

DIMS = [1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 384, 768, 1_023, 1_024, 1_025, 1_039, 1_040, 1_041, 1_536,
        2_047, 2_048]


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)).astype(np.float32)


def adversarial(dim: int, seed: int) -> np.ndarray:
    """Unit vectors of the kinds that a code serves worst."""
    rng = np.random.default_rng(seed)
    one_hot = np.eye(1, dim, seed % dim)[0]
    flips = rng.choice([-1.0, 1.0], dim)
    tiny = one_hot + 1e-20 * flips
    halves = np.full(dim, 0.4999) * flips  # each just below the half level that is rounded away
    halves[seed % dim] = 127.0
    steps = rng.integers(-127, 128, dim) + 0.5
    steps[0] = 127.0
    return unit(np.array([one_hot, -one_hot, np.ones(dim), -np.ones(dim), flips, tiny, halves, steps, rng.normal(size=dim),
                          rng.normal(size=dim) ** 9 + 1e-9, np.where(np.arange(dim) % 2, 1e-30, 1.0)]))


def products(codes: quantize.Codes, asked: Asked) -> list[int]:
    levels = codes.code.astype(int) - 128
    return [sum(a * b for a, b in zip(row, asked.code[0].astype(int) - 128, strict=True)) for row in levels.tolist()]


def scaled(codes: quantize.Codes, asked: Asked) -> list[float]:
    """Turn the exact products into scores, in the order of operations that every path has."""
    scales = codes.scale.tolist()
    return [float(product) * scale * asked.scale for product, scale in zip(products(codes, asked), scales, strict=True)]


def scored(asked: Asked, codes: quantize.Codes) -> np.ndarray:
    out = np.empty(len(codes))
    asked.score(codes, out)
    return out


@pytest.mark.parametrize("dim", DIMS)
def test_products_are_exact_and_the_same_bits_on_every_path(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.concatenate([adversarial(dim, seed) for seed in range(3)])
    codes = quantize.encode(rows)
    asked = [Asked.of(row) for row in rows[:: max(1, len(rows) // 9)]]
    many = np.empty((len(asked), len(rows)))
    quantize.score_many(asked, codes, many)
    for query, found in zip(asked, many, strict=True):
        wanted = scaled(codes, query)
        assert scored(query, codes).tolist() == wanted
        assert found.tolist() == wanted
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "simsimd", None)
            assert scored(query, codes).tolist() == wanted


@pytest.mark.parametrize(("rows", "queries", "dim"), [
    (1, 1, 5), (1, 2, 2_048), (130, 2, 2_048), (64, 32, 1_024), (65, 32, 1_024), (700, 33, 8), (9, 3, 16_384)])
def test_many_queries_at_once_score_as_one_by_one_whatever_the_size_of_the_products(rows: int, queries: int, dim: int) -> None:
    rng = np.random.default_rng(rows)
    codes = quantize.encode(unit(rng.normal(size=(rows, dim))))
    asked = [Asked.of(query) for query in unit(rng.normal(size=(queries, dim)))]
    room = np.full((queries, rows + 7), np.nan)
    quantize.score_many(asked, codes, room[:, 3:3 + rows])  # a view, as a segment's scores are
    assert np.isnan(room[:, :3]).all()
    assert np.isnan(room[:, 3 + rows:]).all()
    for query, found in zip(asked, room, strict=True):
        assert found[3:3 + rows].tolist() == scored(query, codes).tolist()


def test_the_largest_sums_are_exact() -> None:
    """All levels at their greatest, at the last dimension whose sums float32 holds and at the first beyond."""
    for dim in (quantize._EXACT_FLOAT32, quantize._EXACT_FLOAT32 + 1, 2_048, 16_384):
        rows = unit(np.array([np.ones(dim), -np.ones(dim), np.where(np.arange(dim) == 5, 1.0, 126 / 127)]))
        codes, asked = quantize.encode(rows), [Asked.of(row) for row in rows]
        many = np.empty((3, 3))
        quantize.score_many(asked, codes, many)
        for query, found in zip(asked, many, strict=True):
            assert found.tolist() == scored(query, codes).tolist()
            assert products(codes, query)[0] in (127 * 127 * dim, -127 * 127 * dim, 126 * 127 * (dim - 1) + 127 * 127)
            assert found.tolist() == scaled(codes, query)


def test_no_rows_have_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = quantize.encode(np.empty((0, 8), np.float32))
    query = Asked.of(unit(np.ones((1, 8)))[0])
    for library in (simsimd, None):
        monkeypatch.setitem(sys.modules, "simsimd", library)
        assert scored(query, codes).shape == (0,)
    many = np.empty((1, 0))
    quantize.score_many([query], codes, many)
    assert query.bound(codes.error).shape == (0,)
    assert [part.shape for part in query.closer(codes)] == [(0,), (0,)]


@settings(max_examples=60, derandomize=True)
@given(st.integers(0, 2**31), st.sampled_from([1, 2, 3, 8, 33, 64, 384, 1_536, 2_048]))
def test_a_true_score_lies_within_the_bound(seed: int, dim: int) -> None:
    rows = adversarial(dim, seed)
    within_bounds(rows, rows)


@pytest.mark.parametrize("dim", [256, 1_024, 2_048, 4_096, 8_192, 16_384])
@pytest.mark.parametrize("part", [0.4999, 0.49, 0.375, 0.3, 0.25])
def test_the_bound_holds_for_a_query_along_what_a_code_leaves_out(dim: int, part: float) -> None:
    """Where the Cauchy-Schwarz inequality is an equality, and thousands of equal squares add up."""
    rng = np.random.default_rng(dim)
    rows = np.full((4, dim), part)
    rows[1:] += rng.integers(0, 2, (3, dim))
    rows[2] *= rng.choice([-1.0, 1.0], dim)
    rows[:, 0] = 127.0
    rows = unit(rows)
    codes = quantize.encode(rows)
    rest = rows.astype(float) - (codes.code.astype(float) - 128) * codes.scale[:, None]
    within_bounds(rows, np.concatenate([unit(rest), unit(-rest)]))


def within_bounds(rows: np.ndarray, queries: np.ndarray) -> None:
    codes = quantize.encode(rows)
    for query in queries:
        asked = Asked.of(query)
        bound = asked.bound(codes.error)
        true = rows.astype(np.longdouble) @ query.astype(np.longdouble)
        assert np.all(np.abs(scored(asked, codes) - true.astype(float)) <= bound)
        assert np.all(bound >= quantize.SLACK)
        score, nearer = asked.closer(codes)
        assert np.all(np.abs(score - true.astype(float)) <= nearer)
        assert np.all(np.abs(score - exact_scores(rows, query)) <= nearer), "the rounding of what leaves the index is within"
        assert np.all(nearer <= bound)
        assert np.all(nearer >= quantize.SLACK)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.integers(0, 2**31), st.sampled_from([2, 3, 8, 64, 384]), st.sampled_from([1.0, 1e-2, 1e-4, 0.0]))
def test_closer_scores_leave_out_nothing_of_the_query(seed: int, dim: int, spread: float) -> None:
    """They are products of the decoded rows with the query itself: only what a row's code leaves out can be missing."""
    rng = np.random.default_rng(seed)
    rows = unit(rng.normal(size=dim) + 1e-3 + spread * rng.normal(size=(30, dim)))
    codes, asked = quantize.encode(rows), Asked.of(unit(rng.normal(size=(1, dim)))[0])
    score, bound = asked.closer(codes)
    decoded = (codes.code.astype(np.longdouble) - 128) * codes.scale[:, None]
    assert np.abs(score - (decoded @ asked.vector.astype(np.longdouble)).astype(float)).max() <= 1e-12
    left_out = np.abs((rows - decoded) @ asked.vector.astype(np.longdouble)).astype(float)
    assert np.all(left_out <= bound)
    within_bounds(rows, np.concatenate([asked.vector[None], rows[:3]]))


@pytest.mark.parametrize("row", [[0.0, 0.0], [1e-45, 0.0], [1e-40, -1e-39], [3e-38, 1.0]])
def test_zero_and_denormal_numbers_have_codes(row: list[float]) -> None:
    rows = np.array([row], np.float32)
    codes = quantize.encode(rows)
    decoded = (codes.code.astype(float) - 128) * codes.scale[:, None]
    assert np.abs(decoded - rows).max() <= float(codes.error[0]) + quantize.SLACK
    assert codes.scale[0] > 0.0
    within_bounds(rows, np.array([[0.6, 0.8], [0.0, 1.0]], np.float32))


def test_a_view_and_a_copy_of_codes_score_like_the_rows_they_are_of() -> None:
    rows = adversarial(64, 1)
    codes, asked = quantize.encode(rows), Asked.of(rows[8])
    whole = scored(asked, codes)
    assert scored(asked, codes.take(3, 7)).tolist() == whole[3:7].tolist()
    at = np.array([9, 0, 4])
    assert scored(asked, codes.at(at)).tolist() == whole[at].tolist()
    assert (len(codes), len(codes.take(3, 7)), len(codes.at(at))) == (len(rows), 4, 3)
    assert codes.at(at).error.tolist() == codes.error[at].tolist()


def _calls(source: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def test_scoring_keeps_no_count_of_references() -> None:
    """Simsimd's own `out` gives None's references away, one a call."""
    codes, asked = quantize.encode(adversarial(64, 2)), Asked.of(adversarial(64, 3)[0])
    scored(asked, codes)
    before = sys.getrefcount(None)
    for _ in range(10_000):
        scored(asked, codes)
    assert abs(sys.getrefcount(None) - before) < 1_000
    for call in _calls(inspect.getsource(quantize)):
        if "simsimd" in ast.unparse(call.func):
            assert "out" not in {keyword.arg for keyword in call.keywords}
