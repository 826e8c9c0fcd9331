"""Words that turn a sentence into its contrary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

NEGATORS: Final = frozenset(("not", "without", "hardly", "scarcely", "barely"))


_SUPPORTING: Final = frozenset(("do", "does", "did"))


def negates(words: Sequence[str], at: int) -> int:
    """Return how many words at a place negate, 0 for none: "not", "does not", "no longer"."""
    if words[at] in _SUPPORTING and words[at + 1:at + 2] == ["not"]:
        return 2
    if words[at] == "no" and words[at + 1:at + 2] == ["longer"]:
        return 2
    return int(words[at] in NEGATORS)
