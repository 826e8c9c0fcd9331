"""Certificates into a log, and their receipts into their files: what is held to what before, which receipt stays, and what is said where one is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from rag_stdlib.cli.frame import CommandError, note
from rag_stdlib.cli.logged import MOST_NAMES, Heads, Witnesses, receipt_of
from rag_stdlib.cli.newfile import replace_file
from rag_stdlib.cli.prooffiles import STREAM, envelope_in, read_bytes, read_envelope, read_pinned, read_trust, telling
from rag_stdlib.cli.verdictwords import MEANINGS
from rag_stdlib.wholefile import beside

if TYPE_CHECKING:
    from rag_stdlib.proof.log.notes import VerifierKey
    from rag_stdlib.proof.log.receipts import Receipt
    from rag_stdlib.proof.log.store import Log
    from rag_stdlib.proof.trust import Issuer

LOGGED: Final = "logged"
RENEWED: Final = "with a new receipt"
AS_BEFORE: Final = "as before"
LEFT: Final = "left as it is"
UNWRITTEN: Final = "its receipt is not written"


@dataclass(frozen=True, slots=True)
class Given:
    """A certificate: its file, what that held, the envelope that it is, and the entry that it makes."""

    file: str
    held: bytes
    envelope: Mapping[str, Any]
    entry: bytes


@dataclass(frozen=True, slots=True)
class Logged:
    """Where a log has what a file holds, the receipt of that, and what was done about it."""

    file: str
    index: int
    receipt: str
    done: str


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the receipt of a certificate says, and is worth.

    Attributes:
        index: Where the log has the certificate; None where nothing says so.
        receipt: The receipt, if it leads from there to a checkpoint of the log.
        is_cosigned: Whether others have signed that checkpoint as well.
        is_trusted: Whether a key of the log signed it that clients may pin.
    """

    index: int | None = None
    receipt: Receipt | None = None
    is_cosigned: bool = False
    is_trusted: bool = False


def read_certificates(files: Sequence[str], issuers: Mapping[str, Issuer]) -> list[Given]:
    """Read certificates, each file once, and hold them to everything that can be computed again of them.

    Args:
        files: Their names.
        issuers: By the ids of their keys; a certificate that names such a key has to be signed by it.

    Raises:
        CommandError: a file is no certificate, or the certificate does not hold.
        typer.BadParameter: it is standard input, which takes no receipt.
    """
    names: dict[str, str] = {}
    for file in files:
        names.setdefault(os.path.realpath(file), file)
    return [_certificate(file, issuers) for file in names.values()]


def issuers_of(trust: str) -> Mapping[str, Issuer]:
    """Read the issuers of a trust file, by the ids of their keys; there may be none."""
    try:
        return read_trust(trust).issuers
    except CommandError:
        read_pinned(trust)  # it is of logs and witnesses alone, or it is said what is wrong
        return {}


def _certificate(file: str, issuers: Mapping[str, Issuer]) -> Given:
    from rag_stdlib.proof.certificate import entry_of
    from rag_stdlib.proof.strict import MAX_BYTES

    if file == STREAM:
        raise typer.BadParameter("a receipt is written into the certificate's file, so name one", param_hint="FILE")
    if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - what cannot be looked at is told when it is read
        raise CommandError(f"{file!r} cannot take a receipt: it is no regular file; name one")
    held = read_bytes(file, MAX_BYTES)
    envelope = envelope_in(file, held)
    _hold(file, envelope, issuers)
    return Given(file, held, envelope, entry_of(envelope))


