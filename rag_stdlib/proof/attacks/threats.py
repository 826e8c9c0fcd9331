"""The threat model: seven threats in their variants, each by four attackers.

Who has not the issuer's key is told by the signature, whatever he changes. The issuer is told where its lie does not fit together, and by the old receipt where
the log has not the new one. What is left, where all fits and is logged, is that the log has it: two answers to one question are found there by whoever
reads it, and a log that shows two faces by its witnesses and by clients that remember.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final, TypeAlias

from rag_stdlib.proof.attacks.attack import ANOTHER_QUESTION, Asked, Attack, Make, Unsuited, told
from rag_stdlib.proof.attacks.parts import Json, rehashed, written
from rag_stdlib.proof.attacks.scene import Attacker
from rag_stdlib.proof.attacks.wording import requoted, reworded
from rag_stdlib.proof.decisions import is_quotation

Change: TypeAlias = Callable[[dict[str, Json]], None]

_SURE: Final = "0.990000"


def _quoted(body: dict[str, Json], spans: int = 1) -> list[dict[str, Json]]:
    """Return the quoted claims with so many spans at least."""
    found = [claim for claim in body["claims"] if claim["judgement"]["label"] == "quoted" and len(claim["spans"]) >= spans]
    if not found:
        raise Unsuited
    return found


def _swap_citations(body: dict[str, Json]) -> None:
    for one, other in combinations(_quoted(body), 2):
        one["spans"], other["spans"] = other["spans"], one["spans"]
        if not (_is_quoted(one) and _is_quoted(other)):
            return
        one["spans"], other["spans"] = other["spans"], one["spans"]
    raise Unsuited


def _is_quoted(claim: dict[str, Json]) -> bool:
    return is_quotation(claim["text"], [span["text"] for span in claim["spans"]])


def _in_span(change: Callable[[str], str]) -> Change:
    def make(body: dict[str, Json]) -> None:
        span = _quoted(body)[0]["spans"][0]
        span["text"] = change(span["text"])
        span["end"] = span["start"] + len(span["text"])

    return make


def _in_evidence(body: dict[str, Json]) -> None:
    claim = _quoted(body)[0]
    requoted(body, claim["spans"][0], _paraphrased)
    if _is_quoted(claim):  # by another of its spans
        raise Unsuited


def _in_claim(change: Callable[[str], str]) -> Change:
    return lambda body: reworded(body, _quoted(body)[0], change)


def _in_claim_alone(body: dict[str, Json]) -> None:
    claim = _quoted(body)[0]
    claim["text"] = _negated(claim["text"])


def _paraphrased(text: str) -> str:
    return " ".join(["ALTERED" if place == 1 else word for place, word in enumerate(text.split(" "))])


def _numbered(text: str) -> str:
    return "".join(str((int(mark) + 1) % 10) if "0" <= mark <= "9" else mark for mark in text) + " 999"


def _negated(text: str) -> str:
    first, _, rest = text.partition(" ")
    return f"{first} never {rest}"


def _drop_span(body: dict[str, Json]) -> None:
    claim = _quoted(body, 2)[0]
    del claim["spans"][0]
    if _is_quoted(claim):
        raise Unsuited


def _drop_spans(body: dict[str, Json]) -> None:
    _quoted(body)
    for claim in body["claims"]:
        claim["spans"] = []


def _reorder_spans(body: dict[str, Json]) -> None:
    _quoted(body, 2)[0]["spans"].reverse()


def _all_shown(label: str) -> Change:
    """Show every claim that has spans as the judge would have to find it."""
    def make(body: dict[str, Json]) -> None:
        hidden = [claim for claim in body["claims"] if claim["spans"] and not claim["decision"]["shown"]]
        if not hidden or label not in body["policy"]["labels"] or body["policy"]["minimum_confidence"] > _SURE:
            raise Unsuited
        if all(map(_is_quoted, hidden)) if label == "quoted" else body["judge"]["name"] == "none":  # no judge would have found it
            raise Unsuited
        for claim in hidden:
            claim["judgement"].update(label=label, confidence=_SURE)
            claim["decision"] = {"shown": True, "reason": None}

    return make


def _decide_shown(body: dict[str, Json]) -> None:
    """Show every claim, whatever the judge found."""
    before = [claim["decision"] for claim in body["claims"]]
    for claim in body["claims"]:
        claim["decision"] = {"shown": True, "reason": None}
    if before == [claim["decision"] for claim in body["claims"]]:
        raise Unsuited


def second_answer(body: dict[str, Json]) -> None:
    """Answer with the last quoted claim alone."""
    claim = _quoted(body)[-1]
    if len(body["claims"]) == 1:
        raise Unsuited
    claim.update(start=0, end=len(claim["text"]))
    body["claims"], body["answer"]["text"] = [claim], claim["text"]


def _variants(name: str, title: str, change: Change, issuer: str, logged: str) -> tuple[Attack, ...]:
    """Name what has to come of a change by each attacker; `issuer` and `logged` are outcomes of the issuer's."""
    outcomes: tuple[tuple[Attacker, str], ...] = (
        ("no_key", "refuted signature"), ("own_key", "refuted signature"), ("issuer", issuer), ("issuer_logged", logged))
    return tuple(_attack(f"{name}.{attacker}", title, attacker, told(attacker, change), outcome) for attacker, outcome in outcomes)


