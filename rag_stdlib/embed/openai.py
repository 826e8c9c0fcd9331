"""Embeddings over OpenAI's API, by its official client: OpenAI itself, or a server that speaks the same protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx

from rag_stdlib.embed.remote import RemoteEmbedder
from rag_stdlib.embed.replies import by_index, vector_list
from rag_stdlib.embed.retry import Pacing
from rag_stdlib.embed.settings import EmbedderSettings
from rag_stdlib.errors import fail

if TYPE_CHECKING:
    import openai


class OpenAIEmbedder(RemoteEmbedder["openai.OpenAI"]):
    """`POST {endpoint}/embeddings`; vectors are asked for as base64 and accepted as number lists too (R101).

    std/rag reads `endpoint` for Ollama only; here it serves OpenAI-compatible servers as well. `dimensions` is sent
    only when `dim` is configured, as older models refuse it.
    """

    def __init__(self, settings: EmbedderSettings, *, pacing: Pacing | None = None) -> None:
        """Take the key from `settings.api_key`; without one the Failure is `key_missing`."""
        super().__init__(settings, api_key=settings.api_key, pacing=pacing)
        if self._api_key is None:
            raise fail("key_missing", provider="openai", variable="OPENAI_API_KEY")

    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> openai.OpenAI:
        import openai

        # Typed as Any: releases from 3.0 on are written for httpx2 and take httpx's client as well.
        http_client: Any = httpx.Client(transport=transport, timeout=timeout, follow_redirects=False)
        limits: Any = timeout
        return openai.OpenAI(api_key=self._api_key, base_url=self._settings.base_url, max_retries=0, timeout=limits,
                             http_client=http_client)

    def _post(self, client: openai.OpenAI, texts: list[str]) -> None:
        dimensions: dict[str, Any] = {} if self._settings.dim is None else {"dimensions": self._settings.dim}
        client.embeddings.create(model=self._settings.model_name, input=texts, encoding_format="base64", **dimensions)

    def _vectors(self, payload: dict[str, Any], asked: int) -> Sequence[Any]:
        return by_index(vector_list(payload, "data"), asked)
