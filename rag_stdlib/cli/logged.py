"""Entries and their receipts, as the commands make them: a log opened with its keys, an entry appended, its checkpoint cosigned."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from rag_stdlib.cli.frame import CommandError, note
from rag_stdlib.cli.prooffiles import read_pinned

if TYPE_CHECKING:
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.notes import VerifierKey
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.log.store import Log
    from rag_stdlib.proof.log.tiles import Fetch

WitnessUrls = Annotated[list[str] | None, typer.Option(
    "--witness", metavar="URL", help="Have this witness cosign the checkpoint; may be repeated. Their keys are those of --trust.")]
WitnessTrust = Annotated[str | None, typer.Option("--trust", metavar="FILE", help="The trust file that holds the witnesses' keys; for --witness.")]

_ROUNDS: Final = 3  # the log may grow while one witness after the other is asked
MOST_NAMES: Final = 20  # that a command in a line lists
_CLEAR: Final = "see rag log check, and append no more before this is cleared"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Whom to ask for cosignatures, and the keys by which they are known; nobody, where there are no URLs. Who did not cosign when last asked is kept."""

    urls: tuple[str, ...] = ()
    trust: str | None = None
    _failed: dict[str, LogError] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hold the two options together, and every URL to be one."""
        if self.urls and self.trust is None:
            raise typer.BadParameter("it needs --trust, the file that holds the witnesses' keys", param_hint="--witness")
        if self.trust is not None and not self.urls:
            raise typer.BadParameter("it is for --witness", param_hint="--trust")
        if not self.urls:
            return
        from rag_stdlib.proof.log.witnessclient import without_secret

        for url in self.urls:
            if not is_of_service(url):
                raise typer.BadParameter(f"{without_secret(url)!r} is no URL of a witness, such as https://witness.example/w1", param_hint="--witness")

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

    def ask(self, log: Log) -> bytes | None:
        """Have the last checkpoint of a log cosigned by all, and return its note; None where none did. Who does not is no error: `lacking` and `short` tell it."""
        pinned = self.pinned(log.origin)
        if pinned is None:
            return None
        for _ in range(_ROUNDS):
            self._failed.clear()
            notes = [self._asked(url, log, pinned.witnesses) for url in self.urls]
            found = [each for each in notes if each is not None]
            if len({size_of(each) for each in found}) < 2:  # noqa: PLR2004 - all cosigned the same tree
                break
        return max(found, key=lambda each: (size_of(each), len(each)), default=None)

    def cosigned(self, log: Log) -> bytes | None:
        """Do as `ask`, and note at once who does not cosign, and that fewer did than the trust file asks for."""
        last, pinned = self.ask(log), self.pinned(log.origin)
        self._note_failed()
        if last is not None and pinned is not None and (count := len(cosigners(last, pinned.witnesses))) < pinned.quorum:
            note(f"{count} of the witnesses cosigned, and {self.trust!r} asks for {pinned.quorum}; rag log append --renew asks again for a certificate that is logged")
        return last

    def lacking(self, origin: str, receipts: Sequence[str]) -> str:
        """Say of receipts that fewer witnesses cosigned one than the trust file asks for, and why the others did not; empty where that is not so.

        Nothing is lacking where nobody was to be asked. Where enough did, it is noted who did not.

        Raises:
            CommandError: as `pinned`.
        """
        pinned = self.pinned(origin)
        if pinned is None:
            return ""
        count = min((_cosigners_of(each, pinned.witnesses) for each in receipts), default=pinned.quorum)
        if count >= pinned.quorum:
            self._note_failed()
            return ""
        known = len({key.name for key in pinned.witnesses})
        reasons = "; ".join(self._reasons()) or "no other was asked"
        return f"{count} of {known} witness{'' if known == 1 else 'es'} cosigned, and {self.trust!r} asks for {pinned.quorum}: {reasons}"

    def is_short(self, origin: str, receipt: str) -> bool:
        """Tell whether fewer witnesses cosigned a receipt than the trust file asks for.

        Raises:
            CommandError: as `pinned`.
        """
        pinned = self.pinned(origin)
        return pinned is not None and _cosigners_of(receipt, pinned.witnesses) < pinned.quorum

    def short(self, origin: str, log: str, keys: str, receipts: Mapping[str, str]) -> str:
        """Do as `lacking`, for certificates that are logged and written, and say by what command they come to a receipt that enough witnesses cosigned.

        Args:
            origin: The name of the log.
            log: Its file.
            keys: The file of its keys.
            receipts: Those of the certificates, by the names of their files.
        """
        said, pinned = self.lacking(origin, list(receipts.values())), self.pinned(origin)
        if not said or pinned is None:
            return ""
        counts = {file: _cosigners_of(receipt, pinned.witnesses) for file, receipt in receipts.items()}
        files = [file for file, count in counts.items() if count < pinned.quorum]
        named = map(shlex.quote, files) if len(files) <= MOST_NAMES else ["FILE..."]
        renew = ["--renew"] if any(counts[file] for file in files) else []  # what somebody cosigned stays, without it
        return self._and_later(said, ["rag log append", shlex.quote(log), *named, "--keys", shlex.quote(keys), *renew])

    def short_checkpoint(self, origin: str, log: str, receipts: Sequence[str]) -> str:
        """Do as `lacking`, for entries that are no certificates, whose receipts are printed."""
        said = self.lacking(origin, receipts)
        return said and self._and_later(said, ["rag log checkpoint", shlex.quote(log)], ", and rag log prove --cosigned prints it")

    def _and_later(self, said: str, words: Sequence[str], more: str = "") -> str:
        from rag_stdlib.proof.log.witnessclient import without_secret

        urls = [word for url in self.urls for word in ("--witness", shlex.quote(without_secret(url)))]
        when = "once it is cleared" if self._not_continued() else "later"
        return f"{said}; {' '.join([*words, *urls, '--trust', shlex.quote(str(self.trust))])} gets a cosigned receipt {when}{more}"

    def _asked(self, url: str, log: Log, keys: Sequence[VerifierKey]) -> bytes | None:
        from rag_stdlib.proof.log.errors import LogError
        from rag_stdlib.proof.log.witnessclient import WitnessClient

        try:
            with WitnessClient(url, keys) as client:
                return client.cosign(log)
        except LogError as error:
            self._failed[url] = error
            return None

    def _note_failed(self) -> None:
        for url, error in self._failed.items():
            more = f"; {_CLEAR}" if url in self._not_continued() else ""
            note(f"not cosigned [{error.code}]: {error.words}{more}")

    def _not_continued(self) -> list[str]:
        from rag_stdlib.proof.log.witnessclient import NotContinued

        return [url for url, error in self._failed.items() if isinstance(error, NotContinued)]

    def _reasons(self) -> list[str]:
        """Say of each witness that did not cosign why; what a log has to clear comes first."""
        from rag_stdlib.proof.log.witnessclient import without_secret

        first = self._not_continued()
        reasons = [f"the witness {without_secret(url)} says that the log does not continue what it cosigned: {_CLEAR}" for url in first]
        for url, error in self._failed.items():
            if url not in first:
                shown = without_secret(url)
                reasons.append(error.words if shown in error.words else f"the witness {shown}: {error.words}")
        return reasons


def is_of_service(url: str) -> bool:
    """Tell whether requests can go below a URL."""
    import httpx

    try:
        httpx.URL(url)
        read = urlsplit(url)  # which refuses brackets that hold no address
    except (httpx.InvalidURL, ValueError):
        return False
    return read.scheme in ("http", "https") and bool(read.hostname) and not read.query and not read.fragment


def size_of(checkpoint: bytes) -> int:
    """Return the number of entries that a checkpoint covers."""
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note

    return Checkpoint.parse(Note.parse(checkpoint).text).size


def cosigners(checkpoint: bytes, witnesses: Sequence[VerifierKey]) -> list[str]:
    """Return the names of the witnesses that cosigned a checkpoint."""
    from rag_stdlib.proof.log.notes import Note, checked

    return sorted({key.name for key, _ in checked(Note.parse(checkpoint), witnesses, "cosignature_invalid")})


def _cosigners_of(receipt: str, witnesses: Sequence[VerifierKey]) -> int:
    """Count the witnesses that cosigned the checkpoint of a receipt; none, where a cosignature does not hold."""
    from rag_stdlib.proof.log.errors import ProofError
    from rag_stdlib.proof.log.receipts import Receipt

    with suppress(ProofError):
        return len(cosigners(Receipt.parse(receipt.encode()).checkpoint, witnesses))
    return 0


def open_log(path: str, keys: str | None = None) -> Log:
    """Open a log; without keys, to read it only."""
    from rag_stdlib.proof.log.logkeys import load_keys
    from rag_stdlib.proof.log.store import Log

    return Log(path, None if keys is None else load_keys(keys))


def receipt_of(log: Log, position: int, checkpoint: bytes | None = None) -> str:
    """Write the receipt of an entry, under a checkpoint of the log or its last one."""
    return log.receipt(position, checkpoint).to_bytes().decode()


@dataclass(frozen=True, slots=True)
class Heads:
    """The checkpoints that receipts can be made under; each of them is signed by a key that clients may pin.

    Attributes:
        cosigned: The one that was cosigned just now, and the last one that was before; of both there may be none.
        witnesses: By whose number they are compared.
    """

    cosigned: tuple[bytes, ...]
    witnesses: tuple[VerifierKey, ...]

    @classmethod
    def of(cls, log: Log, asked: Witnesses) -> Heads:
        """Sign the last checkpoint again, if only keys did that nobody is to trust, and have witnesses cosign it.

        Raises:
            CommandError: as `Witnesses.pinned`.
            LogError: as `Log.sign_again`.
        """
        if not log.is_trusted(log.checkpoint()):
            log.sign_again()
        pinned, before = asked.pinned(log.origin), log.cosigned()
        found = (asked.ask(log), before)
        return cls(tuple(each for each in found if each is not None), () if pinned is None else pinned.witnesses)

    def over(self, index: int) -> bytes | None:
        """Return the cosigned checkpoint that covers an entry and that most witnesses cosigned, of two the later; None where the log's last one is to serve."""
        fit = [each for each in self.cosigned if size_of(each) > index]
        return max(fit, key=lambda each: len(cosigners(each, self.witnesses)), default=None)


@contextmanager
def published(place: str) -> Iterator[Fetch]:
    """Give what reads the files of a log that is published in a folder or at a URL."""
    from rag_stdlib.proof.log.fetching import Folder, Site

    fetch = Site(place) if place.lower().startswith(("http://", "https://")) else Folder(place)
    with closing(fetch):
        yield _discreet(fetch, place) if isinstance(fetch, Site) else fetch


def _discreet(fetch: Fetch, url: str) -> Fetch:
    """Read below a URL, and tell what fails there without a name and a password that the URL has."""
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.witnessclient import without_secret

    base = url.rstrip("/")

    def read(name: str, most: int) -> bytes | None:
        try:
            return fetch(name, most)
        except LogError as error:
            raise type(error)(error.code, error.words.replace(base, without_secret(base))) from None

    return read
