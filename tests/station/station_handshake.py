"""How a node and a station come to know each other: opener, challenge, connect, hello; each side proves its key for this one TLS session."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any

from station.station_frames import VERSION, BrokenProtocol, encoded
from station.station_records import now_ms

from rag_stdlib.contract import cbor, nodekeys
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.signedobject import ALGORITHMS

EXPORTER = b"EXPORTER-macula-session-v1"
EXPORTED_BYTES = 32

_CONNECT_PROOF = b"MACULA-PQ-CONNECT-PROOF-V3\0"
_SESSION_PROOF = b"MACULA-PQ-SESSION-PROOF-V2\0"
_BINDING_LABEL = "MACULA-PQ-BINDING-TLS-V1"
_STATUS_LABEL = "MACULA-PQ-STATUS-V1"
_BINDING_MS = 6 * 86_400_000
_STATUS_MS = 3_600_000
_CAPABILITIES = 1
_ACCEPTED = 1


def sha384(data: bytes) -> bytes:
    """Digest as the wire does."""
    return hashlib.sha384(data).digest()


@dataclass(frozen=True)
class Identity:
    """A station's key, the certificate it serves TLS with, and its signed word that the two belong together."""

    key: NodeKey
    leaf: bytes
    node_id: bytes = field(init=False)
    binding: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Sign the binding, once."""
        now = now_ms()
        object.__setattr__(self, "node_id", bytes.fromhex(self.key.node_id))
        object.__setattr__(self, "binding", self._vouched(
            _BINDING_LABEL, use="tls", subject_hash=sha384(self.leaf), binding_id=secrets.token_bytes(16), not_before=now,
            not_after=now + _BINDING_MS, hash_alg="SHA-384"))

    def status(self) -> dict[str, bytes]:
        """Say that the binding still stands."""
        now = now_ms()
        return self._vouched(_STATUS_LABEL, binding_hash=sha384(self.binding["tbs"]), issued_at=now, expires_at=now + _STATUS_MS)

    def _vouched(self, label: str, **fields: object) -> dict[str, bytes]:
        tbs = cbor.encode({"label": label, "node_id": self.node_id, **fields, "sig_alg": ALGORITHMS[self.key.profile]})
        return {"tbs": tbs, "signature": self.key.sign(label.encode() + b"\0" + tbs)}


class Handshake:
    """The station's side of one handshake. It does not look at the client's own binding and status, nor at the puzzle in its id."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._nonce = secrets.token_bytes(32)
        self._challenge = b""

    def challenge(self, opener: dict[str, Any]) -> bytes:
        """Answer an opener with who this is, and with what the client's proof has to be bound to."""
        profile = self._identity.key.profile
        if opener.get("frame_type") != "opener" or opener.get("version") != VERSION:
            raise BrokenProtocol("no opener of wire 1.0")
        self._challenge = encoded(
            "challenge", nonce=self._nonce, profile=profile, profiles=[profile], versions=[VERSION, VERSION],
            identity_key=self._identity.key.public, tls_binding=self._identity.binding, tls_status=self._identity.status())
        return self._challenge

    def client(self, connect: dict[str, Any]) -> bytes:
        """Give the node id that a connect frame claims, which the exporter's context takes before the proof can be checked."""
        return bytes.fromhex(nodekeys.node_id(connect["identity_key"], self._identity.key.profile))

    def hello(self, raw: bytes, connect: dict[str, Any], exported: bytes) -> bytes:
        """Check a client's proof and answer with the station's own.

        Raises:
            BrokenProtocol: the proof does not hold.
        """
        station, client, challenge = self._identity.node_id, self.client(connect), sha384(self._challenge)
        without_proof = cbor.encode({**connect, "proof": b""})
        message = b"".join((_CONNECT_PROOF, self._nonce, station, client, sha384(self._identity.leaf), challenge, exported, sha384(without_proof)))
        if not nodekeys.verify(message, connect["proof"], connect["connect_key"], self._identity.key.profile):
            raise BrokenProtocol("the proof of a connect frame does not hold")
        hello = {"accepted": _ACCEPTED, "capabilities": _CAPABILITIES}
        without_proof = encoded("hello", **hello, session_proof=b"")
        message = b"".join((_SESSION_PROOF, exported, challenge, sha384(raw), station, client, sha384(without_proof)))
        return encoded("hello", **hello, session_proof=self._identity.key.sign(message))
