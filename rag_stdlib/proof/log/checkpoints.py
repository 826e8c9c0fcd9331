"""Checkpoints (C2SP tlog-checkpoint): how many entries a log has, and the root of the tree over them, as the text of a note.

The text is three lines: the origin, the size in decimal, the root in base64. Extension lines are refused: no log of ours writes them, no
proof covers them, and cosignatures of kind 6 do not either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.keytext import decoded, encoded
from rag_stdlib.proof.log.merkle import HASH_BYTES, MAX_SIZE

MAX_ORIGIN_BYTES: Final = 255  # what a cosignature of kind 6 can commit to
MAX_TEXT: Final = 1_024

_UNFIT: Final = re.compile("[\x00-\x1f\ud800-\udfff]")
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,18}")


def read_number(digits: str, code: str) -> int:
    """Read a size or an index: decimal, without leading zeros, up to 2^63 - 1.

    Raises:
        ProofError: `code`, for anything else.
    """
    if not _NUMBER.fullmatch(digits) or int(digits) > MAX_SIZE:
        raise ProofError(code, "a number is decimal, without leading zeros, and at most 2^63 - 1")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a log.

    Attributes:
        origin: The log's name: one line, 1 to 255 bytes of UTF-8.
        size: Entries, 0 to 2^63 - 1.
        root: 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        """Check the three; a `ProofError` (``checkpoint_malformed``) where one is none."""
        check_origin(self.origin)
        if type(self.size) is not int or not 0 <= self.size <= MAX_SIZE:
            raise ProofError("checkpoint_malformed", "a size is 0 to 2^63 - 1")
        if type(self.root) is not bytes or len(self.root) != HASH_BYTES:
            raise ProofError("checkpoint_malformed", f"a root has {HASH_BYTES} bytes")

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read the text of a note; what was read writes itself as the same text again.

        Raises:
            ProofError: ``checkpoint_malformed``.
        """
        lines = text.split("\n", 4) if len(text) <= MAX_TEXT else []
        if len(lines) != 4 or lines[3]:  # noqa: PLR2004 - three lines, and nothing behind the last line feed
            raise ProofError("checkpoint_malformed", "a checkpoint is three lines: origin, size and root")
        return cls(lines[0], read_number(lines[1], "checkpoint_malformed"), decoded(lines[2], "checkpoint_malformed"))

    def text(self) -> str:
        """Write the three lines."""
        return f"{self.origin}\n{self.size}\n{encoded(self.root)}\n"


def check_origin(origin: str) -> str:
    """Return an origin: one line of 1 to 255 bytes of UTF-8, without control characters.

    Raises:
        ProofError: ``checkpoint_malformed``.
    """
    if not origin or _UNFIT.search(origin) or len(origin.encode()) > MAX_ORIGIN_BYTES:
        raise ProofError("checkpoint_malformed", f"an origin is one line of 1 to {MAX_ORIGIN_BYTES} bytes of UTF-8")
    return origin
