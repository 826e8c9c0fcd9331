"""The tools of retrieval under trace and replay: what is recorded, and that a replay needs nothing of what recording needed."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import orjson
import pytest
from embedder_double import EmbedderDouble
from spec_validator import violations

import rag_stdlib
import replay
from rag_stdlib import (
    Config,
    Err,
    Ok,
    Result,
    Runtime,
    ToolShapeError,
    arag_search,
    deterministic,
    grant,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_reembed,
    rag_search,
    rag_stats,
)
from rag_stdlib.embed.hashing import HashingEmbedder

TEXTS = {
    "refunds": "Refunds are paid within ten days of the return. Shipping is not refunded.",
    "shipping": "Parcels leave the warehouse on the day after the order. A tracking number is sent.",
    "returns": "Returns are free for thirty days. Damaged goods are replaced without questions.",
}
QUERIES = ["refund", "when is it paid", "tracking number", "damaged goods", "thirty days", "", "warehouse", "no such word qqzz", "free returns",
           "parcels"]


def agent(index: str = "desk.db") -> list[Result[Any]]:
    """Ingest three texts and search twenty times."""
    results: list[Result[Any]] = [rag_ingest(index, name, f"{name}.md", text, 60) for name, text in TEXTS.items()]
    results += [rag_search(index, query, limit) for query in QUERIES for limit in (2, 10)]
    return results


def as_bytes(results: list[Any]) -> bytes:
    """Write results as JSON, notes included."""
    return orjson.dumps([{"err": str(result.error), "code": result.error.code, "fix": result.error.fix} if isinstance(result, Err)
                         else {"value": [item.to_dict() if hasattr(item, "to_dict") else item for item in
                                         (result.value if isinstance(result.value, list) else [result.value])], "notes": result.notes}
                         for result in results])


def refuse(*_args: object, **_kwargs: object) -> NoReturn:
    raise AssertionError("a replay reached for the world")


@contextmanager
def nothing_works(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make files, sockets, clocks and embedders fail for whoever reaches for them."""
    with patch.context() as broken:
        for owner, name in ((builtins, "open"), (os, "open"), (os, "stat"), (os, "lstat"), (os, "listdir"), (socket, "socket"), (socket, "create_connection"),
                            (HashingEmbedder, "embed"), (HashingEmbedder, "identity"), (rag_stdlib.runtime, "load_config"), (rag_stdlib.runtime, "find_config")):
            broken.setattr(owner, name, refuse, raising=False)
        import time

        for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"):
            broken.setattr(time, name, refuse)
        yield


