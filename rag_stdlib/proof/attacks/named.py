"""Attacks by name: each with what has to come of it. The numbers are those of the list that the suite has to cover, `A` those of the threat model.

An attack that the issuer makes with its own key can only be told by what does not fit together. Where everything fits, it is another certificate:
then the log has both, and a monitor that reads it finds two answers to one question (`equivocation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.scene import GONE, Attacker, Json, Scene, Step, rehashed, with_part, written

Make: TypeAlias = Callable[[Scene], bytes]
Path: TypeAlias = "tuple[Step, ...]"

QUERY: Final = "another question"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: its id, what is done, by whom, and the outcome and code that have to come of it.

    `query` is the question that the relying party asked, None for the certificate's own. `shown` is how many claims may still be shown where the
    outcome is verified.
    """

    id: str
    title: str
    attacker: Attacker
    make: Make
    outcome: str
    code: str = ""
    query: str | None = None
    shown: int | None = None


def attacks(*, with_issuer: bool) -> Iterator[Attack]:
    """List the attacks; those by the issuer only on request."""
    for each in (*_BY_OTHERS, *(_BY_ISSUER if with_issuer else ())):
        yield each


def _edit(path: Path, new: Json) -> Make:
    """The issuer changes a part, computes every digest again, signs and logs it."""
    return lambda scene: scene.by_issuer(rehashed(with_part(scene.body, path, new)), logged=True)


def _raw_edit(path: Path, new: Json) -> Make:
    """The same, but digests stay as they were."""
    return lambda scene: scene.by_issuer(with_part(scene.body, path, new), logged=True)


def _edits(*changes: tuple[Path, Json]) -> Make:
    def make(scene: Scene) -> bytes:
        body = scene.body
        for path, new in changes:
            body = with_part(body, path, new)
        return scene.by_issuer(rehashed(body), logged=True)

    return make


def _stale(path: Path, new: Json) -> Make:
    """Somebody without a key changes a part; digests are right, and the signature is stale."""
    return lambda scene: scene.kept(rehashed(with_part(scene.body, path, new)))


def _own(path: Path, new: Json, *, named: bool) -> Make:
    return lambda scene: scene.by_own_key(rehashed(with_part(scene.body, path, new)), named=named)


def _envelope(path: Path, new: Json) -> Make:
    """Something of the envelope beside the body is changed."""
    return lambda scene: written(with_part(dict(scene.envelope), path, new))


def _text(change: Callable[[str], str]) -> Make:
    """The text of the file is changed."""
    return lambda scene: change(json.dumps(scene.envelope)).encode()


def _receipt(change: Callable[[list[str]], Sequence[str]]) -> Make:
    """Lines of the receipt are changed."""
    return lambda scene: written({**scene.envelope, "receipt": "\n".join(change(scene.envelope["receipt"].split("\n")))})


def _index_line(new: str) -> Make:
    return _receipt(lambda lines: [f"index {new}" if line.startswith("index ") else line for line in lines])


def _size_line(lines: list[str]) -> list[str]:
    size = lines.index("") + 2
    return [*lines[:size], "1000000000", *lines[size + 1:]]


def _more_path(lines: list[str]) -> list[str]:
    return [*lines[:lines.index("")], "A" * 43 + "=", *lines[lines.index(""):]]


def _no_hash(lines: list[str]) -> list[str]:
    end = lines.index("")
    return [*lines[:end], "nothex", *lines[end:]]


def _plus_order(scene: Scene) -> bytes:
    """Replace the scalar S of the signature by S + L, which a verifier that does not look takes for the same."""
    import base64

    order = 2**252 + 27742317777372353535851937790883648493
    signature = base64.b64decode(scene.envelope["signature"])
    scalar = int.from_bytes(signature[32:], "little") + order
    changed = signature[:32] + scalar.to_bytes(32, "little")
    return written({**scene.envelope, "signature": base64.b64encode(changed).decode()})


