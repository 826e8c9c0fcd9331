"""Nothing is touched: what a substitute or mutation session refuses, wherever in the process it is tried.

Python raises an audit event (`sys.audit`) before it connects a socket or looks up a host, and libraries raise their own
before they open or compute. One hook looks at those on its list; inside a quarantined session it raises `QuarantineViolation`, which stops the
act itself: a client made long before the session is stopped like a new one. Bodies of recorded calls and `live()` blocks pass.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from replay import ambient
from replay.errors import QuarantineViolation

_NETWORK: Final = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto",
                   "socket.sendmsg")
NETWORK: Final = "network"
_SHOWN: Final = 120
_lock: Final = threading.Lock()
_watched: Mapping[str, str] = MappingProxyType(dict.fromkeys(_NETWORK, NETWORK))
_installed = False
_on = 0  # sessions that quarantine; none, and the hook returns at once


def watch(event: str, surface: str) -> None:
    """Refuse an audit event inside quarantined sessions; `surface` is how messages call what it reaches for."""
    global _watched  # noqa: PLW0603 - one list, as there is one hook
    with _lock:
        _watched = MappingProxyType({**_watched, event: surface})


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
    if event in ("socket.sendto", "socket.sendmsg") and args[-1] is None:
        return  # on a connection that stands: what made it was looked at
    session = ambient.quarantining()
    if session is None or (surface == NETWORK and session.allows_network):
        return
    detail = ", ".join(repr(arg) for arg in args if isinstance(arg, (str, int, tuple)))
    shown = detail if len(detail) <= _SHOWN else f"{detail[:_SHOWN]}…"
    error = QuarantineViolation(
        f"replay quarantine ({surface}) blocked an unrecorded side effect: {event}({shown}); "
        "make it a recorded tool call, or put what may run live into replay.live()")
    session.remember(error)
    raise error
