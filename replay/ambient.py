"""Which session a call belongs to.

A `with` block of a session counts for its context and for those copied from it (tasks, `carry`). A call outside of any block - of
a plain thread, of a task that is older than the block, of a loop that enters fixtures in one task and runs tests in another - belongs to the
only session that is open in the process; where several are open it is refused, since neither guessing nor running live would be
right. Where none is open, the session that the environment hands over counts, if any.

A context that was copied inside a block may outlive it. What is called there must not run live by accident after a replay, nor be lost
without a word after a recording: the session itself says which.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, ParamSpec, Protocol, TypeVar

from replay.errors import ReplayError
from replay.recorder import Recorder

P = ParamSpec("P")
R = TypeVar("R")

VARIABLE: Final = "REPLAY_SESSION"  # of the environment: what child processes are told
ELSEWHERE: Final = "elsewhere"  # the mode of a session that lives in another process and does not reach this one
_ELSEWHERE: Final = f'{{"mode":"{ELSEWHERE}"'


class Ambient(Recorder, Protocol):
    """A session as this module sees it."""

    @property
    def quarantined(self) -> bool:
        """Whether nothing may be touched while it is on."""

    @property
    def allows_network(self) -> bool:
        """Whether the network is let out of the quarantine."""

    def remember(self, error: ReplayError) -> None:
        """Keep an error that was raised, lest a program that catches it hide it."""


class Entered(Ambient, Protocol):
    """A session that has a block."""

    def outlived(self) -> None:
        """Refuse a call that comes after the end of the block, or warn of it and let it run live."""


class _Frame:
    """One thing that a context stands in, and what it stood in before. Contexts that are copied from it share it."""

    __slots__ = ("before", "left")
    before: _Frame | None
    left: bool
    session: Entered | None = None  # None: calls run live
    over = False  # the session has ended

    def enter(self) -> None:
        """Make it the innermost of this context."""
        self.left = False
        self.before = _current.get()
        _current.set(self)

    def leave(self) -> None:
        """Go back to the innermost that is not left: not always the one before, where blocks end out of order or in another context.

        Nothing is reset by its token, which belongs to one context.
        """
        self.left = True
        frame = _current.get()
        while frame is not None and frame.left:
            frame = frame.before
        _current.set(frame)


class Block(_Frame):
    """The block of a session."""

    __slots__ = ("over", "session")

    def __init__(self, session: Entered) -> None:
        """Take the session; nothing is entered yet."""
        self.session: Entered = session
        self.over = False

    def enter(self) -> None:
        """Make the session that of the context, and of the calls outside of any block."""
        global _open  # noqa: PLW0603 - the sessions open in this process
        with _lock:
            _open = (*_open, self.session)
        super().enter()

    def leave(self) -> None:
        """End that."""
        global _open  # noqa: PLW0603 - as above
        with _lock:
            _open = tuple(one for one in _open if one is not self.session)
        self.over = True
        super().leave()


class Running(_Frame):
    """Marks the body of a call that is recorded: what it calls is part of it. A class, for this is on the path of every call."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin the body."""
        self.left = False
        self.before = _current.get()
        _current.set(self)

    def __exit__(self, *_error: object) -> None:
        """End it: in another context, where a loop was closed over a pending call, there is nothing to set back."""
        if _current.get() is self:
            _current.set(self.before)
        else:
            self.left = True


_current: ContextVar[_Frame | None] = ContextVar("replay_session", default=None)
_lock = threading.Lock()
_open: tuple[Entered, ...] = ()
_announced: list[str] = []
_own_environment: list[str | None] = []  # the variable as it was before the first announcement


def _no_session() -> Ambient | None:
    return None


_environment: Callable[[], Ambient | None] = _no_session


def set_environment(ambient: Callable[[], Ambient | None]) -> None:
    """Name what gives the session of calls outside of any block."""
    global _environment  # noqa: PLW0603 - one process, one environment
    _environment = ambient


def current() -> Ambient | None:
    """Return the session that a call made here belongs to, or None for a live call.

    Raises:
        ReplayError: outside of any block while several sessions are open; after the end of a replay whose block this context stands
            in; the environment's session cannot be used.
    """
    frame = _current.get()
    if frame is None:
        return _outside()
    return _after(frame) if frame.over else frame.session


def _outside() -> Ambient | None:
    sessions = _open
    if len(sessions) > 1:
        msg = (f"this call stands in no session's block, and {len(sessions)} replay sessions are open; "
               "start its thread or task through replay.carry, or inside the block, which says to which one it belongs")
        raise ReplayError(msg)
    return sessions[0] if sessions else _environment()


def _after(frame: _Frame) -> Ambient | None:
    """Return the session of a context that holds one that has ended: one around it, or as outside of any block."""
    held, within = frame.session, _still_in(frame)
    for one in _ended(frame):
        if one.quarantined:
            one.outlived()  # raises
    if within is not None:
        return within.session
    session = _outside()
    if session is None and held is not None:
        held.outlived()
    return session


def _still_in(frame: _Frame | None) -> _Frame | None:
    while frame is not None and frame.over:
        frame = frame.before
    return frame


def _ended(frame: _Frame | None) -> Iterator[Entered]:
    while frame is not None and frame.over:
        if frame.session is not None:
            yield frame.session
        frame = frame.before


def quarantining() -> Ambient | None:
    """Return the session that forbids touching the world from here, or None."""
    frame = _still_in(_current.get())
    if frame is not None:
        return _quarantined(frame.session)
    sessions = _open
    if sessions:
        return next((one for one in sessions if one.quarantined), None)
    return _quarantined(_environment())


def _quarantined(session: Ambient | None) -> Ambient | None:
    return session if session is not None and session.quarantined else None


@contextmanager
def live() -> Iterator[None]:
    """Run the calls of a block as they are, in whatever session they stand: neither recorded nor replayed.

    It reaches as far as the context is carried: to tasks that are started in it, not to threads, nor to those of an event loop's executor.
    """
    frame = _Frame()
    frame.enter()
    try:
        yield
    finally:
        frame.leave()


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the calling context, to run it in another thread as a part of this one's session."""
    context = copy_context()

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)  # a copy, since a context runs in one thread at a time

    return wrapper


# --- child processes ---

def announce(text: str) -> bool:
    """Have child processes know that a session is open here which does not reach them.

    `text` is the handover that they find. Return whether it was put there: where the environment's own session is in force, they join that.
    """
    with _lock:
        before = os.environ.get(VARIABLE)
        if before and not before.startswith(_ELSEWHERE):
            return False
        if not _announced:
            _own_environment[:] = [before]
        _announced.append(text)
        os.environ[VARIABLE] = text
    return True


def withdraw(text: str) -> None:
    """Take an announcement back: children find the one of the session that is still open, or what stood there before."""
    with _lock:
        _announced.remove(text)
        if os.environ.get(VARIABLE) not in (text, *_announced):
            return  # the program's own doing
        stands = _announced[-1] if _announced else _own_environment[0]
        if stands is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = stands


def announced() -> str | None:
    """Return what the environment says of sessions of other processes: nothing that this one, or the one it was forked from, announced."""
    text = os.environ.get(VARIABLE)
    return None if not text or text in _announced else text


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
