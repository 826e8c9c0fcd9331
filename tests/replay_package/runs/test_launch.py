"""Programs recorded and replayed as commands: real processes, several of them, killed ones, and what the parent makes of it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.errors import InvalidMutation, NotRecordable, TraceError
from replay.reports.report import DifferentialReport, MutationReport
from replay.runs import launch
from replay.runs.launch import NoCommand, NoFolder, Recorded, command_of, folder_of, record_command, replay_command
from replay.runs.process import CannotStart
from replay.runs.verdicts import Plan, Replayed
from replay.scripts.options import RecordOptions
from replay.tracefile.seal import load_public, make_key
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import verify_trace

PROGRAM = """
import os, signal, sys, threading
import replay

@replay.tool
def weather(city: str, days: int = 1) -> dict:
    with open("ran", "a") as file:
        file.write(city + "\\n")
    return {"city": city, "temp": days * len(city) + int(os.environ.get("WARMER", "0"))}

@replay.tool(kind="llm")
def ask(question: str) -> str:
    return question + "?"

for word in sys.argv[1:]:
    if word.startswith("exit"):
        sys.exit(int(word[4:]))
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "tear":
        with open(sys.argv[-1], "ab") as trace:
            trace.write(b'{"kind":"tool_ca')
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "swallow":
        try:
            weather("nowhere")
        except Exception:
            print("went on")
    elif word == "connect":
        import socket
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        except Exception as error:
            print(type(error).__name__)
    elif word == "follow":
        print(ask(weather("Oslo")["city"]))
    elif not word.endswith(".jsonl"):
        print(weather(word))
