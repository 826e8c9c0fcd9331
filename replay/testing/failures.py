"""What the report of a test shows when its trace does not hold: the message, at the program's own lines, and how to record anew.

Frames of this distribution, of installed packages and of the standard library are left out; `--full-trace` shows them all.
"""

from __future__ import annotations

import sysconfig
from typing import Any, Final

import pytest

from replay.errors import Divergence, ReplayError, TraceError
from replay.scripts.script import one_error
from replay.testing.keys import ON_REPORT, TEST
from replay.testing.session import TracedTest, command

SECTION: Final = "rag replay"
NOTES: Final = pytest.StashKey[list[str]]()
_OURS: Final = ("replay", "rag_stdlib")  # the packages of this distribution
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def before_report(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Make what the session holds against the test function its outcome, and take notes for the report."""
    notes = item.stash[NOTES] = []
    test = item.stash.get(TEST, None)
    if test is not None and test.over and call.when == "call":
        _judge(call, test, notes)
    if call.excinfo is None or not isinstance(call.excinfo.value, ReplayError):
        return
    error = call.excinfo.value
    if test is not None and call.when == "teardown" and error is test.shown:
        call.excinfo = None  # the session's one error, raised again by what came after it
        return
    if test is not None:
        test.shown = error
    if isinstance(error, (Divergence, TraceError)) and error.code != "trace_missing":  # which says it itself
        before = "if the change is meant," if isinstance(error, Divergence) else "restore the trace, or"
        notes.append(f"{before} record the test anew: {command(item, 'all')}")


def _judge(call: pytest.CallInfo[None], test: TracedTest, notes: list[str]) -> None:
    error = None if call.excinfo is None else call.excinfo.value
    problem = test.problem(well=error is None)
    if problem is None or problem in (error, test.shown):
        return
    if error is not None:
        notes.append(f"the test went on after it, and ended with {one_error(error)}")
    try:
        raise problem
    except ReplayError:
        call.excinfo = pytest.ExceptionInfo.from_current()


def after_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Make a failure readable; keep how the part went, and put what the summary says into the last report."""
    if hasattr(report, "wasxfail") and call.excinfo is not None and _is_unexpected(item, call.excinfo.value):
        report.outcome = "failed"
        del report.wasxfail
    if report.failed:
        report.sections.extend((SECTION, note) for note in item.stash[NOTES])
        if call.excinfo is not None and isinstance(call.excinfo.value, ReplayError):
            _make_readable(item.config, call.excinfo, report)
    test = item.stash.get(TEST, None)
    if test is None:
        return
    if call.when != "teardown":
        test.went(report)
    else:
        vars(report)[ON_REPORT] = test.summary(item.config.rootpath)
        del item.stash[TEST]  # it holds the trace


def _is_unexpected(item: pytest.Item, error: BaseException) -> bool:
    """Tell whether an error is one of the test's trace that no xfail can mean, unless its `raises` names the class.

    A trace that is missing or broken is never meant: the test would be green without having run.
    """
    test = item.stash.get(TEST, None)
    if not isinstance(error, ReplayError) or (test is not None and not test.refuted):
        return False  # the program's own
    raises = [mark.kwargs.get("raises") for mark in item.iter_markers("xfail")]
    classes = [kind for one in raises for kind in (one if isinstance(one, tuple) else (one,)) if isinstance(kind, type)]
    named = any(issubclass(kind, ReplayError) and isinstance(error, kind) for kind in classes)
    return isinstance(error, TraceError) or not named


def _make_readable(config: pytest.Config, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport) -> None:
    style = config.getoption("tbstyle", "auto")
    if config.getoption("fulltrace") or style == "native":
        return
    own = excinfo.traceback.filter(_is_own)
    shown = excinfo.getrepr(style=("short" if style == "auto" else style) if own else "value", tbfilter=(lambda _: own) if own else False,
                            showlocals=config.getoption("showlocals"))
    if shown.reprcrash is not None:  # it stands in the list at the end, too
        shown.reprcrash.message = shown.reprcrash.message.partition("\n")[0]
    report.longrepr = shown


def _is_own(entry: Any) -> bool:  # noqa: ANN401 - pytest gives the type no public name
    frame = entry.frame.raw
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in _OURS and not frame.f_code.co_filename.startswith((*_INSTALLED, "<frozen"))
