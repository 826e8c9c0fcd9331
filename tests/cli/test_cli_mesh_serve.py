"""`rag mesh serve` as it runs for real: shards come, go, are killed and cut off, and every question accounts for each of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mesh_programs import Gate, Serving, gate, lay_out, rows, wait_until
from station.station_mesh import LiveMesh

from rag_stdlib.cli import meshnode, meshrun
from rag_stdlib.mesh.federation.payloads import Embedding, ShardQuery
from rag_stdlib.mesh.transport import PinnedReply

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
pytest_plugins = ("station.station_fixtures",)

Rag = Any  # see conftest
Write = Callable[..., Path]

SERVED = "everything is served"
PROCEDURE = "acme/rag.query_shard_v1"
LONG = ("--timeout", "20000")


@pytest.fixture
def shards(folder: Path, mesh: LiveMesh, rag: Rag, write: Write) -> Path:
    """Two indexes to serve, and the keys and the table to do it with."""
    lay_out(folder, mesh)
    for side, bird in (("north", "Ravens"), ("south", "Herons")):
        for number in range(3):
            write(f"{side}/{number}.md", f"{bird} of the {side} are birds, number {number}.\n")
        assert rag("ingest", f"{side}.db", side).code == 0
    return folder


def ask(rag: Rag, *words: str, timeout: str = "20000") -> Any:
    found = rag("mesh", "query", *words, "--json", "--timeout", timeout)
    assert (found.code, found.err) == (0, "")
    return found.json


def test_what_is_ingested_while_it_is_served_is_found(shards: Path, rag: Rag, write: Write) -> None:
    with Serving(shards, "north.db", "--key", "a.key", "--only", "shard") as serving:
        serving.wait(SERVED)
        for number in range(3):
            write(f"more/{number}.md", f"An auk of the sea, number {number}.\n")
            assert rag("ingest", "north.db", "more").code == 0
            assert len(ask(rag, "auk")["hits"]) == number + 1
        assert (serving.stop(), "provider" in serving.told) == (0, False)


def test_a_station_that_restarts_and_a_grant_that_comes_late_are_told_and_lived_through(shards: Path, rag: Rag, mesh: LiveMesh) -> None:
    mesh.needs_the_double()
    with Serving(shards, "south.db", "--key", "c.key") as serving:
        serving.wait("14 procedures wait for a grant, which is asked for every 0.2 s: acme/")
        assert f"has to grant its procedures to the node {mesh.id('c')}" in serving.told
        assert SERVED not in serving.told
        alone = rag("mesh", "query", "birds")
        assert (alone.code, alone.out, alone.err) == (1, "", "rag: error [no_shards]: no node serves a shard of acme\n")
        mesh.station.admit(mesh.id("c"))
        serving.wait(SERVED)
        assert rows(ask(rag, "birds")) == {"south": "answered"}
        mesh.station.restart()
        serving.wait("no link to any station; it is made again when one answers").wait("linked again")
        wait_until(lambda: rag("mesh", "query", "birds", *LONG).code == 0, "the shard does not answer again")
        assert serving.stop() == 0
        mesh.station.revoke(mesh.id("c"))
        told = [line.split(": ", 2)[1:] for line in serving.told.splitlines() if line.startswith("rag: ")]
        assert {words.partition(":")[0] for kind, words in told if kind != "note"} <= {"the summary of this shard could not be published"}
        assert [words.partition(",")[0].partition(";")[0] for kind, words in told if kind == "note"] == [
            "describe_corpus and answer_query are refused as the index stands [no_embed_model]", "linked", "14 procedures wait for a grant", SERVED, "no link to any station", "linked again",
            "draining", "drained"]


# --- its end ---


def over_a_gate(folder: Path, rag: Rag, write: Write, mesh: LiveMesh, slow: Gate) -> None:
    """An index whose embedder can be held up."""
    lay_out(folder, mesh, more=f'[rag]\nembedder = "ollama"\nmodel = "m"\ndim = 3\nendpoint = "{slow.url}"\n')
    write("birds/raven.md", "A raven hides its food.\n")
    assert rag("ingest", "birds.db", "birds").code == 0


def held_up(mesh: LiveMesh, slow: Gate, act: Callable[[], None]) -> asyncio.Future[PinnedReply]:
    """Call the shard, and act while its search is held up."""
    question = ShardQuery({"text": "a slow raven"}, 3, Embedding("m", 3)).payload()

    async def body() -> asyncio.Future[PinnedReply]:
        call = asyncio.ensure_future(mesh.node("b").call_pinned(PROCEDURE, question, provider=mesh.id("a"), timeout_s=30))
        assert await asyncio.to_thread(slow.entered.wait, 30)
        await asyncio.to_thread(act)
        assert not call.done()
        return call

    mesh.link("b")
    return mesh.run(body())


async def abandoned(call: asyncio.Future[PinnedReply]) -> None:
    call.cancel()
    await asyncio.wait([call])


async def answer_of(call: asyncio.Future[PinnedReply]) -> Any:
    return (await call).value


def test_sigterm_lets_a_call_that_runs_have_its_answer(folder: Path, rag: Rag, write: Write, mesh: LiveMesh) -> None:
    with gate() as slow:
        over_a_gate(folder, rag, write, mesh, slow)
        with Serving(folder, "birds.db", "--key", "a.key") as serving:
            serving.wait(SERVED)
            call = held_up(mesh, slow, lambda: [serving.signal(signal.SIGTERM), serving.wait("draining")])
            assert rows(rag("mesh", "query", "raven", "--json", "--timeout", "1500").json) == {mesh.id("a")[:12]: "no_summary"}
            slow.opened.set()
            answer = mesh.run(answer_of(call))
            assert [hit["source_path"] for hit in answer["hits"]] == ["birds/raven.md"]
            assert serving.ended() == 0
            assert serving.told.endswith("rag: note: draining; a second signal ends it at once\nrag: note: drained\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(folder: Path, rag: Rag, write: Write, mesh: LiveMesh, number: signal.Signals) -> None:
    with gate() as slow:
        over_a_gate(folder, rag, write, mesh, slow)
        with Serving(folder, "birds.db", "--key", "a.key") as serving:
            serving.wait(SERVED)
            call = held_up(mesh, slow, lambda: [serving.signal(signal.SIGINT), serving.wait("draining"), serving.signal(number), serving.ended()])
            mesh.run(abandoned(call))
            assert serving.ended() == 128 + number
            assert serving.told.endswith("rag: stopped\n")


# --- its beginning, in this process ---


@pytest.fixture
def hear(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Callable[[], object]]], list[str]]:
    """Have it do something when it notes something, and keep what it notes; it looks and tries quickly."""
    for name, seconds in (("LOOK_S", 0.02), ("FIRST_PAUSE_S", 0.1)):
        monkeypatch.setattr(meshrun, name, seconds)

    def listen(reactions: dict[str, Callable[[], object]]) -> list[str]:
        noted: list[str] = []

        def heard(text: str) -> None:
            noted.append(text)
            for words, act in reactions.items():
                if words in text:
                    act()

        monkeypatch.setattr(meshrun, "note", heard)
        return noted

    return listen


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_it_says_who_serves_what_and_leaves_the_signals_as_they_were(shards: Path, rag: Rag, mesh: LiveMesh, hear: Any) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    noted = hear({SERVED: stop})
    done = rag("mesh", "serve", "north.db", "--key", str(shards / "a.key"))
    assert done.code == 0
    assert done.out.splitlines() == [
        f"node       {mesh.id('a')}", "profile    pq_pure", "realm      io.example.test", "index      north.db", "embedding  none",
        "provider   12 procedures of acme", "shard      north of acme"]
    assert noted == ["linked", SERVED, "draining; a second signal ends it at once", "drained"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert done.err == ("rag: note: describe_corpus and answer_query are refused as the index stands [no_embed_model]; "
                        "rag corpus describe north.db says why\n")


def test_a_station_that_is_not_there_is_tried_again(shards: Path, rag: Rag, mesh: LiveMesh, hear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.needs_the_double()
    monkeypatch.setattr(meshnode, "LINK_S", 1.0)
    tried: list[int] = []

    def begin_again() -> None:
        tried.append(1)
        if len(tried) == 2:
            monkeypatch.setattr(meshnode, "LINK_S", 20.0)
            mesh.station.begin_again()

    mesh.station.end()
    noted = hear({"trying again": begin_again, SERVED: stop})
    assert rag("mesh", "serve", "north.db", "--key", "a.key", "--only", "provider").code == 0
    assert shards
    assert [text.rpartition("; ")[2] for text in noted if "within 1 s" in text] == ["trying again in 0.1 s", "trying again in 0.2 s"]
    assert noted[2:4] == ["linked", SERVED]


def test_a_signal_ends_the_waiting_for_a_station(shards: Path, rag: Rag, mesh: LiveMesh, hear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.needs_the_double()
    monkeypatch.setattr(meshnode, "LINK_S", 0.2)
    text = (shards / "corvid.toml").read_text()
    (shards / "corvid.toml").write_text(text.replace(f":{mesh.station.port}", ":1"))
    noted = hear({"trying again": stop})
    assert rag("mesh", "serve", "north.db").code == 0
    assert noted[1:] == ["stopped before any station answered"]


def test_an_index_that_is_not_there_yet_is_served_when_it_is(shards: Path, rag: Rag, hear: Any) -> None:
    hear({SERVED: stop})
    done = rag("mesh", "serve", "later.db", "--key", "a.key")
    assert (done.code, "there is no index 'later.db' yet; calls are refused until there is one" in done.err) == (0, True)
    assert not (shards / "later.db").exists()


def test_a_key_is_one_process(shards: Path, rag: Rag) -> None:
    with Serving(shards, "north.db", "--key", "a.key") as serving:
        serving.wait("linked")
        done = rag("mesh", "serve", "south.db", "--key", "a.key")
        assert (done.code, done.out) == (1, "")
        assert done.err == ("rag: error: the key 'a.key' is in use by another process; a node is one process, "
                            "so give this one a key of its own by --key\n")
        assert serving.stop() == 0


def test_what_may_not_be_served_ends_it(shards: Path, rag: Rag, mesh: LiveMesh) -> None:
    other = rag("mesh", "serve", "north.db", "--key", "a.key", "--org", f"~{mesh.id('b').upper()}")
    assert (other.code, other.out) == (1, "")
    assert other.err.startswith(f"rag: error [serve_refused]: ~{mesh.id('b')} is the namespace of another node; serve in ")
    for name, words in (("", "not blank"), (" ", "not blank"), ("x" * 256, "at most 255 bytes"), ("\udcff", "Unicode text")):
        called = rag("mesh", "serve", "north.db", "--key", "a.key", "--shard-id", name)
        assert (called.code, words in called.err) == (2, True), called.err
    for arguments, code in ((("corvid.toml",), "not_an_index"), (("../x.db",), "path_parent")):
        assert f"rag: error [{code}]: " in rag("mesh", "serve", *arguments).err
    text = (shards / "corvid.toml").read_text()
    (shards / "corvid.toml").write_text(f'{text}deposits = "open"\n[effects]\ngrant = ["rag_read"]\n')
    assert "uses the effect rag_write" in rag("mesh", "serve", "north.db").err
    (shards / "corvid.toml").write_text(f"{text}[effects]\ngrant = []\n")
    assert "uses the effect rag_read" in rag("mesh", "serve", "north.db").err
    assert "uses the effect rag_read" in rag("mesh", "query", "birds").err


def test_its_own_namespace_needs_no_grant_and_no_realm_key(shards: Path, rag: Rag, mesh: LiveMesh, hear: Any) -> None:
    text = (shards / "corvid.toml").read_text()
    (shards / "corvid.toml").write_text(text.replace('realm_key = "realm.key"\n', "").replace('org = "acme"', 'org = "~"\nconfidential = "preferred"'))
    hear({SERVED: stop})
    done = rag("mesh", "serve", "north.db", "--key", "c.key")
    assert (done.code, f"shard      north of ~{mesh.id('c')}\n" in done.out) == (0, True)


# --- the last one, since the station remembers for a while who was killed ---


def test_shards_answer_as_one_index_and_one_that_is_killed_is_told_of(shards: Path, rag: Rag) -> None:
    with Serving(shards, "north.db", "--key", "a.key", "--shard-id", "the north") as north, Serving(shards, "south.db", "--key", "b.key") as south:
        north.wait(SERVED)
        south.wait(SERVED)
        found = ask(rag, "birds")
        assert rows(found) == {"the north": "answered", "south": "answered"}
        assert found["merged_by"] == "statistics"
        assert sorted(hit["source_path"] for hit in found["hits"]) == [f"{side}/{number}.md" for side in ("north", "south") for number in range(3)]
        north.signal(signal.SIGKILL)
        assert north.ended() == -signal.SIGKILL
        found = ask(rag, "birds", timeout="1500")
        assert sorted(rows(found).values()) == ["answered", "no_summary"]
        assert {hit["shard_id"] for hit in found["hits"]} == {"south"}
