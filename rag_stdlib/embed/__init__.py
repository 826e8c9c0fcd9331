"""Embedders: texts to unit vectors, with an identity that is compared whole.

Importing this package loads neither numpy nor a provider's client; `make_embedder` loads what the settings name.
"""

from __future__ import annotations

from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity, Role
from rag_stdlib.embed.settings import EmbedderSettings

__all__ = ["Embedder", "EmbedderIdentity", "EmbedderSettings", "Role", "make_embedder"]


def make_embedder(settings: EmbedderSettings | None) -> Embedder | None:
    """Make the configured embedder; None for None, which means lexical search.

    Nothing is opened yet. Raises Failure `key_missing` or `config_invalid` for settings that cannot work.
    """
    if settings is None:
        return None
    if settings.provider == "openai":
        from rag_stdlib.embed.openai import OpenAIEmbedder

        return OpenAIEmbedder(settings)
    if settings.provider == "ollama":
        from rag_stdlib.embed.ollama import OllamaEmbedder

        return OllamaEmbedder(settings)
    from rag_stdlib.embed.local import LocalEmbedder

    return LocalEmbedder(settings)
