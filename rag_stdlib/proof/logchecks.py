"""Checks of a receipt (docs/certificate.md, checks 29 to 34): that the log has the certificate, and that enough witnesses have seen it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.cosignatures import taken_apart
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.notes import Note, Signature, VerifierKey, checked
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verdicts import LoggedAt

Step: TypeAlias = "tuple[str, bool, bool]"  # the check's code, whether it refutes (else it is a doubt), whether it holds
Signed: TypeAlias = "tuple[tuple[VerifierKey, Signature], ...] | None"


class LogChecks:
    """The checks of one receipt, and then in `logged` where the log has the entry, and in `earliest` when each witness first cosigned, in POSIX seconds, if it said so."""

    def __init__(self, trust: Trust, receipt: str, entry: bytes) -> None:
        """Prepare to check that a receipt is one of this entry."""
        self._trust, self._receipt, self._entry = trust, receipt, entry
        self.logged: LoggedAt | None = None
        self.earliest: Mapping[str, int] = {}

    def each(self) -> Iterator[Step]:
        """Do the checks in order; whoever asks stops at the first that refutes."""
        try:
            receipt = Receipt.parse(self._receipt.encode())
        except ProofError:
            yield "receipt", True, False
            return
        yield "receipt", True, True
        note = Note.parse(receipt.checkpoint)
        checkpoint = Checkpoint.parse(note.text)
        log = self._trust.logs.get(checkpoint.origin)
        known = log is not None and any((line.name, line.key_id) == (key.name, key.key_id) for line in note.signatures for key in log.keys)
        yield "untrusted_log", False, known
        if log is not None and known:
            yield from self._of_known(log, receipt, note, checkpoint)

    def _of_known(self, log: PinnedLog, receipt: Receipt, note: Note, checkpoint: Checkpoint) -> Iterator[Step]:
        yield "checkpoint_signature", True, _signed(note, log.keys) is not None
        cosigned = _signed(note, log.witnesses)
        yield "cosignature", True, cosigned is not None
        try:
            merkle.verify_inclusion(merkle.leaf_hash(self._entry), receipt.index, checkpoint.size, receipt.path, checkpoint.root)
        except ProofError:
            yield "inclusion", True, False
            return
        yield "inclusion", True, True
        times = sorted((key.name, taken_apart(signature.value)[0]) for key, signature in cosigned or ())
        latest, self.earliest = dict(times), {name: time for name, time in reversed(times) if time}
        yield "witness_quorum", False, len(latest) >= log.quorum
        self.logged = LoggedAt(checkpoint.origin, receipt.index, checkpoint.size, tuple(latest.items()))


def _signed(note: Note, keys: tuple[VerifierKey, ...]) -> Signed:
    """Return the signatures by these keys; None where one of them does not hold."""
    try:
        return checked(note, keys)
    except ProofError:
        return None
