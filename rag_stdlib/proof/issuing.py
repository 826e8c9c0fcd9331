"""Issuing: a draft becomes a certificate that is signed, logged, and cosigned by whoever watches the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rag_stdlib.proof.certificate import Draft, entry_of, make_body, sign
from rag_stdlib.proof.issuerkeys import IssuerKeys
from rag_stdlib.proof.pipeline import Moment, Pipeline, Retrieve, draft, moment

if TYPE_CHECKING:
    from rag_stdlib.contract.nodekeys import NodeKey
    from rag_stdlib.proof.log.receipts import Receipt


class Logging(Protocol):
    """What has certificates logged: `rag_stdlib.proof.log.store.Log`, say."""

    def append(self, entry: bytes) -> Receipt:
        """Append an entry, and return the receipt of it."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who issues: the keys of an issuer, the log that its certificates go into, and the mesh node that signs them as well.

    `cosign` is given a receipt and returns it with the cosignatures of witnesses, as many as there were.
    """

    keys: IssuerKeys
    log: Logging | None = None
    node_key: NodeKey | None = None
    cosign: Callable[[Receipt], Receipt] | None = None

    def issue(self, given: Draft, at: Moment) -> dict[str, Any]:
        """Make the certificate of a draft: an envelope with its receipt, if there is a log.

        Raises:
            Failure: `certificate_invalid`.
            LogError: the log could not be written; then nothing was issued.
        """
        key, node_id = self.keys.signing, None if self.node_key is None else self.node_key.node_id
        body = make_body(given, self.keys.name, key.public, now=at.now, salt=at.salt, node_id=node_id)
        envelope = sign(body, key.private, self.node_key)
        return envelope if self.log is None else {**envelope, "receipt": self._receipt(envelope)}

    def _receipt(self, envelope: Mapping[str, Any]) -> str:
        assert self.log is not None  # noqa: S101 - it was looked at
        receipt = self.log.append(entry_of(envelope))
        return (receipt if self.cosign is None else self.cosign(receipt)).to_bytes().decode()


def answer(question: str, retrieve: Retrieve, pipeline: Pipeline, issuer: Issuer, *, nonce: str | None = None) -> dict[str, Any]:
    """Answer a question with a certificate.

    Args:
        question: What is asked.
        retrieve: Searches; see `rag_stdlib.proof.retrieving`.
        pipeline: How the answer is made.
        issuer: Who signs it.
        nonce: The asker's, 16 to 128 of letters, digits, ``_`` and ``-``; one is drawn where none is given.

    Returns:
        The envelope of docs/certificate.md.

    Raises:
        Failure: what a part of the pipeline fails with; `certificate_invalid`, as for a nonce that is none.
        LogError: the log could not be written.
    """
    at = moment()
    return issuer.issue(draft(question, at.nonce if nonce is None else nonce, retrieve, pipeline), at)
