"""Issuing: a draft becomes a certificate that is signed, held to its own verification, logged, and held again with its receipt."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from rag_stdlib.errors import Failure, fail
from rag_stdlib.index.forks import GATE
from rag_stdlib.proof.certificate import Draft, entry_of, make_body, sign, to_bytes
from rag_stdlib.proof.issuerkeys import IssuerKeys
from rag_stdlib.proof.log.errors import CODES, LogError, ProofError
from rag_stdlib.proof.pipeline import Moment, Pipeline, Retrieve, draft, moment
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.recording import recorded
from rag_stdlib.proof.trust import Trust, TrustError
from rag_stdlib.proof.verdicts import Refuted, Unknown, Verified
from rag_stdlib.result import RagError

if TYPE_CHECKING:
    from typing_extensions import Self

    from rag_stdlib.contract.nodekeys import NodeKey
    from rag_stdlib.index.connect import Synchronous
    from rag_stdlib.proof.log.logkeys import LogKeys
    from rag_stdlib.proof.log.notes import VerifierKey
    from rag_stdlib.proof.log.receipts import Receipt
    from rag_stdlib.proof.log.store import Log

Keep: TypeAlias = Callable[[Mapping[str, Any]], None]

_UNLOGGED: Final = Policy(require_log=False)


class Logging(Protocol):
    """What has certificates logged: `LogFile`, say. Its name and keys are known before it is opened, as a replay never opens it."""

    @property
    def origin(self) -> str:
        """The name of the log."""

    @property
    def trusted(self) -> Sequence[VerifierKey]:
        """The keys by which clients know it."""

    def append(self, entry: bytes) -> Receipt:
        """Append an entry, and return the receipt of it, cosigned or not.

        Raises:
            LogError: it cannot be had.
        """


class LogFile:
    """The log in a file, opened when it is first needed, and then kept open. Safe to use from many threads."""

    def __init__(self, path: str | os.PathLike[str], keys: LogKeys, cosign: Callable[[Log], bytes | None] | None = None, *,
                 synchronous: Synchronous = "full") -> None:
        """Name the log; nothing is opened yet.

        Args:
            path: The file, as `Log` takes it.
            keys: Those of the log.
            cosign: Has witnesses cosign the log's last checkpoint and returns the note, such as `WitnessClient.cosign`; None where none did. What it
                raises ends the issuing, and the entry is logged all the same.
            synchronous: As for `Log`.
        """
        self.origin, self.trusted = keys.name, keys.trusted
        self._path, self._keys, self._cosign, self._synchronous = path, keys, cosign, synchronous
        self._lock = threading.Lock()
        self._log: Log | None = None

    def open(self) -> Log:
        """Open the log, if it is not open yet.

        Raises:
            LogError: as `Log`.
        """
        from rag_stdlib.proof.log.store import Log

        with GATE.passing(), self._lock:
            if self._log is None:
                self._log = Log(self._path, self._keys, synchronous=self._synchronous)
            return self._log

    def append(self, entry: bytes) -> Receipt:
        """Append an entry, and return the receipt of it, under the checkpoint that witnesses cosigned where they did.

        Raises:
            LogError: as `Log`, `Log.append` and `Log.receipt`; what `cosign` raises.
        """
        log = self.open()
        receipt = log.append(entry)
        checkpoint = None if self._cosign is None else self._cosign(log)
        return receipt if checkpoint is None else log.receipt(receipt.index, checkpoint)

    def close(self) -> None:
        """Close the log; the next entry opens it again."""
        with GATE.passing(), self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()

    def __enter__(self) -> Self:
        """Return the log, which the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the log."""
        self.close()


class NotHeld(Failure):
    """What was made does not hold when it is verified by the keys that it was made with.

    Attributes:
        code: The verdict's.
        issued_at: The time that the certificate says.
        is_logged: Whether it was verified with a receipt.
    """

    def __init__(self, verdict: Refuted | Unknown, envelope: Mapping[str, Any]) -> None:
        """Say where and why: a `certificate_invalid`."""
        super().__init__(fail("certificate_invalid", where=f"{getattr(verdict, 'path', '') or 'the envelope'} [{verdict.code}]").error)
        self.code = verdict.code
        self.issued_at: str = envelope["certificate"]["issued_at"]
        self.is_logged = "receipt" in envelope


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who issues: the keys of an issuer, the log that its certificates go into, and the mesh node that signs them as well."""

    keys: IssuerKeys
    log: Logging | None = None
    node_key: NodeKey | None = None
    _trust: Trust = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """See that the keys can be trusted together, by those to whom it issues; a `ProofError` (``keys_unfit``) where they cannot."""
        log = self.log
        logs = {} if log is None else {"logs": [{"origin": log.origin, "keys": [key.text() for key in log.trusted]}]}
        try:
            object.__setattr__(self, "_trust", Trust.from_json({"issuers": self.keys.trusted(), **logs}))
        except TrustError as error:
            raise ProofError("keys_unfit", f"nobody can trust the keys of {self.keys.name}{'' if log is None else f' and {log.origin}'} together: {error}") from None

    def issue(self, given: Draft, at: Moment, keep: Keep | None = None) -> dict[str, Any]:
        """Make the certificate of a draft: an envelope with its receipt, if there is a log.

        Before it is logged, it is verified as somebody would who trusts this issuer, at the time that it says; and with its receipt again. The entry in
        the log is a call that a trace records: a replay is given the receipt, and does not touch the log.

        Args:
            given: What is certified.
            at: Its moment.
            keep: Is given the envelope before it is logged, and again with its receipt, so that there is no entry whose certificate nobody has. What
                it raises ends the issuing.

        Raises:
            Failure: `certificate_invalid`; a `NotHeld` where it does not pass its verification. Nothing is kept or logged then, unless it is the receipt
                that does not.
            LogError: the log gave no receipt. What was kept can be logged again.
        """
        key, node_id = self.keys.signing, None if self.node_key is None else self.node_key.node_id
        body = make_body(given, self.keys.name, key.public, now=at.now, salt=at.salt, node_id=node_id)
        envelope = sign(body, key.private, self.node_key)
        self._hold(envelope, given, at, _UNLOGGED)
        if keep is not None:
            keep(envelope)
        if self.log is None:
            return envelope
        envelope = {**envelope, "receipt": _receipt(self.log, entry_of(envelope))}
        self._hold(envelope, given, at, Policy())
        if keep is not None:
            keep(envelope)
        return envelope

    def _hold(self, envelope: Mapping[str, Any], given: Draft, at: Moment, policy: Policy) -> None:
        from rag_stdlib.proof.verify import verify

        verdict = verify(to_bytes(envelope), self._trust, policy, given.query, now=at.now, nonce=given.nonce)
        if not isinstance(verdict, Verified):
            raise NotHeld(verdict, envelope)


