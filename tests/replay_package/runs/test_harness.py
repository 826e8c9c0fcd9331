"""Recorded runs as tests: the table of verdicts, filters, and what may take a trace's place. Row 41 of §9."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tracing import chained

import replay
from replay.errors import TraceError
from replay.redaction.redactor import Redactor
from replay.runs import harness
from replay.runs.harness import (
    Candidate,
    MissingFolder,
    Options,
    Outcome,
    Refused,
    coverage,
    examine,
    find,
    promote,
    select,
)
from replay.runs.launch import agent_of, record_command
from replay.runs.process import CannotStart
from replay.runs.verdicts import Plan
from replay.scripts.options import RecordOptions
from replay.tracefile.seal import load_private, make_key, seal_trace
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import verify_trace
from replay.tracefile.writer import TraceWriter

PROGRAM = """
import sys
import replay

@replay.tool
def weather(city: str) -> dict:
    return {"city": city, "temp": len(city)}

@replay.tool
def spell(word: str) -> list:
    return list(word)

def agent(cities):
    for city in cities:
        print(weather(city))

agent(sys.argv[1:])
"""
CHANGED = PROGRAM.replace("    for city in cities:\n", "    for city in [*cities[:2], *(city.upper() for city in cities[2:])]:\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    program(PROGRAM)
    (tmp_path / "traces").mkdir()
    return tmp_path


def program(text: str) -> None:
    Path("prog.py").write_text(text)


def record(name: str, *words: str, at_ms: int = 1_700_000_000_000, code: int = 0) -> Candidate:
    """Write what `record_command` records of the program, without the time that a process takes."""
    path = f"traces/{name}.jsonl"
    command = [sys.executable, "prog.py", *words]
    writer = TraceWriter.create(path, agent=agent_of(command), args=command[1:], command=command, folder=str(Path.cwd()),
                                redactor=Redactor(environ={}), clock_ms=lambda: at_ms)
    for word in words:
        step = writer.append("tool_call", {"tool": "weather", "args": [word]})
        writer.append("tool_result", {"tool": "weather", "result": {"city": word, "temp": len(word)}, "call": step})
    writer.complete(ok=not code, result={"exit_code": code}, error=f"exit code {code}" if code else None)
    return Candidate(path)


def examined(**options: Any) -> list[Outcome]:
    return [examine(candidate, Options(**options)) for candidate in find("traces")]


def verdicts(**options: Any) -> dict[str, str]:
    return {outcome.name: outcome.verdict for outcome in examined(**options)}


class TestVerdicts:
    """The table of §6.8."""

    def test_three_good_traces_pass(self) -> None:
        for name in ("a", "b", "c"):
            record(name, name, "Oslo")
        assert [(outcome.verdict, outcome.calls, outcome.good) for outcome in examined()] == [("passed", 2, True)] * 3

    def test_a_changed_program_diverges_at_its_step(self) -> None:
        record("a", "Oslo", "Rome", "Bern")
        record("b", "Oslo", "Rome")
        program(CHANGED)
        diverged, passed = examined()
        assert (diverged.verdict, diverged.step, passed.verdict) == ("diverged", 7, "passed")
        assert diverged.detail == "at step 7 (line 8): another call came than was recorded"
        assert 'got       weather("BERN")' in diverged.message
        assert diverged.output == "", "the message says it all"
        assert json.loads(json.dumps(diverged.to_dict()))["verdict"] == "diverged"

    def test_a_run_that_failed_and_fails_again_passes(self) -> None:
        program(PROGRAM + "\nsys.exit(3)\n")
        record("a", "Oslo", code=3)
        assert verdicts() == {"a.jsonl": "passed"}

    def test_what_cannot_be_used_is_named_and_an_error(self) -> None:
        for name in ("empty", "foreign", "malformed", "tampered", "unfinished"):
            record(name, "Oslo")
        _change("empty", lambda _lines: [])
        _change("foreign", lambda lines: [re.sub(rb',"seq":.*', b"}", line).replace(b"rag-stdlib-replay", b"corvid-vm") for line in lines])
        _change("malformed", lambda lines: [*lines[:4], b"{nonsense", *lines[4:]])
        _change("tampered", lambda lines: [line.replace(b"Oslo", b"Rome") for line in lines])
        _change("unfinished", lambda lines: lines[:-1])
        record("good", "Oslo")
        found = {outcome.name: outcome for outcome in examined()}
        assert {name: one.verdict for name, one in found.items() if one.verdict != "error"} == {"good.jsonl": "passed"}
        for name, said in {"empty": "empty", "foreign": "corvid-vm", "malformed": "line 5", "tampered": "line 3", "unfinished": "end"}.items():
            assert said in found[f"{name}.jsonl"].detail
            assert "jsonl" not in found[f"{name}.jsonl"].message, "the name stands beside the verdict"

    def test_a_command_that_cannot_be_run_is_an_error(self) -> None:
        record("a", "Oslo")
        assert verdicts(command=["no-such-program"]) == {"a.jsonl": "error"}
        with replay.record("traces/own.jsonl"):
            pass
        assert "give it behind --" in examined()[1].detail

    def test_one_that_does_not_end_in_time_is_an_error(self) -> None:
        record("a", "Oslo")
        program(PROGRAM + "\nimport time; print('waiting', flush=True); time.sleep(600)\n")
        (outcome,) = examined(timeout=1.5)
        assert (outcome.verdict, outcome.detail) == ("error", "the command did not end within 1.5 s")
        assert outcome.output.endswith("waiting")

    def test_a_trace_that_breaks_while_it_is_tested_is_an_error(self) -> None:
        record("a", "Oslo")
        (candidate,) = find("traces")
        command = ["sh", "-c", f'sed -i s/Oslo/Rome/ traces/a.jsonl; "{sys.executable}" prog.py Oslo']
        outcome = examine(candidate, Options(command))
        assert (outcome.verdict, "does not give the digest" in outcome.message or "was changed" in outcome.message) == ("error", True)

    def test_keyed_matching_lets_the_order_go(self) -> None:
        record("a", "Oslo", "Rome")
        program(PROGRAM.replace("agent(sys.argv[1:])", "agent(sys.argv[:0:-1])"))
        assert verdicts() == {"a.jsonl": "diverged"}
        assert verdicts(plan=Plan(matching="keyed")) == {"a.jsonl": "passed"}

    def test_what_a_program_printed_is_shown_without_secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        record("a", "Oslo")
        monkeypatch.setenv("SERVICE_TOKEN", "canary-of-a-name")
        program("import sys\nprint('x' * 6000)\nprint('first canary-of-a-name')\nsys.exit('second given-canary')\n")
        (outcome,) = examined(secrets=("given-canary",))
        assert outcome.output == "first <redacted>\nsecond <redacted>"


def _change(name: str, change: Any) -> None:
    path = Path(f"traces/{name}.jsonl")
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().split(b"\n")[:-1])))


class TestFlakes:
    """Several runs of each trace."""

    COUNTED = ("from pathlib import Path\ncount = Path('count')\nnumber = len(count.read_text()) if count.exists() else 0\n"
               "count.write_text('x' * (number + 1))\n")

    def test_a_steady_trace_passes_after_all_runs(self) -> None:
        program(self.COUNTED + PROGRAM)
        record("a", "Oslo")
        assert verdicts(runs=5) == {"a.jsonl": "passed"}
        assert Path("count").read_text() == "x" * 5

    @pytest.mark.parametrize(("turn", "said"), [
        ("if number % 2: agent(['Bern'])", "2 of 5 runs"), ("if number == 3: sys.exit('broken')", "1 of 5 runs"),
        ("if number < 2: agent(['Bern'])", "3 of 5 runs"),
    ])
    def test_runs_that_come_out_differently_are_flaky(self, turn: str, said: str) -> None:
        """A run that fails counts (§6.8); the first run is what the others are held against."""
        record("a", "Oslo")
        program(self.COUNTED + PROGRAM + f"\n{turn}\n")
        (outcome,) = examined(runs=5)
        assert (outcome.verdict, outcome.detail.split(" came")[0]) == ("flaky", said)

    def test_runs_that_all_fail_alike_fail(self) -> None:
        """Row 29."""
        record("a", "Oslo")
        program(CHANGED.replace("cities[:2]", "cities[:0]").replace("cities[2:]", "cities"))
        (outcome,) = examined(runs=3)
        assert (outcome.verdict, outcome.detail.split(":")[0]) == ("failed", "all 3 runs came out alike")
        assert not outcome.good


class TestWhich:
    """Folders and filters."""

    def test_a_folder_is_looked_at_in_order_and_not_below(self) -> None:
        for name in ("b", "a"):
            record(name, "Oslo")
        Path("traces/below").mkdir()
        record("below/c", "Oslo")
        for other in ("notes.txt", ".hidden.jsonl"):
            Path("traces", other).write_text("x")
        assert [candidate.name for candidate in find("traces")] == ["a.jsonl", "b.jsonl"]

    @pytest.mark.parametrize(("name", "said"), [("gone", "'gone' does not exist"), ("prog.py", "'prog.py' is no folder")])
    def test_one_that_is_not_there_is_an_error(self, name: str, said: str) -> None:
        with pytest.raises(MissingFolder, match=said):
            find(name)

    def test_only_those_of_a_tool(self) -> None:
        record("a", "Oslo", "Rome")
        record("b", "Oslo")
        _change("b", lambda lines: [*chained(json.loads(re.sub(rb',"seq":.*', b"}", line).replace(b"weather", b"spell")) for line in lines)])
        record("broken", "Oslo")
        _change("broken", lambda _lines: [b"{"])
        found = find("traces")
        assert [one.name for one in select(found, tool="spell")] == ["b.jsonl", "broken.jsonl"], "what cannot be read may be of the tool"
        assert coverage(found) == {"weather": 2, "spell": 1}

    def test_only_those_whose_last_event_is_not_before_a_time(self) -> None:
        record("old", at_ms=1_000)
        record("new", at_ms=2_000)
        found = find("traces")
        assert [one.latest_ms for one in found] == [2_000, 1_000]
        assert [[one.name for one in select(found, since_ms=time)] for time in (1_000, 1_001, 2_000, 2_001)] == [
            ["new.jsonl", "old.jsonl"], ["new.jsonl"], ["new.jsonl"], []]

    def test_the_time_of_a_call_counts(self) -> None:
        times = iter([5, 5, 5, 5, 7, 9, 6])
        writer = TraceWriter.create("traces/a.jsonl", agent="a", args=[], redactor=Redactor(environ={}), clock_ms=lambda: next(times))
        step = writer.append("tool_call", {"tool": "weather", "args": []})
        writer.append("tool_result", {"tool": "weather", "result": None, "call": step})
        writer.complete(ok=True)
        assert find("traces")[0].latest_ms == 9


class TestWhere:
    """A recorded command runs where it was recorded."""

    def test_from_another_folder_the_program_is_found(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        record("a", "Oslo")
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
        candidate, = find("../traces")
        assert examine(candidate, Options()).verdict == "passed"
        assert examine(candidate, Options([sys.executable, "prog.py", "Oslo"])).verdict == "diverged", "a given one runs where we are"
        (folder / "prog.py").write_text(CHANGED.replace("cities[2:]", "cities[:2]"))
        diverged = examine(candidate, Options())
        assert diverged.message.splitlines()[-1].startswith("it ran in '..', where it was recorded")
        promote(candidate, None, RecordOptions())
        assert (examine(candidate, Options()).verdict, load_trace(candidate.path).folder) == ("passed", "..")

    def test_a_folder_that_is_gone_is_an_error(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "work").mkdir()
        monkeypatch.chdir(folder / "work")
        record_command("../traces/a.jsonl", ["true"], RecordOptions())
        monkeypatch.chdir(folder)
        (folder / "work").rmdir()
        outcome = examine(Candidate("traces/a.jsonl"), Options())
        assert (outcome.verdict, "the folder '../work'" in outcome.detail) == ("error", True)


class TestPromote:
    """A new recording takes a trace's place."""

    def test_diverged_ones_are_recorded_anew(self, folder: Path) -> None:
        for name in ("a", "b"):
            record(name, "Oslo", "Rome", name)
        program(CHANGED)
        before = {name: Path(f"traces/{name}.jsonl").read_bytes() for name in ("a", "b")}
        assert set(verdicts().values()) == {"diverged"}
        for candidate in find("traces"):
            done = promote(candidate, None, RecordOptions())
            assert (done.recorded.calls, done.unsealed) == (3, False)
        assert set(verdicts().values()) == {"passed"}
        assert all(Path(f"traces/{name}.jsonl").read_bytes() != text for name, text in before.items())
        assert sorted(path.name for path in (folder / "traces").iterdir()) == ["a.jsonl", "b.jsonl"]

    @pytest.mark.parametrize(("turn", "said"), [("sys.exit(4)", r"failed \(exit code 4\)"), ("import os; os.abort()", "killed by SIGABRT")])
    def test_a_live_run_that_fails_is_refused_and_the_trace_is_as_it_was(self, folder: Path, turn: str, said: str) -> None:
        """Row 30."""
        candidate = record("a", "Oslo")
        before = Path(candidate.path).read_bytes()
        program(PROGRAM + f"\n{turn}\n")
        with pytest.raises(Refused, match=said):
            promote(candidate, None, RecordOptions())
        assert Path(candidate.path).read_bytes() == before
        assert [path.name for path in (folder / "traces").iterdir()] == ["a.jsonl"]

    def test_one_that_cannot_be_used_or_started_or_was_not_recorded_whole_is_refused(self, folder: Path) -> None:
        candidate = record("a", "Oslo")
        before = Path(candidate.path).read_bytes()
        whole = f'"{sys.executable}" prog.py a; for file in traces/.a.*.jsonl; do printf "\\0" >> $file; done'
        with pytest.raises(Refused, match="not recorded whole"):
            promote(candidate, ["sh", "-c", whole], RecordOptions())
        with pytest.raises(CannotStart):
            promote(candidate, ["no-such-program"], RecordOptions())
        broken = f'"{sys.executable}" prog.py a; sed -i "s/weather/other/" traces/.a.*.jsonl; exit 0'
        with pytest.raises((TraceError, Refused)):
            promote(candidate, ["sh", "-c", broken], RecordOptions())
        assert Path(candidate.path).read_bytes() == before
        assert [path.name for path in (folder / "traces").iterdir()] == ["a.jsonl"]

    def test_a_signal_stops_it_and_the_trace_is_as_it_was(self, folder: Path) -> None:
        candidate = record("a", "Oslo")
        before = Path(candidate.path).read_bytes()
        with pytest.raises(KeyboardInterrupt):
            promote(candidate, ["sh", "-c", "while kill -INT $PPID; do sleep 0.05; done"], RecordOptions())
        assert Path(candidate.path).read_bytes() == before
        assert [path.name for path in (folder / "traces").iterdir()] == ["a.jsonl"]

    def test_rights_links_torn_lines_bodies_and_seals(self, folder: Path) -> None:
        program(PROGRAM)
        record_command("elsewhere.jsonl", [sys.executable, "prog.py", "x" * 400], RecordOptions(body_bytes=100))
        make_key("key")
        seal_trace("elsewhere.jsonl", load_private("key"))
        Path("elsewhere.jsonl").chmod(0o640)
        Path("traces/a.jsonl").symlink_to(folder / "elsewhere.jsonl")
        old = {path.name for path in Path("elsewhere.jsonl.bodies").iterdir()}
        program(PROGRAM.replace('"temp": len(city)', '"temp": -1, "of": city'))
        torn = "import glob; open(glob.glob('.elsewhere.*.jsonl')[0], 'ab').write(b'{\"kin')"
        program(Path("prog.py").read_text() + f"\n{torn}\n")
        done = promote(Candidate("traces/a.jsonl"), None, RecordOptions(body_bytes=100))
        assert done.unsealed
        assert done.recorded.notices
        assert Path("traces/a.jsonl").is_symlink()
        assert stat.S_IMODE(Path("elsewhere.jsonl").stat().st_mode) == 0o640
        assert verify_trace("elsewhere.jsonl").ok
        assert {path.name for path in Path("elsewhere.jsonl.bodies").iterdir()} != old
        assert load_trace("elsewhere.jsonl").calls[0].ending() is not None
        assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_a_signal_stops_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = record("a", "Oslo")
    monkeypatch.setattr("replay.runs.process._GRACE_SECONDS", 0.2)
    with pytest.raises(KeyboardInterrupt):
        examine(candidate, Options(["sh", "-c", f"kill -{signal.SIGINT.value} {os.getpid()}; sleep 600"]))


def test_what_a_program_prints_in_one_endless_line_is_left_out() -> None:
    with Path("out").open("w+b") as file:
        file.write(b"y" * 10_000)
        assert harness._tail(file, Redactor()) == ""
