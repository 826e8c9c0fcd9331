"""Two sequences of keys held against each other like the sides of a diff."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

LIMIT: Final = 5000

_WINDOW: Final = 100

Block: TypeAlias = tuple[bool, int, int, int, int]


def align(left: Sequence[Hashable], right: Sequence[Hashable], limit: int = LIMIT) -> Iterator[Block]:
    """Cut both sequences into blocks (equal, start left, end left, start right, end right), in order and without gaps.

    What both begin and end with is set aside first. The rest is aligned by difflib where it has at most `limit` keys on each
    side, else by position: at a difference, both sides go on from the nearest pair of equal keys within the next hundred.
    """
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    tail = 0
    while tail < shorter - start and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    if start:
        yield True, 0, start, 0, start
    yield from _middle(left, right, (start, len(left) - tail), (start, len(right) - tail), limit)
    if tail:
        yield True, len(left) - tail, len(left), len(right) - tail, len(right)


def _middle(left: Sequence[Hashable], right: Sequence[Hashable], ours: tuple[int, int], theirs: tuple[int, int], limit: int) -> Iterator[Block]:
    one, other = left[slice(*ours)], right[slice(*theirs)]
    if max(len(one), len(other)) > limit:
        blocks = _walk(one, other)
    else:
        codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        blocks = ((tag == "equal", i1, i2, j1, j2) for tag, i1, i2, j1, j2 in codes)
    for equal, i1, i2, j1, j2 in blocks:
        yield equal, ours[0] + i1, ours[0] + i2, theirs[0] + j1, theirs[0] + j2


def _walk(left: Sequence[Hashable], right: Sequence[Hashable]) -> Iterator[Block]:
    i = j = 0
    while i < len(left) or j < len(right):
        i0, j0 = i, j
        while i < len(left) and j < len(right) and left[i] == right[j]:
            i, j = i + 1, j + 1
        if i > i0:
            yield True, i0, i, j0, j
        elif i == len(left) or j == len(right):
            yield False, i, len(left), j, len(right)
            return
        else:
            i, j = _resynchronised(left, right, i, j)
            yield False, i0, i, j0, j


def _resynchronised(left: Sequence[Hashable], right: Sequence[Hashable], i: int, j: int) -> tuple[int, int]:
    ahead: dict[Hashable, int] = {}
    for at, key in enumerate(right[j:j + _WINDOW]):
        ahead.setdefault(key, at)
    pairs = [(at + ahead[key], at, ahead[key]) for at, key in enumerate(left[i:i + _WINDOW]) if key in ahead]
    if not pairs:
        return min(i + _WINDOW, len(left)), min(j + _WINDOW, len(right))
    _, over, under = min(pairs)
    return i + over, j + under
