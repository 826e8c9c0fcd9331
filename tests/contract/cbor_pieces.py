"""Encodings of CBOR as no careful writer would make them: any width, any order, any nesting, and now and then what is forbidden."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hypothesis import strategies as st

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP = range(6)
INTEGERS = (0, 1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1)
WORDS = ("", "a", "alg", "corpus_hash", "é", "😀", "x" * 30, "null\0inside")
FLOATS = (0.0, -0.0, 1.0, 1.5, -2.25, 65_504.0, 5.960464477539063e-08)
FORBIDDEN = tuple(bytes.fromhex(raw) for raw in (
    "f4", "f5", "f7", "f0", "f814", "f820", "f97c00", "f97e00", "fa7f800000", "faffc00000", "fb7ff0000000000000", "fbfff8000000000000",
    "c000", "d82a00", "c24101", "1b8000000000000000", "3bffffffffffffffff", "61ff", "63eda080", "62c328", "7f6161ff", "5f4161ff",
    "9f01ff", "bf616101ff", "a1416101", "a1f601", "a18001", "a1f93c0001", "a20102180103", "a2616101616102", "a261610178016102",
    "1c", "ff", "fc", "18", "6261", "8201", "a1010200"))


def head(major: int, number: int, info: int = 0) -> bytes:
    """Write the head of an item, as short as can be, or with the additional information 24 to 27 if the number fits there."""
    least = 0 if number < 24 else 24 if number < 1 << 8 else 25 if number < 1 << 16 else 26 if number < 1 << 32 else 27
    info = max(info, least)
    if not info:
        return bytes([major << 5 | number])
    return bytes([major << 5 | info]) + number.to_bytes(1 << (info - 24), "big")


def text(word: str, info: int = 0) -> bytes:
    encoded = word.encode()
    return head(TEXT, len(encoded), info) + encoded


def blob(value: bytes, info: int = 0) -> bytes:
    return head(BYTES, len(value), info) + value


def mapping(pairs: Sequence[tuple[bytes, bytes]], info: int = 0) -> bytes:
    return head(MAP, len(pairs), info) + b"".join(key + value for key, value in pairs)


WIDTHS = st.sampled_from((0, 0, 0, 24, 25, 26, 27))
NUMBERS = st.builds(head, st.sampled_from((UNSIGNED, NEGATIVE)), st.sampled_from(INTEGERS), WIDTHS)
TEXTS = st.builds(text, st.sampled_from(WORDS), WIDTHS)
REALS = st.builds(lambda number, form: form[0] + struct.pack(form[1], number), st.sampled_from(FLOATS),
                  st.sampled_from(((b"\xf9", ">e"), (b"\xfa", ">f"), (b"\xfb", ">d"))))
KEYS = st.one_of(TEXTS, NUMBERS)
LEAVES = st.one_of(NUMBERS, TEXTS, REALS, st.builds(blob, st.binary(max_size=30), WIDTHS), st.just(b"\xf6"))
FOREIGN = st.sampled_from(FORBIDDEN)


def containers(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    lists = st.builds(lambda items, info: head(ARRAY, len(items), info) + b"".join(items), st.lists(inner, max_size=4), WIDTHS)
    maps = st.builds(mapping, st.lists(st.tuples(KEYS, inner), max_size=4), WIDTHS)
    return st.one_of(lists, maps)


# Mostly sound; a map's keys may repeat.
LOOSE_ITEMS = st.recursive(LEAVES, containers, max_leaves=8)
WILD_ITEMS = st.recursive(st.one_of(LEAVES, LEAVES, LEAVES, FOREIGN), containers, max_leaves=8)


@st.composite
def altered(draw: st.DrawFn, whole: bytes) -> bytes:
    """Flip a byte, cut the end off, lose a byte, or add some."""
    at = draw(st.integers(0, max(0, len(whole) - 1)))
    kind = draw(st.sampled_from(("flip", "cut", "lose", "add", "end")))
    if kind == "flip":
        return whole[:at] + bytes([(whole[at] if whole else 0) ^ draw(st.integers(1, 255))]) + whole[at + 1:]
    if kind == "cut":
        return whole[:at]
    if kind == "lose":
        return whole[:at] + whole[at + 1:]
    return whole[:at] + draw(st.binary(min_size=1, max_size=3)) + whole[at:] if kind == "add" else whole + b"\0"
