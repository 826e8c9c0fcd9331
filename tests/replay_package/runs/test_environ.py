"""The session that a parent hands over, joined by real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.redaction.redactor import Redactor
from replay.runs import environ
from replay.runs.environ import VARIABLE, Handover
from replay.tracefile.writer import TraceWriter

PROGRAM = """
import sys
import replay

@replay.tool
def double(x: int) -> int:
    if "live" in sys.argv[1]:
        print("ran", x)
    return 2 * x

for number in sys.argv[2:]:
    print(double(int(number)))
"""


def begin(folder: Path, mode: str = "record", **options: Any) -> Handover:
    """Do what the parent does: begin the trace, make the files of the outcome."""
    path = folder / "t.jsonl"
    if mode == "record" and not path.exists():
        TraceWriter.create(str(path), agent="main", args=[], redactor=Redactor(environ={})).close()
    (folder / "outcome").write_bytes(b"")
    handed = Handover(mode, str(path), str(folder / "outcome"), str(folder / "used"), **options)
    if mode != "record":
        (folder / "used").write_bytes(bytes(len(replay.load_trace(path, incomplete=handed.incomplete).calls)))
    return handed


def run(handed: Handover | str, *numbers: int, program: str = PROGRAM, word: str = "live") -> subprocess.CompletedProcess[str]:
    text = handed if isinstance(handed, str) else handed.to_text()
    return subprocess.run([sys.executable, "-c", program, word, *map(str, numbers)], env={**os.environ, VARIABLE: text}, text=True,
                          capture_output=True, timeout=60, check=False)


def complete(handed: Handover) -> None:
    TraceWriter.join(handed.trace, redactor=Redactor(environ={})).complete(ok=True)


def outcome(handed: Handover) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(handed.outcome).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    handed = begin(tmp_path)
    run(handed, 1, 2)
    run(handed, 3)
    complete(handed)
    return tmp_path


def test_processes_one_after_another_record_into_one_trace(recorded: Path) -> None:
    path = recorded / "t.jsonl"
    assert replay.verify_trace(path).ok
    assert [(call.args, call.step) for call in replay.load_trace(path).calls] == [([1], 3), ([2], 5), ([3], 7)]


@pytest.mark.parametrize("matching", ["ordered", "keyed"])
def test_they_replay_from_it_and_go_on_where_the_one_before_stopped(recorded: Path, matching: str) -> None:
    handed = begin(recorded, "substitute", matching=matching)
    first, second = run(handed, 1, 2), run(handed, 3)
    assert (first.stdout, second.stdout) == ("2\n4\n", "6\n")
    assert Path(handed.used).read_bytes() == b"\1\1\1"
    assert outcome(handed) == []


def test_a_divergence_is_told_to_the_parent_even_if_it_is_swallowed(recorded: Path) -> None:
    swallowing = PROGRAM.replace("    print(double(int(number)))", "    try:\n        print(double(int(number)))\n    except Exception:\n        pass")
    handed = begin(recorded, "substitute")
    done = run(handed, 1, 5, 2, program=swallowing)
    assert (done.stdout, done.returncode) == ("2\n", 0)
    (line,) = outcome(handed)
    assert (line["type"], line["code"], line["step"]) == ("divergence", "other_call", 5)


def test_differential_findings_are_told_as_they_come(recorded: Path) -> None:
    handed = begin(recorded, "differential")
    done = run(handed, 1, 7, 3, 4, program=PROGRAM.replace("2 * x", "3 * x"))
    assert done.stdout.splitlines() == ["ran 1", "2", "ran 7", "4", "ran 3", "6", "ran 4", "12"]
    assert [line["type"] for line in outcome(handed)] == ["call", "call", "call", "unmatched"]


def test_a_mutation_counts_over_processes(recorded: Path) -> None:
    handed = begin(recorded, "mutation", step=2, value=99)
    assert run(handed, 1, 2).stdout == "2\n99\n"
    assert run(handed, 8).stdout == "6\n"
    assert [line["type"] for line in outcome(handed)] == ["after", "finding"]


def test_a_trace_that_cannot_be_used_never_leads_to_a_live_call(recorded: Path) -> None:
    """Row 36."""
    handed = begin(recorded, "substitute")
    for content in (b"", b"{}\n", b"not json\n", (recorded / "t.jsonl").read_bytes()[:-20]):
        (recorded / "t.jsonl").write_bytes(content)
        done = run(handed, 1)
        assert (done.stdout, done.returncode) == ("", 1)
        assert "replay.errors.TraceError" in done.stderr
    assert [line["type"] for line in outcome(handed)] == ["error"] * 4


def test_a_file_of_uses_that_does_not_fit_the_trace_is_refused(recorded: Path) -> None:
    handed = begin(recorded, "substitute")
    Path(handed.used).write_bytes(b"\0")
    done = run(handed, 1)
    assert done.stdout == ""
    assert "1 calls were counted in it when the replay began, now there are 3" in done.stderr


def test_a_process_that_outlives_its_replay_is_told_so(recorded: Path) -> None:
    handed = begin(recorded, "substitute")
    Path(handed.used).unlink()
    done = run(handed, 1)
    assert done.stdout == ""
    assert done.stderr.endswith("replay.errors.ReplayError: the replay is over: the process that began it has ended, and this one has outlived it\n")
    assert "During handling" not in done.stderr
    Path(handed.used).mkdir()
    assert "the replay cannot be joined" in run(handed, 1).stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"mode":"record"}', '{"mode":"listen","trace":"t","outcome":"o"}', '{"mode":"record","trace":"t","outcome":"o","x":1}'])
def test_an_environment_of_another_form_is_refused_and_nothing_runs(text: str) -> None:
    done = run(text, 1)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "ReplayError: REPLAY_SESSION" in done.stderr


def test_no_socket_before_the_first_call_either(recorded: Path) -> None:
    handed = begin(recorded, "substitute")
    program = "import replay, socket, sys\nsocket.getaddrinfo('localhost', 1)"
    done = run(handed, program=program)
    assert "QuarantineViolation: replay quarantine (network)" in done.stderr
    assert [line["type"] for line in outcome(handed)] == ["quarantine"]
    assert run(replace(handed, allow_network=True), program=program).stderr == ""


def test_forked_children_record_and_replay_with_their_parent(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import os, sys
        import replay

        @replay.tool
        def double(x: int) -> int:
            return 2 * x

        assert double(1) == 2
        for number in (2, 3):
            child = os.fork()
            if not child:
                code = 0 if double(number) == 2 * number else 9
                os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
        assert double(4) == 8
    """)
    handed = begin(tmp_path)
    assert run(handed, program=program).stderr == ""
    complete(handed)
    assert replay.verify_trace(handed.trace).ok
    assert [call.args for call in replay.load_trace(handed.trace).calls] == [[1], [2], [3], [4]]
    again = begin(tmp_path, "substitute")
    assert run(again, program=program).stderr == ""
    assert Path(again.used).read_bytes() == b"\1" * 4


