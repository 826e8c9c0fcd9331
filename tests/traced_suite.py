"""A suite of traced tests that is run as its users run theirs: in this process where nothing heavy is at stake."""

from __future__ import annotations

import json
import textwrap

import pytest

# What a run imports in this process it takes out of sys.modules again: what must stay the same for all is imported here.
from replay.testing import failures, session, summary
from replay.tracefile import writer

assert failures
assert session
assert summary
assert writer

TOOLS = """
import asyncio
import pathlib
import replay

LOG = pathlib.Path(__file__).with_name("ran")

@replay.tool
def rate(currency: str, day: int = 1) -> float:
    with LOG.open("a") as log:
        log.write(currency + " ")
    return 1.25 * day

def convert(amount, currency):
    return amount * rate(currency)
"""

# What these suites do not need costs each run a tenth of a second.
WITHOUT = [word for name in ("cacheprovider", "xdist", "pytest_cov", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")]


class Suite:
    """A folder with a test module and what its tools did."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makepyfile(tools=TOOLS)
        pytester.syspathinsert()

    def write(self, body: str, name: str = "test_it", **others: str) -> None:
        head = "import asyncio, os, pytest, replay, threading, unittest\nfrom tools import convert, rate\n\n"
        self.pytester.makepyfile(**{name: head + textwrap.dedent(body)}, **others)

    def run(self, *options: str) -> pytest.RunResult:
        """Run the suite; `self.ran` then says which tools ran in earnest."""
        log = self.pytester.path / "ran"
        log.unlink(missing_ok=True)
        result = self.pytester.runpytest_inprocess(*WITHOUT, *options, no_reraise_ctrlc=True)
        self.ran = log.read_text().split() if log.exists() else []
        return result

    @property
    def traces(self) -> dict[str, bytes]:
        """Every file below the folder of traces, hidden ones too."""
        folder = self.pytester.path / "traces"
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def calls(self, name: str) -> list[str]:
        """Return the first arguments of the calls in a trace."""
        events = map(json.loads, self.traces[f"test_it/{name}.jsonl"].splitlines())
        return [event["args"][0] for event in events if event["kind"] == "tool_call"]

    def change(self, old: str, new: str, count: int = -1) -> None:
        path = self.pytester.path / "test_it.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, count))


ONE = """
@pytest.mark.rag_trace
def test_one():
    assert convert(2, "EUR") == 2.5
"""
SUMMARY = "*= rag replay: {} =*"

CHANGED = 'rate("CHF", 2)'
RECORDED = 'rate("EUR", 1)'
MESSAGE = ["E*Divergence: replay divergence at step 3 (line 4): another call came than was recorded", f"E     expected  {RECORDED}",
           f"E     got       {CHANGED}", 'E     differs at $[[]0]: "EUR" -> "CHF"']
ADVICE = "if the change is meant, record the test anew: pytest --rag-replay=all test_it.py::test_one"


def diverging(suite: Suite, body: str, *options: str) -> pytest.RunResult:
    """Record a test, change its call, and run it as CI does."""
    suite.write(body)
    suite.run("--rag-replay=once")
    suite.change('rate("EUR", 1)', CHANGED)
    result = suite.run("--rag-replay=none", *options)
    assert suite.ran == []
    return result
