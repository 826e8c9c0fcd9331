"""`rag log new`, `append`, `checkpoint`, `prove`, `check` and `tiles`: a transparency log in one file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import INT_MAX, AsJson, CommandError, command, group, show_json
from rag_stdlib.cli.logappend import LOGGED, append_certificates, issuers_of, read_certificates
from rag_stdlib.cli.logged import (
    Heads,
    Witnesses,
    WitnessTrust,
    WitnessUrls,
    cosigners,
    open_log,
    receipt_of,
)
from rag_stdlib.cli.prooffiles import proof_errors, read_bytes, telling
from rag_stdlib.cli.terminal import clean, clean_block, show

if TYPE_CHECKING:
    from rag_stdlib.proof.log.store import Log

logs = group("log", "Keep, watch and publish a log of certificates.",
             "A transparency log: an append-only tree over certificates, whose signed checkpoints anyone can hold the log to. The formats are those of C2SP.")

LogFile = Annotated[str, typer.Argument(metavar="LOG", help="The file of the log.")]
LogKeyFile = Annotated[str, typer.Option("--keys", metavar="FILE", help="The keys of the log, as rag keys new --log makes them.")]
_NODE_KEY: Final = b"macula-node-key-seed-"  # how the file of one begins

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
    trust: Annotated[str | None, typer.Option(
        "--trust", metavar="FILE", help="The trust file that holds the witnesses' keys, and maybe those of issuers.")] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Put in new receipts, also in the place of those that witnesses have cosigned.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Append the bytes of files that are no certificates, and print their receipts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Append certificates to a log, all or none, and write the receipt into each file.

    A certificate that this log has already, with its receipt or without, is not appended again. A receipt that witnesses have cosigned is left as it is; any
    other gives way to one that they have, where there is one.

    Whoever appends vouches for nothing: that a certificate is in a log does not say that it is by the issuer that it names. What does not fit together is refused,
    and with --trust what an issuer in that file should have signed and did not.
    """
    asked = Witnesses(tuple(witness or ()), trust if witness or raw else None)
    if raw:
        if renew:
            raise typer.BadParameter("it is for certificates", param_hint="--renew")
        _append_raw(log, files, keys, asked, as_json=as_json)
        return
    with proof_errors():
        issuers = {} if trust is None else issuers_of(trust)
        if trust is not None and not witness and not issuers:
            raise CommandError(f"{trust!r} is of no use here: it names no issuer, and without --witness nobody is asked to cosign")
        given = read_certificates(files, issuers)
        with open_log(log, keys) as opened:
            done, unwritten = append_certificates(opened, given, asked, renew=renew)
        with telling(lambda: unwritten):
            short = asked.short(opened.origin, log, keys, {one.file: one.receipt for one in done})
            lacking = {one.file for one in done if short and asked.is_short(opened.origin, one.receipt)}
    if as_json:
        show_json([{"file": one.file, "origin": opened.origin, "index": one.index, "receipt": one.receipt, "done": one.done,
                    "short": short if one.file in lacking else None} for one in done])
    for one in () if as_json else done:
        show(f"{clean(one.file)}: entry {one.index} of {clean(opened.origin)}{'' if one.done == LOGGED else f', {one.done}'}")
    if unwritten or short:
        raise CommandError("; ".join(filter(None, (unwritten, short))), code="quorum_missing" if short else "")


def _append_raw(log: str, files: Sequence[str], keys: str, asked: Witnesses, *, as_json: bool) -> None:
    with proof_errors():
        data = [_entry(file) for file in files]
        with open_log(log, keys) as opened:
            asked.pinned(opened.origin)  # refused before anything is appended
            positions = opened.append_many(data).positions
            with telling(lambda: f"the files are logged, from entry {positions.start} on; rag log prove prints their receipts"):
                heads = Heads.of(opened, asked)
                receipts = [receipt_of(opened, index, heads.over(index)) for index in positions]
                short = asked.short_checkpoint(opened.origin, log, receipts)
    if as_json:
        show_json([{"file": file, "origin": opened.origin, "index": index, "receipt": receipt, "short": short or None}
                   for file, index, receipt in zip(files, positions, receipts, strict=True)])
    for receipt in () if as_json else receipts:
        show(clean_block(receipt), end="")
    if short:
        raise CommandError(short, code="quorum_missing")


def _entry(file: str) -> bytes:
    """Read a file as an entry. What is logged is for everyone to read, so secret keys are refused."""
    from rag_stdlib.proof import issuerkeys
    from rag_stdlib.proof.log import logkeys
    from rag_stdlib.proof.log.store import MAX_ENTRY_BYTES

    data = read_bytes(file, MAX_ENTRY_BYTES)
    if len(data) > MAX_ENTRY_BYTES:
        raise CommandError(f"{file!r} has more than {MAX_ENTRY_BYTES:,} bytes, which is the most that an entry has; nothing is logged", code="entry_too_large")
    if data.startswith(_NODE_KEY) or logkeys.BEGINNING.match(data) or issuerkeys.BEGINNING.match(data):
        raise CommandError(f"{file!r} holds secret keys, and what is in a log is for everyone to read; nothing is logged")
    return data


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
        text = asked.cosigned(opened) if pinned is not None else _cosigned(opened) if cosigned else opened.checkpoint()
        if text is None:
            raise CommandError("no witness has cosigned the checkpoint")
        _show_checkpoint(text, as_json=as_json)
        if pinned is not None and len(cosigners(text, pinned.witnesses)) < pinned.quorum:
            raise typer.Exit(1)


def _cosigned(log: Log) -> bytes:
    """Return the last checkpoint that was cosigned, and that a key of the log signed that clients may pin."""
    text = log.cosigned()
    if text is None:
        raise CommandError("no witness has cosigned a checkpoint of this log that its present keys signed; rag log checkpoint asks one by --witness, "
                           "and signs again by --keys")
    return text


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
    since: Annotated[int | None, typer.Option("--from", metavar="SIZE", min=0, help="Print instead the proof that the tree of so many entries is the beginning of a later one.")] = None,
    to: Annotated[int | None, typer.Option("--to", metavar="SIZE", min=0, help="For --from: the size of the later tree; otherwise it is that of the last checkpoint.")] = None,
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
        receipt = receipt_of(opened, min(index, INT_MAX), _cosigned(opened) if cosigned else None)
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

    if not folder.strip():
        raise typer.BadParameter("it is empty; name a folder", param_hint="FOLDER")
    with proof_errors(), closing(open_log(log)) as opened:
        head = publish(opened, folder, _cosigned(opened) if cosigned else None)
    if as_json:
        show_json({"origin": head.origin, "size": head.size, "folder": str(Path(folder))})
    else:
        show(f"published {entries(head.size)} of {clean(head.origin)}")
