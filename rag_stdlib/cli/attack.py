"""`rag attack`: every attack on a certificate that is known, run against the verifier."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, show_json
from rag_stdlib.cli.prooffiles import TrustFile, proof_errors, read_envelope, read_policy, read_trust
from rag_stdlib.cli.terminal import clean, plural, show, styled
from rag_stdlib.cli.tracing import columns

if TYPE_CHECKING:
    from rag_stdlib.proof.attacks.attack import Asked
    from rag_stdlib.proof.attacks.scene import Insider, Scene
    from rag_stdlib.proof.attacks.table import Row
    from rag_stdlib.proof.log.notes import NoteSigner
    from rag_stdlib.proof.policy import Policy
    from rag_stdlib.proof.trust import Trust

_UNUSABLE: Final = 2
_ORIGIN: Final = "attack.invalid/log"  # a name that no log on the net has (RFC 2606)
_SEED_BYTES: Final = 32
_COLUMNS: Final[tuple[tuple[str, Callable[[Row], str]], ...]] = (
    ("attack", lambda row: clean(row.id)), ("by", lambda row: row.attacker), ("came out as", lambda row: row.got))


@command("attack", "Run the known attacks on a certificate.")
def attack(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A certificate that holds.")],
    trust: TrustFile,
    query: Annotated[str | None, typer.Option("--query", metavar="QUESTION", help="The question that it answers.")] = None,
    policy: Annotated[str | None, typer.Option("--policy", metavar="FILE", help="The policy to verify by, as for rag verify.")] = None,
    keys: Annotated[str | None, typer.Option("--keys", metavar="FILE", help="The issuer's keys: run also the attacks of an issuer who lies.")] = None,
    node_key: Annotated[str | None, typer.Option("--node-key", metavar="FILE", help="The key of the mesh node that signed it as well; for --keys.")] = None,
    other: Annotated[str | None, typer.Option("--other", metavar="FILE", help="Another certificate by the same issuer, to swap parts with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a certificate in every way that is known - by name, and each of its parts in turn - and look what the verifier makes of it.

    Nothing is logged and no file is changed. What an issuer who lies has logged is logged in a log of this command's own, which is trusted for this once.
    Attackers: no_key changes it and signs nothing; own_key signs with a key of his own, own_named_key names that key as well; issuer is the issuer who lies and
    signs; issuer_logged logs that too.
    Exit codes: 0 everything came out as it has to; 1 something did not; 2 usage, or a file that cannot be used.
    """
    with proof_errors(_UNUSABLE):
        stage = _staged(read_envelope(file), read_trust(trust), read_policy(policy), query, other)
        if keys is not None:
            stage = _with_insider(stage, keys, node_key)
        elif node_key is not None:
            raise typer.BadParameter("it is for --keys", param_hint="--node-key")
        named, changes = stage.rows()
    if stage.skips_query:
        note("the question was left out; give it by --query, without which rag verify calls this certificate unknown")
    rows = [*named, *changes]
    if as_json:
        show_json([{"id": row.id, "title": row.title, "attacker": row.attacker, "expected": row.expected, "got": row.got, "ok": row.ok} for row in rows])
    else:
        _show(named, changes)
    if not all(row.ok for row in rows):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A certificate under attack, and what its verifier is given."""

    scene: Scene
    query: str | None
    now: datetime
    skips_query: bool  # that the policy asks for

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Run the attacks by name and those on each part."""
        from rag_stdlib.proof.attacks import table

        named = list(table.named(self.scene, self._verdict))
        if not named[0].ok:
            raise CommandError(f"the certificate itself comes out as {named[0].got}, so attacks on it would show nothing; see rag verify")
        return named, list(table.matrix(self.scene, self._verdict))

    def _verdict(self, data: bytes, asked: Asked) -> tuple[str, str]:
        from rag_stdlib.proof.attacks.attack import ANOTHER_QUESTION
        from rag_stdlib.proof.verify import verify

        query = {"asked": self.query, "another": ANOTHER_QUESTION}[asked]
        nonce = self.scene.envelope["certificate"]["query"]["nonce"]  # whoever asked knows what he sent
        verdict = verify(data, self.scene.trust, self.scene.policy, query, now=self.now, nonce=nonce)
        return verdict.outcome, getattr(verdict, "code", "")


def _staged(envelope: Mapping[str, Any], trust: Trust, policy: Policy, query: str | None, other: str | None) -> _Stage:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rag_stdlib.proof.attacks.scene import Scene

    asked = policy if query is not None else replace(policy, require_query=False)
    now = datetime.now(timezone.utc)
    scene = Scene(envelope, trust, asked, Ed25519PrivateKey.generate(), None if other is None else _other(other, envelope, trust, policy, now))
    return _Stage(scene, query, now, query is None and policy.require_query)