_TWICE: Final = '"text": "Everything is refunded.", "text": '
_CLAIM: Final[Path] = ("claims", 0)
_SPAN: Final[Path] = ("claims", 0, "spans", 0)
_ITEM: Final[Path] = ("retrieval", "items", 0)
_JUDGEMENT: Final[Path] = ("claims", 0, "judgement")
_DECISION: Final[Path] = ("claims", 0, "decision")
_ZEROS: Final = "0" * 64
_WEAK: Final = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
_JUNK: Final = "!*\n "


def _negated(text: str) -> str:
    return text.replace(" are ", " are never ", 1) if " are " in text else f"Never: {text}"


def _in_answer(change: Callable[[str], str], *, key: str) -> Make:
    """Change the first claim and the answer with it, by an attacker with this key."""
    def make(scene: Scene) -> bytes:
        body = scene.body
        claim = body["claims"][0]
        new = change(claim["text"])
        grown = len(new) - len(claim["text"])
        answer = body["answer"]["text"]
        body["answer"]["text"] = answer[:claim["start"]] + new + answer[claim["end"]:]
        claim["text"], claim["end"] = new, claim["end"] + grown
        for other in body["claims"][1:]:
            other["start"], other["end"] = other["start"] + grown, other["end"] + grown
        body = rehashed(body)
        ways = {"no_key": scene.kept, "own_key": lambda given: scene.by_own_key(given, named=True),
                "issuer": lambda given: scene.by_issuer(given, logged=True), "issuer_unlogged": scene.by_issuer}
        return ways[key](body)

    return make


def _in_evidence(change: Callable[[str], str], *, key: str) -> Make:
    """Change the text of the first item, and leave the spans as they are."""
    def make(scene: Scene) -> bytes:
        body = scene.body
        item = body["retrieval"]["items"][0]
        item["text"] = change(item["text"])
        item["end"] = item["start"] + len(item["text"])
        body = rehashed(body)
        return scene.by_issuer(body, logged=True) if key == "issuer" else scene.by_own_key(body, named=True) if key == "own_key" else scene.kept(body)

    return make


def _fourfold(number: str, title: str, make: Callable[..., Make], change: Callable[[str], str], code: str) -> list[Attack]:
    """One change by the attacker without a key, with his own, and by the issuer."""
    return [
        Attack(f"{number}.no_key", f"{title}; the signature is stale", "no_key", make(change, key="no_key"), "refuted", "signature"),
        Attack(f"{number}.own_key", f"{title}; signed by a key of the attacker's", "own_key", make(change, key="own_key"),
               "refuted" if code in _OF_BODY else "unknown", code if code in _OF_BODY else "untrusted_issuer"),
        Attack(f"{number}.issuer", f"{title}; signed and logged by the issuer", "issuer", make(change, key="issuer"), "refuted", code)]


_OF_BODY: Final = ("quotation", "span", "decision", "claim", "uncovered", "no_claims", "hash", "schema")

