"""An index, a log, and parts of a pipeline that do as they are told, for tests of answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from certified import as_bytes

from rag_stdlib.proof.certificate import Retrieval
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.generators.protocol import GeneratorIdentity
from rag_stdlib.proof.issuerkeys import IssuerKey, IssuerKeys
from rag_stdlib.proof.judges import Judgement, make_judge
from rag_stdlib.proof.judges.protocol import JudgeIdentity
from rag_stdlib.proof.pipeline import Pipeline
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.retrieving import retrieve
from rag_stdlib.proof.trust import Issuer as Trusted
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verify import verify

QUESTION = "When are refunds paid?"
POLICY = """# Refunds

Refunds are paid within ten days of the return. A receipt is needed for every refund.

# Shipping

Goods are shipped on the next working day. Shipping is free above 50 euros.
"""
KEYS = IssuerKeys("acme", (IssuerKey(bytes(range(32)), "2020-01-01T00:00:00Z"),))
DIM = 64
ORIGIN = "log.example/answers"


class Says:
    """A generator that says one thing whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    @property
    def identity(self) -> GeneratorIdentity:
        return GeneratorIdentity("says", "a model", "a" * 64)

    def generate(self, question: str, texts: Sequence[str]) -> str:
        self.asked.append(question)
        assert texts
        return self.text


class Believes:
    """A judge that believes everything."""

    def __init__(self, label: Any = "entailed", confidence: str = "0.900000") -> None:
        self.label, self.confidence = label, confidence

    @property
    def identity(self) -> JudgeIdentity:
        return JudgeIdentity("believes", "1", "b" * 64)

    def judge(self, _claim: str, _spans: Sequence[str]) -> Judgement:
        return Judgement(self.label, self.confidence, "")


def offline(**changes: Any) -> Pipeline:
    return Pipeline(**{"generator": make_generator(), "judge": make_judge("quotation"), **changes})


def from_index(question: str) -> Retrieval:
    return retrieve("a.db", question, 5)


def judged(envelope: dict[str, Any], *, logs: dict[str, Any] | None = None, query: str = QUESTION, **policy: Any) -> Any:
    trust = Trust.of([Trusted("acme", KEYS.signing.public)], logs)
    return verify(as_bytes(envelope), trust, Policy(require_log=logs is not None, **policy), query, now=datetime.now(timezone.utc))
