"""No generator: the answer is the best passage that was retrieved, as it is. It shows in an ablation what generating adds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from rag_stdlib import values
from rag_stdlib.proof.decisions import is_loose
from rag_stdlib.proof.generators.protocol import GeneratorIdentity

VERSION: Final = "1"


class NoGenerator:
    """Hands out the first text that says anything: all of its sentences, whatever was asked."""

    @property
    def identity(self) -> GeneratorIdentity:
        """See `Generator.identity`."""
        return GeneratorIdentity("none", None, hashlib.sha256(f"rag-stdlib/generator/none/{VERSION}".encode()).hexdigest())

    def generate(self, question: str, texts: Sequence[str]) -> str:
        """See `Generator.generate`; the failures are those of a question that is no text."""
        values.check_text("question", question, values.MAX_QUERY_BYTES)
        return next(filter(is_loose, texts), "")