def _receipt(log: Logging, entry: bytes) -> str:
    """Have an entry logged; a replay gets the receipt, or the error, that was recorded."""
    def appended() -> str:
        try:
            return log.append(entry).to_bytes().decode()
        except LogError as error:  # as a failure it is recorded with its code
            raise Failure(RagError(error.words, error.code, "operator")) from error

    try:
        return recorded("rag_log_append", [log.origin, hashlib.sha256(entry).hexdigest()], appended)
    except Failure as failure:
        if failure.error.code not in CODES:
            raise
        raise LogError(failure.error.code, str(failure.error)) from None


def answer(
    question: str, retrieve: Retrieve, pipeline: Pipeline, issuer: Issuer, *, nonce: str | None = None, keep: Keep | None = None,
) -> dict[str, Any]:
    """Answer a question with a certificate.

    Args:
        question: What is asked.
        retrieve: Searches; see `rag_stdlib.proof.retrieving`.
        pipeline: How the answer is made.
        issuer: Who signs it.
        nonce: The asker's, 16 to 128 of letters, digits, ``_`` and ``-``; one is drawn where none is given.
        keep: Is given the envelope before it is logged, and again with its receipt; see `Issuer.issue`.

    Returns:
        The envelope of docs/certificate.md.

    Raises:
        Failure: what a part of the pipeline fails with; `certificate_invalid`, as for a nonce that is none; as `Issuer.issue`.
        LogError: the log gave no receipt.
    """
    at = moment()
    return issuer.issue(draft(question, at.nonce if nonce is None else nonce, retrieve, pipeline), at, keep)
