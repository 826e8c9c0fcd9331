"""The hashing embedder is exact and the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity


def test_r217_components_are_small_integers_before_normalisation() -> None:
    counts = HashingEmbedder(8).counts("The cat and the other cat")
    assert all(type(count) is int for count in counts)
    assert sum(map(abs, counts)) <= 6
    assert counts == HashingEmbedder(8).counts("cat cat the the and OTHER")


def test_r217_golden_counts() -> None:
    assert HashingEmbedder(8).counts("refund") == [0, 0, 0, 0, 0, 1, 0, 0]
    assert HashingEmbedder(8).counts("Refund the refund") == [0, 1, 0, 0, 0, 2, 0, 0]


def test_rows_are_unit_vectors_of_the_stated_dimension() -> None:
    embedder = HashingEmbedder()
    rows = embedder.embed(["a b c", "d", "a b c"], "passage")
    assert rows.shape == (3, 64)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1])
    assert rows[0].tobytes() == rows[2].tobytes() == embedder.embed(["C, b; a!"], "query")[0].tobytes()
    assert embedder.identity() == EmbedderIdentity("hashing", "words-sha256", 64)
    assert embedder.remote is False
    assert embedder.embed([], "query").shape == (0, 64)


@pytest.mark.parametrize("text", ["!!!", "…", "👋"])
def test_r12_a_text_without_words_still_has_a_direction(text: str) -> None:
    assert np.linalg.norm(HashingEmbedder(4).embed([text], "query")[0]) == pytest.approx(1)


def test_r12_words_that_cancel_each_other_still_have_a_direction() -> None:
    one = HashingEmbedder(1)
    words = [f"w{number}" for number in range(20)]
    plus = next(word for word in words if one.counts(word) == [1])
    minus = next(word for word in words if one.counts(word) == [-1])
    assert one.counts(f"{plus} {minus}") in ([1], [-1])


def test_texts_with_common_words_are_nearer() -> None:
    query, near, far = HashingEmbedder(256).embed(["money back refund", "a refund gives money back", "tigers hunt at night"], "query")
    assert query @ near > query @ far


def test_a_dimension_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="dim must be at least 1"):
        HashingEmbedder(0)


def test_blank_texts_are_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="blank"):
        HashingEmbedder().embed([" "], "query")
