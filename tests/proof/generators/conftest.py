"""The chat server, and generators that are closed again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
from chat_server import SENTENCE, generator, saying
from provider_server import ProviderServer, provider_server

from rag_stdlib.proof.generators.remote import ChatGenerator


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chat() -> Iterator[ProviderServer]:
    """A server that knows one sentence, until told otherwise."""
    with provider_server() as running:
        running.script = saying(SENTENCE)
        yield running


@pytest.fixture
def talker(chat: ProviderServer) -> Iterator[Callable[..., ChatGenerator[Any]]]:
    """Give a function that makes a generator for the server, as in `talker("openai", model="m")`."""
    made: list[ChatGenerator[Any]] = []

    def build(provider: str, **settings: Any) -> ChatGenerator[Any]:
        made.append(generator(chat, provider, **settings))
        return made[-1]

    yield build
    for each in made:
        each.close()
