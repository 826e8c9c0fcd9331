"""What has to come of every change of the matrix, written down by hand: by the issuer who logs it again, and from that by everybody else.

A line of the table is the base (``plain``, ``node``, or ``*``), the kinds of change, the place, and what comes of it; the first line that fits counts. In a place
``*`` is any step, and ``**`` any number of them. ``free`` is what the format leaves to the issuer: the changed certificate verifies.
"""

from __future__ import annotations

import re
from typing import Final

from rag_stdlib.proof.attacks.matrix import Change
from rag_stdlib.proof.attacks.parts import GONE
from rag_stdlib.proof.forms import pointer

TABLE: Final = """
*     duplicate                           /**                                                   malformed_json
*     delete,null,wrong_type,edit,swap    /certificate/schema                                   unsupported_schema
*     wrong_type                          /**                                                   schema

*     delete                              /receipt                                              no_receipt
*     edit                                /receipt                                              receipt
*     swap                                /receipt                                              inclusion
*     edit,swap                           /signature                                            signature
node  delete,swap                         /node_signature                                       node_signature
node  edit                                /node_signature/profile                               schema
node  edit,swap                           /node_signature/*                                     node_signature
*     swap                                /certificate                                          nonce

*     edit                                /certificate/issuer/name                              issuer
*     edit                                /certificate/issuer/key_id                            untrusted_issuer
node  edit,null                           /certificate/issuer/node_id                           issuer
*     edit,swap                           /certificate/issued_at                                free
*     edit,swap                           /certificate/expires_at                               free
*     swap                                /certificate/query                                    nonce
*     edit,swap                           /certificate/query/nonce                              nonce
*     edit,swap                           /certificate/query/salt                               free
*     edit,swap                           /certificate/query/commitment                         query
*     edit,swap                           /certificate/query/key                                query

*     swap                                /certificate/retrieval                                span
*     edit                                /certificate/retrieval/mode                           schema
plain swap                                /certificate/retrieval/mode                           free
*     edit,swap                           /certificate/retrieval/limit                          free
plain null                                /certificate/retrieval/embedder                       retrieval
plain edit,swap                           /certificate/retrieval/embedder/**                    free
*     edit,null,swap                      /certificate/retrieval/corpus_hash                    free
node  edit                                /certificate/retrieval/merged_by                      free
node  null                                /certificate/retrieval/merged_by                      retrieval
node  reorder,add,swap                    /certificate/retrieval/topics                         free
node  delete,edit                         /certificate/retrieval/topics/*                       free
*     delete                              /certificate/retrieval/indexes/*                      retrieval
*     add                                 /certificate/retrieval/indexes                        retrieval
*     reorder,swap                        /certificate/retrieval/indexes                        free
node  null                                /certificate/retrieval/indexes/*/node_id              retrieval
*     edit,null,swap                      /certificate/retrieval/indexes/*/*                    free
plain swap                                /certificate/retrieval/indexes/*                      free
node  delete                              /certificate/retrieval/failed/*                       free
node  delete                              /certificate/retrieval/not_asked/*                    free
node  reorder                             /certificate/retrieval/failed                         free
node  reorder                             /certificate/retrieval/not_asked                      free
node  add                                 /certificate/retrieval/failed                         retrieval
node  add                                 /certificate/retrieval/not_asked                      retrieval
node  edit                                /certificate/retrieval/failed/*/*                     free
node  edit                                /certificate/retrieval/not_asked/*/*                  free
*     edit,swap                           /certificate/retrieval/state                          hash

plain reorder                             /certificate/retrieval/items                          retrieval
node  reorder                             /certificate/retrieval/items                          span
*     add                                 /certificate/retrieval/items                          retrieval
*     swap                                /certificate/retrieval/items                          span
*     delete,swap                         /certificate/retrieval/items/*                        span
*     edit                                /certificate/retrieval/items/*/index                  retrieval
*     edit,swap                           /certificate/retrieval/items/*/start                  retrieval
*     edit,swap                           /certificate/retrieval/items/*/end                    retrieval
plain edit                                /certificate/retrieval/items/1/text                   free
*     edit                                /certificate/retrieval/items/*/text                   span
*     swap                                /certificate/retrieval/items/*/text                   retrieval
*     edit,swap                           /certificate/retrieval/items/*/content_sha256         hash
*     edit                                /certificate/retrieval/items/*/provenance/kind        schema
*     null                                /certificate/retrieval/items/*/provenance/kind        schema
*     null                                /certificate/retrieval/items/*/provenance/path        schema
plain edit,null,swap                      /certificate/retrieval/items/0/provenance/start_line  retrieval
plain null                                /certificate/retrieval/items/0/provenance/end_line    retrieval
plain swap                                /certificate/retrieval/items/1/provenance/start_line  retrieval
plain swap                                /certificate/retrieval/items/1/provenance/end_line    retrieval
plain edit,null,swap                      /certificate/retrieval/items/*/provenance/**          free
*     edit,swap                           /certificate/retrieval/items/*/*                      free

*     swap                                /certificate/answer                                   claim
plain edit                                /certificate/answer/text                              uncovered
node  edit                                /certificate/answer/text                              claim
*     swap                                /certificate/answer/text                              claim
*     edit,swap                           /certificate/answer/sha256                            hash
*     edit                                /certificate/answer/abstained                         no_claims

*     delete                              /certificate/claims/*                                 uncovered
*     reorder,add,swap                    /certificate/claims                                   claim
*     swap                                /certificate/claims/*                                 claim
*     edit,swap                           /certificate/claims/*/start                           claim
*     edit,swap                           /certificate/claims/*/end                             claim
*     edit,swap                           /certificate/claims/*/text                            claim
*     edit,swap                           /certificate/claims/*/sha256                          hash
plain delete                              /certificate/claims/0/spans/1                         free
plain delete                              /certificate/claims/2/spans/0                         decision
plain delete                              /certificate/claims/3/spans/0                         decision
*     delete                              /certificate/claims/*/spans/*                         quotation
*     reorder,add                         /certificate/claims/*/spans                           free
*     swap                                /certificate/claims/*/spans                           span
*     swap                                /certificate/claims/*/spans/*                         span
*     edit,swap                           /certificate/claims/*/spans/*/sha256                  hash
*     edit,swap                           /certificate/claims/*/spans/*/alignment               free
*     edit,swap                           /certificate/claims/*/spans/*/*                       span
plain swap                                /certificate/claims/3/judgement                       decision
plain swap                                /certificate/claims/*/judgement                       free
*     edit                                /certificate/claims/*/judgement/label                 schema
plain swap                                /certificate/claims/3/judgement/label                 decision
*     edit,swap                           /certificate/claims/*/judgement/confidence            free
*     edit,swap                           /certificate/claims/*/judgement/inputs_sha256         hash
plain swap                                /certificate/claims/3/decision                        decision
*     edit                                /certificate/claims/*/decision/shown                  decision
plain edit                                /certificate/claims/3/decision/reason                 schema
plain null,swap                           /certificate/claims/3/decision/reason                 decision

*     null                                /certificate/generator/model                          free
plain edit,swap                           /certificate/generator/**                             free
*     edit                                /certificate/generator/**                             free
*     edit,swap                           /certificate/judge/**                                 free
*     edit                                /certificate/methods/*                                schema
*     swap                                /certificate/methods/**                               free
plain swap                                /certificate/policy                                   free
plain swap                                /certificate/policy/labels                            free
node  delete                              /certificate/policy/labels/0                          free
*     delete                              /certificate/policy/labels/*                          decision
plain swap                                /certificate/policy/labels/0                          decision
*     reorder,add,edit,swap               /certificate/policy/labels/**                         schema
*     edit,swap                           /certificate/policy/minimum_confidence                free
*     edit,swap                           /certificate/policy/sha256                            hash
*     reorder,add                         /certificate/not_proven                               not_proven
*     delete,edit                         /certificate/not_proven/*                             not_proven

*     delete,null,add                     /**                                                   schema
"""
_UNKNOWN: Final = ("no_receipt", "untrusted_issuer", "unsupported_schema")
_FORM: Final = ("malformed_json", "unsupported_schema", "schema")
_NAMED: Final = "/certificate/issuer/"


