"""Who raises the audit event of texts about to be embedded.

Embedders of this package do so themselves, whoever calls them; for a program's own, the boundary between index and embedder does.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rag_stdlib import audit
from rag_stdlib.embed.protocol import Embedder, Role

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

    Embed = Callable[["E", Sequence[str], Role], Matrix]

E = TypeVar("E")
_MARK: Final = "__announces__"


def announced(name: Callable[[Any], str]) -> Callable[[Embed[E]], Embed[E]]:
    """Have an `embed` method raise the event before it begins; `name` says of the embedder whose model it is."""

    def decorate(embed: Embed[E]) -> Embed[E]:
        @functools.wraps(embed)
        def announcing(self: E, texts: Sequence[str], role: Role) -> Matrix:
            if texts:
                sys.audit(audit.EMBED, name(self), len(texts))
            return embed(self, texts, role)

        setattr(announcing, _MARK, True)
        return announcing

    return decorate


def announce(embedder: Embedder, texts: Sequence[str]) -> None:
    """Raise the event for an embedder that does not do so itself."""
    if texts and not getattr(getattr(embedder, "embed", None), _MARK, False):
        sys.audit(audit.EMBED, type(embedder).__name__, len(texts))
