"""An embedder for tests: word hashing that counts what it is asked and fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.errors import fail

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix


class EmbedderDouble:
    """Counts calls and texts. `fail_after`: how many more texts go well. `before`: runs at the start of each call."""

    def __init__(self, dim: int = 32, model: str = "words-sha256", before: Callable[[Sequence[str]], None] | None = None) -> None:
        self._inner = HashingEmbedder(dim)
        self._identity = replace(self._inner.identity(), model=model)
        self.calls: list[tuple[Role, tuple[str, ...]]] = []
        self.fail_after: int | None = None
        self.before = before
        self.remote = False

    @property
    def texts(self) -> int:
        return sum(len(texts) for _, texts in self.calls)

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the dimension is known
        return self._identity

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        if self.before is not None:
            self.before(texts)
        if self.fail_after is not None:
            if len(texts) > self.fail_after:
                raise fail("embedder_failed", provider="double", status=500, where=f" on {texts[self.fail_after][:20]!r}",
                           detail="told to fail")
            self.fail_after -= len(texts)
        self.calls.append((role, tuple(texts)))
        return self._inner.embed(texts, role)
