"""Sessions: what stands between a program's tools and the world for the length of a block.

    with replay.record("run.jsonl"):
        agent()
    with replay.substitute("run.jsonl"):
        agent()             # the same results, and nothing is touched

A session is used once. Opening it reads or creates the trace and raises `TraceError`; leaving it raises the `Divergence` or
`QuarantineViolation` of the block even where the program caught it, since a program that ends well after one did not end as recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from replay import ambient, endings, quarantine
from replay.errors import Divergence, NotRecordable, ReplayError
from replay.jsontext import checked
from replay.recorder import Call, Cancelled, Ending
from replay.redaction.redactor import Redactor
from replay.scripts.script import Completion, Script, Step, one_error

if TYPE_CHECKING:
    from typing_extensions import Self

    from replay.tracefile.trace import RecordedCall

R = TypeVar("R")


class Session:
    """One recording or replay. Make it with `replay.record`, `substitute`, `differential`, `mutation` or `use_trace`."""

    def __init__(self, mode: str, opened: Callable[[Session], Script], *, redactor: Redactor, allow_network: bool = False) -> None:
        """`opened` makes the script when the block is entered: nothing is read or written before."""
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

    # --- the block ---

    def __enter__(self) -> Self:
        """Open the trace and make this the session of the context."""
        self.open()
        self._block.enter_context(ambient.block(self))
        return self

    def open(self) -> None:
        """Open the trace without making the session anybody's: for those who make it so themselves."""
        if self._script is not None:
            raise ReplayError("a replay session is used once; make another one")
        self._script = self._opened(self)
        if self._script.quarantined:
            quarantine.begin()
            self._block.callback(quarantine.end)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the books; raise what the program hid, or what its ending shows."""
        script = self._entered()
        self._block.close()
        if self.problem is not None and error is not self.problem:
            script.abandon()
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
        try:
            return self._entered().end(step, call, ending)
        except ReplayError as error:
            self.remember(error)
            raise
