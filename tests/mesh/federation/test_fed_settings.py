"""The configuration of a federation, and each of its refusals (RAG service contract §4.4)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from fed_mesh import MINILM, NOMIC, REALM, options

from rag_stdlib.mesh.federation.failures import (
    ConfidentialityRefused,
    FederationError,
    InvalidOptions,
    InvalidOrg,
    NoShards,
    NotConfigured,
    RealmNameMismatch,
)
from rag_stdlib.mesh.federation.settings import settings

OTHER = hashlib.sha256(b"another realm").digest()


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in options().items() if key != name}


def test_defaults_are_those_of_the_contract() -> None:
    made = settings(REALM, options())
    assert (made.query_timeout_ms, made.grant_retry_ms, made.summary_republish_ms) == (1_500, 30_000, 60_000)
    assert (made.org, made.shard_id, made.realm_name, made.embedding, made.confidential) == ("acme", "s", "io.macula", NOMIC, None)
    assert made.procedure == "acme/rag.query_shard_v1"
    assert made.topics[1] == "io.macula/acme/rag/shard/shard_withdrawn_v1"
    assert made.stale_s == 180.0


def test_every_option_can_be_set() -> None:
    made = settings(REALM, options(query_timeout_ms=1, grant_retry_ms=2, summary_republish_ms=3, confidential="preferred") | {"embedding": MINILM})
    assert (made.query_timeout_ms, made.grant_retry_ms, made.summary_republish_ms) == (1, 2, 3)
    assert (made.confidential, made.embedding, made.stale_s) == ("preferred", MINILM, 0.009)


@pytest.mark.parametrize("wrong", [None, [], "acme", 7, {}, *[without(name) for name in ("org", "shard_id", "realm_name", "embedding")]])
def test_options_of_another_shape_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOptions, match=r"^invalid_options: "):
        settings(REALM, wrong)


@pytest.mark.parametrize("change", [
    {"shard_id": 7}, {"shard_id": b"s"}, {"shard_id": "\ud800"}, {"realm_name": 7}, {"realm_name": "\ud800"},
    {"embedding": "nomic"}, {"embedding": {"model": "m"}}, {"embedding": {"dim": 1}}, {"embedding": {"model": 7, "dim": 1}},
    {"embedding": {"model": "m", "dim": 0}}, {"embedding": {"model": "m", "dim": 1.0}}, {"embedding": {"model": "m", "dim": True}},
    {"embedding": {"model": "m", "dim": 2**63}}, {"embedding": {"model": "m", "dim": 1, "more": 1}},
    {"query_timeout_ms": 0}, {"query_timeout_ms": 1.5}, {"query_timeout_ms": True}, {"grant_retry_ms": "1"}, {"grant_retry_ms": None},
    {"summary_republish_ms": -1}, {"summary_republish_ms": 86_400_001}, {"query_timeout": 1}, {7: 1}])
def test_an_option_that_is_none_is_named(change: dict[Any, Any]) -> None:
    name = str(next(iter(change)))
    with pytest.raises(InvalidOptions, match=name):
        settings(REALM, {**options(), **change})


@pytest.mark.parametrize("org", ["", "_", "a/b", 7])
def test_an_org_that_is_none_is_refused(org: Any) -> None:
    with pytest.raises(InvalidOrg) as caught:
        settings(REALM, {**options(), "org": org})
    assert caught.value.org == org


@pytest.mark.parametrize("mode", ["sealed", "", 1, ["off"]])
def test_a_mode_that_is_none_is_refused(mode: Any) -> None:
    with pytest.raises(ConfidentialityRefused, match="confidentiality: not_a_mode") as caught:
        settings(REALM, options(confidential=mode))
    assert (caught.value.reason, caught.value.given) == ("not_a_mode", mode)


def test_required_needs_a_key_to_seal_to() -> None:
    with pytest.raises(ConfidentialityRefused, match="kem_advertise_disabled") as caught:
        settings(REALM, options(confidential="required"))
    assert caught.value.reason == "kem_advertise_disabled"
    assert settings(REALM, options(confidential="required"), names_kem_key=True).confidential == "required"
    assert settings(REALM, options(confidential="off")).confidential == "off"


def test_another_realms_id_is_refused() -> None:
    with pytest.raises(RealmNameMismatch):
        settings(OTHER, options())
    with pytest.raises(ValueError, match="32 bytes") as caught:
        settings(b"short", options())
    assert not isinstance(caught.value, FederationError)


def test_a_realms_name_that_makes_no_topic_is_refused() -> None:
    name = "r" * 500
    with pytest.raises(InvalidOptions, match="topic"):
        settings(hashlib.sha256(name.encode()).digest(), {**options(), "realm_name": name})


def test_refusals_come_in_the_contracts_order() -> None:
    wrong: dict[str, Any] = {"org": "a/b", "confidential": "sealed", "shard_id": 7}
    expected: list[tuple[str, type[Exception]]] = [("shard_id", InvalidOptions), ("org", InvalidOrg), ("confidential", ConfidentialityRefused)]
    for name, refusal in expected:
        with pytest.raises(refusal):
            settings(OTHER, {**options(), **wrong})
        del wrong[name]
    with pytest.raises(RealmNameMismatch):
        settings(OTHER, {**options(), **wrong})


def test_failures_say_their_name_first() -> None:
    failures = [InvalidOptions("words"), InvalidOrg("_"), ConfidentialityRefused("not_a_mode", "x"), RealmNameMismatch("x"), NotConfigured(),
                NoShards(NotConfigured())]
    assert [str(each).partition(":")[0] for each in failures] == [each.name for each in failures]
