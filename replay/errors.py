"""What can go wrong with a trace or a replay, as one small tree of exceptions.

`ReplayError` is the one thing to catch; the kinds below it differ in what a reader does next: record anew (`TraceError`
trace_missing), repair a file, or look at what the program did differently (`Divergence`). None of them ever leads to a live call.
"""

from __future__ import annotations

import copyreg
from typing import Any


class _Portable(Exception):  # noqa: N818 - a property of exceptions
    """Comes out of a pickle as it went in, with all its parts; an exception otherwise is made anew, of its text alone."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the exception is made without its constructor, and its parts."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined] # typeshed lacks it


class ReplayError(_Portable):
    """Anything that stops a recording or a replay."""


class TraceError(ReplayError):
    """A trace that cannot be used. `code` says why, `line` is 1-based where one line is at fault.

    Codes: trace_missing, trace_exists, trace_empty, trace_line, trace_large, trace_version, trace_header, trace_seed,
    trace_order, trace_alien, trace_incomplete, trace_tampered, trace_body, trace_io.
    """

    def __init__(self, code: str, message: str, *, path: str = "", line: int | None = None) -> None:
        """Keep the parts; the text names file and line."""
        where = f"trace {path!r}: " if path else ""
        at = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{at}{message}")
        self.code = code
        self.path = path
        self.line = line


class TraceWriteError(ReplayError):
    """An event could not be written; the trace ends before it."""


class TraceWarning(UserWarning):
    """An event could not be written, and the session was told to report that and go on."""


class NotRecordable(TypeError):  # noqa: N818 - it names what the value is
    """A value that is not JSON and so can be neither recorded nor matched; the text names its path and type."""


class InvalidMutation(ReplayError):  # noqa: N818 - as above
    """A mutation that cannot be made: no such step, or a value of another kind than the recorded one."""


class QuarantineViolation(ReplayError):  # noqa: N818 - as above
    """Something reached for the world inside a session in which nothing may be touched."""


class Divergence(ReplayError):  # noqa: N818 - as above
    """The program did not do what the trace holds.

    `code` is one of other_call, never_recorded, consumed, exhausted, left_over, unfinished_call, not_cancelled,
    started_otherwise, ended_otherwise. `step` is the 0-based index of the recorded event that was expected (its line in the file is one
    more), or None where no event was. `expected` and `got` describe the two calls as ``{"tool": …, "args": […]}``, redacted;
    `path` is the first place where their arguments differ; `nearest` holds the recorded calls most like the one that came.
    """

    def __init__(self, code: str, message: str, *, step: int | None = None, expected: dict[str, Any] | None = None,
                 got: dict[str, Any] | None = None, path: str = "", nearest: tuple[dict[str, Any], ...] = ()) -> None:
        """Keep the parts; the message shows them all."""
        super().__init__(message)
        self.code = code
        self.step = step
        self.expected = expected
        self.got = got
        self.path = path
        self.nearest = nearest

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as JSON."""
        return {"code": self.code, "message": str(self), "step": self.step, "expected": self.expected, "got": self.got,
                "path": self.path, "nearest": list(self.nearest)}


class RecordedError(_Portable):
    """Stands in for a recorded exception whose class is neither builtin nor among the call's `raises`.

    Its text is the recorded one; `type` is the qualified name of the class that was raised.
    """

    def __init__(self, type_name: str, message: str) -> None:
        """Keep the parts."""
        super().__init__(message)
        self.type = type_name
        self.message = message
