"""Putting a repository into a corpus list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.corpus import listfile
from rag_stdlib.corpus.listfile import ListedRepo, ListRefused, Regime
from rag_stdlib.corpus.listwrite import AlreadyListed, EntryRefused, id_of, with_entry

PIN = "a" * 40
ONE = ListedRepo("one", "https://example.org/one.git", "main", PIN)
TWO = ListedRepo("two", "/srv/two", "trunk", "b" * 40)


def entries(text: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(text)["repos"]
    return listed


def test_the_first_entry_makes_a_list() -> None:
    made = with_entry(None, ONE, "pinned")
    assert made.text == f"""{{
  "repos": [
    {{
      "id": "one",
      "url": "https://example.org/one.git",
      "branch": "main",
      "commit": "{PIN}"
    }}
  ]
}}
"""
    assert not made.replaced
    assert listfile.parse(made.text, "pinned") == (ONE,)


def test_a_further_entry_stands_last_and_the_others_keep_their_order() -> None:
    text = with_entry(with_entry(None, TWO, "pinned").text, ONE, "pinned").text
    assert listfile.parse(text, "pinned") == (TWO, ONE)


def test_an_entry_is_replaced_where_it_stands() -> None:
    text = with_entry(with_entry(None, TWO, "pinned").text, ONE, "pinned").text
    moved = ListedRepo("two", "/srv/elsewhere", "main", "c" * 40)
    changed = with_entry(text, moved, "pinned", replace=True)
    assert changed.replaced
    assert listfile.parse(changed.text, "pinned") == (moved, ONE)
    assert not with_entry(text, ListedRepo("new", "/srv/new", "main", PIN), "pinned", replace=True).replaced


def test_an_id_that_is_listed_is_refused_unless_it_is_to_be_replaced() -> None:
    with pytest.raises(AlreadyListed, match="the id 'one' is in the list already"):
        with_entry(with_entry(None, ONE, "pinned").text, ONE, "pinned")


def test_depth_and_paths_stand_where_they_are_given() -> None:
    text = with_entry(None, ListedRepo("a", "/a", "main", None, 3, ("docs", "README.md")), "head").text
    assert entries(text) == [{"id": "a", "url": "/a", "branch": "main", "depth": 3, "paths": ["docs", "README.md"]}]
    assert entries(with_entry(None, ListedRepo("a", "/a", "main"), "head").text) == [{"id": "a", "url": "/a", "branch": "main"}]


def test_keys_beside_the_entries_are_kept_with_their_places_and_letters() -> None:
    held = '{"$schema": "./list.json", "repos": [], "note": {"größe": [1, 2.5, null, true, 123456789012345678901234567890]}}'
    text = with_entry(held.encode(), ONE, "pinned").text
    content = json.loads(text)
    assert list(content) == ["$schema", "repos", "note"]
    assert content["note"] == json.loads(held)["note"]
    assert "größe" in text


@pytest.mark.parametrize(("entry", "regime", "words"), [
    (ListedRepo("One", "/a", "main", PIN), "pinned", 'id "One": must be lower-case'),
    (ListedRepo("one\n", "/a", "main", PIN), "pinned", "must be lower-case"),
    (ListedRepo("one", "http://a/b", "main", PIN), "pinned", 'the url "http://a/b" must be https://'),
    (ListedRepo("one", "relative", "main", PIN), "pinned", 'the url "relative" must be https://'),
    (ListedRepo("one", "/a", "", PIN), "pinned", 'id "one": name a branch'),
    (ListedRepo("one", "/a", "main", PIN.upper()), "pinned", "must be 40 lower-case hex digits"),
    (ListedRepo("one", "/a", "main"), "pinned", "name the reviewed commit"),
    (ListedRepo("one", "/a", "main", PIN), "head", 'remove the key "commit"'),
    (ListedRepo("one", "/a", "main", PIN, 1), "pinned", 'remove the key "depth"'),
    (ListedRepo("one", "/a", "main", None, 0), "head", "must be a whole number of at least 1"),
    (ListedRepo("one", "/a", "main", None, None, ("../b",)), "head", 'the path "../b" must begin with'),
    (ListedRepo("one", "/a", "\ud800", PIN), "pinned", "is not strict JSON"),
])
def test_an_entry_that_breaks_a_rule_is_refused_by_it(entry: ListedRepo, regime: Regime, words: str) -> None:
    with pytest.raises(EntryRefused) as refused:
        with_entry(None, entry, regime)
    assert words in str(refused.value)
    assert "corpus list" not in str(refused.value)


def test_a_password_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(EntryRefused) as refused:
        with_entry(None, ListedRepo("one", "https://user:hunter2@example.org/one", "main", PIN), "pinned")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("held", [
    "", "[]", "{}", '{"repos": [{"id": "A"}]}', '{"repos": [], "repos": []}', b"\xff", '{"repos": [{"id": "a", "url": "/a", "branch": "main"}]}',
])
def test_a_list_that_is_refused_is_not_added_to(held: str | bytes) -> None:
    with pytest.raises(ListRefused):
        with_entry(held, ONE, "pinned")


def test_a_list_does_not_grow_beyond_what_is_read() -> None:
    held = json.dumps({"repos": [], "note": "x" * (listfile.MAX_BYTES - 60)})
    with pytest.raises(ListRefused, match=r"the most is 1,000,000"):
        with_entry(held, ONE, "pinned")


@given(st.lists(st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True), unique=True, max_size=6), st.integers(0, 5))
def test_every_list_reads_back_as_it_was_written(ids: list[str], at: int) -> None:
    repos = [ListedRepo(repo_id, f"/srv/{repo_id}", "main", PIN) for repo_id in ids]
    text: str | None = None
    for repo in repos:
        text = with_entry(text, repo, "pinned").text
    if repos:
        repos[at % len(repos)] = moved = ListedRepo(repos[at % len(repos)].id, "/elsewhere", "dev", "f" * 40)
        text = with_entry(text, moved, "pinned", replace=True).text
        assert listfile.parse(text, "pinned") == tuple(repos)


@pytest.mark.parametrize(("url", "repo_id"), [
    ("https://example.org/org/Handbook.git", "handbook"), ("https://example.org/org/handbook.git/", "handbook"),
    ("https://example.org/My_Repo.js", "my-repo-js"), ("/srv/mirrors/guide", "guide"), ("/home/me/notes/.git", "notes"),
    ("/home/me/notes/.git/", "notes"), ("https://example.org", "example-org"), ("--odd--.git", "odd"), ("git@example.org:a/b.git", "b"),
    ("/srv/日本語", ""), ("/", ""), ("", ""), ("https://", ""), ("/.git", ""), ("/srv/Ünder", "nder"),
])
def test_an_id_is_made_from_the_last_part_of_the_url(url: str, repo_id: str) -> None:
    assert id_of(url) == repo_id


@given(st.text())
def test_a_made_id_is_one_that_a_list_takes(url: str) -> None:
    made = id_of(url)
    if made:
        assert listfile.parse(with_entry(None, ListedRepo(made, "/srv/x", "main", PIN), "pinned").text, "pinned")[0].id == made
