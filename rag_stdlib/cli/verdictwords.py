"""What each code of a verification means, in a sentence (docs/certificate.md), and what to do where the reader can do something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VERIFIED: Final = "it holds under the keys and the policy that it was checked by"

MEANINGS: Final[Mapping[str, str]] = {
    "too_large": "it is larger than any certificate",
    "malformed_json": "it is no JSON that every reader takes for the same",
    "schema": "a part is missing, unknown, or not of its form",
    "unsupported_schema": "it is no certificate of a version that is known here",
    "time": "it ends before it begins, or is good for longer than any certificate",
    "untrusted_issuer": "no issuer that is trusted has the key that it names",
    "issuer": "the issuer's name or the mesh node in it is not that of the trusted issuer whose key it names",
    "key_not_valid": "the issuer's key was not valid when it says that it was issued",
    "signature": "the signature is not that of the issuer's key over this text",
    "node_signature": "the mesh node that it names did not sign it",
    "hash": "a digest is not that of what it names",
    "retrieval": "what is said of the retrieval does not fit together",
    "claim": "a claim does not stand in the answer where it says",
    "uncovered": "the answer says more than its claims",
    "no_claims": "answer, claims and abstention do not fit together",
    "span": "a span does not stand in what was retrieved where it says",
    "quotation": "a claim is called a quotation and stands in none of its spans",
    "decision": "a claim is not decided as its judgement demands",
    "not_proven": "it does not say what it does not prove",
    "not_yet_valid": "it was issued in the future",
    "expired": "it has expired",
    "too_old": "it is older than the policy allows",
    "query": "it answers another question",
    "query_not_given": "the policy asks for the question; give it by --query",
    "nonce": "it was made for another nonce than the one that was sent",
    "nonce_not_given": "the policy asks for the nonce; give it by --nonce",
    "no_receipt": "the policy asks for a log, and it has no receipt of one",
    "receipt": "its receipt is none",
    "untrusted_log": "its receipt is of no log that is trusted, or signed by no key that is known of it",
    "checkpoint_signature": "the log's signature under the checkpoint does not hold",
    "cosignature": "a witness's signature under the checkpoint does not hold",
    "inclusion": "the log has another entry at the place that the receipt names",
    "witness_quorum": "fewer witnesses have cosigned the checkpoint than are asked for",
    "key_ended": "its issuer's key has come to its end, and no witnesses say that the certificate is from before",
    "judge_not_accepted": "the policy does not accept its judge",
    "generator_not_accepted": "the policy does not accept its generator",
}
