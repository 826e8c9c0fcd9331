"""What a program under a replay prints of an error of the replay that nobody caught."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import sys
import replay
from replay.runs import uncaught

{before}
uncaught.install()

def agent():
    {body}

agent()
"""
DIVERGES = """
    with replay.record("t.jsonl"):
        pass
    replay.substitute("t.jsonl", agent="another").__enter__()
"""


def run(body: str, folder: os.PathLike[str], before: str = "") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(body=textwrap.indent(textwrap.dedent(body).strip(), "    ").strip(), before=before)
    return subprocess.run([sys.executable, "-c", program], cwd=folder, text=True, capture_output=True, timeout=60, check=False)


def test_only_the_programs_own_frames_and_the_first_line(tmp_path: os.PathLike[str]) -> None:
    """Finding R2-14."""
    done = run(DIVERGES, tmp_path)
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert said[0] == "Traceback (most recent call last):"
    assert [line.rpartition(", ")[2] for line in said if line.startswith("  File")] == ["in <module>", "in agent"]
    assert said[-1] == "replay.errors.Divergence: replay divergence at the start: the run starts otherwise than recorded"


def test_a_replacement_that_cannot_be_read_is_told_by_the_parent_alone(tmp_path: os.PathLike[str]) -> None:
    done = run("raise replay.InvalidMutation('no')", tmp_path)
    assert (done.returncode, done.stderr) == (1, "")


def test_what_a_module_of_ours_raises_at_its_top_has_no_frames_at_all(tmp_path: os.PathLike[str]) -> None:
    done = run("uncaught.show(replay.ReplayError, replay.ReplayError('one\\ntwo'), None)", tmp_path)
    assert done.stderr == "replay.errors.ReplayError: one\n"


@pytest.mark.parametrize(("body", "before", "said"), [
    ("raise ValueError('mine')", "", "ValueError: mine"),
    ("raise replay.ReplayError('x')", "sys.excepthook = lambda *error: print('own way', file=sys.stderr)", "own way"),
])
def test_other_errors_and_other_ways_are_the_programs(tmp_path: os.PathLike[str], body: str, before: str, said: str) -> None:
    done = run(body, tmp_path, before)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, said)
