"""What is decided about a claim, and when it is a quotation: the same for who issues a certificate and for who checks one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

_WHITE: Final = "\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_RUNS: Final = re.compile(f"[{_WHITE}]+")
_LOOSE: Final = re.compile(f"[^{_WHITE}*•#>-]")


def squeezed(text: str) -> str:
    """Return a text with every run of white space as one space, and none at its ends."""
    return _RUNS.sub(" ", text).strip(" ")


def is_quotation(claim: str, spans: Sequence[str]) -> bool:
    """Tell whether a claim stands in one of the spans verbatim, but for white space."""
    wanted = squeezed(claim)
    return bool(wanted) and any(wanted in squeezed(span) for span in spans)


def evidence(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the spans that a claim of a certificate rests on: of a quotation those that hold it, else all that it was judged by."""
    quoted = claim["judgement"]["label"] == "quoted"
    return [span for span in claim["spans"] if not quoted or is_quotation(claim["text"], [span["text"]])]


def is_loose(text: str) -> bool:
    """Tell whether a part of an answer outside its claims holds anything that has to be a claim's."""
    return _LOOSE.search(text) is not None


def reason(label: str, confidence: str, spans: int, labels: Collection[str], minimum: str) -> str | None:
    """Say why a claim may not be shown; None where it may. Shares compare as texts, being of one length."""
    if not spans:
        return "no_span"
    if label in ("contradicted", "not_supported"):
        return label
    if label not in labels:
        return "label_not_allowed"
    return "low_confidence" if confidence < minimum else None
