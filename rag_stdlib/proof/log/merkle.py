"""The Merkle tree of a log (RFC 6962 §2.1, RFC 9162 §2.1), with SHA-256: its hashes, its proofs, and their verification.

A leaf is SHA-256(00 ‖ entry), a node SHA-256(01 ‖ left ‖ right), the tree of no entry SHA-256 of nothing. A tree of n entries is split
at the largest power of two below n, and nothing is ever duplicated. So all hashes of a tree but those on its right edge are of
*complete* subtrees, of 2^level entries, and stay the same however the log grows: from them every proof of every size is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

from rag_stdlib.proof.log.errors import ProofError

HASH_BYTES: Final = 32
MAX_SIZE: Final = 2**63 - 1
MAX_PATH: Final = 64  # hashes of the longest proof: consistency of two trees of up to `MAX_SIZE` entries
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

Compared: TypeAlias = Literal["continued", "another", "not_shown"]


class HashSource(Protocol):
    """Where the hashes of complete subtrees come from."""

    def hash_at(self, level: int, index: int) -> bytes:
        """Return the hash of the subtree of the 2^`level` entries from `index` · 2^`level` on (level 0: the hash of a leaf)."""


def leaf_hash(entry: bytes) -> bytes:
    """Hash an entry."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash two neighbouring subtrees into the one above them."""
    return hashlib.sha256(b"\1" + left + right).digest()


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf hash `leaf` is that of the entry at `index` in the tree of `size` entries with this root (RFC 9162 §2.1.3.2).

    Args:
        leaf: The `leaf_hash` of the entry, computed from what the caller holds.
        index: Counted from 0.
        size: Of the tree; at least `index` + 1.
        path: From the leaf's sibling up to the child of the root.
        root: Of the tree.

    Raises:
        ProofError: ``inclusion_invalid``.
    """
    _check(path, (leaf,), (index, size), "inclusion_invalid")
    if index >= size:
        raise ProofError("inclusion_invalid", f"a tree of {size} entries has none at {index}")
    node, place, last = leaf, index, size - 1
    for sibling in path:
        if not last:
            raise ProofError("inclusion_invalid", "the path is longer than the tree is high")
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:  # on the right edge: levels at which the node has no sibling
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    if last:
        raise ProofError("inclusion_invalid", "the path is shorter than the tree is high")
    if node != root:
        raise ProofError("inclusion_invalid", f"entry {index} does not lead to the root of the tree of {size}")


def verify_consistency(old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]) -> None:
    """Check that the tree of `old_size` entries is the beginning of the tree of `new_size` (RFC 9162 §2.1.4.2).

    Every tree continues the empty one, and itself, with an empty path.

    Raises:
        ProofError: ``consistency_invalid``.
    """
    _check(path, () if old_size == new_size else (old_root, new_root), (old_size, new_size), "consistency_invalid")
    if old_size > new_size:
        raise ProofError("consistency_invalid", f"a tree of {new_size} entries does not continue one of {old_size}")
    if old_size == 0 and old_root != EMPTY_ROOT:
        raise ProofError("consistency_invalid", "the root of the tree of no entry is another")
    if old_size in (0, new_size):
        if path:
            raise ProofError("consistency_invalid", "there is a path where none is needed")
        if old_size == new_size and old_root != new_root:
            raise ProofError("consistency_invalid", f"two trees of {old_size} entries have different roots")
    elif _climb(old_size, old_root, new_size, path) != (old_root, new_root):
        raise ProofError("consistency_invalid", f"the tree of {new_size} entries does not continue the one of {old_size}")


def compare(old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]) -> Compared:
    """Tell what hashes that anyone may have served show of two roots that a log signed.

    No hashes that are wrong can make ``another`` of a tree that goes on. SHA-256 has no collisions that anyone could find, so what leads to the new root are
    the hashes of the new tree, and the old root that follows from them is that of its beginning.

    Args:
        old_size: Of the smaller tree, or one of the same size.
        old_root: That was signed for it.
        new_size: At least `old_size`.
        new_root: That was signed for it.
        path: As `comparison_path` gives it. A path of consistency will do as well, but if `old_size` is a power of two it shows no ``another``.

    Returns:
        ``continued``: the old tree is the beginning of the new one. ``another``: it is not; two sizes are equal and the roots are not, or the path leads to
        the new root and to another one than the old. ``not_shown``: the path shows neither.
    """
    try:
        verify_consistency(old_size, old_root, new_size, new_root, path)
    except ProofError:
        pass
    else:
        return "continued"
    try:
        _check((), (old_root, new_root), (old_size, new_size), "consistency_invalid")
        if old_size == new_size:
            return "not_shown" if old_root == new_root else "another"
        _check(path, (), (), "consistency_invalid")
        if not 0 < old_size < new_size:
            return "not_shown"
        own, rest = (path[0], path[1:]) if path and _is_whole(old_size) else (old_root, path)
        old, new = _climb(old_size, own, new_size, rest)
    except ProofError:
        return "not_shown"
    if new != new_root:
        return "not_shown"
    return "continued" if old == old_root else "another"


def _is_whole(size: int) -> bool:
    """Tell whether a tree is one complete subtree, whose root a path of consistency leaves out."""
    return size.bit_count() == 1


def _climb(old_size: int, old_root: bytes, new_size: int, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the two roots that the path leads to."""
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    # Below here both trees are alike; where that is the whole of the old one, the path need not repeat its root.
    hashes = iter(path if place else [old_root, *path])
    old = new = next(hashes, b"")
    for sibling in hashes:
        if not last:
            raise ProofError("consistency_invalid", "the path is longer than the tree is high")
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    if last:
        raise ProofError("consistency_invalid", "the path is shorter than the tree is high")
    return old, new


