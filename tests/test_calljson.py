"""Arguments and results as JSON: exact types, nothing confused with anything else, and there and back."""

from __future__ import annotations

import hashlib
import json
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib import (
    CheckReport,
    ChunkOptions,
    EffectEnvelope,
    Err,
    IndexStats,
    Ok,
    QueryOptions,
    RagChunkEnvelope,
    RagDocumentEnvelope,
    RagError,
    SourceDocument,
)
from rag_stdlib.calljson import argument, as_it_is, decode, ranking
from rag_stdlib.errors import rag_error
from rag_stdlib.records import FrozenDict, Record
from rag_stdlib.result import to_json
from replay.jsontext import canonical


class Name(str, Enum):
    """A string of another type."""

    A = "text of a"


class Size(IntEnum):
    """A whole number of another type."""

    TEN = 10


@pytest.mark.parametrize(("given_value", "wanted"), [
    ("a", "a"), ("é\u2028", "é\u2028"), (5, 5), (True, True), (None, None), (1.5, 1.5), (2**64 - 1, 2**64 - 1), (-2**63, -2**63),
    (Name.A, "text of a"), (Size.TEN, 10), (np.float64(0.5), 0.5), ((1, "b"), [1, "b"]), ({"a": (None,)}, {"a": [None]}),
    (ChunkOptions(markdown=True), {"end_boundary": False, "graphemes": False, "cjk_stops": False, "markdown": True}),
    (float("nan"), {"not_json": "nan"}), (np.float64("-inf"), {"not_json": "-inf"}), (b"x", {"not_json": "bytes"}),
    (np.int64(3), {"not_json": "int64"}), ({1, 2}, {"not_json": "set"}),
])
def test_arguments_become_json_of_exact_types(given_value: Any, wanted: Any) -> None:
    made = argument(given_value)
    assert made == wanted
    assert type(made) is type(wanted)
    assert canonical(made) == made


def test_a_record_is_an_object_of_its_fields() -> None:
    document = SourceDocument("d", "s", "t", metadata={"n": 1}, lines=((0, 1), (5, 9)))
    assert argument(document) == json.loads(json.dumps(document.to_dict()))
    assert argument(QueryOptions(metadata={"a": (1, "b")}))["metadata"] == {"a": [1, "b"]}


def test_what_json_cannot_hold_is_told_apart_by_its_bytes() -> None:
    one, other = argument("ab\ud800c"), argument("ab\udfffc")
    assert one["not_json"] == other["not_json"] == "str with a lone surrogate at character 2"
    assert one["sha256"] != other["sha256"]
    assert one["sha256"] == hashlib.sha256(b"ab\xed\xa0\x80c").hexdigest()
    large = [argument(number) for number in (2**64, 2**64 + 1, -2**63 - 1, -2**64, 10**5000)]
    assert [value["not_json"] for value in large] == ["int of 65 bits", "int of 65 bits", "int of 64 bits", "int of 65 bits", "int of 16610 bits"]
    assert len({value["sha256"] for value in large}) == 5
    assert argument({"n": 2**70})["n"]["not_json"] == "int of 71 bits"


def test_keys_that_are_no_json_lose_nothing() -> None:
    made = argument({1: "a", "1": "b", "\ud800": "c"})
    assert made["not_json"] == "dict with keys that are no JSON strings"
    assert made["items"] == [[1, "a"], ["1", "b"], [argument("\ud800"), "c"]]
    assert canonical(made) == made
    assert argument({Name.A: 1}) == {"text of a": 1}


def test_a_value_that_holds_itself_ends_somewhere() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert canonical(argument(endless)) is not None
    deep = argument({"a": endless})
    for _ in range(32):
        deep = deep["a"] if isinstance(deep, dict) else deep[0]
    assert deep == {"not_json": "list"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2**80, 2**80) | st.floats() | st.text() | st.text(st.characters(categories=["Cs", "Lu"])) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8)


@settings(deadline=None)
@given(anything)
def test_whatever_comes_becomes_json(value: Any) -> None:
    made = argument(value)
    assert canonical(made) == made
    assert orjson.loads(orjson.dumps(made)) == made


