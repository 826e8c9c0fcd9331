"""Answers over OpenAI's chat API, by its official client: OpenAI itself, or a server that speaks the same protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from rag_stdlib.embed.replies import BadReply
from rag_stdlib.embed.retry import Pacing
from rag_stdlib.errors import fail
from rag_stdlib.proof.generators.prompt import Message
from rag_stdlib.proof.generators.remote import ChatGenerator, Said
from rag_stdlib.proof.generators.settings import ChatSettings

if TYPE_CHECKING:
    import openai


class OpenAIGenerator(ChatGenerator["openai.OpenAI"]):
    """`POST {endpoint}/chat/completions`, without streaming. A model that refuses to answer abstains."""

    def __init__(self, settings: ChatSettings, *, pacing: Pacing | None = None) -> None:
        """Take the key from `settings.api_key`; without one the Failure is `generator_key_missing`."""
        super().__init__(settings, api_key=settings.api_key, pacing=pacing)
        if self._api_key is None:
            raise fail("generator_key_missing", provider="openai", variable="OPENAI_API_KEY")

    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> openai.OpenAI:
        import openai

        # Typed as Any: releases from 3.0 on are written for httpx2 and take httpx's client as well.
        http_client: Any = httpx.Client(transport=transport, timeout=timeout, follow_redirects=False)
        limits: Any = timeout
        return openai.OpenAI(api_key=self._api_key, base_url=self._settings.base_url, max_retries=0, timeout=limits, http_client=http_client)

    def _post(self, client: openai.OpenAI, messages: list[Message]) -> None:
        asked: Any = messages
        client.chat.completions.create(model=self._settings.model_name, messages=asked, temperature=0, max_tokens=self._settings.max_tokens)

    def _said(self, payload: dict[str, Any]) -> Said:
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise BadReply("it has no message")
        if isinstance(message.get("refusal"), str) and not message.get("content"):
            return Said("", is_whole=True)
        if choice.get("finish_reason") == "content_filter":
            raise BadReply("the provider's filter withheld it")
        return Said(message.get("content"), choice.get("finish_reason") != "length")