def _check(path: Sequence[bytes], hashes: Sequence[bytes], numbers: Sequence[int], code: str) -> None:
    if any(type(number) is not int or not 0 <= number <= MAX_SIZE for number in numbers):
        raise ProofError(code, "an index or a size is no number that a log can have")
    if len(path) > MAX_PATH:
        raise ProofError(code, f"the path has more than {MAX_PATH} hashes")
    # Hashes of other lengths could be cut in two places, and two different paths would hash alike.
    if any(type(value) is not bytes or len(value) != HASH_BYTES for value in (*hashes, *path)):
        raise ProofError(code, f"a hash has {HASH_BYTES} bytes")


def root(size: int, source: HashSource) -> bytes:
    """Compute the root of the first `size` entries."""
    return _subtree(0, size, source) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, source: HashSource) -> list[bytes]:
    """Prove that entry `index` is in the tree of `size` (RFC 6962 §2.1.1): at most one hash for each level.

    Raises:
        ValueError: There is no such entry.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} entries has none at {index}")
    path, start, stop = [], 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(_subtree(middle, stop, source))
            stop = middle
        else:
            path.append(_subtree(start, middle, source))
            start = middle
    return path[::-1]


def consistency_path(old_size: int, new_size: int, source: HashSource) -> list[bytes]:
    """Prove that the tree of `old_size` entries is the beginning of the tree of `new_size` (RFC 6962 §2.1.2).

    Raises:
        ValueError: The old tree is the larger one.
    """
    if not 0 <= old_size <= new_size:
        raise ValueError(f"a tree of {new_size} entries does not continue one of {old_size}")
    path, start, stop = [], 0, new_size
    while old_size not in (0, stop):
        middle = start + _split(stop - start)
        if old_size <= middle:
            path.append(_subtree(middle, stop, source))
            stop = middle
        else:
            path.append(_subtree(start, middle, source))
            start = middle
    if start:
        path.append(_subtree(start, stop, source))
    return path[::-1]


def comparison_path(old_size: int, new_size: int, source: HashSource) -> list[bytes]:
    """Return the hashes from which the roots of both trees follow: the path of consistency, and ahead of it what that leaves out.

    That is the root of the old tree, where it is a complete subtree. Who holds it need not be told it to see that the new tree goes on, but to see that it has another.

    Raises:
        ValueError: The old tree is the larger one.
    """
    path = consistency_path(old_size, new_size, source)
    return [root(old_size, source), *path] if path and _is_whole(old_size) else path


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _subtree(start: int, stop: int, source: HashSource) -> bytes:
    """Compute the root over the entries from `start`, a multiple of a power of two as large as they are many, to `stop`."""
    found = b""
    while start < stop:
        size = stop - start
        level = (size & -size).bit_length() - 1  # of the complete subtree at the right end
        stop -= 1 << level
        whole = source.hash_at(level, stop >> level)
        found = node_hash(whole, found) if found else whole
    return found
