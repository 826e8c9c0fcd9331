"""A certificate in the making: a body from what a pipeline found, signed (docs/certificate.md).

Whatever of a body can be computed from the rest of it is computed here, so that what is issued passes its own verification.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.errors import fail
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.decisions import reason
from rag_stdlib.proof.forms import pointer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rag_stdlib.contract.nodekeys import NodeKey

LIFETIME_S: Final = 90 * 86_400
LABELS: Final = ("entailed", "quoted")
MINIMUM: Final = "0.500000"
MOST_SCORE: Final = 1e9  # what a score is below, whatever its sign


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk that was retrieved; `start` and `end` are its place in the document, `index` that of its index in `Retrieval.indexes`."""

    chunk_id: str
    doc_id: str
    source: str
    start: int
    end: int
    text: str
    score: float
    index: int = 0
    provenance: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SearchedIndex:
    """An index that answered: the digest of what it held, and the node and shard that it is, where it is one."""

    content: str | None
    node_id: str | None = None
    shard_id: str | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What was asked, of whom, and what came of it; `failed` and `not_asked` are nodes with the reasons.

    Where `topics` are named, only documents with one of them were asked for.
    """

    mode: str
    limit: int
    items: tuple[Item, ...]
    indexes: tuple[SearchedIndex, ...]
    embedder: tuple[str, int] | None = None
    corpus_hash: str | None = None
    merged_by: str | None = None
    failed: tuple[tuple[str, str], ...] = ()
    not_asked: tuple[tuple[str, str], ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A part of an item that a claim was judged by."""

    item: int
    start: int
    end: int
    alignment: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of the answer, its spans, and what the judge made of them; `confidence` has six decimals."""

    start: int
    end: int
    spans: tuple[Span, ...]
    label: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Named:
    """A generator or a judge: its name, the model or version, and the digest that tells it from every other."""

    name: str
    version: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before it is signed; an empty one is an abstention."""

    query: str
    nonce: str
    retrieval: Retrieval
    answer: str
    claims: tuple[Claim, ...]
    generator: Named
    judge: Named
    decomposition: str
    alignment: str
    labels: tuple[str, ...] = LABELS
    minimum_confidence: str = MINIMUM
    lifetime_s: int = field(default=LIFETIME_S)


def share(number: float) -> str:
    """Write a number from 0 to 1 with six decimals, the nearest one; never a negative zero."""
    return str(Decimal(min(max(0.0, number), 1.0)).quantize(Decimal("0.000001"), ROUND_HALF_EVEN))  # in this order, what is no number is 0.0


def score(number: float) -> str:
    """Write a score with nine decimals, the nearest one; never a negative zero.

    Raises:
        Failure: `certificate_invalid` for one that is not finite, or beyond the nine digits that the format has.
    """
    if not abs(number) < MOST_SCORE:
        raise fail("certificate_invalid", where="a score")
    nearest = Decimal(number).quantize(Decimal("0.000000001"), ROUND_HALF_EVEN)
    return f"{nearest:f}" if nearest else "0.000000000"


def make_body(draft: Draft, issuer: str, public_key: bytes, *, now: datetime, salt: str, node_id: str | None = None) -> dict[str, Any]:
    """Make the body of a certificate.

    Args:
        draft: What is certified.
        issuer: The issuer's name.
        public_key: Its Ed25519 public key, 32 bytes.
        now: When it is issued.
        salt: 64 random hex digits.
        node_id: The mesh node that signs as well, if one does.

    Raises:
        Failure: `certificate_invalid` where it would not be a certificate; the detail names the member.
    """
    issued = now.astimezone(timezone.utc).replace(microsecond=0)
    said = contents(draft, salt)
    body = {
        "schema": fmt.SCHEMA,
        "issuer": {"name": issuer, "key_id": fmt.issuer_key_id(public_key), "node_id": node_id},
        "issued_at": issued.strftime(fmt.TIME),
        "expires_at": _end(issued, draft.lifetime_s),
        "query": {"nonce": draft.nonce, "salt": salt, "commitment": fmt.query_commitment(draft.query, draft.nonce, salt),
                  "key": fmt.query_key(draft.query, said["retrieval"]["state"])},
        **said,
        "not_proven": list(fmt.NOT_PROVEN)}
    _refuse_unfit(body)
    return body


def _end(issued: datetime, lifetime_s: int) -> str:
    """Write when a certificate ends; no time that cannot be written is in the form's reach."""
    if not 0 < lifetime_s <= fmt.LONGEST_S or datetime.max.replace(tzinfo=timezone.utc) - issued < timedelta(seconds=lifetime_s):
        raise fail("certificate_invalid", where="/expires_at")
    return (issued + timedelta(seconds=lifetime_s)).strftime(fmt.TIME)