def _line(line: str) -> tuple[str, tuple[str, ...], re.Pattern[str], str]:
    base, kinds, place, code = line.split()
    steps = "".join("(?:/[^/]+)*" if step == "**" else "/[^/]+" if step == "*" else f"/{step}" for step in place[1:].split("/"))
    return base, tuple(kinds.split(",")), re.compile(steps), code


_LINES: Final = tuple(map(_line, filter(None, TABLE.splitlines())))


def code_of(base: str, change: Change) -> str:
    """Look up what comes of a change by the issuer who logs it again: a code, or ``free``."""
    place = pointer(change.path)
    for of, kinds, pattern, code in _LINES:
        if of in ("*", base) and change.kind in kinds and pattern.fullmatch(place):
            return code
    raise LookupError(f"{base}: {change.kind} {place}")


def expected(base: str, change: Change, attacker: str) -> str:
    """Say what comes of a change by an attacker: an outcome and its code."""
    code = _by(base, change, attacker, code_of(base, change))
    return "verified" if code == "free" else f"{'unknown' if code in _UNKNOWN else 'refuted'} {code}"


def _by(base: str, change: Change, attacker: str, code: str) -> str:
    """Say which code an attacker meets first, where the issuer who logs again meets this one."""
    stale = "node_signature" if base == "node" else "inclusion"  # what a change without the issuer's key breaks, where the issuer is not asked
    if attacker == "own_named_key":
        return _named(pointer(change.path), change, code, stale)
    if attacker == "issuer_logged" or code in (*_FORM, "issuer"):
        return code
    if code == "untrusted_issuer":
        return "inclusion" if attacker == "issuer" else stale
    if change.path[0] != "certificate":
        return "signature" if attacker == "own_key" else code
    if attacker == "issuer":
        return "inclusion" if code == "free" else code
    return "signature"


def _named(place: str, change: Change, code: str, stale: str) -> str:
    """The same for an attacker who names his own key: nobody looks at what is the issuer's, and whatever he puts there is his own."""
    if code == "malformed_json" or (code in _FORM and place != f"{_NAMED}key_id"):
        return code
    if stale == "node_signature":
        return stale
    if place == "/receipt" and change.new is GONE:
        return "untrusted_issuer"
    return stale if code in ("free", "issuer", "untrusted_issuer", "signature", "schema") else code
