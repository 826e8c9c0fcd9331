"""Entries and their receipts, as the commands make them: a log opened with its keys, an entry appended, its checkpoint cosigned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import CommandError, note
from rag_stdlib.cli.prooffiles import read_pinned

if TYPE_CHECKING:
    from rag_stdlib.proof.log.notes import VerifierKey
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.log.store import Log
    from rag_stdlib.proof.log.tiles import Fetch

WitnessUrls = Annotated[list[str] | None, typer.Option(
    "--witness", metavar="URL", help="Have this witness cosign the checkpoint; may be repeated. Their keys are those of --trust.")]
WitnessTrust = Annotated[str | None, typer.Option("--trust", metavar="FILE", help="The trust file that holds the witnesses' keys; for --witness.")]

_ROUNDS: Final = 3  # the log may grow while one witness after the other is asked
_AT_ONCE: Final = 4_096  # hashes that are read at once


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Whom to ask for cosignatures, and the keys by which they are known; nobody, where there are no URLs."""

    urls: tuple[str, ...] = ()
    trust: str | None = None

    def __post_init__(self) -> None:
        """Hold the two options together."""
        if self.urls and self.trust is None:
            raise typer.BadParameter("it needs --trust, the file that holds the witnesses' keys", param_hint="--witness")
        if self.trust is not None and not self.urls:
            raise typer.BadParameter("it is for --witness", param_hint="--trust")

    def pinned(self, origin: str) -> PinnedLog | None:
        """Return what the trust file says of this log; None where nobody is to be asked.

        Raises:
            CommandError: it says nothing of it, or names no witness.
        """
        if not self.urls or self.trust is None:
            return None
        log = read_pinned(self.trust).get(origin)
        if log is None or not log.witnesses:
            lacks = f"it does not name the log {origin}" if log is None else "it names no witness"
            raise CommandError(f"{self.trust!r} cannot serve for --witness: {lacks}")
        return log

    def cosigned(self, log: Log) -> bytes | None:
        """Have the last checkpoint of a log cosigned by all, and return its note; None where none did. Who does not is told, and is no error."""
        pinned = self.pinned(log.origin)
        if pinned is None:
            return None
        for _ in range(_ROUNDS):
            notes = [_asked(url, log, pinned.witnesses) for url in self.urls]
            found = [each for each in notes if each is not None]
            if len({size_of(each) for each in found}) < 2:  # noqa: PLR2004 - all cosigned the same tree
                break
        if not found:
            return None
        last = max(found, key=lambda each: (size_of(each), len(each)))
        count = len(cosigners(last, pinned.witnesses))
        if count < pinned.quorum:
            note(f"{count} of the witnesses cosigned, and {self.trust!r} asks for {pinned.quorum}; rag log append asks again for a certificate that is logged")
        return last


def _asked(url: str, log: Log, keys: Sequence[VerifierKey]) -> bytes | None:
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.witnessclient import WitnessClient

    try:
        with WitnessClient(url, keys) as client:
            return client.cosign(log)
    except LogError as error:
        note(f"not cosigned [{error.code}]: {error.words}")
        return None


def size_of(checkpoint: bytes) -> int:
    """Return the number of entries that a checkpoint covers."""
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note

    return Checkpoint.parse(Note.parse(checkpoint).text).size


def cosigners(checkpoint: bytes, witnesses: Sequence[VerifierKey]) -> list[str]:
    """Return the names of the witnesses that cosigned a checkpoint."""
    from rag_stdlib.proof.log.notes import Note, checked

    return sorted({key.name for key, _ in checked(Note.parse(checkpoint), witnesses, "cosignature_invalid")})


def open_log(path: str, keys: str | None = None) -> Log:
    """Open a log; without keys, to read it only."""
    from rag_stdlib.proof.log.logkeys import load_keys
    from rag_stdlib.proof.log.store import Log

    return Log(path, None if keys is None else load_keys(keys))


def receipt_of(log: Log, position: int, checkpoint: bytes | None = None) -> str:
    """Write the receipt of an entry, under a checkpoint of the log or its last one."""
    return log.receipt(position, checkpoint).to_bytes().decode()


def places_in(log: Log, entries: Sequence[bytes]) -> Mapping[bytes, int]:
    """Find those entries that a log has already, each at its first place; it reads the hashes of all, unless none is asked for."""
    from rag_stdlib.proof.log.merkle import leaf_hash

    wanted = {leaf_hash(entry): entry for entry in entries}
    found: dict[bytes, int] = {}
    size = log.size if wanted else 0
    for start in range(0, size, _AT_ONCE):
        for place, leaf in enumerate(log.hashes(0, start, min(_AT_ONCE, size - start)), start):
            if leaf in wanted:
                found.setdefault(wanted[leaf], place)
    return found


@contextmanager
def published(place: str) -> Iterator[Fetch]:
    """Give what reads the files of a log that is published in a folder or at a URL."""
    from rag_stdlib.proof.log.fetching import Folder, Site

    fetch = Site(place) if place.lower().startswith(("http://", "https://")) else Folder(place)
    with closing(fetch):
        yield fetch
