"""What a federation's procedure and topics are called (RAG service contract §4.2, contract tests 1 to 4)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.federation import names
from rag_stdlib.mesh.federation.failures import InvalidOrg, RealmNameMismatch
from rag_stdlib.mesh.transport import checked_procedure, checked_topic, own_procedure

REALM = hashlib.sha256(b"io.macula").digest()


def test_contract_1_the_procedure_is_in_the_organisations_namespace() -> None:
    assert names.procedure("acme") == "acme/rag.query_shard_v1"
    assert checked_procedure(names.procedure("acme")).partition("/")[0] == "acme"


@pytest.mark.parametrize("org", ["", "a/b", "_", 7, None, b"acme", ["acme"], "\ud800", "x" * 496, "~acme"])
def test_contract_2_what_is_no_organisation_is_refused(org: Any) -> None:
    with pytest.raises(InvalidOrg, match=r"^invalid_org: ") as caught:
        names.procedure(org)
    assert (caught.value.name, caught.value.org) == ("invalid_org", org)


def test_a_nodes_own_namespace_can_be_federated() -> None:
    assert names.procedure("~" + "ab" * 32) == own_procedure("ab" * 32, names.PROCEDURE)


def test_contract_3_the_topics_are_facts_of_the_app_rag_in_the_domain_shard() -> None:
    topics = names.summarized_topic("io.macula", "acme"), names.withdrawn_topic("io.macula", "acme")
    assert topics == ("io.macula/acme/rag/shard/shard_summarized_v1", "io.macula/acme/rag/shard/shard_withdrawn_v1")
    for topic in map(checked_topic, topics):
        parsed = re.fullmatch(r"([^/]+)/([^/]+)/([^/]+)/([^/]+)/([a-z_]+)_v([0-9]+)", topic)
        assert parsed is not None
        assert (parsed[1], parsed[2], parsed[3], parsed[4], parsed[6]) == ("io.macula", "acme", "rag", "shard", "1")


def test_contract_4_the_realms_name_hashes_to_its_id() -> None:
    names.check_realm("io.macula", REALM)
    with pytest.raises(RealmNameMismatch, match=r"^realm_name_mismatch: .*'io\.example'") as caught:
        names.check_realm("io.example", REALM)
    assert caught.value.realm_name == "io.example"


@pytest.mark.parametrize("realm", [b"", REALM[:31], REALM + b"0", REALM.hex(), None])
def test_an_id_of_another_length_is_a_mistake_of_the_program(realm: Any) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        names.check_realm("io.macula", realm)


@given(st.text(), st.text())
def test_only_the_very_name_is_the_realms(name: str, other: str) -> None:
    realm = hashlib.sha256(name.encode()).digest()
    names.check_realm(name, realm)
    if other != name:
        with pytest.raises(RealmNameMismatch):
            names.check_realm(other, realm)
