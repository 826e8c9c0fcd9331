"""The table of code points that Unicode 13.0 leaves unassigned."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from untraced import untraced

from rag_stdlib.text import unicode13
from rag_stdlib.text.unicode13 import runs_of, unassigned

ALL = range(sys.maxunicode + 1)


def test_what_this_python_leaves_unassigned_was_never_assigned() -> None:
    """Unicode assigns and never takes back: every later table has fewer unassigned points, and no others."""
    with untraced():
        assert [hex(point) for point in ALL if unicodedata.category(chr(point)) == "Cn" and not unassigned(point)] == []


def test_the_runs_encode_the_table() -> None:
    with untraced():
        flags = [unassigned(point) for point in ALL]
        assert runs_of(flags) == unicode13._RUNS
    assert sum(flags) == 830_606 + 66, "Unicode 13.0 counts its reserved code points and its noncharacters"


@pytest.mark.parametrize(("point", "expected"), [
    (0x41, False), (0x0378, True), (0x0377, False), (0x1F9FF, False), (0xD800, False), (0xE000, False), (0x10FFFF, True), (0x10FFFD, False),
    (0x1FAE0, True), (0x0870, True), (0x9FFC, False), (0x9FFD, True), (0x3134A, False), (0x3134B, True), (0xFFFF, True), (0, False),
])
def test_known_points(point: int, expected: bool) -> None:
    assert unassigned(point) is expected


@pytest.mark.parametrize(("flags", "runs"), [
    ([], "0"), ([False], "1"), ([True], "0 1"), ([False] * 16 + [True, False], "10 1 1"),
])
def test_runs_alternate_from_assigned(flags: list[bool], runs: str) -> None:
    assert runs_of(flags) == runs


def test_the_module_run_as_a_program_prints_the_table_of_its_python() -> None:
    done = subprocess.run([sys.executable, "-m", "rag_stdlib.text.unicode13"], capture_output=True, text=True, timeout=60, check=True)
    printed = done.stdout.strip()
    if unicodedata.unidata_version == "13.0.0":
        assert printed == unicode13._RUNS
    else:
        assert sum(int(run, 16) for run in printed.split()) == len(ALL)
        with untraced():
            assert printed == runs_of([unicodedata.category(chr(point)) == "Cn" for point in ALL])
