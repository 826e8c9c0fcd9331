"""What a client has seen of logs: the last checkpoint of each, so that none can go back or another way unnoticed.

It is a folder that its owner alone may use, with a file for each log: the note of its checkpoint as it came, under the name
HEX(SHA-256(origin)) ``.checkpoint``. The first note by which a log was found to have gone another way stays beside it, as ``.forked``:
the two together show what the log did.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.merkle import verify_consistency
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note
from rag_stdlib.proof.log.pinned import Head, PinnedLog
from rag_stdlib.proof.log.privatefile import changing, create_private, folder_for, read_private

Prove: TypeAlias = Callable[[int, int], Sequence[bytes]]  # asks for the proof that a tree of one size is the beginning of one of another


class Memory:
    """The checkpoints that a client saw last. Many threads and processes may share one folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Use a folder, which is made where it is missing.

        Raises:
            LogError: ``file_unsafe`` where others may write to it; ``readonly``, ``disk_full``, ``file_io``.
        """
        self._folder = folder_for(folder)

    def last(self, origin: str) -> Checkpoint | None:
        """Return the largest checkpoint that was seen of a log; None for a log that was not seen yet.

        Raises:
            LogError: ``damaged`` where the file is no checkpoint of this log; ``file_unsafe``, ``file_io``.
        """
        try:
            data = read_private(self._file(origin), MAX_NOTE_BYTES)
        except LogError as error:
            if error.code == "missing":
                return None
            raise
        return self._read(data, origin)

    def current(self, log: PinnedLog, note: bytes, prove: Prove) -> Head:
        """Verify a checkpoint that a log shows as its present one, hold it against what was seen before, and remember it.

        Args:
            log: What is pinned of the log.
            note: Of the checkpoint.
            prove: Asks for a proof of consistency, of the log or of anyone; it is verified.

        Returns:
            The verified checkpoint.

        Raises:
            ProofError: As `PinnedLog.open`.
            LogError: ``rolled_back`` where it is smaller than what was seen; ``forked`` where it is of another tree, or no proof shows that
                it is not; what `prove` raises; as `last`.
        """
        return self._meet(log, note, prove, current=True)

    def older(self, log: PinnedLog, note: bytes, prove: Prove) -> Head:
        """Do what `current` does for a checkpoint of any age, as a receipt holds it: a smaller one must be of the same tree.

        Raises:
            ProofError: As `PinnedLog.open`.
            LogError: As `current`, but ``rolled_back``.
        """
        return self._meet(log, note, prove, current=False)

    def _meet(self, log: PinnedLog, note: bytes, prove: Prove, *, current: bool) -> Head:
        head = log.open(note)
        while True:  # asking for a proof takes time, in which another process may have seen more
            seen = self.last(log.origin)
            if seen is not None:
                self._check(seen, head, prove, current=current)
            if self._keep(seen, head):
                return head

    def _check(self, seen: Checkpoint, head: Head, prove: Prove, *, current: bool) -> None:
        shown = head.checkpoint
        if current and shown.size < seen.size:
            raise LogError("rolled_back", f"the log {shown.origin} shows {shown.size} entries, and it showed {seen.size} before")
        old, new = sorted((seen, shown), key=lambda one: one.size)
        try:
            verify_consistency(old.size, old.root, new.size, new.root, prove(old.size, new.size) if 0 < old.size < new.size else [])
        except ProofError as error:
            with contextlib.suppress(LogError):
                create_private(self._file(shown.origin, "forked"), head.note)
            raise LogError("forked", f"the log {shown.origin} shows another tree than before: {error.words}") from None

    def _keep(self, seen: Checkpoint | None, head: Head) -> bool:
        """Put the checkpoint in the place of the one that was seen, if it is larger; False if that is another by now."""
        file, origin = self._file(head.checkpoint.origin), head.checkpoint.origin
        if seen is None:
            try:
                create_private(file, head.note)
            except LogError as error:
                if error.code == "exists":
                    return False
                raise
            return True
        if head.checkpoint.size <= seen.size:
            return True
        with changing(file, MAX_NOTE_BYTES) as exchange:
            if self._read(exchange.data, origin) != seen:
                return False
            exchange.put(head.note)
        return True

    def _file(self, origin: str, kind: str = "checkpoint") -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.{kind}"

    def _read(self, data: bytes, origin: str) -> Checkpoint:
        try:
            head = Checkpoint.parse(Note.parse(data).text)
        except ProofError as error:
            raise LogError("damaged", f"what was remembered of the log {origin} is no checkpoint: {error.words}") from None
        if head.origin != origin:
            raise LogError("damaged", f"what was remembered of the log {origin} is a checkpoint of {head.origin}")
        return head
