"""The kinds of events: the table holds what the format says, and a misshapen event is named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import spec_validator

from replay.tracefile.events import KINDS, METADATA_KINDS, REQUESTS, ordered, problem_in, problem_of

SAMPLES: dict[str, Any] = {"string": "text", "bool": True, "unsigned": 7, "integer": -7, "number": 0.5, "array": [1], "any": {"k": None}}


def sample(kind: str, *, optional: bool = True) -> dict[str, Any]:
    """Make a well-shaped event of a kind."""
    event: dict[str, Any] = {"kind": kind, "ts_ms": 1, "run_id": "run-1"}
    return {**event, **{field.name: SAMPLES[field.type] for field in KINDS[kind].fields if optional or field.required}}


def test_the_table_is_that_of_the_format() -> None:
    """Row 28: the recorder's table and the independent one name the same kinds, fields and optional fields, in the same order."""
    assert list(KINDS) == list(spec_validator.KINDS)
    for kind, fields in spec_validator.KINDS.items():
        assert [field.name for field in KINDS[kind].fields] == [name for name, _ in fields], kind
        assert set(KINDS[kind].optional) == {name for name, mark in fields if mark == "?"}, kind
        assert {field.name for field in KINDS[kind].fields if field.type == "array"} >= {name for name, mark in fields if mark == "[]"}, kind


@pytest.mark.parametrize("kind", list(KINDS))
def test_both_judges_accept_every_kind(kind: str) -> None:
    for optional in (True, False):
        event = sample(kind, optional=optional)
        assert problem_of(event) == ""
        assert spec_validator.event_violations(event) == []


@pytest.mark.parametrize("kind", list(KINDS))
def test_both_judges_agree_on_each_field_with_each_type(kind: str) -> None:
    for field, value in itertools.product(KINDS[kind].fields, [None, True, -1, 1.5, 2**64, "text", ["a"], {"a": 1}]):
        event = {**sample(kind), field.name: value}
        ours, theirs = problem_of(event), spec_validator.event_violations(event)
        assert bool(ours) == bool(theirs), (field.name, ours, theirs)
        assert ours == "" or ours.startswith(f"{kind}: {field.name} must be ")


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_missing_field_is_named_and_an_optional_one_may_be_missing_or_null(kind: str) -> None:
    for name in KINDS[kind].required:
        assert problem_of({key: value for key, value in sample(kind).items() if key != name}) == f"{kind}: {name} is missing"
    assert problem_of({**sample(kind), **dict.fromkeys(KINDS[kind].optional)}) == ""


@pytest.mark.parametrize(("event", "problem"), [
    ({}, "kind is missing"),
    ({"kind": 1}, "kind must be a string, it is a number"),
    ({"kind": "tool_call"}, "tool_call: ts_ms is missing"),
    ({"kind": "tool_call", "ts_ms": -1}, "tool_call: ts_ms must be a whole number from 0 to 2^64-1, it is a number"),
    ({"kind": "tool_call", "ts_ms": 2**64 - 1}, "tool_call: run_id is missing"),
    ({"kind": "tool_call", "ts_ms": 2**64}, "tool_call: ts_ms must be a whole number from 0 to 2^64-1, it is a number"),
    ({"kind": "tool_call", "ts_ms": 1, "run_id": None}, "tool_call: run_id must be a string, it is null"),
    ({"kind": "from_the_future"}, ""),
])
def test_what_every_event_has(event: dict[str, Any], problem: str) -> None:
    """Row 26 among them: ts_ms fits 64 bits."""
    assert problem_of(event) == problem


def test_a_bool_is_no_number() -> None:
    assert problem_in("seed_read", {"purpose": "p", "value": True}) == "seed_read: value must be a whole number from 0 to 2^64-1, it is a boolean"


def test_a_type_outside_json_is_named_by_its_class() -> None:
    assert problem_in("tool_call", {"tool": b"t", "args": []}) == "tool_call: tool must be a string, it is bytes"


def test_a_request_says_where_name_and_result_stand() -> None:
    for request in REQUESTS.values():
        assert {request.name_field, "args"} <= set(KINDS[request.call_event].required)
        assert {request.name_field, request.result_field} <= set(KINDS[request.result_event].required)
        assert problem_in(request.result_event, {request.name_field: "n", request.result_field: request.without}) == ""


def test_what_a_replay_passes_over_are_known_kinds_and_no_calls() -> None:
    assert set(KINDS) > METADATA_KINDS
    assert METADATA_KINDS.isdisjoint({"clock_read", "seed_read", "approval_decision"})
    assert METADATA_KINDS.isdisjoint({request.call_event for request in REQUESTS.values()})


def test_fields_are_put_in_the_order_of_the_table_and_others_behind_them() -> None:
    fields = {"call": 3, "result": 1, "facts": {}, "tool": "t"}
    assert list(ordered("tool_result", fields)) == ["tool", "result", "call", "facts"]
