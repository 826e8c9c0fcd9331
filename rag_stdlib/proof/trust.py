"""What a relying party trusts: pinned keys of issuers, of logs and of witnesses (docs/certificate.md, Verification).

There is no verification without it, and no part of it comes from what is verified.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.forms import Form, ListOf, Members, Text, Whole, departure
from rag_stdlib.proof.log.cosignatures import KINDS
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.notes import ED25519, VerifierKey
from rag_stdlib.proof.log.pinned import PinnedLog
from replay import ed25519

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_TIME: Final = Text(pattern=r"[0-9TZ:-]{20}", is_fit=lambda text: fmt.read_time(text) is not None)
_ISSUER: Final = Members({"name": Text(1, 200), "public_key": Text(1, 100)}, {"node_id": fmt.ID, "not_before": _TIME, "not_after": _TIME})
_OF_LOGS: Final[dict[str, Form]] = {
    "logs": ListOf(Members({"origin": Text(1, 1_000), "keys": ListOf(Text(1, 4_096), 100, 1)}), 1_000),
    "witnesses": ListOf(Text(1, 8_192), 1_000), "quorum": Whole(0, 1_000)}
_FORM: Final = Members({"issuers": ListOf(_ISSUER, 10_000, 1)}, _OF_LOGS)
_FORM_OF_LOGS: Final = Members({}, _OF_LOGS)
_BEGINNING: Final = 12  # characters of a key, by which its reader finds it


class TrustError(ValueError):
    """What was given to trust cannot be trusted; the text says why."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer's key, and when it may have issued: from `not_before` to before `not_after`, times of the format, None for no bound."""

    name: str
    public_key: bytes
    node_id: str | None = None
    not_before: str | None = None
    not_after: str | None = None
    key: Ed25519PublicKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Read the key; `TrustError` for one that binds nobody."""
        try:
            object.__setattr__(self, "key", ed25519.public_key(self.public_key))
        except ed25519.KeyRefused as error:
            raise TrustError(f"the key of the issuer {self.name!r:.100}: {error}") from None

    @property
    def key_id(self) -> str:
        """The name that certificates give the key."""
        return fmt.issuer_key_id(self.public_key)

    def is_valid(self, issued_at: str) -> bool:
        """Tell whether the key may have issued then; times of the format compare as texts."""
        return (self.not_before is None or self.not_before <= issued_at) and (self.not_after is None or issued_at < self.not_after)


@dataclass(frozen=True, slots=True)
class Trust:
    """The keys: `issuers` by key id, and `logs` by origin, each with its witnesses and their quorum."""

    issuers: Mapping[str, Issuer]
    logs: Mapping[str, PinnedLog] = field(default_factory=dict)

    @classmethod
    def of(cls, issuers: Sequence[Issuer], logs: Mapping[str, Sequence[VerifierKey]] | None = None, witnesses: Sequence[VerifierKey] = (),
           quorum: int = 0) -> Trust:
        """Pin keys; `logs` are the keys of each, by its origin.

        Raises:
            TrustError: there is no issuer; a public key is listed twice, for whatever; a key is of another kind than it is listed for; the
                quorum is more than there are names of witnesses; what `PinnedLog` refuses.
        """
        if not issuers:
            raise TrustError("no issuer is trusted")
        return cls({issuer.key_id: issuer for issuer in issuers}, pinned_logs(logs or {}, witnesses, quorum, [issuer.public_key for issuer in issuers]))

    @classmethod
    def from_json(cls, given: object) -> Trust:
        """Read trust from JSON: ``issuers`` (`name`, base64 `public_key`, maybe `node_id`, `not_before`, `not_after`), and maybe ``logs``
        (`origin`, `keys`), ``witnesses`` and ``quorum``; keys of logs and witnesses in their C2SP text form.

        Raises:
            TrustError: it is not of that form, or `of` refuses it.
        """  # noqa: D205 - the form is the summary
        read = _of_form(given, _FORM)
        return cls.of(list(map(_issuer, read["issuers"])), *_of_logs(read))


def logs_from_json(given: object) -> Mapping[str, PinnedLog]:
    """Read what is trusted of logs: of a trust file, or of one without ``issuers``, as witnesses and monitors have it, who believe no answer.

    Raises:
        TrustError: as `Trust.from_json`.
    """
    if isinstance(given, dict) and "issuers" in given:
        return Trust.from_json(given).logs
    return pinned_logs(*_of_logs(_of_form(given, _FORM_OF_LOGS)))


def pinned_logs(logs: Mapping[str, Sequence[VerifierKey]], witnesses: Sequence[VerifierKey], quorum: int, others: Sequence[bytes] = ()) -> dict[str, PinnedLog]:
    """Pin logs by their origins, all with the same witnesses and quorum; `others` are public keys that are trusted for something else.

    Raises:
        TrustError: as `Trust.of`.
    """
    of_logs = [key for keys in logs.values() for key in keys]
    _check_once(others, (*of_logs, *witnesses))
    for key in of_logs:
        if key.kind != ED25519:
            raise TrustError(f"the key of the log {key.name!r:.100} is of kind {key.kind}; those of logs are of kind {ED25519}")
    for witness in witnesses:
        if witness.kind not in KINDS:
            raise TrustError(f"the key of the witness {witness.name!r:.100} is of kind {witness.kind}, which does not cosign")
    if not 0 <= quorum <= len({witness.name for witness in witnesses}):
        raise TrustError(f"a quorum of {quorum} cannot be had of these witnesses")
    try:
        return {origin: PinnedLog(origin, tuple(keys), tuple(witnesses), quorum) for origin, keys in logs.items()}
    except ProofError as error:
        raise TrustError(error.words) from None


def _check_once(others: Sequence[bytes], keys: Sequence[VerifierKey]) -> None:
    """Refuse a public key that is listed twice, and say which."""
    seen: set[bytes] = set()
    of_others = ((public, f"{base64.b64encode(public).decode():.{_BEGINNING}}\u2026") for public in others)
    for public, which in (*of_others, *((key.public, f"{key.name!r:.100}") for key in keys)):
        if public in seen:
            raise TrustError(f"a public key is listed twice: {which}")
        seen.add(public)


def _of_form(given: object, form: Members) -> dict[str, Any]:
    departs = departure(given, form)
    if departs:
        raise TrustError(departs)
    assert isinstance(given, dict)  # noqa: S101 - it has the form
    return given


def _of_logs(given: Mapping[str, Any]) -> tuple[dict[str, list[VerifierKey]], list[VerifierKey], int]:
    logs: dict[str, list[VerifierKey]] = {}
    for log in given.get("logs", ()):
        if log["origin"] in logs:
            raise TrustError(f"an origin is listed twice: {log['origin']!r:.100}")
        logs[log["origin"]] = list(map(_verifier, log["keys"]))
    return logs, [_verifier(text) for text in given.get("witnesses", ())], given.get("quorum", 0)


def _issuer(given: Mapping[str, Any]) -> Issuer:
    try:
        public = ed25519.strict_base64(given["public_key"])
    except ValueError as error:
        raise TrustError(f"the key of the issuer {given['name']!r:.100}: {error}") from None
    return Issuer(given["name"], public, given.get("node_id"), given.get("not_before"), given.get("not_after"))


def _verifier(text: str) -> VerifierKey:
    try:
        return VerifierKey.parse(text)
    except ProofError as error:
        raise TrustError(f"{text!r:.60} is no verifier key: {error.words}") from None
