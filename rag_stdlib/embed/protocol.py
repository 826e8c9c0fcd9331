"""What an embedder is: a role-aware function from texts to unit vectors, and an identity that is compared whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix: TypeAlias = npt.NDArray[np.float32]

Role: TypeAlias = Literal["query", "passage"]


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Everything that makes two vectors comparable. Stored in the index and compared as a whole.

    `revision` tells apart weights that share a model name (a file digest, a provider's version; empty when unknown).
    Vectors are always stored at unit length, so normalisation is not part of the identity.
    """

    provider: str
    model: str
    dim: int
    revision: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""

    def to_json(self) -> str:
        """Encode with sorted keys, as it is stored."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> EmbedderIdentity:
        """Decode what `to_json` wrote."""
        return cls(**json.loads(text))

    def describe(self) -> str:
        """Name the embedder for a message: provider/model, dimension, then what else sets it apart."""
        parts = [f"{self.provider}/{self.model}, {self.dim} dimensions"]
        if self.revision:
            parts.append(f"revision {self.revision[:12]}")
        parts += [f"{name} {value!r}" for name, value in (("query prefix", self.query_prefix),
                                                          ("passage prefix", self.passage_prefix)) if value]
        return ", ".join(parts)


class Embedder(Protocol):
    """The seam every embedder implements; instances are safe to call from several threads."""

    @property
    def remote(self) -> bool:
        """Whether texts leave the machine."""

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:
        """Say what makes these vectors comparable; may embed one probe text to learn the dimension, once.

        `stored` is an index's: where nothing but the dimension is still unknown, that index's is taken on trust, so that no
        text has to be sent for it; the next reply that embeds one shows the true dimension.
        """

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """Embed non-blank texts: float32 of shape (len(texts), dim), every row finite and of unit length.

        Raises `rag_stdlib.errors.Failure` with an `embedder_*` code; nothing else.
        """
