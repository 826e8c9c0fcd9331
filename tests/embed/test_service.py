"""Each status has one judgement: the code, whether a repeat may help, whether a text or the length may be the cause."""

from __future__ import annotations

from typing import Any

import pytest

from rag_stdlib.embed.faults import Fault
from rag_stdlib.embed.service import Service
from rag_stdlib.embed.wire import Reply, Trouble, WireError

SERVICE = Service("openai", "m-1", "https://user:hunter2@host/v1", 30.0, ("hunter2",))


def judge(status: int, body: bytes = b'{"error": "words"}', *, many: bool = True, narrowing: bool = False,
          **headers: str) -> Fault | None:
    reply = Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
    return SERVICE.of_reply(reply, many=many, narrowing=narrowing)


def facts(fault: Fault | None) -> tuple[Any, ...]:
    assert fault is not None
    return fault.code, fault.retries, fault.split


@pytest.mark.parametrize("status", [200, 201, 204])
def test_a_success_is_no_fault(status: int) -> None:
    assert judge(status) is None


@pytest.mark.parametrize(("status", "expected"), [
    (302, ("embedder_rejected", 0, "no")),
    (400, ("embedder_rejected", 0, "no")),
    (401, ("embedder_auth", 0, "no")),
    (403, ("embedder_auth", 0, "no")),
    (404, ("embedder_model", 0, "no")),
    (408, ("embedder_timeout", None, "no")),
    (409, ("embedder_rejected", 0, "no")),
    (413, ("embedder_input_too_long", 0, "length")),
    (422, ("embedder_rejected", 0, "no")),
    (429, ("embedder_rate_limit", None, "no")),
    (451, ("embedder_rejected", 0, "no")),
    (500, ("embedder_failed", 1, "content")),
    (501, ("embedder_failed", None, "no")),
    (502, ("embedder_failed", None, "no")),
    (503, ("embedder_failed", None, "no")),
    (529, ("embedder_failed", None, "no")),
])
def test_a_status_has_its_code(status: int, expected: tuple[Any, ...]) -> None:
    assert facts(judge(status)) == expected


@pytest.mark.parametrize(("many", "narrowing", "retries"), [(True, False, 1), (False, False, 3), (True, True, 0), (False, True, 1)])
def test_a_500_is_repeated_less_while_narrowing(many: bool, narrowing: bool, retries: int) -> None:
    fault = judge(500, many=many, narrowing=narrowing)
    assert fault is not None
    assert fault.retries == retries


@pytest.mark.parametrize(("status", "said"), [
    (400, "This model's maximum context length is 8192 tokens, however you requested 10223 tokens"),
    (400, "Invalid 'input[0]': maximum context length is 8192 tokens."),
    (400, "Requested 356284 tokens, max 300000 tokens per request (max_tokens_per_request)"),
    (400, "the input length exceeds the context length"),
    (500, "input length exceeds maximum context length"),
    (500, "input (2048 tokens) is too large to process. increase the physical batch size"),
    (500, "input is too large to process"),
    (400, "the request exceeds the available context size"),
    (422, "Input validation error: `inputs` must have less than 512 tokens. Given: 700"),
    (429, "Request too large for text-embedding-3-small on tokens per min (TPM): Limit 40000, Requested 66000"),
])
def test_r90_r93_a_length_is_recognised_in_the_words_of_many_servers(status: int, said: str) -> None:
    assert facts(judge(status, said.encode())) == ("embedder_input_too_long", 0, "length")


@pytest.mark.parametrize("said", ["'$.input' is invalid", "Invalid value for dimensions", "unknown field `encoding_format`"])
def test_another_400_is_not_taken_for_a_length(said: str) -> None:
    assert facts(judge(400, said.encode())) == ("embedder_rejected", 0, "no")


def test_an_exhausted_account_is_not_waited_for() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    assert facts(judge(429, body)) == ("embedder_rejected", 0, "no")


def test_r98_what_the_provider_asks_to_wait_is_kept_and_told() -> None:
    fault = judge(429, retry_after="120")
    assert fault is not None
    assert fault.pause_s == 120
    assert str(fault.failure().error) == (
        "openai kept refusing for too many requests until the deadline of 30 s: it asks to wait 120 s; words")


def test_a_redirect_names_its_target_and_is_not_followed() -> None:
    fault = judge(307, location="https://elsewhere/x?key=hunter2")
    assert fault is not None
    assert str(fault.failure().error) == ("openai rejected the request (HTTP 307): it redirects to https://elsewhere/x?key="
                                          "[redacted], and texts go to the configured endpoint only")


@pytest.mark.parametrize("status", [302, 400, 401, 404, 408, 413, 429, 500, 503])
def test_r108_every_message_is_complete_and_without_the_key(status: int) -> None:
    fault = judge(status, b'{"error": "your key hunter2\\nis \\u001b bad"}')
    assert fault is not None
    error = fault.failure('text 1 of 2 ("x")').error
    assert error.code == fault.code
    assert "hunter2" not in error
    assert error.isprintable()


@pytest.mark.parametrize(("trouble", "expected", "message"), [
    ("timeout", ("embedder_timeout", None, "no"), "openai gave no complete answer within 30 s"),
    ("unreachable", ("embedder_unreachable", 3, "no"), "openai cannot be reached at https://[redacted]@host/v1: hunted [redacted]"),
    ("broken", ("embedder_unreachable", 5, "no"), "openai cannot be reached at https://[redacted]@host/v1: hunted [redacted]"),
    ("oversize", ("embedder_reply", 0, "no"), "openai sent an unusable reply: hunted [redacted]"),
])
def test_trouble_on_the_wire_has_its_code(trouble: Trouble, expected: tuple[Any, ...], message: str) -> None:
    fault = SERVICE.of_wire(WireError(trouble, "hunted hunter2"))
    assert facts(fault) == expected
    assert fault.failure().error == message


def test_the_secrets_are_not_in_the_repr() -> None:
    assert "hunter2" not in repr(Service("p", "m", "e", 1.0, ("hunter2",)))
