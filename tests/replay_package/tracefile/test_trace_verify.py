"""Verifying: every kind of tampering is found and named at the right line; the key decides what the chain cannot."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tracing import call, chained, create, events_of, hiding, plain_run, record, write_events

from replay.errors import TraceError
from replay.tracefile import chain
from replay.tracefile.reader import EventReader
from replay.tracefile.seal import key_id, make_seal
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import Verdict, verify_trace
from replay.tracefile.writer import TraceWriter

KILLS = int(os.environ.get("REPLAY_KILLS", "10"))
CALLS: list[tuple[str, list[Any], Any]] = [("search", ["é"], {"score": 0.5}), ("ingest", [1], None), ("search", ["b"], [])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record(tmp_path / "t.jsonl", CALLS)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def changed(path: Path, data: bytes | list[bytes], public_key: Any = None) -> Verdict:
    """Write a changed copy beside the trace; verify that."""
    copy = path.with_name("changed.jsonl")
    copy.write_bytes(data if isinstance(data, bytes) else b"".join(data))
    return verify_trace(copy, public_key)


def rechained(path: Path, change: tuple[bytes, bytes]) -> list[bytes]:
    """Change a trace and chain it anew, as one who knows the format can."""
    events = [json.loads(line.replace(*change)) for line in lines_of(path)]
    return [line + b"\n" for line in chained(events)]


def test_a_whole_trace_holds(path: Path) -> None:
    head = events_of(path)[-1]["sha256"]
    assert verify_trace(path) == Verdict(ok=True, complete=True, chained=True, seal="none", key_id="", events=10, line=None, problem="",
                                         head=head, notices=[])


@pytest.mark.parametrize("number", [1, 4, 9, 10])
def test_a_flipped_bit_is_named_at_its_line(path: Path, number: int) -> None:
    """Row 46: for some lines every third byte, the last line of the trace among them."""
    lines = lines_of(path)
    chosen = random.Random(number)
    for place in range(number % 3, len(lines[number - 1]) - 1, 3):
        line = bytearray(lines[number - 1])
        line[place] ^= 1 << chosen.randrange(8)
        verdict = changed(path, [*lines[:number - 1], bytes(line), *lines[number:]])
        assert (verdict.ok, verdict.line) == (False, number), (place, verdict)
        assert verdict.problem
        assert verdict.events == number - 1


@pytest.mark.parametrize("number", range(1, 11))
def test_a_flipped_line_end_is_found(path: Path, number: int) -> None:
    lines = lines_of(path)
    lines[number - 1] = lines[number - 1][:-1] + b"\x0b"
    verdict = changed(path, lines)
    assert (verdict.complete, verdict.line) == (False, number)
    assert verdict.ok == (number == 10), "the last line is torn then; those before it hold"


@pytest.mark.parametrize("number", range(1, 10))
def test_a_dropped_line_is_named(path: Path, number: int) -> None:
    lines = lines_of(path)
    verdict = changed(path, lines[:number - 1] + lines[number:])
    assert (verdict.ok, verdict.line) == (False, number)
    assert "a line is missing, doubled or out of place" in verdict.problem


@pytest.mark.parametrize("number", range(1, 11))
def test_a_doubled_line_is_named(path: Path, number: int) -> None:
    lines = lines_of(path)
    assert changed(path, lines[:number] + lines[number - 1:]).line == number + 1


@pytest.mark.parametrize("number", range(1, 10))
def test_two_swapped_lines_are_named(path: Path, number: int) -> None:
    lines = lines_of(path)
    lines[number - 1], lines[number] = lines[number], lines[number - 1]
    verdict = changed(path, lines)
    assert (verdict.ok, verdict.line) == (False, number)


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("inserted", [b'{"kind":"host_event","ts_ms":1,"run_id":"run-1","name":"n","payload":1}\n', b'{"kind":"novel"}\n', b"x\n"])
def test_an_inserted_line_is_named(path: Path, number: int, inserted: bytes) -> None:
    lines = lines_of(path)
    verdict = changed(path, [*lines[:number - 1], inserted, *lines[number - 1:]])
    assert not verdict.ok
    assert verdict.line == number or (number == 1 and verdict.line == 2), "two lines that contradict each other: the second is named"


def test_a_line_of_another_trace_is_named(path: Path) -> None:
    """A line with the right number, from another run."""
    other = lines_of(record(path.with_name("other.jsonl"), CALLS))
    lines = lines_of(path)
    verdict = changed(path, [*lines[:5], other[5], *lines[6:]])
    assert (verdict.ok, verdict.line) == (False, 6)


def test_a_tail_cut_at_any_byte_is_an_incomplete_trace_whose_front_holds(path: Path) -> None:
    """Row 46: the line that is cut or missing is named."""
    data = path.read_bytes()
    lines = lines_of(path)
    front = sum(map(len, lines[:-2]))
    for length in range(front, len(data)):
        verdict = changed(path, data[:length])
        whole = data[:length].count(b"\n")
        torn = not data[:length].endswith(b"\n")
        assert (verdict.ok, verdict.complete, verdict.events, verdict.line) == (True, False, whole, whole + 1)
        assert "there is no run_completed" in verdict.problem
        assert len(verdict.notices) == torn


def test_what_follows_the_end_is_named(path: Path) -> None:
    head = events_of(path)[-1]["sha256"]
    [extra] = chained([{**plain_run()[-1], "kind": "run_completed"}], head, 10)
    for tail in (extra + b"\n", extra, b"x", b'{"kind":"novel"'):
        verdict = changed(path, path.read_bytes() + tail)
        assert (verdict.ok, verdict.complete, verdict.line) == (False, False, 11)
    assert "follows run_completed" in verdict.problem
    verdict = changed(path, path.read_bytes() + b"\n")
    assert (verdict.ok, verdict.line, "a blank line" in verdict.problem) == (False, 11, True)


def test_zero_bytes_are_named(path: Path) -> None:
    """R174."""
    assert changed(path, [*lines_of(path)[:-1], b"\0" * 300]).line == 10
    assert changed(path, path.read_bytes() + b"\0" * 300).line == 11


def test_a_trace_that_is_chained_but_out_of_order_does_not_hold(tmp_path: Path) -> None:
    events = plain_run()
    for order, line in [((1, 0, 2, 3), 1), ((0, 2, 1, 3), 2), ((0, 1, 3), 3)]:
        path = tmp_path / "t.jsonl"
        path.write_bytes(b"\n".join([*chained(events[number] for number in order), b""]))
        verdict = verify_trace(path)
        assert (verdict.ok, verdict.line) == (False, line)
        assert "belongs here" in verdict.problem
    events[1]["purpose"] = "jitter"
    path.write_bytes(b"\n".join([*chained(events), b""]))
    assert verify_trace(path).line == 2


def test_of_a_trace_without_a_chain_nothing_is_said(tmp_path: Path) -> None:
    path = write_events(tmp_path / "t.jsonl", plain_run())
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.chained, verdict.complete, verdict.line, verdict.head) == (False, False, True, None, "")
    assert "carries no hash chain" in verdict.problem
    path.write_bytes(path.read_bytes().replace(b'"agent"', b'"agant"'))
    assert verify_trace(path).line == 3, "a misshapen line is named all the same"


def test_unknown_kinds_are_told_and_covered(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join([*chained(plain_run({"kind": "novel"}, {"kind": "novel"})), b""]))
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.events, verdict.notices) == (True, 6, ["2 events of the unknown kind 'novel'"])


def test_what_nothing_can_be_said_about_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for data, code in [(None, "trace_missing"), (b"", "trace_empty"), (b"\n\n", "trace_empty"), (b'{"kind":"schema_hea', "trace_empty"),
                       (b'{"kind":"schema_header","ts_ms":1,"run_id":"r","version":99,"writer":"w"}\n', "trace_version")]:
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(TraceError) as caught:
            verify_trace(path)
        assert caught.value.code == code
    path.write_bytes(b'{"kind":"schema_hea\n')
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.complete, verdict.line) == (False, False, 1)


# --- the seal ---

def test_a_seal_is_valid_under_its_key_unchecked_without_and_invalid_under_another(tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    path = record(tmp_path / "t.jsonl", CALLS, seal_key=key)
    verdict = verify_trace(path, key.public_key())
    assert (verdict.ok, verdict.seal, verdict.key_id, verdict.line) == (True, "valid", key_id(key.public_key()), None)
    verdict = verify_trace(path)
    assert (verdict.ok, verdict.seal, verdict.key_id) == (True, "unchecked", key_id(key.public_key()))
    verdict = verify_trace(path, other.public_key())
    assert (verdict.ok, verdict.complete, verdict.seal, verdict.line) == (False, True, "invalid", 10)
    assert f"sealed with the key '{key_id(key.public_key())}', not with '{key_id(other.public_key())}'" in verdict.problem


def test_a_trace_chained_anew_is_caught_by_the_seal_and_only_with_the_key(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    path = record(tmp_path / "t.jsonl", CALLS, seal_key=key)
    forged = rechained(path, (b'"score":0.5', b'"score":0.9'))
    assert changed(path, forged).ok, "the seal was dropped: the chain alone cannot tell"
    verdict = changed(path, forged, key.public_key())
    assert (verdict.ok, verdict.seal, verdict.complete) == (False, "none", True)
    assert "carries no seal" in verdict.problem
    # the old seal put back onto the forged end
    end = json.loads(forged[-1])
    linked, _ = chain.unseal(forged[-1][:-1])
    sealed = chain.with_seal(linked, json.dumps(events_of(path)[-1]["seal"], separators=(",", ":")).encode())
    assert end["kind"] == "run_completed"
    forged[-1] = sealed + chain.end(sealed)[0] + b"\n"
    verdict = changed(path, forged)
    assert (verdict.ok, verdict.seal) == (True, "unchecked")
    verdict = changed(path, forged, key.public_key())
    assert (verdict.ok, verdict.seal, verdict.line) == (False, "invalid", 10)
    assert "changed after it was sealed" in verdict.problem


def test_an_incomplete_trace_does_not_pass_under_a_key(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    path = record(tmp_path / "t.jsonl", CALLS, seal_key=key)
    verdict = changed(path, lines_of(path)[:-1], key.public_key())
    assert (verdict.ok, verdict.seal) == (False, "none")
    assert "did not come to its end" in verdict.problem


def test_a_seal_in_mid_run_or_of_a_wrong_shape_does_not_hold(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    path = tmp_path / "t.jsonl"
    seal = json.loads(make_seal(key, "0" * 64))
    for place, value, line in [(2, seal, 3), (3, "text", 4), (3, {"deep": {}}, 4), (3, [seal], 4)]:
        events = plain_run()
        fronts: list[bytes] = []
        head = chain.START
        for seq, event in enumerate(events):
            text, head = chain.stamp(json.dumps(event).encode(), seq, head, json.dumps(value).encode() if seq == place else None)
            fronts.append(text + b"\n")
        path.write_bytes(b"".join(fronts))
        for pinned in (None, key.public_key()):
            verdict = verify_trace(path, pinned)
            assert (verdict.ok, verdict.line) == (False, line)


def test_every_flipped_byte_of_a_seal_is_found(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    path = record(tmp_path / "t.jsonl", CALLS, seal_key=key)
    data = path.read_bytes()
    for place in range(data.index(b',"seal"'), len(data) - 1, 3):
        flipped = bytearray(data)
        flipped[place] ^= 1
        assert changed(path, bytes(flipped), key.public_key()).line == 10


# --- memory, and being killed ---

def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    writer = create(tmp_path / "t.jsonl")
    for number in range(300):
        call(writer, "t", [number], "x" * 100_000)
    writer.complete(ok=True)
    tracemalloc.start()
    try:
        assert verify_trace(tmp_path / "t.jsonl").ok
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_killed_run_leaves_a_front_that_reads_holds_and_can_be_gone_on_with(tmp_path: Path) -> None:
    """Row 30: SIGKILL while two threads write long events; REPLAY_KILLS says how often."""
    program = Path(__file__).parents[2] / "trace_writers.py"
    chosen = random.Random(7)
    for number in range(KILLS):
        path = tmp_path / f"killed{number}.jsonl"
        with subprocess.Popen([sys.executable, program, "until_killed", path, "2000000"], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b'"ready"\n'
            try:
                child.wait(chosen.uniform(0.002, 0.03))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        whole = path.read_bytes().rpartition(b"\n")[0].count(b"\n") + 1
        tail = path.read_bytes().rpartition(b"\n")[2]
        verdict = verify_trace(path)
        assert (verdict.ok, verdict.complete, verdict.events, verdict.line) == (True, False, whole, whole + 1)
        assert len(verdict.notices) == bool(tail)
        reader = EventReader(path, chain="check")
        assert [event.seq for event in reader] == list(range(whole))
        assert reader.torn == bool(tail)
        made = [one.ending() is not None for one in load_trace(path, incomplete=True).calls]
        assert made.count(False) <= 2, "at most one open call for each thread"
        writer = TraceWriter.join(path, redactor=hiding())
        assert len(writer.notices) == bool(tail)
        kept = Path(f"{path}.torn-1")
        assert (kept.read_bytes() if kept.exists() else b"") == tail
        writer.complete(ok=False, error="killed")
        verdict = verify_trace(path)
        assert (verdict.ok, verdict.complete, verdict.events) == (True, True, whole + 1)
        path.unlink()
