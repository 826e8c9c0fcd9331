"""`rag attack`: the known attacks on a certificate that the command line made, and what it says when one comes out wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proven import ASKED, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.keyfile import save_new_key
from rag_stdlib.proof import verify as verifying
from rag_stdlib.proof.attacks import table

Write = Callable[..., Path]
Rag = Any  # see conftest


@pytest.fixture
def by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the changes of each part, which take a second or two."""
    monkeypatch.setattr(table, "matrix", lambda *_: iter(()))


def test_outsiders_get_nothing_through(proven: Rag) -> None:
    told = proven("attack", "a.json", *TRUST, *ASKED)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0].split("  ")[0] == "attack"
    assert lines[1].split() == ["0", "no_key", "verified", "the", "certificate", "as", "it", "is"]
    assert all(len(line) <= 100 for line in lines)
    assert "WRONG" not in told.out
    assert [line.rpartition(", ")[2] for line in lines[-2:]] == ["all came out as they have to"] * 2
    assert int(lines[-1].split()[2].replace(",", "")) > 1_000


def test_an_issuer_who_lies_is_told_where_it_can_be_told(proven: Rag, folder: Path) -> None:
    proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "-n", "1")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"}
    told = proven("attack", "a.json", *TRUST, *ASKED, "--keys", "issuer.keys", "--other", "b.json", "--json")
    rows = told.json
    assert (told.code, [row for row in rows if not row["ok"]]) == (0, [])
    assert {row["attacker"] for row in rows} == {"no_key", "own_key", "own_named_key", "issuer", "issuer_logged"}
    assert set(rows[0]) == {"id", "title", "attacker", "expected", "got", "ok"}
    assert Counter(row["attacker"] for row in rows if row["got"] == "verified" and row["id"] != "0").keys() <= {"no_key", "issuer_logged"}
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"} == before
    assert proven("log", "check", "answers.log").out == f"clean: 2 entries of {ORIGIN}\n", "nothing was logged"


@pytest.mark.parametrize("switches", [
    ("--judge", "none"), ("--alignment", "none"), ("--claims", "whole"), ("--generator", "none"), ("--no-retrieval",), ("--label", "quoted", "--label", "entailed"), ("--label", "entailed"),
    ("--lifetime", "0.001"), ("--minimum", "1"), ("--mode", "lexical", "--limit", "1"), ("--generator", "none", "--judge", "none", "--claims", "whole")], ids=" ".join)
def test_it_is_clean_on_answers_that_were_made_otherwise(proven: Rag, switches: tuple[str, ...]) -> None:
    assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, *switches).code == 0
    told = proven("attack", "b.json", *TRUST, *ASKED, "--keys", "issuer.keys", "--json")
    assert (told.code, [row for row in told.json if not row["ok"]]) == (0, [])


@pytest.mark.usefixtures("by_name_only")
def test_without_the_question_it_is_not_asked_for(proven: Rag) -> None:
    told = proven("attack", "a.json", *TRUST)
    assert (told.code, told.err) == (0, "rag: note: the question was left out; give it by --query, without which rag verify calls this certificate unknown\n")
    Path("lax.json").write_text('{"require_query": false}')
    assert proven("attack", "a.json", *TRUST, "--policy", "lax.json").err == ""


@pytest.mark.usefixtures("by_name_only")
def test_with_a_mesh_node_its_key_is_needed_too(proven: Rag, folder: Path) -> None:
    save_new_key(folder / "node.key", NodeKey.generate("pq_pure", puzzle_bits=0))
    proven("answer", "notes.db", QUESTION, "--certificate", "n.json", *SIGNING, *LOGGING, "--node-key", "node.key")
    insider = (*TRUST, *ASKED, "--keys", "issuer.keys")
    assert proven("attack", "n.json", *insider, "--node-key", "node.key").code == 0
    assert "was signed by a mesh node as well; give its key by --node-key" in proven("attack", "n.json", *insider).err
    assert "names no mesh node; leave --node-key out" in proven("attack", "a.json", *insider, "--node-key", "node.key").err
    save_new_key(folder / "other.key", NodeKey.generate("pq_pure", puzzle_bits=0))
    refused = proven("attack", "n.json", *insider, "--node-key", "other.key")
    assert (refused.code, refused.out, refused.err) == (2, "", "rag: error: 'other.key' is not the key of the mesh node that signed the certificate; give that one\n")


