"""The server, and embedders that talk to it and wait for nothing longer than they must."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
from provider_server import ProviderServer, provider_server

from rag_stdlib.embed import EmbedderSettings
from rag_stdlib.embed.ollama import OllamaEmbedder
from rag_stdlib.embed.openai import OpenAIEmbedder
from rag_stdlib.embed.retry import Pacing

KEY = "sk-proj-TESTKEYTESTKEYTESTKEY"
QUICK = Pacing(base_s=0.01, cap_s=0.02)


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
                 "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as running:
        yield running


@pytest.fixture
def make(server: ProviderServer) -> Iterator[Callable[..., Any]]:
    """Give a function that makes an embedder for the server, as in `make("openai", dim=4)`."""
    made: list[OpenAIEmbedder | OllamaEmbedder] = []

    def build(provider: str, **settings: Any) -> OpenAIEmbedder | OllamaEmbedder:
        pacing = settings.pop("pacing", QUICK)
        settings.setdefault("timeout_s", 5.0)
        if provider == "openai":
            settings = {"endpoint": f"{server.url}/v1", "api_key": KEY, **settings}
            made.append(OpenAIEmbedder(EmbedderSettings("openai", **settings), pacing=pacing))
        else:
            settings = {"endpoint": server.url, **settings}
            made.append(OllamaEmbedder(EmbedderSettings("ollama", **settings), pacing=pacing))
        return made[-1]

    yield build
    for embedder in made:
        embedder.close()
