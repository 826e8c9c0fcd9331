"""Where a chunk is from, as far as a certificate has room for it (docs/certificate.md, `retrieval`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_stdlib.proof.format import PROVENANCE


def fitting(given: object) -> dict[str, Any] | None:
    """Give the provenance of an item; None for what no certificate can say, so that the item itself can still be certified.

    Args:
        given: What an index or a shard says of a chunk: a mapping with the members of `PROVENANCE`, those that are missing being None, and maybe others.
    """
    if not isinstance(given, Mapping):
        return None
    made = {name: given.get(name) for name in PROVENANCE.always}
    if PROVENANCE.departs(made) is not None:
        return None
    return made if are_lines(made["start_line"], made["end_line"]) else None


def are_lines(first: int | None, last: int | None) -> bool:
    """Tell whether lines, where any are said, go from one to the same or a later one."""
    return first is last if first is None or last is None else first <= last
