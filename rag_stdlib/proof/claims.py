"""An answer taken apart into claims: places in it that are judged one by one.

Outside of them an answer holds nothing but white space and the marks ``- * • # >`` before a line (docs/certificate.md, check 16).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from rag_stdlib.proof.decisions import is_loose
from rag_stdlib.proof.units import units
from rag_stdlib.text.chunker import WHITE_SPACE

Decomposition: TypeAlias = Literal["rules", "model", "whole"]

MOST_CLAIMS: Final = 1_000  # of a certificate

_LINE: Final = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")
_MARKS: Final = re.compile(f"(?:[-*\u2022#>]*[{WHITE_SPACE}]+)*")


class Place(NamedTuple):
    """A part of a text, half-open, in code points; neither empty nor with white space at its ends."""

    start: int
    end: int


def split(answer: str, by: Decomposition = "rules") -> list[Place]:
    """Return the claims of an answer, in order and disjoint; none where it holds nothing but white space and marks.

    Args:
        answer: The answer.
        by: ``rules`` for one claim a sentence, heading, table or piece of code; ``model`` for one a line, where the model was asked to write
            them so; ``whole`` for the whole answer as one.

    Of more than 1,000 claims the last one holds the rest. Time is linear in the answer.
    """
    found = list(_WAYS[by](answer))
    if len(found) <= MOST_CLAIMS:
        return found
    return [*found[:MOST_CLAIMS - 1], Place(found[MOST_CLAIMS - 1].start, found[-1].end)]


def _by_rules(answer: str) -> Iterator[Place]:
    for unit in units(answer):
        yield Place(unit.start, unit.end)


def _by_lines(answer: str) -> Iterator[Place]:
    for line in _LINE.finditer(answer):
        yield from _trimmed(answer, line.start(), line.end())


def _whole(answer: str) -> Iterator[Place]:
    yield from _trimmed(answer, 0, len(answer))


def _trimmed(answer: str, start: int, end: int) -> Iterator[Place]:
    """Yield the place without the marks and white space before it, if anything is left that has to be claimed."""
    end = start + len(answer[start:end].rstrip(WHITE_SPACE))
    start = min(_MARKS.match(answer, start, end).end(), end)  # type: ignore[union-attr] # it matches nothing, too
    if is_loose(answer[start:end]):
        yield Place(start, end)


_WAYS: Final[dict[Decomposition, Callable[[str], Iterator[Place]]]] = {"rules": _by_rules, "model": _by_lines, "whole": _whole}
