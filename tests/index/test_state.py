"""Which state of an index a call saw: noted for whoever observes, and not looked up for anybody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Runtime,
    carry,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_reembed,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import content
from rag_stdlib.index.state import Observation, looked_at

PATH = "index.db"


def seen_by(call: Callable[[], Any]) -> dict[str, Any]:
    with Observation() as seen:
        call()
    return seen.facts()


def state() -> dict[str, Any]:
    """What the public figures say of the index."""
    figures = rag_stats(PATH).unwrap()
    return {"index": {"generation": figures.generation, "content": figures.content, "embedder": figures.embedder}}


def test_every_tool_shows_the_state_it_answered_from_or_left(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        for call in (lambda: rag_ingest(PATH, "d", "s", "words. More.", 8), lambda: rag_search(PATH, "words", 3), lambda: rag_get(PATH, "d"),
                     lambda: rag_ingest(PATH, "d", "s", "words. More.", 8), lambda: rag_ingest(PATH, "e", "s", "words", 8),
                     lambda: rag_stats(PATH), lambda: rag_check(PATH), lambda: rag_delete(PATH, "e"), lambda: rag_compact(PATH),
                     lambda: rag_reembed(PATH), lambda: rag_get(PATH, "nobody"), lambda: rag_delete(PATH, "nobody")):
            facts = seen_by(call)
            assert facts == state()
            assert len(facts["index"]["content"]) == 64
            assert facts["index"]["embedder"] == "hashing/words-sha256, 32 dimensions"


def test_where_no_index_was_opened_there_are_no_facts(lexical: Runtime) -> None:
    for call in (lambda: rag_search(PATH, "words", 3), lambda: rag_search("../x", "words", 3), lambda: rag_ingest(PATH, "", "s", "t", 5)):
        assert seen_by(call) == {}
    assert lexical.mode == "lexical"


def test_a_write_that_failed_shows_the_state_before_it(lexical: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rag_ingest(PATH, "d", "s", "words", 8)
    before = state()

    def failing(connection: apsw.Connection, **lanes: int) -> None:
        advance(connection, **lanes)
        raise apsw.FullError("no room")

    advance = content.advance
    monkeypatch.setattr(content, "advance", failing)
    results: list[Any] = []
    assert seen_by(lambda: results.append(rag_ingest(PATH, "e", "s", "words", 8))) == before
    assert results[0].error.code == "disk_full"
    assert lexical.mode == "lexical"


def test_a_commit_that_failed_shows_the_state_before_it(lexical: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_stdlib.index import store

    rag_ingest(PATH, "d", "s", "words", 8)
    before = state()
    lexical.close()

    class Failing(apsw.Connection):
        def execute(self, statements: str, *rest: Any, **named: Any) -> Any:
            if statements == "COMMIT":
                raise apsw.IOError("the disk went away")
            return super().execute(statements, *rest, **named)

    monkeypatch.setattr(store.apsw, "Connection", Failing)
    assert seen_by(lambda: rag_ingest(PATH, "e", "s", "words", 8)) == before


def test_what_nobody_observes_is_not_looked_up(lexical: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    describe = content.describe
    monkeypatch.setattr(content, "describe", lambda connection: looks.append(connection) or describe(connection))
    rag_ingest(PATH, "d", "s", "words", 8)
    rag_search(PATH, "words", 3)
    assert looks == []
    assert seen_by(lambda: rag_search(PATH, "words", 3)) != {}
    assert len(looks) == 1
    assert lexical.mode == "lexical"


def test_the_look_that_was_taken_note_of_last_counts() -> None:
    with Observation() as seen:
        early, late = looked_at(lambda: {"generation": 1}), looked_at(lambda: {"generation": 2})
        late()
        early()
        assert seen.facts() == {"index": {"generation": 1}}
        looked_at(lambda: {"generation": 3})
    assert seen.facts() == {"index": {"generation": 1}}, "what is not taken note of does not count"
    looked_at(lambda: {"generation": 4})()
    assert seen.facts() == {"index": {"generation": 1}}


def test_blocks_nest_and_threads_and_tasks_have_each_their_own(lexical: Runtime) -> None:
    for number in range(4):
        rag_ingest(f"i{number}.db", "d", "s", f"words {number}", 50)

    def look(number: int) -> dict[str, Any]:
        return seen_by(lambda: [rag_search(f"i{number}.db", "words", 1) for _ in range(20)])

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*(asyncio.to_thread(carry(look), number) for number in range(4)))

    with Observation() as outer:
        single = [look(number) for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            assert [future.result() for future in [pool.submit(carry(look), number) for number in range(4)]] == single
        assert asyncio.run(main()) == single
        assert outer.facts() == {}
        carry(lambda: rag_search("i2.db", "words", 1))()
    assert outer.facts() == single[2]
    assert len({found["index"]["content"] for found in single}) == 4
    assert lexical.mode == "lexical"


def test_a_change_by_whomever_is_seen_by_the_next_call(tmp_path: Path) -> None:
    """What was looked up is kept only while nothing changed: neither here nor in another process or connection."""
    with Runtime(Config(), root=tmp_path), Runtime(Config(), root=tmp_path) as other:
        rag_ingest(PATH, "a", "s", "words", 8).unwrap()
        seen = [seen_by(lambda: rag_search(PATH, "words", 3))["index"]]
        assert seen_by(lambda: rag_search(PATH, "words", 3))["index"] == seen[0]
        program = "from rag_stdlib import *\nwith Runtime(Config(), root='.'): rag_ingest('index.db', 'b', 's', 'more words', 8).unwrap()"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
        seen.append(seen_by(lambda: rag_search(PATH, "words", 3))["index"])
        with apsw.Connection(str(tmp_path / PATH)) as another:
            another.execute("UPDATE rag_meta SET value = value + 5 WHERE key = 'generation'")
        another.close()
        seen.append(seen_by(lambda: rag_search(PATH, "words", 3))["index"])
        rag_delete(PATH, "b").unwrap()
        seen.append(seen_by(lambda: rag_search(PATH, "words", 3))["index"])
        with other.store.reading(PATH), Observation() as mine:
            rag_search(PATH, "words", 3)
    assert [one["generation"] for one in seen] == [1, 2, 7, 8]
    assert seen[2]["content"] is None, "the fact is of an earlier generation"
    assert seen[3]["content"] == seen[0]["content"] != seen[1]["content"]
    assert mine.facts()["index"] == seen[3]
