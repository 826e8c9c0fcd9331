"""JSON values: what may be recorded, how it is written and read, and when two are the same."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import enum
import json
import math
import pathlib
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import NotRecordable
from replay.jsontext import (
    MISSING,
    Difference,
    canonical,
    checked,
    decode,
    encode,
    first_difference,
    match_key,
    path_of,
    short,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12)


class Colour(enum.Enum):
    """An enumeration."""

    RED = "red"


class Level(enum.IntEnum):
    """An int that is none."""

    LOW = 1


class Name(str):
    """A str that is none."""

    __slots__ = ()


class Table(dict[str, Any]):
    """A dict that is none."""


class Row(list[Any]):
    """A list that is none."""


def typed(value: Any) -> Any:
    """Tell values apart as JSON does: types first, keys in any order, one zero."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    return type(value).__name__, value


def nested(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


REFUSED = [
    (np.float32(0.1), "numpy.float32", ".item()"),
    (np.float64(0.1), "numpy.float64", ".item()"),
    (np.int64(1), "numpy.int64", ".item()"),
    (np.bool_(1), "numpy.bool", ".item()"),
    (np.zeros(2), "numpy.ndarray", ".tolist()"),
    (dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc), "datetime.datetime", ".isoformat()"),
    (dt.date(2026, 1, 2), "datetime.date", ".isoformat()"),
    (dt.timedelta(1), "datetime.timedelta", ".total_seconds()"),
    (pathlib.PurePosixPath("a"), "pathlib.PurePosixPath", "str()"),
    (pathlib.Path("a"), "pathlib.PosixPath", "str()"),
    (uuid.UUID(int=1), "uuid.UUID", "str()"),
    (Colour.RED, "Colour", ".value"),
    (Level.LOW, "Level", "int()"),
    (Name("x"), "Name", "str()"),
    (Table(), "Table", "dict()"),
    (Row(), "Row", "list()"),
    (decimal.Decimal("0.1"), "decimal.Decimal", "str()"),
    (b"x", "bytes", "base64"),
    (bytearray(b"x"), "bytearray", "base64"),
    ({1}, "set", "sorted list"),
    (frozenset({1}), "frozenset", "sorted list"),
    (object(), "object", "JSON types"),
    (math.nan, "float", "null"),
    (math.inf, "float", "inf"),
    (-math.inf, "float", "-inf"),
    (2**64, "int", "64 bits"),
    (-(2**63) - 1, "int", "64 bits"),
    ("\ud800", "str", "lone surrogate"),
    ({"a\udfff": 1}, "str", "lone surrogate"),
    ({1: 2}, "int", "keys are strings"),
    ({None: 2}, "NoneType", "keys are strings"),
    ({Name("x"): 2}, "Name", "keys are strings"),
    (nested(101), "100 levels", "holds itself"),
    (nested(10_000), "100 levels", "holds itself"),
    (cyclic(), "100 levels", "holds itself"),
]


@pytest.mark.parametrize("check", [canonical, checked])
@pytest.mark.parametrize(("value", "kind", "remedy"), REFUSED, ids=[f"{kind}-{at}" for at, (_, kind, _) in enumerate(REFUSED)])
def test_what_is_no_json_is_refused_with_its_type_and_a_remedy(check: Any, value: Any, kind: str, remedy: str) -> None:
    """R176."""
    with pytest.raises(NotRecordable) as refusal:
        check(value)
    assert kind in str(refusal.value)
    assert remedy in str(refusal.value)


@pytest.mark.parametrize("check", [canonical, checked])
def test_a_refusal_names_the_place(check: Any) -> None:
    with pytest.raises(NotRecordable, match=r"^args\[1\]\.when\[\"odd key\"\]\[0\] is of type set, which is not JSON"):
        check(["fine", {"when": {"fine": 1, "odd key": [{1}]}}], "args")


def test_a_refusal_of_an_endless_value_has_a_short_path() -> None:
    with pytest.raises(NotRecordable) as refusal:
        canonical(cyclic())
    assert str(refusal.value).startswith("$[0].again[0].again…[0].again[0].again is nested deeper")


