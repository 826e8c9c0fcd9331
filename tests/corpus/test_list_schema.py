"""The JSON Schema of the list, the check in code, and the schema that the contract's reference publishes accept the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.corpus.listfile import ListRefused, Regime, is_fit_url, json_schema, parse

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "vectors" / "macula" / "corpus-repos.schema.json"
SHA = "0123456789abcdef0123456789abcdef01234567"
BOTH: list[Regime] = ["pinned", "head"]


def accepts(schema: dict[str, Any], content: object) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(content))


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    if not PUBLISHED.exists():
        pytest.skip(f"there is no {PUBLISHED.name} beside the project")
    # The library reads patterns as Python does; `$` is the end of the value in JSON Schema (ECMA-262), and before a line feed in Python.
    schema: dict[str, Any] = json.loads(PUBLISHED.read_text().replace('$"', '\\\\Z"').replace("/|$", "/|\\\\Z"))
    assert "\\Z" in schema["$defs"]["repo"]["properties"]["id"]["pattern"]
    return schema


IDS = st.sampled_from(["a", "alpha-2", "0", "A", "-a", "", "a\n", "a/b", None, 1])
URLS = st.sampled_from(["https://example.org/x", "/srv/x", "http://x", "x", "", "https://", "/", "https://u:p@h/x", "/a b", "/a\n", None])
BRANCHES = st.sampled_from(["main", "-x", "", " ", "\n", None, 5]) | st.text()
DEPTHS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none(), st.just("1"))
PATHS = st.one_of(st.lists(st.from_regex(r"[A-Za-z0-9._/-]{0,6}\n?", fullmatch=True) | st.text(max_size=4) | st.none(), max_size=3), st.none(), st.just("a"))
ENTRIES = st.one_of(
    st.fixed_dictionaries({"id": IDS, "url": URLS, "branch": BRANCHES}, optional={"depth": DEPTHS, "paths": PATHS}),
    st.fixed_dictionaries({}, optional={"id": IDS, "url": URLS, "branch": BRANCHES, "commit": st.sampled_from([SHA, SHA.upper(), f"{SHA}\n", "", 3]),
                                        "depth": DEPTHS, "paths": PATHS, "other": st.none()}),
    st.none(), st.text(max_size=3), st.lists(st.none(), max_size=1))
LISTS = st.one_of(
    st.fixed_dictionaries({"repos": st.lists(ENTRIES, max_size=3)}, optional={"extra": st.integers()}),
    st.fixed_dictionaries({}, optional={"repos": st.one_of(st.none(), ENTRIES)}), st.none(), st.lists(ENTRIES, max_size=1))

CASES: list[Any] = [
    {"repos": []}, {}, [], None, {"repos": {}}, {"repos": [], "x": 1},
    *({"repos": [{"id": "a", "url": "/a", "branch": "m", **more}]} for more in (
        {}, {"depth": 1}, {"depth": 1.0}, {"depth": 0}, {"depth": True}, {"depth": 1.5}, {"depth": 10**30}, {"depth": None},
        {"paths": []}, {"paths": ["a"]}, {"paths": ["a", ".."]}, {"paths": ["a/../b"]}, {"paths": ["a..b", "a../b", "a/..b"]}, {"paths": ["/a"]},
        {"paths": ["a\n"]}, {"paths": ["a\n.."]}, {"paths": "a"}, {"paths": ["a/"]}, {"paths": ["a//b", "a/./b"]}, {"paths": ["é"]},
        {"commit": SHA}, {"commit": f"{SHA}\n"}, {"commit": None}, {"id": "a\n"}, {"id": ""}, {"id": "٣"}, {"branch": ""}, {"branch": "\n"}, {"url": "https:/"}, {"x": 1})),
]


def is_stated(content: Any) -> bool:
    """Tell whether a list keeps the rules that the schemas do not state: an id stands once, and urls hold no credentials or blanks."""
    ids = [entry["id"] for entry in content["repos"]]
    return len(set(ids)) == len(ids) and all(is_fit_url(entry["url"]) for entry in content["repos"])


def parses(content: object, regime: Regime) -> bool:
    try:
        parse(json.dumps(content), regime)
    except ListRefused:
        return False
    return True


def holds_surrogates(content: object) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in json.dumps(content, ensure_ascii=False))


@pytest.mark.parametrize("regime", BOTH)
def test_the_schema_is_one(regime: Regime) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(regime))
    assert json.loads(json.dumps(json_schema(regime))) == json_schema(regime)
    repo = json_schema(regime)["$defs"]["repo"]
    assert repo["additionalProperties"] is False
    assert set(repo["properties"]) == {"id", "url", "branch"} | ({"commit"} if regime == "pinned" else {"depth", "paths"})
    assert all(rule["description"] for rule in repo["properties"].values())


def test_a_schema_that_was_changed_by_its_user_changes_no_rule() -> None:
    schema = json_schema("head")
    schema["$defs"]["repo"]["properties"]["paths"]["items"].clear()
    assert json_schema("head") != schema
    assert not parses({"repos": [{"id": "a", "url": "/a", "branch": "m", "paths": [".."]}]}, "head")


@pytest.mark.parametrize("regime", BOTH)
@pytest.mark.parametrize("content", CASES)
def test_schema_and_code_agree_on_these(regime: Regime, content: object) -> None:
    assert parses(content, regime) == accepts(json_schema(regime), content)


@pytest.mark.parametrize("content", CASES)
def test_our_schema_and_the_published_one_agree_on_these(published: dict[str, Any], content: object) -> None:
    assert accepts(json_schema("head"), content) == accepts(published, content)


@given(LISTS)
def test_our_schema_accepts_what_the_published_one_does(published: dict[str, Any], content: object) -> None:
    assert accepts(json_schema("head"), content) == accepts(published, content)


@pytest.mark.parametrize("regime", BOTH)
@given(content=LISTS)
def test_the_code_accepts_what_the_schema_does_but_for_the_rules_it_cannot_state(regime: Regime, content: object) -> None:
    if holds_surrogates(content):
        return
    stated = accepts(json_schema(regime), content)
    assert parses(content, regime) == (stated and is_stated(content))


@pytest.mark.parametrize("content", [
    {"repos": [{"id": "a", "url": "/a", "branch": "m"}] * 2},
    {"repos": [{"id": "a", "url": "https://user:pass@example.org/a", "branch": "m"}]},
    {"repos": [{"id": "a", "url": "/with a blank", "branch": "m"}]},
])
def test_what_the_schema_accepts_and_the_code_refuses(content: object) -> None:
    assert accepts(json_schema("head"), content)
    assert not parses(content, "head")