_BY_OTHERS: Final[tuple[Attack, ...]] = (
    Attack("1", "a claim is edited, and signed by a key that the certificate then names", "own_key", _own((*_CLAIM, "judgement", "confidence"), "0.999999", named=True),
           "unknown", "untrusted_issuer"),
    Attack("1b", "the same, but the issuer's key id is kept", "own_key", _own((*_CLAIM, "judgement", "confidence"), "0.999999", named=False), "refuted", "signature"),
    Attack("2", "the signature under which a key of small order takes every message", "no_key", _envelope(("signature",), _WEAK), "refuted", "signature"),
    Attack("27", "the certificate of one question is shown for another", "no_key", written_as_is := (lambda scene: written(dict(scene.envelope))), "refuted", "query", QUERY),
    Attack("29a", "the receipt is taken away", "no_key", _envelope(("receipt",), GONE), "unknown", "no_receipt"),
    Attack("29b", "the receipt is null", "no_key", _envelope(("receipt",), None), "refuted", "schema"),
    Attack("30", "the receipt is junk", "no_key", _envelope(("receipt",), "nothex\nzz\n"), "refuted", "receipt"),
    Attack("31", "the checkpoint claims another size under its old signature", "no_key", _receipt(_size_line), "refuted", "checkpoint_signature"),
    Attack("33", "another answer stands beside the body", "no_key", _envelope(("answer_text",), "Everything is refunded."), "refuted", "schema"),
    Attack("34", "a claim's text stands twice, the lie first", "no_key", _text(lambda text: text.replace('"text": ', _TWICE, 1)), "refuted", "malformed_json"),
    Attack("35", "the body stands twice, the lie first", "no_key", _text(lambda text: text.replace('"certificate": ', '"certificate": {}, "certificate": ', 1)),
           "refuted", "malformed_json"),
    Attack("36", "junk inside the base64 of the signature", "no_key", lambda scene: written({**scene.envelope, "signature": _JUNK + scene.envelope["signature"]}), "refuted", "schema"),
    Attack("37", "more padding behind it", "no_key", lambda scene: written({**scene.envelope, "signature": scene.envelope["signature"] + "===="}), "refuted", "schema"),
    Attack("38", "S + L in place of S", "no_key", _plus_order, "refuted", "signature"),
    Attack("39", "a word in place of the signature", "no_key", _envelope(("signature",), "unsigned"), "refuted", "schema"),
    Attack("43", "the body is a list", "no_key", _envelope(("certificate",), []), "refuted", "schema"),
    Attack("44", "the body is a text", "no_key", _envelope(("certificate",), "x"), "refuted", "schema"),
    Attack("46", "a number that JSON does not have", "no_key", _text(lambda text: text.replace('"limit": ', '"limit": NaN, "x": ', 1)), "refuted", "malformed_json"),
    Attack("47", "half a surrogate pair in a claim", "no_key", _stale((*_CLAIM, "text"), "\ud800"), "refuted", "malformed_json"),
    Attack("48", "half a surrogate pair in a key", "no_key", lambda scene: written({**scene.envelope, "\udfff": 1}), "refuted", "malformed_json"),
    Attack("49", "a fraction that two readers write differently", "no_key", _text(lambda text: text.replace('"limit": ', '"limit": 1e-5, "x": ', 1)), "refuted", "malformed_json"),
    Attack("51", "an integer that not every reader holds", "no_key", _text(lambda text: text.replace('"limit": ', '"limit": 9007199254740993, "x": ', 1)), "refuted", "malformed_json"),
    Attack("53", "nesting of 5,000", "no_key", _text(lambda text: text.replace('"limit": ', '"x": ' + "[" * 5_000 + "]" * 5_000 + ', "limit": ', 1)), "refuted", "malformed_json"),
    Attack("59", "a document's id is changed", "no_key", _stale((*_ITEM, "doc_id"), "another"), "refuted", "signature"),
    Attack("M1", "the receipt names another place", "no_key", _index_line("0"), "refuted", "inclusion"),
    Attack("M2", "a place before the first", "no_key", _index_line("-1"), "refuted", "receipt"),
    Attack("M3", "a place beyond the tree", "no_key", _index_line("1002"), "refuted", "inclusion"),
    Attack("M4", "a hash too many in the path", "no_key", _receipt(_more_path), "refuted", "inclusion"),
    Attack("M5", "a line of the path that is no hash", "no_key", _receipt(_no_hash), "refuted", "receipt"),
    Attack("A6.no_key", "a replay: an old certificate for a new question", "no_key", written_as_is, "refuted", "query", QUERY),
)

