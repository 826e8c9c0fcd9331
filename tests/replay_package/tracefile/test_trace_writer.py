"""Writing a trace: its exact bytes, its refusals, and what it keeps when things go wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import spec_validator
from tracing import (
    call,
    chained,
    counting,
    create,
    drawing,
    events_of,
    hiding,
    plain_run,
    record,
    write_events,
)

from replay.errors import NotRecordable, TraceError, TraceWarning, TraceWriteError
from replay.tracefile import linefile
from replay.tracefile.reader import EventReader
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import verify_trace
from replay.tracefile.writer import TraceWriter, WriterOptions, now_ms

PROGRAM = Path(__file__).parents[2] / "trace_writers.py"

GOLDEN = """\
{"kind":"schema_header","ts_ms":1700000000001,"run_id":"run-1700000000000-00010203","version":2,"writer":"rag-stdlib-replay","commit_sha":null,"source_path":"agent.py","seq":0,"prev":"0000000000000000000000000000000000000000000000000000000000000000","sha256":"@"}
{"kind":"seed_read","ts_ms":1700000000002,"run_id":"run-1700000000000-00010203","purpose":"rollout_default_seed","value":289644378304612875,"seq":1,"prev":"@","sha256":"@"}
{"kind":"run_started","ts_ms":1700000000003,"run_id":"run-1700000000000-00010203","agent":"main","args":["é",1.0],"command":["python","agent.py"],"seq":2,"prev":"@","sha256":"@"}
{"kind":"tool_call","ts_ms":1700000000004,"run_id":"run-1700000000000-00010203","tool":"search","args":["q",{"b":1,"a":true}],"seq":3,"prev":"@","sha256":"@"}
{"kind":"tool_result","ts_ms":1700000000005,"run_id":"run-1700000000000-00010203","tool":"search","result":["\\u2028"],"call":3,"facts":{"index":{"generation":4}},"seq":4,"prev":"@","sha256":"@"}
{"kind":"tool_call","ts_ms":1700000000006,"run_id":"run-1700000000000-00010203","tool":"fail","args":[],"seq":5,"prev":"@","sha256":"@"}
{"kind":"tool_result","ts_ms":1700000000007,"run_id":"run-1700000000000-00010203","tool":"fail","result":null,"call":5,"raised":{"type":"builtins.ValueError","message":"no","args":["no"]},"seq":6,"prev":"@","sha256":"@"}
{"kind":"run_completed","ts_ms":1700000000008,"run_id":"run-1700000000000-00010203","ok":false,"result":null,"error":"ValueError: no","seq":7,"prev":"@","sha256":"@"}
""".replace("\\u2028", "\u2028")
GOLDEN_HEAD = "ab2e3a77b1ef1e331cf2e6e781fb116e3ebfa0cb1be134ceac3824f1f2edea8d"


def run(name: str, *arguments: object) -> Any:
    """Run one of the programs to its end; return what it told."""
    done = subprocess.run([sys.executable, PROGRAM, name, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout or "null")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone may read; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# --- the bytes ---

def golden_run(path: Path, **options: Any) -> None:
    writer = create(path, args=["é", 1.0], command=["python", "agent.py"], source_path="agent.py", entropy=drawing(), **options)
    call(writer, "search", ["q", {"b": 1, "a": True}], ["\u2028"], facts={"index": {"generation": 4}})
    call(writer, "fail", [], None, raised={"type": "builtins.ValueError", "message": "no", "args": ["no"]})
    writer.complete(ok=False, error="ValueError: no")


def test_the_exact_bytes_of_a_small_trace(tmp_path: Path) -> None:
    """Row 28: clock and entropy are given, so nothing else goes into the bytes."""
    golden_run(tmp_path / "t.jsonl")
    data = (tmp_path / "t.jsonl").read_bytes()
    shown = data.decode()
    head = "0" * 64
    for event in events_of(tmp_path / "t.jsonl"):
        assert event["prev"] == head
        head = event["sha256"]
        shown = shown.replace(head, "@")
    assert shown == GOLDEN
    assert head == GOLDEN_HEAD
    assert [*chained(json.loads(line) for line in GOLDEN.split("\n")[:-1]), b""] == data.split(b"\n"), "by the words of the format alone"


def test_a_recorded_run_is_accepted_by_the_independent_validator(tmp_path: Path) -> None:
    """Row 28: every kind that the recorder writes, in the order header, seed, start, …, completion."""
    writer = create(tmp_path / "t.jsonl")
    call(writer, "add", [1, 2], 3)
    step = writer.append("llm_call", {"prompt": "p", "model": None, "args": []})
    writer.append("llm_result", {"prompt": "p", "result": "text", "call": step})
    step = writer.append("approval_request", {"label": "pay", "args": [5]})
    writer.append("approval_response", {"label": "pay", "approved": True, "call": step})
    writer.append("host_event", {"name": "n", "payload": {}})
    writer.complete(ok=True)
    assert spec_validator.violations(tmp_path / "t.jsonl") == []
    golden_run(tmp_path / "u.jsonl")
    assert spec_validator.violations(tmp_path / "u.jsonl") == []


def test_the_clock_and_the_entropy_of_the_machine_are_the_default(tmp_path: Path) -> None:
    before = now_ms()
    writers = [TraceWriter.create(tmp_path, agent="a", args=[], redactor=hiding()) for _ in range(3)]
    assert len({writer.run_id for writer in writers}) == len({writer.seed for writer in writers}) == 3
    for writer in writers:
        writer.complete(ok=True)
        events = events_of(Path(writer.path))
        assert all(before <= event["ts_ms"] <= now_ms() for event in events)
        assert events[1]["value"] == writer.seed
        assert {event["run_id"] for event in events} == {writer.run_id}


def test_records_are_encoded_as_objects_and_what_is_no_json_writes_nothing(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Hit:
        text: str
        score: float

    writer = create(tmp_path / "t.jsonl")
    call(writer, "t", [], {"hits": [Hit("a", 0.5)]})
    assert events_of(tmp_path / "t.jsonl")[-1]["result"] == {"hits": [{"text": "a", "score": 0.5}]}
    with pytest.raises(NotRecordable):
        writer.append("tool_call", {"tool": "t", "args": [object()]})
    assert writer.append("tool_call", {"tool": "t", "args": []}) == 5
    assert writer.failure is None


@pytest.mark.parametrize(("kind", "fields", "reason"), [
    ("novel", {}, "'novel' is no kind of event"),
    ("tool_call", {"tool": "t"}, "tool_call: args is missing"),
    ("tool_call", {"tool": 7, "args": []}, "tool_call: tool must be a string"),
    ("approval_response", {"label": "x", "approved": None}, "approval_response: approved must be a boolean"),
    ("tool_call", {"tool": "t", "args": [], "seq": 3}, "are the line's own"),
    ("tool_call", {"tool": "t", "args": [], "run_id": "r"}, "are the line's own"),
])
def test_an_event_of_a_wrong_shape_is_the_callers_mistake(tmp_path: Path, kind: str, fields: dict[str, Any], reason: str) -> None:
    writer = create(tmp_path / "t.jsonl")
    with pytest.raises(ValueError, match=reason):
        writer.append(kind, fields)
    assert writer.append("tool_call", {"tool": "t", "args": []}) == 3


# --- redaction ---

def test_nothing_is_written_before_the_redactor_has_seen_it(tmp_path: Path) -> None:
    """Row 31: in arguments, results, errors, keys, names, the command and the path."""
    canary = "canary-5f1e"
    writer = create(tmp_path / "t.jsonl", agent=f"a {canary}", args=[canary], command=["run", f"--key={canary}"], source_path=f"/{canary}.py",
                    redactor=hiding(canary))
    call(writer, f"tool {canary}", [{canary: [canary]}], {canary: f"Bearer {canary}"}, facts={canary: canary},
         raised={"type": "E", "message": f"no {canary}", "args": [canary]})
    writer.append("approval_decision", {"site": canary, "args": [canary], "accepted": True, "decider": canary, "rationale": canary})
    writer.append("human_input_response", {"prompt": canary, "value": canary})
    writer.complete(ok=False, result=canary, error=f"E: {canary}")
    data = (tmp_path / "t.jsonl").read_bytes()
    assert canary.encode() not in data
    assert data.count(b"<redacted>") == 22
    assert verify_trace(tmp_path / "t.jsonl").ok
    assert spec_validator.violations(tmp_path / "t.jsonl") == []


@pytest.mark.parametrize("word", ["tool", "result", "tool_result", "run-", "message", "kind", "sha256", "call", "raised"])
def test_a_secret_that_is_a_word_of_the_format_does_not_break_it(tmp_path: Path, word: str) -> None:
    writer = create(tmp_path / "t.jsonl", redactor=hiding(word), entropy=drawing())
    call(writer, "t", [f"a {word}"], {word: word}, raised={"type": "E", "message": word, "args": None})
    writer.complete(ok=True)
    trace = load_trace(tmp_path / "t.jsonl")
    [recorded] = trace.calls
    assert recorded.args == ["a <redacted>"]
    result = events_of(tmp_path / "t.jsonl")[4]
    assert (result["tool"], result["result"], result["raised"]) == ("t", {"<redacted>": "<redacted>"},
                                                                   {"type": "E", "message": "<redacted>", "args": None})


def test_a_number_of_the_format_is_no_secret_but_a_number_of_the_program_may_be(tmp_path: Path) -> None:
    class Numbers:
        def json(self, text: bytes) -> bytes:
            return text.replace(b"12345678", b'"<redacted>"')

    writer = create(tmp_path / "t.jsonl", redactor=Numbers())
    writer.append("clock_read", {"source": "wall", "value": 12345678})
    writer.append("tool_result", {"tool": "t", "result": 12345678, "call": 12345678})
    events = events_of(tmp_path / "t.jsonl")
    assert (events[3]["value"], events[4]["result"], events[4]["call"]) == (12345678, "<redacted>", 12345678)


# --- files ---

def test_two_runs_in_one_millisecond_are_two_files(tmp_path: Path) -> None:
    """Row 18, row 30."""
    paths = {Path(create(tmp_path, clock_ms=lambda: 5).path) for _ in range(10)}
    assert len(paths) == 10
    assert all(path.parent == tmp_path and path.name.startswith("run-5-") and path.suffix == ".jsonl" for path in paths)
    assert all(path.stem == events_of(path)[0]["run_id"] for path in paths)


def test_an_id_that_is_taken_is_drawn_anew_but_not_for_ever(tmp_path: Path) -> None:
    draws = iter([b"aaaa", b"aaaa", b"aaaa", b"bbbb"])

    def entropy(size: int) -> bytes:
        return next(draws) if size == 4 else bytes(size)

    first, second = (create(tmp_path, clock_ms=lambda: 5, entropy=entropy) for _ in range(2))
    assert (first.run_id, second.run_id) == ("run-5-61616161", "run-5-62626262")
    with pytest.raises(TraceError) as caught:
        create(tmp_path, clock_ms=lambda: 5, entropy=lambda size: b"a" * size)
    assert caught.value.code == "trace_exists"


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    before = path.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    for taken, code, reason in [(path, "trace_exists", "never written over"), (tmp_path / "link.jsonl", "trace_io", "is a symbolic link")]:
        with pytest.raises(TraceError, match=reason) as caught:
            create(taken)
        assert caught.value.code == code
    assert path.read_bytes() == before
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_folders_are_made_and_the_file_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "a" / "b" / "t.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    writer = create(f"{tmp_path}/new/")  # type: ignore[arg-type]
    assert Path(writer.path).parent == tmp_path / "new"
    monkeypatch.chdir(tmp_path)
    assert create(Path("relative.jsonl")).path == str(tmp_path / "relative.jsonl")


def test_where_no_file_can_be_made_creating_says_so(tmp_path: Path) -> None:
    """Row 30."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "t.jsonl", tmp_path / "file" / "deeper" / "t.jsonl"):
        with pytest.raises(TraceError, match="cannot be created: Not a directory") as caught:
            create(path)
        assert caught.value.code == "trace_io"


