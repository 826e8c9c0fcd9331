"""Reading events: what is tolerated, what is damage, and where it stands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import chained, create, plain_run, record, small_bodies, write_events

from replay.errors import TraceError
from replay.tracefile import reader as reading
from replay.tracefile.events import KINDS
from replay.tracefile.reader import EventReader, open_trace, read_prelude, split_lines

SAMPLES: dict[str, Any] = {"string": "text", "bool": True, "unsigned": 7, "integer": -7, "number": 0.5, "array": [1], "any": {"k": None}}
CALL = {"kind": "tool_call", "tool": "t", "args": []}


def kinds(path: Path, **options: Any) -> list[str]:
    return [event.kind for event in EventReader(path, **options)]


def failure(path: Path, **options: Any) -> TraceError:
    with pytest.raises(TraceError) as caught:
        list(EventReader(path, **options))
    assert caught.value.path == str(path)
    return caught.value


def test_an_event_is_its_whole_line_with_its_number_and_line(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    reader = EventReader(path, chain="check")
    events = list(reader)
    assert [event.kind for event in events] == ["schema_header", "seed_read", "run_started", "tool_call", "tool_result", "tool_call", "tool_result",
                                                "run_completed"]
    assert [(event.seq, event.line) for event in events] == [(number, number + 1) for number in range(8)]
    assert [event.fields for event in events] == [json.loads(line) for line in path.read_bytes().splitlines()]
    assert (reader.notices, reader.torn, dict(reader.skipped), reader.chain.chained) == ([], False, {}, True)


def test_every_kind_of_the_format_is_read(tmp_path: Path) -> None:
    """Row 28: all kinds in one file."""
    middle = [{"kind": kind, **{field.name: SAMPLES[field.type] for field in spec.fields}} for kind, spec in KINDS.items()
              if kind not in {"schema_header", "seed_read", "run_started", "run_completed"}]
    path = write_events(tmp_path / "t.jsonl", plain_run(*middle))
    assert set(kinds(path, strict=True)) == set(KINDS)


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    """Row 32."""
    path = write_events(tmp_path / "t.jsonl", plain_run({**CALL, "new": {"x": 1.0}}))
    assert list(EventReader(path))[3].fields["new"] == {"x": 1.0}


def test_unknown_kinds_are_skipped_and_counted_unless_strict(tmp_path: Path) -> None:
    """Row 17."""
    path = write_events(tmp_path / "t.jsonl", plain_run({"kind": "novel"}, CALL, {"kind": "novel"}, {"kind": "other", "ts_ms": None}))
    reader = EventReader(path)
    assert [event.kind for event in reader] == ["schema_header", "seed_read", "run_started", "tool_call", "run_completed"]
    assert reader.skipped == {"novel": 2, "other": 1}
    assert [(event.seq, event.line) for event in EventReader(path)][3:] == [(4, 5), (7, 8)], "they count all the same"
    error = failure(path, strict=True)
    assert (error.code, error.line) == ("trace_line", 4)
    assert "the kind 'novel' is unknown" in str(error)


@pytest.mark.parametrize(("version", "accepted"), [(0, False), (1, True), (2, True), (3, False), (99, False)])
def test_versions_are_checked(tmp_path: Path, version: int, *, accepted: bool) -> None:
    """Row 32."""
    events = plain_run()
    events[0]["version"] = version
    path = write_events(tmp_path / "t.jsonl", events)
    if accepted:
        assert len(kinds(path)) == 4
    else:
        error = failure(path)
        assert (error.code, error.line) == ("trace_version", 1)
        assert f"version {version} is not supported (supported: 1 to 2)" in str(error)


def test_mark_blank_lines_crlf_and_a_missing_header_are_tolerated(tmp_path: Path) -> None:
    lines = [json.dumps(event).encode() for event in plain_run(CALL)[1:]]
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + lines[0] + b"\r\n\r\n  \n\n" + b"\r\n".join(lines[1:]) + b"\r\n")
    reader = EventReader(path)
    assert [(event.kind, event.seq, event.line) for event in reader] == [
        ("seed_read", 0, 1), ("run_started", 1, 5), ("tool_call", 2, 6), ("run_completed", 3, 7)]
    assert reader.notices == []


def test_a_chained_trace_checked_out_with_crlf_still_holds(tmp_path: Path) -> None:
    """Row 25."""
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(list(EventReader(path, chain="check"))) == 8


@pytest.mark.parametrize("blank", [b"\n", b" \t\n", b"\r\n"])
def test_what_no_recorder_writes_between_chained_lines_is_named(tmp_path: Path, blank: bytes) -> None:
    path = record(tmp_path / "t.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(1, 10):
        path.write_bytes(b"".join([*lines[:number - 1], blank, *lines[number - 1:]]))
        error = failure(path, chain="check")
        assert (error.code, error.line) == ("trace_tampered", number)
        assert "a blank line, which the recorder did not write" in str(error)
        assert len(kinds(path)) == 8
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    error = failure(path, chain="check")
    assert (error.line, "a byte order mark" in str(error), len(kinds(path))) == (1, True, 8)
    path.write_bytes(b"\xef\xbb\xbf\n" + b"\n".join(json.dumps(event).encode() for event in plain_run()) + b"\n\n")
    assert len(kinds(path, chain="check")) == 4, "other recorders may"


@pytest.mark.parametrize("data", [b"", b"\n", b"x", b"x" * 3_000_000, b'{"kind":"schema_header"', b"\n\n[", b'{"kind":"run_started","sha256":""}'])
def test_where_no_event_is_the_trace_is_empty(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    for chain in ("check", "ignore"):
        error = failure(path, chain=chain)
        assert (error.code, error.line) == ("trace_empty", None)
        assert ("there is no whole line in it" in str(error)) == bool(data.strip())
    path.write_bytes(b'{"kind":"novel"}\n')
    assert kinds(path) == []
    with pytest.raises(TraceError, match="missing its schema_header") as caught:
        read_prelude(iter(EventReader(path)), str(path))
    assert (caught.value.code, caught.value.line) == ("trace_header", 1)


def test_line_ends_of_unicode_inside_a_string_split_nothing(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", ["a\u2028b\u0085c\rd\x0be"], None)])
    assert list(EventReader(path))[3].fields["args"] == ["a\u2028b\u0085c\rd\x0be"]


@pytest.mark.parametrize("cut", [1, 5, 60, 100, 200])
def test_a_torn_tail_is_set_aside_with_a_notice(tmp_path: Path, cut: int) -> None:
    """R172."""
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    reader = EventReader(path, chain="check")
    assert [event.kind for event in reader][-1] == "tool_result"
    assert reader.torn
    [notice] = reader.notices
    assert notice.startswith("line 8 was cut off after ")


def test_a_tail_torn_in_mid_character_is_set_aside(tmp_path: Path) -> None:
    """R172."""
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes() + '{"kind":"host_event","name":"é'.encode()[:-1])
    reader = EventReader(path)
    assert len(list(reader)) == 8
    assert reader.torn


def test_another_writers_whole_last_line_needs_no_line_end(tmp_path: Path) -> None:
    path = write_events(tmp_path / "t.jsonl", plain_run())
    path.write_bytes(path.read_bytes()[:-1])
    reader = EventReader(path)
    assert [event.kind for event in reader][-1] == "run_completed"
    assert (reader.torn, reader.notices) == (False, ["line 4, the last one, has no line end"])


def test_a_bad_line_that_ends_is_an_error_with_its_number(tmp_path: Path) -> None:
    """R173."""
    lines = record(tmp_path / "t.jsonl").read_bytes().splitlines(keepends=True)
    for number in range(len(lines)):
        path = tmp_path / "bad.jsonl"
        path.write_bytes(b"".join([*lines[:number], lines[number][:-10] + b"\n", *lines[number + 1:]]))
        error = failure(path)
        assert (error.code, error.line) == ("trace_line", number + 1)


@pytest.mark.parametrize(("line", "reason"), [
    (b"[]", "no JSON object"), (b'"text"', "no JSON object"), (b"{", "failed to parse"), (b'{"kind":"tool_call","x":NaN}', "failed to parse"),
    (b"{}", "kind is missing"), (b'{"kind":7}', "kind must be a string"), (b'{"kind":"tool_call","ts_ms":1,"run_id":"r"}', "tool_call: tool is missing"),
    (b'{"kind":"k","x":"\xff"}', "failed to parse"), (b"\x00\x00\x00", "zero bytes"), (b'{"kind":"k"}\x00', "zero bytes"),
])
def test_what_is_no_event_is_refused(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n" + line + b"\n")
    error = failure(path)
    assert (error.code, error.line) == ("trace_line", 2)
    assert reason in str(error)


@pytest.mark.parametrize("tail", [b"\0" * 512, b'{"kind":"tool_ca' + b"\0" * 100])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_zero_bytes_are_damage_also_at_the_end(tmp_path: Path, tail: bytes, end: bytes) -> None:
    """R174."""
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes() + tail + end)
    error = failure(path)
    assert (error.code, error.line) == ("trace_line", 9)
    assert "zero bytes" in str(error)


def test_a_broken_chain_is_an_error_only_where_it_is_to_be_checked(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"args":[1,2]', b'"args":[1,3]'))
    assert len(kinds(path)) == 8
    error = failure(path, chain="check")
    assert (error.code, error.line) == ("trace_tampered", 4)


def test_unknown_kinds_are_links_of_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join([*chained(plain_run({"kind": "novel"}, CALL)), b""]))
    assert len(kinds(path, chain="check")) == 5
    path.write_bytes(path.read_bytes().replace(b"novel", b"later"))
    assert failure(path, chain="check").line == 4


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    assert failure(tmp_path / "none.jsonl").code == "trace_missing"
    assert failure(tmp_path).code == "trace_io"
    os.mkfifo(tmp_path / "pipe")
    assert failure(tmp_path / "pipe").code == "trace_io"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert failure(tmp_path / "socket").code == "trace_io"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert failure(tmp_path / "loop").code == "trace_io"
    with pytest.raises(TraceError) as caught:
        open_trace("a\0b")
    assert caught.value.code == "trace_io"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_a_file_that_may_not_be_read_says_so() -> None:
    program = ("import os, sys\nfrom replay.tracefile.reader import open_trace\nfrom replay.errors import TraceError\nos.setuid(65534)\n"
               "try:\n    open_trace(sys.argv[1])\nexcept TraceError as error:\n    print(error.code, error)")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = record(Path(folder, "t.jsonl"))  # its owner's alone
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("trace_io"), done.stderr
    assert "Permission denied" in done.stdout


def test_a_line_that_is_too_long_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_BYTES", 3 << 20)
    path = record(tmp_path / "t.jsonl")
    with path.open("ab") as file:
        file.write(b"x" * (64 << 20))
    tracemalloc.start()
    try:
        error = failure(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert (error.code, error.line) == ("trace_large", 9)


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")
    for _ in range(400):
        writer.append("host_event", {"name": "n", "payload": "x" * 100_000})
    writer.complete(ok=True)
    tracemalloc.start()
    try:
        assert sum(1 for _ in EventReader(tmp_path / "t.jsonl", chain="check")) == 404
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=12), st.integers(1, 17), st.booleans())
def test_lines_are_split_the_same_whatever_the_blocks(lines: list[bytes], block: int, ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")

    class Blocks:
        position = 0

        def read(self, _size: int) -> bytes:
            piece = data[self.position:self.position + block]
            self.position += block
            return piece

    got = list(split_lines(Blocks(), "t"))  # type: ignore[arg-type]
    assert b"".join(line + (b"\n" if whole else b"") for _, line, whole in got) == data
    assert all(data[offset:offset + len(line)] == line for offset, line, _ in got)
    assert all(whole for _, _, whole in got[:-1])


def test_bodies_are_put_in_their_places_or_left(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", [("t", ["long" * 100], "answer" * 100)], options=small_bodies(200))
    assert [event.fields.get("result") for event in EventReader(path)][4] == "answer" * 100
    left = list(EventReader(path, bodies="leave"))
    assert (left[3].fields["args"], left[4].fields["result"]) == ([None], None)


def test_the_front_of_a_trace_is_read(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl", agent="planner", args=[1])
    prelude = read_prelude(iter(EventReader(path)), str(path))
    assert (prelude.header["version"], prelude.seed["purpose"], prelude.started["agent"]) == (2, "rollout_default_seed", "planner")


def test_given_a_file_the_reader_reads_that(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    with path.open("rb") as file:
        assert len(list(EventReader("elsewhere", file=file))) == 8


def test_a_read_that_fails_says_so() -> None:
    error = failure(Path("/proc/self/mem"))  # a regular file whose first page cannot be read
    assert error.code == "trace_io"
    assert "Input/output error" in str(error)
