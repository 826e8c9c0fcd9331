"""The lines at the end of a run of pytest: what was answered from traces, what was recorded, and what nobody asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from replay.reports.display import clean, plural
from replay.testing.keys import ON_REPORT

_ENDS: Final = {"written": "wrote", "lost": "not written, since the test did not end as expected:"}
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
    by_end = {end: [test for test in tests.values() if test["kept"] == end] for end in ("written", "unchanged", "lost")}
    recorded = sum(test["ran"] for end in ("written", "unchanged") for test in by_end[end])
    parts = [plural(len(tests), "tests"), f"{plural(answered, 'calls')} answered from traces"]
    if recorded:
        parts.append(f"{plural(recorded, 'calls')} recorded")
    found = [", ".join(parts)]
    if by_end["unchanged"]:
        found.append(f"  {plural(len(by_end['unchanged']), 'traces')} left as recorded before: the calls were the same")
    for end, head in _ENDS.items():
        found += _list(head, [test["trace"] for test in by_end[end]], shown)
    for node, test in tests.items():
        if test["unused"]:
            found.append(f"{clean(node)} did not ask for {plural(len(test['unused']), 'recorded calls')} of {clean(test['trace'])}")
            found += _list("", test["unused"], shown)
    return found


def _list(head: str, values: list[str], shown: int | None) -> list[str]:
    listed = [f"  {head} {clean(value)}" if head else f"    {clean(value)}" for value in values[:shown]]
    more = len(values) - len(listed)
    return [*listed, f"  {'' if head else '  '}and {more} more (-v lists them)"] if more else listed
