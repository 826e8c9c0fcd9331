"""Replies are judged whole before anything of them is used."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import numpy as np
import pytest

from rag_stdlib.embed.replies import BadReply, by_index, json_object, unit_rows, vector_list


def refusal(vectors: list[Any], *, asked: int | None = None, dim: int | None = None) -> tuple[str, int | None]:
    with pytest.raises(BadReply) as caught:
        unit_rows(vectors, asked=len(vectors) if asked is None else asked, dim=dim)
    return caught.value.detail, caught.value.row


def b64(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def test_rows_come_out_in_order_as_float32_of_unit_length() -> None:
    rows = unit_rows([[3, 4], [0.0, -2.5]], asked=2, dim=2)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[np.float32(0.6), np.float32(0.8)], [0.0, -1.0]]


def test_r193_a_shortened_vector_is_brought_to_unit_length() -> None:
    long = np.random.default_rng(7).normal(size=1536)
    long /= np.linalg.norm(long)
    rows = unit_rows([long[:256].tolist(), (long[:256] * 1e-3).tolist()], asked=2, dim=256)
    assert np.linalg.norm(rows.astype(np.float64), axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)
    assert rows[0] == pytest.approx(rows[1], abs=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_a_norm_neither_overflows_nor_vanishes(scale: float) -> None:
    assert unit_rows([[3 * scale, 4 * scale]], asked=1, dim=None)[0] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(("vectors", "asked", "detail"), [
    ([[1.0]], 2, "it holds 1 vectors for 2 texts"),
    ([[1.0], [1.0], [1.0]], 2, "it holds 3 vectors for 2 texts"),
    ([], 1, "it holds 0 vectors for 1 texts"),
])
def test_r100_the_count_is_the_count_asked_for(vectors: list[Any], asked: int, detail: str) -> None:
    assert refusal(vectors, asked=asked) == (detail, None)


@pytest.mark.parametrize("zero", [[0.0, 0.0], [0, 0], [-0.0, 0.0], b64(0.0, 0.0)])
def test_r12_r14_a_zero_vector_is_refused_by_its_row(zero: Any) -> None:
    assert refusal([[1.0, 2.0], zero]) == ("the vector is zero, which has no direction", 1)


@pytest.mark.parametrize("bad", [
    [math.nan, 1.0], [math.inf, 1.0], [1.0, -math.inf], [10**400, 1.0], b64(math.nan, 1.0), b64(1.0, math.inf),
    json.loads("[1e999, 1]"),
])
def test_r13_a_component_that_is_not_finite_is_refused_by_its_row(bad: Any) -> None:
    assert refusal([[1.0, 2.0], [2.0, 1.0], bad]) == ("the vector holds NaN or infinity", 2)


def test_the_dimension_is_the_one_expected() -> None:
    assert refusal([[1.0, 2.0, 3.0]], dim=2) == ("a vector has 3 dimensions where 2 were asked for", 0)


def test_the_dimension_is_the_same_in_every_row() -> None:
    assert refusal([[1.0, 2.0], [1.0]]) == ("a vector has 1 dimensions where 2 came for the first text", 1)


@pytest.mark.parametrize("bad", [None, {}, 1.0, [True, False], ["1", "2"], [[1.0], [2.0]], [None, 1.0], "not base64!", "é"])
def test_what_is_no_vector_is_refused(bad: Any) -> None:
    assert refusal([[1.0, 2.0], bad]) == ("a vector is neither a list of numbers nor base64", 1)


@pytest.mark.parametrize("bad", [[], ""])
def test_an_empty_vector_is_refused(bad: Any) -> None:
    assert refusal([bad]) == ("the vector is empty", 0)


def test_r102_base64_is_little_endian_float32() -> None:
    assert unit_rows(["AADAPwAAAMA="], asked=1, dim=2)[0] == pytest.approx([0.6, -0.8])  # 1.5, -2.0


@pytest.mark.parametrize("size", [1, 5, 7])
def test_r102_base64_that_is_no_row_of_float32_is_refused(size: int) -> None:
    vector = base64.b64encode(b"\x01" * size).decode()
    assert refusal([vector]) == (f"a base64 vector has {size} bytes, no multiple of 4", 0)


def test_r102_the_length_must_be_four_bytes_a_dimension() -> None:
    assert refusal([b64(1.0, 2.0)], dim=3) == ("a vector has 2 dimensions where 3 were asked for", 0)


def test_r101_number_lists_and_base64_give_the_same_row() -> None:
    rows = unit_rows([[1.5, -2.0], b64(1.5, -2.0)], asked=2, dim=2)
    assert rows[0].tobytes() == rows[1].tobytes()


def entry(index: Any, value: float) -> dict[str, Any]:
    return {"index": index, "embedding": [value]}


def test_entries_are_ordered_by_index() -> None:
    assert by_index([entry(2, 2.0), entry(0, 0.0), entry(1, 1.0)], 3) == [[0.0], [1.0], [2.0]]


def test_entries_without_any_index_stand_in_order() -> None:
    assert by_index([{"embedding": [5.0]}, {"embedding": [4.0]}], 2) == [[5.0], [4.0]]


@pytest.mark.parametrize("indexes", [(0, 0), (0, 2), (1, 2), (-1, 0), (0, None), (0, "1"), (False, True), (0.0, 1.0)])
def test_r100_indexes_that_are_no_permutation_are_refused(indexes: tuple[Any, Any]) -> None:
    with pytest.raises(BadReply, match=r"its indexes are not 0 to 1, each once"):
        by_index([entry(index, 1.0) for index in indexes], 2)


@pytest.mark.parametrize("bad", [None, [1.0], {"index": 0}])
def test_an_entry_without_its_vector_is_refused(bad: Any) -> None:
    with pytest.raises(BadReply, match="no `embedding`"):
        by_index([bad], 1)


def test_a_short_list_of_entries_is_refused() -> None:
    with pytest.raises(BadReply, match="1 vectors for 2 texts"):
        by_index([entry(0, 1.0)], 2)


@pytest.mark.parametrize(("body", "detail"), [
    (b"<!DOCTYPE html><h1>Bad gateway</h1>", "it is an HTML page"),
    (b"\n <html>", "it is an HTML page"),
    (b"", "it is no JSON"),
    (b"upstream error", "it is no JSON"),
    (b'{"data": [', "it is no JSON"),
    (b"\xff\xfe\xfa", "it is no JSON"),
    (b"[" * 100_000, "it is no JSON"),
    (b"[]", "it is a JSON list, not an object"),
    (b"null", "it is a JSON NoneType, not an object"),
    (b'"text"', "it is a JSON str, not an object"),
])
def test_a_body_that_is_no_json_object_is_refused(body: bytes, detail: str) -> None:
    with pytest.raises(BadReply) as caught:
        json_object(body)
    assert caught.value.detail == detail


@pytest.mark.parametrize("payload", [{}, {"data": None}, {"data": {}}, {"data": "x"}])
def test_a_missing_list_is_refused_by_its_name(payload: dict[str, Any]) -> None:
    with pytest.raises(BadReply, match="it has no `data` list"):
        vector_list(payload, "data")
