"""Staged traces: those of killed runs are swept away, those of living ones never."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tracing import create, record, small_bodies

from replay.errors import TraceError
from replay.tracefile import staged
from replay.tracefile.exchange import discard_trace, replace_trace, sweep
from replay.tracefile.trace import load_trace

NAME = ".run.0123456789ab.jsonl"
PROGRAM = """
import sys, time
from replay.redaction.redactor import Redactor
from replay.tracefile.writer import TraceWriter, WriterOptions
writer = TraceWriter.create(sys.argv[1], agent="main", args=[], redactor=Redactor(environ={}), options=WriterOptions(body_bytes=200))
writer.append("tool_call", {"tool": "t", "args": ["x" * 300]})
print("ready", flush=True)
time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_what_a_killed_run_left_goes_with_the_next_run_of_the_name_and_what_lives_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path / NAME], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            left = [NAME, f"{NAME}.bodies", f"{NAME}.lock"]
            assert names(tmp_path) == left
            sweep(str(tmp_path / "run.jsonl"))
            assert names(tmp_path) == left, "its run lives"
        finally:
            child.send_signal(signal.SIGKILL)
    sweep(str(tmp_path / "other.jsonl"))
    assert names(tmp_path) == left, "of another name"
    replace_trace(str(record(tmp_path / ".run.aaaaaaaaaaaa.jsonl")), str(tmp_path / "run.jsonl"))
    assert names(tmp_path) == ["run.jsonl"]
    assert load_trace(tmp_path / "run.jsonl").calls


def test_a_run_of_this_process_is_held_until_it_is_in_place(tmp_path: Path) -> None:
    path = record(tmp_path / NAME, [("t", [], "x" * 300)], options=small_bodies(200))
    sweep(str(tmp_path / "run.jsonl"))
    assert names(tmp_path) == [NAME, f"{NAME}.bodies", f"{NAME}.lock"], "complete, but not in place"
    replace_trace(str(path), str(tmp_path / "run.jsonl"))
    assert names(tmp_path) == ["run.jsonl", "run.jsonl.bodies"]
    discard_trace(str(record(tmp_path / NAME)))
    assert names(tmp_path) == ["run.jsonl", "run.jsonl.bodies"]


def test_other_hidden_files_are_nobodys_business(tmp_path: Path) -> None:
    others = [".run.0123456789ab.jsonl", ".run.0123.jsonl", ".run.0123.jsonl.lock", ".run.jsonl.lock", "run.0123456789ab.jsonl.lock", ".lock", ".runx.0123456789ab.jsonl.lock"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / f"{NAME[:-6]}.jsonl.lock").symlink_to(tmp_path / ".lock")
    sweep(str(tmp_path / "run.jsonl"))
    sweep(str(tmp_path / "none" / "run.jsonl"))
    assert names(tmp_path) == sorted([*others, f"{NAME}.lock"])


def test_other_traces_have_no_lock(tmp_path: Path) -> None:
    create(tmp_path / ".hidden.jsonl").close()
    create(tmp_path / "run.jsonl").close()
    assert names(tmp_path) == [".hidden.jsonl", "run.jsonl"]


def test_a_staged_trace_that_cannot_be_made_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("in the way")
    with pytest.raises(TraceError, match="never written over"):
        create(tmp_path / NAME)
    assert names(tmp_path) == [NAME]
    (tmp_path / f"{NAME}.lock").mkdir()
    with pytest.raises(TraceError, match="cannot be created"):
        create(tmp_path / NAME)


def test_a_lock_that_was_swept_in_between_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / NAME)
    real = fcntl.flock
    swept: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not swept:
            swept.append(descriptor)
            Path(f"{path}.lock").unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    staged.hold(path)
    staged.hold(path)
    assert names(tmp_path) == [f"{NAME}.lock"]
    staged.release(path)
    staged.release(path)
    assert names(tmp_path) == []
