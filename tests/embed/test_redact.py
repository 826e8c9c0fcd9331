"""No secret, no second line and no long tail of what a provider says gets into a message."""

from __future__ import annotations

import json
import time

import pytest

from rag_stdlib.embed.redact import MESSAGE_CAP, one_line, provider_detail, redact


@pytest.mark.parametrize(("text", "kept"), [
    ("Incorrect API key provided: sk-proj-abcDEF0123456789.", "Incorrect API key provided: [redacted]"),
    ("Incorrect API key provided: sk-ab*****************wxyz. You can", "[redacted] You can"),
    ("key sk-…abcd was refused", "key [redacted] was refused"),
    ("sent Authorization: Bearer abc.def-ghi, refused", "Bearer [redacted], refused"),
    ('{"Authorization":"bearer tok123"}', 'bearer [redacted]"}'),
    ("api_key=hunter2&x=1", "api_key=[redacted]&x=1"),
    ("Incorrect API key provided: plainword here", "API key provided: [redacted] here"),
    ('"x-api-key": "s3cr3t"', '"x-api-key": "[redacted]"'),
    ("token hf_abcdefghijkl is bad", "token [redacted] is bad"),
    ("https://user:pass@host/v1", "https://[redacted]@host/v1"),
])
def test_r108_what_is_shaped_like_a_key_is_removed(text: str, kept: str) -> None:
    assert kept in redact(text, ())


@pytest.mark.parametrize("text", [
    "risk-based ask-me task-force", "the key is missing", "https://host/v1/embeddings", "api key", "a bearer", "sk-",
])
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text, ()) == text


@pytest.mark.parametrize("secret", ["hunter2", "pa ss", 'quo"te\\', "a/b+c==", "ключ"])
def test_r108_a_configured_secret_is_removed_in_every_spelling(secret: str) -> None:
    spellings = [secret, json.dumps(secret)[1:-1], secret.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")]
    for spelling in spellings:
        assert redact(f"<<{spelling}>>", (secret,)) == "<<[redacted]>>"


def test_the_longer_of_two_secrets_goes_first_and_an_empty_one_is_none() -> None:
    assert redact("abcdef abc x", ("abc", "abcdef", "")) == "[redacted] [redacted] x"


@pytest.mark.parametrize(("text", "shown"), [
    ("a\nb\r\tc", r"a\nb\r\tc"),
    ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
    ("left\u202eright\u200b", r"left\u202eright\u200b"),
    ("line\u2028par\u2029", r"line\u2028par\u2029"),
    ("\ud800", r"\ud800"),
    ("naïve 漢字 👋", "naïve 漢字 👋"),
])
def test_what_moves_hides_or_reorders_is_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown


@pytest.mark.parametrize("text", ["x" * 5000, "\n" * 5000, "é" * 301])
def test_a_message_is_bounded(text: str) -> None:
    assert len(one_line(text)) == MESSAGE_CAP
    assert one_line(text).endswith("…")


def test_a_message_of_just_the_bound_is_whole() -> None:
    assert one_line("x" * MESSAGE_CAP) == "x" * MESSAGE_CAP


@pytest.mark.parametrize(("body", "detail"), [
    (b'{"error": {"message": "no such thing", "code": "gone"}}', "no such thing (gone)"),
    (b'{"error": {"message": "gone: no such thing", "code": "gone"}}', "gone: no such thing"),
    (b'{"error": {"message": "m", "code": 7}}', "m"),
    (b'{"error": "model not found"}', "model not found"),
    (b'{"message": "proxy says no"}', "proxy says no"),
    (b'{"error": {}, "detail": "Unauthorized"}', "Unauthorized"),
    (b'{"error": " "}', '{"error": " "}'),
    (b'{"detail": [{"loc": 1}]}', '{"detail": [{"loc": 1}]}'),
    (b'{"cut', '{"cut'),
    (b"<h1>\nBad</h1>", r"<h1>\nBad</h1>"),
    (b"caf\xe9", "caf\ufffd"),
    (b"", "(empty reply)"),
    (b'{"error": "your key is hunter2"}', "your key is [redacted]"),
])
def test_the_providers_own_sentence_is_taken(body: bytes, detail: str) -> None:
    assert provider_detail(body, ("hunter2",)) == detail


def test_a_secret_at_the_cut_does_not_survive_in_part() -> None:
    body = b"x" * (MESSAGE_CAP - 6) + b" hunter2hunter2"
    assert "hunt" not in provider_detail(body, ("hunter2hunter2",))


def test_a_huge_body_takes_no_time() -> None:
    began = time.perf_counter()
    for piece in (b"://", b"bearer ", b"api key ", b"sk-", b"a" * 10):
        provider_detail(piece * 1_000_000, ("s",))
    assert time.perf_counter() - began < 5
