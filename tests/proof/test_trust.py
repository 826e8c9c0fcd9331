"""What is trusted: pinned keys, none of which binds nobody, and a policy that is read strictly."""

from __future__ import annotations

import base64
from typing import Any

import certified
import pytest
from logged import LOG, ORIGIN, OTHER_LOG, PQ_WITNESS, WITNESS, trust

from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Issuer, Trust, TrustError, logs_from_json

PUBLIC = base64.b64encode(certified.PUBLIC).decode()


def given(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"issuers": [{"name": "acme", "public_key": PUBLIC}], "logs": [{"origin": ORIGIN, "keys": [LOG.verifier.text()]}],
                            "witnesses": [WITNESS.verifier.text(), PQ_WITNESS.verifier.text()], "quorum": 2}
    return {name: part for name, part in {**made, **changes}.items() if part is not None}


def test_trust_is_read_from_json() -> None:
    assert Trust.from_json(given()) == trust()
    assert Trust.from_json({"issuers": given()["issuers"]}).logs == {}
    both = Trust.from_json(given(logs=[{"origin": ORIGIN, "keys": [LOG.verifier.text(), OTHER_LOG.verifier.text()]}]))
    assert both.logs[ORIGIN].keys == (LOG.verifier, OTHER_LOG.verifier)
    bounded = Trust.from_json(given(issuers=[{"name": "acme", "public_key": PUBLIC, "node_id": "a" * 64, "not_before": "2026-01-01T00:00:00Z", "not_after": "2027-01-01T00:00:00Z"}]))
    (issuer,) = bounded.issuers.values()
    assert (issuer.node_id, issuer.is_valid("2026-06-01T00:00:00Z"), issuer.is_valid("2027-01-01T00:00:00Z")) == ("a" * 64, True, False)


SMALL = [bytes([1]) + bytes(31), bytes(32), b"\xec" + b"\xff" * 30 + b"\x7f", b"\xee" + b"\xff" * 30 + b"\x7f"]


@pytest.mark.parametrize(("changes", "words"), [
    ({"issuers": []}, "/issuers"), ({"issuers": None}, "/issuers"), ({"issuers": [{"name": "acme"}]}, "/issuers/0/public_key"),
    ({"issuers": [{"name": "acme", "public_key": PUBLIC}] * 2}, "twice"), ({"issuers": [{"name": "a", "public_key": PUBLIC}, {"name": "b", "public_key": PUBLIC}]}, "twice"),
    ({"issuers": [{"name": "acme", "public_key": PUBLIC + "\n"}]}, "base64"), ({"issuers": [{"name": "acme", "public_key": "AAAA"}]}, "32 bytes"),
    *(({"issuers": [{"name": "acme", "public_key": base64.b64encode(key).decode()}]}, "order|canonical|point") for key in SMALL),
    ({"issuers": [{"name": "acme", "public_key": PUBLIC, "kid": 1}]}, "/issuers/0 has an unknown member, 'kid'"), ({"issuers": [{"name": "acme", "public_key": PUBLIC, "not_before": "soon"}]}, "not_before"),
    ({"logs": [{"origin": ORIGIN, "keys": []}]}, "/logs/0/keys"), ({"logs": [{"origin": ORIGIN, "keys": ["nonsense"]}]}, "no verifier key"),
    ({"logs": [{"origin": ORIGIN, "keys": [LOG.verifier.text()] * 2}]}, "twice"), ({"logs": [{"origin": ORIGIN, "keys": [WITNESS.verifier.text()]}], "witnesses": None, "quorum": 0}, "kind 4"),
    ({"logs": None, "witnesses": [LOG.verifier.text()], "quorum": 0}, "kind 1"), ({"witnesses": [WITNESS.verifier.text()] * 2}, "twice"), ({"quorum": 3}, "quorum"), ({"quorum": -1}, "/quorum"),
    ({"logs": None, "witnesses": None, "quorum": 1}, "quorum"), ({"\x1b\u202e" + "u" * 90: 1}, r"the file has an unknown member, '\\x1b\\u202eu{40,50}$"),
    ({"issuers": {}}, "/issuers is no list"), ({"issuers": [[]]}, "/issuers/0 is no object"), ({"issuers": [{"name": 1, "public_key": PUBLIC}]}, "/issuers/0/name is no text"),
    ({"issuers": []}, "/issuers is no list of 1 to 10,000 parts"), ({"logs": [{"origin": ORIGIN}]}, "/logs/0/keys is missing"), ({"quorum": "2"}, "/quorum is not of its form"),
])
def test_what_cannot_be_trusted_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TrustError, match=words):
        Trust.from_json(given(**changes))


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_trust_is_an_object(value: Any) -> None:
    with pytest.raises(TrustError, match="the file"):
        Trust.from_json(value)


