"""The probe finds unstable vectors and lost order, and nothing where there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.embed.verify import verify_embedder
from rag_stdlib.errors import fail


class Warped(HashingEmbedder):
    """A sound embedder whose rows pass through `warp(rows, call)`; calls are counted from 0."""

    def __init__(self, warp: Callable[[Any, int], Any], dim: int = 64) -> None:
        """Keep the warp."""
        super().__init__(dim)
        self.warp = warp
        self.calls = 0

    def embed(self, texts: Sequence[str], role: Role) -> Any:
        """Embed, warped."""
        rows = self.warp(super().embed(texts, role), self.calls)
        self.calls += 1
        return rows


class Misstated(HashingEmbedder):
    """Says one dimension and gives another."""

    def identity(self) -> EmbedderIdentity:
        """State one more than there are."""
        return EmbedderIdentity("p", "m", 65)


def noisy(amount: float) -> Callable[[Any, int], Any]:
    def warp(rows: Any, call: int) -> Any:
        noise = np.random.default_rng(call).normal(size=rows.shape) * amount / np.sqrt(rows.shape[1])
        moved = rows + noise
        return (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)
    return warp


def test_a_sound_embedder_has_no_problems() -> None:
    embedder = Warped(lambda rows, _: rows)
    assert verify_embedder(embedder, rounds=4) == ()
    assert embedder.calls == 10


def test_r104_last_bits_are_no_problem() -> None:
    assert verify_embedder(Warped(noisy(1e-3))) == ()


@pytest.mark.parametrize("amount", [0.1, 1.0])
def test_r105_the_same_text_with_another_vector_is_found(amount: float) -> None:
    problems = verify_embedder(Warped(noisy(amount)))
    assert problems
    assert all("got another vector: cosine 0." in problem for problem in problems)


def test_r105_one_bad_answer_in_a_later_round_is_found() -> None:
    problems = verify_embedder(Warped(lambda rows, call: noisy(0.5)(rows, call) if call == 7 else rows))
    assert {problem.partition("embedded ")[2].partition(" got")[0] for problem in problems} == {"in another order (round 2)"}


@pytest.mark.parametrize("shuffle", [lambda rows: rows[::-1], lambda rows: rows[[1, 0, *range(2, len(rows))]],
                                     lambda rows: np.roll(rows, 1, axis=0)])
def test_r100_a_batch_in_another_order_is_found(shuffle: Callable[[Any], Any]) -> None:
    problems = verify_embedder(Warped(lambda rows, _: shuffle(rows) if len(rows) > 1 else rows))
    assert any("text 1 embedded alone got the vector of text" in problem and problem.endswith("order is not kept")
               for problem in problems)


def test_a_dimension_that_changes_is_found() -> None:
    assert verify_embedder(Warped(lambda rows, call: rows[:, :32] if call else rows)) == ("the dimension changes between requests",)


def test_a_dimension_that_is_misstated_is_found() -> None:
    assert verify_embedder(Misstated()) == ("the identity states 65 dimensions, vectors have 64",)


def test_a_failure_is_a_problem() -> None:
    def warp(_rows: Any, _call: int) -> Any:
        raise fail("embedder_timeout", provider="p", seconds=1.0)
    assert verify_embedder(Warped(warp)) == ("p gave no complete answer within 1 s",)
