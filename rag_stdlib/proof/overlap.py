"""How much of one text's words stands in another: the terms of the lexical index, without the words that only join others.

Terms are weighed by how few of the texts at hand hold them. Weights are quotients and are summed in one order, so that scores are the same to
the last bit on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rag_stdlib.text.normalize import index_terms

# English words of the closed classes: articles, pronouns, prepositions, conjunctions, auxiliaries, and what asks.
_JOINING_WORDS: Final = """
    a about above across after again against all also am among an and any are around as at be because been before being below between both but by can could d
    did do does doing down during each either every few for from further get gets give given gives had has have having he her here hers herself him himself
    his how however i if in into is it its itself just know let ll many may me might mine more most much must my myself neither no nor not of off on once one
    only onto or other our ours ourselves out over own per please re s same say says shall she should so some such t tell than that the their theirs them
    themselves then there these they this those through thus to too toward towards under until up upon us use used ve very via was we were what whatever
    when where whether which while who whom whose why will with within without would you your yours yourself yourselves"""
JOINING: Final = frozenset(_JOINING_WORDS.split())


def terms(text: str) -> frozenset[str]:
    """Return the terms of a text that say what it is about, English plurals as singulars; all of them where there are no such."""
    found = frozenset(index_terms(text).split())
    telling = frozenset(_singular(term) for term in found if term not in JOINING)
    return telling or found


def _singular(term: str) -> str:
    """Take the plural's ending off (Harman's S-stemmer, 1991)."""
    if term.endswith("ies") and not term.endswith(("eies", "aies")):
        return f"{term[:-3]}y"
    if term.endswith("es") and not term.endswith(("aes", "ees", "oes")):
        return term[:-1]
    return term[:-1] if term.endswith("s") and not term.endswith(("us", "ss")) else term


class Weights:
    """What each term weighs among some texts: one over the number of them that hold it, and one where none does."""

    def __init__(self, texts: Iterable[AbstractSet[str]]) -> None:
        """Count."""
        self._counts = Counter(term for text in texts for term in text)

    def held(self, asked: AbstractSet[str], text: AbstractSet[str]) -> float:
        """Return the share of `asked`, by weight, that `text` holds: 0 to 1."""
        whole = self._sum(asked)
        return self._sum(asked & text) / whole if whole else 0.0

    def common(self, one: AbstractSet[str], other: AbstractSet[str]) -> float:
        """Return the share of what either holds, by weight, that both do: 0 to 1."""
        whole = self._sum(one | other)
        return self._sum(one & other) / whole if whole else 0.0

    def _sum(self, some: AbstractSet[str]) -> float:
        return sum(sorted(1 / max(self._counts[term], 1) for term in some))


def best(scores: Sequence[tuple[float, ...]], most: int) -> list[int]:
    """Return the places of the highest scores, highest first and the earlier first of equal ones, without those that begin with zero."""
    places = [place for place, score in enumerate(scores) if score[0] > 0]
    return sorted(places, key=lambda place: tuple(-part for part in scores[place]))[:most]
