"""What a federation's procedure and topics are called, and which organisations and realms may be named in them (§4.2)."""

from __future__ import annotations

import hashlib
from typing import Final

from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.federation.failures import InvalidOrg, RealmNameMismatch
from rag_stdlib.mesh.transport import checked_org, checked_procedure

PROCEDURE: Final = "rag.query_shard_v1"
SUMMARY_PROCEDURE: Final = "rag.shard_summary_v1"
REALM_BYTES: Final = 32

_SUMMARIZED: Final = "rag/shard/shard_summarized_v1"
_WITHDRAWN: Final = "rag/shard/shard_withdrawn_v1"


def procedure(org: object) -> str:
    """Name the procedure that every shard of an organisation serves: ``<org>/rag.query_shard_v1``.

    Raises:
        InvalidOrg: `org` is no text, empty, ``_``, holds a slash, or is too long for a name on the mesh.
    """
    try:
        if not isinstance(org, str):
            raise InvalidOrg(org)
        return checked_procedure(f"{checked_org(org)}/{PROCEDURE}")
    except InvalidCall:
        raise InvalidOrg(org) from None


def summary_procedure(org: str) -> str:
    """Name the procedure by which our shards tell their summary to whoever asks: ``<org>/rag.shard_summary_v1``."""
    return f"{org}/{SUMMARY_PROCEDURE}"


def summarized_topic(realm_name: str, org: str) -> str:
    """Name the topic on which shards say what they hold: ``<realm>/<org>/rag/shard/shard_summarized_v1``."""
    return f"{realm_name}/{org}/{_SUMMARIZED}"


def withdrawn_topic(realm_name: str, org: str) -> str:
    """Name the topic on which shards take leave: ``<realm>/<org>/rag/shard/shard_withdrawn_v1``."""
    return f"{realm_name}/{org}/{_WITHDRAWN}"


def check_realm(realm_name: str, realm: bytes) -> None:
    """Make sure that the realm with this id (32 bytes) is the one of this name, which the topics carry.

    Raises:
        RealmNameMismatch: the id is not the SHA-256 of the name.
        ValueError: the id is none, which is a mistake of the program.
    """
    if not isinstance(realm, bytes) or len(realm) != REALM_BYTES:
        raise ValueError(f"a realm's id is {REALM_BYTES} bytes")
    if hashlib.sha256(realm_name.encode(errors="surrogatepass")).digest() != realm:
        raise RealmNameMismatch(realm_name)
