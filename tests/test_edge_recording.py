"""The edge and what stands at it: which recorder takes a call, what it is told, and what it makes needless."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import threading
import time
import typing
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
from audit_watch import audited
from embedder_double import EmbedderDouble

import rag_stdlib
import replay
from rag_stdlib import (
    Config,
    Err,
    Ok,
    QueryOptions,
    Runtime,
    SourceDocument,
    ToolShapeError,
    arag_ingest,
    arag_search,
    arag_stats,
    carry,
    deterministic,
    rag_check,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_ingest_document,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.edge import TOOLS
from replay import Call, QuarantineViolation

R = TypeVar("R")
PATH = "index.db"


class Notes:
    """A recorder that runs every call and notes what it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.arguments: list[list[Any]] = []
        self.results: list[Any] = []
        self.facts: list[dict[str, Any]] = []
        self.endings: list[str] = []

    def _begin(self, call: Call[Any]) -> None:
        self.begun.append(call.tool)
        self.arguments.append(call.arguments())

    def _end(self, call: Call[R], result: R) -> R:
        self.results.append(orjson.loads(orjson.dumps(call.encode(result))))
        self.facts.append(call.facts())
        return result

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        self._begin(call)
        return self._end(call, run())

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:
        self._begin(call)
        try:
            return self._end(call, await run())
        except asyncio.CancelledError:
            self.endings.append("cancelled")
            raise


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a configuration, and an environment without one."""
    for name in ("CORVID_IO_ROOT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code(result: Any) -> str:
    return result.error.code if isinstance(result, Err) else "ok"


# --- which recorder ---


def test_the_blocks_recorder_comes_before_the_session_and_is_inherited_by_inner_blocks(tmp_path: Path) -> None:
    outer, inner = Notes(), Notes()
    with replay.record(tmp_path / "t.jsonl") as session:
        with Runtime(Config(), root=tmp_path):
            rag_stats(PATH)
        with Runtime(Config(), root=tmp_path, recorder=outer):
            rag_check(PATH)
            with Runtime(Config(), root=tmp_path):
                rag_search(PATH, "a", 1)
                with Runtime(Config(), root=tmp_path, recorder=inner):
                    rag_compact(PATH)
                rag_delete(PATH, "d")
            carry(lambda: rag_stats(PATH))()
    assert (session.ran, outer.begun, inner.begun) == (1, ["rag_check", "rag_search", "rag_delete", "rag_stats"], ["rag_compact"])


def test_a_call_outside_of_blocks_and_sessions_is_live(lexical: Runtime) -> None:
    assert rag_ingest(PATH, "d", "s", "words", 10) == Ok(1)
    assert asyncio.run(arag_search(PATH, "words", 1)).is_ok
    assert lexical.recorder is None


@pytest.mark.parametrize("broken", ["[io", '[rag]\nembedder = "openai"\n', ""])
def test_a_replay_needs_neither_root_nor_key_nor_a_configuration_that_can_be_read(nowhere: Path, broken: str) -> None:
    (nowhere / "corvid.toml").write_text('[io]\nroot = "data"\n')
    (nowhere / "data").mkdir()

    def program() -> list[Any]:
        return [rag_ingest(PATH, "d", "s", "Some words.", 20), rag_search(PATH, "words", 2), rag_search("none.db", "words", 2)]

    with replay.record("t.jsonl"):
        live = program()
    assert [code(result) for result in live] == ["ok", "ok", "index_missing"]
    shutil.rmtree(nowhere / "data")
    (nowhere / "corvid.toml").write_text(broken)
    with replay.substitute("t.jsonl"), audited(AssertionError("touched")) as events:
        replayed = program()
    assert (replayed, events) == (live, [])
    assert [repr(result) for result in replayed] == [repr(result) for result in live]
    assert code(rag_search(PATH, "words", 2)) in ("config_invalid", "key_missing", "root_unconfigured")


def test_a_configuration_that_cannot_be_read_is_an_outcome_like_any_other(nowhere: Path) -> None:
    (nowhere / "corvid.toml").write_text("[io]\nroots = 1\n")
    with replay.record("t.jsonl"):
        live = rag_search(PATH, "a", 1)
    assert code(live) == "config_invalid"
    (nowhere / "corvid.toml").unlink()
    with replay.substitute("t.jsonl"):
        assert rag_search(PATH, "a", 1) == live
    assert code(rag_search(PATH, "a", 1)) == "root_unconfigured"


def test_a_recorded_refusal_is_what_the_program_gets_whatever_is_granted_then(tmp_path: Path) -> None:
    with Runtime(Config(grant=frozenset({"rag_read"})), root=tmp_path), replay.record(tmp_path / "t.jsonl"):
        refused = rag_ingest(PATH, "d", "s", "words", 10)
        with deterministic():
            forbidden = rag_search(PATH, "d", 1)
    assert (code(refused), code(forbidden)) == ("effect_not_granted", "deterministic_context")
    with Runtime(Config(), root=tmp_path), replay.substitute(tmp_path / "t.jsonl"):
        assert (rag_ingest(PATH, "d", "s", "words", 10), rag_search(PATH, "d", 1)) == (refused, forbidden)


# --- what it is told ---


def test_arguments_come_in_order_with_defaults_and_names_resolved(tmp_path: Path) -> None:
    notes = Notes()
    with Runtime(Config(), root=tmp_path, recorder=notes):
        rag_ingest(chunk_chars=10, text="t", source="s", doc_id="d", index_path=PATH)
        rag_ingest_document(PATH, SourceDocument("e", "s", "t"), 10)
        rag_query(PATH, limit=2, query="t")
        rag_query(PATH, "t", 2, QueryOptions())
        with pytest.raises(ToolShapeError):
            rag_query(PATH, "t", 2, None)  # type: ignore[arg-type]
    assert notes.begun == ["rag_ingest", "rag_ingest_document", "rag_query", "rag_query"]
    assert notes.arguments[0] == [PATH, "d", "s", "t", 10]
    assert notes.arguments[1][3] == {"end_boundary": False, "graphemes": False, "cjk_stops": False, "markdown": False}
    assert notes.arguments[2] == notes.arguments[3]
    assert notes.arguments[2][3] == QueryOptions().to_dict()


def test_each_result_goes_with_the_state_of_the_index_that_gave_it(tmp_path: Path) -> None:
    notes = Notes()
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(), recorder=notes):
        rag_search(PATH, "words", 1)
        rag_ingest(PATH, "d", "s", "words", 10)
        rag_search(PATH, "words", 1)
        asyncio.run(arag_ingest(PATH, "e", "s", "more words", 10))
        asyncio.run(arag_search(PATH, "words", 1))
        figures = rag_stats(PATH).unwrap()
    missing, first, found, second, last, stats = notes.facts
    assert missing == {}
    assert (first["index"]["generation"], second["index"]["generation"]) == (1, 2)
    assert first == found != second == last == stats
    assert stats["index"] == {"generation": 2, "content": figures.content, "embedder": figures.embedder}


def test_searches_are_told_how_to_be_ranked_and_nothing_else_is(tmp_path: Path) -> None:
    assert {name for name, spec in TOOLS.items() if spec.ranking is not None} == {"rag_search", "rag_query"}
    notes = Notes()
    with Runtime(Config(), root=tmp_path, recorder=notes):
        rag_ingest(PATH, "d", "s", "words of one. Words of two.", 14)
        hits = rag_search(PATH, "words", 5).unwrap()
        refused = rag_search(PATH, "words", 0)
    ranking = TOOLS["rag_search"].ranking
    assert ranking is not None
    assert ranking(notes.results[1]) == [(hit.chunk_id, hit.score) for hit in hits]
    assert len(hits) == 2
    assert (code(refused), ranking(notes.results[2])) == ("invalid_limit", None)


def test_the_public_functions_look_like_functions_that_return_results() -> None:
    hints = typing.get_type_hints(rag_search)
    assert hints["return"] == Ok[list[rag_stdlib.RagChunkEnvelope]] | Err
    assert set(hints) == {"index_path", "query", "limit", "return"}
    assert str(inspect.signature(rag_query).parameters["options"].default) == str(QueryOptions())
    for name in TOOLS:
        assert getattr(rag_stdlib, name).__module__ == "rag_stdlib.tools"
        assert "runtime" not in inspect.signature(getattr(rag_stdlib, name)).parameters


# --- what is let through ---


@pytest.mark.parametrize("place", ["open", "embed", "foreign"])
def test_what_a_session_refuses_is_raised_and_is_no_failure_of_the_tool(tmp_path: Path, place: str) -> None:
    violation = QuarantineViolation("nothing may be touched")

    def refuse(_texts: object) -> None:
        raise violation

    embedder = EmbedderDouble(before=refuse if place == "foreign" else None)
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        assert code(rag_search("none.db", "words", 1)) == "index_missing"
        if place == "foreign":
            with pytest.raises(QuarantineViolation) as raised:
                rag_ingest(PATH, "d", "s", "words", 10)
        else:
            event = "rag_stdlib.index" if place == "open" else "rag_stdlib.embed"
            with audited(violation, at=event) as events, pytest.raises(QuarantineViolation) as raised:
                rag_ingest(PATH, "d", "s", "words", 10)
            assert events[-1] == (event, (PATH,) if place == "open" else ("EmbedderDouble", 1))
            assert embedder.calls == []
        assert raised.value is violation
        embedder.before = None
        assert rag_ingest(PATH, "d", "s", "words", 10) == Ok(1), "and nothing is left locked"


def test_an_operators_hook_that_raises_otherwise_makes_an_err(lexical: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    with audited(PermissionError("no retrieval here")):
        result = rag_search(PATH, "words", 1)
    assert code(result) == "internal"
    assert "no retrieval here" in str(result)
    assert "rag_search failed unexpectedly" in caplog.text
    assert lexical.mode == "lexical"


def test_the_store_and_the_embedder_are_watched_by_every_session(tmp_path: Path) -> None:
    runtime = Runtime(Config(), root=tmp_path, embedder=EmbedderDouble())
    with runtime:
        rag_ingest(PATH, "d", "s", "words", 10)
        store, embedder = runtime.store, runtime.embedder
        assert embedder is not None
        with replay.record(tmp_path / "t.jsonl"):
            rag_search(PATH, "words", 1)
        for touch, surface in ((lambda: store.reading(PATH).__enter__(), "index"), (lambda: embedder.embed(["x"], "query"), "embedder")):
            with pytest.raises(QuarantineViolation, match=f"\\({surface}\\)"), replay.substitute(tmp_path / "t.jsonl"):
                rag_search(PATH, "words", 1)
                touch()


# --- awaiting ---


def test_awaited_calls_are_recorded_in_the_order_they_were_begun(tmp_path: Path) -> None:
    notes = Notes()

    async def main() -> list[Any]:
        return await asyncio.gather(*(arag_search(PATH, "slow " * (9 - number), 1) for number in range(9)))

    def slow(texts: Any) -> None:
        time.sleep(0.002 * len(texts[0].split()))

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=slow)):
        rag_ingest(PATH, "d", "s", "words", 10)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=slow), recorder=notes):
        results = asyncio.run(main())
    assert all(result.is_ok for result in results)
    assert [arguments[1] for arguments in notes.arguments] == ["slow " * (9 - number) for number in range(9)]
    assert len({facts["index"]["content"] for facts in notes.facts}) == 1


def test_no_thread_is_started_for_what_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[Any]:
        return [await arag_ingest(PATH, "d", "s", "words", 10), *await asyncio.gather(arag_search(PATH, "words", 1), arag_stats(PATH))]

    with Runtime(Config(), root=tmp_path), replay.record(tmp_path / "t.jsonl"):
        live = asyncio.run(main())

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a thread was started")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    before = threading.active_count()
    with replay.substitute(tmp_path / "t.jsonl"):
        assert asyncio.run(main()) == live
    assert threading.active_count() == before


def test_an_awaited_call_that_is_cancelled_is_told_as_cancelled(tmp_path: Path) -> None:
    notes = Notes()

    async def main() -> None:
        task = asyncio.create_task(arag_ingest(PATH, "d", "s", "words", 50))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=lambda _texts: time.sleep(0.15)), recorder=notes):
        asyncio.run(main())
    assert (notes.begun, notes.endings, notes.results) == (["rag_ingest"], ["cancelled"], [])


def test_a_recorded_cancellation_replays_as_one(tmp_path: Path) -> None:
    async def main() -> str:
        task = asyncio.create_task(arag_ingest(PATH, "d", "s", "words", 50))
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "done"

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=lambda _texts: time.sleep(0.15))), replay.record(tmp_path / "t.jsonl"):
        assert asyncio.run(main()) == "cancelled"
    with replay.substitute(tmp_path / "t.jsonl"):
        assert asyncio.run(main()) == "cancelled"
