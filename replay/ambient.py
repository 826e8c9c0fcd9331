"""Which session a call belongs to.

A `with` block of a session counts for its context and for those copied from it (tasks, `carry`). A thread that carries no
context belongs to the only session that is open in the process; where several are open it is refused, since neither
guessing nor running live would be right. Outside of any block the session that the environment hands over counts, if any.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from enum import Enum
from typing import Final, ParamSpec, Protocol, TypeVar

from replay.errors import ReplayError
from replay.recorder import Recorder

P = ParamSpec("P")
R = TypeVar("R")


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


class _Mark(Enum):
    OUTSIDE = "in no session's block"
    LIVE = "in a block of live()"


_current: ContextVar[Ambient | _Mark] = ContextVar("replay_session")
_running: ContextVar[bool] = ContextVar("replay_running", default=False)
_lock: Final = threading.Lock()
_open: tuple[Ambient, ...] = ()


def _no_session() -> Ambient | None:
    return None


_environment: Callable[[], Ambient | None] = _no_session

if threading.current_thread() is threading.main_thread():
    _current.set(_Mark.OUTSIDE)  # tells contexts copied from the main thread's from those of plain threads


def set_environment(ambient: Callable[[], Ambient | None]) -> None:
    """Name what gives the session of calls outside of any block."""
    global _environment  # noqa: PLW0603 - one process, one environment
    _environment = ambient


def current() -> Ambient | None:
    """Return the session that a call made here belongs to, or None for a live call.

    Raises:
        ReplayError: a thread without context while several sessions are open; the environment's session cannot be used.
    """
    if _running.get():
        return None  # a part of the call around it, which is the one that is recorded
    session = _current.get(None)
    if session is _Mark.LIVE:
        return None
    if session is _Mark.OUTSIDE:
        return _environment()
    if session is not None:
        return session
    return _of_plain_thread()


def _of_plain_thread() -> Ambient | None:
    sessions = _open
    if len(sessions) > 1:
        msg = (f"this thread carries no context, and {len(sessions)} replay sessions are open; "
               "start its function through replay.carry, which says to which one it belongs")
        raise ReplayError(msg)
    return sessions[0] if sessions else _environment()


def quarantining() -> Ambient | None:
    """Return the session that forbids touching the world from here, or None."""
    if _running.get():
        return None
    session = _current.get(None)
    if session is None:
        return next((one for one in _open if one.quarantined), None) or _quarantined(_environment() if not _open else None)
    if isinstance(session, _Mark):
        return None if session is _Mark.LIVE else _quarantined(_environment())
    return _quarantined(session)


def _quarantined(session: Ambient | None) -> Ambient | None:
    return session if session is not None and session.quarantined else None


@contextmanager
def block(session: Ambient) -> Iterator[None]:
    """Make a session that of the context, and of threads without one, for the length of the block."""
    global _open  # noqa: PLW0603 - the sessions open in this process
    before = _current.get(None)
    with _lock:
        _open = (*_open, session)
    _current.set(session)
    try:
        yield
    finally:
        with _lock:
            _open = tuple(one for one in _open if one is not session)
        # not reset by its token: a fixture may be left in another context than it was entered in
        _current.set(_Mark.OUTSIDE if before is None else before)


@contextmanager
def live() -> Iterator[None]:
    """Run the calls of a block as they are, in whatever session they stand: neither recorded nor replayed."""
    token = _current.set(_Mark.LIVE)
    try:
        yield
    finally:
        _current.reset(token)


class Running:
    """Marks the body of a call that is recorded: what it calls is part of it. A class, for this is on the path of every call."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        """Begin the body."""
        self._token = _running.set(True)

    def __exit__(self, *_error: object) -> None:
        """End it."""
        _running.reset(self._token)


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the calling context, to run it in another thread as a part of this one's session."""
    context = copy_context()

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)  # a copy, since a context runs in one thread at a time

    return wrapper
