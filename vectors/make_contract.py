"""Make the vectors of the RAG service contract: descriptions with their hashes, signatures and hits with their verdicts.

Signatures are randomised. One that stands in a file and still holds is kept, so that a run changes nothing which did not change.
The keys of `contract/keys.json` are made once, published on purpose, and good for nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rag_stdlib.contract import (
    NodeKey,
    Refused,
    Signed,
    StoredAnswer,
    Unsigned,
    cbor,
    corpus_hash,
    hit_in_corpus,
    jcs,
    nodekeys,
    signedobject,
    valid_provenance,
    verify_corpus,
    verify_hit,
)
from rag_stdlib.contract.corpus import LABEL, MalformedDescription

HERE: Final = Path(__file__).parent / "contract"
EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "verify_offline" / "answer.json"

HANDBOOK: Final = {"id": "handbook", "url": "https://example.org/handbook.git", "branch": "main", "commit": "1" * 40}
LAMPS: Final = {"id": "lamps", "url": "/srv/mirrors/lamps.git", "branch": "trunk", "commit": "2" * 40}
CORPUS: Final[dict[str, Any]] = {"model": "hashing/words:v1", "dim": 256, "repos": [HANDBOOK, LAMPS]}
REFUNDS: Final = "## Refunds\n\nRefunds are paid within ten days of the return.\n"
NOTE: Final = "Näher am Fenster hält die Lampe länger. 灯"

DESCRIPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("two repositories", CORPUS),
    ("the same in the other order are another corpus", {**CORPUS, "repos": [LAMPS, HANDBOOK]}),
    ("another length of vectors", {**CORPUS, "dim": 384}),
    ("another model", {**CORPUS, "model": "hashing/words:v2"}),
    ("another commit", {**CORPUS, "repos": [HANDBOOK, {**LAMPS, "commit": "3" * 40}]}),
    ("no repository", {**CORPUS, "repos": []}),
    ("the same repository twice", {**CORPUS, "repos": [HANDBOOK, HANDBOOK]}),
    ("other keys do not count", {
        **CORPUS, "repos": [{**HANDBOOK, "depth": 1, "note": None}, LAMPS], "signed_by": "0" * 64, "corpus_hash": "none", "index_content": 7}),
    ("strings are not judged, only text", {**CORPUS, "model": "", "repos": [dict.fromkeys(HANDBOOK, "")]}),
    ("characters that are escaped, and others that are not", {
        **CORPUS, "model": 'q"b\\s/\b\t\n\f\r\x00\x1f\x7f\x80é\u2028\ufeff\U0001f6dd', "repos": [{**HANDBOOK, "branch": "grün/灯"}]}),
    ("nothing is normalised", {**CORPUS, "model": "e\u0301"}),
    ("the largest number", {**CORPUS, "dim": 2**53 - 1}),
    ("a larger one", {**CORPUS, "dim": 2**53}),
    ("zero", {**CORPUS, "dim": 0}),
    ("a float", {**CORPUS, "dim": 256.0}),
    ("a boolean", {**CORPUS, "dim": True}),
    ("digits", {**CORPUS, "dim": "256"}),
    ("no model", {"dim": 256, "repos": []}),
    ("a model of null", {**CORPUS, "model": None}),
    ("repositories by name", {**CORPUS, "repos": {"handbook": HANDBOOK}}),
    ("a repository without a commit", {**CORPUS, "repos": [{**HANDBOOK, "commit": None}]}),
    ("a repository by its name alone", {**CORPUS, "repos": ["handbook"]}),
    ("a lone surrogate", {**CORPUS, "model": "\ud800"}),
    ("no map", [CORPUS]),
)


@dataclass(frozen=True)
class Object:
    """What a signed object is to say, and whose key signs it."""

    key: str
    corpus_hash: str | bytes
    label: str = LABEL
    alg: str | None = None

    def bytes_with(self, key: NodeKey, kept: bytes) -> bytes:
        """Return `kept` where it is this object and its signature holds, else sign anew."""
        tbs = cbor.encode({"alg": self.alg or signedobject.ALGORITHMS[key.profile], "corpus_hash": self.corpus_hash})
        signed = self.label.encode() + b"\0" + hashlib.sha384(key.public).digest() + tbs
        try:
            parts: Any = cbor.decode(kept)
            if (parts["key"], parts["tbs"]) == (key.public, tbs) and nodekeys.verify(signed, parts["signature"], key.public, key.profile):
                return kept
        except (cbor.CborError, KeyError, TypeError):
            pass
        return cbor.encode({"key": key.public, "tbs": tbs, "signature": key.sign(signed)})


HASH: Final = corpus_hash(CORPUS)
OTHER_HASH: Final = corpus_hash({**CORPUS, "repos": []})
OBJECTS: Final = {
    "valid": Object("provider", HASH),
    "valid_hybrid": Object("hybrid", HASH),
    "of_another_corpus": Object("provider", OTHER_HASH),
    "hash_in_bytes": Object("provider", HASH.encode()),
    "other_label": Object("provider", HASH, label="macula-rag corpus v2"),
    "other_alg": Object("provider", HASH, alg="ML-DSA-65"),
    "strangers": Object("stranger", HASH),
    "strangers_of_another_corpus": Object("stranger", OTHER_HASH),
}
BROKEN: Final = {"altered": ("valid", -1), "truncated": ("valid", slice(0, -1))}
SIGNATURES: Final[tuple[tuple[str, str, dict[str, Any], str | None], ...]] = (
    ("signed by the provider", "provider", {}, "valid"),
    ("signed by the provider, in the other profile", "hybrid", {}, "valid_hybrid"),
    ("unsigned, whatever signed_by says", "provider", {"signed_by": "provider"}, None),
    ("signed_by is no evidence", "provider", {"signed_by": "0" * 64}, "valid"),
    ("a copy that another node serves", "stranger", {}, "valid"),
    ("a consistent hash of other repositories under the old signature", "provider", {"repos": [], "corpus_hash": OTHER_HASH}, "valid"),
    ("the signature of another corpus", "provider", {}, "of_another_corpus"),
    ("the hash signed as a byte string", "provider", {}, "hash_in_bytes"),
    ("a wrong signer over a wrong hash", "provider", {}, "strangers_of_another_corpus"),
    ("another signer", "provider", {}, "strangers"),
    ("another label", "provider", {}, "other_label"),
    ("an algorithm that is not the profile's", "provider", {}, "other_alg"),
    ("an altered signature", "provider", {}, "altered"),
    ("a truncated object", "provider", {}, "truncated"),
    ("an object of the other profile", "provider", {}, "valid_hybrid"),
    ("changed repositories under the old hash", "provider", {"repos": [LAMPS, HANDBOOK]}, "valid"),
    ("a hash in capitals", "provider", {"corpus_hash": HASH.upper()}, "valid"),
    ("a signature as text", "provider", {"signature": "text"}, None),
    ("no hash", "provider", {"corpus_hash": None}, "valid"),
)


def digest(text: str) -> str:
    """Give the SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


