r"""Receipts (C2SP tlog-proof): that an entry stands in a log, checkable by anyone, offline, for as long as the keys are known.

The bytes are lines: ``c2sp.org/tlog-proof@v1``, ``extra BASE64`` where there is any, ``index N``, the hashes of the inclusion path, an
empty line, and the checkpoint with its signatures as it is. The entry itself is not in it: who verifies hashes what he holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.checkpoints import Checkpoint, read_number
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.keytext import decoded, encoded
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note
from rag_stdlib.proof.log.pinned import Head, PinnedLog

MAX_EXTRA_BYTES: Final = 65_536
MAX_RECEIPT_BYTES: Final = MAX_NOTE_BYTES + 2 * MAX_EXTRA_BYTES

_FIRST: Final = "c2sp.org/tlog-proof@v1"
_MAX_PATH: Final = 63


@dataclass(frozen=True, slots=True)
class Receipt:
    """That an entry stands in a log. What was parsed has the right form; `verify` says whether it is true.

    Attributes:
        index: Of the entry, counted from 0.
        path: From the leaf's sibling up to the child of the root, 32 bytes each.
        checkpoint: The note of the checkpoint, as it was signed.
        extra: Of the application's; nothing vouches for it.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> Receipt:
        """Read a receipt; what was read writes itself as the same bytes again.

        Raises:
            ProofError: ``receipt_malformed``; ``note_malformed`` or ``checkpoint_malformed`` for its last part.
        """
        if type(data) is not bytes or len(data) > MAX_RECEIPT_BYTES:
            raise ProofError("receipt_malformed", f"a receipt is at most {MAX_RECEIPT_BYTES:,} bytes")
        proof, empty, checkpoint = data.partition(b"\n\n")
        if not empty or proof.count(b"\n") > _MAX_PATH + 2:
            raise ProofError("receipt_malformed", "a receipt is a proof of few lines, an empty line, and a checkpoint")
        try:
            first, *lines = proof.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise ProofError("receipt_malformed", "a proof is ASCII") from None
        if first != _FIRST:
            raise ProofError("receipt_malformed", f"a receipt begins with {_FIRST}")
        extra = decoded(_after("extra ", lines.pop(0)), "receipt_malformed") if lines and lines[0].startswith("extra") else None
        if extra is not None and not 0 < len(extra) <= MAX_EXTRA_BYTES:
            raise ProofError("receipt_malformed", f"extra data is 1 to {MAX_EXTRA_BYTES:,} bytes, or the line is left out")
        index = read_number(_after("index ", lines.pop(0) if lines else ""), "receipt_malformed")
        path = tuple(decoded(line, "receipt_malformed") for line in lines)
        _check(path)
        Checkpoint.parse(Note.parse(checkpoint).text)
        return cls(index, path, checkpoint, extra or b"")

    def to_bytes(self) -> bytes:
        """Write the receipt.

        Raises:
            ProofError: As `parse`, where the parts make no receipt.
        """
        lines = [_FIRST, *([f"extra {encoded(self.extra)}"] if self.extra else ()), f"index {self.index}", *map(encoded, self.path), "", ""]
        data = "\n".join(lines).encode() + self.checkpoint
        self.parse(data)
        return data

    def verify(self, entry: bytes, log: PinnedLog) -> Head:
        """Verify that `entry` stands in the pinned log at `index`.

        Args:
            entry: The bytes that were logged, made from what the caller holds, never from what came with the receipt.
            log: What the caller pins.

        Returns:
            The checkpoint under which it stands, and who signed and cosigned it.

        Raises:
            ProofError: As `PinnedLog.open`; ``inclusion_invalid``.
        """
        head = log.open(self.checkpoint)
        merkle.verify_inclusion(merkle.leaf_hash(entry), self.index, head.checkpoint.size, self.path, head.checkpoint.root)
        return head


def _after(start: str, line: str) -> str:
    if not line.startswith(start):
        raise ProofError("receipt_malformed", f"the line {start.strip()!r} lacks or is none")
    return line[len(start):]


def _check(path: Sequence[bytes]) -> None:
    if len(path) > _MAX_PATH or any(len(value) != merkle.HASH_BYTES for value in path):
        raise ProofError("receipt_malformed", f"a path has at most {_MAX_PATH} hashes of {merkle.HASH_BYTES} bytes")
