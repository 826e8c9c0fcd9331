"""The lines at the end of a run of pytest: what was answered from traces, what was recorded, and what nobody asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from replay.reports.display import clean, plural
from replay.testing.keys import ON_REPORT

LISTED: Final = 10  # files and calls shown where pytest is not verbose


def write_summary(terminal: pytest.TerminalReporter, mode: str, reports: Iterable[Any]) -> None:
    """Write the section; `reports` are the last ones of the traced tests."""
    tests = {report.nodeid: getattr(report, ON_REPORT) for report in reports}
    shown = None if terminal.config.get_verbosity() > 0 else LISTED
    terminal.write_sep("=", f"rag replay: {mode}")
    for line in lines(tests, shown):
        terminal.write_line(line)


def lines(tests: dict[str, dict[str, Any]], shown: int | None = LISTED) -> list[str]:
    """Return the lines of the section, given what is known of each test by its node id."""
    answered = sum(test["answered"] for test in tests.values())
    kept = [test for test in tests.values() if test["kept"]]
    lost = [test for test in tests.values() if test["ran"] and not test["kept"]]
    parts = [plural(len(tests), "tests"), f"{plural(answered, 'calls')} answered from traces"]
    if kept:
        parts.append(f"{plural(sum(test['ran'] for test in kept), 'calls')} recorded")
    found = [", ".join(parts)]
    found += _list("wrote", [test["trace"] for test in kept], shown)
    found += _list("not written, since the test did not pass:", [test["trace"] for test in lost], shown)
    for node, test in tests.items():
        if test["unused"]:
            found.append(f"{clean(node)} did not ask for {plural(len(test['unused']), 'recorded calls')} of {clean(test['trace'])}")
            found += _list("", test["unused"], shown)
    return found


def _list(head: str, values: list[str], shown: int | None) -> list[str]:
    listed = [f"  {head} {clean(value)}" if head else f"    {clean(value)}" for value in values[:shown]]
    more = len(values) - len(listed)
    return [*listed, f"  {'' if head else '  '}and {more} more (-v lists them)"] if more else listed
