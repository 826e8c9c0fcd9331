"""`rag log new`, `append`, `checkpoint`, `prove`, `check` and `tiles`: a transparency log in one file."""

from __future__ import annotations

import base64
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_stdlib.cli.frame import INT_MAX, AsJson, CommandError, command, group, show_json
from rag_stdlib.cli.logged import (
    Witnesses,
    WitnessTrust,
    WitnessUrls,
    cosigners,
    open_log,
    places_in,
    receipt_of,
    size_of,
)
from rag_stdlib.cli.prooffiles import STREAM, proof_errors, read_bytes, read_envelope
from rag_stdlib.cli.terminal import clean, clean_block, show
from rag_stdlib.cli.tracing import check_target, write_file

if TYPE_CHECKING:
    from rag_stdlib.proof.log.store import Log

logs = group("log", "Keep, watch and publish a log of certificates.",
             "A transparency log: an append-only tree over certificates, whose signed checkpoints anyone can hold the log to. The formats are those of C2SP.")

LogFile = Annotated[str, typer.Argument(metavar="LOG", help="The file of the log.")]
LogKeyFile = Annotated[str, typer.Option("--keys", metavar="FILE", help="The keys of the log, as rag keys new --log makes them.")]
Cosigned = Annotated[bool, typer.Option("--cosigned", help="Take the last checkpoint that witnesses cosigned, rather than the last one.")]


@command("new", "Make a log.", group=logs)
def new(
    log: Annotated[str, typer.Argument(metavar="LOG", help="The new file; nothing is ever written over.")],
    keys: LogKeyFile,
) -> None:
    """Make a log without entries in a new file, whose origin is the name of its keys."""
    from rag_stdlib.proof.log.logkeys import load_keys
    from rag_stdlib.proof.log.store import Log

    with proof_errors():
        made = Log.create(log, load_keys(keys))
        made.close()
    show(f"log        {clean(made.origin)}")
    show("entries    0")


def entries(count: int) -> str:
    """Write a number of entries."""
    return "1 entry" if count == 1 else f"{count:,} entries"


