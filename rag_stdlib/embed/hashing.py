"""A deterministic embedder without a model, for tests and examples: words hashed into a few signed counters.

It is handed to a Runtime directly and cannot be selected in corvid.toml: it knows words, not meanings. Components are
small integers before they are brought to unit length, so that every sum is exact on every machine (R217).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rag_stdlib.embed.announce import announced
from rag_stdlib.embed.inputs import prepare
from rag_stdlib.embed.protocol import EmbedderIdentity, Role

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

_WORD: Final = re.compile(r"\w+")


class HashingEmbedder:
    """Feature hashing: each lowercased word adds +1 or -1 to one of `dim` counters, both taken from its SHA-256."""

    def __init__(self, dim: int = 64) -> None:
        """Use `dim` counters (at least 1)."""
        if dim < 1:
            raise ValueError("dim must be at least 1")
        self._dim = dim

    @property
    def remote(self) -> bool:
        """Texts stay in this process."""
        return False

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the dimension is known
        """See `Embedder.identity`."""
        return EmbedderIdentity("hashing", "words-sha256", self._dim)

    @announced(lambda _self: "hashing/words-sha256")
    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """See `Embedder.embed`."""
        import numpy as np

        counts = np.array([self.counts(text) for text in prepare(texts, role, ("", ""))], dtype=np.float64)
        counts = counts.reshape(-1, self._dim)
        rows: Matrix = (counts / np.sqrt((counts * counts).sum(axis=1, keepdims=True))).astype(np.float32)
        return rows

    def counts(self, text: str) -> list[int]:
        """Return the counters before normalisation: small integers, not all zero."""
        counts = [0] * self._dim
        for word in _WORD.findall(text.lower()):
            self._add(counts, word)
        if not any(counts):  # no words, or words that cancel each other: the text as a whole is the one feature
            self._add(counts, text)
        return counts

    def _add(self, counts: list[int], feature: str) -> None:
        digest = hashlib.sha256(feature.encode()).digest()
        counts[int.from_bytes(digest[:8], "little") % self._dim] += 1 if digest[8] & 1 else -1
