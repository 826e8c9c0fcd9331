"""Macula's signed object: a few fields, the key that signed them, and the signature, readable by anyone who holds the bytes.

Byte for byte (RAG service contract §3.4)::

    object = CBOR map of exactly key, tbs, signature, all byte strings
    tbs    = CBOR map of the caller's fields and alg, the name of the profile's signature scheme
    signed = label ‖ 00 ‖ SHA-384(key as carried) ‖ tbs as received

The label says what the signature is for, so that one for another purpose does not pass here. Nothing is ever encoded again to be
checked, and `tbs` is read only after its signature holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rag_stdlib.contract import cbor, nodekeys
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.contract.verdicts import Refused

ALGORITHMS: Final[Mapping[Profile, str]] = {"pq_pure": "ML-DSA-87", "pq_hybrid": "ML-DSA-87-PS384"}

_PARTS: Final = frozenset({"key", "tbs", "signature"})


@dataclass(frozen=True, slots=True)
class SignedObject:
    """An object whose signature holds.

    Attributes:
        key: The public key, as carried.
        tbs: The bytes that were signed, as received.
        fields: What `tbs` says, `alg` included.
        node_id: The id of the node whose key it is, 64 lowercase hex digits.
    """

    key: bytes
    tbs: bytes
    fields: dict[str | int, cbor.Value]
    node_id: str


def sign(label: str, fields: Mapping[str, object], key: NodeKey) -> bytes:
    """Sign fields under a label and encode the object, deterministically but for the signature itself.

    Raises:
        ValueError: The label holds NUL or is no Unicode text, or `alg` is among the fields; it is the key's to name.
        CborError: The fields hold something that does not cross the mesh (`rag_stdlib.contract.cbor`).
    """
    if "alg" in fields:
        raise ValueError("alg is no field of the caller's: it follows from the key")
    tbs = cbor.encode({**fields, "alg": ALGORITHMS[key.profile]})
    signature = key.sign(_signed(_prefix(label), key.public, tbs))
    return cbor.encode({"key": key.public, "tbs": tbs, "signature": signature})


def verify(label: str, data: object, profile: Profile) -> SignedObject | Refused:
    """Check a signed object that a stranger sent, under the label and the profile that the verifier expects.

    In this order: the shape, the carried key, the signature over `tbs` as received, then `tbs` itself, then its `alg`.

    Returns:
        The object, or `Refused` with the reason ``malformed`` (no such object, or a key that is none of the profile),
        ``signature_invalid`` or ``alg_mismatch``.

    Raises:
        ValueError: The label holds NUL or is no Unicode text, or there is no such profile.
    """
    prefix, algorithm = _prefix(label), ALGORITHMS[nodekeys.known_profile(profile)]
    parts = _parts(data)
    if parts is None or not nodekeys.well_formed(parts[0], profile):
        return Refused("malformed")
    key, tbs, signature = parts
    if not nodekeys.verify(_signed(prefix, key, tbs), signature, key, profile):
        return Refused("signature_invalid")
    fields = _map(tbs)
    alg = None if fields is None else fields.get("alg")
    if fields is None or not isinstance(alg, str):
        return Refused("malformed")
    if alg != algorithm:
        return Refused("alg_mismatch")
    return SignedObject(key, tbs, fields, nodekeys.node_id(key, profile))


def _parts(data: object) -> tuple[bytes, bytes, bytes] | None:
    carried = _map(data) if isinstance(data, bytes) else None
    if carried is None or carried.keys() != _PARTS:
        return None
    key, tbs, signature = carried["key"], carried["tbs"], carried["signature"]
    if isinstance(key, bytes) and isinstance(tbs, bytes) and isinstance(signature, bytes):
        return key, tbs, signature
    return None


def _map(data: bytes) -> dict[str | int, cbor.Value] | None:
    try:
        value = cbor.decode(data)
    except cbor.CborError:
        return None
    return value if isinstance(value, dict) else None


def _prefix(label: str) -> bytes:
    if "\0" in label:
        raise ValueError("a label holds no NUL, which ends it in the signed bytes")
    return label.encode() + b"\0"


def _signed(prefix: bytes, key: bytes, tbs: bytes) -> bytes:
    return prefix + hashlib.sha384(key).digest() + tbs