def record(folder: Path, program: Any = agent, **options: Any) -> tuple[Path, list[Any]]:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    path = folder / "run.jsonl"
    with Runtime(Config(), root=root, embedder=EmbedderDouble()), replay.record(path, **options):
        return path, program()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_a_run_replays_byte_for_byte_without_index_root_key_embedder_files_sockets_or_clock(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Must-show 1; rows 33 and 34, R170."""
    path, live = record(tmp_path)
    assert len(live) == 23
    assert all(isinstance(result, Ok) for result in live)
    shutil.rmtree(tmp_path / "root")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "corvid.toml").write_text('[rag]\nembedder = "openai"\n[io\n', encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    for name in ("CORVID_IO_ROOT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with replay.substitute(path) as session, nothing_works(monkeypatch):
        again = agent()
    assert again == live
    assert as_bytes(again) == as_bytes(live)
    assert (session.answered, session.ran) == (23, 0)
    assert list(elsewhere.iterdir()) == [elsewhere / "corvid.toml"]


def test_the_trace_of_a_run_satisfies_a_validator_written_from_the_specification(tmp_path: Path) -> None:
    """Must-show 3; rows 28 and 29."""
    path, _ = record(tmp_path)
    assert violations(path) == []
    kinds = [event["kind"] for event in events(path)]
    assert kinds == ["schema_header", "seed_read", "run_started", *["tool_call", "tool_result"] * 23, "run_completed"]
    call = events(path)[3]
    assert (call["tool"], call["args"]) == ("rag_ingest", ["desk.db", "refunds", "refunds.md", TEXTS["refunds"], 60])


def test_gathered_searches_replay_keyed_in_any_order_and_ordered_fails_at_the_right_step(tmp_path: Path) -> None:
    """Must-show 2."""
    queries = [f"day {number}" for number in range(50)]

    async def ask(order: list[str]) -> list[Any]:
        return list(await asyncio.gather(*(arag_search("desk.db", query, 3) for query in order)))

    def program() -> list[Any]:
        agent()
        return asyncio.run(ask(queries))

    path, live = record(tmp_path, program)
    shutil.rmtree(tmp_path / "root")
    by_query = dict(zip(queries, live, strict=True))
    shuffled = queries[::-1]
    with replay.substitute(path, matching="keyed"):
        agent()
        assert asyncio.run(ask(shuffled)) == [by_query[query] for query in shuffled]
    with replay.substitute(path):
        agent()
        assert asyncio.run(ask(queries)) == live
    steps = [event["seq"] for event in events(path) if event["kind"] == "tool_call" and event["args"][1] == "day 7"]
    swapped = [*queries[:7], queries[8], queries[7], *queries[9:]]
    with pytest.raises(replay.Divergence) as caught, replay.substitute(path):
        agent()
        asyncio.run(ask(swapped))
    assert (caught.value.code, [caught.value.step]) == ("other_call", steps)


def failing() -> list[Any]:
    """Do what comes back as an Err, for every reason at hand."""
    results: list[Any] = [
        rag_search("none.db", "x", 3), rag_search("../x.db", "x", 3), rag_search("a.db", "x", 0), rag_ingest("a.db", "", "s", "text", 5),
        rag_ingest("a.db", "d", "s", "lone \udc80", 5), rag_ingest("a.db", "d", "s", "nul \0", 5), rag_ingest("a.db", "d", "s", "text", 0),
        rag_get("a.db", "d"), rag_delete("a.db", "d"),
    ]
    with grant():
        results.append(rag_search("a.db", "x", 3))
    with deterministic():
        results.append(rag_ingest("a.db", "d", "s", "text", 5))
    return results


def test_errors_and_refusals_are_calls_like_others(tmp_path: Path) -> None:
    """Row 29, R169: an Err is its code, message and fix."""
    path, live = record(tmp_path, failing)
    assert all(isinstance(result, Err) for result in live)
    with replay.substitute(path):
        again = failing()
    assert again == live
    assert [(one.error.code, one.error.fix) for one in again] == [(one.error.code, one.error.fix) for one in live]
    results = [event for event in events(path) if event["kind"] == "tool_result"]
    assert {event["result"]["tag"] for event in results} == {"err"}


def test_a_configuration_that_cannot_be_read_is_a_recorded_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corvid.toml").write_text("[io\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with replay.record(tmp_path / "t.jsonl") as session:
        live = rag_search("a.db", "x", 3)
    assert isinstance(live, Err)
    assert session.ran == 1
    (tmp_path / "corvid.toml").unlink()
    with replay.substitute(tmp_path / "t.jsonl"):
        assert rag_search("a.db", "x", 3) == live


def test_a_wrong_shape_is_a_defect_of_the_program_and_leaves_no_event(tmp_path: Path) -> None:
    def program() -> list[Any]:
        with pytest.raises(ToolShapeError):
            rag_search("a.db", 3, 3)  # type: ignore[arg-type]
        return []

    path, _ = record(tmp_path, program)
    assert [event["kind"] for event in events(path)][3:] == ["run_completed"]
    with replay.substitute(path):
        program()


def everything() -> list[Any]:
    """Call tools of every kind of result."""
    agent()
    return [rag_get("desk.db", "refunds"), rag_get("desk.db", "refunds:0"), rag_stats("desk.db"), rag_delete("desk.db", "shipping"),
            rag_compact("desk.db"), rag_reembed("desk.db"), rag_ingest("desk.db", "refunds", "refunds.md", TEXTS["refunds"], 60)]


def test_every_tools_result_comes_back_as_what_it_was(tmp_path: Path) -> None:
    path, live = record(tmp_path, everything)
    with replay.substitute(path):
        again = everything()
    assert again == live
    assert [type(result.value) for result in again] == [type(result.value) for result in live]
    assert again[-1].notes == live[-1].notes == ("unchanged",)


def test_an_index_or_embedder_used_past_the_tools_is_quarantined(tmp_path: Path) -> None:
    """Row 42: also by objects made before the session."""
    path, _ = record(tmp_path)
    embedder = HashingEmbedder(dim=32)
    with Runtime(Config(), root=tmp_path / "root", embedder=embedder) as runtime:
        store = runtime.store
        with pytest.raises(replay.QuarantineViolation, match=r"\(index\).*desk.db"), replay.substitute(path, leftover="report"), \
                store.reading("desk.db"):
            pytest.fail("the index was opened")
        with pytest.raises(replay.QuarantineViolation, match=r"\(embedder\)"), replay.substitute(path, leftover="report"):
            embedder.embed(["text"], "query")
        with replay.substitute(path, leftover="report"), replay.live():
            assert len(rag_search("desk.db", "refund", 1).unwrap()) == 1


def test_each_result_tells_which_state_of_the_index_answered(tmp_path: Path) -> None:
    path, _ = record(tmp_path)
    facts = [event["facts"]["index"] for event in events(path) if event["kind"] == "tool_result"]
    assert [fact["generation"] for fact in facts] == [1, 2, 3, *[3] * 20]
    contents = [fact["content"] for fact in facts]
    assert len(set(contents)) == 3
    assert len({*contents[2:]}) == 1
    assert all(len(content) == 64 for content in contents)
    assert {fact["embedder"] for fact in facts} != {""}


@pytest.mark.parametrize(("change", "cause"), [
    ("nothing", ()), ("index", ("index.content",)), ("embedder", ("index.embedder",)), ("program", ("arguments",)),
])
def test_a_differential_run_says_whether_program_index_or_embedder_changed(tmp_path: Path, change: str, cause: tuple[str, ...]) -> None:
    root, path = tmp_path / "root", tmp_path / "run.jsonl"
    root.mkdir()
    embedder: Any = EmbedderDouble()
    with Runtime(Config(), root=root, embedder=embedder):
        for name, text in TEXTS.items():
            rag_ingest("desk.db", name, name, text, 60).unwrap()
        with replay.record(path):
            live = [rag_search("desk.db", query, 5) for query in ("refund days", "tracking number")]
    if change == "embedder":
        embedder = HashingEmbedder(dim=48)
    with Runtime(Config(), root=root, embedder=embedder):
        if change == "index":
            rag_ingest("desk.db", "gold", "gold", "A refund of gold, and a tracking number for the refund days.", 60).unwrap()
        elif change == "embedder":
            rag_reembed("desk.db").unwrap()
        with replay.differential(path) as session:
            first = "refund weeks" if change == "program" else "refund days"
            assert [rag_search("desk.db", query, 5) for query in (first, "tracking number")] == live
    report = session.report
    assert report.faithful is (change == "nothing")
    assert report.calls[0].cause == cause
    if change == "index":
        assert "gold:0" in report.calls[0].new
        assert report.totals()["causes"] == {"index.content": 2}


def test_a_key_given_to_the_configuration_is_in_no_byte_that_is_written(tmp_path: Path) -> None:
    key = "canary-openai-key-4711"
    path = tmp_path / "run.jsonl"
    with Runtime(Config(openai_key=key), root=tmp_path), replay.record(path, body_bytes=500):
        rag_ingest("a.db", key, f"source {key}", f"The key is {key}. " * 50, 100)
        rag_search("a.db", f"Bearer {key}", 10)
    written = [file for file in tmp_path.rglob("*") if file.is_file() and not file.name.startswith("a.db")]
    assert len(written) > 2
    for file in written:
        assert key.encode() not in file.read_bytes(), file
