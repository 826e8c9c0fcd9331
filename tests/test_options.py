"""The options of a query: what is refused before anything is searched, and what the index is given."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rag_stdlib.errors import Failure
from rag_stdlib.index.filters import NO_FILTERS
from rag_stdlib.options import DEFAULT_OPTIONS, QueryOptions


@pytest.mark.parametrize("given", [
    {}, {"mode": "lexical"}, {"doc_id": ""}, {"doc_id": ("a", "b")}, {"doc_id": ()}, {"doc_id_prefix": "a/"}, {"source": ["x"]},
    {"source_prefix": ""}, {"metadata": {"k": "v", "l": (1, 2.5, None, True), "m": []}}, {"min_score": -3}, {"min_score": 0.5}, {"per_document": 1},
])
def test_options_that_can_be_served(given: dict[str, Any]) -> None:
    options = QueryOptions(**given)
    assert options.check() is None  # type: ignore[func-returns-value]
    assert {name: getattr(options, name) for name in given} == given
    assert (options.filters() == NO_FILTERS) == (not given.keys() - {"mode", "min_score", "per_document"})


@pytest.mark.parametrize(("options", "code", "words"), [
    ({"mode": "hybird"}, "invalid_option", "mode must be one of hybrid, vector, lexical, not 'hybird'"), ({"mode": ""}, "invalid_option", "not ''"),
    ({"min_score": math.nan}, "invalid_option", "min_score must be a finite number"), ({"min_score": math.inf}, "invalid_option", "finite"),
    ({"min_score": True}, "invalid_option", "finite"), ({"min_score": "1"}, "invalid_option", "finite"), ({"min_score": 10**400}, "invalid_option", "finite"),
    ({"per_document": 0}, "invalid_option", "at least 1"), ({"per_document": True}, "invalid_option", "whole number"),
    ({"per_document": 1.0}, "invalid_option", "whole number"), ({"doc_id": 7}, "invalid_filter", "filter doc_id: 7 is no string"),
    ({"doc_id": ("a", None)}, "invalid_filter", "None is no string"), ({"source": {"a"}}, "invalid_filter", "{'a'} is no string"),
    ({"doc_id_prefix": 3}, "invalid_filter", "doc_id_prefix"), ({"source_prefix": b"x"}, "invalid_filter", "source_prefix"),
    ({"metadata": None}, "invalid_filter", "must be a mapping"), ({"metadata": [("a", 1)]}, "invalid_filter", "must be a mapping"),
    ({"metadata": {1: "x"}}, "invalid_filter", "1 is no string"), ({"metadata": {"k": {"a": 1}}}, "invalid_filter", "filter metadata.k"),
    ({"metadata": {"k": (1, math.nan)}}, "invalid_filter", "filter metadata.k"), ({"metadata": {"k": 2**64}}, "invalid_filter", "64 bits"),
    ({"doc_id": "a\0"}, "text_nul", "doc_id"), ({"metadata": {"k": "\ud800"}}, "invalid_text", "metadata.k"), ({"source": "\udcff"}, "invalid_text", "source"),
])
def test_r22_an_option_that_cannot_be_served_is_refused_and_never_ignored(options: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(Failure) as caught:
        QueryOptions(**options).check()
    assert caught.value.error.code == code
    assert caught.value.error.fix == "caller"
    assert words in caught.value.error


def test_one_and_several_reach_the_index_alike() -> None:
    filters = QueryOptions(doc_id="a", source=["x", "y"], doc_id_prefix="p", metadata={"k": ["v", 1], "l": None}).filters()
    assert (filters.doc_ids, filters.doc_id_prefix, filters.sources, filters.source_prefix) == (("a",), "p", ("x", "y"), None)
    assert filters.metadata == {"k": ("v", 1), "l": None}


def test_the_default_restricts_nothing() -> None:
    DEFAULT_OPTIONS.check()
    assert [name for name, value in DEFAULT_OPTIONS.to_dict().items() if value not in (None, {}) and value is not False] == []


def test_a_mapping_given_is_copied() -> None:
    wanted = {"k": "v"}
    options = QueryOptions(metadata=wanted)
    wanted["k"] = "w"
    assert options.metadata == {"k": "v"}
