"""How `rag answer` certifies: signed by an issuer's keys, written, logged, and written again with the receipt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import CommandError, Stopped, note, replayed
from rag_stdlib.cli.logged import Witnesses
from rag_stdlib.cli.newfile import NewFile, new_file
from rag_stdlib.cli.verdictwords import MEANINGS
from rag_stdlib.errors import Failure

if TYPE_CHECKING:
    from rag_stdlib.proof.issuing import LogFile
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
        with ExitStack() as block:
            log = block.enter_context(self._opened())
            issuer = Issuer(keys, log, None if self.node_key is None else load_key(self.node_key))
            file = block.enter_context(new_file(self.file, force=self.force))
            block.enter_context(self._told(file))
            return answer(question, retrieve, pipeline, issuer, nonce=self.nonce, keep=lambda envelope: file.write(to_bytes(envelope)))

    @contextmanager
    def _opened(self) -> Iterator[LogFile | None]:
        """Give the log; what cannot be used of it is refused before anything is asked. A replay has no need of it."""
        from rag_stdlib.proof.issuing import LogFile
        from rag_stdlib.proof.log.logkeys import load_keys

        if self.log is None or self.log_keys is None:
            yield None
            return
        with LogFile(self.log, load_keys(self.log_keys), self.witnesses.cosigned) as log:
            if not replayed():
                self.witnesses.pinned(log.origin)
                log.open()
            yield log

    @contextmanager
    def _told(self, file: NewFile) -> Iterator[None]:
        """Say of what goes wrong where the certificate is: in its file, from the moment on that it may be in the log."""
        from rag_stdlib.proof.issuing import NotHeld
        from rag_stdlib.proof.log.errors import LogError
        from replay.errors import ReplayError

        try:
            yield
        except NotHeld as error:
            what = "the certificate that was made does not hold, and is not written"
            if file.is_there:
                what = "the certificate does not hold with the receipt that it was given"
            where = self._where() if file.is_there else "see to the clock and the keys"
            raise CommandError(f"{what}: {MEANINGS[error.code]}; {where}", code=error.code) from None
        except (KeyboardInterrupt, Exception) as error:
            if self.log is None or not file.is_there or (isinstance(error, ReplayError) and replayed()):
                raise
            match error:
                case KeyboardInterrupt():
                    raise Stopped(self._where()) from None
                case LogError():
                    words, code = error.words, error.code
                case CommandError():
                    words, code = error.error, error.code
                case Failure():
                    words, code = str(error.error), error.error.code
                case _:
                    note(self._where())
                    raise
            raise CommandError(f"{words}; {self._where()}", code=code) from None

    def _where(self) -> str:
        log, file, keys = (shlex.quote(str(name)) for name in (self.log, self.file, self.log_keys))
        return f"the certificate is in {self.file!r} without a receipt, and rag log append {log} {file} --keys {keys} logs it"
