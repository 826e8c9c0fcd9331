"""Generators: an answer to a question from texts.

Importing this package loads no provider's client; `make_generator` loads what is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rag_stdlib.proof.generators.protocol import Generator, GeneratorIdentity
from rag_stdlib.proof.generators.settings import ChatSettings

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Embedder

__all__ = ["ChatSettings", "Generator", "GeneratorIdentity", "make_generator"]


def make_generator(settings: ChatSettings | Literal["extractive", "none"] = "extractive", *, embedder: Embedder | None = None) -> Generator:
    """Make a generator; nothing is opened yet.

    Args:
        settings: A chat model's; ``extractive`` needs none and copies sentences, ``none`` generates nothing and hands out the best text whole.
        embedder: What the extractive one compares by; without one, by words.

    Raises:
        Failure: `generator_key_missing` or `config_invalid` for settings that cannot work.
    """
    if settings == "extractive":
        from rag_stdlib.proof.generators.extractive import ExtractiveGenerator

        return ExtractiveGenerator(embedder=embedder)
    if settings == "none":
        from rag_stdlib.proof.generators.none import NoGenerator

        return NoGenerator()
    if settings.provider == "openai":
        from rag_stdlib.proof.generators.openai import OpenAIGenerator

        return OpenAIGenerator(settings)
    from rag_stdlib.proof.generators.ollama import OllamaGenerator

    return OllamaGenerator(settings)
