"""The words of a command as a trace may hold them: without those that are secrets by the name of their flag.

``--password X``, ``--api-key=X`` and ``TOKEN=X`` name what they carry; the value is replaced by the mark whatever it looks like, alike where a
command is recorded and where one is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.redaction.patterns import names_a_secret
from replay.redaction.redactor import REDACTED


def withheld(words: Sequence[str]) -> list[str]:
    """Return the words with the mark in the place of each value that stands behind a telling name.

    The word behind a flag is its value unless it begins with ``--``: then the flag stands alone, and asks for its secret otherwise.
    """
    return list(_withheld(words))


def _withheld(words: Sequence[str]) -> Iterator[str]:
    telling = False
    for word in words:
        name, assigned, value = word.partition("=")
        if telling and not word.startswith("--"):
            yield REDACTED if word else word
            telling = False
        elif _tells(name) and assigned:
            yield f"{name}={REDACTED}" if value else word
            telling = False
        else:
            yield word
            telling = word.startswith("-") and _tells(word)


def _tells(name: str) -> bool:
    return names_a_secret(name.lstrip("-").encode(errors="replace"))
