"""A trace as a timeline: what each line says, what is said at the end, and that any trace can be shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracing import call, create, plain_run, record, small_bodies, write_events

from replay.errors import TraceError
from replay.reports.display import UNLIMITED, columns
from replay.reports.timeline import timeline
from replay.tracefile.events import KINDS
from replay.tracefile.reader import EventReader
from replay.tracefile.seal import load_private, make_key, seal_trace

SAMPLES: dict[str, Any] = {"string": "text\x1b[31m", "bool": True, "unsigned": 7, "integer": -7, "number": 0.5, "array": [1], "any": {"k": "\u202e"}}


def at(*times: int) -> Callable[[], int]:
    """Return a clock that shows noon, then these milliseconds after it, one after the other."""
    waiting = iter((0, *times))
    return lambda: 1_777_896_000_000 + next(waiting)


def lines(path: Path, width: int = 100, **options: Any) -> list[str]:
    return list(timeline(path, width=width, **options))


def events(path: Path, width: int = 100) -> list[str]:
    """Return the lines of the events."""
    shown = lines(path, width)
    start = shown.index("") + 1
    return shown[start:shown.index("", start)]


def tool_call(*args: Any, tool: str = "t") -> dict[str, Any]:
    return {"kind": "tool_call", "tool": tool, "args": list(args)}


def tool_result(result: Any, tool: str = "t", **further: Any) -> dict[str, Any]:
    return {"kind": "tool_result", "tool": tool, "result": result, **further}


def shown(tmp_path: Path, *middle: dict[str, Any], width: int = 100, complete: bool = True) -> list[str]:
    """Return the lines of the events between start and end, without their times."""
    path = write_events(tmp_path / "run.jsonl", plain_run(*middle, complete=complete))
    found = [re.sub(r"^ *[+-]\d+ ms +", "", line) for line in events(path, width)]
    return found[:-1] if complete else found


def test_a_run_from_head_to_foot(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = create(path, agent="refunds", args=["late"], command=["python", "agent.py"], clock_ms=at(0, 0, 0, 1, 13, 40, 20_540, 700_000))
    call(writer, "rag_ingest", ["notes.db", "doc"], {"tag": "ok", "value": 3})
    call(writer, "rag_search", ["notes.db", "refund", 5], {"tag": "ok", "value": [{}, {}]})
    writer.complete(ok=True, result={"answer": 42})
    assert lines(path) == [
        writer.run_id, 'agent    refunds ["late"]', "command  python agent.py", "started  2026-05-04 12:00:00.000 UTC",
        "writer   rag-stdlib-replay, schema 2", f"seed     {writer.seed}", "",
        '   +1 ms     3  tool       rag_ingest ["notes.db","doc"] -> ok 3  12 ms',
        '  +40 ms     5  tool       rag_search ["notes.db","refund",5] -> ok, 2 items  20.5 s',
        '+11.7 min     7  end        ok {"answer":42}', "",
        "8 events, 2 calls, took 11.7 min", "hash chain there, not checked here; not sealed"]


@pytest.mark.parametrize(("width", "shown"), [
    (40, " rag_ingest_docu… -> ok 3"), (60, ' rag_ingest_document ["notes.db","do… -> ok 3'), (80, ' rag_ingest_document ["notes.db","docs/… -> ok 3'),
    (UNLIMITED, 'rag_ingest_document ["notes.db","docs/handbook/refunds.md"] -> ok 3'),
])
def test_a_narrow_terminal_gets_the_beginning_of_the_arguments(tmp_path: Path, width: int, shown: str) -> None:
    path = record(tmp_path / "run.jsonl", [("rag_ingest_document", ["notes.db", "docs/handbook/refunds.md"], {"tag": "ok", "value": 3})])
    assert shown in events(path, width)[0]


def test_calls_in_flight_name_the_step_of_their_result(tmp_path: Path) -> None:
    found = shown(tmp_path, tool_call("a"), tool_call("b"), tool_call("c"), tool_result([1], call=5), tool_result([1, 2], call=3),
                  {"kind": "host_event", "name": "llm.usage", "payload": {"in": 5}}, tool_result({"tag": "err", "err": "no", "code": "io"}, call=4))
    assert found == [
        '3  tool       t ["a"]', '4  tool       t ["b"]  2 in flight', '5  tool       t ["c"] -> [1]  1 ms; 3 in flight',
        "7  result     t of step 3 -> [] 2 items  4 ms", '8  host_event llm.usage {"in":5}', "9  result     t of step 4 -> err io: no  5 ms"]


@pytest.mark.parametrize(("result", "words"), [
    (tool_result(None, raised={"type": "builtins.ValueError", "message": "bad\nthing", "args": None}), "raised ValueError: bad thing"),
    (tool_result(None, cancelled=True), "cancelled"), (tool_result({"tag": "ok", "value": []}), "ok, 0 items"), (tool_result(None), "null"),
])
def test_how_a_call_ended(tmp_path: Path, result: dict[str, Any], words: str) -> None:
    assert shown(tmp_path, tool_call(), result) == [f"3  tool       t [] -> {words}  1 ms"]
    failed = lines(tmp_path / "run.jsonl")
    assert ("(1 failed)" in "\n".join(failed)) == words.startswith(("raised", "cancelled"))


def test_results_of_other_writers_name_no_call(tmp_path: Path) -> None:
    llm = {"kind": "llm_call", "prompt": "answer", "args": [1]}, {"kind": "llm_result", "prompt": "answer", "result": "fine"}
    assert shown(tmp_path, *llm, {"kind": "approval_request", "label": "Send", "args": []},
                 {"kind": "approval_decision", "site": "s", "args": [], "accepted": False, "decider": "human"},
                 {"kind": "approval_response", "label": "Send", "approved": False}, tool_result(1), tool_result(1, call="odd")) == [
        '3  llm        answer [1] -> "fine"  1 ms', "5  approval   Send []",
        '6  approval_… s args=[] accepted=false decider="human"', "7  result     Send of step 5 -> false  2 ms",
        "8  result     t of no open call -> 1", "9  result     t of no open call -> 1"]


def test_a_call_is_not_ended_by_a_result_of_another_kind(tmp_path: Path) -> None:
    assert shown(tmp_path, tool_call(), {"kind": "llm_result", "prompt": "p", "result": 1}, complete=False) == [
        "3  tool       t []", "4  result     p of no open call -> 1"]
    assert "note: 1 call did not end: step 3" in lines(tmp_path / "run.jsonl")


@pytest.mark.parametrize("width", [1, 40, 60, 71, 72, 100, 200, UNLIMITED])
def test_every_kind_of_event_has_a_line_within_the_width(tmp_path: Path, width: int) -> None:
    every = [{"kind": kind, "ts_ms": number * 1000, "run_id": "run-\x1b1", **{field.name: SAMPLES[field.type] for field in spec.fields}}
             for number, (kind, spec) in enumerate(KINDS.items()) if kind != "schema_header"]
    found = lines(write_events(tmp_path / "run.jsonl", every), width)
    assert "note: the trace has no schema_header" in found
    for line in found:
        assert columns(line) <= max(width, 40)
        assert line.isprintable()
        assert line == line.rstrip()
    if width >= 72:
        kinds = {line[16:26].strip() for line in events(tmp_path / "run.jsonl", width)}
        assert {"tool", "llm", "approval", "result", "end", "host_event", "clock_read", "prompt_ca…"} <= kinds


def test_how_runs_end(tmp_path: Path) -> None:
    def end(**fields: Any) -> str:
        path = write_events(tmp_path / "run.jsonl", [*plain_run(complete=False), {"kind": "run_completed", "ts_ms": 9, "run_id": "run-1", **fields}])
        return events(path)[-1].partition("  end ")[2].strip()

    assert end(ok=True) == end(ok=True, result=None) == "ok"
    assert end(ok=False, error="ValueError: bad") == "failed ValueError: bad"
    assert end(ok=False, result=[1]) == "failed [1]"


def test_what_is_wrong_is_said_at_the_end(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", plain_run(*[tool_call(number) for number in range(12)], {"kind": "novel"}, {"kind": "novel"},
                                                          {"kind": "odd\x07"}, complete=False))
    with path.open("ab") as file:
        file.write(b'{"kind":"tool_res')
    assert lines(path)[-6:] == [
        "15 events, 12 calls, took 12 ms", "note: the run is not complete: there is no run_completed",
        "note: 12 calls did not end: step 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …",
        "note: line 19 was cut off after 17 bytes and is set aside: the program was stopped while it wrote it",
        "note: 3 events of kinds that are not known here: novel (2), odd\ufffd (1)",
        "no hash chain: a change to this trace cannot be noticed"]


def test_a_damaged_line_is_an_error_behind_all_that_stands_before_it(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", plain_run(tool_call("last"), complete=False))
    with path.open("ab") as file:
        file.write(b"damage\n")
    found: list[str] = []
    with pytest.raises(TraceError) as caught:
        found.extend(timeline(path))
    assert caught.value.line == 5
    seen: list[str] = []
    with pytest.raises(TraceError):
        for line in timeline(path):
            seen.append(line)  # noqa: PERF402 - what came before the error is kept
    assert seen[0] == "run-1"
    assert seen[-1].endswith('t ["last"]')


def test_a_head_alone_and_nothing_at_all(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", plain_run(complete=False))
    assert lines(path)[-3:] == ["3 events, 0 calls, took 0 ms", "note: the run is not complete: there is no run_completed",
                                "no hash chain: a change to this trace cannot be noticed"]
    (tmp_path / "empty.jsonl").write_bytes(b"")
    for name, code in (("empty.jsonl", "trace_empty"), ("missing.jsonl", "trace_missing")):
        with pytest.raises(TraceError) as caught:
            lines(tmp_path / name)
        assert caught.value.code == code


def test_a_second_start_and_other_seeds_are_events(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", [
        {"kind": "seed_read", "ts_ms": 10, "run_id": "r", "purpose": "shuffle", "value": 1}, {"kind": "seed_read", "ts_ms": 5, "run_id": "r", "purpose": "again", "value": 2}])
    assert lines(path)[:5] == ["r", "started  1970-01-01 00:00:00.010 UTC", "note: the trace has no schema_header", "shuffle  1", ""]
    assert events(path) == ["   -5 ms     1  seed_read  again 2"], "a clock that was set back is shown as it went"


def test_times_that_are_no_times_are_shown_all_the_same(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", [{"kind": "clock_read", "ts_ms": 2**64 - 1, "run_id": "r", "source": "wall", "value": 1}])
    assert lines(path)[1] == f"started  {2**64 - 1} ms after 1970"


def test_large_values_are_shown_by_their_size_without_their_files(tmp_path: Path) -> None:
    path = record(tmp_path / "run.jsonl", [("load", ["x" * 1500, 7], "y" * 2_000_000), ("load", [8], "z" * 500)], options=small_bodies(400))
    for kept in (tmp_path / "run.jsonl.bodies").iterdir():
        kept.unlink()
    found = lines(path)
    assert 'load ["<1.5 kB>",7] -> <2.0 MB>  1 ms' in found[6]
    assert "load [8] -> <502 B>  1 ms" in found[7]
    assert "3 values of 2.0 MB kept in files beside the trace" in found
    odd = plain_run({**tool_call("a"), "bodies": {"/args/0": {"bytes": "many"}}}, {**tool_result(None), "bodies": {"/result": {}}})
    found = lines(write_events(tmp_path / "odd.jsonl", odd))
    assert 't ["<?>"] -> <?>' in "\n".join(found)
    whole = lines(write_events(tmp_path / "whole.jsonl", plain_run({**tool_call("a"), "args": [], "bodies": {"/args": {"bytes": 12}}})))
    assert "t <12 B>" in "\n".join(whole)
    end = [*plain_run(complete=False), {"kind": "run_completed", "ts_ms": 9, "run_id": "r", "ok": True, "bodies": {"/result": {"bytes": 12}}}]
    assert events(write_events(tmp_path / "end.jsonl", end))[-1].endswith("ok <12 B>")


def test_a_seal_is_named_and_said_not_to_be_checked(tmp_path: Path) -> None:
    path = record(tmp_path / "run.jsonl")
    key = make_key(tmp_path / "key")
    seal_trace(path, load_private(tmp_path / "key"))
    assert lines(path)[-1] == f"sealed by key {key}; the seal was not checked here"
    odd = [{**line, "seal": 7} if line["kind"] == "run_completed" else line for line in plain_run()]
    assert lines(write_events(tmp_path / "odd.jsonl", odd))[-1] == "sealed by key None; the seal was not checked here"


def test_colour_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run.jsonl", plain_run(tool_call(), tool_result({"tag": "err", "err": "no"}), tool_call(), complete=False))

    def styled(text: str, *codes: int) -> str:
        return f"<{','.join(map(str, codes))}|{text}>" if text else text

    coloured = lines(path, styled=styled)
    assert not re.search(r"<\d|\x1b", "\n".join(lines(path)))
    assert "<31|err: no>" in "\n".join(coloured)
    assert "<33|note: 1 call did not end: step 5>" in coloured
    assert [re.sub(r"<[\d,]+\|([^>]*)>", r"\1", line) for line in coloured] == lines(path)


def test_a_reader_can_be_given(tmp_path: Path) -> None:
    path = record(tmp_path / "run.jsonl")
    assert list(timeline(EventReader(path, bodies="leave"))) == lines(path)