def test_what_no_parts_can_be_swapped_with_is_refused(proven: Rag, folder: Path) -> None:
    proven("keys", "new", "press.keys", "--name", "Press")
    proven("answer", "notes.db", QUESTION, "--certificate", "press.json", "--keys", "press.keys", *LOGGING)
    proven("answer", "notes.db", QUESTION, "--certificate", "plain.json", *SIGNING)
    envelope = json.loads((folder / "plain.json").read_text())
    del envelope["certificate"]["answer"]
    (folder / "bad.json").write_text(json.dumps(envelope))
    for name, said in (("a.json", "is the same certificate"), ("press.json", "is by another issuer"), ("plain.json", "comes out as unknown no_receipt by itself"),
                       ("bad.json", "is no certificate"), ("gone.json", "cannot be read")):
        refused = proven("attack", "a.json", *TRUST, *ASKED, "--other", name)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert f"'{name}' {said}" in refused.err


@pytest.mark.usefixtures("by_name_only")
def test_what_comes_out_wrong_is_said_and_is_exit_code_1(proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    real = verifying.verify

    def careless(data: bytes, *given: Any, **named: Any) -> Any:
        verdict = real(data, *given, **named)
        return verdict if verdict.outcome == "verified" or verdict.code != "signature" else real(Path("a.json").read_bytes(), *given, **named)

    monkeypatch.setattr(verifying, "verify", careless)
    told = proven("attack", "a.json", *TRUST, *ASKED)
    wrong = told.out.count("WRONG: it has to be refuted signature\n")
    assert (told.code, told.err) == (1, "")
    assert wrong > 10
    assert told.out.splitlines()[-2].endswith(f", {wrong} came out wrong")
    assert sum(not row["ok"] for row in proven("attack", "a.json", *TRUST, *ASKED, "--json").json) == wrong


@pytest.mark.parametrize(("arguments", "said"), [
    (("gone.json", *TRUST), "rag: error: 'gone.json' cannot be read: "), (("trust.json", *TRUST), "rag: error: 'trust.json' is no certificate: "),
    (("a.json", *TRUST, "--query", "another"), "rag: error: the certificate itself comes out as refuted query, so attacks on it would show nothing; see rag verify"),
    (("a.json", *TRUST, *ASKED, "--keys", "other.keys"), "rag: error: 'other.keys' does not hold the key that signed the certificate"), (("a.json", *TRUST, *ASKED, "--keys", "gone"), "rag: error [missing]: "),
    (("a.json", *TRUST, "--keys", "issuer.keys"), "rag: usage: Invalid value for --keys: it needs --query"), (("a.json", *TRUST, "--node-key", "x"), "rag: usage: "), (("a.json",), "rag: usage: ")])
def test_what_cannot_be_attacked_is_one_line_and_exit_code_2(proven: Rag, arguments: tuple[str, ...], said: str) -> None:
    proven("keys", "new", "other.keys", "--name", "Acme")
    refused = proven("attack", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    assert refused.err.startswith(said)


@pytest.mark.usefixtures("by_name_only")
def test_what_a_certificate_holds_never_reaches_the_terminal_raw(proven: Rag, folder: Path) -> None:
    envelope = json.loads((folder / "a.json").read_text())
    envelope["certificate"]["answer"]["text"] += "\x1b[2J\u202e"
    (folder / "bad.json").write_text(json.dumps(envelope))
    refused = proven("attack", "bad.json", *TRUST, *ASKED)
    assert refused.code == 2
    assert "\x1b" not in refused.err + refused.out
