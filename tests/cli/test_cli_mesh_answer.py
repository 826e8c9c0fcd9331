"""`rag mesh answer`, from two shards that are served by other processes, on a mesh with a station."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mesh_programs import Serving, two_shards
from proven import LOGGING, SIGNING, TRUST, quietly, trusting
from station.station_mesh import LiveMesh

import replay
from rag_stdlib import Config, Runtime
from rag_stdlib.cli import main

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)

Rag = Any  # see conftest

TEXTS = {"north": {"raven": "A raven hides its food for the winter. It remembers where.", "owl": "An owl hears a mouse below the snow."},
         "south": {"heron": "A heron waits for a fish in the reeds.", "wren": "A wren sings louder than one would think."}}
QUESTION = "what does a heron or a raven wait for or hide?"
RAVEN, HERON = "A raven hides its food for the winter.", "A heron waits for a fish in the reeds."
LONG = ("--timeout", "20000")
CERTIFIED = ("--certificate", "a.json", *SIGNING, *LOGGING)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, mesh: LiveMesh) -> Iterator[Path]:
    """A folder whose two indexes are being served, with the texts of `TEXTS`; only *south* has the topic fish."""
    with two_shards(tmp_path_factory.mktemp("mesh"), mesh, TEXTS) as folder:
        yield folder


@pytest.fixture
def asking(served: Path, folder: Path, rag: Rag) -> Rag:
    """A folder with the keys and the table of those that serve, and with an issuer and a log; it has no index."""
    for file in served.glob("*.key"):
        shutil.copy2(file, folder)
    shutil.copy2(served / "corvid.toml", folder)
    quietly("keys", "new", "issuer.keys", "--name", "Acme")
    quietly("keys", "new", "log.keys", "--log", "log.acme.example/answers")
    quietly("log", "new", "answers.log", "--keys", "log.keys")
    return rag


def certificate(folder: Path, name: str = "a.json") -> Any:
    return json.loads((folder / name).read_text())["certificate"]


def content(index: Path) -> Any:
    with Runtime(Config(), root=index.parent) as runtime, runtime.store.snapshot(index.name) as snapshot:
        return snapshot.describe()["content"]


def test_an_answer_over_two_shards_is_certified_and_verified_by_a_stranger(asking: Rag, folder: Path, served: Path, mesh: LiveMesh) -> None:
    told = asking("mesh", "answer", QUESTION, *LONG, *CERTIFIED, "--node-key", "d.key", "--nonce", "nonce-of-the-asker")
    assert told.code == 0, told.err
    assert told.out.count("quoted, ") == 2
    assert f"{RAVEN}\n    quoted, north/raven.md: \u201c{RAVEN}\u201d\n" in told.out
    assert f"{HERON}\n    quoted, south/heron.md: \u201c{HERON}\u201d\n" in told.out
    assert told.err == "rag: note: certificate 'a.json' by Acme, entry 0 of the log log.acme.example/answers\n"
    body = certificate(folder)
    retrieval = body["retrieval"]
    shards = sorted([(mesh.id("a"), "north"), (mesh.id("b"), "south")])
    assert [(index["node_id"], index["shard_id"]) for index in retrieval["indexes"]] == shards
    assert [index["content"] for index in retrieval["indexes"]] == [content(served / f"{name}.db") for _, name in shards]
    assert (retrieval["merged_by"], retrieval["failed"], retrieval["not_asked"], retrieval["limit"]) == ("statistics", [], [], 10)
    assert {shards[item["index"]][1] for item in retrieval["items"]} == {"north", "south"}
    assert (body["issuer"]["node_id"], body["query"]["nonce"]) == (mesh.id("d"), "nonce-of-the-asker")
    trusting(asking, folder)
    assert asking("verify", "a.json", *TRUST, "--query", QUESTION, "--nonce", "nonce-of-the-asker").code == 0
    assert asking("verify", "a.json", *TRUST, "--query", "another question").code == 1


def test_without_a_certificate_it_is_shown_or_given_as_json(asking: Rag) -> None:
    told = asking("mesh", "answer", "what", "does", "a", "heron", "wait", "for?", *LONG)
    assert (told.code, told.out.splitlines()[0], told.err) == (0, HERON, "")
    given = asking("mesh", "answer", "what does a heron wait for?", *LONG, "--json", "--label", "entailed").json
    assert (given["claims"], [claim["reason"] for claim in given["blocked"]][:1]) == ([], ["label_not_allowed"])
    assert (given["retrieval"]["merged_by"], len(given["retrieval"]["indexes"])) == ("statistics", 2)
    assert asking("mesh", "answer", "what does a heron wait for?", *LONG, "--judge", "none").out.startswith("not shown: ")


def test_shards_that_were_not_asked_are_certified_with_the_reason(asking: Rag, folder: Path, mesh: LiveMesh) -> None:
    told = asking("mesh", "answer", QUESTION, "--topic", "fish", "--listen", "5", *LONG, *CERTIFIED)
    assert (told.code, told.out.splitlines()[0]) == (0, HERON)
    retrieval = certificate(folder)["retrieval"]
    assert [index["node_id"] for index in retrieval["indexes"]] == [mesh.id("b")]
    assert retrieval["not_asked"] == [{"node_id": mesh.id("a"), "reason": "topics_absent"}]
    assert retrieval["topics"] == ["fish"]
    none = asking("mesh", "answer", QUESTION, "--topic", "space", *LONG)
    assert (none.code, none.out, none.err) == (0, "", "rag: note: no answer: nothing was retrieved\n")


def test_a_shard_that_is_down_is_certified_as_failed(asking: Rag, folder: Path, served: Path, mesh: LiveMesh) -> None:
    mesh.station.admit(mesh.id("c"))
    with Serving(served, "north.db", "--key", "c.key", "--shard-id", "third") as third:
        third.wait("everything is served")
        assert asking("mesh", "answer", QUESTION, *LONG, "--json").json["retrieval"]["failed"] == []
        with third.frozen():
            told = asking("mesh", "answer", QUESTION, "--timeout", "6000", *CERTIFIED)
    assert told.code == 0, told.err
    assert told.out.count("quoted, ") == 2
    assert told.err.startswith(f"rag: note: without the shard {mesh.id('c')[:12]}, which failed: ")
    retrieval = certificate(folder)["retrieval"]
    assert [each["node_id"] for each in retrieval["failed"]] == [mesh.id("c")]
    assert len(retrieval["indexes"]) == 2
    trusting(asking, folder)
    assert asking("verify", "a.json", *TRUST, "--query", QUESTION).code == 0


def test_a_recorded_run_replays_without_the_mesh_to_the_same_certificate(asking: Rag, folder: Path) -> None:
    words = ("mesh", "answer", QUESTION, "--mode", "lexical", *LONG, *CERTIFIED)
    with replay.record("run.jsonl"):
        recorded = asking(*words)
    first = (folder / "a.json").read_bytes()
    assert recorded.code == 0, recorded.err
    for gone in ("a.json", "answers.log", "corvid.toml", "realm.key", "d.key"):
        (folder / gone).unlink()
    with replay.substitute("run.jsonl"):
        assert asking(*words) == recorded
    assert (folder / "a.json").read_bytes() == first


def test_a_question_to_nobody_is_an_error_and_issues_nothing(asking: Rag, folder: Path, mesh: LiveMesh) -> None:
    words = ("mesh", "answer", QUESTION, "--org", f"~{mesh.id('c')}", *CERTIFIED)
    with replay.record("run.jsonl"):
        told = asking(*words)
    assert (told.code, told.out) == (1, "")
    assert told.err == f"rag: error [no_shards]: no node serves a shard of ~{mesh.id('c')}\n"
    assert not (folder / "a.json").exists()
    with replay.substitute("run.jsonl"):
        assert asking(*words) == told
    silent = asking("mesh", "answer", QUESTION, "--timeout", "1", *CERTIFIED)
    assert (silent.code, silent.out, silent.err[:21]) in {(1, "", "rag: error [no_shards"), (1, "", "rag: error [no_answer")}
    assert asking("log", "check", "answers.log").out == "clean: 0 entries of log.acme.example/answers\n"


def test_usage_and_what_cannot_be_asked(asking: Rag, folder: Path) -> None:
    for arguments, words in (((), "QUESTION"), ((" ",), "not blank"), ((QUESTION, "--topic", " "), "a topic is not blank"), ((QUESTION, "--org", "a/b"), "without a slash"),
                             ((QUESTION, "--timeout", "0"), "--timeout"), ((QUESTION, "--keys", "issuer.keys"), "it is for --certificate"),
                             ((QUESTION, "--lifetime", "1"), "it is for --certificate"), ((QUESTION, "--no-retrieval"), "--no-retrieval")):
        refused = asking("mesh", "answer", *arguments)
        assert (refused.code, words in refused.err) == (2, True), refused.err
    for arguments, code in (((QUESTION, "--mode", "vector"), "mode_needs_embedder"), ((QUESTION, "--key", "gone.key"), "key_file_missing"),
                            (("word " * 20_000,), "text_too_large"), ((QUESTION, "--topic", "\udcff"), "invalid_call")):
        refused = asking("mesh", "answer", *arguments)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"rag: error [{code}]: "), refused.err
    (folder / "corvid.toml").write_text('[io]\nroot = "."\n[effects]\ngrant = []\n')
    assert "[effect_not_granted]" in asking("mesh", "answer", QUESTION).err


def test_both_commands_take_the_same_options_for_answers_and_certificates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001 - its width
    def options(*command: str) -> set[str]:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        return {word.strip(",") for line in capsys.readouterr().out.splitlines() for word in line.split() if word.startswith("--") and line.startswith("  -")}

    of_index, of_shards, of_query = options("answer"), options("mesh", "answer"), options("mesh", "query")
    assert of_index - of_shards == {"--no-retrieval"}
    assert of_query <= of_shards
