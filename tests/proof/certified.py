"""Certificates for tests: fixed keys, a fixed time, and an answer of three claims over two chunks."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.certificate import (
    Claim,
    Draft,
    Item,
    Named,
    Retrieval,
    SearchedIndex,
    Span,
    make_body,
    sign,
    to_bytes,
)

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=timezone.utc)
QUESTION = "When are refunds paid?"
NONCE = "nonce-of-the-asker_1"
SALT = "5a" * 32
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PUBLIC = KEY.public_key().public_bytes_raw()
ISSUER = "acme"

REFUNDS = "Refunds are paid within ten days of the return. A receipt is needed."
SHIPPING = "Goods are shipped on the next working day. No refund is paid for opened goods."
ANSWER = "Refunds are paid within ten days of the return. No refund is paid for opened goods. Refunds are paid in cash."
CLAIMS = ((0, 47), (48, 83), (84, 109))


def draft(**changes: Any) -> Draft:
    """A draft whose first two claims are quotations and whose third is not supported."""
    items = (Item("policy#1", "policy", "policy.md", 0, len(REFUNDS), REFUNDS, 2.5, 0,
                  {"kind": "corpus", "path": "policy.md", "repo_id": "acme/policy", "commit": "c" * 40, "start_line": 1, "end_line": 1}),
             Item("policy#2", "policy", "policy.md", 100, 100 + len(SHIPPING), SHIPPING, 1.25))
    spans = (Span(0, 0, 47, 1.0), Span(1, 43, 78, 1.0), Span(0, 0, 47, 0.5))
    labels = (("quoted", "1.000000"), ("quoted", "1.000000"), ("not_supported", "0.900000"))
    claims = tuple(Claim(*place, (span,), *label) for place, span, label in zip(CLAIMS, spans, labels, strict=True))
    given: dict[str, Any] = {
        "query": QUESTION, "nonce": NONCE, "answer": ANSWER, "claims": claims,
        "retrieval": Retrieval("hybrid", 10, items, (SearchedIndex("e" * 64),), ("words-sha256", 24)),
        "generator": Named("extractive", None, "1" * 64), "judge": Named("quotation", "1", "2" * 64), "decomposition": "rules", "alignment": "lexical"}
    return Draft(**{**given, **changes})


def body(**changes: Any) -> dict[str, Any]:
    return make_body(draft(**changes), ISSUER, PUBLIC, now=NOW, salt=SALT)


def envelope(**changes: Any) -> dict[str, Any]:
    return sign(body(**changes), KEY)


def signed_again(changed: Mapping[str, Any], key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    """Sign a body that somebody changed."""
    return sign(dict(changed), key)


def edited(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """Copy JSON with one part exchanged."""
    made = copy.deepcopy(value)
    at = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return made


def rehashed(changed: dict[str, Any]) -> dict[str, Any]:
    """Compute every digest of a body again, as an issuer who lies would."""
    made = copy.deepcopy(changed)
    retrieval = made["retrieval"]
    retrieval["state"] = fmt.index_state(retrieval, made["query"]["salt"])
    for item in retrieval["items"]:
        item["content_sha256"] = fmt.text_digest(item["text"])
    made["answer"]["sha256"] = fmt.text_digest(made["answer"]["text"])
    for claim in made["claims"]:
        claim["sha256"] = fmt.text_digest(claim["text"])
        for span in claim["spans"]:
            span["sha256"] = fmt.text_digest(span["text"])
        claim["judgement"]["inputs_sha256"] = fmt.judge_inputs(claim["text"], [span["text"] for span in claim["spans"]], made["judge"]["digest"])
    made["policy"]["sha256"] = fmt.policy_digest(made["policy"]["labels"], made["policy"]["minimum_confidence"])
    return made


def as_bytes(value: Mapping[str, Any]) -> bytes:
    return to_bytes(value)


def read(data: bytes) -> Any:
    return json.loads(data)
