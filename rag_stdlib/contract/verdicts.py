"""What a check of the RAG service contract can find: a closed set of values, so that no outcome is mistaken for another.

A check returns one of these and raises nothing for what a stranger sent. Only `Signed` says that somebody vouched for a corpus.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Refused:
    """What was checked does not hold, or could not be checked.

    `reason` is one of the contract's names (RAG service contract §2.4, §3.4, §3.6); `detail` is the inner reason of a
    ``signature``, or words for people.
    """

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        """Write the reason, and the detail behind it: ``signature: malformed``."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason

    def __bool__(self) -> bool:
        """Always false: only what is vouched for is true."""
        return False


@dataclass(frozen=True, slots=True)
class Signed:
    """The provider that was called and pinned signed exactly this corpus; `provider` is its node id, 64 lowercase hex digits."""

    provider: str


@dataclass(frozen=True, slots=True)
class Unsigned:
    """The description is consistent, and nobody vouches for it."""

    def __bool__(self) -> bool:
        """Always false: only what is vouched for is true."""
        return False


class _Verdict(str, Enum):
    """A named outcome of which exactly one is true; it compares and prints as its name on the wire."""

    def __str__(self) -> str:
        """Write the name as the contract spells it."""
        return str(self.value)


class HitVerdict(_Verdict):
    """Is the content of a hit the text that its provenance names (RAG service contract §2.4)? True only for `OK`."""

    OK = "ok"
    MALFORMED_PROVENANCE = "malformed_provenance"
    CONTENT_MISMATCH = "content_mismatch"

    def __bool__(self) -> bool:
        """Only `OK` is true."""
        return self is HitVerdict.OK


class Membership(_Verdict):
    """Does a described corpus hold the repository and commit of a hit (RAG service contract §2.5)? True only for `IN_CORPUS`."""

    IN_CORPUS = "in_corpus"
    MALFORMED_PROVENANCE = "malformed_provenance"
    DEPOSIT = "deposit"
    REPO_NOT_IN_CORPUS = "repo_not_in_corpus"
    COMMIT_NOT_IN_CORPUS = "commit_not_in_corpus"

    def __bool__(self) -> bool:
        """Only `IN_CORPUS` is true."""
        return self is Membership.IN_CORPUS
