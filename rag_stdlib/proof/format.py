"""The certificate's format, version 1: its labels, digests and forms (docs/certificate.md)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from rag_stdlib.contract.jcs import canonical_plain
from rag_stdlib.proof.forms import Flag, Form, ListOf, Members, OneOf, OrNull, Text, Whole
from replay import ed25519

SCHEMA: Final = "rag-stdlib/answer-certificate/v1"
NODE_LABEL: Final = "rag-stdlib/answer-certificate/node/v1"
ENTRY_SCHEMA: Final = "rag-stdlib/log-entry/v1"
LABELS: Final = ("contradicted", "entailed", "not_supported", "quoted")
REASONS: Final = ("no_span", "contradicted", "not_supported", "label_not_allowed", "low_confidence")
NOT_PROVEN: Final = ("answer_is_complete", "answer_is_true", "documents_are_true", "evidence_is_complete",
                     "issuer_is_honest_about_retrieval", "judge_is_right", "model_ran_as_named")
NONCE_PATTERN: Final = "[A-Za-z0-9_-]{16,128}"
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
LONGEST_S: Final = 366 * 86_400  # from issued_at to expires_at

_TIME_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
_TIME_FORM: Final = re.compile(_TIME_PATTERN, re.ASCII)
_FIRST_YEAR: Final = 1970


def digest(label: str, data: bytes) -> str:
    """Hash bytes under a label: hex of SHA-256(label, 00, data)."""
    return hashlib.sha256(label.encode() + b"\0" + data).hexdigest()


def text_digest(text: str) -> str:
    """Hash a text: hex of the SHA-256 of its UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def signed_bytes(canonical_body: bytes, label: str = SCHEMA) -> bytes:
    """Return the bytes that are signed: the label, 00, the canonical body."""
    return label.encode() + b"\0" + canonical_body


def issuer_key_id(public: bytes) -> str:
    """Name an issuer's key (32 bytes, Ed25519) by its digest."""
    return digest("rag-stdlib/issuer-key/v1", public)


def query_commitment(query: str, nonce: str, salt: str) -> str:
    """Commit to a question."""
    return digest("rag-stdlib/query-commitment/v1", canonical_plain({"nonce": nonce, "query": query, "salt": salt}))


def query_key(query: str, state: str) -> str:
    """Name a question asked of an index's state: the same in every certificate about both."""
    return digest("rag-stdlib/query-key/v1", canonical_plain({"query": query, "state": state}))


def index_state(retrieval: Mapping[str, Any], salt: str) -> str:
    """Name the state of what was searched; where that is not known of an index, by the salt of the question, so that it is no other's."""
    is_known = all(index["content"] is not None for index in retrieval["indexes"])
    named = {name: retrieval[name] for name in ("corpus_hash", "embedder", "indexes")}
    return digest("rag-stdlib/index-state/v1", canonical_plain({**named, "salt": None if is_known else salt}))


def answer_setup(body: Mapping[str, Any]) -> str:
    """Name the way in which an answer was made: how it was retrieved, generated, judged and decided."""
    way = {name: body[name] for name in ("generator", "judge", "methods", "policy")}
    return digest("rag-stdlib/answer-setup/v1", canonical_plain({**way, **{name: body["retrieval"][name] for name in ("limit", "merged_by", "mode", "topics")}}))


def judge_inputs(claim: str, spans: Sequence[str], judge: str) -> str:
    """Name what a judge was given: claim, spans, and the judge's own digest."""
    return digest("rag-stdlib/judge-inputs/v1", canonical_plain({"claim": claim, "judge": judge, "spans": list(spans)}))


def policy_digest(labels: Sequence[str], minimum_confidence: str) -> str:
    """Name an issuer's policy."""
    return digest("rag-stdlib/issuer-policy/v1", canonical_plain({"labels": list(labels), "minimum_confidence": minimum_confidence}))


def log_entry(body: Mapping[str, Any], canonical_body: bytes, signature: str) -> bytes:
    """Return what the log holds of a certificate, computed from the envelope's body and signature."""
    return canonical_plain({
        "schema": ENTRY_SCHEMA, "answer_sha256": body["answer"]["sha256"], "body_sha256": hashlib.sha256(canonical_body).hexdigest(),
        "index_state": body["retrieval"]["state"], "issued_at": body["issued_at"], "issuer_key_id": body["issuer"]["key_id"],
        "query_key": body["query"]["key"], "setup": answer_setup(body), "signature": signature})


def read_time(text: str) -> datetime | None:
    """Read a time of the format; None for none, as the 30th of February."""
    if not _TIME_FORM.fullmatch(text):
        return None
    try:
        read = datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return read if read.year >= _FIRST_YEAR else None


