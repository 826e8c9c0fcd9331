"""The library's verifier and the standalone one behind one face, and the vectors of certificates for both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verdicts import Verdict
from rag_stdlib.proof.verify import verify

VECTORS = Path(__file__).parents[2] / "vectors"
sys.path.insert(0, str(VECTORS))

import certificate_golden as goldens  # noqa: E402 - it stands beside the vectors
import certificate_scenes as scenes  # noqa: E402
import make_certificates as maker  # noqa: E402
import verify_standalone  # noqa: E402


@dataclass(frozen=True)
class Asking:
    """How a relying party asks about a certificate; trust and policy as JSON."""

    trust: Any
    policy: Any
    query: str | None
    nonce: str | None
    now: str

    @classmethod
    def of(cls, case: Mapping[str, Any]) -> Asking:
        """Read it from a vector."""
        return cls(case["trust"], case["policy"], case["query"], case["nonce"], case["now"])

    def but(self, **changes: Any) -> Asking:
        return replace(self, **changes)


@lru_cache(maxsize=256)
def _trusted(text: str) -> Trust:
    return Trust.from_json(json.loads(text))


def verdict(data: bytes, asking: Asking) -> Verdict:
    """What the library's verifier says."""
    now = fmt.read_time(asking.now)
    assert now is not None
    return verify(data, _trusted(json.dumps(asking.trust)), Policy.of(asking.policy), asking.query, now=now, nonce=asking.nonce)


def ours(data: bytes, asking: Asking) -> str:
    """The same as text: outcome and code."""
    said = verdict(data, asking)
    return f"{said.outcome} {getattr(said, 'code', '')}".rstrip()


def standalone(data: bytes, asking: Asking) -> str:
    """What the standalone verifier says."""
    return " ".join(verify_standalone.verify(data, asking.trust, asking.policy, asking.query, asking.nonce, asking.now)).rstrip()


def both(data: bytes, asking: Asking) -> str:
    """What both say; they have to say the same."""
    said = ours(data, asking)
    assert standalone(data, asking) == said
    return said


def load(name: str) -> Any:
    """Read a file of vectors."""
    return json.loads((VECTORS / "certificates" / f"{name}.json").read_text(encoding="ascii"))


__all__ = ["VECTORS", "Asking", "both", "goldens", "load", "maker", "ours", "scenes", "standalone", "verdict", "verify_standalone"]
