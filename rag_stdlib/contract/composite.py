"""The composite signature of pq_hybrid nodes: id-MLDSA87-RSA4096-PSS-SHA512 of LAMPS (draft-ietf-lamps-pq-composite-sigs).

Both halves sign one representative of the message, and both must hold::

    M' = "CompositeAlgorithmSignatures2025" ‖ "COMPSIG-MLDSA87-RSA4096-PSS-SHA512" ‖ 00 ‖ SHA-512(message)
    signature = ML-DSA-87 over M' with the second text as its context ‖ RSASSA-PSS over M' (SHA-384, MGF1-SHA-384, salt 48)

The public key is the ML-DSA-87 key followed by a PKCS #1 `RSAPublicKey` in DER. Lengths are fixed, so there is one way only to
take either apart: a signature whose RSA half lost a leading zero byte is refused.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey
    from cryptography.hazmat.primitives.asymmetric.padding import PSS
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

ML_DSA_PUBLIC: Final = 2_592  # bytes of an ML-DSA-87 public key (FIPS 204, table 2)
ML_DSA_SIGNATURE: Final = 4_627
RSA_BITS: Final = 4_096
RSA_EXPONENT: Final = 65_537
PUBLIC: Final = ML_DSA_PUBLIC + 526  # with a modulus of 512 bytes and that exponent, in DER
SIGNATURE: Final = ML_DSA_SIGNATURE + RSA_BITS // 8

_PREFIX: Final = b"CompositeAlgorithmSignatures2025"
_LABEL: Final = b"COMPSIG-MLDSA87-RSA4096-PSS-SHA512"
_SALT: Final = 48


def rsa_half(public: bytes) -> RSAPublicKey | None:
    """Read the RSA half of a composite public key; None unless it is a 4096-bit key, exponent 65537, in canonical DER."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if len(public) != PUBLIC:
        return None
    der = public[ML_DSA_PUBLIC:]
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPublicKey) and is_fit(key) and public_der(key) == der else None


def is_fit(key: RSAPublicKey) -> bool:
    """Tell whether an RSA key has the size and the exponent of the composite."""
    return key.key_size == RSA_BITS and key.public_numbers().e == RSA_EXPONENT


def public_der(key: RSAPublicKey) -> bytes:
    """Encode an RSA public key as PKCS #1 DER, as a composite key carries it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.PKCS1)


def sign(message: bytes, ml_dsa: MLDSA87PrivateKey, rsa: RSAPrivateKey) -> bytes:
    """Sign a message with both halves."""
    from cryptography.hazmat.primitives.hashes import SHA384

    representative = _representative(message)
    return ml_dsa.sign(representative, _LABEL) + rsa.sign(representative, _padding(), SHA384())


def verify(message: bytes, signature: bytes, public: bytes) -> bool:
    """Tell whether both halves of a composite signature hold."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PublicKey
    from cryptography.hazmat.primitives.hashes import SHA384

    rsa = rsa_half(public)
    if rsa is None or len(signature) != SIGNATURE:
        return False
    representative = _representative(message)
    try:
        MLDSA87PublicKey.from_public_bytes(public[:ML_DSA_PUBLIC]).verify(signature[:ML_DSA_SIGNATURE], representative, _LABEL)
        rsa.verify(signature[ML_DSA_SIGNATURE:], representative, _padding(), SHA384())
    except InvalidSignature:
        return False
    return True


def _representative(message: bytes) -> bytes:
    return _PREFIX + _LABEL + b"\0" + hashlib.sha512(message).digest()


def _padding() -> PSS:
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
    from cryptography.hazmat.primitives.hashes import SHA384

    return PSS(MGF1(SHA384()), _SALT)
