"""What the generators over HTTP share: one question as one recorded call, its deadline and repeats, and the judgement on what comes back."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import httpx

from rag_stdlib import values
from rag_stdlib.contract.jcs import canonical
from rag_stdlib.embed.faults import Fault
from rag_stdlib.embed.process import PerProcess
from rag_stdlib.embed.replies import BadReply, json_object
from rag_stdlib.embed.retry import Deadline, Pacing
from rag_stdlib.embed.service import Service
from rag_stdlib.embed.wire import CONNECT_S, Line, Reply, WireError
from rag_stdlib.errors import Failure, fail
from rag_stdlib.proof.generators import prompt
from rag_stdlib.proof.generators.prompt import Message
from rag_stdlib.proof.generators.protocol import GeneratorIdentity
from rag_stdlib.proof.generators.settings import ChatSettings
from rag_stdlib.proof.recording import recorded

C = TypeVar("C")
_TEMPERATURE: Final = 0
# The judgement on HTTP replies is that of the embedders' service; these are its codes, and ours for the same.
_CODES: Final = {
    "embedder_auth": "generator_auth", "embedder_failed": "generator_failed", "embedder_input_too_long": "generator_input_too_long",
    "embedder_model": "generator_model", "embedder_rate_limit": "generator_rate_limit", "embedder_rejected": "generator_rejected",
    "embedder_reply": "generator_reply", "embedder_timeout": "generator_timeout", "embedder_unreachable": "generator_unreachable"}


class Said(NamedTuple):
    """What a model wrote, and whether it came to its end."""

    text: object
    is_whole: bool


class ChatGenerator(ABC, Generic[C]):
    """A chat model behind an HTTP endpoint; a provider supplies its official client, a request and where the text stands.

    Safe from several threads and after a fork. All of one generate() call ends within `timeout_s`.
    """

    def __init__(self, settings: ChatSettings, *, api_key: str | None, pacing: Pacing | None = None) -> None:
        """Keep the settings; nothing is imported or opened. A Failure `config_invalid` for an unusable endpoint or key."""
        self._settings = settings
        self._api_key = _header_safe(api_key, settings.provider)
        _check_endpoint(settings.base_url)
        self._pacing = pacing or Pacing()
        self._service = Service(settings.provider, settings.model_name, settings.base_url, settings.timeout_s,
                                (self._api_key,) if self._api_key else ())
        self._connected: PerProcess[tuple[Line, C]] = PerProcess(self._connect)

    @abstractmethod
    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> C:
        """Make the provider's client, without retries of its own, over this transport."""

    @abstractmethod
    def _post(self, client: C, messages: list[Message]) -> None:
        """Send the one request that asks the model, at temperature 0."""

    @abstractmethod
    def _said(self, payload: dict[str, Any]) -> Said:
        """Take what the model wrote from the reply; raises BadReply."""

    @property
    def identity(self) -> GeneratorIdentity:
        """See `Generator.identity`; the digest is of model, prompt, style, temperature and length, and not of where the model runs."""
        settings = self._settings
        parts = {"provider": settings.provider, "model": settings.model_name, "prompt": prompt.digest(settings.style), "temperature": _TEMPERATURE,
                 "max_tokens": settings.max_tokens, "max_chars": settings.max_chars}
        return GeneratorIdentity(settings.provider, settings.model_name, hashlib.sha256(b"rag-stdlib/generator/v1\0" + canonical(parts)).hexdigest())

    def generate(self, question: str, texts: Sequence[str]) -> str:
        """See `Generator.generate`; where there is no evidence, no model is asked. A session records the call."""
        values.check_text("question", question, values.MAX_QUERY_BYTES)
        evidence = [text for text in texts if text.strip()]
        for text in evidence:
            values.check_text("the evidence", text)
        if not evidence or not question.strip():
            return ""
        settings = self._settings
        messages = prompt.messages(question, evidence, settings.style)
        asked = {"provider": settings.provider, "model": settings.model_name, "messages": messages, "temperature": _TEMPERATURE,
                 "max_tokens": settings.max_tokens}
        return prompt.answer_of(recorded("chat", [asked], lambda: self._asked(messages), kind="llm"))

    def close(self) -> None:
        """Close the connections of this process; a later call opens new ones."""
        connected = self._connected.take()
        if connected is not None:
            connected[0].transport.close()

    def _asked(self, messages: list[Message]) -> str:
        outcome = Deadline(self._settings.timeout_s, self._pacing).run(lambda seconds: self._request(messages, seconds))
        if isinstance(outcome, Fault):
            raise fail(_CODES[outcome.code], **outcome.fields)
        try:
            said = self._said(json_object(outcome.body))
        except BadReply as bad:
            raise self._unusable(bad.detail) from None
        return self._text(said)

    def _text(self, said: Said) -> str:
        text, settings = said.text, self._settings
        if not isinstance(text, str):
            raise self._unusable("it holds no text")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._unusable("its text holds a lone surrogate") from None
        if not said.is_whole:
            raise self._unusable(f"it was cut off; more than the {settings.max_tokens:,} tokens of max_tokens may be needed")
        if len(text) > settings.max_chars:
            raise self._unusable(f"it has {len(text):,} characters, and max_chars is {settings.max_chars:,}")
        return text

    def _unusable(self, detail: str) -> Failure:
        return fail("generator_reply", provider=self._settings.provider, detail=self._service.clean(detail))

    def _connect(self) -> tuple[Line, C]:
        line = Line(self._settings.base_url)
        timeout = httpx.Timeout(self._settings.timeout_s, connect=min(CONNECT_S, self._settings.timeout_s))
        return line, self._client(line.transport, timeout)

    def _request(self, messages: list[Message], seconds: float) -> Reply | Fault:
        try:
            line, client = self._connected.get()
            reply = line.exchange(lambda: self._post(client, messages), seconds)
        except WireError as error:
            return self._service.of_wire(error)
        return self._service.of_reply(reply, many=False, narrowing=False) or reply


def _header_safe(api_key: str | None, provider: str) -> str | None:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise fail("config_invalid", where=f"the API key of {provider}", detail="it holds characters that no HTTP header carries")
    return key or None


def _check_endpoint(endpoint: str) -> None:
    try:
        url = httpx.URL(endpoint)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise fail("config_invalid", where="the generator's endpoint", detail="it must start with http:// or https:// and name a host")
