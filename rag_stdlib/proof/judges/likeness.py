"""Whether a sentence says what another one says but for a number, a negation or a quantifier, so that both cannot be true.

Two sentences are compared only where all their other words are the same, in the same order. They contradict each other where they differ in
exactly one respect, and in that one without doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rag_stdlib.proof.judges import negation, numbers, quantifiers
from rag_stdlib.proof.judges.numbers import Quantity
from rag_stdlib.proof.judges.quantifiers import Extent
from rag_stdlib.proof.judges.words import plain, tokens

_NUMBER: Final = "#"  # stands for a number among the words
_LEFT_OUT: Final = frozenset(("any", "-", "="))


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence: its words without what is below, its numbers, its quantifiers (of things and of times), and whether it is denied."""

    words: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    extents: tuple[Extent, Extent]
    manifold: bool  # it has several quantifiers of one sort, or one that only sets a focus, so that what it says of how many is not read
    denied: bool


def read(text: str) -> Reading:
    """Read a sentence, in time linear in it."""
    words = tokens(text)
    rest: list[str] = []
    quantities: list[Quantity] = []
    extents: tuple[list[Extent], list[Extent]] = ([], [])
    at = negations = focused = 0
    while at < len(words):
        if number := numbers.read(words, at):
            quantities.append(number[0])
            rest.append(_NUMBER)
            at = number[1]
        elif length := negation.negates(words, at):
            negations, at = negations + 1, at + length
        elif found := quantifiers.read(words, at):
            extents[found.of_times].append(found.extent)
            at += found.length
        else:
            focused += words[at] in quantifiers.FOCUS
            if words[at] not in _LEFT_OUT and words[at] not in quantifiers.FOCUS:
                rest.append(words[at])
            at += 1
    things, times = extents
    single = (things[0] if things else Extent.UNSAID, times[0] if times else Extent.UNSAID)
    return Reading(plain(rest), tuple(quantities), single, len(things) > 1 or len(times) > 1 or focused > 0, negations % 2 == 1)


def difference(claim: Reading, said: Reading) -> str:
    """Return in what a claim contradicts a sentence of the same words: ``number``, ``negation`` or ``quantifier``; empty where it does not.

    The sentences' `words` have to be equal.
    """
    relations = [numbers.relation(one, other) for one, other in zip(claim.quantities, said.quantities, strict=True)]
    if "unknown" in relations or claim.manifold or said.manifold:
        return ""
    differing = relations.count("differs")
    pairs = [(one, other) for one, other in zip(claim.extents, said.extents, strict=True) if one != other]
    is_denied = claim.denied != said.denied
    if differing + len(pairs) + is_denied != 1:
        return ""
    if differing:
        return "number"
    if pairs:
        return "quantifier" if quantifiers.opposed(*pairs[0]) else ""
    return "" if any(map(quantifiers.allows_both, claim.extents)) else "negation"
