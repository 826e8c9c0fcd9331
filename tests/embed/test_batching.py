"""Texts become few bounded requests, and a failing batch is narrowed to the text that fails it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.embed.batching import MAX_BYTES, MAX_TOKENS, Limits, embed_in_batches, estimated_tokens, split
from rag_stdlib.embed.faults import Fault
from rag_stdlib.errors import Failure

SAID = {"provider": "p", "status": 500, "detail": "NaN", "seconds": 1.0}


class Provider:
    """Embeds a text as [number, 1] unless `refuse` gives a fault for the batch."""

    def __init__(self, texts: Sequence[str], refuse: Callable[[list[str], bool], Fault | None] = lambda _b, _n: None) -> None:
        """Note every batch in `sent`."""
        self.texts = texts
        self.refuse = refuse
        self.sent: list[list[str]] = []

    def __call__(self, positions: Sequence[int], *, narrowing: bool) -> Any:
        """Answer as `Send` does."""
        batch = [self.texts[position] for position in positions]
        self.sent.append(batch)
        fault = self.refuse(batch, narrowing)
        return fault or np.array([[float(text.split()[0]), 1.0] for text in batch], dtype=np.float32)


def name(position: int) -> str:
    return f"text #{position}"


def run(provider: Provider, count: int = 100, **limits: int) -> list[float]:
    rows = embed_in_batches(provider.texts, provider, Limits(count, **limits), name)
    return [float(row[0]) for row in rows]


def content(**fields: Any) -> Fault:
    return Fault("embedder_failed", {**SAID, **fields}, split="content")


def too_long() -> Fault:
    return Fault("embedder_input_too_long", SAID, split="length")


def failure(provider: Provider, **limits: int) -> Failure:
    with pytest.raises(Failure) as caught:
        run(provider, **limits)
    return caught.value


def test_batches_hold_at_most_the_count() -> None:
    provider = Provider([str(number) for number in range(10)])
    assert run(provider, 4) == list(range(10))
    assert [len(batch) for batch in provider.sent] == [4, 4, 2]


def test_r90_five_books_are_more_than_one_request() -> None:
    book = "0 " + "word " * 120_000  # 600 kB, 200,000 estimated tokens
    provider = Provider([f"{number} {book}" for number in range(5)])
    assert run(provider) == [0, 1, 2, 3, 4]
    assert [len(batch) for batch in provider.sent] == [1] * 5


def test_r90_many_small_texts_stay_within_the_tokens_of_a_request() -> None:
    provider = Provider([f"{number} " + "x" * 2_990 for number in range(600)])
    run(provider, 2048)
    assert [len(batch) for batch in provider.sent] == [250, 250, 100]


def test_r90_bytes_bound_a_request_whatever_the_tokens() -> None:
    provider = Provider([f"{number} " + "é" * 40 for number in range(10)])
    run(provider, tokens=10_000, size=200)
    assert [len(batch) for batch in provider.sent] == [2] * 5


@given(st.lists(st.text(min_size=1, max_size=30), max_size=40), st.integers(1, 7), st.integers(1, 20), st.integers(1, 60))
def test_batches_are_a_partition_in_order_and_within_every_bound(texts: list[str], count: int, tokens: int, size: int) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    batches = split(texts, range(len(texts)), Limits(count, tokens, size))
    assert [position for batch in batches for position in batch] == list(range(len(texts)))
    for batch in batches:
        lengths = [len(texts[position].encode()) for position in batch]
        assert 1 <= len(batch) <= count
        assert len(batch) == 1 or (sum(lengths) <= size and sum(map(estimated_tokens, lengths)) <= tokens)


def test_the_bounds_are_below_the_providers_own() -> None:
    assert (MAX_TOKENS, MAX_BYTES) == (250_000, 8 * 1024 * 1024)
    assert [estimated_tokens(size) for size in (0, 1, 3, 4)] == [0, 1, 1, 2]


def test_r196_equal_texts_are_sent_once_and_every_one_gets_its_row() -> None:
    provider = Provider(["7", "8", "7", "7", "9", "8"])
    assert run(provider) == [7, 8, 7, 7, 9, 8]
    assert provider.sent == [["7", "8", "9"]]


def test_r196_equal_texts_of_different_batches_are_sent_once() -> None:
    provider = Provider(["1", "2", "3", "1", "2", "3", "1"])
    assert run(provider, 2) == [1, 2, 3, 1, 2, 3, 1]
    assert provider.sent == [["1", "2"], ["3"]]


def test_r196_a_document_of_one_repeated_text_is_one_text() -> None:
    provider = Provider(["5"] * 50)
    assert run(provider, 10) == [5] * 50
    assert provider.sent == [["5"]]


def test_a_text_beyond_a_whole_request_is_refused_before_anything_is_sent() -> None:
    provider = Provider(["1", "2" * 300, "3"])
    error = failure(provider, size=200).error
    assert error.code == "embedder_input_too_long"
    assert "text #1 as too long" in error
    assert "300 bytes, and one request holds 200" in error
    assert provider.sent == []


@pytest.mark.parametrize("poisoned", [0, 17, 49])
def test_r96_one_poisoned_text_is_named_in_logarithmic_requests(poisoned: int) -> None:
    provider = Provider([str(number) for number in range(50)], lambda batch, _: content() if str(poisoned) in batch else None)
    error = failure(provider).error
    assert error.code == "embedder_failed"
    assert error == f"p failed (HTTP 500) for text #{poisoned}: NaN"
    assert len(provider.sent) <= 2 * math.ceil(math.log2(50)) + 2


def test_r96_two_poisoned_texts_name_the_first() -> None:
    provider = Provider([str(number) for number in range(16)],
                        lambda batch, _: content() if {"3", "11"} & set(batch) else None)
    assert "for text #3:" in failure(provider).error


def test_r96_a_poisoned_text_alone_in_its_batch_is_named() -> None:
    assert "for text #0:" in failure(Provider(["1"], lambda _b, _n: content())).error


def test_a_server_that_fails_on_everything_accuses_no_text() -> None:
    provider = Provider([str(number) for number in range(50)], lambda _b, _n: content())
    assert failure(provider).error == "p failed (HTTP 500): NaN"
    assert len(provider.sent) <= 2 * math.ceil(math.log2(50)) + 2


def test_a_batch_that_only_fails_whole_is_answered_by_its_halves() -> None:
    provider = Provider(["1", "2", "3", "4", "5"], lambda batch, _: too_long() if len(batch) > 2 else None)
    assert run(provider) == [1, 2, 3, 4, 5]
    assert provider.sent == [["1", "2", "3", "4", "5"], ["1", "2"], ["3", "4", "5"], ["3"], ["4", "5"]]


def test_r93_the_text_that_is_too_long_is_named() -> None:
    provider = Provider(["1", "2", "3", "4"], lambda batch, _: too_long() if "4" in batch else None)
    error = failure(provider).error
    assert error == "p refuses text #3 as too long for the model: NaN; use a smaller chunk_chars"


def test_the_sender_is_told_when_a_larger_batch_has_failed() -> None:
    seen: list[tuple[int, bool]] = []

    def refuse(batch: list[str], narrowing: bool) -> Fault | None:
        seen.append((len(batch), narrowing))
        return too_long() if len(batch) > 1 else None

    assert run(Provider(["1", "2", "3"], refuse)) == [1, 2, 3]
    assert seen == [(3, False), (1, True), (2, True), (1, True), (1, True)]


def test_another_fault_ends_everything_without_narrowing() -> None:
    denied = Fault("embedder_auth", {**SAID, "status": 401})
    provider = Provider(["1", "2", "3", "4"], lambda batch, _: denied if "3" in batch else None)
    assert failure(provider, count=2).error == "p refused the credentials (HTTP 401): NaN"
    assert provider.sent == [["1", "2"], ["3", "4"]]
