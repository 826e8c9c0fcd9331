"""Reading Ed25519 keys and signatures: what a plain verifier accepts is refused where it binds nobody, or is spelt a second way."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from replay.ed25519 import KeyRefused, public_key, strict_base64, verify

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "wycheproof" / "ed25519_test.json"

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SIGN = 1 << 255
Point = tuple[int, int]

SEED = bytes(range(32))
SIGNER = Ed25519PrivateKey.from_private_bytes(SEED)
KEY = SIGNER.public_key()


# --- the curve by its definition (RFC 8032, section 5.1): a second way to the points that the module names by their y ---

def added(one: Point, other: Point) -> Point:
    (x, y), (u, v) = one, other
    term = D * x * u * y * v
    return (x * v + u * y) * pow(1 + term, -1, P) % P, (y * v + x * u) * pow(1 - term, -1, P) % P


def multiple(number: int, point: Point) -> Point:
    total = (0, 1)
    for bit in f"{number:b}":
        total = added(total, total)
        if bit == "1":
            total = added(total, point)
    return total


def x_of(y: int) -> int | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    for root in (pow(square, (P + 3) // 8, P), pow(square, (P + 3) // 8, P) * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square:
            return root
    return None


@cache
def small_points() -> frozenset[Point]:
    """Return every point P with 8·P = 0: the multiples of L·Q for a Q whose L·Q has the order 8."""
    for y in range(2, 100):
        x = x_of(y)
        if x is not None:
            generator = multiple(L, (x, y))
            if multiple(4, generator) != (0, 1):
                return frozenset(multiple(number, generator) for number in range(8))
    raise AssertionError


def encoded(y: int, sign: int) -> bytes:
    return (y | SIGN * sign).to_bytes(32, "little")


def small_encodings() -> list[bytes]:
    """Return all bytes that a lenient decoder reads as one of the eight points: y may be beyond the field, -0 may stand for 0."""
    ys = {y for _, y in small_points()}
    return [encoded(y, sign) for y in sorted({*ys, *(y + P for y in ys if y + P < SIGN)}) for sign in (0, 1)]


def plain_verifier_accepts(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


# --- keys ---

def test_a_key_is_read_as_it_is() -> None:
    raw = KEY.public_bytes_raw()
    assert public_key(raw).public_bytes_raw() == raw
    assert verify(public_key(raw), SIGNER.sign(b"text"), b"text")


def test_the_points_of_small_order_are_eight_and_have_fourteen_spellings() -> None:
    assert len(small_points()) == 8
    assert all(multiple(8, point) == (0, 1) for point in small_points())
    assert len(small_encodings()) == len(set(small_encodings())) == 14


def test_r145_a_key_of_small_order_that_fits_messages_of_nobody_is_refused() -> None:
    signature = encoded(1, 0) + bytes(32)  # R = 0 and S = 0, for which no private key is needed
    for data in small_encodings():
        message = next(b"%d" % number for number in range(1_000) if plain_verifier_accepts(data, signature, b"%d" % number))
        with pytest.raises(KeyRefused, match=r"^this is a point of small order, under which anyone can sign$"):
            public_key(data)
        assert not verify(Ed25519PublicKey.from_public_bytes(data), signature, message)
    assert plain_verifier_accepts(encoded(1, 0), signature, b"any message")


def test_a_key_whose_y_is_beyond_the_field_is_refused() -> None:
    for y in range(P, SIGN):
        for sign in (0, 1):
            with pytest.raises(KeyRefused, match=r"small order|^this is not the canonical encoding of a point$"):
                public_key(encoded(y, sign))


def test_a_second_spelling_of_a_key_that_signs_is_refused() -> None:
    y = next(y for y in range(2, 19) if x_of(y) is not None)
    public_key(encoded(y, 0))
    with pytest.raises(KeyRefused, match=r"^this is not the canonical encoding of a point$"):
        public_key(encoded(y + P, 0))


@given(st.integers(2, P - 2).filter(lambda y: y not in {y for _, y in small_points()}), st.sampled_from([0, 1]))
def test_a_key_is_read_where_its_y_is_that_of_a_point(y: int, sign: int) -> None:
    data = encoded(y, sign)
    if x_of(y) is None:
        with pytest.raises(KeyRefused, match=r"^this is no point of the curve$"):
            public_key(data)
    else:
        assert public_key(data).public_bytes_raw() == data


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(KeyRefused, match=rf"^an Ed25519 public key has 32 bytes; this has {size}$"):
        public_key(bytes(size))


def test_a_refused_key_is_a_value_error() -> None:
    assert issubclass(KeyRefused, ValueError)


# --- signatures ---

def vectors() -> list[Any]:
    if not VECTORS.exists():
        return [pytest.param({}, {}, marks=pytest.mark.skip("the vectors of others are not beside this project"))]
    groups = json.loads(VECTORS.read_text(encoding="utf-8"))["testGroups"]
    return [pytest.param(group["publicKey"], case, id=f"{case['tcId']}-{case['result']}") for group in groups for case in group["tests"]]


@pytest.mark.parametrize(("key", "case"), vectors())
def test_r144_the_verdict_is_that_of_the_vectors(key: dict[str, str], case: dict[str, str]) -> None:
    read = public_key(bytes.fromhex(key["pk"]))
    assert verify(read, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])) == (case["result"] == "valid")


@pytest.mark.skipif(not VECTORS.exists(), reason="the vectors of others are not beside this project")
def test_r144_the_vectors_are_all_there() -> None:
    cases = [case.values[1]["result"] for case in vectors()]
    assert (len(cases), cases.count("valid")) == (151, 88)


def test_an_s_that_is_not_below_the_order_is_refused() -> None:
    signature = SIGNER.sign(b"text")
    s = int.from_bytes(signature[32:], "little")
    others = range(s + L, 1 << 256, L)
    assert len(others) >= 14
    for other in others:
        assert not verify(KEY, signature[:32] + other.to_bytes(32, "little"), b"text")


@given(st.binary(max_size=40), st.integers(0, 511))
def test_a_signature_fits_its_message_and_no_bit_may_differ(message: bytes, bit: int) -> None:
    signature = SIGNER.sign(message)
    assert verify(KEY, signature, message)
    flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not verify(KEY, flipped, message)
    assert not verify(KEY, signature, message + b"\0")


@pytest.mark.parametrize("change", [lambda whole: whole[:-1], lambda whole: whole + b"\0", lambda whole: whole[:32], lambda _: b""])
def test_a_signature_of_another_length_is_refused(change: Any) -> None:
    assert not verify(KEY, change(SIGNER.sign(b"text")), b"text")


def test_an_r_of_small_order_is_refused_though_the_equation_holds() -> None:
    """With r = 0 the holder of a key makes R = 0 and S = h·a, from which everybody can tell the key."""
    clamped = bytearray(sha512(SEED).digest()[:32])
    clamped[0] &= 248
    clamped[31] = clamped[31] & 127 | 64
    raw, r = KEY.public_bytes_raw(), encoded(1, 0)
    h = int.from_bytes(sha512(r + raw + b"text").digest(), "little")
    signature = r + (h * int.from_bytes(clamped, "little") % L).to_bytes(32, "little")
    assert plain_verifier_accepts(raw, signature, b"text")
    assert not verify(KEY, signature, b"text")


# --- base64 ---

@given(st.binary(max_size=100))
def test_base64_comes_back_as_it_was_encoded(data: bytes) -> None:
    assert strict_base64(base64.b64encode(data).decode()) == data


@given(st.text(alphabet="AQgw+/=-_ \n\té", max_size=9))
def test_no_two_texts_are_the_same_bytes(text: str) -> None:
    try:
        data = strict_base64(text)
    except ValueError:
        return
    assert base64.b64encode(data).decode() == text


@pytest.mark.parametrize("text", [
    "QQ", "QQ=", "QQ===", "QQ==QQ==", "=QQ=", "Q", "QR==", "QUJ=", "QUJD=", "QUJD\n", " QUJD", "QU JD", "QU\nJD", "QU\r\nJD", "QUJD\0",
    "-_-_", "QUJ!", "QUJé", "QUJ\ud800", "=", "====",
])
def test_base64_that_no_encoder_writes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^this is no base64") as caught:
        strict_base64(text)
    assert re.search(r"\n|\ud800", str(caught.value)) is None
