"""The TLS of the mesh for aioquic's server: its one key exchange, its one signature scheme, and the exporter its proofs are bound to.

aioquic knows none of the three. `install` puts them in place of its own for the whole process, which serves nothing but a test station.
"""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

from aioquic import tls
from aioquic.quic import connection
from aioquic.tls import hkdf_expand_label
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDH, SECP384R1, EllipticCurvePublicKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM1024PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

GROUP = 0x11ED  # SecP384r1MLKEM1024
SCHEME = 0x0906  # ML-DSA-87
POINT_BYTES = 97  # an uncompressed point of P-384
KEM_KEY_BYTES = 1_568
SECRET_BYTES = 32
CERTIFICATE_HOURS = 9


class HybridShare:
    """A public share of the key exchange: the client's point and KEM key, or the server's point and KEM ciphertext."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class HybridExchange:
    """The server's side of the exchange. aioquic takes the public share before the secret, which here is made with it."""

    def __init__(self) -> None:
        self._share = HybridShare(b"")

    @classmethod
    def generate(cls) -> HybridExchange:
        return cls()

    def public_key(self) -> HybridShare:
        return self._share

    def exchange(self, peer: HybridShare) -> bytes:
        """Return the secret, elliptic curve first, and complete the share that `public_key` gave."""
        private = generate_private_key(SECP384R1())
        point = EllipticCurvePublicKey.from_encoded_point(SECP384R1(), peer.raw[:POINT_BYTES])
        secret, ciphertext = MLKEM1024PublicKey.from_public_bytes(peer.raw[POINT_BYTES:]).encapsulate()
        own_point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self._share.raw = own_point + ciphertext
        return private.exchange(ECDH(), point) + secret


class MeshContext(tls.Context):
    """A server's TLS session with the mesh's group and scheme, which can export keying material (RFC 8446 §7.5)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._supported_groups = [GROUP]

    def _signature_algorithms_for_private_key(self) -> list[int]:
        return [SCHEME]

    def _server_expect_finished(self) -> None:
        self._exporter = self.key_schedule.derive_secret(b"exp master")
        super()._server_expect_finished()

    def export(self, label: bytes, context: bytes, length: int) -> bytes:
        """Export `length` bytes under a label."""
        algorithm = self.key_schedule.algorithm
        secret = hkdf_expand_label(algorithm, self._exporter, label, _hash(algorithm, b""), algorithm.digest_size)
        return hkdf_expand_label(algorithm, secret, b"exporter", _hash(algorithm, context), length)


def install() -> None:
    """Make every QUIC connection of this process speak the mesh's TLS."""
    known = tls.signature_algorithm_params
    tls.x25519 = SimpleNamespace(X25519PublicKey=HybridShare, X25519PrivateKey=HybridExchange)
    tls.decode_public_key = _decoded
    tls.encode_public_key = lambda share: (GROUP, share.raw)
    tls.signature_algorithm_params = lambda algorithm: () if algorithm == SCHEME else known(algorithm)
    connection.tls.Context = MeshContext


def self_signed() -> tuple[x509.Certificate, MLDSA87PrivateKey]:
    """Make a certificate and its key; nodes know the station by its id, and believe no certificate."""
    key, now = MLDSA87PrivateKey.generate(), dt.datetime.now(dt.timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "station")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    hour = dt.timedelta(hours=1)
    return builder.not_valid_before(now - hour).not_valid_after(now + CERTIFICATE_HOURS * hour).sign(key, None), key


def _decoded(share: tuple[int, bytes]) -> HybridShare | None:
    group, raw = share
    return HybridShare(raw) if group == GROUP and len(raw) == POINT_BYTES + KEM_KEY_BYTES else None


def _hash(algorithm: hashes.HashAlgorithm, data: bytes) -> bytes:
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()
