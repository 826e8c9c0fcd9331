"""`rag record` and `rag replay`: exit codes, what is printed where, and what is refused. Row 40 of §9: real processes, real exit codes."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import PROGRAM, Run, prog, recording, runner

from replay.tracefile.seal import load_public, make_key
from replay.tracefile.trace import load_trace
from replay.tracefile.verify import verify_trace

Spawn = Any  # see conftest


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(folder, capfd)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return recording(tmp_path_factory.mktemp("recording"), "a", "b")


@pytest.fixture
def recorded(run: Run, folder: Path, text: bytes) -> Run:
    (folder / "t.jsonl").write_bytes(text)
    return run


def one_line(text: str) -> str:
    assert len(text.splitlines()) == 1
    return text


class TestRecord:
    """`rag record`."""

    def test_a_program_runs_as_it_is(self, run: Run) -> None:
        done = run("record", "t.jsonl", *prog("a"))
        assert (done.code, done.out, done.err) == (0, "['a-0', 'a-1', 'a-2']\n", "rag: note: recorded 1 call to t.jsonl\n")
        assert verify_trace("t.jsonl").complete

    @pytest.mark.parametrize(("words", "code"), [(("exit3",), 3), (("a", "exit0"), 0)])
    def test_the_exit_code_is_the_programs(self, run: Run, words: tuple[str, ...], code: int) -> None:
        assert run("record", "t.jsonl", *prog(*words)).code == code

    def test_a_killed_program_gives_what_a_shell_gives(self, run: Run, folder: Path) -> None:
        line = "import os; open('t.jsonl', 'ab').write(b'{'); os.kill(os.getpid(), 9)"
        done = run("record", "t.jsonl", "--", sys.executable, "-c", line)
        assert done.code == 137
        assert done.err == ("rag: note: the last line that a killed process wrote was cut off; it is kept in 't.jsonl.torn-1'\n"
                            "rag: note: recorded 0 calls to t.jsonl\n")
        assert (folder / "t.jsonl.torn-1").read_bytes() == b"{"
        assert verify_trace("t.jsonl").complete

    def test_a_folder_gets_a_file_named_after_the_run(self, run: Run, folder: Path) -> None:
        (folder / "traces").mkdir()
        done = run("record", "traces", *prog("a"))
        (trace,) = (folder / "traces").iterdir()
        assert done.err == f"rag: note: recorded 1 call to traces/{trace.name}\n"

    def test_a_trace_that_is_there_is_left_alone(self, recorded: Run, folder: Path) -> None:
        before = (folder / "t.jsonl").read_bytes()
        refused = recorded("record", "t.jsonl", *prog("a"))
        assert (refused.code, refused.out) == (1, "")
        assert one_line(refused.err).startswith("rag: error [trace_exists]: ")
        assert ((folder / "t.jsonl").read_bytes(), (folder / "ran").exists()) == (before, False)

    def test_what_cannot_be_started_is_one_line_and_leaves_no_trace(self, run: Run, folder: Path) -> None:
        refused = run("record", "t.jsonl", "--", "no-such\x1b-program")
        assert (refused.code, refused.out) == (1, "")
        assert one_line(refused.err) == ("rag: error: the command 'no-such\\x1b-program' cannot be started: No such file or directory; "
                                         "give one that can be behind --\n")
        assert not (folder / "t.jsonl").exists()

    @pytest.mark.parametrize(("arguments", "said"), [
        (("record",), "Missing argument 'TRACE'"), (("record", "t.jsonl"), "put it behind --"), (("record", "t.jsonl", "--"), "put it behind --"),
        (("record", "t.jsonl", "python", "prog.py"), "Got unexpected 'python': put -- before the command to run"),
        (("record", "--body-bytes", "0", "t.jsonl", "--", "true"), "--body-bytes"),
        (("record", "--secret-env", "NOT_THERE", "t.jsonl", "--", "true"), "NOT_THERE is not set"),
        (("record", "--secret-env", "SHORT", "t.jsonl", "--", "true"), "SHORT is shorter than 4 characters"),
        (("replay",), "Missing argument 'TRACE'"), (("replay", "t.jsonl", "true"), "put -- before the command"),
        (("replay", "t.jsonl", "--differential", "--mutate", "1", "{}"), "--differential and --mutate are mutually exclusive"),
        (("replay", "t.jsonl", "--json", "x"), "--json needs --differential"), (("replay", "t.jsonl", "--svg", "x"), "--svg needs --differential"),
        (("replay", "t.jsonl", "--mutate", "one", "{}"), "--mutate"),
        (("replay", "t.jsonl", "--mutate", "1"), "'--mutate' requires 2 arguments; see rag replay --help"),
        (("replay", "--nonsense"), "No such option: --nonsense; see rag replay --help"),
    ])
    def test_usage_is_one_line(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str) -> None:
        monkeypatch.setenv("SHORT", "abc")
        refused = run(*arguments)
        assert (refused.code, refused.out) == (2, "")
        assert one_line(refused.err).startswith("rag: usage: ")
        assert said in refused.err
        assert not (folder / "t.jsonl").exists()

    def test_an_option_behind_the_bar_is_the_programs(self, run: Run) -> None:
        assert run("record", "t.jsonl", "--", "echo", "--fsync", "--", "-h").out == "--fsync -- -h\n"
        assert load_trace("t.jsonl").args == ["--fsync", "--", "-h"]

    def test_secrets_bodies_and_seal(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINE", "canary-value")
        make_key("key")
        done = run("record", "t.jsonl", "--fsync", "--body-bytes", "200", "--secret-env", "MINE", "--seal", "key", *prog("canary-value", "x" * 300))
        assert done.code == 0
        assert verify_trace("t.jsonl", load_public("key.pub")).seal == "valid"
        assert list((folder / "t.jsonl.bodies").iterdir())
        assert not any(b"canary" in path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "ran")
        replayed = run("replay", "t.jsonl")
        assert replayed.code == 2
        assert "give the command behind --" in one_line(replayed.err.split("\n", 1)[1])
        assert run("replay", "t.jsonl", "--secret-env", "MINE", *prog("canary-value", "x" * 300)).code == 0

    @pytest.mark.parametrize("key", ["gone", "prog.py"])
    def test_a_key_that_is_none_is_one_line_and_nothing_runs(self, run: Run, folder: Path, key: str) -> None:
        refused = run("record", "t.jsonl", "--seal", key, *prog("a"))
        assert (refused.code, refused.out) == (1, "")
        assert one_line(refused.err).startswith(f"rag: error: key '{key}': ")
        assert not (folder / "t.jsonl").exists()

    @pytest.mark.parametrize(("options", "code"), [((), 1), (("--stop-on-error",), 1)])
    def test_a_recording_that_lacks_something_is_no_success(self, run: Run, options: tuple[str, ...], code: int) -> None:
        line = "printf '\\0' >> t.jsonl"
        done = run("record", "t.jsonl", *options, "--", "sh", "-c", line)
        assert done.code == code
        assert "zero bytes" in done.err
        assert done.err.splitlines()[0].endswith("; the trace has no end")
        assert run("record", "u.jsonl", "--", "sh", "-c", f"{line.replace('t.', 'u.')}; exit 5").code == 5, "the program's own failure comes first"

    def test_ctrl_c_is_the_programs_and_the_trace_has_an_end(self, folder: Path) -> None:
        # A signal that comes just before Python sleeps is handled when it wakes up, so the program sleeps for moments only.
        (folder / "prog.py").write_text(f"{PROGRAM}\nprint('ready', flush=True)\nimport time\nfor _ in range(1500):\n    time.sleep(0.02)\n")
        with subprocess.Popen([sys.executable, "-m", "rag_stdlib", "record", "t.jsonl", *prog("a")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, start_new_session=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline().startswith("['a-0'")
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
        assert (child.returncode, err.splitlines()[-2:]) == (130, ["rag: note: recorded 1 call to t.jsonl", "rag: stopped"])
        trace = load_trace("t.jsonl")
        assert (trace.completed or {})["error"] == "killed by SIGINT"


class TestReplay:
    """`rag replay`."""

    def test_the_recorded_command_runs_again_and_nothing_else(self, recorded: Run, folder: Path) -> None:
        """Row 28."""
        done = recorded("replay", "t.jsonl")
        assert (done.code, done.out) == (0, "['a-0', 'a-1', 'a-2']\n['b-0', 'b-1', 'b-2']\n")
        run_id = load_trace("t.jsonl").run_id
        assert done.err.splitlines() == [f"trace loaded: 8 events, run_id={run_id}, schema=v2, path=t.jsonl",
                                         "rag: note: faithful: 2 of 2 recorded calls asked for; the same end (exit code 0)"]
        assert not (folder / "ran").exists()

    def test_a_recorded_failure_is_faithful_where_it_fails_again(self, run: Run) -> None:
        """Row 32."""
        run("record", "t.jsonl", *prog("a", "exit3"))
        done = run("replay", "t.jsonl")
        assert done.code == 0
        assert done.err.endswith("the same end (exit code 3)\n")

    def test_a_divergence_is_a_block_behind_what_the_program_printed(self, recorded: Run) -> None:
        done = recorded("replay", "t.jsonl", *prog("a", "c"))
        assert (done.code, done.out) == (1, "['a-0', 'a-1', 'a-2']\n")
        assert done.err.count("  File ") == 1, "of the program's own frames there is one, and none of ours"
        assert "\nreplay.errors.Divergence: replay divergence at step 5 (line 6): another call came than was recorded\nrag: " in done.err
        block = done.err[done.err.index("rag: replay divergence at step 5"):].splitlines()
        assert block[:4] == ["rag: replay divergence at step 5 (line 6): another call came than was recorded",
                             '  expected  search("b", 3)', '  got       search("c", 3)', '  differs at $[0]: "b" -> "c"']

    def test_one_that_was_swallowed_calls_left_over_and_another_end_are_told(self, recorded: Run, folder: Path) -> None:
        (folder / "prog.py").write_text(PROGRAM.replace("print(search(word))", "\n    try: search(word + '!')\n    except Exception: print('fine')"))
        done = recorded("replay", "t.jsonl")
        assert (done.code, done.out) == (1, "fine\nfine\n")
        assert done.err.count("rag: replay divergence") == 1
        (folder / "prog.py").write_text("import sys; sys.exit(9)")
        done = recorded("replay", "t.jsonl")
        assert done.code == 1
        assert "recorded  exit code 0\n  got       exit code 9" in done.err
        assert "2 recorded calls were not asked for (left over)" in done.err

    def test_many_divergences_are_counted(self, recorded: Run) -> None:
        line = f"for n in 1 2 3 4 5; do '{sys.executable}' prog.py c; done 2>/dev/null"
        done = recorded("replay", "t.jsonl", "--", "sh", "-c", line)
        assert done.code == 1
        assert "rag: note: the run diverged 4 more times behind that, in other processes\n" in done.err
        assert done.err.count("rag: replay divergence at step 3") == 1

    @pytest.mark.parametrize(("text", "code", "said"), [
        (None, "trace_missing", "no such trace"), (b"", "trace_empty", "empty"), (b"{nonsense\n", "trace_line", "line 1"),
        (b'{"kind":"schema_header","ts_ms":1,"run_id":"r","version":99,"writer":"w"}\n', "trace_version", "99"),
        (b'{"kind":"schema_header","ts_ms":1,"run_id":"r","version":2,"writer":"corvid-vm"}\n', "trace_alien", "corvid-vm"),
    ])
    def test_a_trace_that_cannot_be_used_is_3_and_nothing_runs(self, run: Run, folder: Path, text: bytes | None, code: str, said: str) -> None:
        """Row 36."""
        if text is not None:
            (folder / "t.jsonl").write_bytes(text)
        done = run("replay", "t.jsonl", *prog("a"))
        assert (done.code, done.out) == (3, "")
        assert one_line(done.err).startswith(f"rag: error [{code}]: trace 't.jsonl': "), "as it was typed"
        assert said in done.err
        assert not (folder / "ran").exists()

    def test_a_changed_trace_is_3_unless_it_is_not_to_be_checked(self, recorded: Run, folder: Path) -> None:
        text = (folder / "t.jsonl").read_bytes()
        (folder / "t.jsonl").write_bytes(text.replace(b"a-0", b"a-9"))
        refused = recorded("replay", "t.jsonl")
        assert (refused.code, one_line(refused.err).startswith("rag: error [trace_tampered]: ")) == (3, True)
        done = recorded("replay", "t.jsonl", "--no-verify")
        assert (done.code, done.out.splitlines()[0]) == (0, "['a-9', 'a-1', 'a-2']")

    def test_one_that_is_damaged_while_it_runs_is_3_too(self, recorded: Run) -> None:
        done = recorded("replay", "t.jsonl", "--", "sh", "-c", f"sed -i s/a-0/a-9/ t.jsonl; '{sys.executable}' prog.py a b 2>/dev/null")
        assert done.code == 3
        assert "rag: error [trace_tampered]: " in done.err

    def test_an_unfinished_one_is_replayed_where_that_is_wanted(self, recorded: Run, folder: Path) -> None:
        (folder / "t.jsonl").write_bytes((folder / "t.jsonl").read_bytes().rpartition(b'{"kind":"run_completed"')[0] + b'{"kind":"to')
        refused = recorded("replay", "t.jsonl")
        assert (refused.code, "[trace_incomplete]" in one_line(refused.err)) == (3, True)
        done = recorded("replay", "t.jsonl", "--incomplete")
        assert done.code == 0
        assert "rag: note: line 8 was cut off" in done.err
        assert done.err.endswith("faithful: 2 of 2 recorded calls asked for; the trace has no end (exit code 0)\n")

    def test_a_trace_without_a_command_needs_one(self, run: Run) -> None:
        import replay

        with replay.record("own.jsonl"):
            pass
        refused = run("replay", "own.jsonl")
        assert refused.code == 2
        assert refused.err.splitlines()[-1] == ("rag: usage: the trace does not say which command was recorded; give it behind --; "
                                                "see rag replay --help")

    def test_a_command_that_cannot_be_started_is_one_line(self, recorded: Run) -> None:
        refused = recorded("replay", "t.jsonl", "--differential", "--json", "new/x", "--", "no-such-program")
        assert (refused.code, Path("new").exists()) == (2, False)
        assert one_line(refused.err.partition("\n")[2]) == ("rag: error: the command 'no-such-program' cannot be started: No such file or directory; "
                                                            "give one that can be behind --\n")

    def test_keyed_matching(self, recorded: Run) -> None:
        swapped = prog("b", "a")
        assert "the order changed" in recorded("replay", "t.jsonl", *swapped).err
        assert "another call" not in recorded("replay", "t.jsonl", "--keyed", *swapped).err

    def test_the_network_is_refused_or_let_in(self, run: Run) -> None:
        line = "import replay, socket\ntry: socket.create_connection(('127.0.0.1', 9), timeout=1)\nexcept Exception as error: print(type(error).__name__)"
        run("record", "t.jsonl", "--", sys.executable, "-c", line)
        done = run("replay", "t.jsonl")
        assert (done.code, done.out) == (1, "QuarantineViolation\n")
        assert "rag: replay quarantine (network) blocked an unrecorded side effect" in done.err
        assert run("replay", "t.jsonl", "--allow-network").code == 0

    def test_a_signal_for_us_stops_it(self, recorded: Run) -> None:
        done = recorded("replay", "t.jsonl", "--differential", "--json", "x.json", "--", "sh", "-c", "while kill -TERM $PPID; do sleep 0.05; done")
        assert (done.code, done.out, done.err.splitlines()[-1]) == (130, "", "rag: stopped")
        assert not Path("x.json").exists()


class TestWhere:
    """A recorded command runs where it was recorded."""

    def test_from_another_folder_too_which_is_told(self, recorded: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "sub").mkdir()
        monkeypatch.chdir(folder / "sub")
        done = recorded("replay", "../t.jsonl")
        assert (done.code, done.out.splitlines()[0]) == (0, "['a-0', 'a-1', 'a-2']")
        assert "rag: note: it ran in '..', where it was recorded as seen from the trace; a command behind -- runs here\n" in done.err
        given = recorded("replay", "../t.jsonl", *prog("a", "b"))
        assert (given.code, "it ran in" in given.err) == (1, False), "there is no prog.py here"

    def test_a_folder_that_is_gone_is_named_and_nothing_runs(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "sub").mkdir()
        monkeypatch.chdir(folder / "sub")
        run("record", "../t.jsonl", "--", "true")
        monkeypatch.chdir(folder)
        (folder / "sub").rmdir()
        refused = run("replay", "t.jsonl")
        assert refused.code == 2
        assert one_line(refused.err.partition("\n")[2]) == (
            "rag: error: the folder 'sub', seen from the trace, in which the command was recorded is gone; "
            "give the command behind --, where it can run\n")

    def test_a_flags_secret_is_not_written(self, run: Run, folder: Path) -> None:
        run("record", "t.jsonl", "--", "true", "--password", "hunter2hunter2", "--api-key=plain-key-abc")
        assert not re.search(b"hunter2|plain-key", (folder / "t.jsonl").read_bytes())
        assert run("replay", "t.jsonl", "--", "true", "--password", "hunter2hunter2", "--api-key=plain-key-abc").code == 0

    def test_a_recording_inside_a_recording_says_where_the_calls_are(self, run: Run) -> None:
        done = run("record", "outer.jsonl", "--", sys.executable, "-m", "rag_stdlib", "record", "inner.jsonl", *prog("a"))
        assert done.err.splitlines() == [
            "rag: note: recorded 1 call to inner.jsonl",
            "rag: note: inside it a record with the trace 'inner.jsonl' took the calls, which are not in this one",
            "rag: note: recorded 0 calls to outer.jsonl"]


class TestReports:
    """`--differential` and `--mutate`."""

    def test_what_changed_stands_behind_what_the_program_printed(self, recorded: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Row 38."""
        monkeypatch.setenv("STEP", "-1")
        done = recorded("replay", "t.jsonl", "--differential", "--json", "out.json", "--svg", "out.svg")
        assert done.code == 1
        lines = done.out.splitlines()
        assert lines[:2] == ["['a-0', 'a-1', 'a-2']", "['b-0', 'b-1', 'b-2']"], "the program gets what was recorded"
        assert lines[2].split() == ["call", "tool", "result", "arguments"]
        assert "2 calls compared: 0 the same, 2 changed." in lines
        report = json.loads((folder / "out.json").read_text())
        assert (report["faithful"], report["totals"]["moved"]) == (False, 4)
        assert (folder / "out.svg").read_text().startswith("<svg ")
        assert (folder / "ran").read_text() == "a\nb\n"

    def test_nothing_changed_is_0(self, recorded: Run) -> None:
        done = recorded("replay", "t.jsonl", "--differential")
        assert (done.code, done.out.splitlines()[-1]) == (0, "2 calls compared: 2 the same, 0 changed.")

    def test_files_take_their_place_in_one_step(self, recorded: Run, folder: Path) -> None:
        (folder / "real.json").write_text("old")
        (folder / "real.json").chmod(0o604)
        (folder / "out.json").symlink_to("real.json")
        assert recorded("replay", "t.jsonl", "--differential", "--json", "out.json", "--svg", "/dev/null").code == 0
        assert json.loads((folder / "real.json").read_text())["faithful"] is True
        assert (folder / "out.json").is_symlink()
        assert stat.S_IMODE((folder / "real.json").stat().st_mode) == 0o604
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
        assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]

    def test_a_file_that_cannot_be_written_is_one_line(self, recorded: Run) -> None:
        for option, path, said in (("--json", "prog.py/out.json", "File exists"), ("--svg", ".", "Is a directory"), ("--svg", "/dev/full/x", "exists")):
            refused = recorded("replay", "t.jsonl", "--differential", option, path)
            assert (refused.code, refused.out) == (2, "")
            assert re.fullmatch(f"rag: error: '{path}' cannot be written: .*{said}; name another file", refused.err.splitlines()[-1])
        assert not Path("ran").exists(), "and nothing ran"

    def test_folders_of_files_are_made(self, recorded: Run) -> None:
        assert recorded("replay", "t.jsonl", "--differential", "--json", "new/a/out.json", "--svg", "new/b/out.svg").code == 0
        assert sorted(path.name for path in Path("new").rglob("*")) == ["a", "b", "out.json", "out.svg"]

    def test_a_replaced_result_and_what_follows(self, recorded: Run) -> None:
        """Row 39."""
        done = recorded("replay", "t.jsonl", "--mutate", "2", '["x"]')
        assert done.code == 0
        lines = done.out.splitlines()
        assert lines[:3] == ["['a-0', 'a-1', 'a-2']", "['x']", "The result of recorded call 2 was replaced:"]
        assert lines[-1] == "The run ended as recorded."

    @pytest.mark.parametrize(("step", "value", "said"), [
        ("0", "[]", "step indices are 1-based"), ("-1", "[]", "step indices are 1-based"),
        ("3", "[]", "step 3 is out of range: the trace has 2 substitutable steps"), ("1", "{", "the JSON did not parse"),
        ("1", "NaN", "the JSON did not parse"), ("1", '"x"', "returned an array, the replacement is a string"),
        ("1", "[1e999]", "the JSON did not parse"),
    ])
    def test_one_that_cannot_be_made_is_2(self, recorded: Run, folder: Path, step: str, value: str, said: str) -> None:
        refused = recorded("replay", "t.jsonl", "--mutate", step, value)
        assert (refused.code, refused.out) == (2, "")
        assert said in refused.err.splitlines()[-1]
        assert not (folder / "ran").exists()

    def test_one_that_the_tool_cannot_read_is_2_as_well(self, run: Run, folder: Path) -> None:
        (folder / "prog.py").write_text("import replay\n@replay.tool(encode=lambda found: [found], decode=lambda found: found[0])\n"
                                        "def one(): return 1\nprint(one())\n")
        run("record", "t.jsonl", *prog())
        refused = run("replay", "t.jsonl", "--mutate", "1", "[]")
        assert refused.code == 2
        assert refused.out == "", "no report"
        said = refused.err.splitlines()
        assert len(said) == 2, "no traceback"
        assert said[1].startswith("rag: usage: --mutate: invalid replay mutation at substitutable step 1: ")
        assert said[1].endswith("; see rag replay --help")
        assert "one cannot read the replacement: IndexError: list index out of range; recorded was an array" in said[1]


