"""How `rag answer` certifies: signed by an issuer's keys, logged, cosigned, and held to its own verification before it is written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.keys import trusting
from rag_stdlib.cli.logged import Witnesses, receipt_of
from rag_stdlib.cli.newfile import new_file
from rag_stdlib.cli.verdictwords import MEANINGS

if TYPE_CHECKING:
    from rag_stdlib.proof.issuerkeys import IssuerKeys
    from rag_stdlib.proof.log.logkeys import LogKeys
    from rag_stdlib.proof.pipeline import Pipeline, Retrieve

CertificateOption = Annotated[str | None, typer.Option("--certificate", metavar="FILE", help="Write a certificate of the answer to this new file.")]
KeysOption = Annotated[str | None, typer.Option("--keys", metavar="FILE", help="The issuer's keys, which sign it; rag keys new --name makes them.")]
NodeKeyOption = Annotated[str | None, typer.Option("--node-key", metavar="FILE", help="The key of a mesh node, which signs it as well.")]
LogOption = Annotated[str | None, typer.Option("--log", metavar="LOG", help="The log that it goes into, for a receipt.")]
LogKeysOption = Annotated[str | None, typer.Option("--log-keys", metavar="FILE", help="The keys of the log.")]
NonceOption = Annotated[str | None, typer.Option("--nonce", metavar="NONCE", help="The asker's: 16 to 128 letters, digits, _ and -; drawn otherwise.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over a certificate that is there.")]

_NONCE: Final = re.compile("[A-Za-z0-9_-]{16,128}")


@dataclass(frozen=True, slots=True)
class Certifying:
    """The options; those that do not fit together are refused as usage."""

    file: str | None
    keys: str | None
    node_key: str | None
    log: str | None
    log_keys: str | None
    nonce: str | None
    witnesses: Witnesses
    force: bool

    def __post_init__(self) -> None:
        """Look whether they fit together."""
        if self.file is None:
            for option, value in (("--keys", self.keys), ("--node-key", self.node_key), ("--log", self.log), ("--nonce", self.nonce), ("--force", self.force or None)):
                if value is not None:
                    raise typer.BadParameter("it is for --certificate", param_hint=option)
        elif self.keys is None:
            raise typer.BadParameter("it needs --keys, the file of the issuer's keys", param_hint="--certificate")
        if (self.log is None) != (self.log_keys is None):
            raise typer.BadParameter("--log and --log-keys go together", param_hint="--log")
        if self.witnesses.urls and self.log is None:
            raise typer.BadParameter("it is for --log", param_hint="--witness")
        if self.nonce is not None and not _NONCE.fullmatch(self.nonce):
            raise typer.BadParameter("a nonce is 16 to 128 of letters, digits, _ and -", param_hint="--nonce")

    def certificate(self, question: str, retrieve: Retrieve, pipeline: Pipeline) -> dict[str, Any]:
        """Answer a question, and write the certificate; return the envelope.

        Raises:
            CommandError: it cannot be written, or is refuted by its own verification.
            Failure: what answering fails with.
            LogError: keys or log cannot be used.
        """
        from rag_stdlib.keyfile import load_key
        from rag_stdlib.proof.certificate import to_bytes
        from rag_stdlib.proof.issuerkeys import load_issuer_keys
        from rag_stdlib.proof.issuing import Issuer, answer
        from rag_stdlib.proof.log.logkeys import load_keys

        assert self.file is not None and self.keys is not None  # noqa: S101, PT018 - it was looked at
        keys = load_issuer_keys(self.keys)
        log_keys = None if self.log_keys is None else load_keys(self.log_keys)
        if log_keys is not None:
            self.witnesses.pinned(log_keys.name)  # refused before anything is asked
        node_key = None if self.node_key is None else load_key(self.node_key)
        with ExitStack() as block:
            put = block.enter_context(new_file(self.file, force=self.force))
            envelope = answer(question, retrieve, pipeline, Issuer(keys, node_key=node_key), nonce=self.nonce)
            _hold(envelope, question, keys, None)
            if log_keys is not None:
                envelope = {**envelope, "receipt": self._receipt(envelope, log_keys)}
                _hold(envelope, question, keys, log_keys)
            put(to_bytes(envelope))
        return envelope

    def _receipt(self, envelope: Mapping[str, Any], log_keys: LogKeys) -> str:
        """Have an envelope logged; a replay gets the recorded receipt, and the log is not touched."""
        from rag_stdlib.proof.certificate import entry_of
        from rag_stdlib.proof.recording import recorded

        entry = entry_of(envelope)
        return recorded("rag_log_append", [log_keys.name, hashlib.sha256(entry).hexdigest()], lambda: self._appended(entry, log_keys))

    def _appended(self, entry: bytes, log_keys: LogKeys) -> str:
        from rag_stdlib.proof.log.store import Log

        assert self.log is not None  # noqa: S101 - it was looked at
        with Log(self.log, log_keys) as log:
            receipt = log.append(entry)
            checkpoint = self.witnesses.cosigned(log)
            return receipt.to_bytes().decode() if checkpoint is None else receipt_of(log, receipt.index, checkpoint)


def _hold(envelope: Mapping[str, Any], question: str, keys: IssuerKeys, log_keys: LogKeys | None) -> None:
    """Verify what was issued as somebody who trusts its issuer would, at the time that it says."""
    from rag_stdlib.proof.certificate import to_bytes
    from rag_stdlib.proof.format import read_time
    from rag_stdlib.proof.policy import Policy
    from rag_stdlib.proof.trust import Trust
    from rag_stdlib.proof.verdicts import Verified
    from rag_stdlib.proof.verify import verify

    body = envelope["certificate"]
    issued = read_time(body["issued_at"])
    assert issued is not None  # noqa: S101 - it was made
    trust = Trust.from_json(trusting([keys] if log_keys is None else [keys, log_keys]))
    verdict = verify(to_bytes(envelope), trust, Policy(require_log=log_keys is not None), question, now=issued, nonce=body["query"]["nonce"])
    if not isinstance(verdict, Verified):
        raise CommandError(f"the certificate that was made does not hold, and is not written: {MEANINGS[verdict.code]}; see to the clock and the keys",
                           code=verdict.code)
