"""How `rag answer` certifies: signed by an issuer's keys, written, logged, and written again with the receipt."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_stdlib.cli.frame import CommandError, replayed
from rag_stdlib.cli.logged import Witnesses
from rag_stdlib.cli.newfile import NewFile, new_file
from rag_stdlib.cli.prooffiles import STREAM, telling
from rag_stdlib.cli.verdictwords import MEANINGS
from rag_stdlib.root import SIDE_FILES

if TYPE_CHECKING:
    from rag_stdlib.proof.issuerkeys import IssuerKeys
    from rag_stdlib.proof.issuing import LogFile, NotHeld
    from rag_stdlib.proof.pipeline import Pipeline, Retrieve

CertificateOption = Annotated[str | None, typer.Option("--certificate", metavar="FILE", help="Write a certificate of the answer to this new file.")]
KeysOption = Annotated[str | None, typer.Option("--keys", metavar="FILE", help="The issuer's keys, which sign it; rag keys new --name makes them.")]
NodeKeyOption = Annotated[str | None, typer.Option("--node-key", metavar="FILE", help="The key of a mesh node, which signs it as well.")]
LogOption = Annotated[str | None, typer.Option("--log", metavar="LOG", help="The log that it goes into, for a receipt.")]
LogKeysOption = Annotated[str | None, typer.Option("--log-keys", metavar="FILE", help="The keys of the log.")]
NonceOption = Annotated[str | None, typer.Option("--nonce", metavar="NONCE", help="The asker's: 16 to 128 letters, digits, _ and -; drawn otherwise.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over a certificate that is there, and over no other file.")]


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
        else:
            _check_name(self.file)
        if self.file is not None and self.keys is None:
            raise typer.BadParameter("it needs --keys, the file of the issuer's keys", param_hint="--certificate")
        if (self.log is None) != (self.log_keys is None):
            raise typer.BadParameter("--log and --log-keys go together", param_hint="--log")
        if self.witnesses.urls and self.log is None:
            raise typer.BadParameter("it is for --log", param_hint="--witness")
        if self.nonce is not None and not _is_nonce(self.nonce):
            raise typer.BadParameter("a nonce is 16 to 128 of letters, digits, _ and -", param_hint="--nonce")
        for option, value in (("--keys", self.keys), ("--node-key", self.node_key), ("--log", self.log), ("--log-keys", self.log_keys), ("--trust", self.witnesses.trust)):
            if value is not None:
                self.check_apart(option, value)

    def check_apart(self, what: str, path: str) -> None:
        """Refuse a certificate that would be written over another file of the command, which is given by `what`."""
        with suppress(OSError, ValueError):  # one of them is not there
            if self.file is not None and Path(self.file).samefile(path):
                raise typer.BadParameter(f"{self.file!r} is the file of {what}; name another one", param_hint="--certificate")

    def certificate(self, question: str, retrieve: Retrieve, pipeline: Pipeline) -> dict[str, Any]:
        """Answer a question, and write the certificate; return the envelope.

        It is in its file before it is logged, and gets its receipt afterwards, so that no entry of the log is without its certificate.

        Raises:
            CommandError: it cannot be written, is refuted by its own verification, or stays without a receipt.
            Failure: what answering fails with.
            LogError: keys or log cannot be used.
            Stopped: Ctrl-C came while it was logged.
        """
        from rag_stdlib.keyfile import load_key
        from rag_stdlib.proof.certificate import to_bytes
        from rag_stdlib.proof.issuerkeys import load_issuer_keys
        from rag_stdlib.proof.issuing import Issuer, answer

        assert self.file is not None and self.keys is not None  # noqa: S101, PT018 - it was looked at
        keys = load_issuer_keys(self.keys)
        with new_file(self.file, force=self.force, over=_no_certificate) as file, self._told(file, keys), self._opened() as log:
            issuer = Issuer(keys, log, None if self.node_key is None else load_key(self.node_key))
            return answer(question, retrieve, pipeline, issuer, nonce=self.nonce, keep=lambda envelope: file.write(to_bytes(envelope)))

    def short(self, envelope: Mapping[str, Any]) -> str:
        """Say of a certificate that was issued that fewer witnesses cosigned its receipt than the trust file asks for; empty where that is not so.

        It is a recorded call: a replay ends as the recorded run did, and needs nothing that is known of the witnesses.
        """
        from rag_stdlib.proof.log.logkeys import load_keys
        from rag_stdlib.proof.recording import recorded

        if self.file is None or self.log is None or self.log_keys is None or not self.witnesses.urls:
            return ""
        origin, log, keys, receipts = load_keys(self.log_keys).name, self.log, self.log_keys, {self.file: envelope["receipt"]}
        return recorded("rag_log_witnessed", [origin, envelope["receipt"]], lambda: self.witnesses.short(origin, log, keys, receipts))

    @contextmanager
    def _opened(self) -> Iterator[LogFile | None]:
        """Give the log; what cannot be used of it is refused before anything is asked. A replay has no need of it."""
        from rag_stdlib.proof.issuing import LogFile
        from rag_stdlib.proof.log.logkeys import load_keys

        if self.log is None or self.log_keys is None:
            yield None
            return
        with LogFile(self.log, load_keys(self.log_keys), self.witnesses.ask) as log:
            if not replayed():
                self.witnesses.pinned(log.origin)
                log.open()
            yield log

    @contextmanager
    def _told(self, file: NewFile, keys: IssuerKeys) -> Iterator[None]:
        """Say of what goes wrong where the certificate is: in its file, from the moment on that it may be in the log."""
        from rag_stdlib.proof.issuing import NotHeld

        with telling(lambda: self._where(file)):
            try:
                yield
            except NotHeld as error:
                what = "the certificate does not hold with the receipt that it was given" if error.is_logged else "the certificate that was made does not hold, and is not written"
                more = "" if self._where(file) else f"; {_needed(error, keys)}"
                raise CommandError(f"{what}: {MEANINGS[error.code]}{more}", code=error.code) from None

    def _where(self, file: NewFile) -> str:
        """Say what is in the file now, and what is left to do; nothing where no certificate of this run is, and in a replay, which logs nothing."""
        content = file.content
        if content is None:
            return ""
        there = f"the certificate is in {self.file!r}"
        if self.log is None:
            return there
        if "receipt" in json.loads(content):
            return f"{there} with its receipt"
        log, name, keys = (shlex.quote(str(given)) for given in (self.log, self.file, self.log_keys))
        return f"{there} without a receipt, and rag log append {log} {name} --keys {keys} logs it"


def _check_name(path: str) -> None:
    """Refuse a name that means something else than a file of its own."""
    if path == STREAM:
        raise typer.BadParameter("it is written to a file; name one", param_hint="--certificate")
    real = os.path.realpath(path) if "\0" not in path else path
    side = next((side for side in SIDE_FILES if real.endswith(side)), None)
    if side is not None and os.path.lexists(real.removesuffix(side)):
        raise typer.BadParameter(f"{path!r} is the name of a part of {path.removesuffix(side)!r}; name another one", param_hint="--certificate")


def _no_certificate(path: Path) -> str:
    """Say of a file that it does not read as a certificate, whatever one is worth; nothing of one that does, or is empty."""
    from rag_stdlib.proof.strict import MAX_BYTES, MalformedJson, parse

    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    try:
        given = parse(data) if 0 < len(data) <= MAX_BYTES else None
    except MalformedJson:
        given = None
    return "" if not data or (isinstance(given, dict) and "certificate" in given) else "it is no certificate"


def _is_nonce(text: str) -> bool:
    from rag_stdlib.proof.format import NONCE_PATTERN

    return re.fullmatch(NONCE_PATTERN, text) is not None


def _needed(error: NotHeld, keys: IssuerKeys) -> str:
    """Say what a certificate needs that does not hold."""
    if not replayed():
        return "see to the clock and the keys"
    needed = "a replay needs the files of keys as they were at the recording"
    then = [key for key in keys.keys if key.not_before <= error.issued_at]
    is_superseded = error.code == "key_not_valid" and then and keys.signing not in then
    return f"the key that signed the recorded run was superseded since, and {needed}" if is_superseded else needed
