"""What federated nodes tell and ask each other (RAG service contract §4.3, contract tests 5 to 12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from fed_mesh import NOMIC, hit
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.federation.payloads import (
    Embedding,
    ShardAnswer,
    ShardQuery,
    Summary,
    Withdrawn,
    query_topics,
    read_answer,
    read_query,
    read_summary,
    read_withdrawn,
    valid_hit,
)
from rag_stdlib.mesh.wire import pack, unpack

SUMMARY = Summary("s1", NOMIC, ("a/b",), b"\x01\x02", 1_000)
LEAVE = Withdrawn("s1", 1_000)
QUERY = ShardQuery({"text": "federated search", "vector": [0.5, -1.25]}, 3, NOMIC)
ANSWER = ShardAnswer("s1", NOMIC, (hit("h1", 0.5), hit("h2", 1, text="more")))
KINDS: list[tuple[Any, Callable[[object], Any]]] = [
    (SUMMARY, read_summary), (LEAVE, read_withdrawn), (QUERY, read_query), (ANSWER, read_answer)]
WIRE = st.recursive(st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
                    | st.binary(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8)


def over_the_wire(payload: object) -> Any:
    return unpack(pack(payload))


def as_bytes(value: Any, *, keys: bool = False) -> Any:
    """Write every text as a byte string, as a peer does that knows no other; keys too where it is said."""
    if isinstance(value, dict):
        return {name.encode() if keys else name: as_bytes(inner, keys=keys) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_bytes(inner, keys=keys) for inner in value]
    return value.encode() if isinstance(value, str) else value


def test_contract_5_a_summary_has_six_keys_and_reads_back() -> None:
    assert SUMMARY.payload() == {"shard_id": "s1", "model": "nomic-embed-text", "dim": 768, "topics": ["a/b"], "bloom": b"\x01\x02",
                                 "at_ms": 1_000}
    assert read_summary(over_the_wire(SUMMARY.payload())) == SUMMARY


def test_contract_6_a_withdrawal_has_two_keys_and_reads_back() -> None:
    assert LEAVE.payload() == {"shard_id": "s1", "at_ms": 1_000}
    assert read_withdrawn(over_the_wire(LEAVE.payload())) == LEAVE


def test_contract_7_a_query_reads_back_with_text_keys_and_its_floats() -> None:
    read = read_query(over_the_wire(QUERY.payload()))
    assert read == QUERY
    assert read is not None
    assert [type(number) for number in read.query["vector"]] == [float, float]  # type: ignore[attr-defined]
    assert set(QUERY.payload()) == {"query", "top_k", "model", "dim"}


def test_contract_8_an_answer_reads_back_with_what_else_its_hits_carry() -> None:
    assert read_answer(over_the_wire(ANSWER.payload())) == ANSWER
    assert set(ANSWER.payload()) == {"shard_id", "model", "dim", "hits"}


@pytest.mark.parametrize("bad", [{"id": "h"}, {"score": 0.5}, {"id": 7, "score": 0.5}, {"id": "h", "score": "0.5"}, "h", None, [],
                                 {"id": "h", "score": None}, {"id": b"\xff", "score": 1}, {"id": None, "score": 1}])
def test_contract_9_one_hit_that_is_none_makes_the_answer_malformed(bad: Any) -> None:
    payload = {**ANSWER.payload(), "hits": [hit("h1", 0.5), bad]}
    assert read_answer(over_the_wire(payload)) is None


def test_contract_10_a_hit_is_a_map_with_an_id_and_a_number() -> None:
    assert valid_hit({"id": "h", "score": 1})
    assert valid_hit({b"id": b"h", b"score": -0.5})
    assert not valid_hit({"id": "h"})
    assert not valid_hit("h")


@pytest.mark.parametrize("score", [math.nan, math.inf, True, "1", None])
def test_a_score_is_a_finite_number(score: Any) -> None:
    assert not valid_hit({"id": "h", "score": score})


@pytest.mark.parametrize(("made", "read"), KINDS)
def test_contract_11_every_payload_crosses_the_mesh_and_holds_no_boolean(made: Any, read: Callable[[object], Any]) -> None:
    payload = made.payload()
    assert over_the_wire(payload) == payload
    assert read(payload) == made

    def walk(value: Any) -> None:
        assert not isinstance(value, bool)
        for inner in [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []:
            walk(inner)

    walk(payload)


@pytest.mark.parametrize("bad", [{}, [], None, "text", b"bytes", 7, {"shard_id": 7}])
@pytest.mark.parametrize("read", [read for _, read in KINDS])
def test_contract_12_anything_else_is_malformed(bad: Any, read: Callable[[object], Any]) -> None:
    assert read(bad) is None


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize(("made", "read"), KINDS)
def test_byte_strings_are_read_as_text(made: Any, read: Callable[[object], Any], keys: bool) -> None:
    found = read(as_bytes(made.payload(), keys=keys))
    if isinstance(made, ShardQuery):  # the query is the asking node's own map: its keys are text, its values as they came
        assert found == ShardQuery({"text": b"federated search", "vector": [0.5, -1.25]}, 3, NOMIC)
    elif isinstance(made, ShardAnswer):
        assert found.hits == (hit("h1", 0.5), {"id": "h2", "score": 1, "text": b"more"})
        assert found.embedding == NOMIC
    else:
        assert found == made


@pytest.mark.parametrize(("made", "read"), KINDS)
def test_each_key_is_needed_and_further_ones_are_ignored(made: Any, read: Callable[[object], Any]) -> None:
    payload = made.payload()
    assert read({**payload, "later": [1], 7: "seven"}) == made
    for name in payload:
        assert read({key: value for key, value in payload.items() if key != name}) is None, name
        assert read({**payload, name: {"a": 1} if name != "query" else 7}) is None, name


@pytest.mark.parametrize("change", [{"dim": 0}, {"dim": -1}, {"dim": 1.0}, {"dim": True}, {"dim": "768"}, {"model": 7}, {"model": b"\xff"},
                                    {"topics": ["a", 7]}, {"topics": "a"}, {"bloom": "text"}, {"bloom": None}, {"at_ms": 1.5}, {"at_ms": "1"}])
def test_a_summary_with_a_wrong_part_is_malformed(change: dict[str, Any]) -> None:
    assert read_summary({**SUMMARY.payload(), **change}) is None


@pytest.mark.parametrize("top_k", [0, -1, 1.0, "3", None, True])
def test_a_query_asks_for_one_hit_or_more(top_k: Any) -> None:
    assert read_query({**QUERY.payload(), "top_k": top_k}) is None


def test_of_a_hit_what_the_contract_has_as_text_is_text_and_the_rest_is_as_it_came() -> None:
    given_hit = {"id": b"h", "score": 1.0, "content": b"caf\xc3\xa9", "source_path": b"a.md", "vector": b"abc", "also_in": [b"b.md", 7],
                 "provenance": {"kind": b"corpus", "path": b"a.md", "start_line": 1}, "chunk_id": b"\xff"}
    answer = read_answer({**ANSWER.payload(), "hits": [given_hit]})
    assert answer is not None
    assert answer.hits == ({"id": "h", "score": 1.0, "content": "café", "source_path": "a.md", "vector": b"abc", "also_in": ["b.md", 7],
                            "provenance": {"kind": "corpus", "path": "a.md", "start_line": 1}, "chunk_id": b"\xff"},)
    odd = {"id": "h", "score": 1, "provenance": 7, "also_in": b"x", "content": None}
    answer = read_answer({**ANSWER.payload(), "hits": [odd]})
    assert answer is not None
    assert answer.hits == (odd,)


def test_statistics_go_along_where_there_are_any() -> None:
    with_some = ShardAnswer("s1", NOMIC, (), {"documents": 3})
    assert read_answer(over_the_wire(with_some.payload())) == with_some
    for odd in (None, 7, [1], "text"):
        assert read_answer({**ANSWER.payload(), "statistics": odd}) == ANSWER


@pytest.mark.parametrize(("topics", "read"), [(["a", b"b"], ("a", "b")), ([], ()), ("a", ()), (["a", 7], ()), (None, ()), ({"a": 1}, ())])
def test_topics_of_a_query_are_a_list_of_texts(topics: Any, read: tuple[str, ...]) -> None:
    assert query_topics({"topics": topics}) == read


def test_a_query_without_topics_asks_for_none() -> None:
    assert query_topics({}) == ()


def test_an_embedding_is_written_for_people() -> None:
    assert str(Embedding("e5", 384)) == "e5 of dimension 384"


@given(WIRE)
def test_nothing_that_comes_over_the_mesh_raises(value: Any) -> None:
    for made, read in KINDS:
        read(value)
        for name in made.payload():
            read({**made.payload(), name: value})
    read_answer({**ANSWER.payload(), "hits": [value, {"id": value, "score": 1}, {"id": "h", "score": value}]})
