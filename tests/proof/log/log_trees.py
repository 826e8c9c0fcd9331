"""Trees for tests: by the definition of RFC 6962 §2.1, recursively and slowly, and as a source of hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def split(size: int) -> int:
    power = 1
    while power * 2 < size:
        power *= 2
    return power


def tree_hash(entries: Sequence[bytes]) -> bytes:
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\0" + entries[0]).digest()
    middle = split(len(entries))
    return hashlib.sha256(b"\1" + tree_hash(entries[:middle]) + tree_hash(entries[middle:])).digest()


def audit_path(index: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH(m, D[n]) of RFC 6962 §2.1.1."""
    if len(entries) == 1:
        return []
    middle = split(len(entries))
    if index < middle:
        return [*audit_path(index, entries[:middle]), tree_hash(entries[middle:])]
    return [*audit_path(index - middle, entries[middle:]), tree_hash(entries[:middle])]


def subproof(old: int, entries: Sequence[bytes], whole: bool = True) -> list[bytes]:
    """SUBPROOF(m, D[n], b) of RFC 6962 §2.1.2."""
    if old == len(entries):
        return [] if whole else [tree_hash(entries)]
    middle = split(len(entries))
    if old <= middle:
        return [*subproof(old, entries[:middle], whole), tree_hash(entries[middle:])]
    return [*subproof(old - middle, entries[middle:], False), tree_hash(entries[:middle])]


class Leaves:
    """A `HashSource` over entries, which refuses what is no complete subtree of them."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.entries = entries
        self.asked = 0

    def hash_at(self, level: int, index: int) -> bytes:
        self.asked += 1
        part = self.entries[index << level:index + 1 << level]
        assert len(part) == 1 << level, (level, index)
        return tree_hash(part)


def entries(count: int) -> list[bytes]:
    return [f"entry {number}".encode() for number in range(count)]