PROVENANCE: Final[dict[str, Any]] = {
    "kind": "corpus", "path": "handbook/refunds.md", "repo_id": "handbook", "commit": "1" * 40, "start_line": 3, "end_line": 5,
    "content_sha256": digest(REFUNDS)}
DEPOSIT: Final[dict[str, Any]] = {"kind": "deposit", "path": "conversational", "content_sha256": digest(NOTE), "deposited_by": "ab" * 32}
HITS: Final[tuple[tuple[str, Any], ...]] = (
    ("a text of the corpus", {"content": REFUNDS, "provenance": PROVENANCE}),
    ("a deposit", {"content": NOTE, "provenance": DEPOSIT}),
    ("an altered text", {"content": REFUNDS.replace("ten", "two"), "provenance": PROVENANCE}),
    ("an altered deposit", {"content": NOTE + " ", "provenance": DEPOSIT}),
    ("no text", {"content": "", "provenance": {**DEPOSIT, "content_sha256": digest("")}}),
    ("another repository", {"content": REFUNDS, "provenance": {**PROVENANCE, "repo_id": "novels"}}),
    ("another commit", {"content": REFUNDS, "provenance": {**PROVENANCE, "commit": "0" * 40}}),
    ("the commit of another repository", {"content": REFUNDS, "provenance": {**PROVENANCE, "commit": LAMPS["commit"]}}),
    ("a path outside of the repository is not looked at", {"content": REFUNDS, "provenance": {**PROVENANCE, "path": "../x"}}),
    ("an empty path", {"content": REFUNDS, "provenance": {**PROVENANCE, "path": ""}}),
    ("an empty repository", {"content": REFUNDS, "provenance": {**PROVENANCE, "repo_id": ""}}),
    ("a commit in capitals", {"content": REFUNDS, "provenance": {**PROVENANCE, "commit": "A" * 40}}),
    ("a commit of SHA-256", {"content": REFUNDS, "provenance": {**PROVENANCE, "commit": "1" * 64}}),
    ("a line break behind the commit", {"content": REFUNDS, "provenance": {**PROVENANCE, "commit": "1" * 40 + "\n"}}),
    ("a digest in capitals", {"content": REFUNDS, "provenance": {**PROVENANCE, "content_sha256": digest(REFUNDS).upper()}}),
    ("a deposit with a repository", {"content": NOTE, "provenance": {**DEPOSIT, "repo_id": "handbook"}}),
    ("a deposit with a commit of null", {"content": NOTE, "provenance": {**DEPOSIT, "commit": None}}),
    ("another kind", {"content": NOTE, "provenance": {**DEPOSIT, "kind": "Corpus"}}),
    ("no content", {"provenance": PROVENANCE}),
    ("content that is no text", {"content": 7, "provenance": PROVENANCE}),
    ("no provenance", {"content": REFUNDS}),
    ("provenance as a list", {"content": REFUNDS, "provenance": [PROVENANCE]}),
    ("no map", REFUNDS),
)


