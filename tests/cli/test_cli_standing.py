"""Commands that stand: signals, and the lines of the log."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rag_stdlib.cli.block import lines_of, show_block
from rag_stdlib.cli.standing import Stop, heard, lines_of_the_log
from rag_stdlib.cli.terminal import cells


def test_a_stop_is_waited_for_as_long_as_is_said() -> None:
    stop = Stop()
    begun = time.monotonic()
    assert not stop.wait(0.15)
    assert time.monotonic() - begun >= 0.15
    threading.Timer(0.05, stop.tell).start()
    assert stop.wait()
    assert stop
    assert stop.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_tells_and_the_handlers_are_put_back(number: signal.Signals) -> None:
    stop, before = Stop(), [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with heard(stop.tell):
        os.kill(os.getpid(), number)
        assert stop.wait(10)
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


def test_the_second_signal_ends_the_process_at_once() -> None:
    child = "import time\nfrom rag_stdlib.cli.standing import heard\nwith heard(lambda: print('told', flush=True)):\n    print('ready', flush=True)\n    while True: time.sleep(1)"
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in ("ready\n", "told\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGTERM)
        assert (*process.communicate(timeout=30), process.returncode) == ("", "rag: stopped\n", 143)


HANGING = """
import sys, threading
from contextlib import closing
from rag_stdlib.cli.standing import Stop, heard

class Serving:
    def close(self):
        print('hanging', flush=True)
        print('what was shown')
        threading.Event().wait()

stop = Stop()
with heard(stop.tell), closing(Serving()):
    print('ready', flush=True)
    stop.wait()
"""
DEAF = """
class Deaf:
    def write(self, text):
        raise ZeroDivisionError
    flush = write
"""
PRINTING = """
import sys
from rag_stdlib.cli.standing import heard
with heard(lambda: print('told', file=sys.stderr, flush=True)):
    print('ready', file=sys.stderr, flush=True)
    while True: print('x' * 100_000)
"""


def stopped(child: str, lines: tuple[str, ...], *, on_stderr: bool = False) -> tuple[str, str, int]:
    """Start a program, send it SIGTERM after each of these lines that it tells, and return what else it tells, and its exit code."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=buffered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = process.stderr if on_stderr else process.stdout
        try:
            for line in lines:
                assert told.readline() == line
                time.sleep(0.2)  # until it hangs
                process.send_signal(signal.SIGTERM)
            code = process.wait(30)
            return process.stdout.read(), process.stderr.read(), code
        finally:
            process.kill()


def test_a_stop_that_hangs_is_ended_by_the_second_signal_and_what_was_shown_is_sent_out() -> None:
    assert stopped(HANGING, ("ready\n", "hanging\n")) == ("what was shown\n", "rag: stopped\n", 143)


def test_it_ends_whatever_becomes_of_its_word() -> None:
    deaf = "\n    sys.stderr = Deaf()\n    print('ready'"
    assert stopped(DEAF + HANGING.replace("\n    print('ready'", deaf), ("ready\n", "hanging\n")) == ("what was shown\n", "", 143)
    gone = "\n    sys.stderr.close()\n    print('ready'"
    assert stopped(HANGING.replace("\n    print('ready'", gone), ("ready\n", "hanging\n")) == ("what was shown\n", "", 143)
    mute = HANGING.replace("print('what was shown')", "sys.stdout = Deaf()")
    assert stopped(DEAF + mute, ("ready\n", "hanging\n")) == ("", "rag: stopped\n", 143)


def test_it_ends_also_in_the_middle_of_showing_something() -> None:
    _, said, code = stopped(PRINTING, ("ready\n", "told\n"), on_stderr=True)
    assert (said, code) == ("rag: stopped\n", 143)


def test_lines_of_the_log_are_told_and_some_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("rag_stdlib.tests")

    def passed_over() -> None:
        log.warning("told elsewhere")

    with lines_of_the_log({("test_cli_standing", "passed_over")}):
        log.warning("a\x1b[2J %s", "warning")
        passed_over()
        log.info("nothing")
        try:
            raise KeyError("x")
        except KeyError:
            log.exception("it failed")
    log.warning("too late")
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "rag: warning: a\ufffd[2J warning"
    assert told[1].startswith("rag: error: it failed: KeyError: 'x' (test_cli_standing.py:")
    assert len(told) == 2


def test_a_block_is_as_wide_as_the_terminal_and_keeps_its_indents(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_block("A line that is longer than forty columns are wide.\n\n    An indented one that is longer than that.\nshort \x1b[2J\n")
    assert capsys.readouterr().out == ("A line that is longer than forty columns\nare wide.\n\n    An indented one that is longer than\n    that.\nshort \ufffd[2J\n")
    assert all(sum(map(cells, line)) <= 20 for line in lines_of("返金は返品から十日以内に支払われます。返金は返品から十日以内に支払われます。", 20))
