"""Commands that stand until they are told to stop: SIGTERM and Ctrl-C, and the lines of the library's log meanwhile."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rag_stdlib.cli.terminal import say

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_LOOK_S: Final = 0.1


class Stop:
    """Whether the process has been told to stop."""

    def __init__(self) -> None:
        """Begin untold."""
        self._told = False

    def __bool__(self) -> bool:
        """Tell."""
        return self._told

    def tell(self) -> None:
        """Take note; a handler of signals may call it at any point of the program."""
        self._told = True

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the process is told, for so many seconds at most, and say whether it was."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._told and (end is None or time.monotonic() < end):
            time.sleep(_LOOK_S if end is None else max(0.0, min(_LOOK_S, end - time.monotonic())))
        return self._told


@contextmanager
def heard(tell: Callable[[], object]) -> Iterator[None]:
    """Take the signals for the block: the first one calls `tell`, the second one ends the process at once."""
    is_told = False

    def hear(number: int, _frame: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            _end(number)
        is_told = True
        tell()

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int) -> None:
    """End the process at once, whatever it is in the middle of; what was shown is sent out, if it can be."""
    try:
        signal.signal(number, signal.SIG_DFL)  # a third one ends it where these two wait for someone
        with suppress(Exception):  # a stream that is written to just now cannot be written to in here
            say("rag: stopped")
        sys.stdout.flush()
    finally:
        os._exit(128 + number)


@contextmanager
def lines_of_the_log(passed_over: Collection[tuple[str, str]] = ()) -> Iterator[None]:
    """Have warnings and errors of the library told on standard error while the block runs, each in a line.

    `passed_over` are the (module, function) whose lines are told otherwise.
    """
    handler = _Line(passed_over)
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Line(logging.Handler):
    """One line for each record; of an exception, what it says and where it was raised."""

    def __init__(self, passed_over: Collection[tuple[str, str]]) -> None:
        super().__init__()
        self._passed_over = passed_over

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a record."""
        if (record.module, record.funcName) in self._passed_over:
            return
        word = "error" if record.levelno >= logging.ERROR else "warning"
        say(f"rag: {word}: {record.getMessage()}{_raised(record)}")


def _raised(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""
    return f": {type(error).__name__}: {error}{where}"
