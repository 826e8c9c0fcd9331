"""Progress bars: in terminals only, whatever their width."""



from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.cli.progress import bar, ending
from rag_stdlib.cli.terminal import cells

Write = Callable[..., Path]
Rag = Any  # see conftest
SGR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """A screen that keeps what was written."""

    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, unit: str = "bytes", **environment: str) -> str:
    """Draw a bar at 2 of 4 million and give all that was written."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "140", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with bar("ingesting", unit) as shown:
        shown.describe("docs/[bold]a\x1b[2J.txt")
        shown.update(1_000_000, 4_000_000)
        time.sleep(0.15)
        shown.update(2_000_000, 4_000_000)
        time.sleep(0.15)
        shown.update(4_000_000, 4_000_000)
    return screen.getvalue()


def test_amount_rate_time_and_item_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = SGR.sub("", drawn(monkeypatch))
    assert "ingesting" in text
    assert "4.0 MB of 4.0 MB" in text
    assert re.search(r"\d+\.\d MB/s", text)
    assert re.search(r"\d\d:\d\d", text)
    assert "docs/[bold]a\ufffd[2J.txt" in text, "a name is no markup, and safe"


def test_counts_have_their_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = SGR.sub("", drawn(monkeypatch, "texts"))
    assert "4,000,000 texts of 4,000,000 texts" in text
    assert " texts/s" in text


@pytest.mark.parametrize("width", [50, 60, 80, 99, 140])
def test_a_line_fits_the_terminal_and_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = SGR.sub("", drawn(monkeypatch, COLUMNS=str(width)))
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    assert lines
    assert all(sum(map(cells, line)) <= width for line in lines)
    assert not any("…" in line for line in lines)


def test_without_colour_there_is_a_bar_but_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    written = drawn(monkeypatch, NO_COLOR="1")
    assert "━" in written
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", written)


def test_a_dumb_terminal_and_a_pipe_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, TERM="dumb") == ""
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with bar("ingesting", "bytes") as shown:
        shown.describe("a")
        shown.update(1, 2)
    assert pipe.getvalue() == ""


def test_long_names_keep_their_ends() -> None:
    assert ending("docs/a.txt", 10) == "docs/a.txt"
    assert ending("docs/ab.txt", 10) == "…cs/ab.txt"
    assert ending("返金返金返金.txt", 10) == "…返金.txt"
    assert ending("", 10) == ""


def test_in_a_real_terminal_the_bar_runs_and_vanishes(write: Write, folder: Path) -> None:
    for number in range(150):
        write(f"docs/{number:04}.txt", f"document {number} about refunds\n" * 100)
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "ingest", "x.db", "docs"], cwd=folder, stdin=follower,
                             stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    written = b""
    while select.select([leader], [], [], 30)[0]:
        try:
            written += os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
    os.close(leader)
    assert child.wait(timeout=30) == 0
    text = written.decode()
    assert "ingesting" in text
    assert re.search(r"[\d.]+ k?M?B of [\d.]+ k?B", SGR.sub("", text))
    assert re.fullmatch(r"150 documents ingested \(\d+ chunks\), 0 unchanged", SGR.sub("", text).splitlines()[-1].strip())


def test_output_to_pipes_has_neither_bar_nor_colour(spawn: Any, write: Write) -> None:
    for number in range(20):
        write(f"docs/{number}.txt", "about refunds")
    for command in (("ingest", "x.db", "docs"), ("search", "x.db", "refunds"), ("doctor", "x.db")):
        done = spawn(*command)
        assert done.returncode == 0
        assert b"\x1b" not in done.stdout + done.stderr
        assert b"\r" not in done.stdout + done.stderr
