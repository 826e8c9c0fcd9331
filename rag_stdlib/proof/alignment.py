"""Which parts of the retrieved texts a claim may rest on: always exact places, and always whatever has to be read with them.

A span is a unit of a text (`rag_stdlib.proof.units`), such as a sentence, together with what it stands under and what takes it back. A unit that the claim
repeats comes first; the others follow by how much of the claim's words they hold, or by the cosine of embeddings.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rag_stdlib.proof.overlap import Weights, best, terms
from rag_stdlib.proof.recording import recorded
from rag_stdlib.proof.units import Unit, form, units

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

    Embed = Callable[[Sequence[str]], Matrix]

MOST_SPANS: Final = 16  # of a claim in a certificate
_DECIMALS: Final = 6  # of a score, as certificates have them


class Aligned(NamedTuple):
    """A span: from `start` to `end`, in code points, of the text at place `item`; `score` from 0 to 1."""

    item: int
    start: int
    end: int
    score: float


class _Part(NamedTuple):
    item: int
    text: str
    unit: Unit

    def span(self) -> tuple[int, int]:
        """Return the stretch to read; one that begins with a small letter, as if it had been cut there, shows the mark of its item."""
        unit = self.unit
        start = unit.outer_start
        if start == unit.start and self.text[start].islower():
            start = unit.mark
        return start, unit.outer_end


def align(claim: str, texts: Sequence[str], *, embed: Embed | None = None, most: int = 3) -> list[Aligned]:
    """Return the spans of `texts` that are nearest to a claim, the best first: see `Aligner`."""
    return Aligner(texts, embed=embed).align(claim, most)


class Aligner:
    """Finds spans in some texts for one claim after another."""

    def __init__(self, texts: Sequence[str], *, embed: Embed | None = None) -> None:
        """Take the texts apart.

        Args:
            texts: Retrieved chunks, or the parts of them that hold whole units (`rag_stdlib.proof.units.whole_part`).
            embed: Makes unit vectors of non-blank texts, float32 of shape (texts, dimensions); without it words are compared.
        """
        self._parts = [_Part(item, text, unit) for item, text in enumerate(texts) for unit in units(text)]
        self._said = [part.text[part.unit.start:part.unit.end] for part in self._parts]
        self._forms = [form(said) for said in self._said]
        self._embed = embed
        self._words: tuple[list[frozenset[str]], Weights] | None = None
        self._vectors: Matrix | None = None
        self._texts = texts

    def align(self, claim: str, most: int = 3) -> list[Aligned]:
        """Return at most `most` spans (1 to 16) for a claim, the best first, none twice; none where nothing has to do with it.

        With `embed` this is a call that a session records.

        Raises:
            ValueError: `most` is out of range.
        """
        if not 1 <= most <= MOST_SPANS:
            raise ValueError(f"most is 1 to {MOST_SPANS}")
        if self._embed is None:
            return self._nearest(claim, most)
        named = [hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() for text in self._texts]
        found: list[Any] = recorded("align", [claim, named, most], lambda: [list(span) for span in self._nearest(claim, most)])
        return [Aligned(*span) for span in found]

    def _nearest(self, claim: str, most: int) -> list[Aligned]:
        wanted = [form(claim[unit.start:unit.end]) for unit in units(claim)]
        if not wanted or not self._parts:
            return []
        found = [(*self._stretch(at, len(wanted)), 1.0) for at in self._repeated(wanted, most)] if len(wanted) > 1 else []
        scores = self._scores(claim, wanted)
        found += [(self._parts[place].item, *self._parts[place].span(), scores[place][0]) for place in best(scores, most)]
        unique = dict.fromkeys((item, start, end) for item, start, end, _ in found)
        score = {(item, start, end): each for item, start, end, each in reversed(found)}
        return [Aligned(*span, score[span]) for span in unique][:most]

    def _scores(self, claim: str, wanted: list[str]) -> list[tuple[float, ...]]:
        """Score each unit: how near it is, whether the claim repeats it, whether it can be read alone, and how much of it is in the claim."""
        near, common = self._by_words(claim) if self._embed is None else self._by_vectors(self._embed, claim)
        repeats = [wanted == [each] for each in self._forms]
        return [(1.0 if same else score, same, part.unit.alone, shared)
                for score, same, part, shared in zip(near, repeats, self._parts, common, strict=True)]

    def _by_words(self, claim: str) -> tuple[list[float], list[float]]:
        if self._words is None:
            each = [terms(said) for said in self._said]
            self._words = each, Weights(each)
        held, weights = self._words
        asked = terms(claim)
        near = [round(weights.held(asked, words), _DECIMALS) for words in held]
        return near, [weights.common(asked, words) if score else 0.0 for score, words in zip(near, held, strict=True)]

    def _by_vectors(self, embed: Embed, claim: str) -> tuple[list[float], list[float]]:
        if self._vectors is None:
            self._vectors = embed(self._said)
        cosines = self._vectors.astype("float64") @ embed([claim])[0].astype("float64")
        near = [round(min(max(float(cosine), 0.0), 1.0), _DECIMALS) for cosine in cosines]
        return near, near

    def _repeated(self, wanted: list[str], most: int) -> list[int]:
        """Return where the units of a claim of several stand one after another."""
        joined, sought = "".join(f"\0{each}" for each in [*self._forms, ""]), "".join(f"\0{each}" for each in [*wanted, ""])
        begins = list(accumulate((len(each) + 1 for each in self._forms), initial=0))
        found: list[int] = []
        at = joined.find(sought)
        while at >= 0 and len(found) < most:
            first = bisect_right(begins, at) - 1
            if self._forms[first:first + len(wanted)] == wanted and self._parts[first].item == self._parts[first + len(wanted) - 1].item:
                found.append(first)
            at = joined.find(sought, at + 1)
        return found

    def _stretch(self, first: int, count: int) -> tuple[int, int, int]:
        run = self._parts[first:first + count]
        return run[0].item, min(part.span()[0] for part in run), max(part.span()[1] for part in run)

