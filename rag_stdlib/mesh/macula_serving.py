"""A procedure as a node serves it on the real mesh: advertised when its organisation grants it, answered in threads, withdrawn when idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.contract.cbor import MAX_BYTES, Value, encode_plain
from rag_stdlib.effects import carry
from rag_stdlib.mesh.errors import CallError, PayloadRefused, Refusal, TransportClosed, cut, words_of
from rag_stdlib.mesh.macula_errors import NotGranted
from rag_stdlib.mesh.transport import Handler, Request, checked_handler
from rag_stdlib.mesh.wire import outgoing

if TYPE_CHECKING:
    import macula_py

# What a frame holds beside its payload: a key, a signature, names, and the heads of all that.
FRAME_ROOM: Final = 16_384
PAYLOAD_BYTES: Final = MAX_BYTES - FRAME_ROOM

_LOG: Final = logging.getLogger("rag_stdlib")
_LAST_REPLIES_S: Final = 1.0  # for handlers that run while a procedure has to be advertised anew


def carried(value: object) -> Value:
    """Return a payload as plain values that fit into a frame.

    Raises:
        PayloadRefused: as `rag_stdlib.mesh.wire.outgoing`; ``payload_too_large`` from 16,760,831 bytes of CBOR on.
    """
    plain = outgoing(value)
    size = len(encode_plain(plain))
    if size > PAYLOAD_BYTES:
        raise PayloadRefused(f"it takes {size:,} bytes; a frame has room for {PAYLOAD_BYTES:,}", "payload_too_large")
    return plain


class MaculaServed:
    """A procedure that is being served, or waits for its organisation's grant. `MaculaTransport.serve` makes them.

    Attributes:
        procedure: Its name.
        refusal: Why it is not advertised; None while it is.
    """

    def __init__(
        self, procedure: str, handler: Handler, advertise: Callable[[Callable[[Any], Awaitable[Value]]], Awaitable[macula_py.Served]],
        threads: ThreadPoolExecutor, retry_s: float, on_stop: Callable[[], object],
    ) -> None:
        """Prepare to answer by `handler`, in the context of this call; `advertise` has the mesh send calls to a coroutine."""
        self.procedure: Final = procedure
        self.refusal: CallError | None = None
        self._held_since = 0.0
        self._handler = carry(checked_handler(handler))
        self._advertise = advertise
        self._threads = threads
        self._retry_s = retry_s
        self._on_stop = on_stop
        self._native: macula_py.Served | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[Any]] = set()

    @property
    def reason(self) -> str | None:
        """Why it is not advertised, in words; None while it is."""
        return None if self.refusal is None else str(self.refusal)

    @property
    def waiting_s(self) -> float:
        """For how many seconds it has not been advertised, without a break; 0 while it is."""
        return 0.0 if self.refusal is None else time.monotonic() - self._held_since

    async def begin(self) -> None:
        """Advertise it now, or else as soon as it is granted.

        Raises:
            CallError: the mesh does not let this node serve it, for another reason than a grant that is not there.
        """
        try:
            self._native = await self._advertise(self._answer)
        except NotGranted as missing:
            self._held_back(missing)
        if self._stopping is not None:
            await self._withdraw()
            raise TransportClosed("this node has left the mesh")
        self._keeper = asyncio.create_task(self._keep(), name=f"serving {self.procedure}")

    async def stop(self) -> None:
        """Refuse new calls, wait for the handlers that run, and withdraw the procedure. Calling it again is harmless."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        answering = tuple(self._answering)  # from here on, calls that come are refused, and not among these
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if answering:
            await asyncio.wait(answering)  # withdrawing would take their replies from the callers
        await self._withdraw()
        self._on_stop()

    async def _keep(self) -> None:
        """Ask for the grant until it is there, and advertise again whatever stopped being served."""
        while self._stopping is None:  # a cancellation can be lost to an act that ends in the same moment
            if self._native is None:
                await asyncio.sleep(self._retry_s)
            else:
                await _ended(self._native)
                if self._answering:
                    await asyncio.wait(tuple(self._answering), timeout=_LAST_REPLIES_S)
                await self._withdraw()
            try:
                self._native = await self._advertise(self._answer)
            except CallError as error:
                self._held_back(error)
            else:
                self.refusal = None
                _LOG.info("%s is served now", self.procedure)

    def _held_back(self, refusal: CallError) -> None:
        if self.refusal is None:
            self._held_since = time.monotonic()
        if str(refusal) != self.reason:
            _LOG.warning("%s; asking again every %g s", refusal, self._retry_s)
        self.refusal = refusal

    async def _withdraw(self) -> None:
        import macula_py

        native, self._native = self._native, None
        if native is not None:
            with suppress(macula_py.MaculaError, ValueError):  # it cannot be reached to be told, or says what ended it before
                await native.stop()

    async def _answer(self, request: macula_py.Request) -> Value:
        """Answer a call in a thread. What this raises is the caller's ``handler_error``, with its text as the detail."""
        if self._stopping is not None:
            raise _Detail("withdrawn")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the library runs this in a task of its own
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._work, request, _patience(request))

    def _work(self, request: macula_py.Request, given_up: float) -> Value:
        if time.monotonic() > given_up:
            raise _Detail("expired")
        try:
            return carried(self._handler(Request(request.procedure, request.payload, request.caller)))
        except Refusal as refusal:
            raise _Detail(refusal.detail) from None
        except BaseException as error:  # noqa: BLE001 - a handler ends its own call only, even by sys.exit()
            _LOG.exception("the handler of %s failed", self.procedure)
            raise _Detail(words_of(error)) from None


class _Detail(Exception):  # noqa: N818 - a caller's answer
    """The detail of a provider error, in a form that the library passes on whole: no lone surrogates, and no NUL."""

    def __init__(self, text: str) -> None:
        super().__init__(cut(text.replace("\0", "\\0")))


def _patience(request: macula_py.Request) -> float:
    """Say until when the caller waits, on the clock of `time.monotonic`; for ever, where its clock cannot be compared with this one."""
    left = request.deadline_ms / 1_000 - time.time()
    return time.monotonic() + left if left > 0 else float("inf")


async def _ended(native: macula_py.Served) -> None:
    """Wait until the library takes no more calls of a procedure, as after a payload that it could not read."""
    await asyncio.wait([native._loop])  # noqa: SLF001 - it has no public word for this
