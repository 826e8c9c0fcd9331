"""Words that say of how many, or how often, something holds, and which of them cannot both be true (the square of opposition, and degrees in it)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple


class Extent(Enum):
    """Of how many, or how often."""

    ALL = "all"
    MOST = "most"
    MANY = "many"
    SOME = "some"
    FEW = "few"
    NONE = "none"
    UNSAID = "unsaid"


class Quantifier(NamedTuple):
    """A quantifier: its extent, whether it is one of times ("always"), and how many words it takes."""

    extent: Extent
    of_times: bool
    length: int


_OF_THINGS: Final = {
    "all": Extent.ALL, "every": Extent.ALL, "each": Extent.ALL, "both": Extent.ALL, "most": Extent.MOST, "many": Extent.MANY, "numerous": Extent.MANY,
    "some": Extent.SOME, "several": Extent.SOME, "few": Extent.FEW, "no": Extent.NONE, "none": Extent.NONE, "neither": Extent.NONE}
_OF_TIMES: Final = {
    "always": Extent.ALL, "usually": Extent.MOST, "generally": Extent.MOST, "mostly": Extent.MOST, "often": Extent.MANY, "frequently": Extent.MANY,
    "sometimes": Extent.SOME, "occasionally": Extent.SOME, "rarely": Extent.FEW, "seldom": Extent.FEW, "never": Extent.NONE}
FOCUS: Final = frozenset(("only", "solely", "exclusively", "merely", "just"))  # these change what else is true, and contradict nothing

_OPPOSED: Final = frozenset(frozenset(pair) for pair in (
    (Extent.NONE, Extent.ALL), (Extent.NONE, Extent.MOST), (Extent.NONE, Extent.MANY), (Extent.NONE, Extent.SOME), (Extent.NONE, Extent.FEW),
    (Extent.NONE, Extent.UNSAID), (Extent.FEW, Extent.ALL), (Extent.FEW, Extent.MOST)))
_BOTH_WAYS: Final = frozenset((Extent.SOME, Extent.MANY, Extent.FEW))  # some are and some are not


def read(words: Sequence[str], at: int) -> Quantifier | None:
    """Read the quantifier that begins at a word, "of" behind it included."""
    word = words[at]
    if word in _OF_TIMES:
        return Quantifier(_OF_TIMES[word], of_times=True, length=1)
    if word == "a" and words[at + 1:at + 2] == ["few"]:
        return Quantifier(Extent.SOME, of_times=False, length=2 + (words[at + 2:at + 3] == ["of"]))
    if word in _OF_THINGS:
        return Quantifier(_OF_THINGS[word], of_times=False, length=1 + (words[at + 1:at + 2] == ["of"]))
    return None


def opposed(one: Extent, other: Extent) -> bool:
    """Tell whether what holds to one extent cannot hold to the other."""
    return frozenset((one, other)) in _OPPOSED


def allows_both(extent: Extent) -> bool:
    """Tell whether a sentence of this extent and the same one denied can both be true."""
    return extent in _BOTH_WAYS
