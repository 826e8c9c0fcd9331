"""The signature that goes with a description: the provider's own, or one that its operator left in the index."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.contract import signedobject
from rag_stdlib.contract.corpus import LABEL, sign_corpus
from rag_stdlib.contract.nodekeys import PROFILES
from rag_stdlib.contract.signedobject import SignedObject

if TYPE_CHECKING:
    from rag_stdlib.contract.nodekeys import NodeKey

_MOST: Final = 16  # corpora: the present one, and those of answers that are still on their way


class Signer:
    """Signs each corpus hash once, since signing takes milliseconds. Safe to use from many threads."""

    def __init__(self, key: NodeKey | None = None) -> None:
        """Sign with `key`; without one, only signatures that are kept are handed out."""
        self.key = key
        self._lock = threading.Lock()
        self._fields: OrderedDict[tuple[str, bytes | None], dict[str, Any]] = OrderedDict()

    def fields(self, corpus_hash: str, kept: bytes | None) -> dict[str, Any]:
        """Return ``{"signature": bytes, "signed_by": hex}`` for a corpus, or nothing where nobody signed it.

        `kept` is the operator's signature; it counts where there is no key, and where it is whole.
        """
        if self.key is None and kept is None:
            return {}
        wanted = corpus_hash, None if self.key is not None else kept
        with self._lock:
            found = self._fields.get(wanted)
            if found is None:
                found = self._fields[wanted] = self._made(*wanted)
                if len(self._fields) > _MOST:
                    self._fields.popitem(last=False)
        return dict(found)

    def _made(self, corpus_hash: str, kept: bytes | None) -> dict[str, Any]:
        if self.key is not None:
            return {"signature": sign_corpus(corpus_hash, self.key), "signed_by": self.key.node_id}
        for profile in PROFILES:
            signed = signedobject.verify(LABEL, kept, profile)
            if isinstance(signed, SignedObject) and signed.fields.get("corpus_hash") == corpus_hash:
                return {"signature": kept, "signed_by": signed.node_id}
        return {}
