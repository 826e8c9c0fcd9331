"""Cosignatures (C2SP tlog-cosignature): a witness says that at a time, a checkpoint was the largest consistent tree of its log that it knew.

A cosignature is the time, 8 bytes big-endian in seconds since 1970 and below 2^63, then the signature proper, over a message that states the
time too. Kind 4 is Ed25519 over two lines, ``cosignature/v1`` and ``time T``, and the text of the checkpoint. That does not say whose it
is, so such a key must bear one name only. Kind 6 is ML-DSA-44 (FIPS 204, empty context) over a structure with the names of both, the
size and the root. A log may sign its own checkpoints with a key of kind 6.
"""

from __future__ import annotations

import struct
from typing import Final

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import ProofError

COSIGNATURE_ED25519: Final = 0x04
COSIGNATURE_ML_DSA_44: Final = 0x06
KINDS: Final = (COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44)
MAX_TIME: Final = 2**63 - 1

_TIME_BYTES: Final = 8
_SUBTREE: Final = b"subtree/v1\n\0"


def joined(time: int, signature: bytes) -> bytes:
    """Put the time that was signed before a signature proper."""
    return struct.pack(">Q", time) + signature


def taken_apart(blob: bytes) -> tuple[int, bytes]:
    """Return the time of a cosignature, and the signature proper.

    Raises:
        ProofError: ``signature_invalid``: it is too short, or states a time that it may not.
    """
    time = int.from_bytes(blob[:_TIME_BYTES], "big")
    if len(blob) <= _TIME_BYTES or time > MAX_TIME:
        raise ProofError("signature_invalid", "a cosignature is a time and a signature")
    return time, blob[_TIME_BYTES:]


def message(kind: int, name: str, time: int, text: str) -> bytes:
    """Return what a cosigner of this name signs, with a key of this kind, of the text of a checkpoint.

    Raises:
        ProofError: ``checkpoint_malformed``.
        ValueError: A cosignature cannot state this time.
    """
    if type(time) is not int or not 0 <= time <= MAX_TIME:
        raise ValueError(f"a cosignature cannot state the time {time}")
    head = Checkpoint.parse(text)
    if kind == COSIGNATURE_ED25519:
        return f"cosignature/v1\ntime {time}\n{text}".encode()
    cosigner, origin = name.encode(), head.origin.encode()
    return b"".join([_SUBTREE, bytes([len(cosigner)]), cosigner, struct.pack(">Q", time),
                     bytes([len(origin)]), origin, struct.pack(">QQ", 0, head.size), head.root])
