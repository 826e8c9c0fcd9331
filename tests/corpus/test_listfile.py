"""The corpus list, rule by rule: the names are the contract's (§3.3)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rag_stdlib.corpus.listfile import MAX_BYTES, MAX_DEPTH, ListedRepo, ListRefused, Regime, is_fit_url, parse

SHA = "0123456789abcdef0123456789abcdef01234567"
PINNED = {"id": "alpha", "url": "https://example.org/alpha.git", "branch": "main", "commit": SHA}
HEAD = {"id": "alpha", "url": "https://example.org/alpha.git", "branch": "main"}
ENTRY: dict[Regime, dict[str, Any]] = {"pinned": PINNED, "head": HEAD}
BOTH: list[Regime] = ["pinned", "head"]


def of(*entries: object, **more: object) -> str:
    return json.dumps({"repos": list(entries), **more})


def refused(text: str | bytes, regime: Regime) -> ListRefused:
    with pytest.raises(ListRefused) as caught:
        parse(text, regime)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith("corpus list")
    assert str(caught.value).replace("\u00a0", "").isprintable()
    return caught.value


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


# --- what is accepted ---


def test_a_pinned_list_is_read_in_its_order() -> None:
    second = {"id": "0-b", "url": "/srv/b.git", "branch": "Grün/x", "commit": "f" * 40}
    assert parse(of(PINNED, second), "pinned") == (
        ListedRepo("alpha", "https://example.org/alpha.git", "main", SHA), ListedRepo("0-b", "/srv/b.git", "Grün/x", "f" * 40))


def test_a_head_list_may_bound_depth_and_paths() -> None:
    entry = HEAD | {"depth": 3, "paths": ["docs", "Docs/a_b-c.d/", "9/./x", "a..b"]}
    assert parse(of(entry), "head") == (
        ListedRepo("alpha", "https://example.org/alpha.git", "main", None, 3, ("docs", "Docs/a_b-c.d/", "9/./x", "a..b")),)
    assert parse(of(HEAD), "head")[0].depth is None


@pytest.mark.parametrize("regime", BOTH)
def test_bytes_and_text_are_the_same_and_an_empty_list_is_a_list(regime: Regime) -> None:
    text = json.dumps({"$schema": "x", "note": {"any": [1, 2.5, None, True]}, "repos": [ENTRY[regime] | {"branch": "分支"}]}, ensure_ascii=False)
    assert parse(text, regime) == parse(text.encode(), regime)
    assert parse(of(), regime) == ()


@pytest.mark.parametrize(("written", "depth"), [("1", 1), ("1.0", 1), ("2e2", 200), (str(10**40), 10**40)])
def test_a_depth_is_any_whole_number_as_in_json_schema(written: str, depth: int) -> None:
    (repo,) = parse('{"repos": [{"id": "a", "url": "/a", "branch": "m", "depth": ' + written + "}]}", "head")
    assert repo.depth == depth
    assert type(repo.depth) is int


# --- the file ---


@pytest.mark.parametrize("text", [
    "", "x", "{", '{"repos": []} x', '{"repos": [],}', "{'repos': []}", '{"repos": [NaN]}', '{"repos": [Infinity]}', '{"repos": [-Infinity]}',
    '{"repos": [], "x": 1e999}', '{"repos": [], "repos": []}', '{"repos": [{"id": "a", "id": "b"}]}', '{"repos": [], "x": {"y": 1, "y": 1}}',
    '{"repos": [], "x": "\\ud800"}', '{"repos": [], "\\udfff": 1}', '{"repos": [], "x": "\ud800"}', '{"repos": [], "x": "\n"}', "\ufeff{}",
    '{"repos": [], "x": ' + "9" * 5_000 + "}", b"\xff", b'{"repos": [], "x": "\xed\xa0\x80"}', b"\xef\xbb\xbf{}", '{"repos": []}'.encode("utf-16")])
def test_what_is_no_strict_json_is_refused(text: str | bytes) -> None:
    refusal = refused(text, "head")
    assert (refusal.name, refusal.parts, refusal.term) == ("invalid_json", (), "invalid_json")
    assert "not strict JSON: " in str(refusal)


def test_size_and_depth_are_bounded() -> None:
    def nested(levels: int) -> str:
        return '{"repos": [], "x": ' + "[" * levels + "]" * levels + "}"

    assert parse(nested(MAX_DEPTH - 1), "head") == ()
    assert "64 levels" in str(refused(nested(MAX_DEPTH), "head"))
    assert "64 levels" in str(refused('{"x":' * 100_000, "head"))
    assert parse(of(x="x" * (MAX_BYTES - len(of(x="")))), "head") == ()
    assert "1,000,001 bytes" in str(refused(of(x="x" * (MAX_BYTES - len(of(x="")) + 1)), "head"))
    assert refused("\u00e9" * MAX_BYTES, "head").name == "invalid_json"


def test_many_keys_take_no_long_time() -> None:
    began = time.monotonic()
    text = json.dumps({f"{number}": 0 for number in range(70_000)})
    assert refused(f'{text[:-1]}, "69999": 1}}', "head").name == "invalid_json"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["{}", "[]", "null", '"repos"', "3", '{"Repos": []}', '{"repos": null}', '{"repos": {}}', '{"repos": "x"}'])
def test_a_file_without_a_list_of_repos_is_refused(text: str) -> None:
    assert refused(text, "pinned").term == "missing_repos_key"


def test_a_regime_that_is_none_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="pinned, head"):
        parse(of(), "tail")  # type: ignore[arg-type]


# --- entries ---


@pytest.mark.parametrize("regime", BOTH)
@pytest.mark.parametrize("entry", [None, [], "alpha", 1, True])
def test_an_entry_that_is_no_object_is_named_by_its_place(regime: Regime, entry: object) -> None:
    refusal = refused(of(ENTRY[regime], entry), regime)
    assert refusal.term == "{malformed_entry,not_an_object}"
    assert "entry 2" in str(refusal)


@pytest.mark.parametrize(("regime", "key"), [
    ("head", "commit"), ("pinned", "depth"), ("pinned", "paths"), ("head", "ID"), ("head", ""), ("pinned", "brnach")])
def test_a_key_of_another_regime_or_of_none_is_unknown(regime: Regime, key: str) -> None:
    refusal = refused(of(ENTRY[regime] | {key: SHA}), regime)
    assert (refusal.name, refusal.parts) == ("unknown_key", ("alpha", key))
    assert refusal.term == f"{{unknown_key,alpha,{key}}}"


@pytest.mark.parametrize("value", ["", "Foo", "-a", "a_b", "a.b", "../x", "a/b", "a\n", "\na", "a b", "é", "a\0", 1, None, True, [], {}])
@pytest.mark.parametrize("regime", BOTH)
def test_b15_an_id_is_lower_case_letters_digits_and_hyphens(regime: Regime, value: object) -> None:
    assert refused(of(ENTRY[regime] | {"id": value}), regime).name == "malformed_id"


def test_what_is_missing_is_undefined_as_the_contract_writes_it() -> None:
    assert refused(of({}), "head").term == "{malformed_id,undefined}"
    assert refused(of({"x": 1}), "head").term == "{unknown_key,undefined,x}"
    assert refused(of({"id": "a"}), "head").term == "{unsupported_url,a,undefined}"
    assert "(missing)" in str(refused(of({"id": "a"}), "head"))


URLS = ["http://example.org/x", "ssh://example.org/x", "git://example.org/x", "file:///x", "git@example.org:x.git", "./x", "x", "", "~/x",
        "HTTPS://example.org/x", " https://example.org/x", "https:/example.org", "ext::sh -c x", None, 7, ["https://x"]]
UNSTATED_URLS = ["https://user@example.org/x", "https://user:secret@example.org/x", "https://user:se/cret@example.org/x", "https://:secret@h/x",
                 "https://example.org/x y", "https://example.org/x\n", "/srv/x\0", "/srv/\u202ex", "/srv/a\u00a0b", "/srv/\u200bx", "https://h:x/y"]


@pytest.mark.parametrize("url", URLS + UNSTATED_URLS)
@pytest.mark.parametrize("regime", BOTH)
def test_a_url_is_https_or_an_absolute_path_without_credentials(regime: Regime, url: object) -> None:
    refusal = refused(of(ENTRY[regime] | {"url": url}), regime)
    assert refusal.name == "unsupported_url"
    assert refusal.parts[0] == "alpha"
    assert "secret" not in f"{refusal} {refusal.term} {refusal.parts}"
    assert "cret" not in refusal.term


@pytest.mark.parametrize("url", ["https://example.org:8443/a/b.git", "https://[::1]:8443/x", "https://example.org/a@b", "/", "//x", "/srv/a@b:c",
                                 "https://", "https://münchen.example/x", "/srv/Ärger.git"])
def test_other_urls_are_accepted(url: str) -> None:
    assert parse(of(HEAD | {"url": url}), "head")[0].url == url
    assert is_fit_url(url)


@pytest.mark.parametrize("value", ["", None, 1, [], True])
@pytest.mark.parametrize("regime", BOTH)
def test_a_branch_is_any_words(regime: Regime, value: object) -> None:
    for entry in (ENTRY[regime] | {"branch": value}, without(ENTRY[regime], "branch")):
        assert refused(of(entry), regime).term == "{missing_branch,alpha}"


@pytest.mark.parametrize("value", ["", SHA[:39], f"{SHA}0", SHA.upper(), f"{SHA}\n", "HEAD", "g" * 40, None, 1])
def test_a_commit_is_40_hex_digits(value: object) -> None:
    assert refused(of(PINNED | {"commit": value}), "pinned").name == "malformed_commit"


def test_a_pinned_entry_names_its_commit() -> None:
    assert refused(of(HEAD), "pinned").term == "{unpinned_repo,alpha}"
    assert refused(of(PINNED | {"commit": "x"}), "pinned").term == "{malformed_commit,alpha,x}"


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", None, True, False, [], 0.0])
def test_a_depth_is_at_least_1(value: object) -> None:
    assert refused(of(HEAD | {"depth": value}), "head").term == f"{{malformed_depth,alpha,{value if value == '1' else json.dumps(value)}}}"


@pytest.mark.parametrize("value", [[], "docs", None, {}, 1])
def test_paths_are_a_list_that_is_not_empty(value: object) -> None:
    assert refused(of(HEAD | {"paths": value}), "head").name == "malformed_paths"


@pytest.mark.parametrize("value", ["", "/docs", "./docs", "..", "a/..", "a/../b", "../a", "a b", "docs\n", "dócs", ".github", "-x", "_x", "*", 1, None, ["a"]])
def test_a_path_is_plain_and_stays_inside(value: object) -> None:
    refusal = refused(of(HEAD | {"paths": ["docs", value, "/also/bad"]}), "head")
    assert (refusal.name, refusal.parts[0]) == ("malformed_path", "alpha")
    assert "/also/bad" not in refusal.term


@pytest.mark.parametrize("regime", BOTH)
def test_an_id_that_stands_twice_is_refused_at_its_second_place(regime: Regime) -> None:
    refusal = refused(of(ENTRY[regime], ENTRY[regime] | {"id": "beta"}, ENTRY[regime] | {"url": "/other"}), regime)
    assert refusal.term == "{duplicate_id,alpha}"
    assert "entry 3" in str(refusal)


def test_an_entry_is_checked_in_the_contracts_order() -> None:
    """Each step mends the fault that was named, and the next one is named."""
    entry: dict[str, Any] = {"commit": SHA, "id": "A", "url": "x", "branch": "", "depth": 0, "paths": []}
    names = []
    for key, mended in (("commit", None), ("id", "a"), ("url", "/a"), ("branch", "m"), ("depth", 1), ("paths", [".."]), ("paths", ["p"])):
        names.append(refused(of(HEAD | {"id": "a"}, entry), "head").name)
        entry = without(entry, key) if mended is None else entry | {key: mended}
    names.append(refused(of(HEAD | {"id": "a"}, entry), "head").name)
    assert names == ["unknown_key", "malformed_id", "unsupported_url", "missing_branch", "malformed_depth", "malformed_paths", "malformed_path",
                     "duplicate_id"]
    pinned = {"id": "a", "url": "/a", "branch": "", "commit": "x"}
    assert refused(of(pinned), "pinned").name == "missing_branch"
    assert refused(of(PINNED, PINNED | {"commit": "x"}), "pinned").name == "malformed_commit", "before the id that stands twice"


def test_the_first_bad_entry_is_the_one_that_is_named() -> None:
    refusal = refused(of(HEAD, HEAD | {"id": "b", "branch": ""}, HEAD | {"id": "C"}), "head")
    assert (refusal.term, "entry 2" in str(refusal)) == ("{missing_branch,b}", True)


def test_what_a_refusal_shows_is_bounded_and_on_one_line() -> None:
    refusal = refused(of(HEAD | {"id": "A\n\x1b[31m" + "x" * 10_000}), "head")
    assert len(refusal.term) < 250
    assert len(str(refusal)) < 500
    assert refusal.term.isprintable()
    assert len(refused(of(HEAD | {"paths": [["deep"] * 1_000]}), "head").term) < 250


def test_a_file_that_cannot_be_read_has_a_name_too() -> None:
    assert ListRefused("config_read_failed", "eacces").term == "{config_read_failed,eacces}"
    assert str(ListRefused("config_read_failed", "eacces")) == 'corpus list: cannot be read: "eacces"'
