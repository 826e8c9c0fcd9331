"""Answers without a model: the sentences of the evidence that are nearest to the question, copied as they stand.

Only what can be read by itself is copied (`rag_stdlib.proof.units`), so that each sentence can be quoted. Where none is near, there is no answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib import values
from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof.generators.protocol import GeneratorIdentity
from rag_stdlib.proof.overlap import Weights, best, terms
from rag_stdlib.proof.recording import recorded
from rag_stdlib.proof.sentences import closes
from rag_stdlib.proof.units import form, units
from rag_stdlib.text.chunker import WHITE_SPACE

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Embedder

VERSION: Final = "1"
LEAST: Final = 0.5  # a sentence fits if it holds half of what the question is about, or points half its way
_LONGEST: Final = 1_000  # code points of a sentence; what is longer is no sentence, whatever its stops
_DECIMALS: Final = 6
_CLOSING: Final = "\"'\u201d\u2019)]}*_" + WHITE_SPACE


class ExtractiveGenerator:
    """Copies the best sentences: by the share of the question's words that a sentence holds, or by the cosine of embeddings."""

    def __init__(self, *, embedder: Embedder | None = None, most: int = 3) -> None:
        """Copy at most `most` sentences. With an embedder, embedding is a call that a session records.

        Raises:
            ValueError: `most` is below 1.
        """
        if most < 1:
            raise ValueError("most must be at least 1")
        self._embedder = embedder
        self._most = most

    @property
    def identity(self) -> GeneratorIdentity:
        """See `Generator.identity`; the digest is of the rules' version, how many sentences are copied, and the embedder."""
        embedder = self._embedder
        described = None if embedder is None else recorded("embedder", [], lambda: _described(embedder))
        parts = {"version": VERSION, "most": self._most, "embedder": described}
        return GeneratorIdentity("extractive", None, hashlib.sha256(b"rag-stdlib/generator/extractive\0" + canonical(parts)).hexdigest())

    def generate(self, question: str, texts: Sequence[str]) -> str:
        """See `Generator.generate`; sentences are paragraphs, the best one first. The failures are those of texts and of the embedder."""
        values.check_text("question", question, values.MAX_QUERY_BYTES)
        sentences = list({form(sentence): sentence for text in reversed(texts) for sentence in reversed(_sentences(text))}.values())[::-1]
        if not sentences or not question.strip():
            return ""
        embedder = self._embedder
        if embedder is None:
            return "\n\n".join(self._chosen(sentences, _by_words(question, sentences)))
        chosen: list[Any] = recorded("extract", [question, sentences, self._most],
                                     lambda: self._chosen(sentences, _by_vectors(embedder, question, sentences)))
        return "\n\n".join(chosen)

    def _chosen(self, sentences: Sequence[str], scores: Sequence[float]) -> list[str]:
        fitting: list[tuple[float, ...]] = [(score,) if score >= LEAST else (0.0,) for score in scores]
        return [sentences[place] for place in best(fitting, self._most)]


def _by_vectors(embedder: Embedder, question: str, sentences: Sequence[str]) -> list[float]:
    from rag_stdlib.embed.boundary import embedded

    asked = embedded(embedder, [question], "query")[0].astype("float64")
    rows = embedded(embedder, sentences, "passage").astype("float64")
    return [round(float(cosine), _DECIMALS) for cosine in rows @ asked]


def _described(embedder: Embedder) -> str:
    from rag_stdlib.embed.boundary import identified

    return identified(embedder).to_json()


def _by_words(question: str, sentences: Sequence[str]) -> list[float]:
    held = [terms(sentence) for sentence in sentences]
    weights, asked = Weights(held), terms(question)
    return [round(weights.held(asked, words), _DECIMALS) for words in held]


def _sentences(text: str) -> list[str]:
    """Return what can be copied of a text: statements that begin and end as sentences do, and can be read by themselves."""
    found: list[str] = []
    for unit in units(text):
        said = text[unit.start:unit.end]
        first = next((char for char in said if char.isalnum()), "")
        bare = said.rstrip(_CLOSING)
        if unit.alone and len(said) <= _LONGEST and first and not first.islower() and closes(said) and not bare.endswith(("?", "\uff1f", "\u061f")):
            found.append(said)
    return found
