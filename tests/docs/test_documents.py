"""Every command and program in the README and docs is run, and what it is said to print is what it prints.

Blocks of one document run in order in one new folder. A ``console`` block holds commands behind ``$ `` with their output,
standard error included; a ``python`` block is run as a program, and a ``text`` block right behind it is its output. ``…`` in
an output stands for anything on that line, and a line of only ``…`` for any lines. A ``toml corvid.toml`` block writes that
file. Other kinds of blocks are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_stdlib.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_shows_is_what_happens(document: Path, tmp_path: Path) -> None:
    blocks = blocks_of(document)
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        if block.kind == "toml" and block.rest:
            (tmp_path / block.rest).write_text(block.body, encoding="utf-8")
        elif block.kind == "console":
            check_console(block, tmp_path, document)
        elif block.kind == "python":
            printed = run([sys.executable, "-"], tmp_path, block.body)
            expected = after.body if after is not None and after.kind == "text" else ""
            assert "Traceback" not in printed, f"{document.name}:{block.line}\n{printed}"
            assert matches(expected, printed) or not (expected.strip() or printed.strip()), (
                f"{document.name}:{block.line}\n--- printed\n{printed}")


def test_the_make_commands_of_the_readme_are_run_by_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for target in ("make demo", "make test"):
        assert target in (ROOT / "README.md").read_text(encoding="utf-8")
        assert target in ci


def test_every_link_between_documents_leads_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"


def test_every_document_is_on_the_readmes_map() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for document in (ROOT / "docs").glob("*.md"):
        assert f"docs/{document.name}" in readme, document.name


def test_every_command_is_described_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    listed = run(["rag", "--help"], ROOT)
    commands = re.findall(r"^  ([a-z]+) ", listed[listed.index("Commands:"):], re.MULTILINE)
    assert {"ingest", "search", "doctor"} <= set(commands)
    for command in commands:
        assert f"`rag {command}" in page, f"docs/command-line.md says nothing of rag {command}"
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert len(capsys.readouterr().out) > 150, command


def test_ellipses_stand_for_a_part_of_a_line_or_for_lines() -> None:
    assert matches("a … c\n…\nz", "a b c\nx\ny\nz\n")
    assert not matches("a … c", "a b d\n")
    assert not matches("a", "a\nb\n")


def test_the_measurements_have_a_table_under_each_heading() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert [section.partition("\n")[0] for section in sections] == ["Speed", "Contract and provider", "Trace and replay", "Quality"]
    assert all(section.count("\n| ") > 3 for section in sections)
