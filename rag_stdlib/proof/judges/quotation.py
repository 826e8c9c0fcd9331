"""The judge of quotations: a claim is quoted where it stands in a span word by word, as whole sentences, and is not in somebody else's mouth.

What stands in the same sentence can deny a part of it, put a condition on it, doubt it, or say whose words it is, and no list of words finds all the
ways to do so. So the rule is closed: each sentence of the claim has to be a whole unit of the span, not a part of one, and it has to stand in the span
under the same units as in the claim (`rag_stdlib.proof.units`). Numbers, negation and quantifiers then agree by themselves. A sentence that differs from the
claim's in just one of them, beyond doubt, contradicts it.

The judge decides by form and knows no meaning: what it shows is a quotation, and never more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from rag_stdlib.proof.decisions import is_quotation, squeezed
from rag_stdlib.proof.judges import likeness
from rag_stdlib.proof.judges.protocol import CERTAIN, JudgeIdentity, Judgement
from rag_stdlib.proof.units import Unit, form, units

VERSION: Final = "1"  # of the rules; a change of any of them is another version


class QuotationJudge:
    """Finds quotations, and near ones that say otherwise; needs nothing but the texts. Time is linear in them."""

    @property
    def identity(self) -> JudgeIdentity:
        """See `Judge.identity`; the digest is of the name and version of the rules."""
        return JudgeIdentity("quotation", VERSION, hashlib.sha256(f"rag-stdlib/judge/quotation/{VERSION}".encode()).hexdigest())

    def judge(self, claim: str, spans: Sequence[str]) -> Judgement:
        """See `Judge.judge`; it never fails."""
        asked = _Text(claim)
        if not any(map(str.isalnum, claim)):
            return Judgement("not_supported", CERTAIN, "the claim says nothing")
        texts = [_Text(span) for span in spans]
        for number, text in enumerate(texts, 1):
            if is_quotation(claim, [text.text]) and asked.said <= text.offered:
                return Judgement("quoted", CERTAIN, f"it stands in span {number}, whole")
        for number, text in enumerate(texts, 1):
            if wherein := asked.contradicted_by(text):
                return Judgement("contradicted", CERTAIN, f"span {number} says the same with another {wherein}")
        part_of = next((number for number, text in enumerate(texts, 1) if is_quotation(claim, [text.text])), None)
        if part_of is None:
            return Judgement("not_supported", CERTAIN, "it stands in no span word by word")
        return Judgement("not_supported", CERTAIN, f"it is cut out of what span {part_of} says")


class _Said(NamedTuple):
    """A unit by what counts in it, and a digest of the same of all that it has to be read with."""

    form: str
    context: bytes


class _Text:
    """A text taken apart for comparison."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.units = units(text)
        contexts: list[bytes] = []
        self._all: list[_Said] = []
        for unit in self.units:
            above = b"" if unit.under is None else contexts[unit.under]
            behind = squeezed(text[unit.end:unit.outer_end]) if unit.undone else ""
            here = form(text[unit.start:unit.end])
            self._all.append(_Said(here, above + behind.encode(errors="surrogatepass")))
            contexts.append(hashlib.sha256(above + here.encode(errors="surrogatepass")).digest())

    @property
    def said(self) -> frozenset[_Said]:
        """All that the text says."""
        return frozenset(self._all)

    @property
    def offered(self) -> frozenset[_Said]:
        """What can be quoted from it: not what it begins with, if that looks like the rest of a sentence."""
        return frozenset(each for unit, each in zip(self.units, self._all, strict=True) if not self._is_rest(unit))

    def contradicted_by(self, other: _Text) -> str:
        """Say wherein a unit of another text contradicts this one, if this is a single one."""
        if len(self.units) != 1:
            return ""
        claim = likeness.read(self._all[0].form)
        readings = (likeness.read(each.form) for unit, each in zip(other.units, other._all, strict=True) if unit.alone and not other._is_rest(unit))
        return next((found for reading in readings if reading.words == claim.words and (found := likeness.difference(claim, reading))), "")

    def _is_rest(self, unit: Unit) -> bool:
        if unit.mark > 0 or unit.mark < unit.start:
            return False
        first = next((char for char in self.text[unit.start:unit.end] if char.isalnum()), "")
        return first.islower()
