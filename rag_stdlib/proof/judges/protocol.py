"""What a judge is: it says of a claim and the spans it may rest on how they stand to each other, and is named by what it decides with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Label: TypeAlias = Literal["quoted", "entailed", "contradicted", "not_supported"]

CERTAIN: Final = "1.000000"
NONE: Final = "0.000000"


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """A judge: its name, its version, and a digest (hex of a SHA-256) of everything that its judgements depend on but their inputs."""

    name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge found.

    `quoted`: the claim stands in a span, word by word and whole. `entailed`: it follows from one. `contradicted`: one says otherwise.
    `not_supported`: none of these. `confidence` is a decimal from ``0.000000`` to ``1.000000``, and `detail` says why in a few words
    that quote nothing.
    """

    label: Label
    confidence: str
    detail: str


class Judge(Protocol):
    """The seam every judge implements; instances are safe to call from several threads."""

    @property
    def identity(self) -> JudgeIdentity:
        """Say what judges. May read files, once; raises `rag_stdlib.errors.Failure` where they cannot be used."""

    def judge(self, claim: str, spans: Sequence[str]) -> Judgement:
        """Judge a claim by spans, each of which consists of whole sentences.

        Raises:
            Failure: a ``judge_*`` code; nothing else.
        """

