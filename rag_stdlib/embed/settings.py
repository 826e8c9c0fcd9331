"""What a user configures of an embedder, and the defaults that fill the gaps.

The defaults of model and endpoint are std/rag's (section 1.10). Prefixes are part of an embedder's identity: vectors
made with other prefixes are not comparable (R194). Of the default models only `nomic-embed-text` was trained with
prefixes; its own are used when the user sets neither of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from rag_stdlib.records import Provider

LOCAL_MODEL: Final = "all-MiniLM-L6-v2-int8"
MAX_BATCH: Final = 2048

_MODELS: Final[dict[Provider, str]] = {
    "openai": "text-embedding-3-small",
    "ollama": "nomic-embed-text",
    "local": LOCAL_MODEL,
}
_ENDPOINTS: Final[dict[Provider, str]] = {
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434",
    "local": "",
}
# Ollama works through a request's texts a few at a time, so smaller requests lose nothing and stay inside the deadline.
_BATCHES: Final[dict[Provider, int]] = {"openai": MAX_BATCH, "ollama": 64, "local": MAX_BATCH}
_NOMIC_PREFIXES: Final = ("search_query: ", "search_document: ")


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """One embedder as configured. `None` and empty prefixes mean: the default; `timeout_s` bounds a whole embed() call.

    `dim` is what every vector must have; a provider that can shorten its vectors is asked to. `endpoint` is a base URL,
    for OpenAI-compatible servers too. `api_key` is never shown. A value outside its range is a ValueError.
    """

    provider: Provider
    model: str | None = None
    endpoint: str | None = None
    dim: int | None = None
    timeout_s: float = 60.0
    max_batch: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Hold the ranges."""
        if self.provider not in _MODELS:
            raise ValueError(f"provider is one of {', '.join(_MODELS)}, not {self.provider!r}")
        if self.dim is not None and self.dim < 1:
            raise ValueError("dim must be at least 1")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError("timeout_s must be a positive number of seconds")
        if self.max_batch is not None and not 1 <= self.max_batch <= MAX_BATCH:
            raise ValueError(f"max_batch must be 1 to {MAX_BATCH}")

    @property
    def model_name(self) -> str:
        """The model, the provider's default where none is configured."""
        return self.model or _MODELS[self.provider]

    @property
    def base_url(self) -> str:
        """The endpoint without its trailing slash, the provider's default where none is configured."""
        return (self.endpoint or _ENDPOINTS[self.provider]).rstrip("/")

    @property
    def batch_count(self) -> int:
        """How many texts one request holds at most."""
        return self.max_batch or _BATCHES[self.provider]

    @property
    def prefixes(self) -> tuple[str, str]:
        """What goes before a query and before a passage."""
        if self.query_prefix or self.passage_prefix:
            return self.query_prefix, self.passage_prefix
        # Model names look like `nomic-embed-text`, `nomic-embed-text:v1.5` or `someone/nomic-embed-text-v2-moe`.
        family = self.model_name.rpartition("/")[2].partition(":")[0]
        if self.provider == "ollama" and family.startswith("nomic-embed-text"):
            return _NOMIC_PREFIXES
        return "", ""
