"""Loading a trace for replay: pairing, endings, and every reason to refuse it."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tracing import call, chained, create, events_of, plain_run, record, small_bodies, write_events

from replay.errors import TraceError
from replay.jsontext import match_key
from replay.recorder import Cancelled, Raised, Returned
from replay.tracefile.bodies import write_body
from replay.tracefile.events import KINDS, METADATA_KINDS
from replay.tracefile.pairing import ending_of
from replay.tracefile.reader import EventReader
from replay.tracefile.trace import Trace, load_trace

CALL: dict[str, Any] = {"kind": "tool_call", "tool": "t", "args": [1]}
RESULT = {"kind": "tool_result", "tool": "t", "result": 2}
REQUEST = {"kind": "approval_request", "label": "pay", "args": [5]}
DECISION = {"kind": "approval_decision", "site": "s", "args": [5], "accepted": True, "decider": "me"}
RESPONSE = {"kind": "approval_response", "label": "pay", "approved": False}
SAMPLES: dict[str, Any] = {"string": "text", "bool": True, "unsigned": 7, "integer": -7, "number": 0.5, "array": [1], "any": {"k": None}}


def chain_events(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    path.write_bytes(b"\n".join([*chained(events), b""]))
    return path


def load(tmp_path: Path, *middle: dict[str, Any], **options: Any) -> Trace:
    complete = not options.get("incomplete", False)
    return load_trace(chain_events(tmp_path / "t.jsonl", plain_run(*middle, complete=complete)), **options)


def refused(path: Path, **options: Any) -> tuple[str, int | None, str]:
    with pytest.raises(TraceError) as caught:
        load_trace(path, **options)
    assert caught.value.path == str(path)
    return caught.value.code, caught.value.line, str(caught.value)


def refused_run(tmp_path: Path, *middle: dict[str, Any]) -> tuple[str, int | None, str]:
    return refused(chain_events(tmp_path / "t.jsonl", plain_run(*middle)))


# --- what is in it ---

def test_a_recorded_run_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = create(path, agent="planner", args=[{"a": 1}], command=["python", "agent.py"])
    first = call(writer, "add", [1, 2.0, True], 3, facts={"index": {"generation": 4}})
    second = call(writer, "fail", [], None, raised={"type": "builtins.ValueError", "message": "no", "args": ["no"]})
    third = call(writer, "slow", [{"b": 1, "a": 2}], None, cancelled=True)
    writer.complete(ok=True, result="done")
    for memory in (64 << 20, 0):
        trace = load_trace(path, memory_bytes=memory)
        assert (trace.path, trace.run_id, trace.seed) == (str(path), writer.run_id, writer.seed)
        assert (trace.agent, trace.args, trace.command) == ("planner", [{"a": 1}], ["python", "agent.py"])
        assert (trace.header["version"], trace.notices, trace.skipped, trace.event_count, trace.others) == (2, (), {}, 10, ())
        assert trace.completed == events_of(path)[-1]
        assert [(one.kind, one.name, one.number, one.step, one.line) for one in trace.calls] == [
            ("tool", "add", 1, first, first + 1), ("tool", "fail", 2, second, second + 1), ("tool", "slow", 3, third, third + 1)]
        assert [one.args for one in trace.calls] == [[1, 2.0, True], [], [{"b": 1, "a": 2}]]
        assert [json.dumps(one.args) for one in trace.calls][2] == '[{"b": 1, "a": 2}]'
        for _ in range(2):
            assert [one.key for one in trace.calls] == [match_key(["tool", one.name, one.args]) for one in trace.calls]
        assert [one.ending() for one in trace.calls] == [Returned(3), Raised("builtins.ValueError", "no", ["no"]), Cancelled()]
        assert [one.facts for one in trace.calls] == [{"index": {"generation": 4}}, {}, {}]
        assert [(one.result_step, one.result_line) for one in trace.calls] == [(4, 5), (6, 7), (8, 9)]
        assert [(one.ts_ms, one.result_ts_ms) for one in trace.calls] == [(1_700_000_000_004 + 2 * n, 1_700_000_000_005 + 2 * n) for n in range(3)]
        assert repr(trace.calls[0]) == "<RecordedCall 1: tool add at step 3>"


def test_calls_of_every_kind_have_their_own_names_and_results(tmp_path: Path) -> None:
    trace = load(tmp_path, {"kind": "llm_call", "prompt": "p", "args": [1]}, {"kind": "llm_result", "prompt": "p", "result": "text"}, REQUEST, RESPONSE)
    assert [(one.kind, one.name, one.ending()) for one in trace.calls] == [("llm", "p", Returned("text")), ("approval", "pay", Returned(value=False))]


def test_each_asker_gets_a_value_of_its_own(tmp_path: Path) -> None:
    [one] = load(tmp_path, CALL, {**RESULT, "result": [1]}).calls
    first = one.ending()
    assert isinstance(first, Returned)
    first.value.append(2)
    assert one.ending() == Returned([1])


def test_calls_that_overlap_are_paired_by_the_step_that_their_results_name(tmp_path: Path) -> None:
    """R168: equal calls keep their separate results."""
    trace = load(tmp_path, CALL, CALL, {**RESULT, "result": "second", "call": 4}, CALL, {**RESULT, "result": "first", "call": 3},
                 {**RESULT, "result": "third", "call": 6})
    assert [one.ending() for one in trace.calls] == [Returned("first"), Returned("second"), Returned("third")]


def test_a_result_that_names_no_call_belongs_to_the_latest(tmp_path: Path) -> None:
    trace = load(tmp_path, CALL, {"kind": "host_event", "name": "n", "payload": 1}, RESULT, CALL, {**RESULT, "result": 9})
    assert [one.ending() for one in trace.calls] == [Returned(2), Returned(9)]
    cut = load(tmp_path, CALL, {**CALL, "tool": "u"}, {**RESULT, "tool": "u"})
    assert [one.ending() for one in cut.calls] == [None, Returned(2)], "the first call trapped: it has no ending"


def test_a_call_in_which_the_run_ended_has_no_ending(tmp_path: Path) -> None:
    """Row 22: it is told apart from one that returned null."""
    [one, other] = load(tmp_path, {**CALL, "args": []}, {**RESULT, "result": None}, CALL, incomplete=True).calls
    assert (one.ending(), other.ending()) == (Returned(None), None)
    assert (other.result_step, other.result_ts_ms, other.facts) == (None, None, {})


def test_a_decision_between_request_and_response_is_passed_over(tmp_path: Path) -> None:
    """Row 27."""
    trace = load(tmp_path, REQUEST, DECISION, RESPONSE)
    assert ([one.ending() for one in trace.calls], trace.others) == ([Returned(value=False)], ())
    assert [event.kind for event in load(tmp_path, DECISION).others] == ["approval_decision"]


def test_metadata_is_passed_over_and_what_else_matters_is_kept(tmp_path: Path) -> None:
    middle = [{"kind": kind, **{field.name: SAMPLES[field.type] for field in spec.fields}} for kind, spec in KINDS.items()
              if kind not in {"schema_header", "run_started", "run_completed"} and not kind.endswith(("_call", "_result"))
              and kind not in {"approval_request", "approval_response"}]
    others = [event.kind for event in load(tmp_path, *middle, {"kind": "novel"}).others]
    assert others == ["seed_read", "approval_decision", "human_input_request", "human_input_response", "human_choice_request",
                      "human_choice_response", "clock_read"]
    assert METADATA_KINDS.isdisjoint(others)


def test_unknown_kinds_are_counted_or_refused(tmp_path: Path) -> None:
    trace = load(tmp_path, {"kind": "novel"}, CALL, RESULT)
    assert (trace.skipped, trace.event_count, trace.calls[0].step, trace.calls[0].line) == ({"novel": 1}, 7, 4, 5)
    assert refused(tmp_path / "t.jsonl", strict=True)[:2] == ("trace_line", 4)


def test_marks_crlf_and_blank_lines_move_no_result(tmp_path: Path) -> None:
    path = chain_events(tmp_path / "t.jsonl", plain_run(CALL, RESULT))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    for memory in (64 << 20, 0):
        assert [one.ending() for one in load_trace(path, memory_bytes=memory, verify=False).calls] == [Returned(2)]
    assert refused(path)[:2] == ("trace_tampered", 1)


# --- refusals, each with its own code ---

def test_a_missing_an_empty_and_a_headerless_trace_are_three_things(tmp_path: Path) -> None:
    """Row 36, R162."""
    path = tmp_path / "t.jsonl"
    assert refused(path)[0] == "trace_missing"
    path.write_bytes(b"")
    assert refused(path)[0] == "trace_empty"
    path.write_bytes(b"x" * 5000)
    assert "there is no whole line in it" in refused(path)[2]
    path.write_bytes(b"\n\r\n")
    assert refused(path)[0] == "trace_empty"
    chain_events(path, plain_run()[1:])
    code, line, text = refused(path)
    assert (code, line) == ("trace_header", 1)
    assert "the trace is missing its schema_header" in text


def test_a_trace_without_seed_or_start_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    events = plain_run(CALL)
    for without, expected in [((1,), ("trace_seed", 2)), ((2,), ("trace_order", 3)), ((1, 2), ("trace_seed", 2))]:
        chain_events(path, [event for number, event in enumerate(events) if number not in without])
        assert refused(path)[:2] == expected
    chain_events(path, events[:1])
    assert refused(path)[:2] == ("trace_seed", None)
    chain_events(path, events[:2])
    assert refused(path)[:2] == ("trace_order", None)
    events[1]["purpose"] = "retry_jitter"
    chain_events(path, events)
    code, line, text = refused(path)
    assert (code, line) == ("trace_seed", 2)
    assert "rollout_default_seed" in text


def test_an_alien_trace_and_one_of_another_version_are_refused(tmp_path: Path) -> None:
    """Row 36, row 32."""
    path = tmp_path / "t.jsonl"
    events = plain_run(CALL, RESULT)
    events[0]["writer"] = "corvid-vm"
    code, line, text = refused(chain_events(path, events))
    assert (code, line) == ("trace_alien", 1)
    assert "it was written by 'corvid-vm'; only traces of 'rag-stdlib-replay' can be replayed or continued. It can be shown and compared" in text
    for copy in (path, write_events(tmp_path / "plain.jsonl", events)):
        trace = load_trace(copy, foreign=True)
        assert (trace.header["writer"], [one.ending() for one in trace.calls]) == ("corvid-vm", [Returned(2)])
    events[0].update(writer="rag-stdlib-replay", version=99)
    assert refused(chain_events(path, events))[:2] == ("trace_version", 1)
    events[0].update(version=1)
    assert len(load_trace(chain_events(path, events)).calls) == 1


def test_an_incomplete_trace_is_refused_unless_that_is_asked(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert refused(path)[0] == "trace_incomplete"
    trace = load_trace(path, incomplete=True)
    assert (trace.completed, len(trace.calls), len(trace.notices)) == (None, 2, 1)
    path.write_bytes(whole[:whole.index(b'"result":3')])
    assert refused(path)[0] == "trace_incomplete"
    [one] = load_trace(path, incomplete=True).calls
    assert (one.name, one.ending()) == ("add", None)


def test_a_changed_trace_is_refused_unless_nobody_asked(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"result":3', b'"result":4'))
    assert refused(path)[:2] == ("trace_tampered", 5)
    assert load_trace(path, verify=False).calls[0].ending() == Returned(4)


def test_a_trace_of_ours_has_a_chain(tmp_path: Path) -> None:
    """Without one, anybody may have written anything into it."""
    path = write_events(tmp_path / "t.jsonl", plain_run(CALL, RESULT))
    code, line, text = refused(path)
    assert (code, line) == ("trace_tampered", 1)
    assert "it carries no hash chain" in text
    assert load_trace(path, verify=False).calls[0].ending() == Returned(2)


def test_a_malformed_line_in_mid_run_is_refused_with_its_number(tmp_path: Path) -> None:
    """Row 36, R173."""
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"tool":"search"', b'"tool":search"', 1))
    assert refused(path)[:2] == ("trace_line", 6)


def test_a_result_of_another_tool_or_kind_is_refused(tmp_path: Path) -> None:
    """Row 21, row 37."""
    code, line, text = refused_run(tmp_path, CALL, {**RESULT, "tool": "u"})
    assert (code, line) == ("trace_order", 5)
    assert "the result is that of the tool 'u', but the call at line 4 is to the tool 't'" in text
    assert refused_run(tmp_path, CALL, {**RESULT, "tool": "u", "call": 3})[:2] == ("trace_order", 5)
    assert refused_run(tmp_path, CALL, {"kind": "llm_result", "prompt": "t", "result": 1})[:2] == ("trace_order", 5)
    swapped: list[dict[str, Any]] = [CALL, {**CALL, "tool": "u"}, {**RESULT, "call": 4}, {**RESULT, "tool": "u", "call": 3}]
    assert refused_run(tmp_path, *swapped)[:2] == ("trace_order", 6)


@pytest.mark.parametrize(("middle", "line"), [
    ([RESULT], 4), ([CALL, RESULT, RESULT], 6), ([CALL, {**RESULT, "call": 3}, {**RESULT, "call": 3}], 6), ([CALL, {**RESULT, "call": 2}], 5),
    ([CALL, {**RESULT, "call": 99}], 5), ([CALL, {**RESULT, "call": -1}], 5),
])
def test_a_result_without_an_open_call_is_refused(tmp_path: Path, middle: list[dict[str, Any]], line: int) -> None:
    code, at, text = refused_run(tmp_path, *middle)
    assert (code, at) == ("trace_order", line)
    assert "a result without its call" in text


@pytest.mark.parametrize(("further", "reason"), [
    ({"call": "3"}, "call must be the number"), ({"call": True}, "call must be the number"), ({"cancelled": "yes"}, "cancelled must be a boolean"),
    ({"cancelled": [1]}, "cancelled must be a boolean"),
    ({"raised": "ValueError"}, "raised must be"), ({"raised": {"type": "E"}}, "raised must be"),
    ({"raised": {"type": "E", "message": "m", "args": "x"}}, "raised must be"), ({"facts": [1]}, "facts must be an object"),
])
def test_further_fields_that_make_no_ending_are_refused(tmp_path: Path, further: dict[str, Any], reason: str) -> None:
    code, line, text = refused_run(tmp_path, CALL, {**RESULT, **further})
    assert (code, line) == ("trace_line", 5)
    assert reason in text


def test_a_second_beginning_another_run_and_what_follows_the_end_are_refused(tmp_path: Path) -> None:
    """Row 18: two runs in one file."""
    started: dict[str, Any] = {"kind": "run_started", "agent": "a", "args": []}
    header: dict[str, Any] = {"kind": "schema_header", "version": 2, "writer": "rag-stdlib-replay"}
    assert refused_run(tmp_path, started)[:2] == ("trace_order", 4)
    assert refused_run(tmp_path, header)[:2] == ("trace_order", 4)
    code, line, text = refused_run(tmp_path, {**CALL, "run_id": "run-2"})
    assert (code, line) == ("trace_order", 4)
    assert "belongs to another run, 'run-2'" in text
    assert refused_run(tmp_path, {"kind": "run_completed", "ok": True})[:2] == ("trace_order", 5)


# --- large traces ---

def test_a_large_trace_is_not_held_in_memory(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", [number, "q" * 20_000], "x" * 80_000) for number in range(300)])
    tracemalloc.start()
    try:
        trace = load_trace(path, memory_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        path.unlink()  # what is open stays readable
        assert all(one.args == [number, "q" * 20_000] for number, one in enumerate(trace.calls))
        assert all(one.ending() == Returned("x" * 80_000) for one in trace.calls)
        assert trace.calls[7].key == match_key(["tool", "t", [7, "q" * 20_000]])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_large_trace_that_is_changed_while_in_use_is_noticed(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", [1], "x" * 100), ("t", [2], "y" * 100)])
    trace = load_trace(path, memory_bytes=0)
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(b" " * data.index(b'"y'))
    with pytest.raises(TraceError, match="changed while it was in use") as caught:
        trace.calls[1].ending()
    assert (caught.value.code, caught.value.line) == ("trace_tampered", 7)
    os.truncate(path, 50)
    with pytest.raises(TraceError, match="shorter while it was in use"):
        trace.calls[0].ending()


def test_large_values_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", ["q" * 500, 1], {"a": "x" * 500})], options=small_bodies(400))
    for memory in (64 << 20, 0):
        [one] = load_trace(path, memory_bytes=memory).calls
        assert (one.args, one.ending()) == (["q" * 500, 1], Returned({"a": "x" * 500}))
        assert one.key == match_key(["tool", "t", ["q" * 500, 1]])


def test_what_was_raised_may_be_large_too(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl", options=small_bodies(400))
    for message, args in [("m" * 500, ["a" * 500]), ("m" * 500, None), ("short", ["a" * 500]), ("short", ["a"])]:
        call(writer, "t", [], None, raised={"type": "builtins.ValueError", "message": message, "args": args})
    writer.complete(ok=True)
    events = [event for event in events_of(tmp_path / "t.jsonl") if event["kind"] == "tool_result"]
    assert [list(event.get("bodies", ())) for event in events] == [["/raised/message", "/raised/args"], ["/raised/message"], ["/raised/args"], []]
    assert events[0]["raised"] == {"type": "builtins.ValueError", "message": None, "args": None}
    for memory in (64 << 20, 0):
        assert [one.ending() for one in load_trace(tmp_path / "t.jsonl", memory_bytes=memory).calls] == [
            Raised("builtins.ValueError", "m" * 500, ["a" * 500]), Raised("builtins.ValueError", "m" * 500, None),
            Raised("builtins.ValueError", "short", ["a" * 500]), Raised("builtins.ValueError", "short", ["a"])]
    shown = [ending_of(event) for event in EventReader(tmp_path / "t.jsonl", bodies="leave") if event.kind == "tool_result"]
    assert shown[0] == Raised("builtins.ValueError", "", None)


@pytest.mark.parametrize(("pointer", "body", "reason"), [("/raised/message", b"7", "raised must be an object"), ("/result", b"{", "is no JSON")])
def test_a_body_that_is_no_such_value_is_refused_when_it_is_asked_for(tmp_path: Path, pointer: str, body: bytes, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    write_body(str(path), body, entropy=bytes, fsync=False)
    reference = {pointer: {"sha256": sha256(body).hexdigest(), "bytes": len(body)}}
    further = {"raised": {"type": "E", "message": None, "args": None}} if pointer == "/raised/message" else {}
    [one] = load_trace(chain_events(path, plain_run(CALL, {**RESULT, "result": None, **further, "bodies": reference}))).calls
    with pytest.raises(TraceError, match=reason) as caught:
        one.ending()
    assert (caught.value.code, caught.value.line) == ("trace_body", 5)


def test_a_chained_trace_by_the_words_of_the_format_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join([*chained(plain_run(CALL, RESULT)), b""]))
    assert load_trace(path).calls[0].ending() == Returned(2)


def test_what_cannot_be_read_says_so() -> None:
    for memory in (0, 64 << 20):
        assert refused(Path("/proc/self/mem"), memory_bytes=memory)[0] == "trace_io"
