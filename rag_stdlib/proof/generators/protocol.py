"""What a generator is: it writes an answer to a question from texts, or none, and is named by what it writes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GeneratorIdentity:
    """A generator: its name, the model if it has one, and a digest (hex of a SHA-256) of how it is asked or works."""

    name: str
    model: str | None
    digest: str


class Generator(Protocol):
    """The seam every generator implements; instances are safe to call from several threads."""

    @property
    def identity(self) -> GeneratorIdentity:
        """Say what generates."""

    def generate(self, question: str, texts: Sequence[str]) -> str:
        """Answer a question from texts; empty where they do not answer it.

        Raises:
            Failure: a ``generator_*`` code of a model's server, or that of a text that is no text; nothing else.
        """