scalars = st.none() | st.booleans() | st.integers(-2**63, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
metadata = st.dictionaries(texts, scalars, max_size=3)
numbers = st.integers(0, 2**63 - 1)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False)
effects = st.builds(EffectEnvelope, texts, texts, texts, texts, texts)
chunks = st.builds(RagChunkEnvelope, texts, texts, texts, texts, numbers, numbers, texts, effects, numbers, numbers, numbers, numbers, numbers, texts,
                   scores, st.sampled_from([None, "hybrid", "vector", "lexical"]), scores, scores, st.none() | numbers, metadata)
documents = st.builds(RagDocumentEnvelope, texts, texts, texts, texts, effects, metadata, texts, numbers)
reports = st.builds(CheckReport, numbers, numbers, numbers, st.lists(texts, max_size=2).map(tuple), st.lists(texts, max_size=2).map(tuple))
figures = st.builds(IndexStats, *[numbers] * 8, texts, texts, texts, st.lists(texts, max_size=2).map(tuple), texts)
notes = st.lists(texts, max_size=2).map(tuple)


def with_dicts(value: Any) -> Any:
    """Put what `to_dict` gives in the place of each record."""
    if isinstance(value, Record):
        return value.to_dict()
    return [with_dicts(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.lists(chunks, max_size=3) | documents | reports | figures | chunks | effects, notes)
def test_records_encode_as_their_to_dict_and_come_back_equal(value: Any, remarks: tuple[str, ...]) -> None:
    result = Ok(value, notes=remarks)
    plain = json.dumps(to_json(Ok(with_dicts(value), notes=remarks)), allow_nan=False)
    encoded = orjson.dumps(to_json(result))
    pairs = {"object_pairs_hook": list}
    assert json.loads(encoded, **pairs) == json.loads(plain, **pairs), "the same values in the same order"
    kind = type(value[0]) if isinstance(value, list) and value else type(value)
    make = (lambda items: [kind.from_dict(item) for item in items]) if isinstance(value, list) else kind.from_dict  # type: ignore[attr-defined]
    for text in (encoded, plain):
        back = decode(make, json.loads(text))
        assert back == result
        assert repr(back) == repr(result)
        assert back.notes == remarks  # type: ignore[union-attr]


def test_subclasses_and_tuples_inside_a_record_encode_as_what_they_hold() -> None:
    class Text(str):
        __slots__ = ()

    chunk = RagChunkEnvelope(Name.A, Text("d:0"), "s", "t", 0, Size.TEN, "k", EffectEnvelope("e"), 0, 1, 1, 0, 1, "", 0.5, None, None, None, None,
                             {"tuple": (1, (2,)), "name": Name.A, "in": FrozenDict(a=(1,))})  # type: ignore[dict-item]
    encoded = orjson.dumps(to_json(Ok([chunk])))
    assert json.loads(encoded) == json.loads(json.dumps({"tag": "ok", "value": [chunk.to_dict()]}))


def test_an_err_comes_back_with_its_three_parts() -> None:
    error = rag_error("not_found", kind="document", id="d")
    back = decode(as_it_is, json.loads(orjson.dumps(to_json(Err(error)))))
    assert back == Err(error)
    assert isinstance(back, Err)
    assert (type(back.error), back.error.code, back.error.fix) == (RagError, "not_found", "caller")


def test_a_message_is_always_text() -> None:
    error = rag_error("internal", tool="rag_get", detail="no such \ud800 thing")
    assert "no such \\ud800 thing" in error
    assert orjson.dumps(to_json(Err(error)))


def test_the_ranking_of_a_result_is_read_from_its_json() -> None:
    chunk = {"chunk_id": "d:0", "score": 1.5, "text": "t"}
    assert ranking({"tag": "ok", "value": [chunk, {**chunk, "chunk_id": "d:1", "score": None}]}) == [("d:0", 1.5), ("d:1", None)]
    assert ranking({"tag": "ok", "value": []}) == []
    for other in ({"tag": "err", "err": "m", "code": "c", "fix": "caller"}, {"tag": "ok", "value": 3}, {"tag": "ok", "value": [{"score": 1}]},
                  {"tag": "ok", "value": ["text"]}, {"tag": "ok"}, None, [chunk], "text"):
        assert ranking(other) is None
