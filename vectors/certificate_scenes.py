"""The two certificates that the attacks start from: one of a single index, and one of a federation, with the signature of a node."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import certificate_keys as keys

from rag_stdlib.contract import NodeKey, nodekeys
from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.scene import Insider, Scene
from rag_stdlib.proof.certificate import Claim, Draft, Item, Named, Retrieval, SearchedIndex, Span, make_body, sign
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust

NOW: Final = datetime(2026, 12, 1, 12, 0, 0, tzinfo=timezone.utc)
QUESTION: Final = "When are refunds paid?"
NONCE: Final = "nonce-of-the-asker_1"
SALT: Final = "5a" * 32
POLICY: Final = {"max_age_s": 604_800}
GENERATOR: Final = Named("extractive", None, "1" * 64)
JUDGE: Final = Named("quotation", "1", "2" * 64)

REFUNDS: Final = "Refunds are paid within ten days of the return. A receipt is needed."
SHIPPING: Final = "Goods are shipped on the next working day. No refund is paid for opened goods."
OPENED: Final = "Opened goods are exchanged, and not refunded. Ask at the desk."
ANSWER: Final = """- Refunds are paid within ten days of the return.
- No refund is paid for opened goods.
- Opened goods may be exchanged.
- Refunds are paid in cash."""


def span(items: tuple[Item, ...], item: int, text: str, alignment: float) -> Span:
    """Find a text in an item."""
    start = items[item].text.index(text)
    return Span(item, start, start + len(text), alignment)


def claim(answer: str, text: str, spans: tuple[Span, ...], label: str, confidence: str = "1.000000") -> Claim:
    """Find a claim in an answer."""
    start = answer.index(text)
    return Claim(start, start + len(text), spans, label, confidence)


def plain_draft() -> Draft:
    """An answer of four claims over three items: two are quotations, one is entailed, one is not supported."""
    items = (
        Item("policy#1", "policy", "policy.md", 0, len(REFUNDS), REFUNDS, 2.5, 0,
             {"kind": "corpus", "path": "policy.md", "repo_id": "acme/policy", "commit": "c" * 40, "start_line": 1, "end_line": 1}),
        Item("policy#2", "policy", "policy.md", 100, 100 + len(SHIPPING), SHIPPING, 1.25, 0, {"kind": "deposit", "path": "conversational"}),
        Item("desk#1", "desk", "desk.md", 7, 7 + len(OPENED), OPENED, 0.75))
    first = span(items, 0, REFUNDS[:47], 1.0)
    claims = (
        claim(ANSWER, REFUNDS[:47], (first, span(items, 2, OPENED[:45], 0.4)), "quoted"),
        claim(ANSWER, SHIPPING[43:], (span(items, 1, SHIPPING[43:], 1.0),), "quoted"),
        claim(ANSWER, "Opened goods may be exchanged.", (span(items, 2, OPENED[:45], 0.8),), "entailed", "0.870000"),
        claim(ANSWER, "Refunds are paid in cash.", (first,), "not_supported", "0.900000"))
    retrieval = Retrieval("hybrid", 10, items, (SearchedIndex("e" * 64),), ("words-sha256", 24), "d" * 64)
    return Draft(QUESTION, NONCE, retrieval, ANSWER, claims, GENERATOR, JUDGE, "rules", "lexical")


def plain_other_draft() -> Draft:
    """Another answer of the same shape, to swap parts with."""
    texts = ("Lamps are mended by the smith in three days.", "Wicks are sold by the dozen at the gate.", "Oil keeps for a year in the cellar.")
    items = tuple(Item(f"lamps#{place}", f"lamps-{place}", f"lamps-{place}.md", 10, 10 + len(text), text, 3.0 - place, 0,
                       {"kind": "corpus", "path": f"lamps-{place}.md", "repo_id": "acme/lamps", "commit": "b" * 40, "start_line": 3, "end_line": 4})
                  for place, text in enumerate(texts))
    answer = " ".join((*texts, "Lamps are free."))
    wholes = tuple(span(items, place, text, 0.9) for place, text in enumerate(texts))
    claims = (claim(answer, texts[0], (wholes[0], wholes[1]), "quoted"), claim(answer, texts[1], (wholes[1],), "quoted", "0.990000"),
              claim(answer, texts[2], (wholes[2],), "entailed", "0.950000"), claim(answer, "Lamps are free.", (wholes[0],), "contradicted", "0.800000"))
    retrieval = Retrieval("vector", 5, items, (SearchedIndex("f" * 64),), ("words-sha256", 32), None)
    return Draft("Who mends lamps?", "nonce-of-the-asker_2", retrieval, answer, claims, Named("ollama", "lamp-7b", "3" * 64), Named("nli", "2", "4" * 64),
                 "model", "embedder", ("contradicted", "entailed", "quoted"), "0.750000", lifetime_s=86_400)


def node_draft(texts: tuple[str, str, str] = (REFUNDS, SHIPPING, OPENED), query: str = QUESTION, nonce: str = NONCE) -> Draft:
    """An answer of three claims over what three shards of a federation found, while others failed or were not asked."""
    items = tuple(Item("chunk#1", "doc", f"shard-{place}.md", 0, len(text), text, float(place), place) for place, text in enumerate(texts))
    answer = " ".join(texts)
    claims = tuple(claim(answer, text, (span(items, place, text, 1.0),), "quoted") for place, text in enumerate(texts))
    indexes = tuple(SearchedIndex(mark * 64 if mark else None, f"{place + 1}" * 64, f"shard-{place}") for place, mark in enumerate(("a", "b", "")))
    retrieval = Retrieval("lexical", 10, items, indexes, merged_by="rank", failed=(("6" * 64, "timed_out"), ("7" * 64, "refused")),
                          not_asked=(("8" * 64, "circuit_open"), ("9" * 64, "other_embedding")), topics=("refunds", "shipping"))
    return Draft(query, nonce, retrieval, answer, claims, GENERATOR, JUDGE, "rules", "lexical")


def signed(draft: Draft, *, issued: datetime = NOW - timedelta(minutes=1), salt: str = SALT, node: NodeKey | None = None,
           kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Issue a certificate; a node's signature that stands in `kept` and still holds is kept, since no two are alike."""
    body = make_body(draft, "acme", keys.PUBLIC, now=issued, salt=salt, node_id=None if node is None else node.node_id)
    envelope = sign(body, keys.ISSUER, node)
    before = (kept or {}).get("node_signature")
    if node is not None and before is not None and kept is not None and kept["certificate"] == body:
        message = fmt.signed_bytes(canonical(body), fmt.NODE_LABEL)
        if nodekeys.verify(message, base64.b64decode(before["signature"]), node.public, node.profile):
            envelope["node_signature"] = dict(before)
    return envelope