_BY_ISSUER: Final[tuple[Attack, ...]] = (
    Attack("3", "an empty body, signed", "issuer", lambda scene: scene.by_issuer({}), "unknown", "unsupported_schema"),
    Attack("4", "an answer without claims", "issuer", _edit(("claims",), []), "refuted", "no_claims"),
    Attack("5", "no claims, and no digest of the answer", "issuer", _edits((("claims",), []), (("answer", "sha256"), GONE)), "refuted", "schema"),
    Attack("6", "a claim without its digest", "issuer", _raw_edit((*_CLAIM, "sha256"), GONE), "refuted", "schema"),
    Attack("7", "a claim with an empty digest", "issuer", _raw_edit((*_CLAIM, "sha256"), ""), "refuted", "schema"),
    Attack("8a", "a span is invented, without a digest", "issuer", _raw_edit((*_SPAN, "sha256"), GONE), "refuted", "schema"),
    Attack("8b", "a span is invented, with its digest", "issuer", _edit((*_SPAN, "text"), "Everything is refunded."), "refuted", "span"),
    Attack("9", "a claim is shown without a span", "issuer", _edits(((*_CLAIM, "spans"), []), ((*_JUDGEMENT, "label"), "entailed")), "refuted", "decision"),
    Attack("10", "a claim without the list of spans", "issuer", _raw_edit((*_CLAIM, "spans"), GONE), "refuted", "schema"),
    Attack("11a", "a span of what was not retrieved", "issuer", _edit((*_SPAN, "item"), 99), "refuted", "span"),
    Attack("11b", "a span that begins before its item", "issuer", _edit((*_SPAN, "start"), -5), "refuted", "schema"),
    Attack("11c", "a span that ends behind its item", "issuer", _edit((*_SPAN, "end"), 10**6), "refuted", "span"),
    Attack("12", "the retrieval is left out", "issuer", _raw_edit(("retrieval",), GONE), "refuted", "schema"),
    Attack("13", "an item's digest is zeros", "issuer", _raw_edit((*_ITEM, "content_sha256"), _ZEROS), "refuted", "hash"),
    Attack("14a", "the judge's inputs are a word", "issuer", _raw_edit((*_JUDGEMENT, "inputs_sha256"), "deadbeef"), "refuted", "schema"),
    Attack("14b", "the judge's inputs are other ones", "issuer", _raw_edit((*_JUDGEMENT, "inputs_sha256"), _ZEROS), "refuted", "hash"),
    Attack("15", "a contradicted claim is shown", "issuer", _edits(((*_JUDGEMENT, "label"), "contradicted"), ((*_JUDGEMENT, "confidence"), "0.010000")), "refuted", "decision"),
    Attack("16", "a least confidence below zero", "issuer", _edit(("policy", "minimum_confidence"), "-1.000000"), "refuted", "schema"),
    Attack("18", "a policy that fails open", "issuer", _edit(("policy", "mode"), "fail_open"), "refuted", "schema"),
    Attack("19", "a confidence that is a number", "issuer", _edit((*_JUDGEMENT, "confidence"), 0.99), "refuted", "malformed_json"),
    Attack("20", "a confidence above one", "issuer", _edit((*_JUDGEMENT, "confidence"), "7.500000"), "refuted", "schema"),
    Attack("21", "a decision that is a word", "issuer", _edit((*_DECISION, "shown"), "no"), "refuted", "schema"),
    Attack("22", "one claim twice", "issuer", lambda scene: _edit(("claims",), [*scene.body["claims"], scene.body["claims"][0]])(scene), "refuted", "claim"),
    Attack("23", "issued long ago", "issuer", _edits((("issued_at",), "1970-01-01T00:00:00Z"), (("expires_at",), "1971-01-01T00:00:00Z")), "refuted", "expired"),
    Attack("24", "issued in a thousand years", "issuer", _edits((("issued_at",), "2999-01-01T00:00:00Z"), (("expires_at",), "2999-02-01T00:00:00Z")), "refuted", "not_yet_valid"),
    Attack("25", "issued yesterday-ish", "issuer", _edit(("issued_at",), "yesterday-ish"), "refuted", "schema"),
    Attack("26a", "another version", "issuer", _edit(("schema",), fmt.SCHEMA.replace("v1", "v99")), "unknown", "unsupported_schema"),
    Attack("26b", "a member that must be understood", "issuer", _edit(("critical",), ["x"]), "refuted", "schema"),
    Attack("28", "an empty nonce", "issuer", _edit(("query", "nonce"), ""), "refuted", "schema"),
    Attack("31b", "a changed certificate under the old receipt", "issuer", lambda scene: scene.by_issuer(rehashed(with_part(scene.body, ("generator", "name"), "x"))), "refuted", "inclusion"),
    Attack("40", "claims are null", "issuer", _edit(("claims",), None), "refuted", "schema"),
    Attack("41", "claims are an object", "issuer", _edit(("claims",), {}), "refuted", "schema"),
    Attack("42", "a claim is null", "issuer", _edit(_CLAIM, None), "refuted", "schema"),
    Attack("45", "a claim's text is a list", "issuer", _edit((*_CLAIM, "text"), ["x"]), "refuted", "schema"),
    Attack("54", "markup of a terminal in a source", "issuer", _edit((*_ITEM, "source"), "[/nope]\x1b[2J"), "verified"),
    Attack("55", "another answer over the old claims", "issuer", _edit(("answer", "text"), "Everything is refunded."), "refuted", "claim"),
    Attack("56", "an empty answer under the old digest", "issuer", _raw_edit(("answer", "text"), ""), "refuted", "hash"),
    Attack("57", "the commitment to the question is zeros", "issuer", _raw_edit(("query", "commitment"), _ZEROS), "refuted", "query"),
    Attack("57b", "the question's key in the log is another one", "issuer", _raw_edit(("query", "key"), _ZEROS), "refuted", "query"),
    Attack("58", "a digest in capitals", "issuer", lambda scene: _raw_edit((*_CLAIM, "sha256"), scene.body["claims"][0]["sha256"].upper() + "A")(scene), "refuted", "schema"),
    Attack("17", "a confidence of a hundredth, under a policy that takes it", "issuer",
           _edits(((*_JUDGEMENT, "confidence"), "0.010000"), (("policy", "minimum_confidence"), "0.000000")), "verified"),
    Attack("50", "signs that turn the direction of writing, in a source", "issuer", _edit((*_ITEM, "source"), "\u202egnp.exe\u200b<b>"), "verified"),
    Attack("A4c", "spans in another order, everything else right", "issuer", lambda scene: scene.by_issuer(rehashed(scene.body), logged=True), "verified"),
    Attack("A5", "a claim that is not supported is said to be quoted", "issuer", lambda scene: _said_quoted(scene), "refuted", "quotation"),  # noqa: PLW0108 - it stands below
    Attack("A7", "a second answer to the question, whole, signed and logged: for the monitor", "issuer", lambda scene: written(dict(scene.envelope)), "verified"),
    *_fourfold("A2a", "a word is put into the evidence", _in_evidence, lambda text: "Not: " + text, "span"),
    *_fourfold("A2b", "the evidence is put in other words", _in_evidence, lambda text: " ".join(reversed(text.split())), "span"),
    *_fourfold("A2c", "a number is put into a claim", _in_answer, lambda text: f"{text} 64", "quotation"),
    *_fourfold("A3a", "a claim is negated", _in_answer, _negated, "quotation"),
    *_fourfold("A3b", "a claim gets a quantifier", _in_answer, lambda text: "All " + text, "quotation"),
)


def _said_quoted(scene: Scene) -> bytes:
    body = scene.body
    for claim in body["claims"]:
        if claim["judgement"]["label"] != "quoted":
            claim["judgement"].update(label="quoted", confidence="1.000000")
            claim["decision"] = {"shown": True, "reason": None}
    return scene.by_issuer(rehashed(body), logged=True)


def swapped_citation(scene: Scene) -> Scene:
    """Return a scene whose first claim cites the span of the second one: A1."""
    body = scene.body
    if len(body["claims"]) > 1:
        body["claims"][0]["spans"] = body["claims"][1]["spans"]
    return replace(scene, envelope={**scene.envelope, "certificate": rehashed(body)})
