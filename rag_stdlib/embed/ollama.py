"""Embeddings from an Ollama server, by its official client.

Ollama's reply has no index: vectors stand in the order of the texts, and only their number can be checked on each call.
`rag_stdlib.embed.verify` checks the order by embedding texts again (R100).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag_stdlib.embed.remote import RemoteEmbedder
from rag_stdlib.embed.replies import vector_list
from rag_stdlib.embed.retry import Pacing
from rag_stdlib.embed.settings import EmbedderSettings

if TYPE_CHECKING:
    import httpx
    import ollama


class OllamaEmbedder(RemoteEmbedder["ollama.Client"]):
    """`POST {endpoint}/api/embed` with `truncate: false`: a text too long for the model is refused, never cut (R94).

    `dimensions` is sent when `dim` is configured. A key is sent as a bearer token, for servers behind a gateway.
    """

    def __init__(self, settings: EmbedderSettings, *, pacing: Pacing | None = None) -> None:
        """Take the key from `settings.api_key`, else from OLLAMA_API_KEY, which the client would send by itself."""
        super().__init__(settings, api_key=settings.api_key or os.environ.get("OLLAMA_API_KEY"), pacing=pacing)

    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> ollama.Client:
        import ollama

        headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return ollama.Client(host=self._settings.base_url, headers=headers, transport=transport, timeout=timeout,
                             follow_redirects=False)

    def _post(self, client: ollama.Client, texts: list[str]) -> None:
        dimensions: dict[str, Any] = {} if self._settings.dim is None else {"dimensions": self._settings.dim}
        client.embed(model=self._settings.model_name, input=texts, truncate=False, **dimensions)

    def _vectors(self, payload: dict[str, Any], asked: int) -> Sequence[Any]:  # noqa: ARG002 - no index to order by
        if "embeddings" not in payload and "embedding" in payload:
            return [payload["embedding"]]
        return vector_list(payload, "embeddings")