def _hold(file: str, envelope: Mapping[str, Any], issuers: Mapping[str, Issuer]) -> None:
    """Verify a certificate as it will be written, for the time that it says, but for its receipt, which the log is asked about; anybody may be the issuer."""
    from rag_stdlib.proof import format as fmt
    from rag_stdlib.proof.certificate import to_bytes
    from rag_stdlib.proof.policy import Policy
    from rag_stdlib.proof.trust import Trust
    from rag_stdlib.proof.verdicts import Refuted
    from rag_stdlib.proof.verify import verify

    issued = fmt.read_time(envelope["certificate"]["issued_at"])
    assert issued is not None  # noqa: S101 - it has the form
    written = to_bytes({name: part for name, part in envelope.items() if name != "receipt"})
    verdict = verify(written, Trust(issuers), Policy(require_log=False, require_query=False), now=issued)
    if isinstance(verdict, Refuted):
        where = f" ({verdict.path})" if verdict.path else ""
        raise CommandError(f"{file!r} does not hold, so nothing is logged: {MEANINGS[verdict.code]}{where}", code=verdict.code)


def append_certificates(log: Log, given: Sequence[Given], asked: Witnesses, *, renew: bool) -> tuple[list[Logged], str]:
    """Append the certificates that the log has not, all or none, and write their receipts into the files.

    A receipt that is cosigned stays, unless `renew` is set: a new one would say less about how early the certificate was there.

    Returns:
        What was done about each; and a line on those whose receipts could not be written, empty if there are none.

    Raises:
        CommandError: a receipt is of another log, or says of this one what is not so, and nothing is logged; or something failed after that, and it says so.
        LogError: as `Log.append`.
        Stopped: Ctrl-C came when they were logged.
    """
    pinned = asked.pinned(log.origin)
    standing = [_standing(log, each, pinned.witnesses if pinned is not None else (), renew=renew) for each in given]
    waiting = [each.file for each, stands in zip(given, standing, strict=True) if renew or not (stands.is_cosigned and stands.is_trusted)]
    for file in waiting:
        _check_target(file)  # what cannot take its receipt is not logged
    placed = log.append_missing([each.entry for each, stands in zip(given, standing, strict=True) if stands.index is None])
    places, done = iter(placed.positions), []
    with telling(lambda: _unwritten(waiting)):
        heads = Heads.of(log, asked if renew or not all(stands.is_cosigned for stands in standing) else Witnesses())
        for each, stands in zip(given, standing, strict=True):
            index = next(places) if stands.index is None else stands.index
            receipt, what = _receipt(log, stands, index, heads, renew=renew)
            kept = _kept(log, each, receipt)
            if stands.index is None and index in placed.new:
                what = LOGGED
            if kept is not None and each.file in waiting:
                waiting.remove(each.file)
            done.append(Logged(each.file, index, kept or receipt, UNWRITTEN if kept is None else what))
    return done, _unwritten(waiting)


def _check_target(file: str) -> None:
    """See that a receipt can be written into a file, before its certificate is logged."""
    try:
        with beside(Path(os.path.realpath(file))):
            pass
    except OSError as error:
        raise CommandError(f"{file!r} cannot be written, and its receipt belongs into it: {error.strerror or error}; nothing is logged, so copy it to where it can be written, "
                           "and log that") from None


def _standing(log: Log, given: Given, witnesses: Sequence[VerifierKey], *, renew: bool) -> _Standing:
    """Hold the receipt of a certificate against the log. One that speaks of another log, or of another past of this one, is not to be replaced."""
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.errors import LogError, ProofError
    from rag_stdlib.proof.log.merkle import leaf_hash, verify_inclusion
    from rag_stdlib.proof.log.notes import Note, checked
    from rag_stdlib.proof.log.receipts import Receipt

    if "receipt" not in given.envelope:
        return _Standing()
    try:
        receipt = Receipt.parse(given.envelope["receipt"].encode())
    except ProofError as error:
        if renew:
            return _Standing()
        raise CommandError(f"{given.file!r} has a receipt that is none: {error.words}; --renew puts in a new one") from None
    signed = Note.parse(receipt.checkpoint)
    head, size = Checkpoint.parse(signed.text), log.size
    if head.origin != log.origin:
        raise CommandError(f"{given.file!r} has a receipt of the log {head.origin} already, and a certificate has one")
    if head.size > size:
        raise CommandError(f"{given.file!r} has a receipt of entry {receipt.index} of this log under a checkpoint of size {head.size}, and here the log has size {size}: "
                           "it went back, or is another log of the same name; append to the file that signed last")
    if receipt.index >= head.size:
        return _Standing()
    if log.entry(receipt.index) != given.entry:
        raise CommandError(_other_entry(log, given.file, receipt))
    try:
        log.own(receipt.checkpoint)
        verify_inclusion(leaf_hash(given.entry), receipt.index, head.size, receipt.path, head.root)
        checked(signed, witnesses)
    except ProofError:
        return _Standing(receipt.index)
    except LogError as error:
        raise CommandError(f"{given.file!r} has a receipt of another tree: {error.words}; see rag log check", code=error.code) from None
    is_cosigned = any(one.name != log.origin for one in signed.signatures)
    return _Standing(receipt.index, receipt, is_cosigned, log.is_trusted(receipt.checkpoint))


