"""Ctrl-C: a real SIGINT to a process in the middle of its work."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interrupting import interrupt_second_document

Write = Callable[..., Path]
Rag = Any  # see conftest

FILES = 2500
BATCH = 1024  # files at most: each makes two chunks or more


def count(word: str, out: str) -> int:
    return int(re.search(rf"([\d,]+) (?:documents? )?{word}", out)[1].replace(",", ""))  # type: ignore[index]


def test_a_real_signal_ends_an_ingest_cleanly_and_the_next_run_resumes(rag: Rag, write: Write, folder: Path) -> None:
    for number in range(FILES):
        write(f"docs/{number:04}.txt", f"document {number} about refunds\n" * 40)
    child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "ingest", "x.db", "docs"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not ((folder / "x.db").exists() and rag("stats", "x.db").code == 0):
        time.sleep(0.02)
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err == "rag: stopped; what is counted is stored, and the same command goes on from there\n"
    assert len(out.splitlines()) == 1
    stored = count("ingested", out)
    assert 0 < stored < FILES
    assert rag("check", "x.db").code == 0
    held = rag("stats", "x.db", "--json").json["documents"]
    assert stored <= held < stored + BATCH, "a batch may be stored and not counted yet"
    resumed = rag("ingest", "x.db", "docs")
    assert resumed.code == 0
    assert count("unchanged", resumed.out) == held
    assert count("ingested", resumed.out) + count("unchanged", resumed.out) == FILES
    assert rag("ingest", "x.db", "docs").out == f"0 documents ingested (0 chunks), {FILES:,} unchanged\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_failed_before_is_told_too(rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]) -> None:
    for name in ("a", "c", "d"):
        write(f"docs/{name}.txt", name)
    write("docs/b.txt", b"\xff")
    interrupt_second_document(monkeypatch)
    stopped = rag("ingest", "x.db", "docs", *form)
    assert stopped.code == 130
    if form:
        assert (stopped.json["documents"], len(stopped.json["failed"])) == (1, 1)
    else:
        assert stopped.out == "1 document ingested (1 chunk), 0 unchanged, 1 failed\n"
    lines = stopped.err.splitlines()
    assert lines[0].startswith("rag: failed [not_utf8]")
    assert lines[1].startswith("rag: stopped; ")
    assert len(lines) == 2
