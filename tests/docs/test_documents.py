"""Every command and program in the README and docs is run, and what it is said to print is what it prints (see `documents`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documents import DOCUMENTS, ON_THE_MESH, ROOT, check_document, matches, run

from rag_stdlib.cli import main


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if each not in ON_THE_MESH], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_shows_is_what_happens(document: Path, tmp_path: Path) -> None:
    check_document(document, tmp_path)


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
    assert [section.partition("\n")[0] for section in sections] == [
        "Speed", "Contract and provider", "The mesh", "Log and answers", "Trace and replay", "Quality"]
    assert all(section.count("\n| ") > 3 for section in sections)
