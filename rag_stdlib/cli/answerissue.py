"""Whether an answer is certified, and how: the options of that, and the answer with its certificate or without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.certifying import (
    CertificateOption,
    Certifying,
    ForceOption,
    KeysOption,
    LogKeysOption,
    LogOption,
    NodeKeyOption,
    NonceOption,
)
from rag_stdlib.cli.logged import Witnesses, WitnessTrust, WitnessUrls
from rag_stdlib.cli.prooffiles import number

if TYPE_CHECKING:
    from rag_stdlib.proof.pipeline import Pipeline, Retrieve

_DAY_S: Final = 86_400
_LONGEST_DAYS: Final = 366


@dataclass(frozen=True, slots=True)
class Issuing:
    """The options, as commands take them (`rag_stdlib.cli.optiongroup`); those that do not fit together are refused as usage."""

    certificate: CertificateOption = None
    keys: KeysOption = None
    node_key: NodeKeyOption = None
    lifetime: Annotated[float | None, typer.Option("--lifetime", metavar="DAYS", min=0, max=_LONGEST_DAYS, help="How long it is good, 90 days otherwise.")] = None
    nonce: NonceOption = None
    force: ForceOption = False
    log: LogOption = None
    log_keys: LogKeysOption = None
    witness: WitnessUrls = None
    trust: WitnessTrust = None

    def __post_init__(self) -> None:
        """Look whether they fit together."""
        number(self.lifetime, "--lifetime")
        if self.lifetime is not None and self.certificate is None:
            raise typer.BadParameter("it is for --certificate", param_hint="--lifetime")
        if self.lifetime_s == 0:
            raise typer.BadParameter("a certificate is good for a second at least", param_hint="--lifetime")
        self._certifying()

    @property
    def lifetime_s(self) -> int | None:
        """The lifetime in whole seconds."""
        return None if self.lifetime is None else round(self.lifetime * _DAY_S)

    def _certifying(self) -> Certifying:
        witnesses = Witnesses(tuple(self.witness or ()), self.trust)
        return Certifying(self.certificate, self.keys, self.node_key, self.log, self.log_keys, self.nonce, witnesses, self.force)

    def answered(self, question: str, search: Retrieve, pipeline: Pipeline) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
        """Answer a question; return what a certificate says of it, and the envelope of the one that was written.

        Raises:
            CommandError: it cannot be written, or is refuted by its own verification.
            Failure: what answering fails with.
            LogError: keys or log cannot be used.
        """
        from rag_stdlib.proof.certificate import contents
        from rag_stdlib.proof.pipeline import draft

        if self.certificate is None:
            return contents(draft(question, "", search, pipeline)), None
        issued = self._certifying().certificate(question, search, pipeline)
        return issued["certificate"], issued
