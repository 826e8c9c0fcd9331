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


@dataclass(frozen=True, slots=True)
class Issuing:
    """The options, as commands take them (`rag_stdlib.cli.optiongroup`); those that do not fit together are refused as usage."""

    certificate: CertificateOption = None
    keys: KeysOption = None
    node_key: NodeKeyOption = None
    lifetime: Annotated[float | None, typer.Option("--lifetime", metavar="DAYS", help="How long it is good: 0<x<=366; 90 otherwise.")] = None
    nonce: NonceOption = None
    force: ForceOption = False
    log: LogOption = None
    log_keys: LogKeysOption = None
    witness: WitnessUrls = None
    trust: WitnessTrust = None

    def __post_init__(self) -> None:
        """Look whether they fit together."""
        if self.lifetime is not None:
            self._check_lifetime(self.lifetime)
        self._certifying()

    def _check_lifetime(self, days: float) -> None:
        from rag_stdlib.proof.format import LONGEST_S

        number(days, "--lifetime")
        if self.certificate is None:
            raise typer.BadParameter("it is for --certificate", param_hint="--lifetime")
        if not days * _DAY_S <= LONGEST_S:
            raise typer.BadParameter(f"a certificate is good for {LONGEST_S // _DAY_S} days at most", param_hint="--lifetime")
        if days <= 0 or not self.lifetime_s:
            raise typer.BadParameter("a certificate is good for a second at least", param_hint="--lifetime")

    def check_apart(self, what: str, path: str) -> None:
        """Refuse a certificate that would be written over another file of the command, which is given by `what`."""
        self._certifying().check_apart(what, path)

    @property
    def lifetime_s(self) -> int | None:
        """The lifetime in whole seconds."""
        return None if self.lifetime is None else round(self.lifetime * _DAY_S)

    def _certifying(self) -> Certifying:
        witnesses = Witnesses(tuple(self.witness or ()), self.trust)
        return Certifying(self.certificate, self.keys, self.node_key, self.log, self.log_keys, self.nonce, witnesses, self.force)

    def answered(self, question: str, search: Retrieve, pipeline: Pipeline) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, str]:
        """Answer a question; return what a certificate says of it, the envelope of the one that was written, and what its receipt lacks of cosignatures.

        Raises:
            CommandError: it cannot be written, or is refuted by its own verification.
            Failure: what answering fails with.
            LogError: keys or log cannot be used.
        """
        from rag_stdlib.proof.certificate import contents
        from rag_stdlib.proof.pipeline import draft

        if self.certificate is None:
            return contents(draft(question, "", search, pipeline)), None, ""
        certifying = self._certifying()
        issued = certifying.certificate(question, search, pipeline)
        return issued["certificate"], issued, certifying.short(issued)
