"""The official client against a real server that fails: repeats, deadlines, and whom a failing batch is blamed on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
from asserting import error_of, said, unit
from provider_server import (
    Answer,
    Asked,
    Drip,
    HangUp,
    ProviderServer,
    Silence,
    sound,
)

from rag_stdlib.embed.retry import Pacing

Make = Callable[..., Any]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_r97_a_passing_fault_is_repeated(server: ProviderServer, make: Make, status: int) -> None:
    server.then(said(status, "later"))
    assert make("openai").embed(["a", "b"], "passage").shape == (2, 4)
    assert [asked.texts for asked in server.asked] == [["a", "b"]] * 2


def test_r98_retry_after_in_seconds_is_waited_for(server: ProviderServer, make: Make) -> None:
    server.then(said(429, "slow down", Retry_After="0.3"))
    began = time.monotonic()
    make("openai").embed(["a"], "query")
    assert 0.3 <= time.monotonic() - began < 10


def test_r98_retry_after_as_a_date_is_waited_for(server: ProviderServer, make: Make) -> None:
    slept: list[float] = []
    pacing = Pacing(base_s=0.01, sleep=slept.append)
    server.then(lambda _asked: said(429, "slow down", Retry_After=formatdate(time.time() + 3, usegmt=True)))
    make("openai", pacing=pacing).embed(["a"], "query")
    assert len(slept) == 1
    assert 1.9 < slept[0] <= 3.1


@pytest.mark.parametrize("wait", ["600", "1e"])
def test_r98_a_wait_beyond_the_deadline_is_given_up_at_once(server: ProviderServer, make: Make, wait: str) -> None:
    value = wait if wait.isdigit() else formatdate(time.time() + 600, usegmt=True)
    server.script = lambda _asked: said(429, "slow down", Retry_After=value)
    began = time.monotonic()
    error = error_of(lambda: make("openai").embed(["a"], "query"))
    assert error.code == "embedder_rate_limit"
    assert "until the deadline of 5 s: it asks to wait" in error
    assert time.monotonic() - began < 4.5
    assert len(server.asked) == 1


@pytest.mark.parametrize(("status", "code"), [(429, "embedder_rate_limit"), (503, "embedder_failed"), (408, "embedder_timeout")])
def test_r97_a_fault_that_lasts_ends_with_the_deadline(server: ProviderServer, make: Make, status: int, code: str) -> None:
    server.script = lambda _asked: said(status, "later")
    began = time.monotonic()
    error = error_of(lambda: make("openai", timeout_s=0.7).embed(["a"], "query"))
    assert error.code == code
    assert time.monotonic() - began < 10
    assert len(server.asked) > 5


# --- the wire ---

@pytest.mark.parametrize("slow", [Drip(), Drip(in_headers=True), Silence()], ids=["body", "headers", "silence"])
def test_r106_the_whole_call_ends_at_its_deadline(server: ProviderServer, make: Make, slow: Any) -> None:
    server.script = lambda _asked: slow
    began = time.monotonic()
    error = error_of(lambda: make("openai", timeout_s=0.6).embed(["a"], "query"))
    assert error == "openai gave no complete answer within 0.6 s"
    assert 0.25 < time.monotonic() - began < 10
    assert len(server.asked) == 2  # half of the time went to a second attempt


def test_r106_the_deadline_is_one_for_all_batches(server: ProviderServer, make: Make) -> None:
    def script(asked: Asked) -> Any:
        time.sleep(0.15)
        return sound(asked)
    server.script = script
    began = time.monotonic()
    error = error_of(lambda: make("openai", timeout_s=0.5, max_batch=1).embed(list("abcdefgh"), "passage"))
    assert error.code == "embedder_timeout"
    assert time.monotonic() - began < 10


def test_r106_a_hang_leaves_time_for_a_second_attempt(server: ProviderServer, make: Make) -> None:
    server.then(Silence())
    assert make("openai", timeout_s=0.8).embed(["a"], "query").shape == (1, 4)


def test_a_hang_up_in_mid_body_is_repeated(server: ProviderServer, make: Make) -> None:
    server.then(HangUp(), HangUp(b""))
    assert make("openai").embed(["a"], "query").shape == (1, 4)


def test_a_connection_that_always_breaks_is_given_up(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: HangUp()
    error = error_of(lambda: make("openai").embed(["a"], "query"))
    assert error.code == "embedder_unreachable"
    assert "the connection broke" in error
    assert len(server.asked) == 6


def test_a_refused_connection_names_the_endpoint(make: Make) -> None:
    error = error_of(lambda: make("openai", endpoint="http://127.0.0.1:9/v1").embed(["a"], "query"))
    assert error.code == "embedder_unreachable"
    assert "openai cannot be reached at http://127.0.0.1:9/v1: " in error


# --- one text among many ---

def chunks(number: int) -> list[str]:
    return [f"chunk number {place}" for place in range(number)]


@pytest.mark.parametrize("poisoned", [0, 23, 49])
def test_r96_one_poisoned_text_is_named(server: ProviderServer, make: Make, poisoned: int) -> None:
    bad = f"chunk number {poisoned}"
    server.script = lambda asked: said(500, "json: unsupported value: NaN") if bad in asked.texts else sound(asked)
    error = error_of(lambda: make("openai").embed(chunks(50), "passage"))
    assert error.code == "embedder_failed"
    assert error == f'openai failed (HTTP 500) for text {poisoned + 1} of 50 ("{bad}"): json: unsupported value: NaN'
    assert len(server.asked) <= 2 * math.ceil(math.log2(50)) + 4


def test_r96_the_callers_text_is_named_not_the_prefixed_or_the_unique_one(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: said(500, "NaN") if any("bad" in text for text in asked.texts) else sound(asked)
    embedder = make("openai", passage_prefix="passage: ")
    error = error_of(lambda: embedder.embed(["a", "a", "a", "bad\n\x1b one", "b"], "passage"))
    assert r'for text 4 of 5 ("bad\n\x1b one"):' in error


def test_r96_a_server_that_is_down_accuses_no_text(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: said(500, "boom")
    assert error_of(lambda: make("openai").embed(chunks(50), "passage")) == "openai failed (HTTP 500): boom"


def test_r96_a_batch_that_recovers_in_halves_is_whole(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: said(500, "boom") if len(asked.texts) > 3 else sound(asked)
    rows = make("openai").embed(chunks(9), "passage")
    assert [row.tolist() for row in rows] == [unit(text).tolist() for text in chunks(9)]


def test_r90_a_request_of_too_many_tokens_is_halved(server: ProviderServer, make: Make) -> None:
    refusal = Answer(400, {"error": {"message": "Requested 356284 tokens, max 300000 tokens per request",
                                     "code": "max_tokens_per_request"}})
    server.script = lambda asked: refusal if len(asked.texts) > 2 else sound(asked)
    rows = make("openai").embed(chunks(5), "passage")
    assert rows[4].tolist() == unit("chunk number 4").tolist()
    assert [len(asked.texts) for asked in server.asked] == [5, 2, 3, 1, 2]


def test_r93_a_text_too_long_for_the_model_is_named(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: (said(400, "This model's maximum context length is 8192 tokens, you requested 9000")
                                   if any(len(text) > 8000 for text in asked.texts) else sound(asked))
    error = error_of(lambda: make("openai").embed(["a", "y: " * 2915, "c"], "passage"))
    assert error.code == "embedder_input_too_long"
    assert error.fix == "caller"
    assert error.startswith('openai refuses text 2 of 3 ("y: y: ')


def test_r196_ten_identical_poisoned_texts_are_one(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: said(500, "NaN")
    assert 'for text 1 of 10 ("bad")' in error_of(lambda: make("openai").embed(["bad"] * 10, "passage"))


# --- life ---
