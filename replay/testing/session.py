"""The session of a test, from the setup of its first own fixture to the teardown of its last one.

Everything in that span is the test's, wherever it runs: in its function, its fixtures, tasks and threads. Fixtures that outlive the test are not: they
run for whichever test comes first, so their calls would stand in the trace of a test by chance, and are refused in each mode alike.
The trace is kept when the test has ended as it is expected to: it passed, skipped itself after a call, or failed where that is expected; and its
teardown went well. Calls made in the teardown are marked as such, since they are not yet left over when the test function ends.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from replay import ambient
from replay.errors import ReplayError, TraceError
from replay.matching import described
from replay.modes import Mode, use_trace
from replay.recorder import Call
from replay.runs import environ
from replay.scripts.options import ReplayOptions
from replay.scripts.substitute import left_over
from replay.session import Session
from replay.testing.keys import TEST
from replay.testing.marks import Marked, marked, trace_of
from replay.testing.unrecorded import first_recording, unrecorded

R = TypeVar("R")

PART: Final = "part"  # among a call's facts
TEARDOWN: Final = "teardown"


class TracedTest:
    """One test and its session."""

    def __init__(self, session: Session, trace: Path, *, strict: bool, stash: pytest.Stash) -> None:
        """Take a session that is not opened yet; `strict` means that what is left over fails the test."""
        self.session = session
        self.trace = trace
        self.over = False  # the test function has ended
        self.expected = False  # the test has ended as it should
        self.skipped = False  # by skipping itself
        self.kept = ""  # what became of what was recorded: written, unchanged, lost; or nothing was
        self.shown: BaseException | None = None  # the error that a report has shown already
        self.unused: list[str] = []
        self._ending: ReplayError | None = None  # what its end shows, no call having shown anything
        self._strict = strict
        self._spoilt = False
        self._stash = stash

    def open(self) -> None:
        """Open the trace, and have every call belong to it."""
        self._before = _stamp(self.trace)
        self.session.open()
        self._stash[TEST] = self
        self._stand_in(self.session)

    def _stand_in(self, recorder: ambient.Ambient) -> None:
        """Have a recorder take the calls of the process.

        It is put where the calls outside of any block go, and not into the context: an event loop that serves several tests keeps the
        context of the first one.
        """
        ambient.set_environment(lambda: recorder)

    @contextmanager
    def aside(self, what: str) -> Iterator[None]:
        """Refuse calls for the length of a block; `what` outlives the test."""
        self.stand_aside(what)
        try:
            yield
        finally:
            self._stand_in(self.session)

    def stand_aside(self, what: str) -> None:
        """Refuse calls from now on."""
        self._stand_in(Outliving(self.session, what))

    def begin_teardown(self) -> None:
        """Mark the calls from now on as those of the teardown."""
        self._stand_in(TearingDown(self.session))

    def went(self, report: pytest.TestReport) -> None:
        """Take how a part of the test went: its setup, which may end it; its function, or a part of that before it is over."""
        self._spoilt = self._spoilt or report.failed
        ended = self.over if report.when == "call" else report.skipped
        self.expected = ended and not self._spoilt
        self.skipped = ended and report.skipped and not hasattr(report, "wasxfail")

    def problem(self, *, well: bool, after: bool = False) -> ReplayError | None:
        """Return what the session holds against a test that went well or not, the program having hidden it or not.

        `after` means that everything is torn down.
        """
        hidden = self.session.problem
        if hidden is not None or not well or not self._strict:
            return hidden
        unused = [call for call in self.session.unused if after or call.facts.get(PART) != TEARDOWN]
        self._ending = left_over(unused) if unused else None
        return self._ending

    @property
    def refuted(self) -> bool:
        """Whether the test has done otherwise than its trace, or has none to hold on to."""
        return self.session.problem is not None or self._ending is not None

    def close(self, error: BaseException | None) -> None:
        """Keep the trace if the test ended as expected, `error` being what its teardown raised; else leave the trace as it was.

        Raises:
            ReplayError: what the session holds against the teardown.
        """
        ambient.set_environment(environ.handed_session)
        del self._stash[TEST]
        well = self.expected and error is None
        problem = self.problem(well=well and not self.skipped, after=True)
        if problem is None and well and not (self.skipped and self.session.ran == 0):
            self._finish()
            return
        self.kept = "lost" if self.session.ran else ""
        failure = problem or error or ReplayError("the test did not end as expected")
        self.session.__exit__(type(failure), failure, None)
        if problem is not None and problem is not self.shown and problem is not error:
            raise problem

    def _finish(self) -> None:
        if not self.skipped:  # who skips says that the rest is not for now
            self.unused = [f"step {call.step}  {described(call)}" for call in self.session.unused]
        try:
            self.session.__exit__(None, None, None)
        except ReplayError as error:
            self._ending = error
            raise
        after = _stamp(self.trace)
        if after != self._before:
            self.kept = "written"
        elif self.session.ran:
            self.kept = "unchanged" if after else "lost"

    def summary(self, root: Path) -> dict[str, Any]:
        """Return what the summary of the run says of the test, as plain data."""
        name = os.path.relpath(self.trace, root).replace(os.sep, "/")
        return {"trace": name, "answered": self.session.answered, "ran": self.session.ran, "kept": self.kept, "unused": self.unused}


class Outliving:
    """Takes the calls of what outlives the test, and refuses them."""

    quarantined = False
    allows_network = True

    def __init__(self, session: Session, what: str) -> None:
        """Say what is running."""
        self._session = session
        self._what = what

    def call(self, call: Call[R], run: Callable[[], R]) -> R:  # noqa: ARG002 - a recorder's signature
        """Refuse the call."""
        raise self._refusal(call.tool)

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:  # noqa: ARG002 - a recorder's signature
        """Refuse the call."""
        raise self._refusal(call.tool)

    def _refusal(self, tool: str) -> ReplayError:
        error = ReplayError(f"{self._what} called {tool}, and outlives the test, whose trace cannot hold that call: give the fixture "
                            "the scope of a function (a replayed call costs nothing), or make the call in replay.live()")
        self.remember(error)
        return error

    def remember(self, error: ReplayError) -> None:
        """Hold the error against the test."""
        self._session.remember(error)


class TearingDown:
    """Takes the calls of fixtures that are torn down, and has the trace say so."""

    def __init__(self, session: Session) -> None:
        """Stand before the test's session."""
        self._session = session
        self.quarantined = session.quarantined
        self.allows_network = session.allows_network

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        """Pass a call on."""
        return self._session.call(_in_teardown(call), run)

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:
        """Pass a call on."""
        return await self._session.acall(_in_teardown(call), run)

    def remember(self, error: ReplayError) -> None:
        """Pass an error on."""
        self._session.remember(error)