def _other(path: str, envelope: Mapping[str, Any], trust: Trust, policy: Policy, now: datetime) -> dict[str, Any]:
    """Read the certificate to swap parts with, another one by the same issuer that holds: with any other, attacks would come out wrong that harm nobody."""
    from rag_stdlib.proof.certificate import to_bytes
    from rag_stdlib.proof.verdicts import Verified
    from rag_stdlib.proof.verify import verify

    other = read_envelope(path)
    body, theirs = envelope["certificate"], other["certificate"]
    if theirs == body:
        raise CommandError(f"{path!r} is the same certificate; give another one by --other")
    if theirs["issuer"]["name"] != body["issuer"]["name"]:
        raise CommandError(f"{path!r} is by another issuer; give one by the same issuer by --other")
    verdict = verify(to_bytes(other), trust, replace(policy, require_query=False), None, now=now, nonce=theirs["query"]["nonce"])
    if not isinstance(verdict, Verified):
        raise CommandError(f"{path!r} comes out as {verdict.outcome} {verdict.code} by itself; give one that holds by --other")
    return other


def _with_insider(stage: _Stage, keys: str, node_key: str | None) -> _Stage:
    """Let the issuer be among the attackers, with a log of its own that is trusted as well."""
    from rag_stdlib.proof.log.notes import NoteSigner
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.trust import Trust

    if stage.query is None:
        raise typer.BadParameter("it needs --query: an issuer knows the question", param_hint="--keys")
    signer = NoteSigner(_ORIGIN, secrets.token_bytes(_SEED_BYTES))
    # For as long as he lies his key is taken for valid, so that times are told by what they say themselves.
    issuers = {key_id: replace(issuer, not_before=None, not_after=None) for key_id, issuer in stage.scene.trust.issuers.items()}
    trust = Trust(issuers, {**stage.scene.trust.logs, _ORIGIN: PinnedLog(_ORIGIN, (signer.verifier,))})
    return replace(stage, scene=replace(stage.scene, trust=trust, insider=_insider(stage, signer, keys, node_key)))


def _insider(stage: _Stage, signer: NoteSigner, keys: str, node_key: str | None) -> Insider:
    from rag_stdlib.keyfile import load_key
    from rag_stdlib.proof.attacks.scene import Insider
    from rag_stdlib.proof.certificate import entry_of
    from rag_stdlib.proof.issuerkeys import load_issuer_keys
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.merkle import leaf_hash
    from rag_stdlib.proof.log.notes import sign_note
    from rag_stdlib.proof.log.receipts import Receipt

    def logged(envelope: Mapping[str, Any]) -> str:
        text = Checkpoint(_ORIGIN, 1, leaf_hash(entry_of(envelope))).text()
        return Receipt(0, (), sign_note(text, [signer], int(time.time()))).to_bytes().decode()

    said = stage.scene.envelope["certificate"]["issuer"]
    key = load_issuer_keys(keys).signing
    if key.key_id != said["key_id"]:
        raise CommandError(f"{keys!r} does not hold the key that signed the certificate; give the file whose last key did, or a certificate by that key")
    if (said["node_id"] is None) != (node_key is None):
        needed = "was signed by a mesh node as well; give its key by --node-key" if node_key is None else "names no mesh node; leave --node-key out"
        raise CommandError(f"the certificate {needed}")
    assert stage.query is not None  # noqa: S101 - it was looked at
    node = None if node_key is None else load_key(node_key)
    if node is not None and node.node_id != said["node_id"]:
        raise CommandError(f"{node_key!r} is not the key of the mesh node that signed the certificate; give that one")
    return Insider(key.private, logged, stage.query, node)


def _show(named: list[Row], changes: list[Row]) -> None:
    """Show the attacks by name in a table, and of the others those that came out wrong."""
    wrong = [row for row in changes if not row.ok]
    widths = [max(len(heading), *(len(cell(row)) for row in (*named, *wrong))) for heading, cell in _COLUMNS]
    show(styled("  ".join(f"{heading:<{width}}" for width, (heading, _) in zip(widths, _COLUMNS, strict=True)) + "  what is done", 1))
    for row in (*named, *wrong):
        _row(row, widths)
    show("")
    show(f"by name    {_counted(named)}")
    show(f"by part    {_counted(changes)}")


def _row(row: Row, widths: list[int]) -> None:
    cells = "  ".join(f"{cell(row):<{width}}" for width, (_, cell) in zip(widths, _COLUMNS, strict=True))
    room = columns() - len(cells) - 2
    title = clean(row.title)
    title = title if len(title) <= room else f"{title[:max(room - 1, 0)]}\u2026"
    show(f"{cells}  {title}".rstrip())
    if not row.ok:
        show(f"{styled('WRONG', 1, 31)}: it has to be {row.expected}")


def _counted(rows: list[Row]) -> str:
    wrong = sum(not row.ok for row in rows)
    return f"{plural(len(rows), 'attacks')}, " + (styled(f"{wrong:,} came out wrong", 1, 31) if wrong else "all came out as they have to")
