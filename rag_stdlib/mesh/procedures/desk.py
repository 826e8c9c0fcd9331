"""What all procedures of a provider work with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from rag_stdlib.index.snapshot import Snapshot
from rag_stdlib.mesh.procedures.corpuslist import CorpusList
from rag_stdlib.mesh.procedures.signing import Signer
from rag_stdlib.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Desk:
    """The runtime and the path of its one index that is served, the corpus list, and what signs."""

    runtime: Runtime
    index: str
    corpus_list: CorpusList
    signer: Signer

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Give a snapshot of the index, from which a whole reply is made.

        Raises:
            Failure: `index_missing`, `busy`, and every refusal of the file.
        """
        return self.runtime.store.snapshot(self.index)


def content_of(snapshot: Snapshot) -> dict[str, str]:
    """Give the digest of what the index held when a reply was made, as ``{"index_content": hex}``; nothing where it is not known."""
    content = snapshot.describe()["content"]
    return {"index_content": content} if content else {}