def _attack(name: str, title: str, attacker: Attacker, make: Make, outcome: str, asked: Asked = "asked") -> Attack:
    word, _, code = outcome.partition(" ")
    return Attack(name, title, attacker, make, word, code, asked)


def _replayed(attacker: Attacker) -> Make:
    """Show the answer to one question as that to another; who signs commits to the other one first."""
    return lambda scene: written(scene.by(attacker, scene.body if attacker == "no_key" else rehashed(scene.body, ANOTHER_QUESTION)))


def _replays() -> tuple[Attack, ...]:
    outcomes: tuple[tuple[Attacker, str], ...] = (
        ("no_key", "refuted query"), ("own_key", "refuted signature"), ("issuer", "refuted inclusion"), ("issuer_logged", "verified"))
    title = "a replay: the answer to another question"
    return tuple(_attack(f"A6.{attacker}", title, attacker, _replayed(attacker), outcome, "another") for attacker, outcome in outcomes)


THREATS: Final[tuple[Attack, ...]] = (
    *_variants("A1", "two claims exchange what they cite", _swap_citations, "refuted quotation", "refuted quotation"),
    *_variants("A2a", "words are put into a span", _in_span(lambda text: text + " [TAMPERED]"), "refuted span", "refuted span"),
    *_variants("A2b", "a span is put in other words", _in_span(_paraphrased), "refuted span", "refuted span"),
    *_variants("A2c", "a span has other numbers", _in_span(_numbered), "refuted span", "refuted span"),
    *_variants("A2d", "a span is put in other words, and the item with it", _in_evidence, "refuted quotation", "refuted quotation"),
    *_variants("A3a", "a claim is negated, and the answer with it", _in_claim(_negated), "refuted quotation", "refuted quotation"),
    *_variants("A3b", "a claim has another quantity, and the answer with it", _in_claim(_numbered), "refuted quotation", "refuted quotation"),
    *_variants("A3c", "a claim is negated, and the answer is not", _in_claim_alone, "refuted claim", "refuted claim"),
    *_variants("A4a", "a span is dropped", _drop_span, "refuted quotation", "refuted quotation"),
    *_variants("A4b", "all spans are dropped", _drop_spans, "refuted quotation", "refuted quotation"),
    *_variants("A4c", "spans are in another order", _reorder_spans, "refuted inclusion", "verified"),
    *_variants("A5a", "what is not supported is said to be quoted", _all_shown("quoted"), "refuted quotation", "refuted quotation"),
    *_variants("A5b", "what is not supported is said to be entailed", _all_shown("entailed"), "refuted inclusion", "verified"),
    *_variants("A5c", "what is not supported is shown", _decide_shown, "refuted decision", "refuted decision"),
    *_replays(),
    *_variants("A7", "a second answer to one question", second_answer, "refuted inclusion", "verified"))
