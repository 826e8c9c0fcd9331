"""Vectors that come over the mesh, as the index scores them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serving
from embedder_double import EmbedderDouble
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.embed import boundary
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures.vectors import unit

QUERIES = ["a raven remembers hundreds of such places", "owls hunt", "storks return in spring and build upon the nest"]
FLOATS = st.floats(-1e300, 1e300)


@given(st.lists(st.floats(-1.0, 1.0, width=32), min_size=1, max_size=20).filter(any))
def test_what_is_of_unit_length_keeps_its_bits(numbers: list[float]) -> None:
    wide = np.array(numbers, np.float64)
    first = (wide / np.abs(wide).max() / np.linalg.norm(wide / np.abs(wide).max())).astype(np.float32)
    again = unit([float(number) for number in first], "vector")
    assert again.dtype == np.float32
    assert again.tobytes() == first.tobytes()


@given(st.lists(FLOATS | st.integers(-(2**63), 2**63), min_size=1, max_size=20).filter(any))
def test_whatever_the_length_the_direction_stays(numbers: list[float]) -> None:
    made = unit(numbers, "vector").astype(np.float64)
    assert math.isclose(float(np.linalg.norm(made)), 1.0, abs_tol=1e-5)
    largest = int(np.argmax(np.abs(np.array(numbers, np.float64))))
    assert math.copysign(1.0, made[largest]) == math.copysign(1.0, numbers[largest])
    assert np.abs(made).max() == np.abs(made[largest])


@pytest.mark.parametrize("numbers", [[1e308, 1e308], [5e-324, 0.0, 5e-324], [1e-200, -1e-200], [-1.7976931348623157e308]])
def test_squares_neither_overflow_nor_vanish(numbers: list[float]) -> None:
    assert math.isclose(float(np.linalg.norm(unit(numbers, "vector"))), 1.0, abs_tol=1e-6)


@pytest.mark.parametrize("numbers", [[], [0.0], [0, -0.0, 0]])
def test_without_a_direction_there_is_no_unit(numbers: list[float]) -> None:
    with pytest.raises(Refusal, match="bad_params: query_vector is zero, which has no direction"):
        unit(numbers, "query_vector")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_by_the_embedders_vector_finds_and_scores_as_the_text_does(tmp_path: Path, query: str) -> None:
    embedder = EmbedderDouble(serving.DIM)
    with serving.runtime(tmp_path, embedder, mode="vector") as runtime:
        provider = serving.with_corpus(runtime)
        vector = [float(number) for number in boundary.embedded(embedder, [query], "query")[0]]
        by_text: Any = provider.handle("answer_query", {"query_text": query, "top_k": 50})
        by_vector: Any = provider.handle("answer_query", {"query_vector": vector, "top_k": 50})
        assert by_vector == by_text
        assert len(by_vector["hits"]) > 2
        doubled: Any = provider.handle("answer_query", {"query_vector": [2.0 * number for number in vector], "top_k": 50})
        assert [hit["chunk_id"] for hit in doubled["hits"]] == [hit["chunk_id"] for hit in by_text["hits"]]
