"""A server that answers chats as OpenAI and Ollama do, and generators that talk to it and wait for nothing longer than they must."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "embed"))  # the server of the embedders' tests
from provider_server import Answer, Asked, ProviderServer

from rag_stdlib.embed.retry import Pacing
from rag_stdlib.proof.generators import ChatSettings
from rag_stdlib.proof.generators.ollama import OllamaGenerator
from rag_stdlib.proof.generators.openai import OpenAIGenerator
from rag_stdlib.proof.generators.remote import ChatGenerator

KEY = "sk-proj-TESTKEYTESTKEYTESTKEY"
QUICK = Pacing(base_s=0.01, cap_s=0.02)
QUESTION = "When are refunds paid?"
TEXTS = ["Refunds are paid within ten days. A receipt is needed.", "Goods are shipped at once."]
SENTENCE = "Refunds are paid within ten days."


def openai_chat(text: Any, **choice: Any) -> dict[str, Any]:
    """Build a sound reply of OpenAI's; `choice` changes its only choice."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}]}


def ollama_chat(text: Any, **reply: Any) -> dict[str, Any]:
    """Build a sound reply of Ollama's; `reply` changes it."""
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": text}, "done": True, "done_reason": "stop", **reply}


def saying(text: Any, **changes: Any) -> Callable[[Asked], Answer]:
    """Make a script that answers every chat with a text."""
    def script(asked: Asked) -> Answer:
        return Answer(body=(ollama_chat if asked.path.endswith("/api/chat") else openai_chat)(text, **changes))
    return script


def generator(server: ProviderServer, provider: str, **settings: Any) -> ChatGenerator[Any]:
    """Make a generator for the server."""
    given = {"timeout_s": 5.0, **settings}
    if provider == "openai":
        return OpenAIGenerator(ChatSettings("openai", **{"endpoint": f"{server.url}/v1", "api_key": KEY, **given}), pacing=QUICK)
    return OllamaGenerator(ChatSettings("ollama", **{"endpoint": server.url, **given}), pacing=QUICK)
