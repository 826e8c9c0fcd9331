"""The CBOR of the mesh: what goes out is deterministic, what comes in is bounded and strict, and there is one error."""

from __future__ import annotations

import enum
import math
import pickle
import tracemalloc
from collections import ChainMap
from decimal import Decimal
from typing import Any

import cbor2
import pytest
from cbor_pieces import ARRAY, BYTES, FORBIDDEN, LOOSE_ITEMS, MAP, TEXT, WILD_ITEMS, altered, head, mapping
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.cbor import MAX_BYTES, MAX_DEPTH, MAX_ITEMS, CborError, Value, decode, encode

INT64 = st.integers(-2**63, 2**63 - 1)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.one_of(WORDS, INT64)
SCALARS = st.one_of(st.none(), INT64, st.floats(allow_nan=False, allow_infinity=False), WORDS, st.binary(max_size=20))
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=5)), max_leaves=20)


REFUSED: Value = ["refused"]


class Word(str):
    """A text that prints as another."""

    __slots__ = ()
    __str__ = str.upper


Colour = enum.Enum("Colour", {"RED": "red"}, type=str)
Number = enum.IntEnum("Number", {"SEVEN": 7})


def typed(value: object) -> object:
    """Spell a value with its types, so that 1, 1.0, "1", b"1", 0.0 and -0.0 are six."""
    if isinstance(value, dict):
        return "map", sorted(((typed(key), typed(item)) for key, item in value.items()), key=repr)
    return ("list", [typed(item) for item in value]) if isinstance(value, list) else (type(value).__name__, repr(value))


def decoded(data: bytes) -> Value:
    try:
        return decode(data)
    except CborError as error:
        return REFUSED if str(error) else None


def reason(data: bytes, **options: int) -> str:
    with pytest.raises(CborError) as caught:
        decode(data, **options)
    return caught.value.reason


def refusal(value: object, **options: int) -> str:
    with pytest.raises(CborError) as caught:
        encode(value, **options)
    return caught.value.reason


def nested(depth: int, innermost: object = 0) -> object:
    for _ in range(depth):
        innermost = [innermost]
    return innermost


@settings(max_examples=80)
@given(VALUES)
@example([1, 1.0, "1", b"1", -0.0, 0.0, None, 2**63 - 1, -2**63, 5e-324])
@example({1: 0, "1": 0})
def test_a_value_comes_back_as_it_was_and_of_the_same_types(value: Value) -> None:
    assert typed(decode(encode(value))) == typed(value)


@settings(max_examples=80)
@given(LOOSE_ITEMS)
def test_what_was_read_is_written_in_one_way_only(data: bytes) -> None:
    value = decoded(data)
    assume(value is not REFUSED)
    once = encode(value)
    assert typed(decode(once)) == typed(value)
    assert encode(decode(once)) == once
    assert typed(value) == typed(cbor2.loads(data))


@settings(max_examples=80)
@given(st.one_of(st.binary(max_size=60), WILD_ITEMS, LOOSE_ITEMS.flatmap(altered)))
def test_other_bytes_are_refused_with_one_error_or_are_a_value_that_can_be_written(data: bytes) -> None:
    value = decoded(data)
    if value is not REFUSED:
        assert typed(decode(encode(value))) == typed(value)


@pytest.mark.parametrize("data", FORBIDDEN, ids=bytes.hex)
def test_what_the_rule_forbids_is_refused_at_the_top_and_inside(data: bytes) -> None:
    for whole in (data, b"\x81" + data, b"\xa1\x61a" + data, b"\xa1\x01\x82\x01" + data):
        with pytest.raises(CborError):
            decode(whole)