def test_logs_alone_are_read_without_issuers() -> None:
    assert logs_from_json(given(issuers=None)) == trust().logs == logs_from_json(given())
    assert logs_from_json({}) == {}
    for changes, words in (({"issuers": []}, "/issuers"), ({"issuers": None, "quorum": 3}, "quorum"), ({"issuers": None, "unknown": 1}, "the file has"),
                           ({"issuers": None, "logs": [{"origin": "x", "keys": [LOG.verifier.text()]}] * 2}, "twice")):
        with pytest.raises(TrustError, match=words):
            logs_from_json(given(**changes))
    with pytest.raises(TrustError, match="the file"):
        logs_from_json([])


@pytest.mark.parametrize(("changes", "which"), [
    ({"issuers": [{"name": "a", "public_key": PUBLIC}, {"name": "b", "public_key": PUBLIC}]}, f"a public key is listed twice: {PUBLIC[:12]}\u2026"),
    ({"witnesses": [WITNESS.verifier.text()] * 2}, f"a public key is listed twice: {WITNESS.verifier.name!r}"),
    ({"logs": [{"origin": ORIGIN, "keys": [LOG.verifier.text()]}, {"origin": ORIGIN, "keys": [OTHER_LOG.verifier.text()]}]}, f"an origin is listed twice: {ORIGIN!r}"),
])
def test_what_is_listed_twice_is_said(changes: dict[str, Any], which: str) -> None:
    with pytest.raises(TrustError) as caught:
        Trust.from_json(given(**changes))
    assert str(caught.value) == which


def test_nobody_is_trusted_by_default() -> None:
    with pytest.raises(TrustError, match="no issuer"):
        Trust.of([])
    with pytest.raises(TrustError, match="small order"):
        Issuer("acme", SMALL[0])


def test_a_policy_is_read_from_json() -> None:
    assert Policy.of({}) == Policy()
    read = Policy.of({"require_log": False, "labels": ["quoted"], "judges": ["a" * 64], "max_age_s": 60, "generators": None, "minimum_confidence": "1.000000"})
    assert (read.require_log, read.labels, read.judges, read.max_age_s, read.generators) == (False, ("quoted",), ("a" * 64,), 60, None)


@pytest.mark.parametrize(("changes", "words"), [
    ({"require_log": 1}, "require_log"), ({"require_query": "no"}, "require_query"), ({"require_nonce": None}, "require_nonce"), ({"max_age_s": -1}, "max_age_s"),
    ({"max_age_s": 1.5}, "max_age_s"), ({"max_age_s": True}, "max_age_s"), ({"skew_s": None}, "skew_s"), ({"labels": []}, "labels"), ({"labels": ["true"]}, "labels"), ({"labels": "quoted"}, "labels"),
    ({"labels": None}, "labels"), ({"minimum_confidence": 0.5}, "minimum_confidence"), ({"minimum_confidence": "-1.000000"}, "minimum_confidence"), ({"minimum_confidence": "0.5"}, "minimum_confidence"),
    ({"judges": ["x"]}, "judges"), ({"generators": "a" * 64}, "generators"), ({"generators": [1]}, "generators"), ({"fail_open": True}, "there is no 'fail_open'"),
])
def test_a_policy_that_is_none_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Policy.of(changes)


def test_a_policy_is_an_object() -> None:
    with pytest.raises(ValueError, match="an object"):
        Policy.of([])