@command("append", "Log certificates, and put in their receipts.", group=logs)
def append(
    log: LogFile,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Certificates; with --raw, files that are entries as they are.")],
    keys: LogKeyFile,
    witness: WitnessUrls = None,
    trust: WitnessTrust = None,
    raw: Annotated[bool, typer.Option("--raw", help="Append the bytes of files that are no certificates, and print their receipts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Append certificates to a log, all or none, and write the receipt into each file.

    A certificate that this log has already, with its receipt or without, is not appended again; it gets a new receipt where it has none, or where witnesses
    have cosigned since.
    """
    asked = Witnesses(tuple(witness or ()), trust)
    with proof_errors():
        given = [_raw(file) for file in files] if raw else [_certificate(file) for file in dict.fromkeys(files)]
        with open_log(log, keys) as opened:
            asked.pinned(opened.origin)  # refused before anything is appended
            done = _appended(opened, given, asked)
            for one in () if raw else done:
                _keep(one)
    if as_json:
        show_json([{"file": one.given.file, "origin": opened.origin, "index": one.index, "receipt": one.receipt} for one in done])
        return
    for one in done:
        if raw:
            show(clean_block(one.receipt), end="")
        else:
            show(f"{clean(one.given.file)}: entry {one.index} of {clean(opened.origin)}{'' if one.is_new else ', as before'}")


@dataclass(frozen=True, slots=True)
class _Given:
    """A file, the entry that it makes, and the certificate that it is, if it is one."""

    file: str
    entry: bytes
    envelope: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Logged:
    given: _Given
    index: int
    receipt: str
    is_new: bool


def _raw(file: str) -> _Given:
    from rag_stdlib.proof.log.store import MAX_ENTRY_BYTES

    return _Given(file, read_bytes(file, MAX_ENTRY_BYTES), {})  # one byte too many is refused by the log


def _certificate(file: str) -> _Given:
    from rag_stdlib.proof.certificate import entry_of

    if file == STREAM:
        raise typer.BadParameter("a receipt is written into the certificate's file, so name one", param_hint="FILE")
    envelope = read_envelope(file)
    check_target(file)  # what cannot take its receipt is not logged
    return _Given(file, entry_of(envelope), envelope)


def _place_of(log: Log, given: _Given) -> int | None:
    """Return where the log has a certificate already, as its receipt says; None for one without a receipt."""
    from rag_stdlib.proof.log.errors import ProofError
    from rag_stdlib.proof.log.receipts import Receipt

    file, envelope = given.file, given.envelope
    if "receipt" not in envelope:
        return None
    try:
        receipt = Receipt.parse(envelope["receipt"].encode())
        origin = receipt.checkpoint.partition(b"\n")[0].decode()
    except ProofError as error:
        raise CommandError(f"{file!r} has a receipt that is none: {error.words}") from None
    if origin != log.origin:
        raise CommandError(f"{file!r} has a receipt of the log {origin} already, and a certificate has one")
    if receipt.index >= log.size or log.entry(receipt.index) != given.entry:
        raise CommandError(f"{file!r} has a receipt of entry {receipt.index} of this log, which has another one there; see rag log check")
    return receipt.index


def _appended(log: Log, given: list[_Given], asked: Witnesses) -> list[_Logged]:
    places = [_place_of(log, each) for each in given]
    lost = places_in(log, [each.entry for each, place in zip(given, places, strict=True) if place is None and each.envelope])
    places = [lost.get(each.entry) if place is None else place for each, place in zip(given, places, strict=True)]
    fresh = [each.entry for each, place in zip(given, places, strict=True) if place is None]
    positions = iter(log.append_many(fresh).positions if fresh else ())
    indexes = [next(positions) if place is None else place for place in places]
    checkpoint = asked.cosigned(log) or _covering(log, max(indexes))
    return [_Logged(each, index, receipt_of(log, index, checkpoint), place is None) for each, index, place in zip(given, indexes, places, strict=True)]


def _covering(log: Log, index: int) -> bytes | None:
    """Return the last cosigned checkpoint if it covers an entry; None for the last one of all."""
    cosigned = log.cosigned()
    return cosigned if cosigned is not None and size_of(cosigned) > index else None


def _keep(done: _Logged) -> None:
    from rag_stdlib.proof.certificate import to_bytes

    if done.given.envelope.get("receipt") != done.receipt:
        write_file(done.given.file, to_bytes({**done.given.envelope, "receipt": done.receipt}).decode())


@command("checkpoint", "Print the last signed checkpoint.", group=logs)
def checkpoint(
    log: LogFile,
    keys: Annotated[str | None, typer.Option("--keys", metavar="FILE", help="Sign it again first, as after rag keys rotate.")] = None,
    witness: WitnessUrls = None,
    trust: WitnessTrust = None,
    cosigned: Cosigned = False,
    as_json: AsJson = False,
) -> None:
    """Print the last checkpoint of a log: a signed note of its origin, size and root.

    With --witness it is cosigned first, and the exit code is 1 where fewer witnesses do than the trust file asks for.
    """
    asked = Witnesses(tuple(witness or ()), trust)
    with proof_errors(), open_log(log, keys) as opened:
        if keys is not None:
            opened.sign_again()
        pinned = asked.pinned(opened.origin)
        text = asked.cosigned(opened) if pinned is not None else opened.cosigned() if cosigned else opened.checkpoint()
        if text is None:
            raise CommandError("no witness has cosigned a checkpoint of this log; ask one by --witness")
        _show_checkpoint(text, as_json=as_json)
        if pinned is not None and len(cosigners(text, pinned.witnesses)) < pinned.quorum:
            raise typer.Exit(1)


def _show_checkpoint(text: bytes, *, as_json: bool) -> None:
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note

    if as_json:
        parsed = Note.parse(text)
        head = Checkpoint.parse(parsed.text)
        signers = [{"name": line.name, "key_id": line.key_id.hex()} for line in parsed.signatures]
        show_json({"origin": head.origin, "size": head.size, "root": base64.b64encode(head.root).decode(), "signatures": signers, "note": text.decode()})
    else:
        show(clean_block(text.decode()), end="")


@command("prove", "Print a receipt, or a consistency proof.", group=logs)
def prove(
    context: typer.Context,
    log: LogFile,
    index: Annotated[int | None, typer.Argument(metavar="[INDEX]", min=0, help="The place of an entry, from 0: its receipt is printed.")] = None,
    since: Annotated[int | None, typer.Option("--from", metavar="SIZE", min=0, help="Print instead the proof that the tree of so many entries is the beginning of …")] = None,
    to: Annotated[int | None, typer.Option("--to", metavar="SIZE", min=0, help="… the tree of so many; otherwise of the last checkpoint.")] = None,
    cosigned: Cosigned = False,
    as_json: AsJson = False,
) -> None:
    """Print a proof: that an entry stands in the log (a receipt, C2SP tlog-proof), or that the log has only grown (hashes in base64)."""
    if (index is None) == (since is None) or (since is None and to is not None) or (since is not None and cosigned):
        context.fail("give INDEX, maybe with --cosigned, or --from, maybe with --to")
    with proof_errors(), open_log(log) as opened:
        if since is not None:
            end = opened.size if to is None else min(to, INT_MAX)
            path = [base64.b64encode(value).decode() for value in opened.consistency_path(min(since, INT_MAX), end)]
            if as_json:
                show_json({"origin": opened.origin, "from": since, "to": end, "path": path})
            else:
                show("".join(f"{value}\n" for value in path), end="")
            return
        assert index is not None  # noqa: S101 - it was looked at
        under = opened.cosigned() if cosigned else None
        if cosigned and under is None:
            raise CommandError("no witness has cosigned a checkpoint of this log; leave --cosigned out, or ask one by rag log checkpoint --witness")
        receipt = receipt_of(opened, min(index, INT_MAX), under)
        if as_json:
            show_json({"origin": opened.origin, "index": index, "receipt": receipt})
        else:
            show(clean_block(receipt), end="")


@command("check", "Compute the whole tree again.", group=logs)
def check(
    log: LogFile,
    keys: Annotated[str | None, typer.Option("--keys", metavar="FILE", help="Verify the last checkpoint's signatures as well.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read every entry of a log, compute the tree again, and hold it against the last checkpoint; exit code 1 if anything does not hold together."""
    with proof_errors(), open_log(log, keys) as opened:
        size, problems = opened.size, opened.check()
    if as_json:
        show_json({"origin": opened.origin, "size": size, "problems": problems})
    else:
        for problem in problems:
            show(f"problem: {clean(problem)}")
        if not problems:
            show(f"clean: {entries(size)} of {clean(opened.origin)}")
    if problems:
        raise typer.Exit(1)


@command("tiles", "Publish a log as a folder of static files.", group=logs)
def tiles(
    log: LogFile,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where to; made where it is missing. Any web server can serve it.")],
    cosigned: Cosigned = False,
    as_json: AsJson = False,
) -> None:
    """Publish a log as static files (C2SP tlog-tiles) beside those that are there; the checkpoint comes last. A folder that shows another tree is left as it is."""
    from rag_stdlib.proof.log.publish import publish

    with proof_errors(), closing(open_log(log)) as opened:
        text = opened.cosigned() if cosigned else None
        if cosigned and text is None:
            raise CommandError("no witness has cosigned a checkpoint of this log; leave --cosigned out, or ask one by rag log checkpoint --witness")
        head = publish(opened, folder, text)
    if as_json:
        show_json({"origin": head.origin, "size": head.size, "folder": str(Path(folder))})
    else:
        show(f"published {entries(head.size)} of {clean(head.origin)}")
