"""What an entry of a log says of an answer: who answered which question over which state of an index, and in which way (docs/certificate.md, Log entry)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.proof.format import ENTRY_SCHEMA
from rag_stdlib.proof.strict import parse

_MEMBERS: Final = frozenset({"schema", "answer_sha256", "body_sha256", "index_state", "issued_at", "issuer_key_id", "query_key", "setup", "signature"})


@dataclass(frozen=True, slots=True)
class Sighting:
    """An answer, as far as the log tells of it: what the entry says, of which nothing is verified, since the signature is over a body that the log does not hold.

    Attributes:
        issuer_key_id: By whose key.
        index_state: Over what.
        query_key: Which question; equal for equal questions over equal states.
        setup: How: retrieved, generated, judged and decided in which way.
        answer_sha256: What was answered.
        body_sha256: By what the certificate can be asked for: the plain SHA-256 of its body.
    """

    issuer_key_id: str
    index_state: str
    query_key: str
    setup: str
    answer_sha256: str
    body_sha256: str


def read_sighting(entry: bytes) -> Sighting | None:
    """Read an entry; None for what is none of a certificate, in the one form that it has."""
    try:
        value = parse(entry)
        if not isinstance(value, dict) or value.keys() != _MEMBERS or not all(isinstance(text, str) for text in value.values()):
            return None
        if value["schema"] != ENTRY_SCHEMA or canonical(value) != entry:
            return None
    except ValueError:
        return None
    return Sighting(value["issuer_key_id"], value["index_state"], value["query_key"], value["setup"], value["answer_sha256"], value["body_sha256"])
