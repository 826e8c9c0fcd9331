"""What a client has seen of logs: the last checkpoint of each, so that none can go back or another way unnoticed.

It is a folder that its owner alone may write to, with a file for each log: the note of its checkpoint as it came, under the name
HEX(SHA-256(origin)) ``.checkpoint``. A log is held to all that it signed, whoever has cosigned it: a fork that witnesses refused to cosign is a fork, and a
checkpoint that none of them was asked about yet is one that the log has to go on from. So what is remembered may be ahead of what was cosigned, and vouches for
nothing but that the log signed it. What first proved that a log has gone another way stays beside it, as ``.forked``: JSON with the two notes,
as ``remembered`` and ``shown``, and ``path``, the hashes (base64) by which `merkle.compare` tells of their roots that they are of different trees.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.merkle import compare
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note
from rag_stdlib.proof.log.pinned import Head, PinnedLog
from rag_stdlib.proof.log.privatefile import changing, create_private, folder_for, read_private

Show: TypeAlias = Callable[[], bytes]  # asks for the note of the checkpoint that the log shows at present
Prove: TypeAlias = Callable[[int, int], Sequence[bytes]]  # asks for the hashes that lead to the roots of two sizes, as `merkle.comparison_path` gives them

FORK_SCHEMA: Final = "rag-stdlib/log-fork/v1"


class Memory:
    """The checkpoints that a client saw last. Many threads and processes may share one folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Use a folder, which is made where it is missing.

        Raises:
            LogError: ``file_unsafe`` where others may write to it; ``file_foreign`` where it is no folder; ``readonly``, ``disk_full``, ``file_io``.
        """
        try:
            self._folder = folder_for(folder)
        except LogError as error:
            if error.code == "exists":
                raise LogError("file_foreign", f"{os.fspath(folder)!r} is no folder, which is needed to remember logs in; name another one") from None
            raise

    def last(self, origin: str) -> Checkpoint | None:
        """Return the largest checkpoint that was seen of a log; None for a log that was not seen yet.

        Raises:
            LogError: ``damaged`` where the file is no checkpoint of this log; ``file_unsafe``, ``file_io``.
        """
        found = self._last(origin)
        return None if found is None else found[1]

    def current(self, log: PinnedLog, show: Show, prove: Prove) -> Head:
        """Verify the checkpoint that a log shows at present, hold it against what was seen before, and remember it if it is larger.

        A smaller one proves nothing by itself: the log signed it once, and may have gone back, or whoever serves it is behind. Only what was remembered before it was
        asked for counts there, so that nobody takes it for a step back that another process saw the log grow meanwhile.

        Args:
            log: What is pinned of the log. Its witnesses are not asked for; who relies on a checkpoint for their sake opens it by `PinnedLog.open` besides.
            show: Asks for the note of the checkpoint.
            prove: Asks the log, or anyone, for the hashes between two trees; nothing is believed of them. A path of consistency will do, but where the smaller
                tree has a power of two of entries it cannot show that the log forked.

        Returns:
            The checkpoint, and the keys by which the log signed it.

        Raises:
            ProofError: As `PinnedLog.open`, except for witnesses; ``consistency_not_shown`` where the hashes lead to no signed root, whoever is to blame for them.
            LogError: ``forked`` where the two signed checkpoints are proven to be of different trees, whichever is larger; ``rolled_back`` where it is smaller
                than what was seen, and that is not proven; what `show` and `prove` raise; as `last`. What is remembered stays as it was.
        """
        before = self._last(log.origin)
        head = log.by_itself().open(show())
        if before is None or head.checkpoint.size >= before[1].size:
            return self._meet(head, prove)
        with contextlib.suppress(ProofError):  # of which tree it is need not be shown
            self._meet(head, _as_far_as_shown(prove))
        raise LogError("rolled_back", f"the log {log.origin} shows a tree of size {head.checkpoint.size}, and it showed one of size {before[1].size} before: "
                       "it went back, or whoever serves it is behind")

    def older(self, log: PinnedLog, note: bytes, prove: Prove) -> Head:
        """Verify a checkpoint of any age, as a receipt holds it, hold it against what was seen before, and remember it if it is larger.

        The arguments, the result and the errors are those of `current`, with the note as it is at hand, but that none is ``rolled_back``.
        """
        return self._meet(log.by_itself().open(note), prove)

    def _meet(self, head: Head, prove: Prove) -> Head:
        while True:  # asking for a proof takes time, in which another process may have seen more
            last = self._last(head.checkpoint.origin)
            if last is not None:
                self._check(*last, head, prove)
            if self._keep(None if last is None else last[1], head):
                return head

    def _last(self, origin: str) -> tuple[bytes, Checkpoint] | None:
        """Read the note that is remembered, and its checkpoint."""
        try:
            note = read_private(self._file(origin), MAX_NOTE_BYTES)
        except LogError as error:
            if error.code == "missing":
                return None
            raise
        return note, _read(note, origin, self._file(origin))

    def _check(self, last: bytes, seen: Checkpoint, head: Head, prove: Prove) -> None:
        """Hold a checkpoint against the one that was seen, whose note is `last`."""
        shown = head.checkpoint
        old, new = sorted((seen, shown), key=lambda one: one.size)
        try:
            path = prove(old.size, new.size) if 0 < old.size < new.size else ()
        except ProofError as error:
            raise ProofError("consistency_not_shown", error.words) from None
        found = compare(old.size, old.root, new.size, new.root, path)
        if found == "not_shown":
            raise ProofError("consistency_not_shown", f"the hashes between the sizes {old.size} and {new.size} of the log {shown.origin} do not lead to what it signed; "
                             "whoever serves them may be at fault")
        if found == "another":
            with contextlib.suppress(LogError):  # one that is there stays, and what is found out is told in any case
                create_private(self._file(shown.origin, "forked"), _evidence(last, head.note, path))
            signed = f"two trees of size {new.size}" if old.size == new.size else f"a tree of size {new.size} that does not continue its tree of size {old.size}"
            raise LogError("forked", f"the log {shown.origin} shows another tree than before: it signed {signed}")

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
            if _read(exchange.data, origin, file) != seen:
                return False
            exchange.put(head.note)
        return True

    def _file(self, origin: str, kind: str = "checkpoint") -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.{kind}"


def _as_far_as_shown(prove: Prove) -> Prove:
    """Have no hashes where asking for them fails."""
    def proved(old_size: int, new_size: int) -> Sequence[bytes]:
        try:
            return prove(old_size, new_size)
        except LogError:
            return ()

    return proved


def _read(data: bytes, origin: str, file: Path) -> Checkpoint:
    what, advice = f"what was remembered of the log {origin} in {str(file)!r} is", "put a good copy there, or move the file away if you accept to forget what you saw of this log"
    try:
        head = Checkpoint.parse(Note.parse(data).text)
    except ProofError as error:
        raise LogError("damaged", f"{what} no checkpoint: {error.words}; {advice}") from None
    if head.origin != origin:
        raise LogError("damaged", f"{what} a checkpoint of {head.origin}; {advice}")
    return head


def _evidence(last: bytes, shown: bytes, path: Sequence[bytes]) -> bytes:
    value = {"schema": FORK_SCHEMA, "remembered": last.decode(), "shown": shown.decode(), "path": [base64.b64encode(each).decode() for each in path]}
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
