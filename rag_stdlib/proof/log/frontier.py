"""The right edge of a growing tree: the few hashes from which the next leaves, and the root of every size, follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rag_stdlib.proof.log.merkle import EMPTY_ROOT, HashSource, node_hash

Node: TypeAlias = tuple[int, int, bytes]  # level, index, hash of a complete subtree


class Frontier:
    """The complete subtrees that a tree of `size` entries is made of, one for each binary digit of the size that is 1."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Begin with a tree of `size` entries, and the hashes of its complete subtrees from the largest to the smallest.

        Raises:
            ValueError: There are more or fewer hashes than the size has binary digits that are 1.
        """
        self.size = size
        self._hashes = list(hashes)
        if size < 0 or len(self._hashes) != size.bit_count():
            raise ValueError(f"{len(self._hashes)} hashes are no edge of a tree of {size} entries")

    @classmethod
    def of(cls, size: int, source: HashSource) -> Frontier:
        """Read the right edge of the first `size` entries."""
        levels = [level for level in reversed(range(size.bit_length())) if size >> level & 1]
        return cls(size, [source.hash_at(level, (size >> level) - 1) for level in levels])

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """From the largest subtree to the smallest. Backwards, they are the inclusion path of the leaf that comes next, while it is the last."""
        return tuple(self._hashes)

    def push(self, leaf: bytes) -> list[Node]:
        """Append a leaf hash, and return the complete subtrees that came to be with it: the leaf itself first, each above the other."""
        level, index, node = 0, self.size, leaf
        made = [(level, index, node)]
        while index & 1:
            level, index, node = level + 1, index >> 1, node_hash(self._hashes.pop(), node)
            made.append((level, index, node))
        self._hashes.append(node)
        self.size += 1
        return made

    def root(self) -> bytes:
        """Compute the root."""
        if not self._hashes:
            return EMPTY_ROOT
        *others, found = self._hashes
        for whole in reversed(others):
            found = node_hash(whole, found)
        return found
