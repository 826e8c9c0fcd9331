"""The log of a verified certificate against what its reader has seen of it before, for `rag verify --memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rag_stdlib.cli.logged import is_of_service, published, size_of

if TYPE_CHECKING:
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.memory import Memory
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.log.tiles import Fetch

_BEHIND: Final = "rolled_back"
_UNSHOWN: Final = "consistency_not_shown"
_DATABASE: Final = b"SQLite format 3\0"  # how such a file begins
_KIND: Final = b"ralg"  # what stands in that of a log
_KIND_AT: Final = 68


@dataclass(frozen=True, slots=True)
class Seen:
    """How a log stands to what was seen of it: that it goes on from there, or the code and the words of what speaks against it."""

    outcome: Literal["passed", "refuted", "unknown"]
    code: str = ""
    words: str = ""


def _is_url(place: str) -> bool:
    """Tell whether a place is meant as a URL, of whatever kind."""
    return "://" in place


def unfit(place: str) -> str | None:
    """Say why no published log can be at a place, whoever serves it; None where one can be."""
    if _is_url(place):
        return None if is_of_service(place) else f"{place!r} is no http URL"
    path = Path(place)
    if path.is_dir():
        return None
    if not path.is_file():
        return f"there is no such folder: {place!r}"
    start = _start(path)
    if start.startswith(_DATABASE) and start.endswith(_KIND):
        return f"{place!r} is the log's own file; rag log tiles publishes it"
    return f"{place!r} is no folder in which a log is published"


def unfit_to_watch(place: str) -> str | None:
    """Say why no log can be at a place, in its own file or published; None where one can be, now or later."""
    if _is_url(place):
        return unfit(place)
    start = _start(Path(place)) if Path(place).is_file() else b""
    return None if not start or start.startswith(_DATABASE) else f"{place!r} is neither a log nor a folder in which one is published"


def _start(path: Path) -> bytes:
    """Read how a file begins, up to where the one of a log says that it is; nothing where it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(_KIND_AT + len(_KIND))
    return b""


def compare(folder: str, log: PinnedLog, checkpoint: bytes, place: str | None) -> Seen:
    """Hold the checkpoint of a receipt, and the one that the log shows now, against what was seen, and remember the largest one.

    Only two trees that the log signed refute. That it shows less than before may be the doing of whoever serves it, and so may it be that nothing is shown.

    Args:
        folder: What was seen.
        log: What is trusted of the log.
        checkpoint: The note of the receipt, which was verified.
        place: The folder or URL where the log is published; None where it is not known, and so shows nothing.

    Raises:
        LogError: the folder cannot be used.
    """
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.memory import Memory

    memory = Memory(folder)
    try:
        if place is None:
            doubt = _doubt(lambda: memory.older(log, checkpoint, _nothing_shown))
        else:
            with published(place) as fetch:
                doubt = _compare_both(memory, log, checkpoint, _Shown(fetch, place))
    except LogError as error:
        if error.code != "forked":
            raise
        return Seen("refuted", error.code, error.words)
    if doubt is None:
        return Seen("passed")
    if doubt.code == _BEHIND:
        return Seen("unknown", _BEHIND, doubt.words)
    return Seen("unknown", _UNSHOWN, f"it is not shown that the log {log.origin} goes on from what was seen of it: {doubt.words}")


def _compare_both(memory: Memory, log: PinnedLog, checkpoint: bytes, shown: _Shown) -> LogError | None:
    """Say what stays in doubt. The receipt comes first: whoever serves something old, or nothing of use, must not hide what it alone proves."""
    def older() -> object:
        return memory.older(log, checkpoint, shown.prove)

    of_receipt = _doubt(older)
    of_present = _doubt(lambda: memory.current(log, shown.checkpoint, shown.prove))
    if of_receipt is not None and of_present is None:
        of_receipt = _doubt(older)  # the tree that was learnt just now has the receipt's in it, or shows that it is another log's
    return of_present or of_receipt


def _doubt(step: Callable[[], object]) -> LogError | None:
    from rag_stdlib.proof.log.errors import LogError, ProofError

    try:
        step()
    except ProofError as error:
        return error
    except LogError as error:
        if error.code != _BEHIND:
            raise
        return error
    return None


def _nothing_shown(_old_size: int, _new_size: int) -> Sequence[bytes]:
    from rag_stdlib.proof.log.errors import ProofError

    raise ProofError(_UNSHOWN, "give the folder or URL where it is published by --log")


class _Shown:
    """What a published log shows. That it does not is a `ProofError`, and so apart from what becomes of the folder with what was seen."""

    def __init__(self, fetch: Fetch, place: str) -> None:
        self._fetch, self._place = fetch, place
        self._size: int | None = None  # of the tree whose files are there, as it says itself

    def checkpoint(self) -> bytes:
        from rag_stdlib.proof.log.tiles import PublishedLog

        with _told():
            note = PublishedLog(self._fetch, self._place).checkpoint()
            self._size = size_of(note)
        return note

    def prove(self, old_size: int, new_size: int) -> Sequence[bytes]:
        """Read the hashes from the files of the tree that is there; those of a smaller tree need not be."""
        from rag_stdlib.proof.log.merkle import comparison_path
        from rag_stdlib.proof.log.tiles import TiledLog

        if self._size is None:
            self.checkpoint()
        with _told():
            return comparison_path(old_size, new_size, TiledLog(self._fetch, max(new_size, self._size or 0)))


@contextmanager
def _told() -> Iterator[None]:
    from rag_stdlib.proof.log.errors import LogError, ProofError

    try:
        yield
    except LogError as error:
        raise ProofError(_UNSHOWN, error.words) from None
