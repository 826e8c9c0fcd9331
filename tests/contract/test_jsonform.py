"""Values of the mesh as JSON: they come back as they went, or are refused by name."""

from __future__ import annotations

import base64
import json
import math
from enum import Enum
from typing import Any

import pytest
from described_corpora import GARBAGE, cyclic, deep
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_stdlib.contract import cbor, jsonform
from rag_stdlib.contract.jsonform import MAX_DEPTH, MAX_ITEMS, JsonFormError, from_json, to_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXTS, st.binary(max_size=8))
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS.filter(lambda key: key != "$bytes"), inner, max_size=4)),
    max_leaves=20)


def same(one: Any, other: Any) -> bool:
    """Compare with types, and -0.0 apart from 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other)))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(VALUES, st.sampled_from([None, 1]))
@example([1, 1.0, "1", b"1", -0.0, 0.0, 5e-324, 1e22, 2**63 - 1, -(2**63), None, "", b"", {}, []], None)
@example({"$bytes ": "", "bytes": {"$Bytes": "AA=="}, "": {"\u2028\x00\x7f": "\U0001f6dd\ufeff"}}, 1)
def test_a_value_comes_back_as_it_went(value: Any, indent: int | None) -> None:
    text = to_json(value, indent=indent)
    assert same(from_json(text), value)
    assert same(from_json(text.encode()), value)


def test_bytes_are_base64_under_one_key() -> None:
    assert to_json({"raw_bytes": b"\x00\xff\x10"}) == '{"raw_bytes":{"$bytes":"AP8Q"}}'
    assert to_json(b"") == '{"$bytes":""}'
    assert from_json('{"raw_bytes": {"$bytes": "AP8Q"}}') == {"raw_bytes": b"\x00\xff\x10"}


def test_what_is_nearly_a_value_is_written_as_one() -> None:
    class Word(str, Enum):
        ONE = "one"

    class Number(int):
        def __repr__(self) -> str:
            return "no number"

    assert to_json([(1, 2), bytearray(b"x"), Word.ONE, Number(7), {Word.ONE: 1}]) == '[[1,2],{"$bytes":"eA=="},"one",7,{"one":1}]'


@pytest.mark.parametrize(("value", "words"), [
    (True, "there are no booleans on the mesh; say 1 or 0"), ([{"a": False}], "there are no booleans"),
    (float("nan"), "nan is no number"), (float("-inf"), "-inf is no number"), (2**63, "an integer is beyond 64 bits"),
    (-(2**63) - 1, "an integer is beyond 64 bits"), (10**5_000, "an integer is beyond 64 bits"),
    ("a\ud800", "text holds a lone surrogate at character 1"), ({"\udfff": 1}, "text holds a lone surrogate at character 0"),
    ({1: 2}, "a map has a key of the type int"), ({b"a": 2}, "a map has a key of the type bytes"), ({None: 2}, "a map has a key of the type NoneType"),
    ({1, 2}, "a value of the type set does not cross the mesh"), (object(), "a value of the type object does not cross"),
    ({"$bytes": "AA=="}, "a map has the key $bytes"), ([{"$bytes": 7}], "a map has the key $bytes"), ({"$bytes": b"x", "y": 1}, "a map has the key $bytes"),
    (deep(40), "it is nested deeper than 65 levels"), (deep(100_000), "it is nested deeper than 65 levels"),
    (cyclic(), "it is nested deeper than 65 levels, or holds itself"), ([0] * (MAX_ITEMS + 1), "it holds more than 262,144 items"),
], ids=lambda part: part if isinstance(part, str) else "")
def test_what_would_not_come_back_is_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(JsonFormError) as raised:
        to_json(value)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize(("text", "words"), [
    ("", "it is no JSON in UTF-8"), ("{", "it is no JSON in UTF-8"), ("{} {}", "it is no JSON in UTF-8"), ("'a'", "it is no JSON in UTF-8"),
    (b"\xff", "it is no JSON in UTF-8"), ("{}".encode("utf-16"), "it is no JSON in UTF-8"), ("\ufeff{}", "it is no JSON in UTF-8"),
    ('{"a": 1, "a": 1}', "the key 'a' stands twice in a map"), ('[{"\\u0061": 1, "a": 2}]', "the key 'a' stands twice"),
    ('{"$bytes": "AA==", "$bytes": "AA=="}', "the key '$bytes' stands twice"),
    ('{"' + "é" * 99 + '": 1, "' + "é" * 99 + '": 1}', "the key '" + "\\xe9" * 39 + "\\u2026' stands twice"),
    ("true", "there are no booleans"), ('{"a": [false]}', "there are no booleans"), ("NaN", "NaN is no number"), ("[-Infinity]", "-Infinity is no number"),
    ("1e400", "inf is no number"), ("9223372036854775808", "an integer is beyond 64 bits"), ("[" + "9" * 100_000 + "]", "an integer is beyond 64 bits"),
    ('"\\ud800"', "text holds a lone surrogate at character 0"), ('{"\\ud800": 1}', "text holds a lone surrogate"), ('"\ud800"', "text holds a lone surrogate"),
    ("[" * 66 + "]" * 66, "it is nested deeper than 65 levels"), ("[" * 200_000, "it is nested deeper than 65 levels"),
    ("[" + "0," * MAX_ITEMS + "0]", "it holds more than 262,144 items"),
], ids=lambda part: ascii(part[:30]))
def test_text_that_was_not_written_here_is_refused_by_name(text: Any, words: str) -> None:
    with pytest.raises(JsonFormError) as raised:
        from_json(text)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize("member", [
    '"AA"', '"AA="', '"AA==="', '"AB=="', '"AA== "', '"A\\nA=="', '"AA=A"', '"-_8="', '"é"', '"="', "7", "null", '["AA=="]', '{"$bytes": "AA=="}', "true"])
@pytest.mark.parametrize("form", ['{"$bytes": %s}', '[{"x": {"$bytes": %s}}]'])
def test_bytes_have_one_base64(member: str, form: str) -> None:
    with pytest.raises(JsonFormError, match=r"holds it alone, with base64 in its one canonical form"):
        from_json(form % member)


def test_bytes_stand_alone() -> None:
    with pytest.raises(JsonFormError, match=r"holds it alone"):
        from_json('{"$bytes": "AA==", "other": 1}')


def test_a_text_beyond_the_bound_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonform, "MAX_CHARS", 10)
    assert from_json(to_json("é" * 8).encode()) == "é" * 8
    with pytest.raises(JsonFormError, match=r"the text has 11 characters; the most is 10"):
        to_json("é" * 9)
    with pytest.raises(JsonFormError, match=r"the text has 11 characters; the most is 10"):
        from_json('"' + "é" * 9 + '"')


def test_parts_that_stand_in_many_places_do_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonform, "MAX_ITEMS", 10_000)
    value: Any = []
    for _ in range(40):
        value = [value, value]
    with pytest.raises(JsonFormError, match="it holds more than"):
        to_json(value)


def test_as_deep_as_a_message_and_one_level_for_what_keeps_it() -> None:
    value: Any = 7
    for _ in range(cbor.MAX_DEPTH):
        value = [value]
    assert from_json(to_json({"answer": value})) == {"answer": value}
    assert MAX_DEPTH == cbor.MAX_DEPTH + 1


@settings(max_examples=80, deadline=None, derandomize=True)
@given(GARBAGE)
def test_any_value_is_written_and_read_again_or_refused(value: Any) -> None:
    try:
        text = to_json(value)
    except JsonFormError:
        return
    assert same(from_json(text), json.loads(text, object_hook=lambda members: base64.b64decode(members["$bytes"]) if "$bytes" in members else members))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=20), st.binary(max_size=20), VALUES.map(lambda value: to_json(value)[:-1])))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        value = from_json(text)
    except JsonFormError:
        return
    assert same(from_json(to_json(value)), value)
