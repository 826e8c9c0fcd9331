"""What a user configures of a model that writes answers, and the defaults that fill the gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from rag_stdlib.proof.generators.prompt import Style

ChatProvider: TypeAlias = Literal["openai", "ollama"]

_MODELS: Final[dict[ChatProvider, str]] = {"openai": "gpt-4o-mini", "ollama": "llama3.2"}
_ENDPOINTS: Final[dict[ChatProvider, str]] = {"openai": "https://api.openai.com/v1", "ollama": "http://localhost:11434"}


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """One chat model as configured; None means the provider's default. A value outside its range is a ValueError.

    `timeout_s` bounds a whole answer, repeats of the request included. `max_tokens` and `max_chars` bound the answer's length: a longer one is refused,
    since half a sentence may say the contrary of the whole. `style` says whether the model copies sentences or writes its own. `api_key` is never shown.
    """

    provider: ChatProvider
    model: str | None = None
    endpoint: str | None = None
    timeout_s: float = 300.0
    max_tokens: int = 1_024
    max_chars: int = 20_000
    style: Style = "quote"
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Hold the ranges."""
        if self.provider not in _MODELS:
            raise ValueError(f"provider is one of {', '.join(_MODELS)}, not {self.provider!r}")
        if self.style not in get_args(Style):
            raise ValueError(f"style is one of {', '.join(get_args(Style))}, not {self.style!r}")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError("timeout_s must be a positive number of seconds")
        if self.max_tokens < 1 or self.max_chars < 1:
            raise ValueError("max_tokens and max_chars must be at least 1")

    @property
    def model_name(self) -> str:
        """The model, the provider's default where none is configured."""
        return self.model or _MODELS[self.provider]

    @property
    def base_url(self) -> str:
        """The endpoint without its trailing slash, the provider's default where none is configured."""
        return (self.endpoint or _ENDPOINTS[self.provider]).rstrip("/")
