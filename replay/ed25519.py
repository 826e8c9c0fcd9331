"""Ed25519 where a key or a signature comes from elsewhere: read in its one encoding, refused where it would bind nobody.

OpenSSL takes any 32 bytes for a public key. Some are the points of small order, under which anyone can make a signature that fits every
message, or one in a few. Others are second spellings of a point, or no point at all, which RFC 8032 (section 5.1.3) rules out. The RFC
leaves points of small order open; here they are refused in keys and in signatures, where no honest signer makes them.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19  # the field of edwards25519, and d of its equation -x² + y² = 1 + d·x²·y² (RFC 8032, section 5.1)
_D: Final = -121665 * pow(121666, -1, _P) % _P
_Y: Final = 2**255 - 1  # the bits of an encoded point that hold y; the one above is the sign of x
_ORDER_8: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y of two points of order 8; the two others have -y
_SMALL_ORDER: Final = frozenset({1, _P - 1, 0, _ORDER_8, _P - _ORDER_8})  # y of the points of order 1, 2, 4, 8, 8


class KeyRefused(ValueError):  # noqa: N818 - it names what became of the key
    """Bytes that are no public key to check a signature with; the text says why, and fits after the key's name and a colon."""


def public_key(data: bytes) -> Ed25519PublicKey:
    """Read a raw public key: 32 bytes, the canonical encoding of a point that is not of small order.

    Raises:
        KeyRefused: for anything else.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    problem = _problem_of_key(data)
    if problem:
        raise KeyRefused(problem)
    return Ed25519PublicKey.from_public_bytes(data)


def verify(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    """Tell whether `signature` (64 bytes: R, then S below the group's order) is one that the holder of `key` made over `message`.

    It never is where `public_key` would refuse the key, or where R is a point of small order.
    """
    from cryptography.exceptions import InvalidSignature

    if len(signature) != SIGNATURE_BYTES or _weak(signature[:KEY_BYTES]) or _problem_of_key(key.public_bytes_raw()):
        return False
    try:
        key.verify(signature, message)  # OpenSSL compares R as bytes and refuses an S that is not below the order
    except InvalidSignature:
        return False
    return True


def strict_base64(text: str) -> bytes:
    """Decode standard base64 (RFC 4648 section 4) that is spelt the one way an encoder spells it.

    Raises:
        ValueError: for other characters, white space, padding that lacks or is too much, and bits left over that are not zero.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"this is no base64: {error}") from None
    if base64.b64encode(data).decode() != text:
        raise ValueError("this is no base64 as an encoder writes it")
    return data


@lru_cache(maxsize=256)  # keys are few and public, and the square takes longer than a signature
def _problem_of_key(data: bytes) -> str:
    if len(data) != KEY_BYTES:
        return f"an Ed25519 public key has {KEY_BYTES} bytes; this has {len(data)}"
    if _weak(data):
        return "this is a point of small order, under which anyone can sign"
    y = _y(data)
    if y >= _P:
        return "this is not the canonical encoding of a point"
    # x² = (y² - 1) / (d·y² + 1) has a root where the product of both sides of the fraction is a square: Euler's criterion
    if pow((y * y - 1) * (_D * y * y + 1), (_P - 1) // 2, _P) != 1:
        return "this is no point of the curve"
    return ""


def _weak(point: bytes) -> bool:
    """Tell whether bytes encode a point of small order, in any spelling: with y beyond the field, with a sign for x = 0."""
    return _y(point) % _P in _SMALL_ORDER


def _y(point: bytes) -> int:
    return int.from_bytes(point, "little") & _Y
