"""Tolerant reading: a key or a text in either of its forms, at any depth, and nothing that hangs."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.contract.loose import field, has, loosened, text

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = st.one_of(st.none(), st.integers(), WORDS, st.binary(max_size=5))
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)), max_leaves=20)


def with_byte_keys(value: object, every: int = 1) -> object:
    if isinstance(value, dict):
        return {key.encode() if len(key) % every == 0 else key: with_byte_keys(item, every) for key, item in value.items()}
    return [with_byte_keys(item, every) for item in value] if isinstance(value, list) else value


@given(VALUES, st.integers(1, 3))
def test_keys_written_as_bytes_read_as_those_written_as_text(value: object, every: int) -> None:
    assert loosened(with_byte_keys(value, every)) == value
    assert loosened(value) == value


@pytest.mark.parametrize(("given_", "expected"), [
    ({b"a": b"a"}, {"a": b"a"}), ({b"\xff": 1}, {b"\xff": 1}), ({1: {b"a": 2}}, {1: {"a": 2}}), ({None: 1}, {None: 1}),
    ({b"a": 1, "a": 2}, {"a": 2}), ({"a": 2, b"a": 1}, {"a": 2}), ({"a": None, b"a": 1}, {"a": None}),
    (({b"a": (1, {b"b": 2})},), [{"a": [1, {"b": 2}]}]), (MappingProxyType({b"a": 1}), {"a": 1}), ({memoryview(b"a"): 1}, {"a": 1}),
    ("a", "a"), (b"a", b"a"), (None, None), (1.5, 1.5), ({b"\xed\xa0\x80": 1}, {b"\xed\xa0\x80": 1}), ({}, {}), ([], []),
])
def test_keys_become_text_and_values_stay(given_: object, expected: object) -> None:
    assert loosened(given_) == expected


def test_nothing_of_the_original_is_changed_or_shared() -> None:
    original: dict[Any, Any] = {b"a": [{b"b": 1}], "c": []}
    copy: Any = loosened(original)
    copy["a"][0]["b"] = 2
    copy["c"].append(1)
    assert original == {b"a": [{b"b": 1}], "c": []}


def test_cycles_nesting_and_shared_parts_do_no_harm() -> None:
    cycle: dict[bytes, Any] = {}
    cycle[b"self"] = [cycle, cycle]
    copy: Any = loosened(cycle)
    assert copy["self"][0] is copy
    assert copy["self"][1] is copy
    deep: Any = {b"end": 1}
    for _ in range(100_000):
        deep = [deep]
    copy = loosened(deep)
    while isinstance(copy, list):
        copy, = copy
    assert copy == {"end": 1}
    shared: Any = {b"a": 1}
    for _ in range(60):
        shared = [shared, shared]
    copy = loosened(shared)
    assert copy[0] is copy[1]


@pytest.mark.parametrize(("value", "read"), [
    ("é", "é"), ("é".encode(), "é"), ("", ""), (b"", ""), (bytearray(b"a"), "a"), (memoryview(b"a"), "a"), ("a\0b", "a\0b"), (b"\xff", None),
    (b"\xed\xa0\x80", None), ("\ud800", None), ("a\udfff", None), (None, None), (1, None), (["a"], None), ({"a": 1}, None), (True, None),
])
def test_a_text_is_read_from_text_or_utf_8_bytes(value: object, read: str | None) -> None:
    assert text(value) == read


@given(WORDS)
def test_a_text_reads_the_same_in_both_forms(word: str) -> None:
    assert text(word) == text(word.encode()) == word


@pytest.mark.parametrize(("mapping", "found"), [
    ({"a": 1}, 1), ({b"a": 1}, 1), ({"a": 2, b"a": 1}, 2), ({"a": None, b"a": 1}, None), ({"a": None}, None), ({"b": 1}, None), ({}, None),
    ({"a": 0}, 0), ({b"a": b""}, b""), (MappingProxyType({b"a": 1}), 1), (None, None), ("a", None), ([("a", 1)], None), (b"a", None),
], ids=repr)
def test_a_field_is_found_under_either_form_of_its_name(mapping: object, found: object) -> None:
    assert field(mapping, "a") == found


@pytest.mark.parametrize(("mapping", "there"), [
    ({"a": None}, True), ({b"a": None}, True), ({"a": 0, b"a": 1}, True), (MappingProxyType({b"a": 1}), True), ({"b": 1}, False), ({}, False), (None, False), ("a", False),
], ids=repr)
def test_a_field_is_there_although_it_is_null(mapping: object, there: bool) -> None:
    assert has(mapping, "a") is there


@given(st.dictionaries(st.one_of(st.sampled_from(["a", "é", b"a", "é".encode(), b"\xff", 1]), WORDS), st.integers(), max_size=6))
def test_a_field_is_what_the_loosened_map_holds_under_the_name(mapping: dict[Any, int]) -> None:
    copy: Any = loosened(mapping)
    for name in ("a", "é", "z"):
        assert field(mapping, name) == copy.get(name)
