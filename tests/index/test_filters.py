"""R8, R22, R216: filters cut before the best are chosen, in every mode, by JSON type, and are never ignored."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import Err, Ok, QueryOptions, Runtime, SourceDocument, rag_ingest_document, rag_query
from rag_stdlib.records import Mode

PATH = "index.db"
MODES: tuple[Mode, ...] = ("lexical", "vector", "hybrid")
VALUES: dict[str, Any] = {"true": True, "one": 1, "float": 1.0, "text": "1", "null": None, "false": False, "zero": 0, "half": 0.5,
                          "big": 2**62, "tiny": 5e-324, "sum": 0.1 + 0.2, "word": "true", "empty": ""}


@pytest.fixture
def typed(hybrid: Runtime) -> Runtime:
    for name, value in VALUES.items():
        document = SourceDocument(name, f"src/{name}", "Same words here.", metadata={"k": value, "other": name})
        assert rag_ingest_document(PATH, document, 50).is_ok
    assert rag_ingest_document(PATH, SourceDocument("missing", "else/missing", "Same words here."), 50).is_ok
    return hybrid


def passing(**options: Any) -> set[str]:
    answers = []
    for mode in MODES:
        result = rag_query(PATH, "same words", 1_000, QueryOptions(mode=mode, **options))
        assert isinstance(result, Ok), result
        answers.append({chunk.doc_id for chunk in result.value})
    assert answers[0] == answers[1] == answers[2]
    return answers[0]


@pytest.mark.parametrize(("wanted", "names"), [
    (True, {"true"}), (False, {"false"}), (1, {"one", "float"}), (1.0, {"one", "float"}), ("1", {"text"}), (None, {"null"}),
    (0, {"zero"}), (0.0, {"zero"}), (-0.0, {"zero"}), (0.5, {"half"}), (2**62, {"big"}), (2**62 + 1, set()), (5e-324, {"tiny"}),
    (0.1 + 0.2, {"sum"}), (0.3, set()), ("true", {"word"}), ("", {"empty"}), ((), set()), ([True, "1"], {"true", "text"}),
    ((1, None, "x"), {"one", "float", "null"})])
def test_r22_metadata_is_compared_by_json_type(typed: Runtime, wanted: Any, names: set[str]) -> None:
    assert passing(metadata={"k": wanted}) == names
    assert passing(metadata={"k": wanted, "other": tuple(names)}) == names
    assert passing(metadata={"nokey": wanted}) == set()
    assert typed.has_embedder


@pytest.mark.parametrize(("options", "names"), [
    ({"doc_id": "one"}, {"one"}), ({"doc_id": ("one", "zero", "nobody")}, {"one", "zero"}), ({"doc_id": ()}, set()),
    ({"doc_id": ["one"]}, {"one"}), ({"doc_id_prefix": "t"}, {"true", "text", "tiny"}), ({"doc_id_prefix": ""}, {*VALUES, "missing"}),
    ({"doc_id_prefix": "%"}, set()), ({"doc_id_prefix": "o_e"}, set()), ({"doc_id_prefix": "TRUE"}, set()),
    ({"source": "src/one"}, {"one"}), ({"source": ("src/one", "else/missing")}, {"one", "missing"}),
    ({"source_prefix": "src/"}, set(VALUES)), ({"source_prefix": "src/t", "doc_id": ("true", "one")}, {"true"}),
    ({"doc_id": "' OR 1=1 --"}, set()), ({"source_prefix": "src/f", "metadata": {"k": (False, 1)}}, {"false", "float"})])
def test_r216_every_filter_holds_in_every_mode(typed: Runtime, options: dict[str, Any], names: set[str]) -> None:
    assert passing(**options) == names
    for limit in (1, 3):
        for mode in MODES:
            found = rag_query(PATH, "same words", limit, QueryOptions(mode=mode, **options)).unwrap()
            assert [chunk.doc_id for chunk in found] == sorted(names)[:limit]
    assert typed.has_embedder


def test_r8_a_filter_cuts_before_the_best_are_chosen(hybrid: Runtime) -> None:
    for number in range(40):
        rag_ingest_document(PATH, SourceDocument(f"near-{number}", "s", "wanted words exactly"), 50)
    rag_ingest_document(PATH, SourceDocument("far", "t", "wanted, among a great many other things", metadata={"x": 1}), 50)
    for mode in MODES:
        for options in ({"metadata": {"x": 1}}, {"source": "t"}, {"doc_id_prefix": "f"}):
            found = rag_query(PATH, "wanted words exactly", 1, QueryOptions(mode=mode, **options)).unwrap()  # type: ignore[arg-type]
            assert [chunk.doc_id for chunk in found] == ["far"]
    assert hybrid.has_embedder


@pytest.mark.parametrize("options", [
    {"doc_id": 5}, {"doc_id": (None,)}, {"source": b"x"}, {"source_prefix": 1}, {"metadata": {"k": {"a": 1}}}, {"metadata": {"k": [[1]]}},
    {"metadata": {"k": math.nan}}, {"metadata": {"k": math.inf}}, {"metadata": {5: 1}}, {"metadata": [("k", 1)]},
    {"metadata": {"k": object()}}, {"metadata": {"k": 2**70}}, {"metadata": {"k": (1, -2**70)}}])
def test_r22_a_filter_that_cannot_be_served_is_refused_by_name(typed: Runtime, options: dict[str, Any]) -> None:
    for mode in MODES:
        result = rag_query(PATH, "same words", 5, QueryOptions(mode=mode, **options))
        assert isinstance(result, Err)
        assert result.error.code == "invalid_filter"
        assert next(iter(options)) in result.error
        assert rag_query(PATH, " ", 5, QueryOptions(mode=mode, **options)) == result  # a blank query is no way around
    assert typed.has_embedder


@settings(deadline=None, max_examples=80, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8),
       st.one_of(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8), st.booleans(), st.none(),
                 st.integers(-2**63 + 1, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)))
def test_any_key_and_value_that_can_be_stored_can_be_asked_for(lexical: Runtime, key: str, value: Any) -> None:
    document = SourceDocument("d", "s", "words", metadata={key: value, key + "x": "decoy"})
    assert rag_ingest_document(PATH, document, 50).is_ok
    assert len(rag_query(PATH, "words", 5, QueryOptions(metadata={key: value})).unwrap()) == 1
    assert rag_query(PATH, "words", 5, QueryOptions(metadata={key: [f"{value}?", "decoy"]})).unwrap() == []
    assert lexical.mode == "lexical"
