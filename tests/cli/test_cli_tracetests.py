"""`rag test`: verdicts, filters, exit codes, and the question before a trace is replaced."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import PROGRAM, Run, prog, recording, runner

from rag_stdlib.cli import tracetests

CHANGED = PROGRAM.replace("print(search(word))", "print(search(word.upper()))")


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(folder, capfd)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return recording(tmp_path_factory.mktemp("recording"), "a", "b", trace="traces/t.jsonl")


@pytest.fixture
def traces(folder: Path, text: bytes) -> Path:
    (folder / "traces").mkdir()
    for name in ("one", "two"):
        (folder / f"traces/{name}.jsonl").write_bytes(text)
    return folder / "traces"


def change(folder: Path) -> None:
    (folder / "prog.py").write_text(CHANGED)


class TestVerdicts:
    """What is printed, and the exit code."""

    def test_good_ones_pass(self, run: Run, traces: Path) -> None:  # noqa: ARG002 - they are there
        done = run("test", "--from-traces", "traces")
        assert (done.code, done.err) == (0, "2 traces: 4 calls (search 4)\n")
        assert done.out == "passed    one.jsonl  2 calls\npassed    two.jsonl  2 calls\n2 traces: 2 passed\n"

    def test_a_changed_program_diverges_with_its_step(self, run: Run, traces: Path, folder: Path) -> None:
        change(folder)
        (traces / "two.jsonl").write_bytes(b"{nonsense\n")
        done = run("test", "--from-traces", "traces")
        lines = done.out.splitlines()
        assert done.code == 1
        assert lines[:4] == ["diverged  one.jsonl", "    at step 3 (line 4): another call came than was recorded",
                             '      expected  search("a", 3)', '      got       search("A", 3)']
        at = lines.index("error     two.jsonl")
        assert lines[at + 1].startswith("    line 1: the line failed to parse as JSON")
        assert lines[-1] == "2 traces: 1 diverged, 1 error"

    def test_what_a_program_that_breaks_printed_is_shown(self, run: Run, traces: Path, folder: Path) -> None:
        (traces / "two.jsonl").unlink()
        (folder / "prog.py").write_text("import sys\nsys.exit('no \\x1b[2J way')\n")
        done = run("test", "--from-traces", "traces")
        assert done.code == 1
        assert "    at the end: the command ended otherwise than recorded\n" in done.out
        assert "    | the program printed at last:\n    | no \ufffd[2J way\n" in done.out

    def test_as_json(self, run: Run, traces: Path, folder: Path) -> None:  # noqa: ARG002 - they are there
        change(folder)
        done = run("test", "--from-traces", "traces", "--json")
        assert done.code == 1
        assert [(one["trace"], one["verdict"], one["step"]) for one in done.json] == [("one.jsonl", "diverged", 3), ("two.jsonl", "diverged", 3)]

    def test_another_command(self, run: Run, traces: Path) -> None:  # noqa: ARG002 - they are there
        assert run("test", "--from-traces", "traces", *prog("a", "b")).code == 0
        done = run("test", "--from-traces", "traces", *prog("b", "a"))
        assert done.code == 1
        assert "the run starts otherwise" in done.out
        done = run("test", "--from-traces", "traces", "--", "no-such-program")
        assert (done.code, done.out) == (2, "")
        assert done.err == ("rag: error: the command 'no-such-program' cannot be started: No such file or directory; "
                            "give one that can be behind --\n")
        done = run("test", "--from-traces", "traces", "--", "./prog.py", "a", "b")
        assert (done.code, "'./prog.py' cannot be started: Permission denied" in done.err) == (2, True)

    def test_from_another_folder(self, run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(traces)
        assert run("test", "--from-traces", ".").code == 0

    def test_several_runs(self, run: Run, traces: Path, folder: Path) -> None:
        """Row 29."""
        (traces / "two.jsonl").unlink()
        steady = run("test", "--from-traces", "traces", "--flake-detect", "2")
        assert (steady.code, steady.err) == (0, "1 trace, 2 runs of each: 2 calls (search 2)\n")
        change(folder)
        failed = run("test", "--from-traces", "traces", "--flake-detect", "2")
        assert (failed.code, failed.out.splitlines()[-1]) == (1, "1 trace: 1 failed")
        assert "    all 2 runs came out alike: at step 3 (line 4): another call came than was recorded\n" in failed.out
        (folder / "prog.py").write_text(f"import os\nif os.path.exists('once'):\n    raise SystemExit(5)\nopen('once', 'w')\n{PROGRAM}")
        flaky = run("test", "--from-traces", "traces", "--flake-detect", "2")
        assert (flaky.code, flaky.out.splitlines()[-1]) == (1, "1 trace: 1 flaky")

    def test_a_run_that_takes_too_long(self, run: Run, traces: Path, folder: Path) -> None:
        (traces / "two.jsonl").unlink()
        (folder / "prog.py").write_text("import time; time.sleep(600)")
        done = run("test", "--from-traces", "traces", "--timeout", "0.3")
        assert (done.code, done.out.splitlines()[1]) == (1, "    the command did not end within 0.3 s")

    def test_ctrl_c_ends_it_with_the_sum_so_far(self, run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG002 - they are there
        monkeypatch.setattr("replay.runs.process._GRACE_SECONDS", 0.2)
        line = f"test -e once && kill -{signal.SIGINT.value} {os.getpid()} && sleep 600; touch once; exec '{sys.executable}' prog.py a b"
        done = run("test", "--from-traces", "traces", "--keyed", "--", "sh", "-c", line)
        assert done.code == 130
        assert done.out.splitlines()[-1] == "2 traces: 1 diverged, 1 not run"
        assert done.err.splitlines()[-1] == "rag: stopped"


class TestWhich:
    """Folders and filters."""

    def test_a_folder_that_is_not_there(self, run: Run) -> None:
        refused = run("test", "--from-traces", "gone")
        assert (refused.code, refused.out, refused.err) == (1, "", "rag: error: 'gone' does not exist; name a folder that holds traces\n")

    def test_nothing_to_test_is_no_failure(self, run: Run, traces: Path) -> None:
        for options, said in (((), "no traces in 'empty'"), (("--only-tool", "none"), "no trace of 2 is left by the filters"),
                              (("--since", "2999-01-01"), "no trace of 2 is left by the filters")):
            (traces.parent / "empty").mkdir(exist_ok=True)
            done = run("test", "--from-traces", "traces" if options else "empty", *options)
            assert (done.code, done.out, done.err) == (0, "", f"rag: note: {said}\n")
        assert run("test", "--from-traces", "empty", "--json").json == []

    def test_filters_that_leave_some(self, run: Run, traces: Path) -> None:
        (traces / "two.jsonl").unlink()
        done = run("test", "--from-traces", "traces", "--only-tool", "search", "--since", "2020-02-29T10:00:00.5+01:00")
        assert (done.code, done.out.splitlines()[-1]) == (0, "1 trace: 1 passed")

    @pytest.mark.parametrize(("text", "ms"), [
        ("1970-01-01", 0), ("1970-01-02T00:00:00Z", 86_400_000), ("1970-01-01t01:00:00.250+01:00", 250), ("1970-01-01 00:00:01.1234567z", 1123),
    ])
    def test_times(self, text: str, ms: int) -> None:
        assert tracetests._ms(text) == ms

    @pytest.mark.parametrize("text", ["yesterday", "2020-13-01", "2020-01-01T10:00:00", "2020-01-01T25:00:00Z", "1970-1-1", "2020-01-01T10:00Z", ""])
    def test_what_is_no_time_is_a_usage_error(self, run: Run, text: str) -> None:
        refused = run("test", "--from-traces", ".", "--since", text)
        assert (refused.code, "is no time such as 2026-01-31T12:00:00Z" in refused.err) == (2, True)

    @pytest.mark.parametrize(("options", "said"), [
        (("--promote", "--flake-detect", "2"), "--promote and --flake-detect are mutually exclusive"), (("--yes",), "--yes needs --promote"),
        (("--flake-detect", "0"), "--flake-detect"), (("--timeout", "0"), "--timeout"), (("--", "x"), "--from-traces"),
    ])
    def test_usage(self, run: Run, options: tuple[str, ...], said: str) -> None:
        refused = run("test", *(("--from-traces", ".") if options[0] != "--" else ()), *options)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert said in refused.err


class TestPromote:
    """A new recording takes a diverged trace's place, where somebody says so."""

    def test_where_nobody_can_be_asked_nothing_is_promoted(self, run: Run, traces: Path, folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                           text: bytes) -> None:
        change(folder)
        with Path("/dev/null").open() as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            done = run("test", "--from-traces", "traces", "--promote")
        assert (done.code, done.out.splitlines()[-1]) == (1, "2 traces: 2 diverged")
        assert done.err.count("rag: note: nothing is promoted: standard input is no terminal to ask on; --yes promotes all\n") == 1
        assert {path.read_bytes() for path in traces.iterdir()} == {text}

    def test_all_are_where_that_is_said(self, run: Run, traces: Path, folder: Path, text: bytes) -> None:
        change(folder)
        run("trace", "seal", "traces/one.jsonl", "--key", "key", "--make-key")
        done = run("test", "--from-traces", "traces", "--promote", "--yes")
        assert (done.code, done.out.splitlines()[-1]) == (0, "2 traces: 2 promoted")
        assert "    promoted: recorded anew, 2 calls; the old trace's seal is gone with it\n" in done.out
        assert text not in {path.read_bytes() for path in traces.iterdir()}
        assert run("test", "--from-traces", "traces").code == 0

    def test_a_live_run_that_fails_is_refused(self, run: Run, traces: Path, folder: Path, text: bytes) -> None:
        """Row 30."""
        (traces / "two.jsonl").unlink()
        (folder / "prog.py").write_text(CHANGED + "\nsys.exit(3)\n")
        done = run("test", "--from-traces", "traces", "--promote", "--yes")
        assert (done.code, done.out.splitlines()[-1]) == (1, "1 trace: 1 diverged")
        assert "    not promoted: the live run failed (exit code 3); the trace was left as it was\n" in done.out
        assert (traces / "one.jsonl").read_bytes() == text
        assert [path.name for path in traces.iterdir()] == ["one.jsonl"]

    def test_as_json_nothing_else_is_printed(self, run: Run, traces: Path, folder: Path) -> None:
        (traces / "two.jsonl").unlink()
        (folder / "prog.py").write_text(CHANGED.replace("print(", "("))
        done = run("test", "--from-traces", "traces", "--promote", "--yes", "--json")
        assert (done.code, [one["verdict"] for one in done.json]) == (0, ["promoted"])

    @pytest.mark.parametrize(("answers", "last", "changed"), [
        ("y\nn\n", "2 traces: 1 promoted, 1 diverged", 1), ("a\n", "2 traces: 2 promoted", 2), ("q\n", "2 traces: 1 diverged, 1 not run", 0),
        ("\n\n", "2 traces: 2 diverged", 0),
    ])
    def test_at_a_terminal_each_is_asked_for(self, traces: Path, folder: Path, run: Run, text: bytes, answers: str, last: str, changed: int) -> None:  # noqa: ARG002 - writes the program
        change(folder)
        ours, theirs = pty.openpty()
        child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "test", "--from-traces", "traces", "--promote"], stdin=theirs,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        os.close(theirs)
        os.write(ours, answers.encode())
        out, _ = child.communicate(timeout=60)
        os.close(ours)
        assert out.endswith(f"{last}\n")
        assert child.returncode == (0 if changed == 2 else 1)
        assert sum(path.read_bytes() != text for path in traces.iterdir()) == changed
        assert re.search(r"^promote one\.jsonl\? .*\[y/N/a/q\] ", out, re.MULTILINE)


def test_colours_and_a_long_name_at_a_terminal(traces: Path, folder: Path, run: Run, text: bytes) -> None:  # noqa: ARG001 - writes the program
    (traces / f"{'n' * 150}.jsonl").write_bytes(text)
    (traces / "two.jsonl").unlink()
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "test", "--from-traces", "traces"], stdout=theirs, stderr=subprocess.DEVNULL,
                             env={**os.environ, "COLUMNS": "80"}, cwd=folder)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 10_000)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    assert child.wait(timeout=30) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert "\x1b[32mpassed   \x1b[0m" in shown.decode()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("passed    nnnnnnnnnn") and "…" in line for line in lines)
