"""From the library's failures to what a caller on the mesh is told: the contract's name, and words only about what the caller sent.

The other messages would name files, models and servers of this machine to strangers. They go to the log instead.
"""

from __future__ import annotations

import logging
from typing import Final

from rag_stdlib.errors import Failure
from rag_stdlib.mesh.errors import Refusal

_LOG: Final = logging.getLogger("rag_stdlib")

# RAG service contract §1.6; an index that is not there yet, or that another process writes, will answer later.
_NAMES: Final = {"index_missing": "store_opening", "busy": "store_opening", "embedder_unconfigured": "no_embed_model",
                 "mode_needs_embedder": "no_embed_model"}
_ABOUT_THE_CALL: Final = frozenset({"corpus_document", "invalid_doc_id", "invalid_metadata", "invalid_option", "invalid_text", "text_nul",
                                    "text_too_large", "too_many_chunks", "zero_query_vector"})


def refused(procedure: str, failure: Failure) -> Refusal:
    """Make the refusal that stands for a failure of `procedure`; other codes than the contract's keep their own names."""
    code = failure.error.code
    if code in _ABOUT_THE_CALL:
        return Refusal(code, str(failure.error))
    name = _NAMES.get(code, code)
    _LOG.log(logging.INFO if name == "store_opening" else logging.WARNING, "%s was refused: %s", procedure, failure.error)
    return Refusal(name)