def _other_entry(log: Log, file: str, receipt: Receipt) -> str:
    """Say why a log has another entry where a receipt says: it is that entry's receipt, or one of another tree."""
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.merkle import leaf_hash, verify_inclusion

    try:
        head = log.own(receipt.checkpoint)
        verify_inclusion(leaf_hash(log.entry(receipt.index)), receipt.index, head.size, receipt.path, head.root)
    except LogError:
        return f"{file!r} has a receipt of entry {receipt.index} of this log, which has another one there; see rag log check"
    return (f"{file!r} is not the certificate that was logged as entry {receipt.index} of this log, whose receipt it has: it was changed since, or the receipt is another's; "
            "take the certificate as it was issued")


def _receipt(log: Log, stands: _Standing, index: int, heads: Heads, *, renew: bool) -> tuple[str, str]:
    """Return the receipt that a certificate is to have, and what that is to it."""
    head, own = heads.over(index), stands.receipt
    if own is not None and not renew:
        if stands.is_cosigned and not stands.is_trusted:
            return replace(own, checkpoint=log.sign_again(own.checkpoint)).to_bytes().decode(), RENEWED
        if stands.is_trusted and (stands.is_cosigned or head is None):
            return own.to_bytes().decode(), LEFT if stands.is_cosigned else AS_BEFORE
    made = receipt_of(log, index, head)
    return made, AS_BEFORE if own is not None and own.to_bytes().decode() == made else RENEWED


def _kept(log: Log, given: Given, receipt: str) -> str | None:
    """Write a receipt into its file, unless it is there, and return the one that is: that of another process that was quicker, maybe. None where it failed."""
    from rag_stdlib.proof.certificate import to_bytes

    if given.envelope.get("receipt") == receipt:
        return receipt
    try:
        replace_file(given.file, to_bytes({**given.envelope, "receipt": receipt}), held=given.held)
    except CommandError as error:
        there = _put_in(log, given)
        if there is None:
            note(error.error.removesuffix("; name another file"))  # the receipt belongs into this one
        return there
    return receipt


def _put_in(log: Log, given: Given) -> str | None:
    """Return the receipt that a certificate has been given since it was read, if it is one of this log."""
    from rag_stdlib.proof.certificate import entry_of

    with suppress(CommandError):
        envelope = read_envelope(given.file)
        receipt: str | None = envelope.get("receipt")
        is_new = receipt != given.envelope.get("receipt") and entry_of(envelope) == given.entry
        if is_new and _standing(log, replace(given, envelope=envelope), (), renew=False).receipt is not None:
            return receipt
    return None


def _unwritten(files: Sequence[str]) -> str:
    """Say of certificates that they are logged, and how they come to their receipts; nothing, if there are none."""
    if not files:
        return ""
    if len(files) == 1:
        return f"{files[0]!r} is logged, and its receipt is not written; the same command again writes it"
    names = [repr(file) for file in files[:MOST_NAMES]]
    more = len(files) - len(names)
    last = f"{more:,} more" if more else names.pop()
    return f"{', '.join(names)} and {last} are logged, and their receipts are not written; the same command again writes them"
