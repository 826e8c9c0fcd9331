"""The project's own vectors of the RAG service contract: the code agrees, and what can be is recomputed without it."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.contract import (
    MalformedDescription,
    NodeKey,
    Refused,
    SignedAnswer,
    StoredAnswer,
    corpus_hash,
    hit_in_corpus,
    valid_provenance,
    verify_corpus,
    verify_hit,
)
from rag_stdlib.contract.signedobject import ALGORITHMS

ROOT = Path(__file__).parents[1]
COVERED = ("id", "url", "branch", "commit")


def load(name: str) -> Any:
    return json.loads((ROOT / "vectors" / "contract" / f"{name}.json").read_text(encoding="ascii"))


CORPORA: list[dict[str, Any]] = load("corpora")
SIGNATURES: dict[str, Any] = load("signatures")
HITS: dict[str, Any] = load("hits")
KEYS: list[dict[str, str]] = load("keys")
OBJECTS = {name: base64.b64decode(text) for name, text in SIGNATURES["objects"].items()}


def by_case(case: Any) -> str:
    return str(case["case"])


def parts_of(data: bytes) -> dict[str, bytes]:
    """Take an object of ours apart by its layout: a map of three, each a short text and a byte string with two bytes of length or one."""
    assert data[0] == 0xA3
    at, parts = 1, {}
    for _ in range(3):
        name = data[at + 1:at + 1 + data[at] - 0x60].decode()
        at += 1 + len(name)
        size = {0x58: 1, 0x59: 2}[data[at]]
        length = int.from_bytes(data[at + 1:at + 1 + size], "big")
        at += 1 + size + length
        parts[name] = data[at - length:at]
    assert at == len(data)
    return parts


@pytest.mark.parametrize("case", CORPORA, ids=by_case)
def test_corpora(case: dict[str, Any]) -> None:
    if case["corpus_hash"] is None:
        with pytest.raises(MalformedDescription):
            corpus_hash(case["description"])
    else:
        assert corpus_hash(case["description"]) == case["corpus_hash"]


@pytest.mark.parametrize("case", [case for case in CORPORA if case["corpus_hash"]], ids=by_case)
def test_the_hashes_follow_from_the_canonical_json(case: dict[str, Any]) -> None:
    described = case["description"]
    covered = {"dim": described["dim"], "model": described["model"],
               "repos": [{name: repo[name] for name in sorted(COVERED)} for repo in described["repos"]]}
    assert json.dumps(covered, separators=(",", ":"), ensure_ascii=False) == case["canonical"]
    assert hashlib.sha256(case["canonical"].encode()).hexdigest() == case["corpus_hash"]


@pytest.mark.parametrize("case", SIGNATURES["cases"], ids=by_case)
def test_signatures(case: dict[str, Any]) -> None:
    carried = {} if case["object"] is None else {"signature": OBJECTS[case["object"]]}
    verdict = verify_corpus({**case["description"], **carried}, case["provider"], case["profile"])
    if isinstance(verdict, Refused):
        assert case["verdict"] in (verdict.reason, str(verdict))
    else:
        assert case["verdict"] == type(verdict).__name__.lower()


def test_every_verdict_is_among_them() -> None:
    assert {case["verdict"] for case in SIGNATURES["cases"]} == {
        "signed", "unsigned", "malformed_description", "corpus_hash_mismatch", "signature: malformed", "signature: signature_invalid",
        "signature: alg_mismatch", "signer_not_provider", "signature_hash_mismatch"}
    assert {case["profile"] for case in SIGNATURES["cases"] if case["verdict"] == "signed"} == {"pq_pure", "pq_hybrid"}
    assert {case["verify_hit"] for case in HITS["cases"]} == {"ok", "malformed_provenance", "content_mismatch"}
    assert {case["hit_in_corpus"] for case in HITS["cases"]} == {
        "in_corpus", "malformed_provenance", "deposit", "repo_not_in_corpus", "commit_not_in_corpus"}


@pytest.mark.parametrize("entry", KEYS, ids=lambda entry: entry["name"])
def test_keys_and_the_ids_that_follow_from_them(entry: dict[str, str]) -> None:
    seed_form = base64.b64decode(entry["seed_form_base64"])
    key = NodeKey.from_seed_form(seed_form)
    assert (key.profile, key.node_id, key.to_seed_form()) == (entry["profile"], entry["node_id"], seed_form)
    name = entry["profile"].encode()
    node = hashlib.sha256(b"MACULA-NODE-ID-V1\0" + bytes([len(name)]) + name + key.public).hexdigest()
    assert node == entry["node_id"]


@pytest.mark.parametrize(("name", "signer"), [("valid", "provider"), ("valid_hybrid", "hybrid"), ("strangers", "stranger")])
def test_objects_carry_their_key_and_say_what_they_sign(name: str, signer: str) -> None:
    entry = next(entry for entry in KEYS if entry["name"] == signer)
    parts = parts_of(OBJECTS[name])
    assert list(parts) == ["key", "tbs", "signature"]
    profile = entry["profile"].encode()
    assert hashlib.sha256(b"MACULA-NODE-ID-V1\0" + bytes([len(profile)]) + profile + parts["key"]).hexdigest() == entry["node_id"]
    algorithm = ALGORITHMS["pq_pure" if entry["profile"] == "pq_pure" else "pq_hybrid"]
    said = b"\xa2" + bytes([0x63]) + b"alg" + bytes([0x60 + len(algorithm)]) + algorithm.encode() + bytes([0x6B]) + b"corpus_hash" + b"\x78\x40"
    assert parts["tbs"] == said + CORPORA[0]["corpus_hash"].encode()


@pytest.mark.parametrize("case", HITS["cases"], ids=by_case)
def test_hits(case: dict[str, Any]) -> None:
    provenance = case["hit"].get("provenance") if isinstance(case["hit"], dict) else None
    assert valid_provenance(provenance) == case["valid_provenance"]
    assert verify_hit(case["hit"]) == case["verify_hit"]
    assert hit_in_corpus(case["hit"], HITS["description"]) == case["hit_in_corpus"]


@pytest.mark.parametrize("case", [case for case in HITS["cases"] if case["valid_provenance"] and isinstance(case["hit"].get("content"), str)],
                         ids=by_case)
def test_the_digests_follow_from_the_content(case: dict[str, Any]) -> None:
    digest = hashlib.sha256(case["hit"]["content"].encode()).hexdigest()
    assert case["verify_hit"] == ("ok" if digest == case["hit"]["provenance"]["content_sha256"] else "content_mismatch")


def test_the_stored_answer_of_the_example_is_of_these_keys_and_objects() -> None:
    stored = StoredAnswer.from_json((ROOT / "examples" / "verify_offline" / "answer.json").read_bytes())
    answer = stored.check(KEYS[0]["node_id"])
    assert isinstance(answer, SignedAnswer)
    assert answer.corpus.signature == OBJECTS["valid"]
    assert stored.to_json(indent=1) + "\n" == (ROOT / "examples" / "verify_offline" / "answer.json").read_text(encoding="utf-8")