@pytest.mark.parametrize(("data", "expected"), [
    ("", "truncated"), ("18", "truncated"), ("1a0000", "truncated"), ("6261", "truncated"), ("8201", "truncated"), ("a101", "truncated"),
    ("fb00", "truncated"), ("0000", "trailing"), ("a0f6", "trailing"), ("a2616101616102", "duplicate_key"), ("a201021801f6", "duplicate_key"),
    ("a2200038 00f6", "duplicate_key"), ("f4", "bool"), ("f5", "bool"), ("f7", "simple"), ("f816", "simple"), ("e0", "simple"), ("c100", "tag"),
    ("f97c00", "float"), ("f97e01", "float"), ("faff800000", "float"), ("fb7ff0000000000001", "float"), ("1b8000000000000000", "integer"),
    ("3b8000000000000000", "integer"), ("61ff", "utf8"), ("a161ff00", "utf8"), ("9f", "indefinite"), ("ff", "indefinite"), ("1d", "indefinite"),
    ("a1416100", "key"), ("a1f600", "key"), ("a1f93c0000", "key"), ("a1800000", "key"), ("a1c10000", "key"),
])
def test_each_fault_has_its_reason(data: str, expected: str) -> None:
    assert reason(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("data", [b"\x9b" + b"\xff" * 8, b"\xbb" + b"\x7f" * 8, b"\x5b" + b"\x00" * 3 + b"\xff" * 5, b"\x7a" + b"\xff" * 4,
                                  b"\x9a\x00\x01\xff\xff", b"\x81" * 60 + b"\x5a\xff\xff\xff\xff"], ids=bytes.hex)
def test_an_announced_length_sets_nothing_aside(data: bytes) -> None:
    tracemalloc.start()
    try:
        assert reason(data) in ("truncated", "items")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_depth_is_bounded_before_anything_is_decoded() -> None:
    assert decode(b"\x81" * MAX_DEPTH + b"\0") == nested(MAX_DEPTH)
    assert reason(b"\x81" * (MAX_DEPTH + 1) + b"\0") == "depth"
    assert reason(b"\x81" * MAX_DEPTH + b"\x80") == "depth"
    assert reason(b"\x81" * 200_000) == "depth"
    assert reason(b"\xa1\x01" * 100_000) == "depth"


@pytest.mark.parametrize(("accepted", "refused"), [
    (head(ARRAY, MAX_ITEMS - 1) + bytes(MAX_ITEMS - 1), head(ARRAY, MAX_ITEMS) + bytes(MAX_ITEMS)),
    (b"\x82" + (head(ARRAY, 65_534) + bytes(65_534)) + (head(ARRAY, 65_535) + bytes(65_535)), b"\x82" + (head(ARRAY, 65_535) + bytes(65_535)) * 2),
    (b"\x81" + mapping([(head(0, number), b"\0") for number in range(65_535)]), b"\x82\0" + mapping([(head(0, n), b"\0") for n in range(65_535)])),
], ids=["a list", "two lists", "a map"])
def test_items_are_bounded_with_keys_and_containers_among_them(accepted: bytes, refused: bytes) -> None:
    assert encode(decode(accepted)) == accepted
    assert reason(refused) == "items"


def test_bytes_are_bounded() -> None:
    largest = head(BYTES, MAX_BYTES - 5) + bytes(MAX_BYTES - 5)
    assert decode(largest) == bytes(MAX_BYTES - 5)
    assert encode(bytes(MAX_BYTES - 5)) == largest
    assert reason(largest + b"\0") == "size"
    assert refusal(bytes(MAX_BYTES - 4)) == "size"
    assert (reason(b"\x61a", max_bytes=1), refusal("a", max_bytes=1), encode("a", max_bytes=2)) == ("size", "size", b"\x61a")
    assert refusal(["ab", "ü", 1.0], max_bytes=6) == "size"


def test_a_long_text_takes_no_longer_than_its_bytes() -> None:
    words = "ü" * 4_000_000
    assert decode(encode({"content": words})) == {"content": words}
    assert reason(head(TEXT, 8_000_000) + b"\xff" * 8_000_000) == "utf8"


@pytest.mark.parametrize(("value", "encoded"), [
    (None, "f6"), (0, "00"), (23, "17"), (24, "1818"), (65_536, "1a00010000"), (2**63 - 1, "1b7fffffffffffffff"), (-1, "20"),
    (-2**63, "3b7fffffffffffffff"), (0.0, "fb0000000000000000"), (-0.0, "fb8000000000000000"), (1.0, "fb3ff0000000000000"),
    (1.5, "fb3ff8000000000000"), ("é", "62c3a9"), (b"\xff", "41ff"), (bytearray(b"a"), "4161"), ((1, (2,)), "82018102"), ([], "80"), ({}, "a0"),
    ({"b": 1, "a": 2}, "a2616102616201"), ({"aa": 1, "b": 2}, "a261620262616101"), ({"a": 1, -1: 2, 1_000: 3, 0: 4}, "a400041903e8032002616101"),
    ({-300: 0, -2: 0, 24: 0, 9: 0}, "a40900181800210039012b00"), ({"é": 0, "z": 0, "zz": 0}, "a3617a0062 7a7a0062c3a900"),
    (Word("a"), "6161"), ({Word("b"): Colour.RED, Colour.RED: Number.SEVEN}, "a261626372656463726564 07"),
    (ChainMap({"a": 1}, {"b": 2}), "a2616101616202"), (True + 0, "01"),
])
def test_one_encoding_for_each_value(value: object, encoded: str) -> None:
    assert encode(value).hex() == encoded.replace(" ", "")


@pytest.mark.parametrize(("value", "expected"), [
    (True, "bool"), ([False], "bool"), ({"a": True}, "bool"), (math.nan, "float"), (-math.inf, "float"), (2**63, "integer"), (-2**63 - 1, "integer"),
    ({2**63: 0}, "integer"), ("\ud800", "utf8"), ({"\udfff": 0}, "utf8"), ("é\ud800", "utf8"), ({True: 0}, "key"), ({b"a": 0}, "key"),
    ({None: 0}, "key"), ({1.0: 0}, "key"), ({(): 0}, "key"), ({1, 2}, "type"), (Decimal(1), "type"), (1j, "type"), (object(), "type"),
    (memoryview(b"a"), "type"), (iter([1]), "type"), (nested(MAX_DEPTH + 1), "depth"), (nested(MAX_DEPTH, {}), "depth"),
    ([0] * MAX_ITEMS, "items"), (dict.fromkeys(range(MAX_ITEMS // 2), 0), "items"),
])
def test_what_may_not_be_written_is_refused_with_its_reason(value: object, expected: str) -> None:
    assert refusal(value) == expected


def test_what_holds_itself_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    knot: dict[str, Any] = {}
    knot.update(one=knot, other=[knot, knot])
    assert (refusal(cycle), refusal(knot)) == ("depth", "depth")


def test_shared_parts_cannot_grow_without_bound() -> None:
    shared: object = "x"
    for _ in range(40):
        shared = [shared, shared]
    assert refusal(shared) == "items"
    assert refusal(["x" * 1_000_000] * 20) == "size"


def test_an_encoding_of_nothing_but_the_deepest_lists_is_fine() -> None:
    assert encode(nested(MAX_DEPTH)) == b"\x81" * MAX_DEPTH + b"\0"


def test_equal_maps_have_equal_bytes_whatever_the_order_of_their_keys() -> None:
    names: list[str | int] = ["b", "a", "long name", 5, -5, "ä"]
    assert encode(dict.fromkeys(names, 1)) == encode(dict.fromkeys(reversed(names), 1)) == encode(dict.fromkeys(sorted(names, key=str), 1))


def test_the_error_says_what_is_wrong_and_survives_being_pickled() -> None:
    with pytest.raises(CborError, match="no booleans on the mesh") as caught:
        encode({"changed": True})
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (copied.reason, str(copied)) == ("bool", str(caught.value))
    assert isinstance(copied, ValueError)


def test_a_map_head_counts_pairs() -> None:
    assert reason(head(MAP, 3) + b"\x01\x01\x02\x02") == "truncated"
