"""From a question to a draft of a certificate: retrieve, generate, take apart into claims, align, judge.

Each part can be exchanged or left out. What comes from outside - the index, models, embedders, the clock, random numbers - is a call that a
trace records (`rag_stdlib.proof.recording`), so that a recorded run gives the same draft again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from rag_stdlib.proof.alignment import MOST_SPANS, Aligned, Aligner
from rag_stdlib.proof.certificate import LABELS, LIFETIME_S, MINIMUM, Claim, Draft, Item, Named, Retrieval, Span
from rag_stdlib.proof.claims import Decomposition, split
from rag_stdlib.proof.decisions import is_quotation
from rag_stdlib.proof.format import LABELS as ALL_LABELS
from rag_stdlib.proof.format import LONGEST_S, TIME, read_time
from rag_stdlib.proof.recording import recorded
from rag_stdlib.proof.units import whole_part

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix
    from rag_stdlib.proof.generators.protocol import Generator
    from rag_stdlib.proof.judges.protocol import Judge

Alignment: TypeAlias = Literal["lexical", "embedder", "none"]
Retrieve: TypeAlias = Callable[[str], Retrieval]

SPANS: Final = 3
_NONCE_BYTES: Final = 16
_HEADING: Final = re.compile(r"#{1,6} ")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How answers are made.

    Attributes:
        generator: Writes an answer from the retrieved texts, or abstains.
        judge: Says how a claim stands to its spans.
        decomposition: How an answer is taken apart.
        alignment: How spans are found; ``none`` finds none, so that no claim may be shown.
        embed: Gives vectors of unit length for texts; for alignment ``embedder``.
        spans: How many spans a claim may have, 1 to 16.
        labels: The labels that may be shown: one or several of the format's; a claim that is contradicted or not supported never is.
        minimum_confidence: The least confidence that may be shown, six decimals.
        lifetime_s: How long a certificate is good, in seconds: 1 to 31,622,400, which are 366 days.
    """

    generator: Generator
    judge: Judge
    decomposition: Decomposition = "rules"
    alignment: Alignment = "lexical"
    embed: Callable[[Sequence[str]], Matrix] | None = None
    spans: int = SPANS
    labels: tuple[str, ...] = LABELS
    minimum_confidence: str = MINIMUM
    lifetime_s: int = LIFETIME_S

    def __post_init__(self) -> None:
        """Refuse what does not fit together, by `ValueError`."""
        if (self.embed is None) == (self.alignment == "embedder"):
            raise ValueError("alignment by embedder takes an embedder, and no other takes one")
        if not 1 <= self.spans <= MOST_SPANS:
            raise ValueError(f"a claim has 1 to {MOST_SPANS} spans")
        if not self.labels or not set(self.labels) <= set(ALL_LABELS):
            raise ValueError(f"labels are some of {', '.join(ALL_LABELS)}")
        if not 1 <= self.lifetime_s <= LONGEST_S:
            raise ValueError(f"a certificate is good for 1 to {LONGEST_S:,} seconds")


@dataclass(frozen=True, slots=True)
class Moment:
    """What a certificate takes from its moment: the time, a salt, and a nonce for an asker who has sent none."""

    now: datetime
    salt: str
    nonce: str


def moment() -> Moment:
    """Draw the time and random numbers; of a replay, those that were recorded."""
    def drawn() -> dict[str, str]:
        return {"now": datetime.now(timezone.utc).strftime(TIME), "salt": secrets.token_hex(32), "nonce": secrets.token_urlsafe(_NONCE_BYTES)}

    given = recorded("rag_certificate_moment", [], drawn)
    now = read_time(given["now"])
    if now is None:
        raise ValueError("a recorded time is none")
    return Moment(now, given["salt"], given["nonce"])


def draft(question: str, nonce: str, retrieve: Retrieve, pipeline: Pipeline) -> Draft:
    """Answer a question, and judge the answer claim by claim.

    Where nothing was retrieved, nothing is generated: the answer is none.

    Raises:
        Failure: what retrieving, generating, aligning or judging fails with.
    """
    found = retrieve(question)
    parts = [_Part.of(item) for item in found.items]
    texts = [part.text for part in parts if part.text]
    answer = pipeline.generator.generate(question, texts) if texts else ""
    generator, judge = pipeline.generator.identity, pipeline.judge.identity
    return Draft(
        question, nonce, found, answer, tuple(_claims(answer, parts, pipeline)), Named(generator.name, generator.model, generator.digest),
        Named(judge.name, judge.version, judge.digest), pipeline.decomposition, pipeline.alignment, pipeline.labels, pipeline.minimum_confidence,
        pipeline.lifetime_s)


class _Part(NamedTuple):
    """What of an item is evidence: its whole sentences, without what was cut off at its ends; they begin at `start` of its text."""

    start: int
    text: str

    @classmethod
    def of(cls, item: Item) -> _Part:
        begins_whole = item.start == 0 or _HEADING.match(item.text) is not None
        start, end = whole_part(item.text, cut_before=not begins_whole, cut_behind=True)
        return cls(start, item.text[start:end])


def _claims(answer: str, parts: Sequence[_Part], pipeline: Pipeline) -> list[Claim]:
    texts = [part.text for part in parts]
    aligner = Aligner(texts, embed=pipeline.embed) if pipeline.alignment != "none" else None
    claims = []
    for place in split(answer, pipeline.decomposition):
        claim = answer[place.start:place.end]
        aligned = aligner.align(claim, pipeline.spans) if aligner is not None else []
        quotes = [texts[span.item][span.start:span.end] for span in aligned]
        judged = pipeline.judge.judge(claim, quotes)
        label = "not_supported" if judged.label == "quoted" and not is_quotation(claim, quotes) else judged.label
        spans = tuple(_span(span, parts[span.item].start) for span in aligned)
        claims.append(Claim(place.start, place.end, spans, label, judged.confidence))
    return claims


def _span(found: Aligned, begins: int) -> Span:
    return Span(found.item, begins + found.start, begins + found.end, found.score)
