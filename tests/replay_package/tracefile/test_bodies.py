"""Large values in files beside the trace: what goes there, how it comes back, and what is refused."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tracing import call, counting, create, drawing, events_of, hiding, record, small_bodies

from replay.errors import TraceError
from replay.recorder import Returned
from replay.tracefile.bodies import check_bodies, digests, folder_of, restore, write_body
from replay.tracefile.exchange import discard_trace
from replay.tracefile.reader import EventReader
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import verify_trace

LONG = "x" * 300


def bodies(path: Path) -> list[str]:
    return sorted(file.name for file in Path(folder_of(str(path))).iterdir())


def test_the_folder_stands_beside_the_trace() -> None:
    assert folder_of("/a/run.jsonl") == "/a/run.jsonl.bodies"
    assert folder_of("/a/run") == "/a/run.bodies", "no two traces share one"


def test_only_what_is_longer_than_the_limit_goes_out(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", ["short", LONG, 7], {"text": LONG})], options=small_bodies(200))
    events = events_of(path)
    text, value = json.dumps(LONG).encode(), json.dumps({"text": LONG}, separators=(",", ":")).encode()
    assert events[3]["args"] == ["short", None, 7]
    assert events[3]["bodies"] == {"/args/1": {"sha256": sha256(text).hexdigest(), "bytes": len(text)}}
    assert events[4]["result"] is None
    assert events[4]["bodies"] == {"/result": {"sha256": sha256(value).hexdigest(), "bytes": len(value)}}
    assert list(events[4])[-4:] == ["bodies", "seq", "prev", "sha256"]
    folder = tmp_path / "t.jsonl.bodies"
    assert (folder / f"{sha256(text).hexdigest()}.json").read_bytes() == text
    assert (folder / f"{sha256(value).hexdigest()}.json").read_bytes() == value
    assert len(bodies(path)) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_a_long_line_of_short_values_stays_whole(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", list(range(300)), 1)], options=small_bodies(200))
    assert events_of(path)[3]["args"] == list(range(300))
    assert not (tmp_path / "t.jsonl.bodies").exists()


def test_equal_values_share_a_file_and_start_and_end_may_be_long_too(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl", args=[LONG], options=small_bodies(200))
    call(writer, "t", [LONG], LONG)
    writer.complete(ok=False, result=LONG, error=LONG + "!")
    assert len(bodies(tmp_path / "t.jsonl")) == 2
    trace = load_trace(tmp_path / "t.jsonl")
    assert trace.args == [LONG]
    assert trace.completed is not None
    assert (trace.completed["result"], trace.completed["error"]) == (LONG, LONG + "!")
    assert trace.calls[0].args == [LONG]
    assert trace.calls[0].ending() == Returned(LONG)


def test_a_field_that_cannot_be_null_stays(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl", options=small_bodies(200))
    writer.append("llm_call", {"prompt": LONG, "rendered": LONG, "args": []})
    event = events_of(tmp_path / "t.jsonl")[3]
    assert (event["prompt"], event["rendered"], list(event["bodies"])) == (LONG, None, ["/rendered"])


def test_bodies_are_redacted_before_they_are_hashed_and_written(tmp_path: Path) -> None:
    canary = "canary-5f1e"
    path = record(tmp_path / "t.jsonl", [("t", [LONG + canary], {canary: LONG})], options=small_bodies(200), redactor=hiding(canary))
    files = [file.read_bytes() for file in (tmp_path / "t.jsonl.bodies").iterdir()]
    assert len(files) == 2
    assert all(canary.encode() not in data for data in [*files, path.read_bytes()])
    assert load_trace(path).calls[0].args == [LONG + "<redacted>"]


def test_a_body_that_a_crash_left_short_is_written_anew(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    write_body(trace, b'"abc"', entropy=drawing(), fsync=True)
    [name] = bodies(tmp_path / "t.jsonl")
    file = tmp_path / "t.jsonl.bodies" / name
    file.write_bytes(b"")
    write_body(trace, b'"abc"', entropy=drawing(), fsync=False)
    assert file.read_bytes() == b'"abc"'
    before = file.stat()
    write_body(trace, b'"abc"', entropy=drawing(), fsync=False)
    assert file.stat().st_mtime_ns == before.st_mtime_ns, "what is there stays"


def test_a_failed_body_leaves_nothing_behind(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    body = b'"abc"'
    target = tmp_path / "t.jsonl.bodies" / f"{sha256(body).hexdigest()}.json"
    target.mkdir(parents=True)  # nothing can take its place
    with pytest.raises(IsADirectoryError):
        write_body(trace, body, entropy=drawing(), fsync=False)
    assert bodies(tmp_path / "t.jsonl") == [target.name]


def test_a_body_that_cannot_be_written_is_a_failed_event(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl", options=small_bodies(200))
    (tmp_path / "t.jsonl.bodies").write_text("in the way")
    with pytest.warns(UserWarning, match="a tool_call event could not be written"):
        assert writer.append("tool_call", {"tool": "t", "args": [LONG]}) == -1
    assert len(events_of(tmp_path / "t.jsonl")) == 3


@pytest.mark.parametrize("damage", ["missing", "altered", "longer", "shorter"])
def test_a_missing_or_altered_body_is_found_by_everyone(tmp_path: Path, damage: str) -> None:
    path = record(tmp_path / "t.jsonl", [("t", [], LONG)], options=small_bodies(200))
    [name] = bodies(path)
    file = tmp_path / "t.jsonl.bodies" / name
    data = file.read_bytes()
    file.write_bytes({"altered": data.replace(b"x", b"y", 1), "longer": data + b" ", "shorter": data[:-1]}.get(damage, data))
    if damage == "missing":
        file.unlink()
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.line) == (False, 5)
    assert "the body" in verdict.problem
    def ask() -> None:
        load_trace(path, verify=False).calls[0].ending()

    readers: tuple[Callable[[], object], ...] = (partial(load_trace, path), partial(list, EventReader(path)), ask)
    for read in readers:
        with pytest.raises(TraceError) as caught:
            read()
        assert (caught.value.code, caught.value.line) == ("trace_body", 5)


GOOD = {"sha256": "0" * 64, "bytes": 1}


@pytest.mark.parametrize(("references", "reason"), [
    ([], "bodies must be an object"),
    ({"/result": 7}, "has no SHA-256"),
    ({"/result": {"sha256": "../../etc/passwd", "bytes": 1}}, "has no SHA-256"),
    ({"/result": {"sha256": "../" * 21 + "x", "bytes": 1}}, "has no SHA-256"),
    ({"/result": {"sha256": "A" * 64, "bytes": 1}}, "has no SHA-256"),
    ({"/result": {"sha256": "0" * 64}}, "has no length"),
    ({"/result": {"sha256": "0" * 64, "bytes": -1}}, "has no length"),
    ({"/result": GOOD}, "cannot be read"),
    ({"/nowhere": GOOD}, "has no place '/nowhere'"),
    ({"/args/2": GOOD}, "has no place '/args/2'"),
    ({"/args/x": GOOD}, "has no place '/args/x'"),
    ({"/args/1/x": GOOD}, "has no place '/args/1/x'"),
    ({"/args/0": GOOD}, "a value stands at '/args/0'"),
    ({"": GOOD}, "a value stands at ''"),
])
def test_references_that_lead_nowhere_are_refused(tmp_path: Path, references: Any, reason: str) -> None:
    event = {"kind": "x", "args": [1, None], "result": None, "bodies": references}
    for look in (restore, check_bodies):
        with pytest.raises(TraceError, match=reason) as caught:
            look(str(tmp_path / "t.jsonl"), dict(event), 9)
        assert (caught.value.code, caught.value.line) == ("trace_body", 9)


def test_a_pointer_is_followed_as_the_standard_says(tmp_path: Path) -> None:
    """RFC 6901: ~1 is a slash, ~0 a tilde."""
    write_body(str(tmp_path / "t.jsonl"), b"[1]", entropy=drawing(), fsync=False)
    event = {"a/b~c": [{"0": None}], "bodies": {"/a~1b~0c/0/0": {"sha256": sha256(b"[1]").hexdigest(), "bytes": 3}}}
    restore(str(tmp_path / "t.jsonl"), event, 1)
    assert event["a/b~c"] == [{"0": [1]}]


def test_a_trace_may_be_moved_together_with_its_folder(tmp_path: Path) -> None:
    record(tmp_path / "t.jsonl", [("t", [], LONG)], options=small_bodies(200), clock_ms=counting())
    (tmp_path / "t.jsonl").rename(tmp_path / "u.jsonl")
    (tmp_path / "t.jsonl.bodies").rename(tmp_path / "u.jsonl.bodies")
    assert load_trace(tmp_path / "u.jsonl").calls[0].ending() == Returned(LONG)


def test_only_a_regular_file_of_the_stated_size_is_read(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", [], LONG)], options=small_bodies(200))
    [name] = bodies(path)
    file = tmp_path / "t.jsonl.bodies" / name
    whole = file.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(whole)
    put: list[tuple[Callable[[], object], str]] = [
        (lambda: os.mkfifo(file), "this is no regular file"), (lambda: file.symlink_to(elsewhere), "this is a symbolic link"),
        (file.mkdir, "this is no regular file"), (lambda: file.symlink_to("/dev/zero"), "this is a symbolic link"),
        (lambda: file.write_bytes(whole + b" " * (64 << 20)), "was altered")]
    for make, reason in put:
        file.unlink()
        make()
        verdict = verify_trace(path)
        assert (verdict.ok, verdict.line) == (False, 5)
        assert reason in verdict.problem
        with pytest.raises(TraceError, match=reason):
            load_trace(path)
        [call_] = load_trace(path, verify=False).calls
        with pytest.raises(TraceError, match=reason):
            call_.ending()
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
            file.touch()


def test_a_body_that_is_there_is_used_only_if_it_is_whole(tmp_path: Path) -> None:
    """A crash may have left it of the right size; a pipe or a link may stand there."""
    trace, body = str(tmp_path / "t.jsonl"), b'"abc"'
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(body)
    write_body(trace, body, entropy=drawing(), fsync=False)
    file = tmp_path / "t.jsonl.bodies" / bodies(tmp_path / "t.jsonl")[0]
    for make in (lambda: file.write_bytes(b"\0" * len(body)), lambda: os.mkfifo(file), lambda: file.symlink_to(elsewhere)):
        file.unlink()
        make()
        write_body(trace, body, entropy=drawing(), fsync=False)
        assert (file.read_bytes(), file.is_symlink(), elsewhere.read_bytes()) == (body, False, body)


def test_two_traces_of_one_stem_share_nothing(tmp_path: Path) -> None:
    first = record(tmp_path / "run", [("t", [], LONG)], options=small_bodies(200))
    second = record(tmp_path / "run.jsonl", [("t", [], LONG)], options=small_bodies(200))
    discard_trace(str(first))
    assert load_trace(second).calls[0].ending() == Returned(LONG)


@pytest.mark.parametrize("references", [None, [], {"/result": None}, {"/result": {}}, {"/result": {"sha256": "../../x"}}, {"/result": {"sha256": 7}}])
def test_what_is_misshapen_refers_to_no_file(references: Any) -> None:
    assert list(digests({"kind": "k", "bodies": references})) == []
    assert list(digests({"kind": "k"})) == []
    assert list(digests({"bodies": {"/a": {"sha256": "0" * 64}}})) == ["0" * 64]
