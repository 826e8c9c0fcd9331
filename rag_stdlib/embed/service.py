"""The provider as messages name it, and the judgement on what it answers: which fault, worth a repeat or not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from rag_stdlib.embed.faults import Fault, Split
from rag_stdlib.embed.redact import one_line, provider_detail, redact
from rag_stdlib.embed.retry import asked_pause
from rag_stdlib.embed.wire import Reply, Trouble, WireError

# A server that is not there now will hardly be there in a minute, while a broken connection is rather an accident.
_WIRE_RETRIES: Final[dict[Trouble, int | None]] = {"timeout": None, "unreachable": 3, "broken": 5, "oversize": 0}
_WIRE_CODES: Final[dict[Trouble, str]] = {
    "timeout": "embedder_timeout",
    "unreachable": "embedder_unreachable",
    "broken": "embedder_unreachable",
    "oversize": "embedder_reply",
}
_CODES: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "embedder_auth",
    HTTPStatus.FORBIDDEN: "embedder_auth",
    HTTPStatus.NOT_FOUND: "embedder_model",
    HTTPStatus.REQUEST_TIMEOUT: "embedder_timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "embedder_input_too_long",
    HTTPStatus.TOO_MANY_REQUESTS: "embedder_rate_limit",
}
# Where a provider may say that an input is too long; 429 is OpenAI's for a request beyond the whole minute's tokens.
_LENGTH_STATUSES: Final = (400, 422, 429, 500)
# OpenAI, Azure, Ollama, llama.cpp, vLLM and text-embeddings-inference each say it in other words.
_TOO_LONG: Final = re.compile(
    r"max_tokens_per_request|(?:context|input|sequence)[ _](?:length|size|window)|too many tokens|request too large"
    r"|(?:input|prompt|text)s?\b.{0,60}\btoo (?:long|large)|must have less than \d+ tokens|tokens.{0,40}\bexceed"
    r"|exceed.{0,60}\btokens", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Service:
    """A configured provider; `secrets` never appear in what it is quoted with."""

    provider: str
    model: str
    endpoint: str
    timeout_s: float
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def clean(self, text: str) -> str:
        """Make words from outside safe to show."""
        return one_line(redact(text, self.secrets))

    def of_wire(self, error: WireError) -> Fault:
        """Judge a request that got no reply."""
        fields = {"provider": self.provider, "seconds": self.timeout_s, "endpoint": self.clean(self.endpoint),
                  "detail": self.clean(error.detail)}
        return Fault(_WIRE_CODES[error.trouble], fields, retries=_WIRE_RETRIES[error.trouble])

    def of_reply(self, reply: Reply, *, many: bool, narrowing: bool) -> Fault | None:
        """Judge a reply by its status; None for success. `many`: it was for several texts; `narrowing`: while bisecting."""
        status = reply.status
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return None
        detail = provider_detail(reply.body, self.secrets)
        pause = asked_pause(reply.headers)
        code = _code(status, detail)
        if code == "embedder_rate_limit" and pause is not None:
            detail = f"it asks to wait {pause:g} s; {detail}"
        elif status < HTTPStatus.BAD_REQUEST:
            target = self.clean(reply.headers.get("location", "nowhere"))
            detail = f"it redirects to {target}, and texts go to the configured endpoint only"
        fields = {"provider": self.provider, "model": self.model, "status": status, "detail": detail,
                  "seconds": self.timeout_s}
        return Fault(code, fields, retries=_retries(code, status, many=many, narrowing=narrowing), pause_s=pause,
                     split=_split(code, status))


def _code(status: int, detail: str) -> str:
    if status in _LENGTH_STATUSES and _TOO_LONG.search(detail):
        return "embedder_input_too_long"
    if status == HTTPStatus.TOO_MANY_REQUESTS and "insufficient_quota" in detail:
        return "embedder_rejected"  # an empty account does not fill up by waiting
    if status in _CODES:
        return _CODES[status]
    return "embedder_failed" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "embedder_rejected"


def _retries(code: str, status: int, *, many: bool, narrowing: bool) -> int | None:
    if code in ("embedder_rate_limit", "embedder_timeout"):
        return None
    if code != "embedder_failed":
        return 0
    if status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return None
    # 500 is what servers give for a text they choke on (R96). Once more for a passing fault, then narrowing finds the
    # text, and repeats only the last step.
    if narrowing:
        return 0 if many else 1
    return 1 if many else 3


def _split(code: str, status: int) -> Split:
    if code == "embedder_input_too_long":
        return "length"
    return "content" if code == "embedder_failed" and status == HTTPStatus.INTERNAL_SERVER_ERROR else "no"
