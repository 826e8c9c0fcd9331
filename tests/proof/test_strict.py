"""JSON of a certificate: one value for one text, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.strict import MAX_DEPTH, MAX_INTEGER, MalformedJson, parse

PLAIN = st.recursive(st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(st.characters(exclude_categories=["Cs"])),
                     lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
                     max_leaves=20)


@given(PLAIN, st.booleans())
def test_what_was_written_is_read(value: Any, ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=40) | st.text('[]{}",:0123456789.eE+-tfn\\ud8é', max_size=30).map(lambda text: text.encode()))
def test_nothing_else_is_raised(data: bytes) -> None:
    try:
        value = parse(data)
    except MalformedJson as error:
        assert str(error)  # noqa: PT017 - whether it is raised depends on the data
    else:
        assert json.loads(data) == value


@pytest.mark.parametrize(("data", "words"), [
    (b'{"a":1,"a":2}', "twice"), (b'{"a":{"b":1,"b":1}}', "twice"), (b'{"a":1,"\\u0061":2}', "twice"),
    (b"NaN", "none that JSON has"), (b"-Infinity", "none that JSON has"), (b"[1E400]", "beyond what a double holds"), (b"-1e999", "beyond what a double holds"),
    (b"-0", "-0"), (b"9007199254740992", "beyond"), (b"-9007199254740992", "beyond"), (b"1" * 5_000, "beyond"),
    (b'"\\ud800"', "surrogate"), (b'{"\\uDC00":1}', "surrogate"), (b'["\\udc00\\ud800"]', "surrogate"), (b'"\xed\xa0\x80"', "not UTF-8"),
    (b"\xff", "not UTF-8"), (b"\xef\xbb\xbf{}", "byte order mark"), (b"", "no JSON"), (b"{} {}", "no JSON"), (b"[1,]", "no JSON"),
    (b"{'a':1}", "no JSON"), (b"01", "no JSON"), (b'"\n"', "no JSON"), (b'"\\x41"', "no JSON"), (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested"),
    (b"[" * 100_000, "nested"), (b'{"a":' * 100_000, "nested"), (b"]", "no JSON"), (b'"unclosed [[[', "no JSON"),
])
def test_what_readers_differ_in_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(MalformedJson, match=words):
        parse(data)


@pytest.mark.parametrize(("data", "value"), [
    (b"9007199254740991", MAX_INTEGER), (b"0", 0), (b"-1", -1), (b' {"a": "\\ud83d\\ude00"} ', {"a": "\U0001f600"}), (b'"\\ud83D\\uDE00"', "\U0001f600"),
    (b'"[[[[\\"{{{{"', '[[[["{{{{'), (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)), (b"null", None), (b"1.0", 1.0), (b"1e3", 1000.0), (b"-0.0", -0.0), (b"[1e-5]", [1e-5]),
    (b'"' + b"[" * 200 + b'"', "[" * 200), (b'"\\u0000"', "\0"),
])
def test_what_all_readers_read_alike_is_taken(data: bytes, value: Any) -> None:
    assert parse(data) == value


def test_what_it_says_quotes_nothing_of_the_input() -> None:
    with pytest.raises(MalformedJson) as caught:
        parse(b'{"secret": nope')
    assert "secret" not in str(caught.value)