def test_a_run_without_calls_shares_nothing(tmp_path: Path) -> None:
    handed = begin(tmp_path)
    complete(handed)
    again = begin(tmp_path, "substitute")
    assert "all 0 recorded calls were asked" in run(again, 1).stderr


def test_secrets_of_the_parent_are_not_told(recorded: Path) -> None:
    handed = begin(recorded, "substitute", secrets=("canary-4711-canary",))
    program = PROGRAM.replace("for number", "double('canary-4711-canary')\nfor number")
    done = run(handed, 1, program=program)
    assert done.returncode == 1
    assert "canary" not in Path(handed.outcome).read_text(encoding="utf-8")


def test_a_handover_survives_its_journey() -> None:
    handed = Handover("mutation", "/t", "/o", "/u", "keyed", 3, {"a": [1]}, True, True, False, 5, True, "stop", ("s" * 9,))
    assert Handover.from_text(handed.to_text()) == handed
    assert environ.handed_session() is None, "this process was handed none"


PARENT = """
import os, subprocess, sys
import replay

def child(env=None):
    done = subprocess.run([sys.executable, "-c", sys.argv[1]], capture_output=True, text=True, env=env)
    print(done.stdout + (done.stderr.splitlines() or [""])[-1], flush=True)
"""
CHILD = """
import replay
@replay.tool
def double(x):
    print("ran", x)
    return 2 * x
double(1)
"""


