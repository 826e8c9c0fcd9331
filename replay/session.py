"""Sessions: what stands between a program's tools and the world for the length of a block.

    with replay.record("run.jsonl"):
        agent()
    with replay.substitute("run.jsonl"):
        agent()             # the same results, and nothing is touched

A session is used once, and finished by the process that opened it. Opening it reads or creates the trace and raises `TraceError`; leaving it raises the `Divergence` or
`QuarantineViolation` of the block even where the program caught it, since a program that ends well after one did not end as recorded.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replay import ambient, endings, quarantine
from replay.errors import Divergence, NotRecordable, ReplayError, TraceWarning
from replay.jsontext import checked, encode
from replay.recorder import Call, Cancelled, Ending
from replay.redaction.redactor import Redactor
from replay.scripts.script import Completion, Script, Step, one_error

if TYPE_CHECKING:
    from typing_extensions import Self

    from replay.tracefile.trace import RecordedCall

R = TypeVar("R")

_STOPS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)  # whoever raises one of them waits for it
_LATE: Final = Step()  # of a call that came while the session ended
_ALL: Final[weakref.WeakSet[Session]] = weakref.WeakSet()


class Session:
    """One recording or replay. Make it with `replay.record`, `substitute`, `differential`, `mutation` or `use_trace`."""

    def __init__(self, mode: str, opened: Callable[[Session], Script], *, redactor: Redactor, allow_network: bool = False,
                 forks: bool = True) -> None:
        """`opened` makes the script when the block is entered: nothing is read or written before.

        `forks` says whether forked children can take part: not where the script keeps a book that is its process's alone.
        """
        self.mode = mode
        self.redactor = redactor
        self.allows_network = allow_network
        self.trace_path = ""
        self.run_id = ""
        self.seed = 0
        self.answered = 0
        self.ran = 0
        self.report: Any = None
        self.notices: tuple[str, ...] = ()
        self._opened = opened
        self._script: Script | None = None
        self._block = ExitStack()
        self.problem: ReplayError | None = None  # the first error of the session
        self._result: Any = None
        self._lock = threading.Lock()
        self._forks = forks
        self._process = 0
        self._over = False
        self._warned = False

    # --- the block ---

    def __enter__(self) -> Self:
        """Open the trace and make this the session of the context."""
        self.open()
        block = ambient.Block(self)
        block.enter()
        self._block.callback(block.leave)
        return self

    def open(self) -> None:
        """Open the trace without making the session anybody's: for those who make it so themselves."""
        if self._script is not None:
            raise ReplayError("a replay session is used once; make another one")
        self._script = self._opened(self)
        self._process = os.getpid()
        _ALL.add(self)
        text = encode({"mode": ambient.ELSEWHERE, "trace": _utf8(self.trace_path), "outcome": ""}).decode()
        if ambient.announce(text):
            self._block.callback(ambient.withdraw, text)
        if self._script.quarantined:
            quarantine.begin()
            self._block.callback(quarantine.end)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the books; raise what the program hid, or what its ending shows."""
        script = self._entered()
        self._over = True
        self._block.close()
        if self._process != os.getpid():
            script = _Forked(script)
        if self.problem is not None and error is not self.problem:
            script.abandon()
            if isinstance(error, _STOPS):
                return
            raise self.problem from error
        if isinstance(error, ReplayError):
            script.abandon()
            return
        try:
            script.finish(self._completion(error))
        except Divergence:
            if error is None:
                raise  # else the program's own exception says more than that it was not recorded

    def complete(self, result: Any) -> None:  # noqa: ANN401 - any JSON
        """Say what the run gave (JSON): recorded with its end, and compared on replay."""
        self._result = checked(result)

    def _completion(self, error: BaseException | None) -> Completion:
        if error is not None:
            return Completion(ok=False, error=self.redactor.text(one_error(error)))
        return Completion(ok=True, result=self.redactor.value(self._result))

    @property
    def quarantined(self) -> bool:
        """Whether nothing may be touched while the session is on."""
        return self._script is not None and self._script.quarantined

    @property
    def unused(self) -> list[RecordedCall]:
        """The recorded calls that nobody has asked for."""
        return self._entered().unused()

    def remember(self, error: ReplayError) -> None:
        """Keep the first error of the session: it is raised again at each later call and at the end of the block."""
        with self._lock:
            if self.problem is None:
                self.problem = error

    def outlived(self) -> None:
        """Refuse a call that comes after the end of the block, or warn of it, once, and let it run live."""
        if self.quarantined:
            raise ReplayError(f"the replay from {self.trace_path!r} is over, and this call was begun inside its block: nothing answers it, and it is "
                              "not made live; wait for it inside the block, or make it in replay.live()")
        with self._lock:
            if self._warned:
                return
            self._warned = True
        warnings.warn(f"the session of {self.trace_path!r} is over: a call that was begun inside its block and comes after it runs live and is not in "
                      "the trace; wait for it inside the block", TraceWarning, stacklevel=5)

    def after_fork(self) -> None:
        """Begin anew in a child: a lock that a thread of the parent held is none of ours."""
        self._lock = threading.Lock()
        if self._script is not None and not self._forks and not self._over:
            self._script = _Forked(self._script)

    def _entered(self) -> Script:
        if self._script is None:
            raise ReplayError("the replay session is not entered; use it in a with statement")
        return self._script

    # --- the calls ---

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        """Answer a call from the trace, or run it, as the mode has it."""
        step = self._begin(call)
        answer = step.answer
        if answer is None:
            try:
                with ambient.Running():
                    result = run()
            except BaseException as error:
                answer = self._end(call, step, endings.of_error(error))
                if answer is None or not isinstance(error, Exception):
                    raise
            else:
                answer = self._returned(call, step, result)
                if answer is None:
                    return result
        try:
            return endings.deliver(call, answer, step.at)
        except ReplayError as error:
            self.remember(error)
            raise

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:
        """Do what `call` does for a call that is awaited."""
        import asyncio

        step = self._begin(call)
        answer = step.answer
        if answer is None:
            try:
                with ambient.Running():
                    result = await run()
            except BaseException as error:
                cancelled = isinstance(error, asyncio.CancelledError)
                answer = self._end(call, step, Cancelled() if cancelled else endings.of_error(error))
                if answer is None or not isinstance(error, Exception):
                    raise
            else:
                answer = self._returned(call, step, result)
                if answer is None:
                    return result
        try:
            return await endings.adeliver(call, answer, step.at)
        except ReplayError as error:
            self.remember(error)
            raise

    def _begin(self, call: Call[Any]) -> Step:
        if self.problem is not None:
            raise self.problem
        try:
            step = self._entered().begin(call)
        except ReplayError as error:
            if self._over and not self.quarantined:
                self.outlived()
                return _LATE
            self.remember(error)
            raise
        with self._lock:
            if step.answer is None:
                self.ran += 1
            else:
                self.answered += 1
        return step

    def _returned(self, call: Call[R], step: Step, result: R) -> Ending | None:
        try:
            ending = endings.of_result(call, result)
        except NotRecordable as error:
            self._end(call, step, endings.of_error(error))
            raise
        return self._end(call, step, ending)

    def _end(self, call: Call[Any], step: Step, ending: Ending) -> Ending | None:
        if step is _LATE:
            return None
        try:
            return self._entered().end(step, call, ending)
        except ReplayError as error:
            if self._over:
                self.outlived()
                return None
            self.remember(error)
            raise


class _Forked:
    """The script of a session in a forked child that can take no part in it, or has left its block: the parent's books are not touched."""

    def __init__(self, script: Script) -> None:
        """Take what the parent has."""
        self._script = script
        self.quarantined = script.quarantined

    def begin(self, call: Call[Any]) -> Step:
        """Refuse the call."""
        raise ReplayError(f"{call.tool} was called in a forked process, and what this session finds is kept by the process that opened it; "
                          "run the whole program by rag record or rag replay, or use threads")

    def end(self, step: Step, call: Call[Any], ending: Ending) -> Ending | None:
        """End a call that was begun before the fork."""
        return self._script.end(step, call, ending)

    def finish(self, completion: Completion) -> None:
        """Leave the end to the process that opened the session."""

    def abandon(self) -> None:
        """Leave it open: the parent goes on."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody has asked for."""
        return self._script.unused()


def _utf8(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def _after_fork_in_child() -> None:
    for session in list(_ALL):
        session.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
