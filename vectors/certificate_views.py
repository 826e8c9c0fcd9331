"""One certificate as different relying parties see it, and what a verifier takes for trust and for a policy; every outcome is written down by hand."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import certificate_keys as keys

from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44
from rag_stdlib.proof.log.keytext import key_text
from rag_stdlib.proof.log.notes import NoteSigner

OF: Final = "an answer of four claims over one index"
OF_NODE: Final = "a federation, signed by a node of pq_pure"
OF_NO_LOG: Final = "in no log"
ALL_SHOWN: Final = (0, 1, 2)

_ISSUER: Final[dict[str, Any]] = keys.trust()["issuers"][0]
_LOG: Final[dict[str, Any]] = keys.trust()["logs"][0]
_W1, _W2 = (witness.verifier.text() for witness in keys.WITNESSES)
_W3: Final = keys.PQ_WITNESS.verifier.text()
_OTHER_LOG_KEY: Final = NoteSigner(keys.ORIGIN, keys.seed("other log")).verifier.text()
_OTHER_PUBLIC: Final = base64.b64encode(keys.ed25519("other issuer").public_key().public_bytes_raw()).decode()
_EARLIER, _ISSUED, _LATER, _NEXT_DAY = "2026-12-01T11:59:59Z", "2026-12-01T12:00:00Z", "2026-12-01T12:00:01Z", "2026-12-02T12:00:00Z"
_NO_WITNESSES: Final[dict[str, Any]] = {"witnesses": [], "quorum": 0}
_JUDGE, _GENERATOR, _OTHER = "2" * 64, "1" * 64, "0" * 64


def _issuers(*changes: Mapping[str, Any]) -> dict[str, Any]:
    return keys.trust(issuers=[{**_ISSUER, **change} for change in changes])


def _only(change: Mapping[str, Any]) -> dict[str, Any]:
    return {"issuers": _issuers(change)["issuers"]}


def _logs(*logs: Mapping[str, Any]) -> dict[str, Any]:
    return keys.trust(logs=list(logs))


def _witnessed(*witnesses: str, quorum: int) -> dict[str, Any]:
    return keys.trust(witnesses=list(witnesses), quorum=quorum)


# What the relying party does, what differs from how the certificate was asked for, and what comes of it.
VIEWS: Final[tuple[tuple[str, Mapping[str, Any], str], ...]] = (
    ("as it was asked", {}, "verified"),
    ("a minute before it was issued", {"now": "2026-12-01T11:59:00Z"}, "verified"),
    ("a minute and a second before", {"now": "2026-12-01T11:58:59Z"}, "refuted not_yet_valid"),
    ("a second before, by a clock that is right", {"now": _EARLIER, "policy": {"skew_s": 0}}, "refuted not_yet_valid"),
    ("in 1970, by a clock that may be anything", {"now": "1970-01-01T00:00:00Z", "policy": {"skew_s": 2**53 - 1}}, "verified"),
    ("in the last second", {"now": "2027-03-01T11:59:59Z"}, "verified"),
    ("when it expires", {"now": "2027-03-01T12:00:00Z"}, "refuted expired"),
    ("at the end of time", {"now": "9999-12-31T23:59:59Z"}, "refuted expired"),
    ("as old as it may be", {"now": _LATER, "policy": {"max_age_s": 1}}, "verified"),
    ("a second older", {"now": "2026-12-01T12:00:02Z", "policy": {"max_age_s": 1}}, "refuted too_old"),
    ("of no age", {"policy": {"max_age_s": 0}}, "verified"),
    ("of any age", {"now": "2027-03-01T11:59:59Z", "policy": {"max_age_s": 2**53 - 1}}, "verified"),

    ("for another question", {"query": "When are refunds paid"}, "refuted query"),
    ("for an empty question", {"query": ""}, "refuted query"),
    ("for no question", {"query": None}, "unknown query_not_given"),
    ("for no question, where none is asked for", {"query": None, "policy": {"require_query": False}}, "verified"),
    ("with another nonce", {"nonce": "nonce-of-the-asker_2"}, "refuted nonce"),
    ("without the nonce", {"nonce": None}, "verified"),
    ("without the nonce, where it is asked for", {"nonce": None, "policy": {"require_nonce": True}}, "unknown nonce_not_given"),
    ("without the question, with another nonce", {"query": None, "nonce": ""}, "refuted nonce"),

    ("who trusts another key of that name", {"trust": _issuers({"public_key": _OTHER_PUBLIC})}, "unknown untrusted_issuer"),
    ("who trusts that key by another name", {"trust": _issuers({"name": "Acme"})}, "refuted issuer"),
    ("who trusts a node of that issuer's", {"trust": _issuers({"node_id": "0" * 64})}, "refuted issuer"),
    ("who trusts two keys of that name", {"trust": _issuers({"public_key": _OTHER_PUBLIC}, {})}, "verified"),
    ("whose key begins to be valid then", {"trust": _issuers({"not_before": _ISSUED})}, "verified"),
    ("whose key begins to be valid later", {"trust": _issuers({"not_before": _LATER})}, "refuted key_not_valid"),
    ("whose key ends to be valid then", {"trust": _issuers({"not_after": _ISSUED})}, "refuted key_not_valid"),
    ("whose key ends to be valid later", {"trust": _issuers({"not_before": _EARLIER, "not_after": _LATER})}, "verified"),
    ("whose key is to end soon, and no witness is known", {"trust": {**_issuers({"not_after": _LATER}), **_NO_WITNESSES}}, "verified"),
    ("whose key has ended, and no witness is known", {"trust": {**_issuers({"not_after": _LATER}), **_NO_WITNESSES}, "now": _LATER}, "unknown key_ended"),
    ("whose key has ended, as witnesses saw it within the minute", {"trust": _issuers({"not_after": _LATER}), "now": _NEXT_DAY}, "verified"),
    ("the same, by clocks that are right", {"trust": _issuers({"not_after": _LATER}), "now": _NEXT_DAY, "policy": {"skew_s": 0}}, "unknown key_ended"),
    ("by clocks that are a second too little apart", {"trust": _issuers({"not_after": _LATER}), "now": _NEXT_DAY, "policy": {"skew_s": 19}}, "unknown key_ended"),
    ("by clocks that are apart just enough", {"trust": _issuers({"not_after": _LATER}), "now": _NEXT_DAY, "policy": {"skew_s": 20}}, "verified"),
    ("whose key has ended, with a witness of whom no quorum is asked", {"trust": {**_issuers({"not_after": _LATER}), "quorum": 0}, "now": _NEXT_DAY}, "verified"),
    ("whose key has ended, and a witness is missing", {"trust": {**_witnessed(_W1, _W3, quorum=2), **_only({"not_after": _LATER})}, "now": _NEXT_DAY},
     "unknown witness_quorum"),
    ("whose key has ended, and who takes another judge",
     {"trust": {**_issuers({"not_after": _LATER}), **_NO_WITNESSES}, "now": _NEXT_DAY, "policy": {"judges": []}}, "unknown key_ended"),
    ("whose key has ended, after the certificate", {"trust": _issuers({"not_after": "2027-03-01T12:00:00Z"}), "now": "2027-03-01T12:00:00Z"}, "refuted expired"),
    ("who trusts another key, for another question", {"trust": _issuers({"public_key": _OTHER_PUBLIC}), "query": "x"}, "refuted query"),
    ("who trusts another key, for no question", {"trust": _issuers({"public_key": _OTHER_PUBLIC}), "query": None}, "unknown untrusted_issuer"),

    ("who trusts no log", {"trust": {"issuers": [_ISSUER]}}, "unknown untrusted_log"),
    ("who trusts no log, and asks for none", {"trust": {"issuers": [_ISSUER]}, "policy": {"require_log": False}}, "unknown untrusted_log"),
    ("who trusts another log", {"trust": _logs({**_LOG, "origin": "log.example/other"})}, "unknown untrusted_log"),
    ("who trusts another key of the log", {"trust": _logs({**_LOG, "keys": [_OTHER_LOG_KEY]})}, "unknown untrusted_log"),
    ("who trusts an old and a new key of the log", {"trust": _logs({**_LOG, "keys": [_OTHER_LOG_KEY, *_LOG["keys"]]})}, "verified"),
    ("who asks for no witness", {"trust": _witnessed(quorum=0)}, "verified"),
    ("who asks for one of two witnesses", {"trust": _witnessed(_W2, _W3, quorum=1)}, "verified"),
    ("who asks for a witness that has not signed", {"trust": _witnessed(_W2, _W3, quorum=2)}, "unknown witness_quorum"),
    ("who asks for three witnesses", {"trust": _witnessed(_W1, _W2, _W3, quorum=3)}, "unknown witness_quorum"),

    ("who takes this judge", {"policy": {"judges": [_OTHER, _JUDGE]}}, "verified"),
    ("who takes another judge", {"policy": {"judges": [_OTHER]}}, "unknown judge_not_accepted"),
    ("who takes no judge", {"policy": {"judges": []}}, "unknown judge_not_accepted"),
    ("who takes this generator", {"policy": {"generators": [_GENERATOR]}}, "verified"),
    ("who takes another generator", {"policy": {"generators": [_JUDGE]}}, "unknown generator_not_accepted"),
    ("who takes neither", {"policy": {"judges": [], "generators": []}}, "unknown judge_not_accepted"),
    ("who lacks a witness and the question", {"query": None, "trust": _witnessed(_W3, quorum=1)}, "unknown query_not_given"),
    ("who lacks a witness and takes another judge", {"trust": _witnessed(_W3, quorum=1), "policy": {"judges": []}}, "unknown witness_quorum"))

# Which claims may be shown, of those of the certificate that its issuer shows.
SHOWN: Final[tuple[tuple[str, Mapping[str, Any], tuple[int, ...]], ...]] = (
    ("quotations alone", {"labels": ["quoted"]}, (0, 1)),
    ("what is entailed alone", {"labels": ["entailed"]}, (2,)),
    ("what the issuer does not show stays hidden", {"labels": ["contradicted", "entailed", "not_supported", "quoted"]}, ALL_SHOWN),
    ("what is contradicted", {"labels": ["contradicted"]}, ()),
    ("a least confidence that is met", {"minimum_confidence": "0.870000"}, ALL_SHOWN),
    ("one that is not", {"minimum_confidence": "0.870001"}, (0, 1)),
    ("the greatest", {"minimum_confidence": "1.000000"}, (0, 1)))

UNLOGGED_VIEWS: Final[tuple[tuple[str, Mapping[str, Any], str], ...]] = (
    ("whose key is to end soon", {"trust": _only({"not_after": _LATER}), "policy": {"require_log": False}}, "verified"),
    ("whose key has ended", {"trust": _issuers({"not_after": _LATER}), "now": _LATER, "policy": {"require_log": False}}, "unknown key_ended"),
    ("whose key has ended, and who asks for a receipt", {"trust": _issuers({"not_after": _LATER}), "now": _LATER}, "unknown no_receipt"))

NODE_VIEWS: Final[tuple[tuple[str, Mapping[str, Any], str], ...]] = (
    ("who does not know the node", {"trust": keys.trust()}, "verified"),
    ("who knows another node", {"trust": _issuers({"node_id": "0" * 64})}, "refuted issuer"))


def _weak_keys() -> list[str]:
    """List the encodings of the points of small order, canonical or not (RFC 8032 §5.1.3 rules out those of a y beyond the field)."""
    p, order_8 = 2**255 - 19, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    ys = [1, p - 1, 0, order_8, p - order_8, p, p + 1]
    return [base64.b64encode((y | sign << 255).to_bytes(32, "little")).decode() for y in ys for sign in (0, 1)]


def _public(number: int) -> str:
    return base64.b64encode(number.to_bytes(32, "little")).decode()


_LOG_PUBLIC: Final = keys.LOG.verifier.public
_W1_PUBLIC: Final = keys.WITNESSES[0].verifier.public
_BOTH_KINDS: Final = [_W1, key_text(keys.WITNESSES[0].name, COSIGNATURE_ML_DSA_44, keys.PQ_WITNESS.verifier.public)]

TRUSTS: Final[tuple[tuple[str, Any, bool], ...]] = (
    ("all of it", keys.trust(), True), ("an issuer alone", {"issuers": [_ISSUER]}, True),
    ("two keys of one issuer", _issuers({}, {"public_key": _OTHER_PUBLIC}), True),
    ("every member", _issuers({"node_id": "f" * 64, "not_before": _EARLIER, "not_after": _LATER}), True),
    ("bounds that nothing fits", _issuers({"not_before": _LATER, "not_after": _EARLIER}), True),
    ("no log, and no witness", keys.trust(logs=[], witnesses=[], quorum=0), True),
    ("keys of both types by one witness", _witnessed(*_BOTH_KINDS, quorum=1), True),
    ("no issuer", keys.trust(issuers=[]), False), ("no list of issuers", {}, False), ("a list", [], False), ("null", None, False),
    ("an unknown member", keys.trust(admins=[]), False), ("an unknown member of an issuer", _issuers({"role": "x"}), False),
    ("an issuer without a key", {"issuers": [{"name": "acme"}]}, False), ("an issuer without a name", _issuers({"name": ""}), False),
    ("a null node", _issuers({"node_id": None}), False), ("null bounds", _issuers({"not_before": None}), False),
    ("a node in capitals", _issuers({"node_id": "F" * 64}), False), ("a bound that is no date", _issuers({"not_after": "2026-02-30T00:00:00Z"}), False),
    ("a key of 31 bytes", _issuers({"public_key": base64.b64encode(bytes(31)).decode()}), False),
    ("a key of 33 bytes", _issuers({"public_key": base64.b64encode(keys.PUBLIC + b"x").decode()}), False),
    ("a key with bits that nobody reads", _issuers({"public_key": _ISSUER["public_key"][:-2] + "B="}), False),
    ("a key that is no point", _issuers({"public_key": _public(2)}), False),
    ("a point in another form", _issuers({"public_key": _public(2**255 - 19 + 3)}), False),
    ("a key twice by two names", _issuers({}, {"name": "other"}), False),
    *((f"a point of small order, {place}", _issuers({"public_key": weak}), False) for place, weak in enumerate(_weak_keys())),
    ("a log without a key", _logs({**_LOG, "keys": []}), False), ("a log's key twice", _logs({**_LOG, "keys": _LOG["keys"] * 2}), False),
    ("an origin twice", _logs(_LOG, {**_LOG, "keys": [_OTHER_LOG_KEY]}), False), ("an empty origin", _logs({**_LOG, "origin": ""}), False),
    ("an origin of two lines", _logs({**_LOG, "origin": "a\nb"}), False), ("an origin of 256 bytes", _logs({**_LOG, "origin": "é" * 128}), False),
    ("a key of a witness for a log", _logs({**_LOG, "keys": [_W1]}), False), ("a log's key of small order", _logs(
        {**_LOG, "keys": [key_text(keys.ORIGIN, 1, bytes([1]) + bytes(31))]}), False),
    ("a log's key with another id", _logs({**_LOG, "keys": [f"{keys.ORIGIN}+00000000+{_LOG['keys'][0].split('+', 2)[2]}"]}), False),
    ("a key of no name", _logs({**_LOG, "keys": [key_text("", 1, _LOG_PUBLIC)]}), False),
    ("a key of a name with a space", _logs({**_LOG, "keys": [key_text("a b", 1, _LOG_PUBLIC)]}), False),
    ("a key of a name of 256 bytes", _logs({**_LOG, "keys": [key_text("n" * 256, 1, _LOG_PUBLIC)]}), False),
    ("a key of 31 bytes for a log", _logs({**_LOG, "keys": [key_text(keys.ORIGIN, 1, bytes(31))]}), False),
    ("a key of the issuer's for the log", _logs({**_LOG, "keys": [key_text(keys.ORIGIN, 1, keys.PUBLIC)]}), False),
    ("a log's key for a witness", _witnessed(_LOG["keys"][0], quorum=0), False),
    ("a key of unknown type", _witnessed(key_text("w", 5, _W1_PUBLIC), quorum=0), False),
    ("a key of ML-DSA-44 that is too short", _witnessed(key_text("w", COSIGNATURE_ML_DSA_44, bytes(1_311)), quorum=0), False),
    ("a witness twice", _witnessed(_W1, _W1, quorum=1), False),
    ("one key for two witnesses", _witnessed(_W1, key_text("w", COSIGNATURE_ED25519, _W1_PUBLIC), quorum=1), False),
    ("the log's public key for a witness", _witnessed(key_text("w", COSIGNATURE_ED25519, _LOG_PUBLIC), quorum=1), False),
    ("a witness by the log's name", _witnessed(key_text(keys.ORIGIN, COSIGNATURE_ED25519, _W1_PUBLIC), quorum=1), False),
    ("a quorum of more than there are", _witnessed(_W1, _W2, quorum=3), False), ("a quorum of more than there are names", _witnessed(*_BOTH_KINDS, quorum=2), False),
    ("a quorum below zero", keys.trust(quorum=-1), False), ("a word for a quorum", keys.trust(quorum="2"), False), ("true for a quorum", keys.trust(quorum=True), False))

POLICIES: Final[tuple[tuple[str, Any, bool], ...]] = (
    ("nothing said", {}, True),
    ("everything said", {"require_log": False, "require_query": False, "require_nonce": True, "max_age_s": 0, "skew_s": 0, "labels": ["quoted"],
                         "minimum_confidence": "1.000000", "judges": [_JUDGE], "generators": []}, True),
    ("everything that may be null", {"max_age_s": None, "judges": None, "generators": None}, True),
    ("labels in any order", {"labels": ["quoted", "contradicted"]}, True), ("the longest times", {"max_age_s": 2**53 - 1, "skew_s": 2**53 - 1}, True),
    ("a list", [], False), ("null", None, False), ("an unknown member", {"mode": "fail_open"}, False), ("a word for true", {"require_log": "true"}, False),
    ("a number for true", {"require_log": 1}, False), ("null for true", {"require_query": None}, False), ("a word for false", {"require_nonce": "no"}, False),
    ("an age below zero", {"max_age_s": -1}, False), ("true for an age", {"max_age_s": True}, False), ("an age in text", {"max_age_s": "60"}, False),
    ("an age beyond integers", {"max_age_s": 2**53}, False), ("a null skew", {"skew_s": None}, False), ("a skew below zero", {"skew_s": -1}, False),
    ("no label", {"labels": []}, False), ("an unknown label", {"labels": ["supported"]}, False), ("a label alone", {"labels": "quoted"}, False),
    ("null labels", {"labels": None}, False), ("five labels", {"labels": ["quoted"] * 5}, False), ("a short confidence", {"minimum_confidence": "0.5"}, False),
    ("a confidence above one", {"minimum_confidence": "1.000001"}, False), ("a confidence below zero", {"minimum_confidence": "-1.000000"}, False),
    ("a confidence that is a number", {"minimum_confidence": 1}, False), ("a judge alone", {"judges": _JUDGE}, False),
    ("a judge by a word", {"judges": ["quotation"]}, False), ("a generator in capitals", {"generators": ["A" * 64]}, False))


def views(certificates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write all of it over the golden certificates."""
    asked = {case["case"]: {name: case[name] for name in ("trust", "policy", "query", "nonce", "now")} for case in certificates}
    cases = [(of, name, changes, outcome) for of, seen in ((OF, VIEWS), (OF_NODE, NODE_VIEWS), (OF_NO_LOG, UNLOGGED_VIEWS)) for name, changes, outcome in seen]
    return {
        "views": [_view(of, name, {**asked[of], "policy": {}, **changes}, outcome) for of, name, changes, outcome in cases],
        "shown": [{"case": name, "of": OF, "policy": policy, "shown": list(places)} for name, policy, places in SHOWN],
        "trusts": [{"case": name, "trust": trust, "taken": taken} for name, trust, taken in TRUSTS],
        "policies": [{"case": name, "policy": policy, "taken": taken} for name, policy, taken in POLICIES]}


def _view(of: str, name: str, asked: Mapping[str, Any], outcome: str) -> dict[str, Any]:
    word, _, code = outcome.partition(" ")
    return {"case": name, "of": of, **asked, "outcome": word, "code": code}
