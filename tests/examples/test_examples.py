"""The examples run as they stand and say what they are for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


def run(name: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_four_lines_put_a_text_in_and_get_it_back(tmp_path: Path) -> None:
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "."\n')
    printed = run("four_lines.py", tmp_path)
    assert "('refunds:0', 'Refunds are paid within ten days of the return.', 'rag_" in printed


def test_four_lines_without_a_root_are_refused_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORVID_IO_ROOT", raising=False)
    assert run("four_lines.py", tmp_path).startswith("root_unconfigured ")
    assert list(tmp_path.iterdir()) == []


def test_the_agents_tool_answers_and_explains_a_refusal(tmp_path: Path) -> None:
    printed = run("agent_tool.py", tmp_path)
    assert "handbook/shipping:1: Parcels leave" in printed
    assert "handbook/warranty:1: Every lamp" in printed
    assert "'code': 'invalid_limit', 'retry': True" in printed


def test_the_demo_finds_the_descriptions_of_installed_packages(tmp_path: Path) -> None:
    import demo

    count = demo.write_descriptions(tmp_path / "packages")
    files = sorted(path.name for path in (tmp_path / "packages").iterdir())
    assert count == len(files) > 20
    assert "numpy.md" in files
    assert "progress bar" in (tmp_path / "packages" / "tqdm.rst").read_text(encoding="utf-8").lower()
