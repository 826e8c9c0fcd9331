"""A log of one entry, two witnesses, and trust in all of them, for tests of verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import certified
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rag_stdlib.proof.certificate import entry_of
from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.notes import NoteSigner, sign_note
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.trust import Issuer, Trust

ORIGIN = "log.example/answers"
LOG = NoteSigner(ORIGIN, bytes(range(2, 34)))
OTHER_LOG = NoteSigner(ORIGIN, bytes(range(3, 35)))
WITNESS = NoteSigner("witness.example/w1", bytes(range(4, 36)), 4)
PQ_WITNESS = NoteSigner("witness.example/w2", bytes(range(5, 37)), 6)
SEEN = 1_796_126_400
EARLIER = merkle.leaf_hash(b"an entry before")


def receipt(envelope: Mapping[str, Any], signers: Sequence[NoteSigner] = (LOG, WITNESS, PQ_WITNESS), *, entry: bytes | None = None) -> str:
    """A receipt in a log of two entries, of which the certificate's is the second."""
    leaf = merkle.leaf_hash(entry_of(envelope) if entry is None else entry)
    checkpoint = Checkpoint(ORIGIN, 2, merkle.node_hash(EARLIER, leaf))
    return Receipt(1, (EARLIER,), sign_note(checkpoint.text(), signers, SEEN)).to_bytes().decode()


def logged(envelope: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Put a receipt into an envelope."""
    return {**envelope, "receipt": receipt(envelope, **options)}


def trust(**changes: Any) -> Trust:
    """Trust in the tests' issuer, log and witnesses, both of which have to have cosigned."""
    given: dict[str, Any] = {"issuers": [Issuer(certified.ISSUER, certified.PUBLIC)], "logs": {ORIGIN: [LOG.verifier]},
                             "witnesses": [WITNESS.verifier, PQ_WITNESS.verifier], "quorum": 2}
    return Trust.of(**{**given, **changes})


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()
