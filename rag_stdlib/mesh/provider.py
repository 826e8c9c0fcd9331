"""A provider: the procedures of the RAG service contract over one index, called directly or served on a mesh.

    with Runtime("corvid.toml") as runtime:
        provider = Provider(runtime, "docs.db", org="acme", key=load_key("node.key"), list_file="corpus.json")
        serving = await provider.serve(transport)

It works under the authority of its runtime: reads need `rag_read` in the configuration's grant, writes `rag_write`. Whoever may call a
procedure at all is the mesh's matter; only what changes other people's documents asks for an operator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from rag_stdlib.config import REGIMES, Regime
from rag_stdlib.contract.cbor import Value
from rag_stdlib.effects import RAG_READ, RAG_WRITE, Effect, authority, refusal
from rag_stdlib.errors import Failure, fail
from rag_stdlib.mesh import operators as gate
from rag_stdlib.mesh.errors import CallError, InvalidCall, Refusal
from rag_stdlib.mesh.procedures import answering, reading, replies, rerank, status, writing
from rag_stdlib.mesh.procedures.corpuslist import CorpusList
from rag_stdlib.mesh.procedures.desk import Desk
from rag_stdlib.mesh.procedures.params import Params
from rag_stdlib.mesh.procedures.refusals import refused
from rag_stdlib.mesh.procedures.signing import Signer
from rag_stdlib.mesh.transport import (
    Confidential,
    Request,
    Served,
    Transport,
    checked_node,
    checked_org,
    checked_procedure,
    served,
)
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.contract.nodekeys import NodeKey

Deposits: TypeAlias = Literal["off", "open"]

_LOG: Final = logging.getLogger("rag_stdlib")


@dataclass(frozen=True, slots=True)
class _Procedure:
    """What answers, which effects it has, and whether an operator alone may call it."""

    work: Callable[[Desk, Params, str | None], Any]
    effects: tuple[Effect, ...] = (RAG_READ,)
    operator: bool = False


_READS: Final[Mapping[str, _Procedure]] = {
    "describe_corpus": _Procedure(answering.describe_corpus),
    "answer_query": _Procedure(answering.answer_query),
    "get_chunk_by_id": _Procedure(reading.get_chunk_by_id),
    "get_document_verbatim": _Procedure(reading.get_document_verbatim),
    "list_sources_page": _Procedure(reading.list_sources_page),
    "list_chunks_by_source": _Procedure(reading.list_chunks_by_source),
    "get_source_by_id": _Procedure(reading.get_source_by_id),
    "rerank_results": _Procedure(rerank.rerank_results, effects=()),
    "ingest_status": _Procedure(status.ingest_status),
}
_OPERATORS_WRITES: Final[Mapping[str, _Procedure]] = {
    "upload_knowledge": _Procedure(writing.upload_knowledge, (RAG_WRITE,), operator=True),
    "prune_chunks": _Procedure(writing.prune_chunks, (RAG_WRITE,), operator=True),
    "retire_document": _Procedure(writing.retire_document, (RAG_WRITE,), operator=True),
}
_DEPOSITS: Final[Mapping[str, _Procedure]] = {"add_knowledge": _Procedure(writing.add_knowledge, (RAG_WRITE,))}


class Provider:
    """Serves an index. Safe to use from many threads."""

    def __init__(
        self,
        runtime: Runtime,
        index: str,
        *,
        org: str,
        key: NodeKey | None = None,
        list_file: str | None = None,
        regime: Regime = "pinned",
        operators: Iterable[str] = (),
        deposits: Deposits = "off",
    ) -> None:
        """Serve the index at `index`, a path below the runtime's root, under the organisation `org`; nothing is opened yet.

        Args:
            runtime: Root, configuration and embedder; who closes it is who made it.
            index: The index file; one that is not there yet is refused as `store_opening` until it is.
            org: The first part of every procedure's name, or ``~<node id>`` for the node's own namespace.
            key: The node's key, which signs the corpus; without one, a signature that the index keeps is handed out. Callers count it
                where it is that of the node that serves, and refuse every answer where it is another's.
            list_file: The corpus list, a path below the root: a broken one refuses every description.
            regime: The rules of that list.
            operators: Node ids (64 hex digits, any case) of those who may upload, prune and retire; nobody by default.
            deposits: ``open`` lets every caller leave texts beside the corpus by add_knowledge; ``off`` does not serve it.

        Raises:
            Failure: `config_invalid`.
        """
        _check(org, regime, deposits)
        try:
            self._operators = gate.parse(operators)
        except gate.NotANodeId as error:
            raise fail("config_invalid", where="Provider", detail=str(error)) from None
        self.org = org
        self._key = key
        self._desk = Desk(runtime, index, CorpusList(runtime, list_file, regime), Signer(key))
        self._procedures = {**_READS, **_OPERATORS_WRITES, **(_DEPOSITS if deposits == "open" else {})}

    @property
    def procedures(self) -> tuple[str, ...]:
        """The names that are served, without the organisation."""
        return tuple(self._procedures)

    def handle(self, name: str, payload: object, caller: str | None = None) -> Value:
        """Answer a call of the procedure `name` (without the organisation); `caller` is the node id that the transport verified.

        Raises:
            Refusal: by the contract's names (RAG service contract §1.6), and nothing else: a defect is `internal`, and logged.
        """
        procedure, verified = self._procedures.get(name), _node_id(caller)
        if procedure is None:
            raise Refusal("unknown_method", name)
        if procedure.operator:
            self._operators.require(verified)
        try:
            with authority():
                error = refusal(name, procedure.effects, self._desk.runtime.config.grant)
                if error is not None:
                    raise Failure(error)
                return replies.within_bounds(procedure.work(self._desk, Params(payload), verified))
        except Refusal:
            raise
        except Failure as failure:
            raise refused(name, failure) from None
        except Exception:  # noqa: BLE001 - a caller is refused, whatever happens; the traceback goes to the log
            _LOG.exception("%s failed unexpectedly", name)
            raise Refusal("internal") from None

    async def serve(self, transport: Transport, *, confidential: Confidential | None = None) -> Serving:
        """Advertise every procedure as ``<org>/<name>`` and answer its calls, in this context's grant, until the result is stopped.

        All are registered at the same time, so that it takes about as long as one. `confidential` is the mode of sealing, on a mesh
        that has such; None leaves it to the mesh.

        Raises:
            CallError: the mesh does not let this node serve one of them; then none is served.
            Failure: `config_invalid` for a key that is not the transport's: no caller could count its signatures as this node's.
        """
        if self._key is not None and self._key.node_id != transport.node_id:
            raise fail("config_invalid", where="Provider", detail=f"the key is of the node {self._key.node_id}, and {transport.node_id} is to serve")
        starts = [asyncio.ensure_future(served(transport, f"{self.org}/{name}", self._handler(name), confidential)) for name in self._procedures]
        try:
            await asyncio.gather(*starts, return_exceptions=True)  # each comes to its end, also where another fails
            return Serving(tuple(start.result() for start in starts))
        except BaseException:
            came_up = tuple(start.result() for start in starts if not start.cancelled() and start.exception() is None)
            with suppress(CallError):  # what went wrong first is what is told
                await Serving(came_up).stop()
            raise

    def _handler(self, name: str) -> Callable[[Request], object]:
        def answer(request: Request) -> object:
            return self.handle(name, request.payload, request.caller)

        return answer


class Serving:
    """Procedures that are being served."""

    def __init__(self, served: tuple[Served, ...]) -> None:
        """Hold them."""
        self._served = served

    async def stop(self) -> None:
        """Withdraw them all; once this has returned, none of their handlers runs. Calling it again is harmless.

        Raises:
            CallError: one of them could not be withdrawn; the others are.
        """
        ended = await asyncio.gather(*(served.stop() for served in self._served), return_exceptions=True)
        for outcome in ended:
            if outcome is not None:
                raise outcome


def _node_id(caller: str | None) -> str | None:
    """Return a caller's node id in lower case; None for what is no node id, and so was verified by nobody."""
    try:
        return checked_node(caller) if caller is not None else None
    except InvalidCall:
        return None


def _check(org: str, regime: str, deposits: str) -> None:
    try:
        for name in (*_READS, *_OPERATORS_WRITES, *_DEPOSITS):
            checked_procedure(f"{checked_org(org)}/{name}")
    except InvalidCall as error:
        raise fail("config_invalid", where="Provider", detail=str(error)) from None
    for name, value, allowed in (("regime", regime, REGIMES), ("deposits", deposits, get_args(Deposits))):
        if value not in allowed:
            raise fail("config_invalid", where="Provider", detail=f"{name} is {value!r}, not one of {', '.join(allowed)}")