KEPT = [None, True, False, 0, -(2**63), 2**64 - 1, 0.1 + 0.2, 1e308, 5e-324, "", "é\U0001f600\x00\u2028", [], {}, [[1], {"a": None}], {"": 0}, nested(100)]


@pytest.mark.parametrize("value", KEPT, ids=lambda value: short(value, 20))
def test_json_is_kept_with_its_types(value: Any) -> None:
    """R176: 0.1 + 0.2 is not 0.3, 1 is not True."""
    assert typed(canonical(value)) == typed(value)
    assert checked(value) is value
    assert typed(decode(encode(value))) == typed(value)


def test_canonical_makes_lists_of_tuples_and_one_zero() -> None:
    assert canonical((1, [(-0.0,)], {"a": (-0.0,)})) == [1, [[0.0]], {"a": [0.0]}]
    assert math.copysign(1, canonical([-0.0])[0]) == 1
    assert math.copysign(1, canonical(-1.5)) == -1


def test_checked_refuses_a_tuple_and_keeps_the_negative_zero() -> None:
    with pytest.raises(NotRecordable, match=r"\$\[0\] is of type tuple.*give a list"):
        checked([(1,)])
    value = [-0.0]
    assert checked(value) is value
    assert math.copysign(1, value[0]) == -1


def test_canonical_copies() -> None:
    value = [{"a": [1]}]
    copied = canonical(value)
    value[0]["a"].append(2)
    assert copied == [{"a": [1]}]


@settings(deadline=None)
@given(VALUES)
def test_any_json_comes_back_with_its_types(value: Any) -> None:
    assert typed(decode(encode(value))) == typed(value)
    assert typed(decode(encode(value).decode())) == typed(value)
    assert checked(value) is value
    assert typed(canonical(value)) == typed(value)
    assert list(canonical({"b": 1, "a": value})) == ["b", "a"]


def test_json_is_compact_utf8_with_keys_in_their_order() -> None:
    assert encode({"b": [1, 2.0, None, True], "a": 'é\n"\\'}) == '{"b":[1,2.0,null,true],"a":"é\\n\\"\\\\"}'.encode()


def test_encode_trusts_its_value_where_checked_looks() -> None:
    assert encode([Table(a=1), Row([1]), Name("x"), Colour.RED, math.nan]) == b'[{"a":1},[1],"x","red",null]'


def test_a_frozen_dataclass_is_written_as_an_object() -> None:
    @dataclass(frozen=True)
    class Hit:
        key: str
        scores: tuple[float, ...]

    assert encode([Hit("a", (0.5, 1.0))]) == b'[{"key":"a","scores":[0.5,1.0]}]'
    with pytest.raises(NotRecordable, match=r"^\$\.hits\[0\]\.scores\[1\] \(type builtins\.complex\)|^\$\.hits\[0\]\.scores\[1\] \(type complex\)"):
        encode({"hits": [Hit("a", (0.5, 1j))]})  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "place"), [
    ({"a": [1, {"when": dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)}]}, r"\$\.a\[1\]\.when \(type datetime\.datetime\)"),
    ([{1: 2}], r"\$\[0\] \(type dict\) .*[Kk]ey"), ([2**64], r"\$\[0\] \(type int\)"), ({"k": "\ud800"}, r"\$\.k \(type str\)"),
    ({"k": decimal.Decimal(1)}, r"\$\.k \(type decimal\.Decimal\)"), (cyclic(), r"\$\[0\]\.again"), (nested(10_000), r"\$\[0\]\[0\]"), ([object], r"\$\[0\] \(type type\)"),
])
def test_what_cannot_be_written_is_named_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(NotRecordable, match=f"^{place}"):
        encode(value)
    with pytest.raises(NotRecordable):
        match_key(value if value != [2**64] else [{1: 2**64}])


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**19, -(10**19), 10**100, 12345678901234567890123])
@pytest.mark.parametrize("pattern", ["%d", "[%d]", '{"a":%d,"b":[1.5]}', ' { "a" : [ %d ] }\n', '{"id":"1234567890123456789012","n":%d}'])
def test_integers_of_any_size_stay_integers(number: int, pattern: str) -> None:
    text = pattern % number
    assert typed(decode(text)) == typed(json.loads(text))
    assert str(number) in repr(decode(text.encode()))


