"""The fenced blocks of the documents, and how one is run.

Blocks of one document run in order in one new folder. A ``console`` block holds commands behind ``$ `` with their output,
standard error included; a ``python`` block is run as a program, and a ``text`` block right behind it is its output. ``…`` in
an output stands for anything on that line, and a line of only ``…`` for any lines. A block of ``toml``, ``ini`` or ``python`` with a
name behind it writes that file. Other kinds of blocks are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ON_THE_MESH = [ROOT / "docs" / "operations.md"]  # whose commands need a station
BY_CI = ("make demo", "make test", "make lint", "make bench", "git clone", "cd rag-stdlib")
_FENCE = re.compile(r"^```(\w+)?[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, the rest of its first line, its body and its line in the document."""

    kind: str
    rest: str
    body: str
    line: int


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [Block(found.group(1) or "", found.group(2).strip(), found.group(3), text.count("\n", 0, found.start()) + 1)
            for found in _FENCE.finditer(text)]


def matches(expected: str, printed: str) -> bool:
    pattern = ""
    for line in expected.strip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CORVID_IO_ROOT", "OPENAI_API_KEY")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "COLUMNS": "100", "PYTHONHASHSEED": "0"}


def run(command: list[str], folder: Path, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(), input=given, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.stdout


def check_console(block: Block, folder: Path, document: Path) -> None:
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if command.startswith(BY_CI):
            continue
        printed = run(["bash", "-c", command], folder)
        where = f"{document.relative_to(ROOT)}:{block.line}: $ {command}"
        assert matches(expected, printed) or not (expected.strip() or printed.strip()), f"{where}\n--- printed\n{printed}"


def check_document(document: Path, folder: Path, adapted: Callable[[str], str] = str, console: Callable[[Block, Path, Path], None] = check_console) -> None:
    """Run the blocks of a document in `folder`; `adapted` says how a text is written here, `console` runs a block of commands."""
    blocks = [replace(block, body=adapted(block.body)) for block in blocks_of(document)]
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        if block.kind in ("toml", "ini", "python") and block.rest:
            (folder / block.rest).write_text(block.body, encoding="utf-8")
        elif block.kind == "console":
            console(block, folder, document)
        elif block.kind == "python":
            printed = run([sys.executable, "-"], folder, block.body)
            expected = after.body if after is not None and after.kind == "text" else ""
            assert "Traceback" not in printed, f"{document.name}:{block.line}\n{printed}"
            assert matches(expected, printed) or not (expected.strip() or printed.strip()), (
                f"{document.name}:{block.line}\n--- printed\n{printed}")
