"""Running a command as it is: its own streams and signals, and how it came to its end.

While the command runs, the signals that would stop this process are the command's: it is waited for whatever comes, so that the books can
be closed behind it. Ctrl-C at a terminal reaches the command from the terminal itself and is not passed on a second time.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from replay.errors import ReplayError

if TYPE_CHECKING:
    from typing_extensions import Self

_PASSED_ON: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_OF_TERMINALS: Final = (signal.SIGINT, signal.SIGQUIT)
_GRACE_SECONDS: Final = 2.0  # between asking a command to end and ending it
_BY_SIGNAL: Final = 128  # what a shell adds to the number of the signal


class CannotStart(ReplayError):  # noqa: N818 - it names what happened
    """The command could not be started; nothing of it ran."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: `status` is its exit code, or the negative number of the signal that killed it.

    `stopped_by` is the first signal that came for us while it ran; `timed_out` says that it had to be ended.
    """

    status: int
    stopped_by: int | None = None
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.status == 0

    @property
    def code(self) -> int:
        """The exit code as a shell has it: 128 + n for signal n."""
        return self.status if self.status >= 0 else _BY_SIGNAL - self.status

    @property
    def error(self) -> str | None:
        """What went wrong, in words; None where it ended well."""
        if self.status >= 0:
            return f"exit code {self.status}" if self.status else None
        try:
            return f"killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"killed by signal {-self.status}"


def check_startable(command: Sequence[str], folder: str | None = None) -> None:
    """Look for the program without running it.

    Raises:
        CannotStart: there is no such program, or it may not be run.
    """
    name = command[0]
    place = os.path.join(folder or "", name) if os.sep in name else name  # noqa: PTH118 - a word of a command line, to be found by name
    if shutil.which(place) is None:
        there = os.sep in name and os.path.exists(place)  # noqa: PTH110 - as above
        raise CannotStart(_cannot(command, folder, os.strerror(errno.EACCES if there else errno.ENOENT)))


def _cannot(command: Sequence[str], folder: str | None, reason: object) -> str:
    where = "" if folder is None else f" in {folder!r}"
    return f"the command {command[0]!r} cannot be started{where}: {reason}; give one that can be behind --"


def run(command: Sequence[str], environ: Mapping[str, str], signals: Signals, *, folder: str | None = None,
        output: Any = None, timeout: float | None = None) -> Ended:  # noqa: ANN401 - a file
    """Run a command to its end and say how it ended.

    It has our standard streams, and `folder` as its working directory where one is given. With `output` (an open file) it has no input, writes there, and stands apart from our terminal; it and
    what it started are ended after `timeout` seconds, or soon after a signal came for us.

    Raises:
        CannotStart: there is no such program, or it may not be run.
    """
    apart: dict[str, Any] = {}
    if output is not None:
        apart = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "start_new_session": True}
    try:
        # ours are closed on exec; those that a shell opened for the command are its own
        own = {**environ, "PWD": os.path.abspath(folder)} if folder is not None else dict(environ)  # noqa: PTH100 - by name, as a shell has it
        child = subprocess.Popen(list(command), env=own, cwd=folder, close_fds=False, **apart)  # noqa: S603 - to run it is the task
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotStart(_cannot(command, folder, reason)) from None
    signals.belong_to(child, apart=output is not None)
    if output is not None:
        timed_out = _waited(child, signals, timeout)
    else:
        timed_out = False
        child.wait()
    return Ended(child.returncode, signals.first, timed_out)


def _waited(child: subprocess.Popen[bytes], signals: Signals, timeout: float | None) -> bool:
    """Wait for a command that stands apart, and end it where it takes too long; tell whether it did."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS if deadline is None else min(_GRACE_SECONDS, max(0.0, deadline - time.monotonic())))
            _to_group(child, signal.SIGKILL)  # what it left behind
            return False
        late = deadline is not None and time.monotonic() >= deadline
        if late or signals.first is not None:
            _end(child)
            return late


def _end(child: subprocess.Popen[bytes]) -> None:
    _to_group(child, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_SECONDS)
    _to_group(child, signal.SIGKILL)
    child.wait()


def _to_group(child: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


class Signals:
    """Takes the signals that would stop this process for the length of the block, and passes them on to the command.

    `first` is the first that came. What comes before there is a command waits for it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.first: int | None = None
        self._apart = False
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take them; one that is ignored (as behind nohup) stays so, and only the main thread may take any."""
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give them back."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def belong_to(self, child: subprocess.Popen[bytes], *, apart: bool) -> None:
        """Pass on what came and what will come; a command that leads a group `apart` is not reached by a terminal's Ctrl-C."""
        self._child, self._apart = child, apart
        while self._waiting:
            self._pass_on(child, self._waiting.pop(0))

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.first = number if self.first is None else self.first
        if self._child is None:
            self._waiting.append(number)
        else:
            self._pass_on(self._child, number)

    def _pass_on(self, child: subprocess.Popen[bytes], number: int) -> None:
        if self._apart:
            _to_group(child, number)
        elif not (number in _OF_TERMINALS and _in_foreground()):
            child.send_signal(number)


def _in_foreground() -> bool:
    """Tell whether we are what the terminal's Ctrl-C is for; then the command, in the same group, had it already."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
