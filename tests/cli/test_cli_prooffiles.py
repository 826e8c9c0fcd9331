"""The files that say whom to trust and what to ask for: what is said of those that are none, or that say something nobody can mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from proven import ASKED, TRUST

Rag = Any  # see conftest


@pytest.mark.parametrize("option", ["--trust", "--policy"])
@pytest.mark.parametrize(("text", "said"), [
    ('{\n  "issuers": [,\n', "it is no JSON: Expecting value at line 2, column 15"), ("", "it is no JSON: Expecting value at line 1, column 1"),
    ('{"a": 1, "a": 2}', "an object has a member twice"), ("[" * 100_000, "objects and arrays are nested more than 32 deep")])
def test_where_json_ends_to_be_any_is_said_where_it_is_known(proven: Rag, folder: Path, option: str, text: str, said: str) -> None:
    (folder / "x.json").write_text(text)
    words = ("--trust", "x.json") if option == "--trust" else (*TRUST, "--policy", "x.json")
    for command in ("verify", "attack"):
        refused = proven(command, "a.json", *words, *ASKED)
        assert (refused.code, refused.out, refused.err) == (2, "", f"rag: error: 'x.json' is no {option[2:]} file: {said}\n")


def test_what_is_wrong_with_a_trust_file_is_said_and_nothing_in_it_reaches_the_terminal_raw(proven: Rag, folder: Path) -> None:
    trust = json.loads((folder / "trust.json").read_text())
    for given, said in (([], "the file is no object"), ({**trust, "\x1b[2J": 1}, r"the file has an unknown member, '\x1b[2J'"),
                        ({**trust, "issuers": trust["issuers"] * 2}, f"a public key is listed twice: {trust['issuers'][0]['public_key'][:12]}\u2026")):
        (folder / "x.json").write_text(json.dumps(given))
        refused = proven("verify", "a.json", "--trust", "x.json", *ASKED)
        assert (refused.code, refused.out, refused.err) == (2, "", f"rag: error: 'x.json' is no trust file: {said}\n")


@pytest.mark.parametrize(("until", "is_noted"), [("2026-01-01T00:00:00Z", True), ("2025-01-01T00:00:00Z", True), ("2026-01-01T00:00:01Z", False)])
def test_a_key_that_is_trusted_for_no_time_is_noted(proven: Rag, folder: Path, until: str, is_noted: bool) -> None:
    trust = json.loads((folder / "trust.json").read_text())
    trust["issuers"][0] |= {"not_before": "2026-01-01T00:00:00Z", "not_after": until}
    (folder / "x.json").write_text(json.dumps(trust))
    told = proven("verify", "a.json", "--trust", "x.json", *ASKED)
    assert (told.code, told.out.partition(":")[0]) == (1, "refuted [key_not_valid]")
    assert told.err == ("rag: note: 'x.json' trusts a key of 'Acme' for no time: its not_after is not after its not_before, so nothing that it issued verifies\n" if is_noted else "")


@pytest.mark.parametrize("changes", [{"node_id": "a" * 64}, {"name": "Another"}])
def test_a_name_and_a_node_that_are_not_the_trusted_issuer_s_are_told_in_words_that_are_true_of_both(proven: Rag, folder: Path, changes: dict[str, str]) -> None:
    trust = json.loads((folder / "trust.json").read_text())
    trust["issuers"][0] |= changes
    (folder / "x.json").write_text(json.dumps(trust))
    told = proven("verify", "a.json", "--trust", "x.json", *ASKED)
    assert told.out.startswith("refuted [issuer]: the issuer's name or the mesh node in it is not that of the trusted issuer whose key it names\n")


def test_the_help_says_how_long_a_certificate_may_be_good(proven: Rag) -> None:
    page = " ".join(proven("answer", "--help").out.split())
    assert "How long it is good: 0<x<=366; 90 otherwise." in page
    for days in ("0", "-1", "-inf", "inf", "nan", "366.1"):
        refused = proven("answer", "notes.db", "q", "--certificate", "c.json", "--keys", "issuer.keys", "--lifetime", days)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith("rag: usage: Invalid value for --lifetime: ")
