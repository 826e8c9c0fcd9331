"""Parameters, row by row of the contract's table of limits and defaults (RAG service contract §1.3, §1.4)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures.params import Params


@pytest.mark.parametrize(("value", "taken"), [
    (1, 1), (7, 7), (10, 10), (100, 100), (0, 10), (-1, 10), (101, 10), (2**63 - 1, 10), (-2**63, 10), (7.0, 10), (7.5, 10), (None, 10),
    ("7", 10), (b"7", 10), ("", 10), ([7], 10), ({}, 10), (True, 10),
])
def test_top_k_is_an_integer_of_1_to_100_and_anything_else_is_10(value: Any, taken: int) -> None:
    assert Params({"top_k": value}).top_k() == taken
    assert Params({b"top_k": value}).top_k() == taken


@pytest.mark.parametrize(("value", "taken"), [
    (0, 0), (1, 1), (1000, 1000), (2**63 - 1, 2**63 - 1), (2**70, 2**63 - 1), (-1, 0), (7.0, 0), (None, 0), ("12", 12), (b"12", 12), ("+12", 12),
    ("-12", 0), ("007", 7), ("9" * 30, 2**63 - 1), ("9" * 5000, 0), ("", 0), (" 12", 0), ("12 ", 0), ("1_0", 0), ("0x1", 0), ("1.0", 0), ("٣", 0), (b"\xff", 0),
    ([1], 0), (True, 0),
])
def test_b22_an_offset_is_an_integer_or_its_digits_and_anything_else_is_0(value: Any, taken: int) -> None:
    assert Params({"offset": value}).offset() == taken


@pytest.mark.parametrize(("value", "taken"), [
    (1, 1), (50, 50), (200, 200), (201, 200), (500, 200), (2**70, 200), (0, 50), (-5, 50), (7.0, 50), (None, 50), ("7", 7), (b"7", 7), ("500", 200),
    ("0", 50), ("-3", 50), ("seven", 50), ([], 50), (True, 50),
])
def test_b22_a_limit_is_clamped_where_it_is_too_high_and_the_default_where_it_is_none(value: Any, taken: int) -> None:
    assert Params({"limit": value}).limit(50, 200) == taken


def test_what_is_absent_has_its_default() -> None:
    for payload in (None, {}, [], "text", b"bytes", 7, 7.5):
        params = Params(payload)
        assert (params.top_k(), params.offset(), params.limit(50, 200)) == (10, 0, 50)
        assert (params.text("query_text"), params.texts("topics"), params.vector("query_vector", 3)) == (None, None, None)
        assert params.is_map == isinstance(payload, dict)


# --- text ---

@pytest.mark.parametrize("key", ["text", b"text"])
@pytest.mark.parametrize(("value", "read"), [
    ("owl", "owl"), (b"owl", "owl"), (bytearray(b"owl"), "owl"), ("Eule 🦉".encode(), "Eule 🦉"), ("", ""), (b"", ""), (None, None), (7, None),
    (["owl"], None), ({"text": "owl"}, None), (b"\xff", None), ("\ud800", None),
])
def test_b20_b21_keys_and_strings_come_as_text_or_bytes(key: str | bytes, value: Any, read: str | None) -> None:
    assert Params({key: value}).text("text") == read


def test_b20_of_a_key_in_both_forms_the_text_counts() -> None:
    assert Params({b"text": "bytes", "text": "text"}).text("text") == "text"


def test_b20_an_extra_key_of_any_kind_does_no_harm() -> None:
    assert Params({7: 1, None: 2, b"\xff": 3, "text": "owl"}).text("text") == "owl"


@pytest.mark.parametrize("value", [None, "", b"", 7, [], b"\xff"])
def test_what_is_required_is_refused_by_its_name_where_it_is_missing(value: Any) -> None:
    with pytest.raises(Refusal) as caught:
        Params({"source_path": value}).required("source_path", "missing_source_path")
    assert caught.value.detail == "missing_source_path"


@pytest.mark.parametrize(("value", "read"), [
    (["a", b"b"], ("a", "b")), (("a",), ("a",)), ([], ()), (None, None), ("a", None), (b"a", None), ({"a": 1}, None), (7, None),
])
def test_b31_a_list_of_texts_is_read_and_what_is_no_list_is_absent(value: Any, read: tuple[str, ...] | None) -> None:
    assert Params({b"topics": value}).texts("topics") == read


@pytest.mark.parametrize("element", [None, 7, ["a"], b"\xff", "\ud800"])
def test_a_list_with_something_else_than_texts_is_refused(element: Any) -> None:
    with pytest.raises(Refusal, match=r"^bad_params: topics\[1\] is no text$"):
        Params({"topics": ["a", element]}).texts("topics")


# --- vectors ---

@pytest.mark.parametrize("value", ["text", b"bytes", {"0": 1}, 7, None])
def test_a_vector_that_is_no_list_is_ignored(value: Any) -> None:
    assert Params({"query_vector": value}).vector("query_vector", 3) is None


@pytest.mark.parametrize("length", [0, 1, 2, 4, 768])
def test_b12_a_vector_of_another_length_is_refused_with_both_lengths(length: int) -> None:
    with pytest.raises(Refusal) as caught:
        Params({"query_vector": [0.5] * length}).vector("query_vector", 3)
    assert (caught.value.name, caught.value.parts) == ("dimension_mismatch", (3, length))
    assert caught.value.detail == f"dimension_mismatch: expected 3 numbers, got {length}"


def test_b12_the_length_is_looked_at_before_the_elements() -> None:
    with pytest.raises(Refusal, match=r"^dimension_mismatch"):
        Params({"query_vector": ["a", None]}).vector("query_vector", 3)


@pytest.mark.parametrize("element", ["0.5", None, [], True, float("nan"), float("inf"), 10**400, b"1"])
def test_a_vector_of_something_else_than_finite_numbers_is_refused(element: Any) -> None:
    with pytest.raises(Refusal, match=r"^bad_params: query_vector\[2\] is no finite number$"):
        Params({"query_vector": [0.5, 1, element]}).vector("query_vector", 3)


def test_integers_and_floats_may_mix() -> None:
    vector = Params({b"query_vector": (1, -0.0, 2**62)}).vector("query_vector", 3)
    assert vector == [1.0, -0.0, float(2**62)]
    assert set(map(type, vector or [])) == {float}


ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
                        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.binary() | st.integers(), inner))


@settings(max_examples=40)
@given(ANYTHING, ANYTHING)
def test_nothing_that_can_be_sent_is_more_than_refused(payload: Any, value: Any) -> None:
    for params in (Params(payload), Params({"top_k": value, "offset": value, "limit": value, "text": value, "list": value})):
        assert 1 <= params.top_k() <= 100
        assert 0 <= params.offset() < 2**63
        assert 1 <= params.limit(50, 200) <= 200
        params.text("text")
        with suppress(Refusal):
            params.texts("list")
        with suppress(Refusal):
            params.vector("list", 2)
