"""A host that runs until it is told to stop: linked again where no station answers, told about in lines, drained in the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rag_stdlib.cli.frame import note
from rag_stdlib.cli.standing import heard, lines_of_the_log

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.clock import Ending
    from rag_stdlib.mesh.hosting import Host
    from rag_stdlib.mesh.macula import MaculaTransport

LOOK_S: Final = 0.5
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0

_OF_GRANTS: Final = frozenset({("granting", "_note"), ("macula_serving", "_held_back")})  # who logs what `_Watch` tells of


async def run_until_told(
    connect: Callable[[], Awaitable[MaculaTransport]], host_of: Callable[[MaculaTransport], Host], retry_s: float,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Args:
        connect: Links the node.
        host_of: Makes what is served over a link; another one for each attempt.
        retry_s: The seconds between two questions for a grant, to be told.

    Raises:
        CallError: The node cannot link or serve, for another reason than that no station answers.
        Failure: The index cannot be served.
    """
    with lines_of_the_log(_OF_GRANTS), _told_to_stop() as stop:
        host = await _joined(connect, host_of, stop)
        if host is None:
            note("stopped before any station answered")
            return
        note("linked")
        watch = _Watch(host, retry_s)
        while not stop:
            watch.look()
            await stop.pause(LOOK_S)
        note("draining; a second signal ends it at once")
        await host.drain()
        note("drained")


async def _joined(connect: Callable[[], Awaitable[MaculaTransport]], host_of: Callable[[MaculaTransport], Host], stop: Ending) -> Host | None:
    """Link and begin to serve, again and again while no station answers; None where it is told to stop before."""
    from rag_stdlib.mesh.errors import CallError, CallTimeout

    pause = FIRST_PAUSE_S

    async def begun() -> Host:
        nonlocal pause
        transport = await connect()
        host = host_of(transport)
        try:
            await host.begin()
        except BaseException as error:
            lost = isinstance(error, CallError) and not transport.linked
            await host.drain()
            if lost:
                raise _LinkLost(str(error)) from None
            raise
        return host

    while not stop:
        try:
            return await stop.first(begun())
        except (CallTimeout, _LinkLost) as error:
            note(f"{error}; trying again in {pause:g} s")
        await stop.pause(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    return None


class _LinkLost(Exception):  # noqa: N818 - a state
    """The station went away while the node began to serve."""


class _Watch:
    """Tells how link and grants stand, at first and when that changes."""

    def __init__(self, host: Host, retry_s: float) -> None:
        self._host, self._retry_s = host, retry_s
        self._linked = True
        self._waiting: int | None = None

    def look(self) -> None:
        """Look now."""
        transport, waiting = self._host.transport, self._host.ungranted
        linked = getattr(transport, "linked", True)
        if linked != self._linked:
            note("linked again" if linked else "no link to any station; it is made again when one answers")
        if waiting and not self._waiting:
            reason = next(iter(waiting.values()))
            waits = "1 procedure waits" if len(waiting) == 1 else f"{len(waiting):,} procedures wait"
            note(f"{waits} for a grant, which is asked for every {self._retry_s:g} s: {reason}")
        elif not waiting and self._waiting != 0:
            note("everything is served")
        self._linked, self._waiting = linked, len(waiting)


@contextmanager
def _told_to_stop() -> Iterator[Ending]:
    """Take the signals for the block: the first one ends, the second one ends the process."""
    import asyncio

    from rag_stdlib.mesh.federation.clock import Ending, SystemClock

    loop, ending = asyncio.get_running_loop(), Ending(SystemClock())
    with heard(lambda: loop.call_soon_threadsafe(ending.tell)):
        yield ending
