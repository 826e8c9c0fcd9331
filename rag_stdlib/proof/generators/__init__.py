"""Generators: an answer to a question from texts.

Importing this package loads no provider's client; `make_generator` loads what is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_stdlib.proof.generators.protocol import Generator, GeneratorIdentity
from rag_stdlib.proof.generators.settings import ChatSettings

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Embedder

__all__ = ["ChatSettings", "Generator", "GeneratorIdentity", "make_generator"]


def make_generator(settings: ChatSettings | None = None, *, embedder: Embedder | None = None) -> Generator:
    """Make the configured generator; the extractive one for None, which compares by `embedder` if there is one.

    Nothing is opened yet. Raises Failure `generator_key_missing` or `config_invalid` for settings that cannot work.
    """
    if settings is None:
        from rag_stdlib.proof.generators.extractive import ExtractiveGenerator

        return ExtractiveGenerator(embedder=embedder)
    if settings.provider == "openai":
        from rag_stdlib.proof.generators.openai import OpenAIGenerator

        return OpenAIGenerator(settings)
    from rag_stdlib.proof.generators.ollama import OllamaGenerator

    return OllamaGenerator(settings)
