"""How a program under `rag replay` shows an error of the replay that nobody caught: short, since the parent shows the whole of it.

Python would print every frame between the program's call and the place in this package where the error was raised, and then the error
in full, which the parent prints again. What a reader looks for is the line of the program.
"""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import Final

from replay.errors import InvalidMutation, ReplayError

_OURS: Final = ("replay", "rag_stdlib")


def install() -> None:
    """Have uncaught errors of the replay shown short from now on, unless the program has a way of its own to show errors."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write an uncaught error to standard error: one of the replay with the program's own frames and its first line."""
    if not isinstance(error, ReplayError):
        sys.__excepthook__(kind, error, trace)
    elif not isinstance(error, InvalidMutation) and sys.stderr is not None:  # that is the parent's command line at fault, not the program
        sys.stderr.write("".join(_lines(error, trace)))


def _lines(error: ReplayError, trace: TracebackType | None) -> list[str]:
    import traceback  # not for programs that end well

    frames = traceback.StackSummary.extract(pair for pair in traceback.walk_tb(trace) if not _is_ours(pair[0]))
    head = ["Traceback (most recent call last):\n", *frames.format()] if frames else []
    first = str(error).partition("\n")[0]
    return [*head, f"{type(error).__module__}.{type(error).__qualname__}: {first}\n"]


def _is_ours(frame: FrameType) -> bool:
    package = frame.f_globals.get("__package__") or frame.f_globals.get("__name__") or ""
    return str(package).partition(".")[0] in _OURS
