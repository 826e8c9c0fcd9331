"""Certificates that verify, with every value on the way from the body to the root of the log."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import certificate_keys as keys
import certificate_scenes as scenes
from certificate_scenes import NONCE, NOW, QUESTION, claim, span

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.certificate import Claim, Draft, Item, Named, Retrieval, SearchedIndex, entry_of
from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.notes import NoteSigner
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.trust import Trust

MANY: Final = "\U0001f6dd 灯は長持ちする。\u2028Ａ\u0301e\u0301 “quoted” \\ / \b\f\n\r\t\x00\x1f\x7f\x80\ufeff\U0010ffff"


def _six_claims() -> Draft:
    texts = tuple(f"Rule {number} is kept by all {number + 2} members of the house." for number in range(6))
    items = tuple(Item(f"rules#{place}", "rules", "rules.md", 60 * place, 60 * place + len(text), text, 6.0 - place) for place, text in enumerate(texts))
    answer = "\n".join(f"• {text}" for text in texts)
    claims = tuple(claim(answer, text, tuple(span(items, (place + step) % 6, texts[(place + step) % 6], 1.0 - step / 4) for step in range(3)), "quoted")
                   for place, text in enumerate(texts))
    retrieval = Retrieval("hybrid", 6, items, (SearchedIndex("e" * 64),), ("words-sha256", 24))
    return Draft(QUESTION, NONCE, retrieval, answer, claims, scenes.GENERATOR, scenes.JUDGE, "rules", "embedder")


def _abstention() -> Draft:
    retrieval = Retrieval("vector", 10, (), (SearchedIndex(None),), ("words-sha256", 24))
    return Draft(QUESTION, NONCE, retrieval, "", (), scenes.GENERATOR, scenes.JUDGE, "whole", "none", lifetime_s=fmt.LONGEST_S)


def _unicode() -> Draft:
    items = (Item(MANY, MANY, MANY, 3, 3 + len(MANY), MANY, -0.5),)
    claims = (Claim(0, len(MANY), (span(items, 0, MANY, 0.0),), "quoted", "0.500000"),)
    retrieval = Retrieval("lexical", 1, items, (SearchedIndex(None, "a" * 64, MANY),), None, None, MANY)
    return Draft(MANY, "A" * 16, retrieval, MANY, claims, Named(MANY, MANY, "1" * 64), Named(MANY, MANY, "2" * 64), "whole", "lexical", ("quoted",))


def _edges() -> Draft:
    """Every bound of the format that is short to write."""
    most = 2**53 - 1
    items = tuple(Item(f"{place}", "d", "", most - 1, most, "x", number, 0, {"kind": "deposit", "path": "", "start_line": 0, "end_line": most})
                  for place, number in enumerate((999_999_999.0, 0.0, -999_999_999.0)))
    one = span(items, 0, "x", 1.0)
    claims = (Claim(0, 1, (one,) * 16, "quoted", "1.000000"), Claim(1, 2, (one,), "entailed", "0.999999"), Claim(2, 3, (one,), "contradicted", "0.000000"),
              Claim(3, 4, (), "not_supported", "1.000000"))
    indexes = (SearchedIndex("0" * 64, "f" * 64, ""), SearchedIndex(None, "e" * 64, "s" * 200))
    retrieval = Retrieval("hybrid", 1_000, items, indexes, ("m" * 200, most), "0" * 64, "score", (("0" * 64, "r" * 100),), (("1" * 64, "r"),))
    return Draft(QUESTION, "-_" * 64, retrieval, "xyzw", claims, Named("g" * 200, "", "0" * 64), Named("j", "v", "0" * 64), "rules", "embedder",
                 fmt.LABELS, "1.000000", lifetime_s=1)


@dataclass(frozen=True)
class Golden:
    """A certificate to make: what it says, which node signs it as well, who cosigns, and whether it is logged at all."""

    case: str
    draft: Callable[[], Draft]
    node: str | None = None
    witnesses: tuple[NoteSigner, ...] = keys.WITNESSES
    logged: bool = True

    def make(self, kept: Mapping[str, Any] | None) -> dict[str, Any]:
        """Make it, with how to ask for it and with all values on the way."""
        draft, node = self.draft(), None if self.node is None else keys.node(self.node)
        envelope = scenes.signed(draft, issued=NOW, node=node, kept=kept)
        trust = keys.trust(witnesses=[witness.verifier.text() for witness in self.witnesses], quorum=len(self.witnesses))
        if node is not None:
            trust["issuers"] = scenes.node_trust(node)["issuers"]
        if self.logged:
            envelope["receipt"] = _receipt(envelope, (keys.LOG, *self.witnesses), trust, kept)
        policy = {"require_nonce": True, **({} if self.logged else {"require_log": False})}
        asking = {"trust": trust, "policy": policy, "query": draft.query, "nonce": draft.nonce, "now": NOW.strftime(fmt.TIME)}
        return {"case": self.case, **asking, "outcome": "verified", "code": "", "values": _values(envelope), "envelope": envelope}


ALL: Final = (
    Golden("an answer of four claims over one index", scenes.plain_draft),
    Golden("six claims, and a witness of ML-DSA-44", _six_claims, witnesses=(*keys.WITNESSES, keys.PQ_WITNESS)),
    Golden("no answer", _abstention),
    Golden("a federation, signed by a node of pq_pure", scenes.node_draft, "provider"),
    Golden("a federation, signed by a node of pq_hybrid", scenes.node_draft, "hybrid"),
    Golden("signs of every kind", _unicode),
    Golden("the bounds of the format", _edges),
    Golden("in no log", scenes.plain_draft, logged=False))


def golden(kept: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Make the certificates; of signatures that are randomised, those of an earlier run that hold are kept."""
    before = {case["case"]: case["envelope"] for case in kept}
    return [each.make(before.get(each.case)) for each in ALL]


def _receipt(envelope: Mapping[str, Any], signers: Sequence[NoteSigner], trust: Mapping[str, Any], kept: Mapping[str, Any] | None) -> str:
    made = keys.receipt_of(envelope, signers)
    before = str((kept or {}).get("receipt", ""))
    try:
        Receipt.parse(before.encode()).verify(entry_of(envelope), Trust.from_json(trust).logs[keys.ORIGIN])
    except ProofError:
        return made
    return before


def _values(envelope: Mapping[str, Any]) -> dict[str, Any]:
    body = envelope["certificate"]
    written, entry = canonical(body), entry_of(envelope)
    values = {
        "canonical_body": written.decode(), "body_sha256": hashlib.sha256(written).hexdigest(),
        "signed_sha256": hashlib.sha256(fmt.signed_bytes(written)).hexdigest(), "issuer_public_key": base64.b64encode(keys.PUBLIC).decode(),
        "issuer_key_id": body["issuer"]["key_id"], "index_state": body["retrieval"]["state"], "query_commitment": body["query"]["commitment"],
        "query_key": body["query"]["key"], "policy_sha256": body["policy"]["sha256"], "shown": [at for at, each in enumerate(body["claims"]) if each["decision"]["shown"]],
        "entry": entry.decode(), "leaf_hash": merkle.leaf_hash(entry).hex()}
    if "node_signature" in envelope:
        values["node_signed_sha256"] = hashlib.sha256(fmt.signed_bytes(written, fmt.NODE_LABEL)).hexdigest()
    if "receipt" in envelope:
        values["checkpoint"] = "\n".join(envelope["receipt"].partition("\n\n")[2].split("\n")[:3]) + "\n"
    return values