"""
START = "replay divergence at the start"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").write_text(PROGRAM)
    return tmp_path


def prog(*words: str) -> list[str]:
    return [sys.executable, "prog.py", *words]


def record(*words: str, trace: str = "t.jsonl", **options: Any) -> Recorded:
    return record_command(trace, prog(*words), RecordOptions(**options))


def again(*words: str, trace: str = "t.jsonl", load: dict[str, Any] | None = None, **plan: Any) -> Replayed:
    loaded = load_trace(trace, **(load or {}))
    return replay_command(loaded, prog(*words) if words else command_of(loaded, None), Plan(**plan))


def lines(path: str = "t.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def codes(done: Replayed) -> list[str]:
    return [str(one["code"]) for one in done.divergences]


class TestRecord:
    """`record_command`."""

    def test_a_program_is_recorded_as_it_is_and_its_command_with_it(self, capfd: pytest.CaptureFixture[str]) -> None:
        done = record("Oslo", "Rome")
        assert capfd.readouterr().out == "{'city': 'Oslo', 'temp': 4}\n{'city': 'Rome', 'temp': 4}\n"
        assert (done.calls, done.problems, done.notices, done.ended.code) == (2, (), (), 0)
        started, *_, completed = lines()[2:]
        assert (started["agent"], started["args"], started["command"]) == (
            Path(sys.executable).name, ["prog.py", "Oslo", "Rome"], prog("Oslo", "Rome"))
        assert (completed["ok"], completed["result"], completed["error"]) == (True, {"exit_code": 0}, None)
        assert verify_trace("t.jsonl").ok

    @pytest.mark.parametrize(("word", "code", "error"), [("exit3", 3, "exit code 3"), ("kill", 137, "killed by SIGKILL")])
    def test_a_program_that_fails_or_is_killed_gets_an_end_that_says_so(self, word: str, code: int, error: str) -> None:
        done = record("Oslo", word)
        completed = lines()[-1]
        assert (done.calls, completed["ok"], completed["result"], completed["error"]) == (1, False, {"exit_code": code}, error)
        assert verify_trace("t.jsonl").complete

    def test_a_torn_line_of_a_killed_process_is_set_aside_with_a_notice(self, folder: Path) -> None:
        """R172."""
        done = record("Oslo", "tear", "t.jsonl")
        assert done.notices == ("the last line that a killed process wrote was cut off; it is kept in 't.jsonl.torn-1'",)
        assert (folder / "t.jsonl.torn-1").read_bytes() == b'{"kind":"tool_ca'
        assert (verify_trace("t.jsonl").ok, lines()[-1]["error"]) == (True, "killed by SIGKILL")

    def test_processes_one_after_another_and_at_once_are_one_run(self) -> None:
        line = f'"{sys.executable}" prog.py a b; "{sys.executable}" prog.py c & "{sys.executable}" prog.py d; wait'
        done = record_command("t.jsonl", ["sh", "-c", line], RecordOptions())
        trace = load_trace("t.jsonl")
        assert done.calls == 4
        assert [call.args[0] for call in trace.calls[:2]] == ["a", "b"]
        assert sorted(call.args[0] for call in trace.calls) == ["a", "b", "c", "d"]
        repeated = replay_command(trace, command_of(trace, None), Plan(matching="keyed"))
        assert repeated.faithful
        assert Path("ran").read_text() == "".join(f"{call.args[0]}\n" for call in trace.calls), "the replay ran nothing"

    def test_there_are_files_named_after_the_run_in_a_folder(self, folder: Path) -> None:
        (folder / "traces").mkdir()
        one, other = record(trace="traces"), record(trace="traces")
        assert one.path != other.path
        assert Path(one.path).stem == load_trace(one.path).run_id
        assert names("traces") == sorted(Path(done.path).name for done in (one, other))

    def test_one_that_is_there_is_never_written_over_and_nothing_runs(self, folder: Path) -> None:
        (folder / "t.jsonl").write_text("mine")
        with pytest.raises(TraceError) as refused:
            record("Oslo")
        assert refused.value.code == "trace_exists"
        assert ((folder / "t.jsonl").read_text(), (folder / "ran").exists()) == ("mine", False)

    @pytest.mark.parametrize("command", [["no-such-program-here"], ["/"]])
    def test_what_cannot_be_started_leaves_no_trace(self, folder: Path, command: list[str]) -> None:
        with pytest.raises(CannotStart):
            record_command("t.jsonl", command, RecordOptions())
        assert names(folder) == ["prog.py"]

    def test_a_word_that_is_no_text_is_refused_before_anything_runs(self, folder: Path) -> None:
        with pytest.raises(NotRecordable, match="is no UTF-8"):
            record(os.fsdecode(b"\xff"))
        assert names(folder) == ["prog.py"]

    def test_a_name_that_is_no_text_is_refused_before_anything_runs(self, folder: Path) -> None:
        name = os.fsdecode(b"\xff.jsonl")
        with pytest.raises(NotRecordable, match="is no UTF-8"):
            record_command(name, prog("a"), RecordOptions())
        assert names(folder) == ["prog.py"]
        record("a")
        Path("t.jsonl").rename(name)
        Path("ran").unlink()
        with pytest.raises(NotRecordable, match="is no UTF-8"):
            again(trace=name)
        assert not Path("ran").exists()

    def test_nothing_is_recorded_inside_a_replay(self, folder: Path) -> None:
        record("a")
        Path("ran").unlink()
        driver = ("from replay.runs.launch import *; from replay.tracefile.trace import load_trace\n"
                  "for tried in (lambda: record_command('u.jsonl', ['touch', 'ran'], RecordOptions()),\n"
                  "              lambda: replay_command(load_trace('t.jsonl'), ['touch', 'ran'], Plan('differential'))):\n"
                  "    try: tried()\n    except ReplayError as error: print(error)\n")
        replay_command(load_trace("t.jsonl"), ["sh", "-c", f"'{sys.executable}' -c \"$0\" > said", driver], Plan())
        assert Path("said").read_text().count("a replay is on in which nothing runs live") == 2
        assert names(folder) == ["prog.py", "said", "t.jsonl"]

    def test_secrets_are_never_written(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.setenv("SERVICE_TOKEN", "canary-of-a-name")
        record_command("t.jsonl", prog("canary-of-a-name", "given-canary", "x-given-canary-y"), RecordOptions(), ["given-canary"])
        written = b"".join(path.read_bytes() for path in folder.glob("t.*") if path.is_file())
        assert b"canary" not in written
        assert written.count(b"<redacted>") == 2 * 3 + 2 * 3, "in args and command, in each call and each result"
        trace = load_trace("t.jsonl")
        with pytest.raises(NoCommand, match="held a secret"):
            command_of(trace, None)
        same = prog("canary-of-a-name", "given-canary", "x-given-canary-y")
        assert replay_command(trace, same, Plan(), secrets=["given-canary"]).faithful, "live words pass through the redactor too"
        assert codes(replay_command(trace, prog("other", *same[3:]), Plan(), secrets=["given-canary"]))[0] == "started_otherwise"

    def test_what_a_telling_flag_carries_is_not_written_and_compares_alike(self, folder: Path) -> None:
        words = ["--password", "hunter2hunter2", "--api-key=plain-key-abc", "Oslo"]
        program = PROGRAM.replace("sys.argv[1:]", "sys.argv[-1:]")
        (folder / "prog.py").write_text(program)
        record(*words)
        started = lines()[2]
        assert started["args"] == ["prog.py", "--password", "<redacted>", "--api-key=<redacted>", "Oslo"]
        assert started["command"] == [sys.executable, *started["args"]]
        assert not re.search(b"hunter2|plain-key", Path("t.jsonl").read_bytes())
        with pytest.raises(NoCommand, match="held a secret"):
            command_of(load_trace("t.jsonl"), None)
        assert again(*words).faithful
        assert again("--password", "another", "--api-key=one", "Oslo").faithful
        assert codes(again("--password", "another", "Oslo")) == ["started_otherwise"]

    def test_a_recording_inside_it_is_named_as_what_took_the_calls(self) -> None:
        inner = ("from replay.runs.launch import record_command; from replay.scripts.options import RecordOptions; import sys; "
                 "record_command('inner.jsonl', [sys.executable, 'prog.py', 'Oslo'], RecordOptions())")
        done = record_command("t.jsonl", [sys.executable, "-c", inner], RecordOptions())
        assert (done.calls, done.notices) == (0, ("inside it a record with the trace 'inner.jsonl' took the calls, which are not in this one",))
        assert len(load_trace("inner.jsonl").calls) == 1
        inner = inner.replace("record_command('inner.jsonl', [sys.executable, 'prog.py', 'Oslo'], RecordOptions())",
                              "from replay.runs.launch import *; trace = load_trace('inner.jsonl'); replay_command(trace, trace.command, Plan())")
        inner = f"from replay.tracefile.trace import load_trace; {inner}"
        done = record_command("u.jsonl", [sys.executable, "-c", inner], RecordOptions())
        assert done.notices == ("inside it a replay with the trace 'inner.jsonl' took the calls, which are not in this one",)

    def test_large_values_stand_beside_the_trace_and_come_back(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        record("Oslo" * 100, body_bytes=100)
        first = capfd.readouterr().out
        assert len(list((folder / "t.jsonl.bodies").iterdir())) >= 2
        assert again().faithful
        assert capfd.readouterr().out == first

    def test_a_seal_is_put_on_its_end(self) -> None:
        make_key("key")
        from replay.tracefile.seal import load_private

        record("Oslo", seal_key=load_private("key"))
        assert verify_trace("t.jsonl", load_public("key.pub")).seal == "valid"

    @pytest.mark.parametrize("on_error", ["report", "stop"])
    def test_a_trace_that_lacks_an_event_gets_no_end(self, on_error: str) -> None:
        """Row 18: an event that cannot be written is told, and the trace does not pass for whole."""
        line = f'"{sys.executable}" prog.py a; ulimit -f 1; "{sys.executable}" prog.py b; exit 0'
        program = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + PROGRAM
        Path("prog.py").write_text(program.replace('open("ran", "a")', 'open("/dev/null", "a")'))
        done = record_command("t.jsonl", ["sh", "-c", line], RecordOptions(on_error=on_error))  # type: ignore[arg-type]
        assert len(done.problems) == 1
        assert "File too large" in done.problems[0]
        assert done.calls == 1
        assert lines()[-1]["kind"] == "tool_result"

    def test_a_trace_that_the_command_moves_away_gets_no_end(self) -> None:
        done = record_command("t.jsonl", ["mv", "t.jsonl", "away.jsonl"], RecordOptions())
        assert lines("away.jsonl")[-1]["kind"] == "run_started"
        assert (len(done.problems), done.calls) == (1, 0)
        assert "removed" in done.problems[0]

    def test_an_end_that_cannot_be_written_is_told(self) -> None:
        done = record_command("t.jsonl", ["sh", "-c", "printf '\\0\\0' >> t.jsonl"], RecordOptions())
        assert len(done.problems) == 1
        assert "zero bytes" in done.problems[0]

    def test_a_signal_for_us_is_the_programs_and_the_trace_is_completed(self) -> None:
        line = 'trap "exit 9" INT; while kill -INT $PPID; do sleep 0.05; done'
        done = record_command("t.jsonl", ["sh", "-c", line], RecordOptions())
        assert (done.ended.code, done.ended.stopped_by) == (9, signal.SIGINT)
        assert lines()[-1]["error"] == "exit code 9"

    def test_nothing_of_it_stays_in_the_temporary_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
        seen = folder / "seen"
        record_command("t.jsonl", ["sh", "-c", f"ls -ld tmp/* > {seen}; ls -l tmp/*/* >> {seen}"], RecordOptions())
        assert [line[:10] for line in seen.read_text().splitlines()] == ["drwx------", "-rw-------"]
        assert names("tmp") == []


class TestReplay:
    """`replay_command` in substitute mode."""

    def test_the_recorded_command_gets_the_recorded_answers_and_nothing_runs(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Row 28."""
        record("Oslo", "Rome", "follow")
        first = capfd.readouterr().out
        Path("ran").unlink()
        done = again()
        assert (capfd.readouterr().out, done.faithful, done.asked, done.recorded) == (first, True, 4, 4)
        assert not Path("ran").exists()

    @pytest.mark.parametrize("word", ["exit3", "kill"])
    def test_a_failure_that_fails_again_is_faithful(self, word: str) -> None:
        """Row 32."""
        record("Oslo", word)
        assert again().faithful

    @pytest.mark.parametrize(("recorded", "now", "expected"), [
        (["a"], ["b"], ["started_otherwise", "other_call"]), (["a"], ["a", "b"], ["started_otherwise", "exhausted"]),
        (["a", "b"], ["a"], ["started_otherwise", "left_over"]), (["a"], ["a", "exit3"], ["started_otherwise", "ended_otherwise"]),
        (["a", "b"], ["exit4"], ["started_otherwise", "ended_otherwise", "left_over"]),
    ])
    def test_other_words_other_calls_and_another_end_are_divergences(self, recorded: list[str], now: list[str], expected: list[str]) -> None:
        """Row 35."""
        record(*recorded)
        done = again(*now)
        assert (done.faithful, codes(done)) == (False, expected)
        assert str(done.divergences[0]["message"]).startswith(START)

    def test_one_that_the_program_swallowed_is_told_all_the_same(self, capfd: pytest.CaptureFixture[str]) -> None:
        record("a", "follow")
        Path("prog.py").write_text(PROGRAM.replace('"follow"', '"swallow"', 1).replace('"swallow":\n        try', '"follow":\n        try'))
        done = again()
        assert "went on" in capfd.readouterr().out
        assert codes(done) == ["other_call"], "and what follows from it is not told beside it"
        assert done.divergences[0]["step"] == 5

    def test_a_changed_name_of_the_program_alone_is_a_remark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        record("a")
        Path("python").symlink_to(sys.executable)
        # an environment is found by the name that a program is started by, so its packages are named here
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        done = replay_command(load_trace("t.jsonl"), ["./python", *prog("a")[1:]], Plan())
        assert (done.faithful, done.notes) == (True, (f"recorded was {sys.executable!r}, this is './python'",))

    def test_a_program_that_asks_nothing_is_told_what_belongs_to_a_replay(self) -> None:
        record("a")
        trace = load_trace("t.jsonl")
        done = replay_command(trace, ["true", "prog.py", "a"], Plan())
        assert codes(done) == ["left_over"]
        assert done.notes[-1] == "no recorded call was asked for; only calls through rag_stdlib or @replay.tool belong to a replay"

    def test_the_network_is_out_of_reach_unless_it_is_let_in(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Row 42."""
        record("a", "connect")
        assert "ConnectionRefusedError" in capfd.readouterr().out
        done = again()
        assert (codes(done), "QuarantineViolation" in capfd.readouterr().out) == (["quarantine"], True)
        assert "network" in done.divergences[0]["message"]
        assert again(allow_network=True).faithful

    def test_a_trace_that_was_recorded_inside_a_program_needs_a_command_and_compares_only_how_it_ended(self) -> None:
        with replay.record("own.jsonl") as session:
            replay.tool(name="weather")(lambda city, _days: {"city": city})("a", 1)
            session.complete("something")
        trace = load_trace("own.jsonl")
        with pytest.raises(NoCommand, match="does not say which command"):
            command_of(trace, None)
        assert replay_command(trace, command_of(trace, prog("a")), Plan()).faithful
        assert codes(replay_command(trace, prog("a", "exit3"), Plan())) == ["ended_otherwise"]

    @pytest.mark.parametrize("command", [[], [1, "x"]])
    def test_a_recorded_command_that_is_none_is_not_run(self, command: list[Any]) -> None:
        record("a")
        trace = load_trace("t.jsonl")
        with pytest.raises(NoCommand, match="cannot be run"):
            command_of(replace(trace, command=command), None)

    def test_processes_go_on_where_the_one_before_stopped(self) -> None:
        line = f'"{sys.executable}" prog.py a b; "{sys.executable}" prog.py a'
        record_command("t.jsonl", ["sh", "-c", line], RecordOptions())
        assert again().faithful
        swapped = f'"{sys.executable}" prog.py a; "{sys.executable}" prog.py a b'
        trace = load_trace("t.jsonl")
        assert codes(replay_command(trace, ["sh", "-c", swapped], Plan()))[-1] == "other_call"

    def test_a_trace_that_is_damaged_while_it_runs_is_a_problem_of_the_trace(self) -> None:
        record("a")
        trace = load_trace("t.jsonl")
        done = replay_command(trace, ["sh", "-c", f'sed -i "s/Oslo/Rome/;s/\\"a\\"/\\"b\\"/" t.jsonl; "{sys.executable}" prog.py a'], Plan())
        assert [problem.code for problem in done.problems] == ["trace_tampered"]
        assert not done.faithful

    def test_what_a_process_left_unfinished_in_the_outcome_says_nothing(self, folder: Path) -> None:
        outcome = folder / "outcome"
        outcome.write_bytes(b'{"type":"error","code":"x","message":"y"}\nno json\n[1]\n{"type":"err')
        assert launch._lines(outcome) == [{"type": "error", "code": "x", "message": "y"}]


class TestWhere:
    """The folder in which a command was recorded is kept as the trace sees it, and the recorded command runs there."""

    def test_it_is_where_the_recording_was_and_nothing_absolute(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "traces").mkdir()
        for trace, said in (("t.jsonl", "."), ("traces/t.jsonl", ".."), ("new/t.jsonl", "..")):
            record("a", trace=trace)
            assert lines(trace)[2]["folder"] == load_trace(trace).folder == said
            assert str(folder).encode() not in Path(trace).read_bytes()
        record("a", trace="traces/")
        monkeypatch.chdir(folder / "new")
        assert Path(folder_of(load_trace("t.jsonl"), None) or "").samefile(folder)
        assert folder_of(load_trace("t.jsonl"), ["x"]) is None, "a given command runs where we are"

    def test_the_recorded_command_runs_there_and_it_is_said(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        record("a")
        (folder / "sub").mkdir()
        Path("sub/link.jsonl").symlink_to(folder / "t.jsonl")
        monkeypatch.chdir(folder / "sub")
        for name in ("../t.jsonl", "link.jsonl"):
            trace = load_trace(name)
            done = replay_command(trace, command_of(trace, None), Plan(), folder=folder_of(trace, None))
            assert (done.faithful, done.notes) == (True, ("it ran in '..', where it was recorded as seen from the trace; a command behind -- runs here",))
        with pytest.raises(CannotStart, match=r"'no-such' cannot be started in '\.\.'"):
            replay_command(trace, ["no-such"], Plan(), folder="..")

    def test_it_moves_with_the_trace_and_may_be_gone(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "one/work").mkdir(parents=True)
        monkeypatch.chdir(folder / "one/work")
        record_command("../t.jsonl", ["true"], RecordOptions())
        monkeypatch.chdir(folder)
        (folder / "one").rename("two")
        assert folder_of(load_trace("two/t.jsonl"), None) == "two/work"
        (folder / "two/work").rmdir()
        with pytest.raises(NoFolder, match="the folder 'work', seen from the trace"):
            folder_of(load_trace("two/t.jsonl"), None)

    def test_one_without_a_name_that_can_be_written_is_not_kept(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        odd = os.fsdecode(os.fsencode(folder) + b"/\xff")
        Path(odd).mkdir()
        monkeypatch.chdir(odd)
        record_command(f"{folder}/t.jsonl", ["true"], RecordOptions())
        trace = load_trace(folder / "t.jsonl")
        assert (trace.folder, folder_of(trace, None)) == (None, None)


class TestIncomplete:
    """Traces without an end."""

    @pytest.fixture
    def cut(self) -> Callable[[int], None]:
        def cut(kept: int) -> None:
            record("a", "b", "c")
            text = Path("t.jsonl").read_bytes().split(b"\n")
            Path("t.jsonl").write_bytes(b"\n".join(text[:kept]) + b"\n")

        return cut

    @pytest.mark.parametrize(("kept", "asked"), [(7, 2), (6, 2)], ids=["behind a call", "inside a call"])
    def test_they_are_replayed_as_far_as_they_go_where_that_is_wanted(self, cut: Callable[[int], None], kept: int, asked: int) -> None:
        cut(kept)
        with pytest.raises(TraceError) as refused:
            load_trace("t.jsonl")
        assert refused.value.code == "trace_incomplete"
        done = again(load={"incomplete": True}, incomplete=True)
        assert (done.faithful, done.asked) == (True, asked)
        assert done.notes == ("the run went on where the trace stops, which has no end",)

    def test_up_to_there_all_must_hold(self, cut: Callable[[int], None]) -> None:
        cut(7)
        assert codes(again("a", "x", load={"incomplete": True}, incomplete=True))[-1] == "other_call"
        assert codes(again("a", load={"incomplete": True}, incomplete=True))[-1] == "left_over"


class TestDifferential:
    """Runs live, and tells what changed."""

    def test_nothing_changed(self) -> None:
        record("a", "follow")
        Path("ran").unlink()
        done = again(mode="differential")
        assert isinstance(done.report, DifferentialReport)
        assert (done.faithful, done.report.totals()["same"]) == (True, 3)
        assert Path("ran").read_text() == "a\nOslo\n", "the calls ran"

    def test_what_changed_is_told_and_the_program_gets_the_recorded_results(
            self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        """Row 38."""
        record("a", "bb")
        first = capfd.readouterr().out
        monkeypatch.setenv("WARMER", "5")
        done = again(mode="differential")
        assert isinstance(done.report, DifferentialReport)
        assert capfd.readouterr().out == first
        assert [(call.number, call.same, call.path) for call in done.report.calls] == [(1, False, "$.temp"), (2, False, "$.temp")]
        assert not done.faithful

    def test_other_arguments_calls_not_made_and_another_end_are_findings(self) -> None:
        record("a", "b", "c")
        done = again("a", "x", "exit2", mode="differential")
        assert isinstance(done.report, DifferentialReport)
        assert [call.cause for call in done.report.calls] == [(), ("arguments",)]
        assert [missing["args"] for missing in done.report.missing] == [["c", 1]]
        assert done.report.completion is not None
        assert done.report.completion["code"] == "ended_otherwise"
        assert codes(done) == ["started_otherwise"]

    def test_calls_that_were_never_recorded_are_listed(self) -> None:
        record("a")
        done = again("a", "b", mode="differential")
        assert isinstance(done.report, DifferentialReport)
        assert [call["args"] for call in done.report.unmatched] == [["b", 1]]

    def test_another_tool_cannot_be_placed(self) -> None:
        record("a", "b")
        done = again("follow", "b", mode="differential")
        assert codes(done)[-1] == "other_call"


class TestMutation:
    """One result replaced."""

    def test_what_follows_is_told(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Row 39."""
        record("a", "follow", "b")
        capfd.readouterr()
        done = again(mode="mutation", step=2, value={"city": "Rome"})
        assert capfd.readouterr().out.splitlines()[1] == "Oslo?", "after the step the recorded results go on"
        assert isinstance(done.report, MutationReport)
        assert [finding["got"] for finding in done.report.findings] == ['ask("Rome")']
        assert (done.report.calls_after, done.faithful, codes(done)) == (2, False, [])

    def test_a_program_that_does_not_care_is_faithful(self) -> None:
        record("a", "b")
        done = again(mode="mutation", step=1, value={"city": "Rome"})
        assert done.faithful

    def test_a_crash_and_calls_no_longer_made_are_findings(self) -> None:
        record("a", "follow")
        done = again(mode="mutation", step=2, value={})
        assert isinstance(done.report, MutationReport)
        assert [finding["kind"] for finding in done.report.findings] == ["not_asked"]
        assert done.report.completion is not None
        assert "exit code 1" in done.report.completion["message"]

    def test_a_step_that_is_never_reached_is_a_divergence(self) -> None:
        record("a", "b")
        done = again("a", mode="mutation", step=2, value={})
        assert codes(done) == ["started_otherwise", "left_over"]

    @pytest.mark.parametrize(("step", "value", "said"), [
        (0, {}, "1-based"), (3, {}, "only has 2 substitutable steps"), (1, "text", "returned an object, the replacement is a string")])
    def test_one_that_cannot_be_made_is_refused_before_anything_runs(self, step: int, value: Any, said: str) -> None:
        record("a", "b")
        Path("ran").unlink()
        with pytest.raises(InvalidMutation, match=re.escape(said)):
            again(mode="mutation", step=step, value=value)


def test_several_processes_may_ask_at_the_same_time(folder: Path) -> None:
    (folder / "prog.py").write_text(PROGRAM)
    line = " & ".join(f'"{sys.executable}" prog.py x y z' for _ in range(3)) + " & wait"
    record_command("t.jsonl", ["sh", "-c", line], RecordOptions())
    done = again(matching="keyed")
    assert (done.faithful, done.asked) == (True, 9), "each equal call was answered once"
