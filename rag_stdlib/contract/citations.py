"""The citation check of Corvid's ``cites … strictly``: does an answer take over words of what it was given?

It shows that four words in a row stand in both, and no more: not that the answer follows from the context, nor that it is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

RUN: Final = 4  # words


def cites(answer: str, context: str) -> bool:
    """Tell whether `answer` holds four consecutive words of `context`; all of them where the context has fewer.

    Words are what white space separates, without the punctuation around them and without regard to case. An empty context,
    or one without any word, is cited by nothing.
    """
    wanted, given = list(_words(context)), list(_words(answer))
    size = min(RUN, len(wanted))
    if not size:
        return False
    runs = set(_runs(wanted, size))
    return any(run in runs for run in _runs(given, size))


def _words(text: str) -> Iterator[str]:
    for part in text.casefold().split():
        start, end = 0, len(part)
        while start < end and not part[start].isalnum():
            start += 1
        while end > start and not part[end - 1].isalnum():
            end -= 1
        if start < end:
            yield part[start:end]


def _runs(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at:at + size]) for at in range(len(words) - size + 1))