@pytest.mark.parametrize("text", ["0.1234567890123456789012", "[12345678901234567890.5,1e25]", '"123456789012345678901234567890"', "1234567890123456789"])
def test_long_digits_that_are_no_long_integer_read_as_ever(text: str) -> None:
    assert typed(decode(text)) == typed(json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", "[Infinity]", '"\\ud800"', b'"\xff"', "{'a':1}", "1 2", "01", '"a\nb"', "[" * 5000 + "]" * 5000, "\ud800",
                                  "9" * 5000])
def test_what_is_no_json_text_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(text)


@pytest.mark.parametrize("levels", [250, 400, 1000])
def test_a_deep_text_is_read_or_refused_but_no_recursion_error(levels: int) -> None:
    def read(bottom: str) -> Any:
        try:
            value = decode("[" * levels + bottom + "]" * levels)
        except ValueError as error:
            return str(error)
        for _ in range(levels):
            (value,) = value
        return value

    assert read("1") == 1
    assert read("9" * 30) in {int("9" * 30), "nested too deep"}


DIFFERENT = [None, True, False, 1, 0, 1.0, 0.0, "1", "", "true", "null", [], {}, [1], [1.0], [True], ["1"], {"a": 1}, {"a": 1.0}, {"a": True}, [[1]], 2**53, float(2**53),
             10**16, 1e16, 2**64, float(2**64), -(2**63) - 1, "18446744073709551616", {"a": None}, [None], 1.5, "1.5", [2**64, 0.0], [2**64, 0]]


def test_values_that_json_tells_apart_have_different_keys() -> None:
    """R176: True, 1, 1.0 and "1" are four values."""
    keys = {match_key(value) for value in DIFFERENT}
    assert len(keys) == len(DIFFERENT)


@pytest.mark.parametrize(("one", "other"), [
    ({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1}), (-0.0, 0.0), ([{"a": -0.0}], [{"a": 0.0}]), ([1, (2,)], [1, [2]]),
    ({"b": 2**64, "a": -0.0}, {"a": 0.0, "b": 2**64}), (["-0.0", -0.0, (-0.0,)], ["-0.0", 0.0, [0.0]]), ({"é": 1, "z": 2}, {"z": 2, "é": 1}),
])
def test_values_that_are_one_json_have_one_key(one: Any, other: Any) -> None:
    """R178: canonical forms are compared, not bytes."""
    assert match_key(one) == match_key(other)


def test_a_key_of_a_deep_value_with_long_integers_is_made_or_refused() -> None:
    with pytest.raises(NotRecordable):
        match_key([2**64, nested(100_000)])
    with pytest.raises(NotRecordable):
        match_key([2**64, {1: 1, "a": 2}])
    with pytest.raises(NotRecordable):
        match_key([2**64, math.nan])


@settings(deadline=None)
@given(VALUES, VALUES)
def test_two_values_have_one_key_exactly_when_they_are_one_json(one: Any, other: Any) -> None:
    same = typed(one) == typed(other)
    assert (match_key(one) == match_key(other)) is same
    assert (first_difference(one, other) is None) is same
    assert match_key(canonical(one)) == match_key(one)


