"""Canonical JSON (RFC 8785): the published vectors, and one error for everything that has no canonical form."""

from __future__ import annotations

import enum
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_vectors import FOLDER, needs_vectors, vectors

from rag_stdlib.contract.jcs import MAX_DEPTH, MAX_ITEMS, CanonicalError, canonical

NAMES = ("arrays", "french", "structures", "unicode", "values", "weird")
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2**53 + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False), WORDS)
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(WORDS, inner, max_size=5)), max_leaves=20)


def nested(depth: int, innermost: object = 0) -> object:
    for _ in range(depth):
        innermost = [innermost]
    return innermost


PLAIN = st.recursive(st.none() | st.booleans() | st.integers(-2**53 + 1, 2**53 - 1) | WORDS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
    st.text(st.characters(max_codepoint=127), max_size=6), inner, max_size=5), max_leaves=30)


@settings(max_examples=80, deadline=None)
@given(PLAIN)
def test_values_without_fractions_are_written_as_the_package_writes_them(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@needs_vectors
@pytest.mark.parametrize("name", NAMES)
def test_the_published_inputs_have_the_published_outputs(name: str) -> None:
    folder = FOLDER / "jcs"
    written = canonical(json.loads((folder / "input" / f"{name}.json").read_bytes()))
    assert written == (folder / "output" / f"{name}.json").read_bytes().rstrip(b"\n")
    assert written == bytes.fromhex(Path(folder / "outhex" / f"{name}.txt").read_text(encoding="ascii"))


@needs_vectors
def test_the_case_that_macula_publishes() -> None:
    cases: list[dict[str, Any]] = vectors("macula/corpus.json")["jcs"]
    assert cases
    assert [canonical(case["input"]).decode() for case in cases] == [case["canonical"] for case in cases]


@settings(max_examples=80)
@given(VALUES)
def test_the_canonical_text_is_json_for_the_value_and_its_own_canonical_form(value: object) -> None:
    written = canonical(value)
    assert canonical(json.loads(written, parse_int=float)) == written  # JSON has one kind of number
    assert json.loads(written, parse_int=float) == json.loads(json.dumps(value), parse_int=float)


@pytest.mark.parametrize(("value", "written"), [
    (None, "null"), (True, "true"), (False, "false"), (0, "0"), (-0.0, "0"), (1.0, "1"), (1e21, "1e+21"), (1e20, "100000000000000000000"),
    (1e-6, "0.000001"), (1e-7, "1e-7"), (5e-324, "5e-324"), (2**53 - 1, "9007199254740991"), (-2**53 + 1, "-9007199254740991"),
    (float(2**53), "9007199254740992"), ("", '""'), ("\x7f\u2028/", '"\x7f\u2028/"'), ("\b\t\n\x0b\f\r\x00", '"\\b\\t\\n\\u000b\\f\\r\\u0000"'),
    ((1, [2]), "[1,[2]]"), ({}, "{}"), ({"b": 1, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":1}'),
    ({"\U00010000": 1, "\ufb33": 2}, '{"\U00010000":1,"\ufb33":2}'),
    (enum.IntEnum("Number", {"ONE": 1}).ONE, "1"), (enum.Enum("Word", {"A": "a"}, type=str).A, '"a"'),  # type: ignore[attr-defined]
])
def test_numbers_texts_and_the_order_of_keys(value: object, written: str) -> None:
    assert canonical(value).decode() == written


def test_nothing_is_normalised() -> None:
    assert canonical({"é": 1, "e\u0301": 2}).decode() == '{"e\u0301":2,"é":1}'


@pytest.mark.parametrize(("value", "message"), [
    ("\ud800", "a text holds a lone surrogate at character 0"), (["ab\udfff"], "a text holds a lone surrogate at character 2"),
    ({"\ud800": 1}, "a key holds a lone surrogate"), ({"a": {"x\udc00": 1}}, "a key holds a lone surrogate at character 1"),
    (math.nan, "a number is nan"), ([math.inf], "a number is inf"), (-math.inf, "a number is -inf"),
    (2**53, "beyond"), (-2**53, "beyond"), (2**64, "beyond"), ({"a": [2**53]}, "beyond"),
    ({1: 2}, "a key is of the type int"), ({None: 2}, "a key is of the type NoneType"), ({b"a": 1}, "a key is of the type bytes"),
    (b"a", "a value is of the type bytes"), ({1, 2}, "of the type set"), (Decimal(1), "of the type Decimal"), (object(), "of the type object"),
    (nested(MAX_DEPTH + 1), "more than 64 deep"), (nested(MAX_DEPTH, {}), "more than 64 deep"), (nested(2_000), "more than 64 deep"),
    ([0] * MAX_ITEMS, "more than 1,048,576 values"),
])
def test_what_has_no_canonical_form_is_refused_with_one_error(value: object, message: str) -> None:
    with pytest.raises(CanonicalError, match=message):
        canonical(value)


def test_the_deepest_value_is_still_written() -> None:
    assert canonical(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"0" + b"]" * MAX_DEPTH


def test_what_holds_itself_or_shares_without_end_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["a"] = [cycle, cycle]
    shared: object = 0
    for _ in range(40):
        shared = [shared, shared]
    for value in (cycle, shared):
        with pytest.raises(CanonicalError, match="more than"):
            canonical(value)


def test_the_error_is_a_value_error() -> None:
    assert issubclass(CanonicalError, ValueError)


def test_an_integer_too_long_to_print_is_refused_like_any_other() -> None:
    with pytest.raises(CanonicalError, match="beyond"):
        canonical([10**5_000])
