"""Forms: closed, strict, and the same as the JSON Schema that is made of them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import certified
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.forms import Flag, ListOf, Members, OneOf, OrNull, Text, Whole, pointer

VALIDATOR = jsonschema.Draft202012Validator(fmt.json_schema())
BAD: list[Any] = [None, True, 0, -1, 1.5, 2**53, "", "x", "A" * 64, [], {}, [None], {"x": 1}, "2026-02-30T00:00:00Z", "0.5", "-0.000000000", "1.000001"]


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place of a JSON value but its root."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for step, part in inner for place in ((*path, step), *places(part, (*path, step)))]


def test_an_envelope_has_the_form() -> None:
    envelope = certified.envelope()
    assert fmt.ENVELOPE.departs(envelope) is None
    VALIDATOR.validate(envelope)
    assert fmt.ENVELOPE.departs({**envelope, "receipt": "x"}) is None


@settings(max_examples=160, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(BAD), st.sampled_from(["exchange", "delete", "add"]))
def test_the_schema_and_the_form_say_the_same_of_any_change(rng: random.Random, bad: Any, act: str) -> None:
    envelope = certified.envelope()
    *path, last = rng.choice(places(envelope))
    at: Any = envelope
    for step in path:
        at = at[step]
    if act == "exchange":
        at[last] = copy.deepcopy(bad)
    elif act == "delete":
        del at[last]
    elif isinstance(at, dict):
        at["unknown"] = bad
    departs = fmt.ENVELOPE.departs(envelope)
    allowed = VALIDATOR.is_valid(envelope)
    if departs is None:
        assert allowed
    elif allowed:  # what a schema cannot say: real dates, sorted lists, lengths in bytes
        assert departs[-1] in ("issued_at", "expires_at", "labels", "signature")


@pytest.mark.parametrize("path", places(certified.envelope()), ids=pointer)
def test_no_member_may_lack_be_null_or_be_of_another_type(path: tuple[str | int, ...]) -> None:
    envelope = certified.envelope()
    at: Any = envelope
    for step in path[:-1]:
        at = at[step]
    kept = at[path[-1]]
    for wrong in (1.5, [kept], {"value": kept}):
        assert fmt.ENVELOPE.departs(certified.edited(envelope, path, wrong)) is not None
    if isinstance(at, dict):
        del at[path[-1]]
        assert fmt.ENVELOPE.departs(envelope) == path


@pytest.mark.parametrize(("form", "good", "bad"), [
    (Text(1, 3), ["a", "abc", "\U0001f600" * 3], ["", "abcd", 1, None, b"a"]), (Text(pattern="[a-c]+"), ["abc"], ["", "abd", "abc\n", "\u0430"]),
    (Text(is_fit=str.isupper), ["A"], ["a", ""]), (Whole(1, 5), [1, 5], [0, 6, True, 1.0, "1", None]), (Flag(), [True, False], [0, 1, None, "true"]),
    (OneOf(("a", "b")), ["a"], ["c", None, 1, ["a"]]), (OrNull(Whole()), [None, 3], ["3", -1]), (ListOf(Flag(), 2, 1), [[True], [True, False]], [[], [True] * 3, (True,), {}, [1]]),
    (ListOf(Whole(), 9, 0, lambda numbers: sum(numbers) < 9), [[], [1, 2]], [[9]]),
    (Members({"a": Flag()}, {"b": Flag()}), [{"a": True}, {"a": True, "b": False}], [{}, {"b": True}, {"a": True, "c": 1}, {"a": None}, {"a": True, "b": 1}, [], None]),
])
def test_each_form_takes_what_it_says_and_nothing_else(form: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if form.departs(value) is not None] == []
    assert [value for value in bad if form.departs(value) is None] == []


def test_a_member_that_is_not_of_the_form_is_not_quoted() -> None:
    assert fmt.ENVELOPE.departs({**certified.envelope(), "The answer is 42": 1}) == ()
    assert fmt.ENVELOPE.departs(certified.edited(certified.envelope(), ("certificate", "query", "Believe me"), 1)) == ("certificate", "query")


def test_where_a_value_departs_is_said_as_a_pointer() -> None:
    form = Members({"a/b": ListOf(Members({"~": Flag()}), 3)})
    departs = form.departs({"a/b": [{"~": True}, {"~": 1}]})
    assert departs is not None
    assert pointer(departs) == "/a~1b/1/~0"
    assert pointer(()) == ""


@pytest.mark.parametrize(("text", "real"), [
    ("2026-12-01T12:00:00Z", True), ("2024-02-29T23:59:59Z", True), ("1970-01-01T00:00:00Z", True), ("9999-12-31T23:59:59Z", True),
    ("2026-02-29T00:00:00Z", False), ("2026-13-01T00:00:00Z", False), ("2026-12-01T24:00:00Z", False), ("2026-12-01T23:60:00Z", False), ("2026-12-01T12:00:60Z", False),
    ("1969-12-31T23:59:59Z", False), ("0000-01-01T00:00:00Z", False), ("2026-12-01 12:00:00Z", False), ("2026-12-01T12:00:00z", False),
    ("2026-1-01T12:00:00Z", False), ("٢٠٢٦-12-01T12:00:00Z", False), ("2026-12-01T12:00:00Z\n", False), ("2026-12-01T12:00:00+00:00", False),
])
def test_times_are_real_and_of_one_form(text: str, real: bool) -> None:
    form = fmt.BODY.always["issued_at"]
    assert (form.departs(text) is None) == real


def test_the_published_schema_is_the_one_that_is_made(request: pytest.FixtureRequest) -> None:
    published = json.loads((request.config.rootpath / "vectors" / "answer-certificate-v1.schema.json").read_bytes())
    assert published == fmt.json_schema()
