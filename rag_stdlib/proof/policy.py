"""The relying party's policy: what it asks of a certificate beyond being right (docs/certificate.md, Verification)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from rag_stdlib.proof.format import LABELS

_SHARE: Final = re.compile(r"0\.[0-9]{6}|1\.000000", re.ASCII)
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_LONGEST_S: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What to ask for; the defaults are those of the format.

    Attributes:
        require_log: Whether a certificate without a receipt is unknown.
        require_query: Whether one is unknown that is checked without the question.
        require_nonce: The same for the asker's nonce.
        max_age_s: How many seconds ago it may have been issued; None for as long as it does not expire.
        skew_s: How many seconds a certificate may come from the future, clocks being what they are.
        labels: The labels that may be shown.
        minimum_confidence: The least confidence that may be shown, six decimals as text.
        judges: The digests of the judges that are accepted; None for any.
        generators: The same for generators.
    """

    require_log: bool = True
    require_query: bool = True
    require_nonce: bool = False
    max_age_s: int | None = None
    skew_s: int = 60
    labels: tuple[str, ...] = ("entailed", "quoted")
    minimum_confidence: str = "0.000000"
    judges: tuple[str, ...] | None = None
    generators: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Hold every value to its form; `ValueError` names the first that has not."""
        for name in ("require_log", "require_query", "require_nonce"):
            _require(isinstance(getattr(self, name), bool), f"{name} is true or false")
        _require(self.max_age_s is None or _is_seconds(self.max_age_s), "max_age_s is a number of whole seconds")
        _require(_is_seconds(self.skew_s), "skew_s is a number of whole seconds")
        _require(isinstance(self.labels, tuple) and 0 < len(self.labels) <= len(LABELS) and set(self.labels) <= {*LABELS}, f"labels are some of {', '.join(LABELS)}")
        _require(isinstance(self.minimum_confidence, str) and bool(_SHARE.fullmatch(self.minimum_confidence)),
                 "minimum_confidence is a text of six decimals, 0.000000 to 1.000000")
        for name in ("judges", "generators"):
            listed = getattr(self, name)
            fit = listed is None or all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in listed)
            _require(fit, f"{name} is a list of digests, 64 hex digits each, or null")

    @classmethod
    def of(cls, given: object) -> Policy:
        """Read a policy from JSON: an object of some of the attributes.

        Raises:
            ValueError: it is no such object; the text says why.
        """
        names = tuple(each.name for each in fields(cls))
        if not isinstance(given, Mapping):
            raise ValueError("a policy is an object")  # noqa: TRY004 - of JSON, not of the program
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r:.100} in a policy; there are: {', '.join(names)}")
        made: dict[str, Any] = {}
        for name, value in given.items():
            is_list = name in ("labels", "judges", "generators") and value is not None
            _require(not is_list or (isinstance(value, list) and all(isinstance(part, str) for part in value)), f"{name} is a list of texts")
            made[name] = tuple(value) if is_list else value
        return cls(**made)


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise ValueError(words)


def _is_seconds(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONGEST_S
