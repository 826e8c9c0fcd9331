"""`rag keys new`, `rotate`, `retire` and `show`: the keys of issuers, of logs and of witnesses, each in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from rag_stdlib.cli.frame import CommandError, command, group, note, show_json
from rag_stdlib.cli.prooffiles import number, proof_errors
from rag_stdlib.cli.terminal import clean, show

if TYPE_CHECKING:
    from rag_stdlib.proof.issuerkeys import IssuerKeys
    from rag_stdlib.proof.log.logkeys import LogKeys

    Keys: TypeAlias = "IssuerKeys | LogKeys"

chains = group("keys", "Make and change the keys that sign answers.",
               "Keys of those who issue certificates, of logs, and of witnesses of logs. Each of the three is a file of its own, which its owner alone may use.")

KeyFile = Annotated[str, typer.Argument(metavar="FILE", help="The file of the keys.")]

_KINDS: Final[Mapping[int, str]] = {1: "Ed25519, signs", 4: "Ed25519, cosigns", 6: "ML-DSA-44, cosigns"}
_DAY_S: Final = 86_400
_LONGEST_DAYS: Final = 36_500
_COPIES: Final = "a secret was taken out of the file; copies of the file from before still hold it, so destroy them"


@command("new", "Make a key of an issuer, a log or a witness.", group=chains)
def new(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The new file; nothing is ever written over.")],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Of an issuer: the name that its certificates bear.")] = None,
    log: Annotated[str | None, typer.Option("--log", metavar="ORIGIN", help="Of a log: its origin, a name like a URL without a scheme.")] = None,
    witness: Annotated[str | None, typer.Option("--witness", metavar="NAME", help="Of a witness: a name of the same kind.")] = None,
) -> None:
    """Make the keys of an issuer, a log or a witness in a new file that you alone can read, and show their public halves.

    Who has the file can sign in this name; who loses it needs another name, or a rotation in time.
    """
    from rag_stdlib.proof.issuerkeys import new_issuer_keys
    from rag_stdlib.proof.log.logkeys import LOG_KINDS, WITNESS_KINDS, new_keys

    given = [each for each in (name, log, witness) if each is not None]
    if len(given) != 1:
        context.fail("give one of --name, --log and --witness")
    option = "--name" if name is not None else "--log" if log is not None else "--witness"
    _check_name(given[0], option)
    made: Keys
    with proof_errors(), _fit():
        if name is not None:
            made = new_issuer_keys(file, name, datetime.now(timezone.utc))
        else:
            made = new_keys(file, given[0], LOG_KINDS if log is not None else WITNESS_KINDS)
    note(f"made {file!r}; keep it to yourself, and keep a copy in a safe place")
    _show(made)


def _check_name(name: str, option: str) -> None:
    """Refuse a name that no party of this kind can have."""
    from rag_stdlib.proof.issuerkeys import check_issuer_name
    from rag_stdlib.proof.log.errors import ProofError
    from rag_stdlib.proof.log.keytext import check_name

    if clean(name) != name or not name.strip():
        raise typer.BadParameter(f"{name!r} is no name that a terminal can show", param_hint=option)
    scheme, has_scheme, _ = name.partition("://")
    if has_scheme and option != "--name":
        raise typer.BadParameter(f"it is a name like a URL, without {scheme}://", param_hint=option)
    try:
        check_issuer_name(name) if option == "--name" else check_name(name)
    except ValueError as error:
        raise typer.BadParameter(error.words if isinstance(error, ProofError) else str(error), param_hint=option) from None


@contextmanager
def _fit() -> Iterator[None]:
    """End the command with one line for a name or a time that an issuer's keys cannot have."""
    from rag_stdlib.proof.log.errors import LogError

    try:
        yield
    except LogError:  # some are values as well, and have a code to be told
        raise
    except ValueError as error:
        raise CommandError(str(error)) from None


@command("rotate", "Add a key that signs from now on.", group=chains)
def rotate(
    file: KeyFile,
    overlap: Annotated[float | None, typer.Option(
        "--overlap", metavar="DAYS", min=0, max=_LONGEST_DAYS,
        help="For an issuer: until when what the key before issued verifies without witnesses; 90 days otherwise, as long as certificates last; more where they have a longer --lifetime.")] = None,
) -> None:
    """Add a key that signs from now on, and show all: give the new public halves soon to those who verify.

    An issuer's key from before signs no more, and its secret is taken out of the file. What it issued verifies until the overlap is over, and after that only
    where witnesses had cosigned in time. Old keys of a log or a witness sign together with the new ones until rag keys retire ends them.
    """
    from rag_stdlib.proof.issuerkeys import OVERLAP_S, IssuerKeys, rotate_issuer_keys
    from rag_stdlib.proof.log.logkeys import rotate as rotate_log_keys

    made: Keys
    days = number(overlap, "--overlap")
    with proof_errors(), _fit():
        if isinstance(held_in(file), IssuerKeys):
            made = rotate_issuer_keys(file, datetime.now(timezone.utc), OVERLAP_S if days is None else round(days * _DAY_S))
            note(_COPIES)
        elif days is not None:
            raise typer.BadParameter("it is for keys of issuers; old keys of logs and witnesses sign until rag keys retire", param_hint="--overlap")
        else:
            made = rotate_log_keys(file)
    _show(made)


