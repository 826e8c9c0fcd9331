"""Nothing is touched: what a substitute or mutation session refuses, wherever in the process it is tried.

Python raises an audit event (`sys.audit`) before it connects a socket or looks up a host, and libraries raise their own
before they open or compute. One hook looks at those on its list; inside a quarantined session it raises `QuarantineViolation`, which stops the
act itself: a client made long before the session is stopped like a new one. Bodies of recorded calls and `live()` blocks pass. What
goes over a connection that stands already raises no event, so it is not seen.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from replay import ambient
from replay.errors import QuarantineViolation

if TYPE_CHECKING:
    from replay.redaction.redactor import Redactor

_NETWORK: Final = ("socket.connect", "socket.getaddrinfo", "socket.getnameinfo", "socket.gethostbyname", "socket.gethostbyaddr",
                   "socket.sendto", "socket.sendmsg")
NETWORK: Final = "network"
_PROCESS: Final = "subprocess.Popen"
_SHOWN: Final = 120
_ADVICE: Final = "make it a recorded tool call, or put what may run live into replay.live()"
_ENVIRONMENT: Final = (f"a process without {ambient.VARIABLE} in its environment would run tools live; pass the environment on, "
                       "env={**os.environ, …}, or put what may run live into replay.live()")
_lock = threading.Lock()
_watched: Mapping[str, str] = MappingProxyType({**dict.fromkeys(_NETWORK, NETWORK), _PROCESS: "process"})
_installed = False
_on = 0  # sessions that quarantine; none, and the hook returns at once


def watch(event: str, surface: str) -> None:
    """Refuse an audit event inside quarantined sessions; `surface` is how messages call what it reaches for."""
    global _watched  # noqa: PLW0603 - one list, as there is one hook
    with _lock:
        _watched = MappingProxyType({**_watched, event: surface})
        if event == _PROCESS:  # any of them now, not only one that is told nothing
            _passes.pop(event, None)


def begin() -> None:
    """Switch the quarantine on for one more session."""
    global _installed, _on  # noqa: PLW0603 - a hook is for the process and cannot be taken away
    with _lock:
        _on += 1
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


def end() -> None:
    """Switch it off for one session."""
    global _on  # noqa: PLW0603 - as above
    with _lock:
        _on -= 1


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _on or event not in _watched:
        return
    surface = _watched[event]
    passes = _passes.get(event)
    if passes is not None and passes(args):
        return
    session = ambient.quarantining()
    if session is None or (surface == NETWORK and session.allows_network):
        return
    advice = _ENVIRONMENT if event == _PROCESS and passes is not None else _ADVICE
    error = QuarantineViolation(f"replay quarantine ({surface}) blocked an unrecorded side effect: {event}({_shown(args, session)}); {advice}")
    session.remember(error)
    raise error


def _shown(args: tuple[Any, ...], session: ambient.Ambient) -> str:
    """Write the arguments of an event without secrets; those go first, since one that is cut in two is not found."""
    redactor = _redactor_of(session)
    detail = redactor.text(", ".join(repr(redactor.value(arg)) for arg in args if isinstance(arg, (str, int, tuple))))
    return detail if len(detail) <= _SHOWN else f"{detail[:_SHOWN]}…"


def _redactor_of(session: ambient.Ambient) -> Redactor:
    from replay.redaction.redactor import Redactor

    own = getattr(session, "redactor", None)
    return own if isinstance(own, Redactor) else Redactor()


def _stands(args: tuple[Any, ...]) -> bool:
    """Tell whether a datagram goes over a connection that stands: what made it was looked at."""
    return args[-1] is None


def _within(args: tuple[Any, ...]) -> bool:
    """Tell whether a connection is one between the processes of multiprocessing, which makes its sockets in folders of that name."""
    address = args[-1]
    return isinstance(address, (str, bytes)) and b"pymp-" in os.fsencode(address)


def _told(args: tuple[Any, ...]) -> bool:
    """Tell whether a new process finds in its environment to which session it belongs, or that it belongs to none it can reach."""
    environment = args[-1]
    return environment is None or ambient.VARIABLE in {os.fsdecode(name) for name in environment}


_passes: Final[dict[str, Callable[[tuple[Any, ...]], bool]]] = {
    "socket.sendto": _stands, "socket.sendmsg": _stands, "socket.connect": _within, _PROCESS: _told}


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