@pytest.mark.parametrize(("name", "reason"), [
    ("n" * 249, "its name may have 248 bytes"), ("é" * 125, "its name may have 248 bytes"), ("n" * 300, "name"), ("a\0b", "null (byte|character)"), ("n" * 300 + "/t", "name"),
])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason) as caught:
        create(tmp_path / name)
    assert caught.value.code == "trace_io"
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_has_room_for_large_values(tmp_path: Path) -> None:
    path = record(tmp_path / ("n" * 248), [("t", ["x" * 300], 1)], options=WriterOptions(body_bytes=200))
    assert load_trace(path).calls[0].args == ["x" * 300]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_in_a_folder_that_may_not_be_written_creating_and_joining_say_so(open_folder: Path) -> None:
    """Row 30."""
    path = open_folder / "t.jsonl"
    create(path).close()
    path.chmod(0o644)
    [[code, text]] = run("unprivileged", path, "join")
    assert (code, "cannot be written: Permission denied" in text) == ("trace_io", True)
    [[code, text]] = run("unprivileged", open_folder / "new.jsonl", "create")
    assert (code, "cannot be created: Permission denied" in text) == ("trace_io", True)


# --- failures ---

@pytest.mark.parametrize("limit", [0, 300, 700])
def test_a_trace_that_cannot_even_begin_leaves_no_file(tmp_path: Path, limit: int) -> None:
    told = run("starved", tmp_path / "t.jsonl", limit, "report")
    assert told["creating"][0] == "trace_io"
    assert "File too large" in told["creating"][1]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_once_and_the_trace_is_whole_up_to_there(tmp_path: Path) -> None:
    """Row 18, row 30."""
    path = tmp_path / "t.jsonl"
    told = run("starved", path, 10_000, "report")
    written = [step for step in told["steps"] if step >= 0]
    assert written == list(range(3, 3 + len(written)))
    assert told["steps"][len(written):] == [-1] * (40 - len(written))
    assert told["raised"] == []
    assert "File too large; a tool_call event could not be written, and the trace ends before it" in told["failure"]
    assert told["warnings"] == [["TraceWarning", told["failure"], "trace_writers.py"]]
    assert path.stat().st_size < 10_000
    assert path.read_bytes().endswith(b'"}\n')
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.complete, verdict.events) == (True, False, 3 + len(written))
    assert not EventReader(path).torn