@command("retire", "End the use of a key.", group=chains)
def retire(
    file: KeyFile,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, as rag keys show prints it; of an issuer's, the first eight digits will do.")],
    compromised: Annotated[bool, typer.Option("--compromised", help="The key got into other hands: forget it, so that trust files written from now on do not list it. "
                                                                    "What it alone has signed does not verify by them any more.")] = False,
) -> None:
    """End the use of a key, once those who verify know the one that took its place.

    A key of a log or a witness signs no more, and its secret is taken out of the file; trust files go on listing it, for what it has signed. A key of an issuer
    that rag keys rotate has superseded ends now rather than with the overlap: what it issued verifies only where witnesses had cosigned by now.
    """
    from rag_stdlib.proof.issuerkeys import IssuerKeys, retire_issuer_key
    from rag_stdlib.proof.log.logkeys import retire as retire_key

    made: Keys
    with proof_errors(), _fit():
        held = held_in(file)
        if isinstance(held, IssuerKeys):
            made = retire_issuer_key(file, key_id, datetime.now(timezone.utc), compromised=compromised)
        else:
            made = retire_key(file, key_id, compromised=compromised)
            if len(made.signers) < len(held.signers):
                note(_COPIES)
    if compromised:
        note("give a new trust file to all who verify: by the one that they have, the key is still good")
    _show(made)


@command("show", "Show public keys, or write a trust file.", group=chains)
def show_(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of keys, of any kind.")],
    trust: Annotated[bool, typer.Option("--trust", help="Print what relying parties put into their trust file, as JSON.")] = False,
) -> None:
    """Show the public halves of keys, and since when and until when they are valid. No secret is ever shown.

    With --trust the keys of all files make one trust file, in which every witness has to have cosigned: lower its quorum to ask for fewer. It lists retired
    keys too, for what they have signed.
    """
    with proof_errors():
        held = [held_in(file) for file in files]
    if trust:
        made = trusting(held)
        if "issuers" not in made:
            note("no issuer is in it; rag verify needs one, so give the file of the issuer's keys as well")
        show_json(made)
        return
    for place, keys in enumerate(held):
        if place:
            show("")
        _show(keys)


def held_in(path: str) -> Keys:
    """Read keys of the kind as which a file begins.

    Raises:
        LogError: as `load_keys`.
    """
    from rag_stdlib.proof.issuerkeys import load_issuer_keys, may_hold_issuer_keys
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.logkeys import load_keys, may_hold_log_keys

    if may_hold_issuer_keys(path):
        return load_issuer_keys(path)
    if may_hold_log_keys(path):
        return load_keys(path)
    raise LogError("file_foreign", f"{path!r} holds no keys as rag keys new makes them")


def trusting(held: list[Keys]) -> dict[str, Any]:
    """Make the content of a trust file; what there is none of is left out, and what is held twice counts once.

    Raises:
        CommandError: they cannot be trusted together, as two states of one file whose key was retired in between.
    """
    from rag_stdlib.proof.issuerkeys import IssuerKeys
    from rag_stdlib.proof.trust import TrustError, logs_from_json

    issuers = [one for keys in held if isinstance(keys, IssuerKeys) for one in keys.trusted()]
    others = [keys for keys in held if not isinstance(keys, IssuerKeys)]
    witnesses = [keys for keys in others if is_witness(keys)]
    origins = dict.fromkeys(keys.name for keys in others if not is_witness(keys))
    logs = [{"origin": origin, "keys": _texts([keys for keys in others if keys.name == origin and not is_witness(keys)])} for origin in origins]
    quorum = {"quorum": len({keys.name for keys in witnesses})} if witnesses else {}
    parts = {"issuers": [one for place, one in enumerate(issuers) if one not in issuers[:place]], "logs": logs, "witnesses": _texts(witnesses)}
    made: dict[str, Any] = {name: part for name, part in parts.items() if part} | quorum
    try:
        logs_from_json(made)
    except TrustError as error:
        raise CommandError(f"these files make no trust file: {error}; give of each party's files the newest alone") from None
    return made


def _texts(held: list[LogKeys]) -> list[str]:
    """Give what clients pin of keys: each once, and none that one of the files says is compromised."""
    compromised = {key.text() for keys in held for key in keys.compromised}
    return [text for text in dict.fromkeys(key.text() for keys in held for key in keys.trusted) if text not in compromised]


def is_witness(keys: LogKeys) -> bool:
    """Tell whether keys cosign the checkpoints of logs, rather than sign those of one."""
    from rag_stdlib.proof.log.logkeys import WITNESS_KINDS

    return all(key.kind in WITNESS_KINDS for key in keys.signing)


def _show(keys: Keys) -> None:
    from rag_stdlib.proof.issuerkeys import IssuerKeys

    if isinstance(keys, IssuerKeys):
        show(f"issuer     {clean(keys.name)}")
        for key in keys.keys:
            until = "" if key.not_after is None else f", until {key.not_after}"
            show(f"key        {key.key_id}")
            show(f"           from {key.not_before}{until}{', signs' if key == keys.signing else ''}")
        return
    show(f"{'witness' if is_witness(keys) else 'log':<11}{clean(keys.name)}")
    for old in keys.retired:
        show(f"key        {old.key_id.hex()}  retired")
    for signing in keys.signing:
        show(f"key        {signing.key_id.hex()}  {_KINDS[signing.kind]}")
