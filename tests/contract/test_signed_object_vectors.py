"""Signed objects that others made: the two of Macula's RAG contract, and 32 with the verdict of Macula's own library."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mesh_vectors import needs_vectors, vectors

from rag_stdlib.contract import cbor
from rag_stdlib.contract.nodekeys import node_id
from rag_stdlib.contract.signedobject import SignedObject, verify

OBJECTS: list[dict[str, Any]] = vectors("macula/signed_objects.json")
CORPORA: list[dict[str, Any]] = vectors("macula/signed_corpus.json")
LABEL = "macula-rag corpus v1"

pytestmark = needs_vectors


@pytest.mark.parametrize("case", OBJECTS, ids=lambda case: f"{case['made_under']}-{case['case']}")
def test_each_object_has_the_published_verdict(case: dict[str, Any]) -> None:
    verdict = verify(case["label"], base64.b64decode(case["object_base64"]), case["verify_under"])
    assert ("ok" if isinstance(verdict, SignedObject) else str(verdict)) == case["libmacula_v0.27.0"]
    assert not isinstance(verdict, SignedObject) or verdict.node_id == case["node_id"]


@pytest.mark.parametrize("case", CORPORA, ids=lambda case: case["profile"])
def test_the_signed_corpora_of_the_contract_verify_as_their_signers(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["signature_base64"])
    verified = verify(LABEL, data, case["profile"])
    assert isinstance(verified, SignedObject)
    assert verified.node_id == node_id(verified.key, case["profile"]) == case["signed_by"]
    assert verified.fields["corpus_hash"] == case["corpus_hash"]
    assert cbor.encode(cbor.decode(data)) == data, "published objects are deterministic"
    assert cbor.encode(verified.fields) == verified.tbs


def test_all_of_them_were_read() -> None:
    assert (len(OBJECTS), len(CORPORA)) == (32, 2)
    assert {case["libmacula_v0.27.0"] for case in OBJECTS} == {"ok", "malformed", "signature_invalid", "alg_mismatch"}
