"""A hash of a multiset that is kept up as members come and go, whatever their order: LtHash over SHAKE-128.

A member is hashed to 1,024 lanes of 16 bits; the state of a multiset is the sum of its members' lanes, each modulo 2**16,
so that taking a member out is subtracting it. States are whole numbers of 16,384 bits, written as 2,048 little-endian bytes.
To find two multisets with one state is a lattice problem that nobody knows how to solve at this size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

STATE_BYTES: Final = 2_048
EMPTY: Final = 0
_MEMBER: Final = b"rag-stdlib/index-member/v1\0"
_DIGEST: Final = b"rag-stdlib/index-content/v1\0"
_LENGTH_BYTES: Final = 8

# Lanes are added in two halves, every other one in each: the gaps between them take up what a sum carries over.
_EVEN: Final = int.from_bytes(b"\xff\xff\0\0" * (STATE_BYTES // 4), "little")
_ODD: Final = _EVEN << 16
_ALL: Final = _EVEN | _ODD
_ONES: Final = int.from_bytes(b"\1\0" * (STATE_BYTES // 2), "little")


def member(parts: Iterable[bytes]) -> int:
    """Return the lanes of one member: of its parts in order, each behind its length (u64, little-endian)."""
    hasher = hashlib.shake_128(_MEMBER)
    for part in parts:
        hasher.update(len(part).to_bytes(_LENGTH_BYTES, "little"))
        hasher.update(part)
    return int.from_bytes(hasher.digest(STATE_BYTES), "little")


def plus(state: int, lanes: int) -> int:
    """Return the state with a member more."""
    return (((state & _EVEN) + (lanes & _EVEN)) & _EVEN) | (((state & _ODD) + (lanes & _ODD)) & _ODD)


def minus(state: int, lanes: int) -> int:
    """Return the state with a member less."""
    return plus(state, plus(lanes ^ _ALL, _ONES))  # in each lane the two's complement


def to_bytes(state: int) -> bytes:
    """Write a state as it is stored."""
    return state.to_bytes(STATE_BYTES, "little")


def from_bytes(stored: bytes) -> int:
    """Read what `to_bytes` wrote."""
    return int.from_bytes(stored, "little")


def digest(stored: bytes) -> str:
    """Return the name of a multiset: hex SHA-256 over a label and the 2,048 bytes of its state."""
    return hashlib.sha256(_DIGEST + stored).hexdigest()
