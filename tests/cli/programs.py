"""A small program for the commands that record and replay, run with what it prints itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.cli import main
from replay.runs.launch import record_command
from replay.scripts.options import RecordOptions

PROGRAM = """
import os, sys
import replay

@replay.tool(ranking=lambda result: [(item, None) for item in result])
def search(query: str, limit: int = 3) -> list:
    with open("ran", "a") as file:
        file.write(query + "\\n")
    return [f"{query}-{number}" for number in range(limit)][::int(os.environ.get("STEP", "1"))]

for word in sys.argv[1:]:
    if word.startswith("exit"):
        sys.exit(int(word[4:]))
    print(search(word))
"""


@dataclass(frozen=True)
class Ran:
    """What a command and what it started left: the exit code and the output of both."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def prog(*words: str) -> tuple[str, ...]:
    """Return what runs the program: the words from -- on."""
    return "--", sys.executable, "prog.py", *words


def runner(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Write the program, and return what runs `rag` in this process."""
    (folder / "prog.py").write_text(PROGRAM)

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        written = capfd.readouterr()
        return Ran(int(ended.value.code or 0), written.out, written.err)

    return run


def recording(folder: Path, *words: str, trace: str = "t.jsonl") -> bytes:
    """Record the program once, for tests that need a trace and not the recording; return the trace.

    `trace` is its place as seen from the program, which it has to have in the tests too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("prog.py").write_text(PROGRAM)
        record_command(trace, prog(*words)[1:], RecordOptions())
    return (folder / trace).read_bytes()
