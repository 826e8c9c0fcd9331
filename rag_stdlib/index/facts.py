"""What a search has to know of an index beforehand, looked up once for each state of the file."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.index import changes, schema, vectors
from rag_stdlib.index.sql import number


@dataclass(frozen=True, slots=True)
class Facts:
    """The state's mark (empty where there is none) and generation, whose vectors the index holds (None: none), and how much.

    `last` is the highest seq that was ever given.
    """

    mark: str
    generation: int
    embedder: EmbedderIdentity | None
    last: int
    chunks: int
    vectors: int

    @classmethod
    def of(cls, connection: apsw.Connection, before: Facts | None = None) -> Facts:
        """Look at a snapshot; what was true of the same index `before` saves counting what has not changed since."""
        mark, generation, last = (schema.get_fact(connection, key) for key in ("mark", "generation", "last_seq"))
        embedder = schema.stored_identity(connection)
        if not (isinstance(mark, str) and isinstance(generation, int) and isinstance(last, int)):
            return cls("", generation if isinstance(generation, int) else 0, embedder, 0,
                       number(connection, "SELECT count(*) FROM rag_chunks"), vectors.count(connection))
        counts = _counted_on(connection, before) if before is not None and before.embedder == embedder else None
        if counts is None:
            counts = number(connection, "SELECT count(*) FROM rag_chunks"), vectors.count(connection)
        return cls(mark, generation, embedder, last, *counts)


def _counted_on(connection: apsw.Connection, before: Facts) -> tuple[int, int] | None:
    """Count chunks and vectors from where they stood: what has come since has a higher seq. None where the journal does not say."""
    all_or_none = before.vectors in (0, before.chunks)  # else it is not known which of those that went had a vector
    steps = changes.since(connection, before.generation, before.mark) if all_or_none else None
    if steps is None:
        return None
    gone = sum(len(range(went.start, min(went.stop, before.last + 1))) for went, _ in steps)
    chunks = number(connection, "SELECT count(*) FROM rag_chunks WHERE seq > ?", (before.last,))
    held = number(connection, "SELECT count(*) FROM rag_vectors_rowids WHERE rowid > ?", (before.last,)) if before.embedder else 0
    return before.chunks - gone + chunks, (before.vectors - gone if before.vectors else 0) + held