def logged(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Have a certificate logged."""
    return {**envelope, "receipt": keys.receipt_of(envelope)}


def plain_scene() -> Scene:
    """The certificate of a single index under attack."""
    other = signed(plain_other_draft(), issued=NOW - timedelta(hours=1), salt="a5" * 32)
    return Scene(logged(signed(plain_draft())), Trust.from_json(keys.trust()), Policy.of(POLICY), keys.ATTACKER, logged(other),
                 Insider(keys.ISSUER, keys.receipt_of, QUESTION))


def node_trust(node: NodeKey) -> dict[str, Any]:
    """Write trust in an issuer whose node is known."""
    trusted = keys.trust()
    return {**trusted, "issuers": [{**trusted["issuers"][0], "node_id": node.node_id}]}


def node_scene(kept: Mapping[str, Mapping[str, Any]] | None = None) -> Scene:
    """The certificate of a federation under attack; `kept` has the `envelope` and the `other` of an earlier run."""
    node, before = keys.node("provider"), kept or {}
    other = node_draft(("Lamps are mended in three days.", "Wicks are sold at the gate.", "Oil keeps for a year."), "Who mends lamps?", "nonce-of-the-asker_2")
    envelopes = (signed(node_draft(), node=node, kept=before.get("envelope")),
                 signed(other, issued=NOW - timedelta(hours=1), salt="a5" * 32, node=node, kept=before.get("other")))
    envelope, another = map(logged, envelopes)
    return Scene(envelope, Trust.from_json(node_trust(node)), Policy.of(POLICY), keys.ATTACKER, another,
                 Insider(keys.ISSUER, keys.receipt_of, QUESTION, node))