def _in_teardown(call: Call[R]) -> Call[R]:
    return replace(call, facts=lambda: {**call.facts(), PART: TEARDOWN})


def open_test(item: pytest.Function, mode: Mode) -> TracedTest:
    """Open the session of a test.

    Raises:
        ReplayError: the marker means nothing.
        TraceError: the trace cannot be used.
    """
    says: Marked = marked(item)
    trace = trace_of(item, says.name)
    config = item.config
    strict = bool(config.getoption("--rag-replay-strict") or config.getini("rag_replay_strict") or says.leftover == "error")
    test = TracedTest(_session(item, mode, trace, says), trace, strict=strict, stash=config.stash)
    test.open()
    item.stash[TEST] = test
    return test


def _session(item: pytest.Item, mode: Mode, trace: Path, says: Marked) -> Session:
    if os.path.lexists(trace):
        options = ReplayOptions(matching=says.matching, leftover="report", allow_network=says.allow_network)
        return use_trace(mode, trace, replaying=options)
    if mode != "none":
        return first_recording(mode, trace)
    missing = TraceError("trace_missing", f"this test has no trace; record it: {command(item, 'once')}",
                         path=os.path.relpath(trace, item.config.invocation_params.dir))
    return unrecorded(trace, missing, allow_network=says.allow_network)


def command(item: pytest.Item, mode: str) -> str:
    """Return the command that runs a test in a mode, to be given where pytest was."""
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    node = "::".join([path, *item.nodeid.split("::")[1:]])
    return f"pytest --rag-replay={mode} {shlex.quote(node)}"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