def test_a_full_disk_stops_the_run_where_that_is_asked(tmp_path: Path) -> None:
    told = run("starved", tmp_path / "t.jsonl", 10_000, "stop")
    assert told["warnings"] == []
    assert -1 not in told["steps"]
    assert len(told["raised"]) == 40 - len(told["steps"]) + 1, "each event, and the end"
    assert set(told["raised"]) == {f"TraceWriteError: {told['failure']}"}
    assert verify_trace(tmp_path / "t.jsonl").ok


def test_a_failure_is_logged_and_only_the_first_of_many_threads_reports_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = create(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").rename(tmp_path / "u.jsonl")
    os.truncate(tmp_path / "u.jsonl", 0)  # what stood there is gone, so nothing can follow it
    barrier = threading.Barrier(8)

    def append(_number: int) -> int:
        barrier.wait()
        return writer.append("tool_call", {"tool": "t", "args": []})

    with caplog.at_level(logging.ERROR, "replay"), pytest.warns(TraceWarning) as seen, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(append, range(8))) == {-1}
    assert len(seen) == len(caplog.records) == 1
    assert caplog.records[0].getMessage() == str(seen[0].message) == str(writer.failure)
    assert isinstance(writer.failure, TraceWriteError)
    writer.complete(ok=True)
    assert (tmp_path / "u.jsonl").read_bytes() == b""
    with pytest.raises(TraceWriteError, match="it is closed"):
        writer.append("tool_call", {"tool": "t", "args": []})


