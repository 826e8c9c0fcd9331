"""Records of the mesh's shared directory: their signing, their keys in it, the directory itself, and the realm that grants procedures."""

from __future__ import annotations

import hashlib
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from station.station_keys import fixed_key

from rag_stdlib.contract import nodekeys, signedobject
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.contract.signedobject import SignedObject

RECORD_LABEL = "MACULA-PQ-RECORD-V1"
REALM_NAME = "io.example.test"
ORG = "acme"

NODE, ADVERTISEMENT, TOMBSTONE, ENDPOINT, ORG_DIRECTORY, DELEGATION = 0x01, 0x06, 0x0C, 0x12, 0x15, 0x16

_SCHEMA = 1
_UUID_VERSION = 0x70
_UUID_VARIANT = 0x80


class Life(NamedTuple):
    """A lifetime class of wire 1.0, and how long its records live at most, in milliseconds."""

    number: int
    most_ms: int


_LIVES = {ENDPOINT: Life(0, 300_000), DELEGATION: Life(1, 1_800_000), ORG_DIRECTORY: Life(2, 21_600_000)}


@dataclass(frozen=True)
class Record:
    """A record whose signature holds; `signer` and `key_id` are the two names of the key that made it."""

    kind: int
    version: bytes
    payload: dict[str, Any]
    signer: bytes
    key_id: bytes
    wire: bytes


def now_ms() -> int:
    """Give the time of the wire: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def verified(label: str, data: bytes, profile: Profile) -> SignedObject:
    """Check a signed object; a `ValueError` where it does not hold."""
    found = signedobject.verify(label, data, profile)
    if not isinstance(found, SignedObject):
        raise ValueError(f"{label}: {found}")  # noqa: TRY004 - the object is wrong, not its type
    return found


def read_record(wire: bytes, profile: Profile) -> Record:
    """Check a record; a `ValueError` where it is none."""
    found = verified(RECORD_LABEL, wire, profile)
    fields: Mapping[Any, Any] = found.fields
    key_id = bytes.fromhex(nodekeys.key_id(found.key, profile))
    return Record(fields["type"], fields["version"], fields["payload"], bytes.fromhex(found.node_id), key_id, wire)


def signed_record(kind: int, payload: Mapping[str, object], key: NodeKey) -> bytes:
    """Sign a record that lives as long as its kind may."""
    life, now = _LIVES[kind], now_ms()
    fields = {"type": kind, "version": _uuid7(now), "created_at": now, "expires_at": now + life.most_ms, "payload": payload,
              "schema": _SCHEMA, "lifetime_class": life.number}
    return signedobject.sign(RECORD_LABEL, fields, key)


def _uuid7(now: int) -> bytes:
    """Make a UUID of version 7 (RFC 9562 §5.7), by which a later record is told from an earlier one."""
    raw = bytearray(now.to_bytes(6, "big") + secrets.token_bytes(10))
    raw[6] = raw[6] & 0x0F | _UUID_VERSION
    raw[8] = raw[8] & 0x3F | _UUID_VARIANT
    return bytes(raw)


def storage_key(kind: int, *fields: bytes) -> bytes:
    """Compute where records of a kind about these fields lie; ids of 32 bytes stand bare, all else behind its length."""
    body = b"".join(field if len(field) == hashlib.sha256().digest_size else struct.pack(">I", len(field)) + field for field in fields)
    return hashlib.sha256(b"MACULA-PQ-STORAGE-KEY-V1\0" + bytes([kind]) + body).digest()


_PLACES: dict[int, Callable[[Record], bytes]] = {
    NODE: lambda record: record.signer,
    ADVERTISEMENT: lambda record: storage_key(ADVERTISEMENT, record.payload["realm_id"], record.payload["procedure"].encode()),
    ENDPOINT: lambda record: storage_key(ENDPOINT, record.signer),
    ORG_DIRECTORY: lambda record: storage_key(ORG_DIRECTORY, record.payload["realm_id"], record.payload["org_name"].encode()),
    DELEGATION: lambda record: storage_key(DELEGATION, record.key_id, record.payload["advertiser"]),
}


def place(record: Record) -> bytes:
    """Compute where a record lies; a tombstone lies in the place of the advertisement it withdraws."""
    kind = ADVERTISEMENT if record.kind == TOMBSTONE and record.payload.get("withdrawn_type") == ADVERTISEMENT else record.kind
    where = _PLACES.get(kind)
    return where(record) if where is not None else hashlib.sha256(record.wire).digest()


class Directory:
    """The records of one station. It keeps the last of each signer in a place, and forgets none for its age."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._records: dict[tuple[bytes, bytes], Record] = {}

    def put(self, wire: bytes) -> Record:
        """Keep a record; a `ValueError` where it is none."""
        record = read_record(wire, self._profile)
        self._records[place(record), record.signer] = record
        return record

    def find(self, key: bytes) -> list[bytes]:
        """List what lies in a place."""
        return [record.wire for (where, _), record in self._records.items() if where == key]

    def of_kind(self, kind: int) -> list[bytes]:
        """List all records of a kind."""
        return [record.wire for record in self._records.values() if record.kind == kind]

    def forget(self, key: bytes) -> None:
        """Drop what lies in a place."""
        self._records = {(where, signer): record for (where, signer), record in self._records.items() if where != key}


class Realm:
    """The authority of the tests' realm and of its one organisation, which grants its procedures to nodes."""

    def __init__(self, profile: Profile, directory: Directory) -> None:
        self.key = fixed_key(profile, "realm")
        self.id = hashlib.sha256(REALM_NAME.encode()).digest()
        self._org = fixed_key(profile, "org")
        self._directory = directory

    def admit(self, node_id: bytes) -> None:
        """Let a node serve the organisation's procedures from now on."""
        org = bytes.fromhex(self._org.key_id)
        entry = {"realm_id": self.id, "org_name": ORG, "org_key": org}
        self._directory.put(signed_record(ORG_DIRECTORY, entry, self.key))
        self._directory.put(signed_record(DELEGATION, {"org_key": org, "advertiser": node_id}, self._org))

    def revoke(self, node_id: bytes) -> None:
        """Take the grant back; what the node advertised under it already stays."""
        self._directory.forget(storage_key(DELEGATION, bytes.fromhex(self._org.key_id), node_id))
