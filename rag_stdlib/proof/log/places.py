"""Where entries stand in a log: those that were appended, and those that it had already, which are found by their leaf hashes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

Hashes: TypeAlias = Callable[[int, int, int], list[bytes]]  # of a level, from a place on, so many: `Log.hashes`

_AT_ONCE: Final = 4_096


@dataclass(frozen=True, slots=True)
class Appended:
    """Entries that were appended at once.

    Attributes:
        positions: Where they stand, in order.
        checkpoint: The signed note of the checkpoint that covers them.
    """

    positions: range
    checkpoint: bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """Entries that a log has, since before or by now.

    Attributes:
        positions: Where they stand, in the order in which they were given; equal ones at one place.
        new: The places of those that were appended.
    """

    positions: tuple[int, ...]
    new: range


def places(hashes: Hashes, wanted: Collection[bytes], start: int, stop: int) -> dict[bytes, int]:
    """Find leaf hashes among those of the entries from `start` to before `stop`, each at its first place there."""
    found: dict[bytes, int] = {}
    for begin in range(start, stop, _AT_ONCE) if wanted else ():
        for place, leaf in enumerate(hashes(0, begin, min(_AT_ONCE, stop - begin)), begin):
            if leaf in wanted:
                found.setdefault(leaf, place)
    return found
