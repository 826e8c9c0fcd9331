"""Answers from an Ollama server, by its official client."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.embed.batching import estimated_tokens
from rag_stdlib.embed.replies import BadReply
from rag_stdlib.embed.retry import Pacing
from rag_stdlib.proof.generators.prompt import Message
from rag_stdlib.proof.generators.remote import ChatGenerator, Said
from rag_stdlib.proof.generators.settings import ChatSettings

if TYPE_CHECKING:
    import httpx
    import ollama

_LEAST_CONTEXT: Final = 4_096  # tokens; the server's own default
_SEED: Final = 0


class OllamaGenerator(ChatGenerator["ollama.Client"]):
    """`POST {endpoint}/api/chat`, without streaming.

    The server cuts what does not fit its context, without a word, and from the front, where the rules stand. So a context is asked for that holds
    question, evidence and answer: a power of two, lest the model be loaded anew for each question.
    """

    def __init__(self, settings: ChatSettings, *, pacing: Pacing | None = None) -> None:
        """Take the key from `settings.api_key`, else from OLLAMA_API_KEY, which the client would send by itself."""
        super().__init__(settings, api_key=settings.api_key or os.environ.get("OLLAMA_API_KEY"), pacing=pacing)

    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> ollama.Client:
        import ollama

        headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return ollama.Client(host=self._settings.base_url, headers=headers, transport=transport, timeout=timeout, follow_redirects=False)

    def _post(self, client: ollama.Client, messages: list[Message]) -> None:
        asked = sum(len(message["content"].encode()) for message in messages)
        needed = estimated_tokens(asked) + self._settings.max_tokens
        options = {"temperature": 0, "seed": _SEED, "num_predict": self._settings.max_tokens,
                   "num_ctx": max(_LEAST_CONTEXT, 1 << (needed - 1).bit_length())}
        client.chat(model=self._settings.model_name, messages=messages, stream=False, options=options)

    def _said(self, payload: dict[str, Any]) -> Said:
        message = payload.get("message")
        if not isinstance(message, dict):
            raise BadReply("it has no message")
        return Said(message.get("content"), payload.get("done") is True and payload.get("done_reason") != "length")
