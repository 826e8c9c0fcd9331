"""A certificate of another make: its bytes and its signature are those that ours compute, and it is none of ours."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from certified import NOW
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from logged import trust

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.strict import MalformedJson
from rag_stdlib.proof.verdicts import Unknown
from rag_stdlib.proof.verify import verify
from replay import ed25519

FILE = Path(__file__).parents[2].parent / "shared" / "vectors" / "pcrag" / "golden_certificate.json"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="the vectors of others are not beside this project")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(FILE.read_bytes())
    return made


def test_its_signature_is_the_one_that_we_make_over_our_canonical_bytes(golden: dict[str, Any]) -> None:
    written, signature = canonical(golden["certificate"]), base64.b64decode(golden["signature"])
    assert ed25519.verify(ed25519.public_key(base64.b64decode(golden["public_key"])), signature, written)
    key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(golden["_private_key_for_test_only"]))
    assert key.sign(written) == signature


def test_as_a_certificate_it_is_of_a_schema_that_we_do_not_know(golden: dict[str, Any]) -> None:
    for envelope in (golden, {name: part for name, part in golden.items() if name in ("certificate", "signature")}):
        try:
            verdict = verify(json.dumps(envelope), trust(), Policy(), now=NOW)
        except MalformedJson:  # pragma: no cover - nothing in an envelope raises
            pytest.fail("it raised")
        assert isinstance(verdict, Unknown), verdict
        assert verdict.code == "unsupported_schema"
