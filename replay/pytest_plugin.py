"""The pytest plugin: a trace per test, beside the test file.

    @pytest.mark.rag_trace              # or name the fixture rag_trace
    def test_answers(): ...

    pytest --rag-replay=once            # records a test that has no trace, replays one that has
    pytest --rag-replay=none            # only replays: the default where CI is set

Every pytest run of an environment imports this module: it holds the hooks, and what they do is imported when a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from replay.testing.keys import MARKER, ON_REPORT, REFUSED, TEST

if TYPE_CHECKING:
    from replay.modes import Mode
    from replay.session import Session

MODES: Final = ("once", "new_episodes", "none", "all")
MARKER_HELP: Final = (
    'rag_trace(matching="ordered", name=None, leftover="report", allow_network=False): record the tool calls of this test, or replay '
    'them from its trace. matching="keyed" for calls that run at the same time; name: what the trace is called in place of the test; '
    'leftover="error": recorded calls that were not asked for fail the test; allow_network: sockets are let out of the quarantine')


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("rag-replay", "trace and replay of tool calls")
    group.addoption("--rag-replay", choices=MODES, default=None, metavar="|".join(MODES), help=(
        "what tests with a rag_trace do: replay their trace, or record one where there is none (once, the default); also record calls "
        "that are not in it (new_episodes); only replay (none, the default where the environment variable CI is set); record anew (all)"))
    group.addoption("--rag-replay-strict", action="store_true", help="recorded calls that a test did not ask for fail it")
    parser.addini("rag_replay", "the mode where --rag-replay is not given", default="")
    parser.addini("rag_replay_strict", "whether --rag-replay-strict is always on", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; refuse a mode that does not exist."""
    config.addinivalue_line("markers", MARKER_HELP)
    mode_of(config)


def mode_of(config: pytest.Config) -> Mode:
    """Return the mode: of the command line, else of the ini file, else none in CI and once elsewhere."""
    given: str | None = config.getoption("--rag-replay")
    written = str(config.getini("rag_replay"))
    if written and written not in MODES:
        raise pytest.UsageError(f"rag_replay in the ini file is {written!r}, not one of {', '.join(MODES)}")
    return cast("Mode", given or written or ("none" if in_ci() else "once"))


def in_ci() -> bool:
    """Tell whether this run is one of a CI service."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def wants_trace(item: pytest.Item) -> bool:
    """Tell whether a test has the marker or names the fixture."""
    return MARKER in getattr(item, "fixturenames", ()) or item.get_closest_marker(MARKER) is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Find the tests whose marker means nothing, and those that would share a trace."""
    traced = [item for item in items if wants_trace(item)]
    if traced:
        from replay.testing.marks import refuse_wrong

        refuse_wrong(traced)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse the test alone, or have its trace opened before its other fixtures are set up, so that it holds their calls too."""
    if REFUSED in item.stash:
        raise item.stash[REFUSED]
    if isinstance(item, pytest.Function) and wants_trace(item):
        item.fixturenames = [MARKER, *(name for name in item.fixturenames if name != MARKER)]


@pytest.fixture
def rag_trace(request: pytest.FixtureRequest) -> Generator[Session]:
    """Record the tool calls of the test into its trace, or answer them from it; the value is the replay session."""
    from replay.testing.session import open_test

    test = open_test(request.node, mode_of(request.config))
    yield test.session
    test.stand_aside("what is torn down after the test")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Keep fixtures that outlive a test out of its trace."""
    test = request.config.stash.get(TEST, None)
    if test is None or fixturedef.scope == "function":
        return (yield)
    with test.aside(f"the {fixturedef.scope}-scoped fixture {fixturedef.argname!r}"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Take note of when the test function has ended."""
    try:
        return (yield)
    finally:
        test = item.stash.get(TEST, None)
        if test is not None:
            test.over = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Close the trace when all is torn down: it is kept if the test has ended as expected."""
    test = item.stash.get(TEST, None)
    if test is None:
        return (yield)
    test.begin_teardown()
    try:
        result = yield
    except BaseException as error:
        test.close(error)
        raise
    test.close(None)
    return result


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the trace of a test that was interrupted as it was."""
    test = config.stash.get(TEST, None)
    if test is not None:
        test.close(KeyboardInterrupt())


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Fail a test whose session says so."""
    if TEST in item.stash or wants_trace(item):
        from replay.testing.failures import before_report

        before_report(item, call)


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_makereport")
def pytest_traced_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have the report show the program's own lines, and what there is to say of the trace."""
    report = yield
    if TEST in item.stash or wants_trace(item):
        from replay.testing.failures import after_report

        after_report(item, call, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was answered, recorded and left over."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports if hasattr(report, ON_REPORT)]
    if reports:
        from replay.testing.summary import write_summary

        mode = mode_of(config)
        chosen = config.getoption("--rag-replay") or config.getini("rag_replay")
        write_summary(terminalreporter, mode if chosen or mode != "none" else f"{mode}, since CI is set", reports)
