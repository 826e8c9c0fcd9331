"""The words of a sentence, as the rules for numbers, negation and quantifiers read them: case folded, contractions taken apart."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+(?:'[^\W\d_]+)*|\d|[%$\u20ac\u00a3\u00a5\u20b9<>\u2265\u2264\u2248~+=/\u00b0\u2212\u2013-]")
_GROUPED: Final = re.compile("(?<=[0-9])[\u00a0\u202f\u2009'\u2019](?=[0-9]{3}(?![0-9]))")  # 1 000, with a blank that does not break
_CONTRACTED: Final = {"can't": ("can", "not"), "won't": ("will", "not"), "shan't": ("shall", "not"), "cannot": ("can", "not"), "n't": ("not",)}
_ALIKE: Final = {"is": "be", "are": "be", "am": "be", "was": "were", "has": "have", "percent": "%", "pct": "%", "\u2212": "-", "\u2013": "-"}
_SHORTEST_PLURAL: Final = 4


def tokens(text: str) -> list[str]:
    """Return the words, numbers and signs of a text; punctuation is left out."""
    folded = _GROUPED.sub(",", text).casefold().replace("\u2019", "'")
    found: list[str] = []
    for word in _TOKEN.findall(folded):
        if word in _CONTRACTED:
            found += _CONTRACTED[word]
        elif word.endswith("n't"):
            found += [_ALIKE.get(word[:-3], word[:-3]), "not"]
        elif word == "cent" and found[-1:] == ["per"]:
            found[-1] = "%"
        else:
            found.append(_ALIKE.get(word, word))
    return found


def plain(words: list[str]) -> tuple[str, ...]:
    """Return the words by which sentences are compared: without articles, third persons and plurals as bare words."""
    return tuple(_bare(word) for word in words if word not in ("a", "an", "the"))


def _bare(word: str) -> str:
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word
