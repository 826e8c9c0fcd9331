"""Attacks by the issuer on what it signs: a body that does not fit together, or has not its form, with every digest computed again, signed and logged.

Where everything fits together the body is another certificate, and it verifies: nobody but the issuer can say whether it is true.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.attack import GROUP_ORDER, Attack, Make, Unsuited, put, told
from rag_stdlib.proof.attacks.parts import GONE, Json, Path, written
from rag_stdlib.proof.attacks.scene import Scene
from rag_stdlib.proof.attacks.wording import redecided, reworded

_CLAIM: Final[Path] = ("claims", 0)
_SPAN: Final[Path] = (*_CLAIM, "spans", 0)
_JUDGEMENT: Final[Path] = (*_CLAIM, "judgement")
_ITEM: Final[Path] = ("retrieval", "items", 0)
_SHOWN: Final = {"shown": True, "reason": None}
_ZEROS: Final = "0" * 64
_FAILED: Final = {"node_id": _ZEROS, "reason": "timed_out"}
_BACKWARDS: Final = {"kind": "corpus", "path": "", "repo_id": None, "commit": None, "start_line": 2, "end_line": 1}
_HOSTILE: Final = "\u202egnp.exe\u202c\u200b<b onclick=x>[/nope]</b>\x1b[2J `**"


def _issuer(name: str, title: str, outcome: str, *changes: tuple[Path, Json]) -> Attack:
    return _made(name, title, outcome, put("issuer_logged", *changes))


def _made(name: str, title: str, outcome: str, make: Make) -> Attack:
    word, _, code = outcome.partition(" ")
    return Attack(name, title, "issuer_logged", make, word, code)


def _unnamed(node: Json) -> str:
    if node is not None:
        raise Unsuited
    return "f" * 64


def _twice(of: list[Json]) -> list[Json]:
    return [*of, of[0]]


def _empty(scene: Scene) -> bytes:
    return written(scene.by("issuer_logged", {}))


def _zero_nonce(scene: Scene) -> bytes:
    """Sign with the nonce zero, whose R is a point of small order: the equation holds, and whoever sees the signature can compute the secret key."""
    if scene.insider is None:
        raise Unsuited
    key = scene.insider.key
    halves = hashlib.sha512(key.private_bytes_raw()).digest()
    secret = int.from_bytes(halves[:32], "little") & ~7 & (1 << 254) - 1 | 1 << 254  # RFC 8032 §5.1.5
    first = bytes([1]) + bytes(31)
    message = fmt.signed_bytes(canonical(scene.envelope["certificate"]))
    challenge = int.from_bytes(hashlib.sha512(first + key.public_key().public_bytes_raw() + message).digest(), "little")
    second = challenge * secret % GROUP_ORDER
    return written({**scene.envelope, "signature": base64.b64encode(first + second.to_bytes(32, "little")).decode()})


def _hostile_claim(body: dict[str, Json]) -> None:
    """Say something that acts on whoever shows it, where the judge has the last word."""
    claim = next((claim for claim in body["claims"] if claim["judgement"]["label"] == "entailed"), None)
    if claim is None:
        raise Unsuited
    reworded(body, claim, lambda text: text + _HOSTILE)


def _white_claim(body: dict[str, Json]) -> None:
    """Say that white space is quoted."""
    claim = body["claims"][0]
    claim["judgement"]["label"] = "quoted"
    reworded(body, claim, lambda _: "\u2003\n ")


def _other_answer(body: dict[str, Json]) -> None:
    body["answer"]["text"] = body["claims"][0]["text"][::-1] + " All is refunded."


def _longer_answer(body: dict[str, Json]) -> None:
    body["answer"]["text"] = body["answer"]["text"][:body["claims"][-1]["end"]] + " All is refunded."


def _span_elsewhere(body: dict[str, Json]) -> None:
    """Say that a span is of an item that has another text at that place."""
    span = body["claims"][0]["spans"][0]
    for place, item in enumerate(body["retrieval"]["items"]):
        if item["text"][span["start"]:span["end"]] != span["text"]:
            span["item"] = place
            return
    raise Unsuited


def _fewer_asked(body: dict[str, Json]) -> None:
    found = body["retrieval"]
    if len(found["items"]) <= 1:  # a limit is 1 at least
        raise Unsuited
    found["limit"] = len(found["items"]) - 1


def _worst_first(body: dict[str, Json]) -> None:
    found = body["retrieval"]
    first, second = found["items"][0], found["items"][1]
    first["score"], second["score"], found["merged_by"] = "-999999999.999999999", "-999999999.999999998", None


def _unaligned(body: dict[str, Json]) -> None:
    """Say that spans were not looked for, where there are some."""
    if not any(claim["spans"] for claim in body["claims"]):
        raise Unsuited
    body["methods"]["alignment"] = "none"


def _undivided(body: dict[str, Json]) -> None:
    """Say that the answer was not taken apart, where it has several claims."""
    if len(body["claims"]) <= 1:
        raise Unsuited
    body["methods"]["decomposition"] = "whole"


def _unjudged(body: dict[str, Json]) -> None:
    """Say that nobody judged, where a claim is more than not supported."""
    if all(claim["judgement"]["label"] == "not_supported" for claim in body["claims"]):
        raise Unsuited
    body["judge"]["name"] = "none"


def _least(confidence: str, least: str) -> Callable[[dict[str, Json]], None]:
    """Give a claim a confidence, and the policy a least one, by which all is decided again."""
    def change(body: dict[str, Json]) -> None:
        body["claims"][0]["judgement"]["confidence"] = confidence
        body["policy"]["minimum_confidence"] = least
        redecided(body)

    return change


_FORMS: Final = (
    _made("3", "an empty body", "unknown unsupported_schema", _empty),
    _issuer("5", "no claims, and no digest of the answer", "refuted schema", (("claims",), []), (("answer", "sha256"), GONE)),
    _issuer("6", "a claim without its digest", "refuted schema", ((*_CLAIM, "sha256"), GONE)),
    _issuer("7", "a claim with an empty digest", "refuted schema", ((*_CLAIM, "sha256"), "")),
    _issuer("8a", "an invented span without its digest", "refuted schema", ((*_SPAN, "text"), "All is refunded."), ((*_SPAN, "sha256"), GONE)),
    _issuer("10", "a claim without the list of its spans", "refuted schema", ((*_CLAIM, "spans"), GONE)),
    _issuer("11b", "a span that begins before its item", "refuted schema", ((*_SPAN, "start"), -5)),
    _issuer("12", "no retrieval", "refuted schema", (("retrieval",), GONE)),
    _issuer("14a", "a word for the digest of the judge's inputs", "refuted schema", ((*_JUDGEMENT, "inputs_sha256"), "deadbeef")),
    _issuer("16", "a least confidence below zero", "refuted schema", (("policy", "minimum_confidence"), "-1.000000")),
    _issuer("18a", "a policy that fails open", "refuted schema", (("policy", "mode"), "fail_open")),
    _issuer("18b", "a policy without a least confidence", "refuted schema", (("policy", "minimum_confidence"), GONE)),
    _issuer("19", "a confidence that is a number", "refuted schema", ((*_JUDGEMENT, "confidence"), 0.99)),
    _issuer("20", "a confidence above one", "refuted schema", ((*_JUDGEMENT, "confidence"), "7.500000")),
    _issuer("21", "a word for whether a claim is shown", "refuted schema", ((*_CLAIM, "decision", "shown"), "no")),
    _issuer("25", "issued yesterday-ish", "refuted schema", (("issued_at",), "yesterday-ish")),
    _issuer("25b", "issued on the 30th of February", "refuted schema", (("issued_at",), "2026-02-30T00:00:00Z")),
    _issuer("26a", "another version", "unknown unsupported_schema", (("schema",), "rag-stdlib/answer-certificate/v99")),
    _issuer("26b", "a member that has to be understood", "refuted schema", (("critical",), ["x"])),
    _issuer("28a", "an empty nonce", "refuted schema", (("query", "nonce"), "")),
    _issuer("40", "claims are null", "refuted schema", (("claims",), None)),
    _issuer("41", "claims are an object", "refuted schema", (("claims",), {})),
    _issuer("42", "a claim is null", "refuted schema", (_CLAIM, None)),
    _issuer("45", "a claim's text is a list", "refuted schema", ((*_CLAIM, "text"), ["x"])),
    _issuer("49a", "a least confidence that two writers of numbers write differently", "refuted schema", (("policy", "minimum_confidence"), 1e-05)),
    _issuer("58", "a digest in capitals", "refuted schema", ((*_CLAIM, "sha256"), lambda digest: digest.upper())),
    _issuer("60", "labels out of order", "refuted schema", (("policy", "labels"), lambda labels: labels[::-1])),
    _issuer("61", "a score of negative zero", "refuted schema", ((*_ITEM, "score"), "-0.000000000")),
    _issuer("62", "a reason that the format does not know", "refuted schema", ((*_CLAIM, "decision", "reason"), "because")))

_CONTENTS: Final = (
    _issuer("4", "an answer without claims", "refuted no_claims", (("claims",), [])),
    _issuer("8b", "an invented span with its digest", "refuted span", ((*_SPAN, "text"), "All is refunded.")),
    _issuer("9a", "a quoted claim without spans", "refuted quotation", ((*_CLAIM, "spans"), []), ((*_JUDGEMENT, "label"), "quoted")),
    _issuer("9b", "an entailed claim that is shown without spans", "refuted decision",
            ((*_CLAIM, "spans"), []), ((*_JUDGEMENT, "label"), "entailed"), ((*_CLAIM, "decision"), _SHOWN)),
    _issuer("11a", "a span of what was not retrieved", "refuted span", ((*_SPAN, "item"), 99)),
    _issuer("11c", "a span that ends behind its item", "refuted span", ((*_SPAN, "end"), 10**6)),
    _made("11d", "a span of another item", "refuted span", told("issuer_logged", _span_elsewhere)),
    _issuer("11e", "an empty span", "refuted span", ((*_SPAN, "end"), 0), ((*_SPAN, "text"), "")),
    _issuer("13", "an item's digest is zeros", "refuted hash", ((*_ITEM, "content_sha256"), _ZEROS)),
    _issuer("14b", "the judge's inputs are others", "refuted hash", ((*_JUDGEMENT, "inputs_sha256"), _ZEROS)),
    _issuer("15a", "a contradicted claim is shown", "refuted decision",
            ((*_JUDGEMENT, "label"), "contradicted"), ((*_JUDGEMENT, "confidence"), "0.010000"), ((*_CLAIM, "decision"), _SHOWN)),
    _issuer("15b", "a claim below the least confidence is shown", "refuted decision",
            ((*_JUDGEMENT, "confidence"), "0.010000"), (("policy", "minimum_confidence"), "0.500000"), ((*_CLAIM, "decision"), _SHOWN)),
    _issuer("15c", "a claim is held back that would have been shown", "refuted decision", ((*_CLAIM, "decision"), {"shown": False, "reason": "low_confidence"})),
    _made("17", "a confidence of a hundredth, under a policy that takes it", "verified", told("issuer_logged", _least("0.010000", "0.000000"))),
    _issuer("22a", "a claim twice", "refuted claim", (("claims",), _twice)),
    _issuer("22b", "an item twice", "refuted retrieval", (("retrieval", "items"), _twice)),
    _made("49b", "a least confidence of a hundred-thousandth", "verified", told("issuer_logged", _least("0.000010", "0.000010"))),
    _made("50", "a claim that turns the direction of writing, and holds markup", "verified", told("issuer_logged", _hostile_claim)),
    _issuer("54", "a source that holds markup and moves the cursor", "verified", ((*_ITEM, "source"), _HOSTILE), ((*_ITEM, "doc_id"), "[/nope]")),
    _made("55a", "another answer over the old claims", "refuted claim", told("issuer_logged", _other_answer)),
    _made("55b", "a sentence that is no claim's", "refuted uncovered", told("issuer_logged", _longer_answer)),
    _issuer("56", "an empty answer under the old digest", "refuted hash", (("answer", "text"), ""), (("answer", "sha256"), lambda digest: digest)),
    _issuer("56b", "an answer that is said to be none", "refuted no_claims", (("answer", "abstained"), True)),
    _issuer("63", "embeddings were searched, by no embedder", "refuted retrieval", (("retrieval", "mode"), "vector"), (("retrieval", "embedder"), None)),
    _issuer("63b", "words alone were searched, by an embedder", "refuted retrieval",
            (("retrieval", "mode"), "lexical"), (("retrieval", "embedder"), {"model": "words", "dim": 8})),
    _made("64", "more items than were asked for", "refuted retrieval", told("issuer_logged", _fewer_asked)),
    _made("65", "the best item is not the first", "refuted retrieval", told("issuer_logged", _worst_first)),
    _issuer("66", "an item of an index that was not asked", "refuted retrieval", ((*_ITEM, "index"), 10_000)),
    _issuer("67", "an item's place is not as long as its text", "refuted retrieval", ((*_ITEM, "end"), lambda end: end + 1)),
    _issuer("68", "less that is not proven", "refuted not_proven", (("not_proven",), list(fmt.NOT_PROVEN[1:]))),
    _made("69", "a claim of white space is said to be quoted", "refuted quotation", told("issuer_logged", _white_claim)),
    _issuer("78", "two indexes, whose hits nothing merged", "refuted retrieval", (("retrieval", "indexes"), _twice), (("retrieval", "merged_by"), None)),
    _issuer("79a", "a node that failed twice", "refuted retrieval", (("retrieval", "merged_by"), "score"), (("retrieval", "failed"), [_FAILED, _FAILED])),
    _issuer("79b", "a node that failed and was not asked", "refuted retrieval",
            (("retrieval", "merged_by"), "score"), (("retrieval", "failed"), [_FAILED]), (("retrieval", "not_asked"), [_FAILED])),
    _issuer("80", "lines that go backwards", "refuted retrieval", ((*_ITEM, "provenance"), _BACKWARDS)),
    _made("81", "spans that nobody looked for", "refuted span", told("issuer_logged", _unaligned)),
    _made("82", "claims of an answer that was not taken apart", "refuted claim", told("issuer_logged", _undivided)),
    _made("83", "judgements by no judge", "refuted decision", told("issuer_logged", _unjudged)))

_TIMES_AND_QUESTION: Final = (
    _issuer("23a", "issued and expired long ago", "refuted expired", (("issued_at",), "1970-01-01T00:00:00Z"), (("expires_at",), "1971-01-01T00:00:00Z")),
    _issuer("24", "issued in a thousand years", "refuted not_yet_valid", (("issued_at",), "2999-01-01T00:00:00Z"), (("expires_at",), "2999-02-01T00:00:00Z")),
    _issuer("24c", "good until the end of time", "refuted time", (("expires_at",), "9999-12-31T23:59:59Z")),
    _issuer("24b", "expired when it was issued", "refuted time", (("expires_at",), "1970-01-01T00:00:00Z")),
    _issuer("57a", "the commitment to the question is zeros", "refuted query", (("query", "commitment"), _ZEROS)),
    _issuer("57b", "the question's key in the log is zeros", "refuted query", (("query", "key"), _ZEROS)),
    _issuer("28b", "another nonce than the asker's", "refuted nonce", (("query", "nonce"), "nonce-of-nobody_00")))

_SIGNATURES: Final = (
    _made("2c", "the issuer signs with a nonce of zero", "refuted signature", _zero_nonce),
    _issuer("N7", "a node is named that has not signed", "refuted node_signature", (("issuer", "node_id"), _unnamed)))

EDITS: Final[tuple[Attack, ...]] = (*_SIGNATURES, *_FORMS, *_CONTENTS, *_TIMES_AND_QUESTION)
