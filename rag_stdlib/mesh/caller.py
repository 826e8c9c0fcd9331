"""A caller of RAG services: it asks a provider, and hands out no reply without the judgement on it.

To name a provider is to pin it. Only then can an answer come out as signed, since only then is it known who answered (RAG service contract
§3.4). A reply that is not what was asked for, or whose content is not what its own provenance names, is no reply but an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final

from rag_stdlib.contract import loose
from rag_stdlib.contract.answers import Answer, RefusedAnswer, check_answer, unchecked_answer
from rag_stdlib.contract.cbor import Value
from rag_stdlib.contract.corpus import verify_corpus
from rag_stdlib.contract.hits import valid_provenance, verify_hit
from rag_stdlib.contract.verdicts import Refused, Signed, Unsigned
from rag_stdlib.mesh.errors import CallError, CallTimeout, InvalidCall, ReplyRefused
from rag_stdlib.mesh.transport import CALL_TIMEOUT_S, PinnedReply, Transport, checked_node, checked_org, checked_seconds

QUESTION_TIMEOUT_S: Final = 30.0  # a provider may have to load its embedding model first
MAX_TOP_K: Final = 100
PAGE: Final = 200  # rows of a listing that are asked for at a time, the most that a provider gives
MAX_SOURCES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Described:
    """A provider's description of its corpus as it came, and what the check of it found."""

    description: Value
    verdict: Signed | Unsigned | Refused


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk whose content is what its provenance names."""

    chunk_id: str
    content: str
    provenance: Mapping[str, object]
    meta: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Document:
    """A document whose bytes are those that its provenance names."""

    source_path: str
    raw_bytes: bytes
    provenance: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Source:
    """A row of a provider's listing; what else it holds than path and provenance is in `row`."""

    source_path: str
    provenance: Mapping[str, object]
    row: Mapping[str, object]


