"""What comes of a verification: verified, refuted, or unknown, with the checks that were done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "refuted", "unknown", "not_done"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check of docs/certificate.md by its code, and how it ended."""

    code: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Refuted:
    """The certificate is wrong: `code` says what, `path` (a JSON Pointer) where, as far as it is somewhere."""

    outcome: ClassVar[str] = "refuted"
    code: str
    path: str = ""
    checks: tuple[Check, ...] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        """Be false."""
        return False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing speaks against the certificate, but what would speak for it is missing: `code` says what."""

    outcome: ClassVar[str] = "unknown"
    code: str
    checks: tuple[Check, ...] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        """Be false."""
        return False


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim of a verified certificate: `place` in the list of claims; `blocked` says why it may not be shown, None where it may.

    `quotes` are the spans that it was judged by, of a quotation those that hold it, and `sources` where each of them is from.
    """

    place: int
    text: str
    label: str
    sources: tuple[str, ...]
    quotes: tuple[str, ...]
    blocked: str | None


@dataclass(frozen=True, slots=True)
class LoggedAt:
    """Where the log has a certificate: its origin, the entry's index, the size of the tree, and who cosigned that, with POSIX seconds."""

    origin: str
    index: int
    size: int
    witnesses: tuple[tuple[str, int], ...]


_KEY = object()


class Verified:
    """A certificate that holds under the trust and the policy it was checked by. Only `verify` makes one.

    Attributes:
        issuer: The trusted issuer's name.
        issued_at: When, as the certificate says.
        claims: The claims, those that are blocked among them.
        abstained: Whether the issuer has no answer.
        logged: Where the log has it; None where it was checked without one.
        not_proven: What a certificate does not show.
        checks: The checks that were done.
    """

    outcome: ClassVar[str] = "verified"
    __slots__ = ("_body", "abstained", "checks", "claims", "issued_at", "issuer", "logged", "not_proven")
    _body: Mapping[str, Any]
    issuer: str
    issued_at: str
    abstained: bool
    not_proven: tuple[str, ...]
    claims: tuple[ShownClaim, ...]
    logged: LoggedAt | None
    checks: tuple[Check, ...]

    def __init__(self, key: object, body: Mapping[str, Any], claims: tuple[ShownClaim, ...], logged: LoggedAt | None, checks: tuple[Check, ...]) -> None:
        """Hold what was verified.

        Raises:
            TypeError: somebody else than `verify` makes it.
        """
        if key is not _KEY:
            raise TypeError("only verify() makes a Verified")
        held = {"_body": body, "issuer": body["issuer"]["name"], "issued_at": body["issued_at"], "abstained": body["answer"]["abstained"],
                "not_proven": tuple(body["not_proven"]), "claims": claims, "logged": logged, "checks": checks}
        for name, value in held.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: what was verified stays as it was."""
        raise AttributeError(f"{name} of what was verified cannot be changed")

    def __bool__(self) -> bool:
        """Be true."""
        return True

    def __repr__(self) -> str:
        """Name the issuer and the number of claims."""
        return f"Verified(issuer={self.issuer!r}, issued_at={self.issued_at!r}, claims={len(self.claims)})"


Verdict: TypeAlias = "Verified | Refuted | Unknown"


def verified(body: Mapping[str, Any], claims: tuple[ShownClaim, ...], logged: LoggedAt | None, checks: tuple[Check, ...]) -> Verified:
    """Make a `Verified`; for `rag_stdlib.proof.verify` alone, once nothing is left to check."""
    return Verified(_KEY, body, claims, logged, checks)
