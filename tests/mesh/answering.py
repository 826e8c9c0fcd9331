"""What the tests of description and answer share."""

from __future__ import annotations

from typing import Any

from embedder_double import EmbedderDouble
from serving import DIM

from rag_stdlib.mesh.provider import Provider


def describe(provider: Provider) -> dict[str, Any]:
    description: Any = provider.handle("describe_corpus", None)
    return description


def vector_of(text: str) -> list[float]:
    numbers: list[float] = EmbedderDouble(DIM).embed([text], "query")[0].tolist()
    return numbers