def corpora() -> list[dict[str, Any]]:
    """Hash each description; null where it is malformed."""
    cases = []
    for case, description in DESCRIPTIONS:
        try:
            hashed: dict[str, Any] = {"corpus_hash": corpus_hash(description)}
        except MalformedDescription:
            hashed = {"corpus_hash": None}
        else:
            repos = [{part: repo[part] for part in HANDBOOK} for repo in description["repos"]]
            hashed["canonical"] = jcs.canonical({"model": description["model"], "dim": description["dim"], "repos": repos}).decode()
        cases.append({"case": case, "description": description, **hashed})
    return cases


def signatures(keys: Mapping[str, NodeKey], kept: Mapping[str, str]) -> dict[str, Any]:
    """Sign the objects that do not stand yet, and judge each description with one of them."""
    objects = {name: wanted.bytes_with(keys[wanted.key], base64.b64decode(kept.get(name, ""))) for name, wanted in OBJECTS.items()}
    for name, (of, change) in BROKEN.items():
        whole = objects[of]
        objects[name] = whole[change] if isinstance(change, slice) else whole[:change] + bytes([whole[change] ^ 1])
    cases = []
    for case, node, changes, name in SIGNATURES:
        key = keys[node]
        described = {**CORPUS, "corpus_hash": HASH, **changes}
        if described.get("signed_by") == "provider":
            described["signed_by"] = key.node_id
        verdict = verify_corpus(described if name is None else {**described, "signature": objects[name]}, key.node_id, key.profile)
        cases.append({"case": case, "provider": key.node_id, "profile": key.profile, "description": described, "object": name,
                      "verdict": _name(verdict)})
    return {"label": LABEL, "objects": {name: base64.b64encode(data).decode() for name, data in objects.items()}, "cases": cases}


def _name(verdict: Signed | Unsigned | Refused) -> str:
    if not isinstance(verdict, Refused):
        return type(verdict).__name__.lower()
    return str(verdict) if verdict.reason == "signature" else verdict.reason


def hits() -> dict[str, Any]:
    """Judge each hit."""
    description = {**CORPUS, "corpus_hash": HASH}
    return {"description": description, "cases": [{
        "case": case, "hit": hit, "valid_provenance": int(valid_provenance(hit.get("provenance") if isinstance(hit, dict) else None)),
        "verify_hit": verify_hit(hit).value, "hit_in_corpus": hit_in_corpus(hit, description).value,
    } for case, hit in HITS]}


def stored_answer(key: NodeKey, signature: str) -> str:
    """Make the answer that examples/verify_offline checks."""
    description = {**CORPUS, "corpus_hash": HASH, "signature": base64.b64decode(signature), "signed_by": key.node_id}
    found = [{"chunk_id": f"chunk-{at}", "score": score, "content": text, "source_path": where["path"], "provenance": where}
             for at, (score, text, where) in enumerate([(0.75, REFUNDS, PROVENANCE), (0.25, NOTE, DEPOSIT)])]
    return StoredAnswer(key.node_id, key.profile, description, {"corpus_hash": HASH, "hits": found}).to_json(indent=1)


def write() -> None:
    """Write every file, the vectors in ASCII so that every code point shows."""
    keys = {entry["name"]: NodeKey.from_seed_form(base64.b64decode(entry["seed_form_base64"]))
            for entry in json.loads((HERE / "keys.json").read_bytes())}
    file = HERE / "signatures.json"
    signed = signatures(keys, json.loads(file.read_bytes())["objects"] if file.exists() else {})
    for name, content in (("corpora", corpora()), ("signatures", signed), ("hits", hits())):
        (HERE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")
    EXAMPLE.write_text(stored_answer(keys["provider"], signed["objects"]["valid"]) + "\n", encoding="utf-8")
