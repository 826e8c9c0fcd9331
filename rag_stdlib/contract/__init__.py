"""What anyone can check of corpora, hits and answers, without input or output: the RAG service contract (docs/contract.md).

A name loads its module when it is first used, so that importing this package, as `import rag_stdlib` does, costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rag_stdlib.contract.answers import (
        Answer,
        CheckedHit,
        RefusedAnswer,
        SignedAnswer,
        StoredAnswer,
        UnsignedAnswer,
        check_answer,
    )
    from rag_stdlib.contract.corpus import (
        Corpus,
        MalformedDescription,
        Repo,
        corpus_hash,
        described,
        sign_corpus,
        verify_corpus,
    )
    from rag_stdlib.contract.hits import hit_in_corpus, valid_provenance, verify_hit
    from rag_stdlib.contract.jsonform import JsonFormError
    from rag_stdlib.contract.nodekeys import NodeKey, Profile
    from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused, Signed, Unsigned

__all__ = [
    "Answer",
    "CheckedHit",
    "Corpus",
    "HitVerdict",
    "JsonFormError",
    "MalformedDescription",
    "Membership",
    "NodeKey",
    "Profile",
    "Refused",
    "RefusedAnswer",
    "Repo",
    "Signed",
    "SignedAnswer",
    "StoredAnswer",
    "Unsigned",
    "UnsignedAnswer",
    "check_answer",
    "corpus_hash",
    "described",
    "hit_in_corpus",
    "sign_corpus",
    "valid_provenance",
    "verify_corpus",
    "verify_hit",
]

_HOMES: Final = {
    "answers": ("Answer", "CheckedHit", "RefusedAnswer", "SignedAnswer", "StoredAnswer", "UnsignedAnswer", "check_answer"),
    "corpus": ("Corpus", "MalformedDescription", "Repo", "corpus_hash", "described", "sign_corpus", "verify_corpus"),
    "hits": ("hit_in_corpus", "valid_provenance", "verify_hit"),
    "jsonform": ("JsonFormError",),
    "nodekeys": ("NodeKey", "Profile"),
    "verdicts": ("HitVerdict", "Membership", "Refused", "Signed", "Unsigned"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