@settings(deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_keys_is_none_of_a_value(value: Any, random: Any) -> None:
    def shuffled(part: Any) -> Any:
        if isinstance(part, dict):
            items = [(key, shuffled(inner)) for key, inner in part.items()]
            random.shuffle(items)
            return dict(items)
        return [shuffled(inner) for inner in part] if isinstance(part, list) else part

    assert match_key(shuffled(value)) == match_key(value)
    assert first_difference(shuffled(value), value) is None


@pytest.mark.parametrize(("left", "right", "difference"), [
    (1, 1, None),
    (1, 2, ("$", 1, 2)),
    (1, True, ("$", 1, True)),
    (1, 1.0, ("$", 1, 1.0)),
    (0.0, -0.0, None),
    ("1", 1, ("$", "1", 1)),
    (None, False, ("$", None, False)),
    ([1, 2], [1, 2, 3], ("$[2]", MISSING, 3)),
    ([1, 2, 3], [1], ("$[1]", 2, MISSING)),
    ([], {}, ("$", [], {})),
    ({"a": 1}, {}, ("$.a", 1, MISSING)),
    ({}, {"a": None}, ("$.a", MISSING, None)),
    ({"a": None}, {}, ("$.a", None, MISSING)),
    ({"odd key": 1}, {"odd key": 2}, ('$["odd key"]', 1, 2)),
    ({"": 1}, {"": 2}, ('$[""]', 1, 2)),
    ({'a"b': 1}, {'a"b': 2}, ('$["a\\"b"]', 1, 2)),
    ({"é": 1}, {"é": 2}, ('$["é"]', 1, 2)),
    ({"1a": 1}, {"1a": 2}, ('$["1a"]', 1, 2)),
    (["q", {"limit": 5, "deep": [0, {"x": [1]}]}, 2], ["q", {"limit": 5, "deep": [0, {"x": [2]}]}, 3], ("$[1].deep[1].x[0]", 1, 2)),
    ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ("$.b", 1, 2)),
    ({"a": 1, "z": 1}, {"a": 1, "new": 1, "z": 2}, ("$.z", 1, 2)),
    ({"a": 1}, {"a": 1, "new": 1, "newer": 2}, ("$.new", MISSING, 1)),
])
def test_the_first_difference(left: Any, right: Any, difference: tuple[str, Any, Any] | None) -> None:
    found = first_difference(left, right)
    if difference is None:
        assert found is None
    else:
        assert found == Difference(*difference)
        assert isinstance(found, Difference)
        assert (type(found.left), type(found.right)) == (type(difference[1]), type(difference[2]))


@settings(deadline=None)
@given(VALUES)
def test_a_value_does_not_differ_from_its_copy(value: Any) -> None:
    assert first_difference(value, copy.deepcopy(value)) is None


def test_a_difference_far_down_is_found_without_recursion() -> None:
    left, right = nested(5000), nested(5001)
    found = first_difference(left, right)
    assert found is not None
    assert found.path == "$[0][0][0][0]…[0][0][0][0]"
    assert (found.left, found.right) == ("bottom", ["bottom"])


def test_a_path_that_is_long_keeps_its_ends() -> None:
    assert path_of([]) == "$"
    assert path_of(["a", 1, "b c"], "args") == 'args.a[1]["b c"]'
    assert path_of(list(range(8))) == "$[0][1][2][3][4][5][6][7]"
    assert path_of(list(range(9))) == "$[0][1][2][3]…[5][6][7][8]"


@pytest.mark.parametrize(("value", "text"), [
    ({"a": [1, "é"]}, '{"a":[1,"é"]}'), ("a\nb\x7f\u202e\u2028", '"a\\nb\\u007f\\u202e\\u2028"'), (MISSING, "(absent)"), ({1}, "{1}"), ("\ud800", "'\\ud800'"),
    (float("inf"), "null"), (Row([1]), "[1]"),
])
def test_a_short_text_is_json_on_one_line(value: Any, text: str) -> None:
    assert short(value) == text


def test_a_short_text_is_cut_in_the_middle() -> None:
    text = short("a" * 1000 + "z" * 1000, 20)
    assert len(text) == 20
    assert text.startswith('"aaaa')
    assert text.endswith('zzzz"')
    assert text.count("…") == 1
    assert short("x" * 18, 20) == '"' + "x" * 18 + '"'
    assert len(short("x" * 19, 20)) == 20


@settings(deadline=None)
@given(st.recursive(st.text() | st.integers() | st.floats() | st.binary(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5),
       st.integers(10, 100))
def test_a_short_text_of_anything_is_printable_and_short(value: Any, width: int) -> None:
    text = short(value, width)
    assert text.isprintable()
    assert len(text) <= width