def _is_time(text: str) -> bool:
    return read_time(text) is not None


def _base64(size: int | None = None) -> Text:
    """Give the form of base64, of so many bytes if that is said."""
    def is_fit(text: str) -> bool:
        try:
            data = ed25519.strict_base64(text)
        except ValueError:
            return False
        return size is None or len(data) == size

    return Text(pattern="[A-Za-z0-9+/]*={0,2}", is_fit=is_fit)


def _is_sorted(words: Sequence[Any]) -> bool:
    return list(words) == sorted(set(words))


ID: Final = Text(pattern="[0-9a-f]{64}")
_TIME: Final = Text(pattern=_TIME_PATTERN, is_fit=_is_time)
_SCORE: Final = Text(pattern=r"(?!-0\.0{9}$)-?(?:0|[1-9][0-9]{0,8})\.[0-9]{9}")
SHARE: Final = Text(pattern=r"0\.[0-9]{6}|1\.000000")
_NAME: Final = Text(1, 200)
_COUNT: Final = Whole()
_DIGEST_OF: Final[Mapping[str, Form]] = {"sha256": ID}

PROVENANCE: Final = Members({
    "kind": OneOf(("corpus", "deposit")), "path": Text(0, 4_096), "repo_id": OrNull(Text(0, 200)), "commit": OrNull(Text(pattern="[0-9a-f]{40}")),
    "start_line": OrNull(_COUNT), "end_line": OrNull(_COUNT)})
_ITEM: Final = Members({
    "chunk_id": Text(1, 4_096), "doc_id": Text(1, 4_096), "source": Text(0, 4_096), "index": _COUNT, "start": _COUNT, "end": _COUNT,
    "text": Text(), "content_sha256": ID, "provenance": OrNull(PROVENANCE), "score": _SCORE})
_LEFT_OUT: Final = ListOf(Members({"node_id": ID, "reason": Text(1, 100)}), 10_000)
_SPAN: Final = Members({"item": _COUNT, "start": _COUNT, "end": _COUNT, "text": Text(), **_DIGEST_OF, "alignment": SHARE})
_CLAIM: Final = Members({
    "start": _COUNT, "end": _COUNT, "text": Text(), **_DIGEST_OF, "spans": ListOf(_SPAN, 16),
    "judgement": Members({"label": OneOf(LABELS), "confidence": SHARE, "inputs_sha256": ID}),
    "decision": Members({"shown": Flag(), "reason": OrNull(OneOf(REASONS))})})
BODY: Final = Members({
    "schema": OneOf((SCHEMA,)),
    "issuer": Members({"name": _NAME, "key_id": ID, "node_id": OrNull(ID)}),
    "issued_at": _TIME, "expires_at": _TIME,
    "query": Members({"nonce": Text(pattern=NONCE_PATTERN), "salt": ID, "commitment": ID, "key": ID}),
    "retrieval": Members({
        "mode": OneOf(("vector", "lexical", "hybrid")), "limit": Whole(1, 1_000), "embedder": OrNull(Members({"model": _NAME, "dim": Whole(1)})),
        "corpus_hash": OrNull(ID), "merged_by": OrNull(Text(1, 100)), "topics": ListOf(Text(1, 200), 100),
        "indexes": ListOf(Members({"node_id": OrNull(ID), "shard_id": OrNull(Text(0, 200)), "content": OrNull(ID)}), 10_000),
        "failed": _LEFT_OUT, "not_asked": _LEFT_OUT, "state": ID, "items": ListOf(_ITEM, 1_000)}),
    "answer": Members({"text": Text(), **_DIGEST_OF, "abstained": Flag()}),
    "claims": ListOf(_CLAIM, 1_000),
    "generator": Members({"name": _NAME, "model": OrNull(Text(0, 200)), "digest": ID}),
    "judge": Members({"name": _NAME, "version": _NAME, "digest": ID}),
    "methods": Members({"decomposition": OneOf(("rules", "model", "whole")), "alignment": OneOf(("lexical", "embedder", "none"))}),
    "policy": Members({"labels": ListOf(OneOf(LABELS), len(LABELS), 1, _is_sorted), "minimum_confidence": SHARE, **_DIGEST_OF}),
    "not_proven": ListOf(Text(), 100)})
ENVELOPE: Final = Members(
    {"certificate": BODY, "signature": _base64(ed25519.SIGNATURE_BYTES)},
    {"node_signature": Members({"profile": OneOf(("pq_pure", "pq_hybrid")), "key": _base64(), "signature": _base64()}), "receipt": Text()})


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema of an envelope; what it cannot say (real dates, lengths in bytes, sorted lists) docs/certificate.md says."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Answer certificate, version 1", **ENVELOPE.schema()}