class Caller:
    """Asks the RAG services of one organisation, or of one node's own namespace, over a transport.

    Everything raises `CallError` where the call comes to nothing: `InvalidCall` for what no provider could be asked, `NoProvider`,
    `RelayError`, `ProviderError`, `CallTimeout`, `PayloadRefused`, and `ReplyRefused` for a reply that cannot be used.
    """

    def __init__(self, transport: Transport, org: str) -> None:
        """Call ``<org>/answer_query`` and its like; `InvalidCall` for what is no organisation."""
        self._transport = transport
        self._org = checked_org(org)

    async def ask(
        self, query: str | None = None, *, provider: str | None = None, vector: Sequence[float] | None = None, top_k: int = 10,
        topics: Iterable[str] = (), timeout_s: float = QUESTION_TIMEOUT_S,
    ) -> Answer:
        """Ask one question and judge the answer together with the provider's description of its corpus.

        Args:
            query: The question; the provider embeds it.
            provider: The node to ask, 64 hex digits. Without one any provider answers, and the answer is at best unsigned.
            vector: The question as a vector of the provider's model in the query role. It wins over `query`.
            top_k: How many hits, 1 to 100.
            topics: Hits of documents with any of these topics only (a text is one topic); all where there are none.
            timeout_s: For everything together.

        Returns:
            A signed or unsigned answer with each hit marked, or a `RefusedAnswer` with the reason and the hits unmarked. It is
            ``unchecked`` where the description could not be had, and ``not_the_answering_corpus`` where the answer names another
            corpus than the one described, also after the description was asked for again (it may have moved in between).

        Raises:
            CallError: The question itself failed.
        """
        question = _question(query, vector, top_k, topics)
        node = None if provider is None else checked_node(provider)
        time = _Time(timeout_s)
        describing = asyncio.create_task(self._description(node, time))
        try:
            answer = await self._reply("answer_query", question, node, time)
            judged = self._judged(await describing, answer, node)
        finally:
            await _ended(describing)
        if isinstance(judged, RefusedAnswer) and judged.reason.reason == "not_the_answering_corpus":
            judged = self._judged(await self._description(node, time), answer, node)
        return judged

    async def describe_corpus(self, provider: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Described:
        """Ask a provider which corpus it serves, and check whether it signed that."""
        node = checked_node(provider)
        description = await self._reply("describe_corpus", None, node, _Time(timeout_s))
        return Described(description, verify_corpus(description, node, self._transport.profile))

    async def get_chunk(self, provider: str, chunk_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Chunk:
        """Fetch a chunk by its id."""
        reply = await self._reply("get_chunk_by_id", {"chunk_id": chunk_id}, checked_node(provider), _Time(timeout_s))
        _check_name(reply, "chunk_id", chunk_id)
        content = loose.text(loose.field(reply, "content"))
        if content is None:
            raise ReplyRefused("malformed_reply", f"the chunk {chunk_id!r} comes without content")
        provenance = _check_content(reply, content, f"chunk {chunk_id!r}")
        return Chunk(chunk_id, content, provenance, _plain(loose.field(reply, "meta")))

    async def get_document(self, provider: str, source_path: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Document:
        """Fetch a document as it is stored, byte for byte."""
        reply = await self._reply("get_document_verbatim", {"source_path": source_path}, checked_node(provider), _Time(timeout_s))
        _check_name(reply, "source_path", source_path)
        raw = loose.field(reply, "raw_bytes")
        if not isinstance(raw, bytes):
            raise ReplyRefused("malformed_reply", f"the document {source_path!r} comes without its bytes")
        return Document(source_path, raw, _check_content(reply, raw, f"document {source_path!r}"))

    async def list_sources(
        self, provider: str, *, most: int = MAX_SOURCES, timeout_s: float = CALL_TIMEOUT_S,
    ) -> AsyncIterator[Source]:
        """List every document of a provider, page after page until an empty one; `timeout_s` is for each page.

        Raises:
            CallError: Also `ReplyRefused` ``endless_listing`` where a provider goes on after `most` rows.
        """
        node, offset = checked_node(provider), 0
        while True:
            page = await self._reply("list_sources_page", {"offset": offset, "limit": PAGE}, node, _Time(timeout_s))
            if not isinstance(page, list) or len(page) > PAGE:
                raise ReplyRefused("malformed_reply", f"the listing at {offset:,} is no page of at most {PAGE} rows")
            if not page:
                return
            if offset + len(page) > most:
                raise ReplyRefused("endless_listing", f"the listing goes on after {most:,} rows")
            for number, row in enumerate(page, offset):
                yield _source(row, number)
            offset += len(page)

    async def _description(self, node: str | None, time: _Time) -> Value | CallError:
        """Ask for the description; a failure is handed back, since it is no failure of the question."""
        try:
            return await self._reply("describe_corpus", None, node, time)
        except CallError as error:
            return error

    async def _reply(self, name: str, payload: object, node: str | None, time: _Time) -> Value:
        procedure = f"{self._org}/{name}"
        left = time.left(procedure)
        if node is None:
            return (await self._transport.call(procedure, payload, timeout_s=left)).value
        reply = await self._transport.call_pinned(procedure, payload, provider=node, timeout_s=left)
        if not isinstance(reply, PinnedReply) or reply.provider != node:
            raise ReplyRefused("unbound_reply", f"the reply to {procedure} is not that of the node {node}")
        return reply.value

    def _judged(self, description: Value | CallError, answer: Value, node: str | None) -> Answer:
        if isinstance(description, CallError):
            return unchecked_answer(answer, str(description), provider=node)
        return check_answer(description, answer, provider=node, profile=self._transport.profile)


class _Time:
    """What is left of the time for several calls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = checked_seconds(seconds)
        self._end = asyncio.get_running_loop().time() + self._seconds

    def left(self, procedure: str) -> float:
        left = self._end - asyncio.get_running_loop().time()
        if left <= 0:
            raise CallTimeout(procedure, self._seconds)
        return left


async def _ended(task: asyncio.Task[Value | CallError]) -> None:
    """Leave no task behind."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _question(query: str | None, vector: Sequence[float] | None, top_k: int, topics: Iterable[str]) -> dict[str, object]:
    if query is None and vector is None:
        raise InvalidCall("a question is a text, a vector, or both")
    if query is not None and not isinstance(query, str):
        raise InvalidCall(f"a question is text, not {type(query).__name__}")
    if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
        raise InvalidCall(f"top_k is an integer from 1 to {MAX_TOP_K}")
    question: dict[str, object] = {"top_k": top_k}
    if query is not None:
        question["query_text"] = query
    if vector is not None:
        question["query_vector"] = _numbers(vector)
    wanted = _items([topics] if isinstance(topics, str) else topics, "topics")
    if not all(isinstance(topic, str) for topic in wanted):
        raise InvalidCall("topics are texts")
    if wanted:
        question["topics"] = wanted
    return question


def _numbers(vector: object) -> list[float]:
    try:
        numbers = [float(number) if isinstance(number, Real) and not isinstance(number, bool) else math.nan
                   for number in _items(vector, "a vector")]
    except OverflowError:
        numbers = []
    if not numbers or not all(map(math.isfinite, numbers)) or isinstance(vector, (bytes, bytearray, Mapping, set, frozenset)):
        raise InvalidCall("a vector is one finite number or more, in order")
    return numbers


def _items(value: object, what: str) -> list[object]:
    if not isinstance(value, Iterable):
        raise InvalidCall(f"{what} cannot be of type {type(value).__name__}")
    return list(value)


def _check_name(reply: Value, name: str, asked: str) -> None:
    if loose.text(loose.field(reply, name)) != asked:
        raise ReplyRefused("malformed_reply", f"{asked!r} was asked for, and the reply has another {name}, or none")


def _check_content(reply: Value, content: str | bytes, what: str) -> dict[str, object]:
    """Return the provenance of a content that is what it names."""
    provenance = loose.field(reply, "provenance")
    verdict = verify_hit({"content": content, "provenance": provenance})
    if not verdict:
        raise ReplyRefused(str(verdict), f"the {what} does not bear out its provenance")
    return _plain(provenance)


def _source(row: Value, number: int) -> Source:
    path, provenance = loose.text(loose.field(row, "source_path")), loose.field(row, "provenance")
    if path is None or not valid_provenance(provenance):
        raise ReplyRefused("malformed_reply", f"row {number:,} of the listing has no path, or no provenance")
    return Source(path, _plain(provenance), _plain(row))


def _plain(value: object) -> dict[str, object]:
    """Write a map with its keys and strings as text, at any depth; an empty one where there is no map."""
    written = _written(loose.loosened(value))
    return written if isinstance(written, dict) else {}


def _written(value: object) -> object:
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    text = loose.text(value)
    return value if text is None else text
