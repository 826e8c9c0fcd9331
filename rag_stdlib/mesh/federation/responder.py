"""This node as a shard: a question is checked, searched by the callback, and answered (RAG service contract §4.6).

The same answer serves calls from the mesh and this node's own questions, which never dial it. What a callback does wrong costs its own
answer and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_stdlib.contract.cbor import Value
from rag_stdlib.effects import carry
from rag_stdlib.errors import Failure
from rag_stdlib.mesh.errors import HANDLER_ERROR, InvalidCall, PayloadRefused, ProviderError, Refusal
from rag_stdlib.mesh.federation.clock import Clock
from rag_stdlib.mesh.federation.granting import Granting, NotGranted
from rag_stdlib.mesh.federation.payloads import Embedding, ShardAnswer, ShardQuery, read_answer, read_query
from rag_stdlib.mesh.federation.settings import Settings
from rag_stdlib.mesh.procedures.refusals import refused
from rag_stdlib.mesh.transport import Request, Transport
from rag_stdlib.mesh.wire import outgoing, pack, unpack

HANDLERS: Final = 8  # of this node's own questions, at a time

_LOG: Final = logging.getLogger("rag_stdlib")


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of a shard together with its `statistics`, a map that a strategy of merging may use.

    `embedding` is what the scores are of, where the search looks that up: an answer of another one than the federation's is refused.
    """

    hits: Iterable[Mapping[str, Any]]
    statistics: Mapping[str, Any] | None = None
    embedding: Embedding | None = None


Search: TypeAlias = Callable[[dict[str, Any], int], "Iterable[Mapping[str, Any]] | Hits"]
"""A plain function of a query (keys are text) and the number of hits asked for. What it refuses it raises as `Refusal`."""


class Responder:
    """The callback of a shard, and the procedure that it is served by."""

    def __init__(self, clock: Clock) -> None:
        """Have no callback, and no configuration."""
        self._clock = clock
        self._search: Search | None = None
        self._settings: Settings | None = None
        self._granting: Granting | None = None
        self._pool = ThreadPoolExecutor(HANDLERS, thread_name_prefix="shard")

    @property
    def registered(self) -> bool:
        """Whether there is a callback."""
        return self._search is not None

    @property
    def missing(self) -> NotGranted | None:
        """Why the procedure is not served though there is a callback; None where it is served."""
        return self._granting.state if self._granting is not None else NotGranted(None, 0)

    def use(self, settings: Settings | None) -> None:
        """Answer by this configuration from now on; None answers `not_configured`."""
        self._settings = settings

    def register(self, search: Search) -> None:
        """Answer by this callback from now on, in the context of this call.

        Raises:
            InvalidCall: it is no plain function.
        """
        if not callable(search) or any(is_kind(body) for is_kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
                                       for body in (search, type(search).__call__)):
            raise InvalidCall("a search is a plain function; it runs in a thread, where nothing awaits it")
        self._search = carry(search)

    async def serve(self, transport: Transport, settings: Settings) -> None:
        """Ask for the grant and be served, or stay so where nothing changed; what was served otherwise is withdrawn before."""
        if self._granting is not None and self._granting.serves(transport, settings):
            return
        await self.stop_serving()
        self._granting = Granting(transport, settings, self._handle, self._clock)
        await self._granting.start()

    async def stop_serving(self) -> None:
        """Withdraw what is served, and ask for no grant."""
        if self._granting is not None:
            await self._granting.stop()
            self._granting = None

    async def unregister(self) -> None:
        """Have no callback any more, and withdraw what is served."""
        self._search = None
        await self.stop_serving()

    async def close(self) -> None:
        """Answer nothing any more, and wait for searches that run."""
        self.use(None)
        await self.unregister()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    def answer(self, payload: object) -> Value:
        """Answer a question.

        Raises:
            Refusal: `no_responder`, `not_configured`, `malformed_query`, `embedding_mismatch`, in this order; what the callback refused;
                `malformed_hits` for hits of it that are none, or that the mesh does not carry; `internal` where it failed.
        """
        search, settings = self._search, self._settings
        if search is None:
            raise Refusal("no_responder")
        if settings is None:
            raise Refusal("not_configured")
        asked = read_query(payload)
        if asked is None:
            raise Refusal("malformed_query", "a question holds query (a map), top_k (above 0), model and dim")
        if asked.embedding != settings.embedding:
            raise Refusal("embedding_mismatch", f"this shard is of {settings.embedding}")
        return _written(_searched(search, asked, settings))

    async def answer_here(self, payload: object) -> Value:
        """Answer this node's own question, through the same codec as any other, in a thread.

        Raises:
            ProviderError: `answer` refused.
        """
        future = self._pool.submit(self._answered, pack(payload))
        outcome = await asyncio.wrap_future(future)
        if isinstance(outcome, Refusal):
            raise ProviderError(HANDLER_ERROR, outcome.detail)
        return unpack(outcome)

    def _answered(self, payload: bytes) -> bytes | Refusal:
        try:
            return pack(self.answer(unpack(payload)))
        except Refusal as refusal:
            return refusal

    def _handle(self, request: Request) -> Value:
        return self.answer(request.payload)


def _searched(search: Search, asked: ShardQuery, settings: Settings) -> ShardAnswer:
    try:
        found = search(dict(asked.query), asked.top_k)
        hits, statistics = (found.hits, found.statistics) if isinstance(found, Hits) else (found, None)
        if isinstance(found, Hits) and found.embedding not in (None, settings.embedding):
            raise Refusal("embedding_mismatch", f"what this shard searches is of {found.embedding} by now")
        if isinstance(hits, (str, bytes, Mapping)) or not isinstance(hits, Iterable):
            raise Refusal("malformed_hits", "the search of this shard gave no list of hits")
        if statistics is not None and not isinstance(statistics, Mapping):
            raise Refusal("malformed_hits", "the search of this shard gave statistics that are no map")
        listed = list(hits)
        if not all(isinstance(hit, Mapping) for hit in listed):
            raise Refusal("malformed_hits", "a hit is a map")
        return ShardAnswer(settings.shard_id, settings.embedding, tuple(map(dict, listed)), None if statistics is None else dict(statistics))
    except Refusal:
        raise
    except Failure as failure:
        raise refused(settings.procedure, failure) from None
    except BaseException:  # noqa: BLE001 - a caller is refused, whatever happens, even sys.exit(); the traceback goes to the log
        _LOG.exception("the search of %s failed unexpectedly", settings.procedure)
        raise Refusal("internal") from None


def _written(found: ShardAnswer) -> Value:
    """Write the answer; the whole of it is refused for one hit that is none."""
    try:
        answer = outgoing(found.payload())
    except PayloadRefused as error:
        raise Refusal("payload_too_large" if error.name == "payload_too_large" else "malformed_hits", error.reason) from None
    if read_answer(answer) is None:
        raise Refusal("malformed_hits", "a hit has a text id and a number score")
    return answer