def parent(program: str, folder: Path, child: str = CHILD, **environment: str) -> list[str]:
    """Run a program that opens sessions and starts children; return what it prints."""
    done = subprocess.run([sys.executable, "-c", PARENT + textwrap.dedent(program), child], capture_output=True, text=True, timeout=60, check=False,
                          cwd=folder, env={**{name: value for name, value in os.environ.items() if name != VARIABLE}, **environment})
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_child_of_a_process_in_a_session_runs_no_tool_live(tmp_path: Path) -> None:
    refused = "of '{}'), which does not reach here, and no call is made live beside it"
    found = parent("""
        for session in (replay.record("t.jsonl"), replay.substitute("t.jsonl")):
            with session:
                child()
        child()
    """, tmp_path)
    assert refused.format(tmp_path / "t.jsonl") in found[0]
    assert refused.format("t.jsonl") in found[1]
    assert "rag record or rag replay" in found[0]
    assert found[2:] == ["ran 1", ""]


def test_a_child_that_uses_no_tool_or_has_a_session_of_its_own_is_not_disturbed(tmp_path: Path) -> None:
    assert parent("""
        with replay.record("t.jsonl"):
            pass
        with replay.substitute("t.jsonl"):
            child()
    """, tmp_path, "import replay, socket\nsocket.getaddrinfo('127.0.0.1', 1)\nprint('well')") == ["well", ""]
    own = CHILD.replace("double(1)", "with replay.record('own.jsonl'):\n    double(1)\ntry:\n    double(2)\nexcept replay.ReplayError:\n    print('refused')")
    assert parent("""
        with replay.record("u.jsonl"):
            child()
    """, tmp_path, own) == ["ran 1", "refused", ""]


def test_what_children_are_told_follows_the_sessions_that_are_open(tmp_path: Path) -> None:
    assert parent("""
        def told():
            text = os.environ.get("REPLAY_SESSION")
            return text and text.partition("/")[2].rpartition("/")[2].partition(".")[0]
        one, two, three = (replay.record(f"{name}.jsonl") for name in ("one", "two", "three"))
        print(told())
        for session in (one, two, three):
            session.__enter__()
            print(told())
        for session in (two, three, one):
            session.__exit__(None, None, None)
            print(told())
        with replay.record("four.jsonl"):
            del os.environ["REPLAY_SESSION"]  # the program's own doing stays
        print(told())
        with replay.record("five.jsonl"):
            os.environ["REPLAY_SESSION"] = "/x/mine."
        print(told())
    """, tmp_path) == ["None", "one", "two", "three", "three", "one", "None", "None", "mine"]


def test_a_forked_child_knows_the_session_as_its_own(tmp_path: Path) -> None:
    assert parent("""
        from replay.runs import environ
        with replay.record("t.jsonl"):
            if not (process := os.fork()):
                environ.attend()
                print(environ.handed_session(), replay.current() is not None, flush=True)
                os._exit(0)
            os.waitpid(process, 0)
    """, tmp_path) == ["None True"]


def test_the_session_of_the_environment_reaches_children_past_a_block(recorded: Path) -> None:
    handed = begin(recorded, "substitute")
    assert parent("""
        with replay.record("inner.jsonl"):
            child()
    """, recorded, CHILD.replace("double(1)", "print(double(1))"), **{VARIABLE: handed.to_text()}) == ["2", ""]
    assert Path(handed.used).read_bytes() == b"\1\0\0"


def test_a_child_without_the_environment_is_refused_in_a_replay(recorded: Path) -> None:
    handed = begin(recorded, "substitute")
    assert parent("""
        try:
            child({})
        except replay.QuarantineViolation as error:
            print("pass the environment on" in str(error))
    """, recorded, **{VARIABLE: handed.to_text()}) == ["True"]