def test_a_session_of_a_program_that_calls_rag_itself(run: Run, folder: Path) -> None:
    """Must show 1, by the command line: `rag` in a recorded script, replayed without the index."""
    (folder / "notes.txt").write_text("refunds take ten days\n")
    rag = f'"{sys.executable}" -m rag_stdlib'
    script = f"{rag} ingest x.db notes.txt && {rag} search x.db refunds --json"
    done = run("record", "t.jsonl", "--", "sh", "-c", script)
    assert done.code == 0
    assert [call.name for call in load_trace("t.jsonl").calls] == ["rag_ingest_document", "rag_query"]
    for path in folder.glob("x.db*"):
        path.unlink()
    again = run("replay", "t.jsonl")
    assert (again.code, again.out) == (0, done.out)
    assert not (folder / "x.db").exists()


def test_help_names_the_command_behind_the_bar(run: Run) -> None:
    assert run("record", "--help").out.startswith("Usage: rag record [OPTIONS] TRACE -- COMMAND...\n")
    assert run("replay", "--help").out.startswith("Usage: rag replay [OPTIONS] TRACE [-- COMMAND...]\n")
    assert not re.search(r"\[required\]", run("trace", "seal", "--help").out)


def test_a_command_of_ours_replays_without_index_root_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORVID_IO_ROOT", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    trace, there = str(tmp_path / "t.jsonl"), tmp_path / "there"
    there.mkdir()
    (there / "corvid.toml").write_text('[io]\nroot = "."\n', encoding="utf-8")
    (there / "a.md").write_text("Refunds are paid within ten days.", encoding="utf-8")
    rag = [sys.executable, "-m", "rag_stdlib"]
    assert subprocess.run([*rag, "ingest", "a.db", "a.md"], cwd=there, check=False, capture_output=True).returncode == 0
    recorded = subprocess.run([*rag, "record", trace, "--", *rag, "search", "a.db", "refunds"], cwd=there, text=True, capture_output=True,
                              timeout=60, check=True)
    (there / "a.db").unlink()
    (there / "corvid.toml").write_text('[io]\nroot = "."\n[rag]\nembedder = "openai"\n', encoding="utf-8")
    for folder in (there, tmp_path):
        again = subprocess.run([*rag, "replay", trace], cwd=folder, text=True, capture_output=True, timeout=60, check=False)
        assert (again.returncode, again.stdout) == (0, recorded.stdout), again.stderr
    assert "Refunds are paid" in recorded.stdout


def test_a_command_of_ours_that_diverges_says_so_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "."\n', encoding="utf-8")
    rag = [sys.executable, "-m", "rag_stdlib"]
    subprocess.run([*rag, "record", "t.jsonl", "--", *rag, "search", "none.db", "refunds"], cwd=tmp_path, capture_output=True, timeout=60,
                   check=False)
    again = subprocess.run([*rag, "replay", "t.jsonl", "--", *rag, "search", "none.db", "refund"], cwd=tmp_path, text=True,
                           capture_output=True, timeout=60, check=False)
    assert again.returncode == 1
    assert "\nrag: error [other_call]: replay divergence at step 3 (line 4): another call came than was recorded\n" in again.stderr
    assert "please report it" not in again.stderr
