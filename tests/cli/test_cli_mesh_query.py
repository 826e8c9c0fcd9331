"""`rag mesh query`, `status` and `providers`, beside two shards that are served by other processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mesh_programs import rows, two_shards
from station.station_mesh import LiveMesh

from rag_stdlib.cli import meshnode
from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.meshquery import _outcome, _place, _plain, _score
from rag_stdlib.mesh.federation.judging import Answered, EmbeddingMismatch, Failed, NoSummary, TimedOut
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.mesh.transport import Request

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)

Rag = Any  # see conftest

TEXTS = {"north": {"raven": "A raven hides its food.", "owl": "An owl hears a mouse below the snow."},
         "south": {"heron": "A heron waits for a fish.", "raven": "A raven hides its food."}}
LONG = ("--timeout", "20000")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, mesh: LiveMesh) -> Iterator[Path]:
    """A folder whose two indexes are being served, with the texts of `TEXTS`; *the north* has no word of the topic fish."""
    with two_shards(tmp_path_factory.mktemp("mesh"), mesh, TEXTS, "--shard-id", "the north of a long name\x1b[31m") as folder:
        yield folder


@pytest.fixture
def ask(served: Path, folder: Path, rag: Rag) -> Rag:
    """Run a command of `rag mesh` under the keys and the table of those that serve."""
    for file in served.glob("*.key"):
        shutil.copy2(file, folder)
    shutil.copy2(served / "corvid.toml", folder)
    return lambda *arguments: rag("mesh", *arguments)


def test_hits_are_shown_as_those_of_a_search_and_then_a_row_for_each_shard(ask: Rag, mesh: LiveMesh) -> None:
    done = ask("query", "raven", *LONG)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("1. north/raven.md:1  lexical 0.")
    assert lines[0].endswith("  the north of a long name�[31m")
    assert lines[1:3] == ["   A raven hides its food.", ""]
    assert lines[3].split() == ["shard", "node", "hits", "ms"]
    for line, node, name in ((lines[4], mesh.id("b"), "south"), (lines[5], mesh.id("a"), "the north of a long…")):
        assert line.startswith(f"{name:<20}  {node[:12]}       1  ")
        assert line.endswith("  answered")
    assert lines[6].startswith("2 of 2 shards answered in ")
    assert lines[6].endswith(" ms; merged by statistics")
    assert all(len(line) <= 80 for line in lines)


def test_what_is_nowhere_is_no_hit_and_no_failure(ask: Rag) -> None:
    done = ask("query", "penguin", *LONG)
    assert (done.code, done.err) == (0, "rag: note: no hits\n")
    assert done.out.splitlines()[-1].startswith("2 of 2 shards answered")


def test_shards_without_a_topic_are_not_asked(ask: Rag) -> None:
    found = ask("query", "a", "raven", "or", "a", "heron", "--topic", "fish", "--json", *LONG)
    assert (found.code, rows(found.json)) == (0, {"the north of a long name\x1b[31m": "topics_absent", "south": "answered"})
    assert [hit["source_path"] for hit in found.json["hits"]] == ["south/heron.md"]
    none = ask("query", "raven", "--topic", "space", *LONG)
    assert (none.code, none.err) == (0, "rag: note: no hits\n")
    assert [line.split("  ")[-1] for line in none.out.splitlines()[1:3]] == ["not asked it has none of the topics"] * 2
    assert none.out.splitlines()[3].startswith("0 of 2 shards answered in ")
    assert none.out.endswith(" ms\n")


def test_json_tells_all_of_it(ask: Rag, mesh: LiveMesh) -> None:
    found = ask("query", "raven", "-k", "1", "--mode", "lexical", "--json", "--listen", "5", *LONG).json
    assert found.keys() == {"hits", "merged_by", "took_ms", "answered", "failed", "not_asked", "counted"}
    (hit,) = found["hits"]
    assert (hit["content"], hit["also_in"], hit["node_id"]) == ("A raven hides its food.", ["south/raven.md"], mesh.id("a"))
    assert found["counted"] == sorted([mesh.id("a"), mesh.id("b")])
    assert [each["node"] for each in found["answered"]] == found["counted"]
    assert all(each["took_ms"] > 0 for each in found["answered"])


def test_a_time_that_is_too_short_is_told_and_nobody_answers(ask: Rag) -> None:
    done = ask("query", "raven", "--timeout", "1")
    assert (done.code, done.out.count("failed")) in {(1, 0), (1, 2)}
    assert done.err.startswith(("rag: error [no_shards]: ", "rag: error [no_answer]: no shard answered"))


def test_usage_and_options_that_do_not_fit(ask: Rag) -> None:
    for arguments, words in ((("query",), "QUERY"), (("query", "x", "-k", "0"), "-k"), (("query", "x", "--timeout", "0"), "--timeout"),
                             (("query", "x", "--listen", "-1"), "--listen"), (("query", " "), "not blank"),
                             (("query", "x", "--topic", " "), "a topic is not blank"), (("query", "x", "-n", "0"), "-n"),
                             (("status", "--org", ""), "without a slash"), (("status", "--org", "a/b"), "without a slash")):
        done = ask(*arguments)
        assert (done.code, words in done.err) == (2, True), done.err
    long = ask("query", "word " * 20_000)
    assert (long.code, long.err) == (1, "rag: error [text_too_large]: query is 100,000 bytes; the most is 65,536\n")
    assert "needs an embedder" in ask("query", "x", "--mode", "vector").err
    assert "[key_file_missing]" in ask("query", "x", "--key", "").err
    strange = ask("query", "x", "--topic", "\udcff")
    assert (strange.code, strange.err) == (1, "rag: error [invalid_call]: topics is a list of texts\n")
    assert ask("status", "--org", "\udcff").err.startswith("rag: error [invalid_org]: an organisation is a name")


def test_status_names_this_node_its_stations_and_the_shards(ask: Rag, mesh: LiveMesh) -> None:
    station = mesh.station
    done = ask("status")
    assert (done.code, done.err) == (0, "")
    blocks = done.out.split("\n\n")
    assert blocks[0].splitlines() == [
        f"node       {mesh.id('d')}", "profile    pq_pure", "running    not on this machine", "realm      io.example.test", "org        acme",
        f"station    {station.host} port {station.port}", f"           {station.node_id}", "link       up", "shards     2 known, 2 serving"]
    assert [block.splitlines()[0] for block in blocks[1:]] == [  # by name
        "shard      south", "shard      the north of a long name�[31m"]
    by_node = {block.splitlines()[1]: block.splitlines() for block in blocks[1:]}
    assert by_node[f"node       {mesh.id('b')}"] == [
        "shard      south", f"node       {mesh.id('b')}", "state      serving", "embedding  none", "topics     fish, land"]
    assert by_node[f"node       {mesh.id('a')}"][0] == "shard      the north of a long name�[31m"


def test_status_sees_that_a_key_is_in_use_and_asks_under_another(ask: Rag, served: Path, rag: Rag, mesh: LiveMesh) -> None:
    found = rag("--config", str(served / "corvid.toml"), "mesh", "status", "--key", str(served / "a.key"), "--json").json
    assert (found["node"], found["running"], found["linked"]) == (mesh.id("a"), True, True)
    assert [(shard["node"], shard["serves"], shard["summary"]["topics"]) for shard in found["shards"]] == [
        (node, True, topics) for node, topics in sorted([(mesh.id("a"), ["land"]), (mesh.id("b"), ["fish", "land"])])]
    assert rows(ask("query", "raven", "--json", *LONG).json).keys() == {"the north of a long name\x1b[31m", "south"}, "the shard is still linked"


def test_status_of_a_station_that_does_not_answer_tells_what_is_known_here(ask: Rag, folder: Path, mesh: LiveMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshnode, "LINK_S", 0.3)
    text = (folder / "corvid.toml").read_text()
    (folder / "corvid.toml").write_text(text.replace(f":{mesh.station.port}", ":1"))
    done = ask("status")
    assert (done.code, done.err) == (1, "rag: error [timeout]: no reply from any station of 127.0.0.1:1 that proves its node id within 0.3 s\n")
    assert done.out.endswith("\nlink       none\n")
    found = ask("status", "--json")
    assert (found.code, found.json["linked"], found.json["shards"]) == (1, False, None)
    for command in (("query", "x"), ("providers",)):
        assert ask(*command).err == done.err


def test_a_node_that_serves_but_does_not_say_what_is_listed_as_such(ask: Rag, mesh: LiveMesh) -> None:
    silent = f"~{mesh.id('c')}/rag.query_shard_v1"

    def answer(_request: Request) -> object:
        raise AssertionError

    async def begin() -> Any:
        return await mesh.node("c").serve(silent, answer)

    mesh.link("c")
    serving = mesh.run(begin())
    org = ("--org", f"~{mesh.id('c').upper()}")
    done = ask("status", "--listen", "0.3", *org)
    assert done.out.endswith(f"shards     1 known, 0 serving\n\nshard      not told yet\nnode       {mesh.id('c')}\nstate      listed, but it did not say what it holds\n")
    found = ask("query", "raven", *org, *LONG)
    assert (found.code, found.err) == (1, "rag: error [no_answer]: no shard answered\n")
    assert f"-      {mesh.id('c')[:12]}       -       -  failed    no_summary: it did not say what it holds, and was not asked" in found.out
    mesh.run(serving.stop())
    assert ask("status", *org).out.endswith("shards     none\n")


def test_providers_are_listed_for_each_procedure(ask: Rag, mesh: LiveMesh) -> None:
    listed = ask("providers")
    assert (listed.code, listed.err) == (0, "")
    assert [line for line in listed.out.splitlines() if not line.startswith(" ")] == [
        "acme/describe_corpus  2 nodes", "acme/answer_query  2 nodes", "acme/rag.query_shard_v1  2 nodes"]
    assert listed.out.count(f"   {mesh.id('a')}\n") == listed.out.count(f"   {mesh.id('b')}\n") == 3
    (one,) = ask("providers", "get_chunk_by_id", "--json").json
    assert (one["procedure"], sorted(one["nodes"])) == ("acme/get_chunk_by_id", sorted([mesh.id("a"), mesh.id("b")]))
    none = ask("providers", "other/answer_query")
    assert (none.code, none.out, none.err) == (0, "other/answer_query  0 nodes\n", "rag: note: nobody serves that\n")
    assert ask("providers", "--org", "~").err == f"rag: note: nobody serves for ~{mesh.id('d')}\n"
    refused = ask("providers", "a/")
    assert (refused.code, refused.err) == (1, "rag: error [invalid_call]: the procedure 'a/' is not named as <org>/<name>\n")


def test_whatever_a_peer_says_of_a_hit_is_shown() -> None:
    assert _place({"id": b"x\x1b", "score": 1}) == "x�"
    assert _place({"source_path": "a.md", "meta": {"start_line": 3, "end_line": 9}}) == "a.md:3-9"
    assert _place({"source_path": 7, "meta": {"start_line": "3"}}) == "-"
    assert _score({"score": 2, "lexical_score": 0.5, "vector_score": 0.25}) == "2.000 (words 0.500, vector 0.250)"
    assert _score({"score": 2, "lexical_score": "much"}) == "2.000"


def test_hits_that_have_no_json_form_are_told() -> None:
    hits = ({"id": "a", "score": 1.0, "meta": {"$bytes": "and more"}},)
    with pytest.raises(CommandError, match="the hits cannot be shown as JSON"):
        _plain(FederatedAnswer(hits, (), (), (), "score"), {}, 1.0)


def test_reasons_are_said_in_words() -> None:
    assert _outcome(Failed("n", NoSummary(), asked=False)) == "failed    no_summary: it did not say what it holds, and was not asked"
    assert _outcome(Answered("n", "s", (), {"v": 1, "left_out": 2})) == "answered  without 2 hits that its reply had no room for"
    assert [_outcome(Answered("n", "s", (), {"v": 1, "left_out": some})) for some in (-1, 0, "2", None)] == ["answered"] * 4
    assert _outcome(Failed("n", TimedOut(), asked=True)) == "failed    timeout"
    assert _outcome(Failed("n", EmbeddingMismatch(Embedding("m", 3)), asked=False)) == (
        "failed    embedding_mismatch: it is of m of dimension 3, and was not asked")