def contents(draft: Draft, salt: str = "") -> dict[str, Any]:
    """Give the members of a body that are the draft's own, whoever issues it and when: from `retrieval` to `policy`.

    Only `retrieval.state` may depend on the salt.
    """
    policy = {"labels": sorted(set(draft.labels)), "minimum_confidence": draft.minimum_confidence}
    return {
        "retrieval": _retrieval(draft.retrieval, salt),
        "answer": {"text": draft.answer, "sha256": fmt.text_digest(draft.answer), "abstained": not draft.answer},
        "claims": [_claim(claim, draft) for claim in draft.claims],
        "generator": {"name": draft.generator.name, "model": draft.generator.version, "digest": draft.generator.digest},
        "judge": {"name": draft.judge.name, "version": draft.judge.version, "digest": draft.judge.digest},
        "methods": {"decomposition": draft.decomposition, "alignment": draft.alignment},
        "policy": {**policy, "sha256": fmt.policy_digest(policy["labels"], draft.minimum_confidence)}}


def sign(body: Mapping[str, Any], key: Ed25519PrivateKey, node_key: NodeKey | None = None) -> dict[str, Any]:
    """Sign a body: the envelope, without a receipt yet. `node_key` is that of the node that the body names."""
    written = canonical(body)
    envelope: dict[str, Any] = {"certificate": body, "signature": _base64(key.sign(fmt.signed_bytes(written)))}
    if node_key is not None:
        signature = node_key.sign(fmt.signed_bytes(written, fmt.NODE_LABEL))
        envelope["node_signature"] = {"profile": node_key.profile, "key": _base64(node_key.public), "signature": _base64(signature)}
    return envelope


def entry_of(envelope: Mapping[str, Any]) -> bytes:
    """Return what the log holds of an envelope."""
    return fmt.log_entry(envelope["certificate"], canonical(envelope["certificate"]), envelope["signature"])


def to_bytes(envelope: Mapping[str, Any]) -> bytes:
    """Write an envelope as a file: JSON in ASCII, indented, with a final line feed."""
    return (json.dumps(envelope, ensure_ascii=True, allow_nan=False, indent=2) + "\n").encode()


def _retrieval(given: Retrieval, salt: str) -> dict[str, Any]:
    embedder = None if given.embedder is None else {"model": given.embedder[0], "dim": given.embedder[1]}
    made: dict[str, Any] = {
        "mode": given.mode, "limit": given.limit, "embedder": embedder, "corpus_hash": given.corpus_hash, "merged_by": given.merged_by,
        "topics": sorted(set(given.topics)),
        "indexes": [{"node_id": each.node_id, "shard_id": each.shard_id, "content": each.content} for each in given.indexes],
        "failed": _left_out(given.failed), "not_asked": _left_out(given.not_asked)}
    return {**made, "state": fmt.index_state(made, salt), "items": [_item(item) for item in given.items]}


def _left_out(shards: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"node_id": node, "reason": why} for node, why in shards]


def _item(item: Item) -> dict[str, Any]:
    names = ("kind", "path", "repo_id", "commit", "start_line", "end_line")
    provenance = None if item.provenance is None else {name: item.provenance.get(name) for name in names}
    return {"chunk_id": item.chunk_id, "doc_id": item.doc_id, "source": item.source, "index": item.index, "start": item.start, "end": item.end,
            "text": item.text, "content_sha256": fmt.text_digest(item.text), "provenance": provenance, "score": score(item.score)}


def _claim(claim: Claim, draft: Draft) -> dict[str, Any]:
    text = draft.answer[claim.start:claim.end]
    spans = [_span(span, draft.retrieval.items[span.item].text) for span in claim.spans]
    why = reason(claim.label, claim.confidence, len(spans), draft.labels, draft.minimum_confidence)
    return {"start": claim.start, "end": claim.end, "text": text, "sha256": fmt.text_digest(text), "spans": spans,
            "judgement": {"label": claim.label, "confidence": claim.confidence,
                          "inputs_sha256": fmt.judge_inputs(text, [span["text"] for span in spans], draft.judge.digest)},
            "decision": {"shown": why is None, "reason": why}}


def _span(span: Span, of: str) -> dict[str, Any]:
    text = of[span.start:span.end]
    return {"item": span.item, "start": span.start, "end": span.end, "text": text, "sha256": fmt.text_digest(text),
            "alignment": share(span.alignment)}


def _refuse_unfit(body: dict[str, Any]) -> None:
    from rag_stdlib.proof.bodychecks import CHECKS, times

    departs = fmt.BODY.departs(body)
    for check in (times, *(check for _, check in CHECKS)):
        departs = departs if departs is not None else check(body)
    if departs is not None:
        raise fail("certificate_invalid", where=pointer(departs) or "the certificate")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
