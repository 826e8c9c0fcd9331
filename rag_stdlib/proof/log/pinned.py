"""What a client pins of a log before it believes a word of it: the origin, the log's keys, its witnesses, and how many of them must agree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rag_stdlib.proof.log.checkpoints import Checkpoint, check_origin
from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, KINDS, taken_apart
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.merkle import EMPTY_ROOT
from rag_stdlib.proof.log.notes import Note, VerifierKey, by_name, checked


@dataclass(frozen=True, slots=True)
class Cosigned:
    """That a witness cosigned a checkpoint.

    Attributes:
        name: Of the witness.
        time: In seconds since 1970, as the witness says; the latest, where it cosigned more than once. Whether it is plausible is for
            the caller to judge.
    """

    name: str
    time: int


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint that a pinned log signed and enough witnesses cosigned; made by `PinnedLog.open`.

    Attributes:
        checkpoint: Origin, size and root.
        note: The note, as it came.
        keys: The log's keys that signed, as text.
        cosigned: The pinned witnesses that cosigned, each once, by name.
    """

    checkpoint: Checkpoint
    note: bytes
    keys: tuple[str, ...]
    cosigned: tuple[Cosigned, ...]


@dataclass(frozen=True, slots=True)
class PinnedLog:
    """A log as a client knows it.

    While keys are exchanged, the old and the new key are both pinned. A witness is its name: keys of both kinds under one name count
    once towards the quorum.

    Attributes:
        origin: The log's name.
        keys: At least one, of the kinds 1 and 6; a signature by any of them will do.
        witnesses: Keys of the kinds 4 and 6, of as many witnesses as there are names.
        quorum: How many witnesses must have cosigned.
    """

    origin: str
    keys: tuple[VerifierKey, ...]
    witnesses: tuple[VerifierKey, ...] = ()
    quorum: int = 0

    def __post_init__(self) -> None:
        """Refuse pins under which less would be verified than it seems.

        Raises:
            ProofError: ``keys_unfit``: there is no key of the log, or one that only cosigns; a witness has a key that does not cosign, one public key bears two
                names, the log is its own witness, or the quorum is more than there are witnesses; ``checkpoint_malformed`` for an
                origin that is none.
        """
        check_origin(self.origin)
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "witnesses", tuple(self.witnesses))
        if not self.keys:
            raise ProofError("keys_unfit", f"no key of the log {self.origin} is pinned")
        by_name([*self.keys, *self.witnesses])
        if any(key.kind == COSIGNATURE_ED25519 for key in self.keys):
            raise ProofError("keys_unfit", f"a key of the log {self.origin} is a witness's, of kind {COSIGNATURE_ED25519}")
        owners: dict[bytes, str] = {}
        for witness in self.witnesses:
            if witness.kind not in KINDS:
                raise ProofError("keys_unfit", f"the key of {witness.name} is of kind {witness.kind}, which does not cosign")
            if owners.setdefault(witness.public, witness.name) != witness.name:
                raise ProofError("keys_unfit", f"the witnesses {owners[witness.public]} and {witness.name} have the same key")
        names = {witness.name for witness in self.witnesses}
        if any(key.public in owners or key.name in names for key in self.keys):
            raise ProofError("keys_unfit", f"the log {self.origin} is among its own witnesses")
        if type(self.quorum) is not int or not 0 <= self.quorum <= len(names):
            raise ProofError("keys_unfit", f"a quorum of {self.quorum} cannot be had of {len(names)} witnesses")

    def by_itself(self) -> PinnedLog:
        """Return the log as those pin it who hold it to all that it signs, whoever has cosigned that: without witnesses."""
        return replace(self, witnesses=(), quorum=0)

    def open(self, note: bytes) -> Head:
        """Verify a checkpoint.

        Raises:
            ProofError: ``note_malformed``, ``checkpoint_malformed``, ``origin_mismatch``, ``signature_missing`` (no pinned key of the log
                signed, whoever else did), ``signature_invalid`` (one of them, over another text), ``cosignature_invalid``,
                ``quorum_missing``.
        """
        parsed = Note.parse(note)
        checkpoint = Checkpoint.parse(parsed.text)
        if checkpoint.origin != self.origin:
            raise ProofError("origin_mismatch", f"the checkpoint is of the log {checkpoint.origin}, not of {self.origin}")
        signers = tuple(dict.fromkeys(key.text() for key, _ in checked(parsed, self.keys)))
        if not signers:
            raise ProofError("signature_missing", f"no pinned key of the log {self.origin} signed the checkpoint")
        if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
            raise ProofError("checkpoint_malformed", "the empty tree has another root")
        times: dict[str, int] = {}
        for key, signature in checked(parsed, self.witnesses, "cosignature_invalid"):
            times[key.name] = max(times.get(key.name, 0), taken_apart(signature.value)[0])
        if len(times) < self.quorum:
            raise ProofError("quorum_missing", f"{len(times)} of the pinned witnesses cosigned, and {self.quorum} are asked for")
        return Head(checkpoint, note, signers, tuple(Cosigned(name, time) for name, time in sorted(times.items())))
