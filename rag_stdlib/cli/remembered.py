"""The log of a verified certificate against what its reader has seen of it before, for `rag verify --memory`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rag_stdlib.cli.logged import published

if TYPE_CHECKING:
    from rag_stdlib.proof.log.memory import Memory
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.log.tiles import Fetch

_CAUGHT: Final = ("rolled_back", "forked")
_UNSHOWN: Final = "consistency_not_shown"


@dataclass(frozen=True, slots=True)
class Seen:
    """How a log stands to what was seen of it: that it goes on from there, or the code and the words of what speaks against it."""

    outcome: Literal["passed", "refuted", "unknown"]
    code: str = ""
    words: str = ""


def compare(folder: str, log: PinnedLog, checkpoint: bytes, place: str | None) -> Seen:
    """Hold the checkpoint of a receipt, and the one that the log shows now, against what was seen, and remember the larger one.

    Args:
        folder: What was seen.
        log: What is trusted of the log.
        checkpoint: The note of the receipt, which was verified.
        place: The folder or URL where the log is published; None where it is not known, and so shows nothing.

    Raises:
        LogError: the folder cannot be used.
    """
    from rag_stdlib.proof.log.errors import LogError, ProofError
    from rag_stdlib.proof.log.memory import Memory

    memory = Memory(folder)
    try:
        if place is None:
            memory.older(log, checkpoint, _nothing_shown)
        else:
            with published(place) as fetch:
                _compare_both(memory, log, checkpoint, _Shown(fetch))
    except (_NotShownError, ProofError) as error:
        return Seen("unknown", _UNSHOWN, f"it is not shown that the log {log.origin} goes on from what was seen of it: {error}")
    except LogError as error:
        if error.code not in _CAUGHT:
            raise
        return Seen("refuted", error.code, error.words)
    return Seen("passed")


def _compare_both(memory: Memory, log: PinnedLog, checkpoint: bytes, shown: _Shown) -> None:
    from rag_stdlib.proof.log.errors import ProofError

    try:
        memory.current(log, shown.checkpoint(), shown.prove)
    except (_NotShownError, ProofError):
        memory.older(log, checkpoint, shown.prove)  # whoever shows nothing of use must not hide what the receipt alone proves
        raise
    memory.older(log, checkpoint, shown.prove)


class _NotShownError(Exception):
    """What the log would have to show is not there."""


def _nothing_shown(_old_size: int, _new_size: int) -> Sequence[bytes]:
    raise _NotShownError("give the folder or URL where it is published by --log")


class _Shown:
    """What a published log shows; that it does not is kept apart from what becomes of the folder with what was seen."""

    def __init__(self, fetch: Fetch) -> None:
        from rag_stdlib.proof.log.tiles import PublishedLog

        self._log = PublishedLog(fetch)

    def checkpoint(self) -> bytes:
        with _told():
            return self._log.checkpoint()

    def prove(self, old_size: int, new_size: int) -> Sequence[bytes]:
        with _told():
            return self._log.comparison_path(old_size, new_size)


@contextmanager
def _told() -> Iterator[None]:
    from rag_stdlib.proof.log.errors import LogError

    try:
        yield
    except LogError as error:
        raise _NotShownError(error.words) from None
