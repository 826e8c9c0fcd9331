"""Commands as real processes: their streams, their signals, and how they end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from replay.runs import process
from replay.runs.process import CannotStart, Ended, Signals, check_startable, run


def ran(*command: str, **options: Any) -> Ended:
    with Signals() as signals:
        return run(command, os.environ, signals, **options)


def printed_by(path: Path, *command: str, **options: Any) -> tuple[Ended, str]:
    with path.open("w+b") as output:
        ended = ran(*command, output=output, **options)
        output.seek(0)
        return ended, output.read().decode()


@pytest.mark.parametrize(("line", "status", "code", "error"), [
    ("exit 0", 0, 0, None), ("exit 3", 3, 3, "exit code 3"), ("kill -KILL $$", -9, 137, "killed by SIGKILL"),
    ("kill -34 $$", -34, 162, "killed by SIGRTMIN"),
])
def test_how_a_command_ended_in_words_and_as_a_shell_has_it(line: str, status: int, code: int, error: str | None) -> None:
    ended = ran("sh", "-c", line)
    assert (ended.status, ended.code, ended.error, ended.ok, ended.stopped_by) == (status, code, error, status == 0, None)


def test_what_can_be_started_is_known_before_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/plain").write_text("")
    (tmp_path / "sub/program").write_text("#!/bin/sh\npwd; echo $PWD\n")
    (tmp_path / "sub/program").chmod(0o755)
    check_startable(["sh"])
    check_startable(["./sub/program"])
    check_startable(["./program"], "sub")
    ended, printed = printed_by(tmp_path / "out", "./program", folder="sub")
    assert (ended.status, printed) == (0, f"{tmp_path}/sub\n" * 2)
    for command, folder, said in ((["no-such"], None, "'no-such' cannot be started: No such file"), (["./program"], None, "No such file"),
                                  (["./plain"], "sub", "'./plain' cannot be started in 'sub': Permission denied"),
                                  (["./sub"], None, "Permission denied")):
        with pytest.raises(CannotStart, match=said):
            check_startable(command, folder)
        with pytest.raises(CannotStart, match=said):
            ran(*command, folder=folder)


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert Ended(-60).error == "killed by signal 60"


@pytest.mark.parametrize(("command", "said"), [
    (("no-such-program-here",), "No such file or directory"), (("/",), "Permission denied"), (("",), "cannot be started: "),
    (("a\0b",), "embedded null byte"),
])
def test_what_cannot_be_started_says_why(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(CannotStart, match=said):
        ran(*command)


def test_it_has_our_streams_and_the_descriptors_that_a_shell_opened_for_it(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from the input\n")
    (tmp_path / "three").write_text("from descriptor 3\n")
    driver = ("import os; from replay.runs.process import *\n"
              "with Signals() as s: run(['sh', '-c', 'cat; cat <&3; echo told >&2'], os.environ, s)")
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "$0" < in 3< three', driver], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("from the input\nfrom descriptor 3\n", "told\n")


def test_apart_it_has_no_input_and_a_session_of_its_own(tmp_path: Path) -> None:
    ended, printed = printed_by(tmp_path / "out", sys.executable, "-c", "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())")
    assert (ended.status, printed) == (0, "'' True\n")


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    ended, printed = printed_by(tmp_path / "out", "sh", "-c", "sleep 600 & echo $!; wait", timeout=0.2)
    assert (ended.timed_out, ended.error, ended.stopped_by) == (True, "killed by SIGTERM", None)
    wait_for(lambda: gone(int(printed)))


def test_one_that_does_not_care_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.2)
    ended, _ = printed_by(tmp_path / "out", "sh", "-c", "trap '' TERM; while true; do sleep 0.05; done", timeout=0.3)
    assert (ended.timed_out, ended.error) == (True, "killed by SIGKILL")


def test_what_a_command_leaves_behind_goes_with_it(tmp_path: Path) -> None:
    ended, printed = printed_by(tmp_path / "out", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!", timeout=30)
    assert ended.ok
    wait_for(lambda: gone(int(printed)))


def test_a_signal_for_us_is_the_commands_and_its_ending_is_waited_for() -> None:
    ended = ran("sh", "-c", "trap 'exit 7' TERM; while kill -TERM $PPID; do sleep 0.05; done")
    assert (ended.code, ended.stopped_by) == (7, signal.SIGTERM)


def test_one_that_came_too_early_waits_for_the_command() -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        ended = run(["sleep", "600"], os.environ, signals)
    assert (ended.error, ended.stopped_by) == ("killed by SIGTERM", signal.SIGTERM)


def test_apart_a_signal_for_us_ends_it_soon_whatever_it_does_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.2)
    ended, _ = printed_by(tmp_path / "out", "sh", "-c", f"trap '' INT TERM; kill -INT {os.getpid()}; while true; do sleep 0.05; done")
    assert (ended.error, ended.stopped_by, ended.timed_out) == ("killed by SIGKILL", signal.SIGINT, False)


def test_signals_are_given_back_and_ignored_ones_stay_so() -> None:
    before = signal.getsignal(signal.SIGTERM)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != before
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGHUP, hangup)


def test_ctrl_c_at_a_terminal_reaches_the_command_once_and_not_us(tmp_path: Path) -> None:
    counting = textwrap.dedent("""\
        import signal, time
        came = []
        signal.signal(signal.SIGINT, lambda *_: came.append(1))
        print("ready", flush=True)
        deadline = time.monotonic() + 20
        while not came and time.monotonic() < deadline: time.sleep(0.01)
        time.sleep(0.3)
        raise SystemExit(len(came))
        """)
    driver = ("import os, sys; from replay.runs.process import *\n"
              "with Signals() as s: ended = run([sys.executable, '-c', sys.argv[1]], os.environ, s)\n"
              "print(ended)")
    ours, theirs = pty.openpty()
    # a session whose terminal is the new one, as a shell's job in front has it
    child = subprocess.Popen(["setsid", "--ctty", "--wait", sys.executable, "-c", driver, counting], stdin=theirs, stdout=theirs, stderr=theirs,
                             cwd=tmp_path)
    os.close(theirs)
    shown = b""
    while b"ready" not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, b"\x03")
    while b"Ended" not in shown:
        shown += os.read(ours, 1000)
    assert child.wait(timeout=30) == 0
    os.close(ours)
    assert f"Ended(status=1, stopped_by={signal.SIGINT.value}".encode() in shown.replace(b"<Signals.SIGINT: 2>", b"2")