def test_a_line_beyond_what_readers_take_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linefile, "LINE_BYTES", 5000)
    writer = create(tmp_path / "t.jsonl", options=WriterOptions(on_error="stop"))
    with pytest.raises(TraceWriteError, match="longer than a line may be"):
        writer.append("tool_call", {"tool": "t" * 5000, "args": []})
    assert len(events_of(tmp_path / "t.jsonl")) == 3


def test_nothing_is_added_after_the_end(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")
    writer.complete(ok=True)
    writer.close()
    with pytest.raises(TraceWriteError, match="it is complete"):
        writer.append("tool_call", {"tool": "t", "args": []})
    with pytest.raises(TraceWriteError, match="it is complete"):
        writer.complete(ok=True)
    closed = create(tmp_path / "u.jsonl")
    closed.close()
    with pytest.raises(TraceWriteError, match="it is closed"):
        closed.complete(ok=True)


def test_an_end_that_is_no_json_leaves_the_trace_without_one(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")
    with pytest.raises(NotRecordable):
        writer.complete(ok=True, result=object())
    assert len(events_of(tmp_path / "t.jsonl")) == 3
    with pytest.raises(TraceWriteError, match="it is closed"):
        writer.complete(ok=True)


def test_fsync_waits_for_the_disk_at_each_event_and_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    record(tmp_path / "t.jsonl")
    assert synced == []
    record(tmp_path / "u.jsonl", options=WriterOptions(fsync=True))
    assert len(synced) == 1 + 1 + 4 + 1  # the front, its folder, the calls, the end


# --- what somebody does to the file meanwhile ---

def test_nothing_follows_where_a_part_of_the_trace_is_gone(tmp_path: Path) -> None:
    """Also where it was cut at a line's end, so that what is left would pass for an earlier state."""
    path = tmp_path / "t.jsonl"
    writer = create(path)
    call(writer, "t", [1], 1)
    whole = path.read_bytes()
    front = whole[:whole.index(b'{"kind":"tool_result"')]
    path.write_bytes(front)
    with pytest.warns(TraceWarning, match=f"has cut it from {len(whole)} to {len(front)} bytes") as seen:
        assert writer.append("tool_call", {"tool": "t", "args": [2]}) == -1
    writer.complete(ok=True)
    assert len(seen) == 1
    assert path.read_bytes() == front


@pytest.mark.parametrize("replaced", [False, True])
def test_a_trace_that_is_gone_is_told_at_the_latest_at_the_end(tmp_path: Path, replaced: bool) -> None:
    reason = "another file has taken its place" if replaced else "somebody has removed it"
    writers = [create(tmp_path / f"{number}.jsonl") for number in range(3)]
    for writer in writers:
        Path(writer.path).unlink()
        if replaced:
            record(Path(writer.path))
    with pytest.warns(TraceWarning, match=reason):
        writers[0].complete(ok=True)
    with pytest.warns(TraceWarning, match=reason):
        steps = [writers[1].append("tool_call", {"tool": "t", "args": []}) for _ in range(100)]
    assert steps[-1] == -1
    assert 0 < sum(step >= 0 for step in steps) < 100, "it is not looked for each time"
    other = TraceWriter.join(record_front(tmp_path / "joined.jsonl"), redactor=hiding(), options=WriterOptions(on_error="stop"))
    Path(other.path).unlink()
    with pytest.raises(TraceWriteError, match="somebody has removed it"):
        other.complete(ok=True)


def record_front(path: Path) -> Path:
    create(path).close()
    return path


def test_what_a_write_leaves_is_written_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal may have it: a write ends before all is written."""
    monkeypatch.setattr(linefile, "_writev", lambda descriptor, parts: os.write(descriptor, b"".join(parts)[:100]))
    path = record(tmp_path / "t.jsonl")
    assert verify_trace(path).ok


# --- many at once ---

def check_many(path: Path, expected: dict[str, int]) -> None:
    """Check that every call of every writer is there, whole, chained, and in its writer's order."""
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.problem, verdict.complete) == (True, "", True)
    trace = load_trace(path)
    assert Counter(call.name for call in trace.calls) == expected
    for name, count in expected.items():
        mine = [call for call in trace.calls if call.name == name]
        assert [call.args for call in mine] == [[number] for number in range(count)]
        assert [call.ending().value[0] for call in mine] == list(range(count))  # type: ignore[union-attr]
    assert list(path.parent.glob("*.torn-*")) == []


def test_threads_write_whole_chained_lines(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")

    def work(name: str) -> None:
        for number in range(50):
            call(writer, name, [number], [number, "x" * (number * 97 % 2000)])

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.complete(ok=True)
    check_many(tmp_path / "t.jsonl", {f"w{number}": 50 for number in range(8)})


def test_tasks_write_whole_chained_lines(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")

    async def work(name: str) -> None:
        for number in range(20):
            step = writer.append("tool_call", {"tool": name, "args": [number]})
            await asyncio.sleep(0)
            writer.append("tool_result", {"tool": name, "result": [number], "call": step})

    async def together() -> None:
        await asyncio.gather(*(work(f"w{number}") for number in range(20)))

    asyncio.run(together())
    writer.complete(ok=True)
    check_many(tmp_path / "t.jsonl", {f"w{number}": 20 for number in range(20)})


def test_spawned_processes_write_one_intact_chain(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = create(path)
    children = [subprocess.Popen([sys.executable, PROGRAM, "joining", path, f"p{number}", "150"]) for number in range(4)]
    for number in range(150):
        call(writer, "parent", [number], [number])
    assert [child.wait(60) for child in children] == [0] * 4
    writer.complete(ok=True)
    check_many(path, {"parent": 150, **{f"p{number}": 150 for number in range(4)}})


def test_forked_processes_write_one_intact_chain_even_when_forked_in_the_middle_of_a_write(tmp_path: Path) -> None:
    assert run("forking", tmp_path / "t.jsonl", 150) == [0] * 6
    check_many(tmp_path / "t.jsonl", {"thread0": 150, "thread1": 150, **{f"child{number}": 150 for number in range(6)}})


def test_after_a_fork_the_file_is_opened_anew(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")
    inherited = writer._file._descriptor
    assert inherited is not None
    writer._file.after_fork()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(inherited)
    assert call(writer, "t", [], 1) == 3
    writer.complete(ok=True)
    assert verify_trace(tmp_path / "t.jsonl").ok


def test_a_child_does_not_write_into_a_file_that_took_the_place_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = create(path)
    path.rename(tmp_path / "moved.jsonl")
    record(path)
    before = path.read_bytes()
    writer._file.after_fork()
    with pytest.warns(TraceWarning, match="another file has taken its place"):
        assert writer.append("tool_call", {"tool": "t", "args": []}) == -1
    path.unlink()
    other = create(tmp_path / "other.jsonl")
    (tmp_path / "other.jsonl").unlink()
    other._file.after_fork()
    with pytest.warns(TraceWarning, match="No such file"):
        assert other.append("tool_call", {"tool": "t", "args": []}) == -1
    assert before.endswith(b"\n")


# --- going on with a trace ---

def test_joining_goes_on_with_the_run(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first = create(path)
    call(first, "a", [], "x" * 100_000)
    second = TraceWriter.join(path, redactor=hiding(), clock_ms=counting())
    assert (second.run_id, second.seed, second.path, second.notices) == (first.run_id, first.seed, first.path, ())
    assert call(second, "b", [], "y" * 40_000) == 5
    assert call(first, "c", [], 1) == 7
    second.complete(ok=True)
    with pytest.warns(TraceWarning, match="the run was completed; nothing can follow"):
        assert first.append("tool_call", {"tool": "t", "args": []}) == -1
    assert verify_trace(path).ok
    assert [call.name for call in load_trace(path).calls] == ["a", "b", "c"]


@pytest.mark.parametrize("cut", [1, 2, 70, 300])
def test_a_torn_tail_is_cut_kept_and_noted_by_who_joins(tmp_path: Path, cut: int) -> None:
    """R172: also a line that lacks nothing but its line end."""
    path = tmp_path / "t.jsonl"
    writer = create(path)
    call(writer, "t", ["é" * 200], 1)
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    [*_, tail] = whole[:-cut].split(b"\n")
    second = TraceWriter.join(path, redactor=hiding())
    [notice] = second.notices
    assert f"the last line was cut off after {len(tail)} bytes" in notice
    assert f"{path}.torn-1" in notice
    assert (tmp_path / "t.jsonl.torn-1").read_bytes() == tail
    call(second, "u", [], 2)
    second.complete(ok=True)
    assert verify_trace(path).ok


def test_a_torn_tail_of_another_process_is_cut_by_who_writes_next(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = create(path)
    for number in range(1, 3):
        with path.open("ab") as file:
            file.write(b'{"kind":"tool_call","ts' + b"x" * 40_000 * number)
        call(writer, "t", [number], number)
    assert [len((tmp_path / f"t.jsonl.torn-{number}").read_bytes()) for number in (1, 2)] == [40_023, 80_023]
    assert len(writer.notices) == 2
    writer.complete(ok=True)
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.complete, verdict.events) == (True, True, 8)


def test_zero_bytes_are_not_cut_off(tmp_path: Path) -> None:
    """R174."""
    path = tmp_path / "t.jsonl"
    writer = create(path)
    with path.open("ab") as file:
        file.write(b"\0" * 100)
    before = path.read_bytes()
    with pytest.raises(TraceError, match="zero bytes") as caught:
        TraceWriter.join(path, redactor=hiding())
    assert caught.value.code == "trace_line"
    with pytest.warns(TraceWarning, match="zero bytes"):
        assert writer.append("tool_call", {"tool": "t", "args": []}) == -1
    assert path.read_bytes() == before


def test_what_cannot_be_gone_on_with_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def refused() -> TraceError:
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(TraceError) as caught:
            TraceWriter.join(path, redactor=hiding())
        assert (path.read_bytes() if path.exists() else None) == before
        return caught.value

    assert refused().code == "trace_missing"
    path.write_bytes(b"")
    assert refused().code == "trace_empty"
    path.write_bytes(record(tmp_path / "whole.jsonl").read_bytes())
    assert (refused().code, "completed" in str(refused())) == ("trace_order", True)
    path.write_bytes(path.read_bytes() + b"torn")
    assert refused().code == "trace_order"
    write_events(path, plain_run(complete=False))
    assert refused().code == "trace_tampered"
    changes: list[tuple[dict[str, Any], str]] = [({"writer": "corvid-vm"}, "trace_alien"), ({"version": 99}, "trace_version"), ({"version": 1}, "trace_version")]
    for change, code in changes:
        events = plain_run(complete=False)
        events[0].update(change)
        path.write_bytes(b"\n".join([*chained(events), b""]))
        assert refused().code == code
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.jsonl", "whole.jsonl"]
