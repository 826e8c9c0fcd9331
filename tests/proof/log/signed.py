"""Fixed keys of a log and of witnesses, and notes made with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from log_trees import Leaves, entries

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.merkle import root
from rag_stdlib.proof.log.notes import ED25519, NoteSigner, sign_note
from rag_stdlib.proof.log.pinned import PinnedLog

ORIGIN = "log.example/answers"
NOW = 1_790_000_000


@cache
def signer(number: int = 1, name: str = ORIGIN, kind: int = ED25519) -> NoteSigner:
    return NoteSigner(name, bytes([number]) * 32, kind)


@cache
def witness(number: int = 1, kind: int = 4) -> NoteSigner:
    return signer(100 + number, f"witness.example/w{number}", kind)


LOG = signer()
WITNESSES = (witness(1, 4), witness(1, 6), witness(2, 6), witness(3, 4))
PINNED = PinnedLog(ORIGIN, (LOG.verifier,))


def head(size: int, *, origin: str = ORIGIN) -> Checkpoint:
    """The checkpoint of a log whose entries are those of `entries`."""
    return Checkpoint(origin, size, root(size, Leaves(entries(size))))


def note(size: int, *signers: NoteSigner, now: int = NOW) -> bytes:
    return sign_note(head(size).text(), signers or [LOG], now)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(LogError) as caught:
        call()
    assert caught.value.words
    return caught.value.code
