"""Facts: what the trace says about the state that answered a call, as an object of objects, named by dotted paths.

A counter of changes (`generation`) is no such fact: another number says nothing about what could have answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from replay.jsontext import MISSING, first_difference

_COUNTERS: Final = {"generation"}


def changed(recorded: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Name the facts that differ, in their names' order; what one side lacks is named as a whole.

    A fact that is null on one side was not known there, and so is not said to have changed.
    """
    for name in sorted(recorded.keys() | other.keys()):
        old, new = recorded.get(name, MISSING), other.get(name, MISSING)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from changed(old, new, f"{prefix}{name}.")
        elif name not in _COUNTERS and None not in (old, new) and first_difference(old, new) is not None:
            yield f"{prefix}{name}"


def without_counters(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that say something."""
    return {name: without_counters(value) if isinstance(value, Mapping) else value
            for name, value in facts.items() if name not in _COUNTERS}
