"""Vectors for new files, kept in the index as they come, so that an interrupted sync embeds nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rag_stdlib.embed import boundary
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import corpuswrite
from rag_stdlib.index.corpuswrite import NewFile
from rag_stdlib.index.pipeline import OF_ONE_TEXT
from rag_stdlib.index.writer import SLICE, stored_identity
from rag_stdlib.result import RagError
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.embed import Embedder
    from rag_stdlib.embed.protocol import EmbedderIdentity

Fail = Callable[[str, RagError], None]
_SOURCE: Final = 1  # the place of a document's source in its row


@dataclass(slots=True)
class Stager:
    """Embeds what the documents of one repository need. `went` are documents whose vectors may serve again; `fail` is told of files."""

    runtime: Runtime
    index: str
    went: Sequence[str]
    fail: Fail
    embedded: int = 0
    _embedder: Embedder | None = field(init=False)
    _lendable: dict[str, int] | None = None

    def __post_init__(self) -> None:
        """Refuse an embedder whose vectors the index could not hold beside its own.

        Raises:
            Failure: `embedding_mismatch`, and what the embedder's identity raises.
        """
        self._embedder = self.runtime.embedder
        if self._embedder is None:
            return
        stored, given = stored_identity(self.runtime.store, self.index), self.identity
        if stored is not None and given is not None and stored != given:
            raise fail("embedding_mismatch", path=self.index, stored=stored.describe(), given=given.describe())

    @property
    def identity(self) -> EmbedderIdentity | None:
        """The embedder's identity; None where none is configured, and nothing is embedded."""
        if self._embedder is None:
            return None
        return boundary.identified(self._embedder, stored_identity(self.runtime.store, self.index))

    def staged(self, group: Sequence[NewFile]) -> list[NewFile]:
        """See to it that every text of some files has a staged vector; return the files that have, and tell of the others.

        Raises:
            Failure: of the embedder, where it is not about one text.
        """
        if self._embedder is None:
            return list(group)
        try:
            self._stage(group)
        except Failure as failure:
            if failure.error.code not in OF_ONE_TEXT:
                raise
            return [file for file in group if self._is_staged_alone(file)]
        return list(group)

    def _is_staged_alone(self, file: NewFile) -> bool:
        try:
            self._stage([file])
        except Failure as failure:
            if failure.error.code not in OF_ONE_TEXT:
                raise
            self.fail(str(file.prepared.row[_SOURCE]), failure.error)
            return False
        return True

    def _stage(self, group: Sequence[NewFile]) -> None:
        store, identity, embedder = self.runtime.store, self.identity, self._embedder
        texts = {digest: text for file in group for digest, text in file.prepared.texts.items()}
        if not texts or identity is None or embedder is None:
            return
        missing = corpuswrite.missing_vectors(store, self.index, identity, texts)
        if self._lendable is None:
            self._lendable = corpuswrite.lendable(store, self.index, identity, self.went) if self.went else {}
        shared = {digest: self._lendable[digest] for digest in missing if digest in self._lendable}
        if shared:
            lent = corpuswrite.lent(store, self.index, identity, shared)
            corpuswrite.stage(store, self.index, identity, list(lent), list(lent.values()))
            missing -= lent.keys()
        due = [digest for digest in texts if digest in missing]
        for start in range(0, len(due), SLICE):
            some = due[start:start + SLICE]
            rows = boundary.embedded(embedder, [texts[digest] for digest in some], "passage")
            corpuswrite.stage(store, self.index, boundary.identified(embedder), some, rows)
            self.embedded += len(some)
