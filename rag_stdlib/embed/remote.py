"""What the embedders over HTTP share: deadline, retries, batches, judging replies, learning the dimension."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import httpx
import numpy as np

from rag_stdlib.embed.announce import announced
from rag_stdlib.embed.batching import Limits, embed_in_batches
from rag_stdlib.embed.faults import Fault
from rag_stdlib.embed.inputs import name_text, prepare
from rag_stdlib.embed.process import PerProcess
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.embed.replies import BadReply, json_object, unit_rows
from rag_stdlib.embed.retry import Deadline, Pacing
from rag_stdlib.embed.service import Service
from rag_stdlib.embed.settings import EmbedderSettings
from rag_stdlib.embed.wire import CONNECT_S, Line, Reply, WireError
from rag_stdlib.errors import fail

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

C = TypeVar("C")
_PROBE: Final = "dimension probe"


class RemoteEmbedder(ABC, Generic[C]):
    """An embedder behind an HTTP endpoint; a provider supplies its official client, a request and where vectors stand.

    Safe from several threads and after a fork. All of one embed() call ends within `timeout_s`.
    """

    def __init__(self, settings: EmbedderSettings, *, api_key: str | None, pacing: Pacing | None = None) -> None:
        """Keep the settings; nothing is imported or opened. A Failure `config_invalid` for an unusable endpoint or key."""
        self._settings = settings
        self._api_key = _header_safe(api_key, settings.provider)
        _check_endpoint(settings.base_url)
        self._pacing = pacing or Pacing()
        self._service = Service(settings.provider, settings.model_name, settings.base_url, settings.timeout_s,
                                (self._api_key,) if self._api_key else ())
        self._dim = settings.dim
        self._probing = threading.Lock()
        self._connected: PerProcess[tuple[Line, httpx.BaseTransport, C]] = PerProcess(self._connect)

    @abstractmethod
    def _client(self, transport: httpx.BaseTransport, timeout: httpx.Timeout) -> C:
        """Make the provider's client, without retries of its own, over this transport."""

    @abstractmethod
    def _post(self, client: C, texts: list[str]) -> None:
        """Send the one request that embeds these texts."""

    @abstractmethod
    def _vectors(self, payload: dict[str, Any], asked: int) -> Sequence[Any]:
        """Take the vectors from the reply, in the order of the texts; raises BadReply."""

    @property
    def remote(self) -> bool:
        """Texts leave the machine, or at least the process."""
        return True

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:
        """See `Embedder.identity`: where no dimension is configured, learnt or stored, one probe text is embedded."""
        if self._dim is None and stored is not None and self._identity(stored.dim) == stored:
            return stored
        if self._dim is None:
            with self._probing:
                if self._dim is None:
                    self.embed([_PROBE], "passage")
        return self._identity(self._dim or 0)

    def _identity(self, dim: int) -> EmbedderIdentity:
        query_prefix, passage_prefix = self._settings.prefixes
        return EmbedderIdentity(self._settings.provider, self._settings.model_name, dim,
                                query_prefix=query_prefix, passage_prefix=passage_prefix)

    @announced(lambda self: f"{self._settings.provider}/{self._settings.model_name}")
    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """See `Embedder.embed`; no texts make no request."""
        prepared = prepare(texts, role, self._settings.prefixes)
        if not prepared:
            return np.zeros((0, self._dim or 0), dtype=np.float32)
        deadline = Deadline(self._settings.timeout_s, self._pacing)
        dim = self._dim

        def name(position: int) -> str:
            return name_text(texts, position, self._service.secrets)

        def send(positions: Sequence[int], *, narrowing: bool) -> Matrix | Fault:
            nonlocal dim
            batch = [prepared[position] for position in positions]
            outcome = deadline.run(lambda seconds: self._request(batch, seconds, narrowing=narrowing))
            if isinstance(outcome, Fault):
                return outcome
            rows = self._rows(outcome, dim, positions, name)
            dim = rows.shape[1]
            return rows

        rows = embed_in_batches(prepared, send, Limits(self._settings.batch_count), name)
        self._dim = rows.shape[1]
        return rows

    def close(self) -> None:
        """Close the connections of this process; a later call opens new ones."""
        connected = self._connected.take()
        if connected is not None:
            connected[1].close()

    def _connect(self) -> tuple[Line, httpx.BaseTransport, C]:
        line = Line(self._settings.base_url)
        timeout = httpx.Timeout(self._settings.timeout_s, connect=min(CONNECT_S, self._settings.timeout_s))
        return line, line.transport, self._client(line.transport, timeout)

    def _request(self, texts: list[str], seconds: float, *, narrowing: bool) -> Reply | Fault:
        try:
            line, _, client = self._connected.get()
            reply = line.exchange(lambda: self._post(client, texts), seconds)
        except WireError as error:
            return self._service.of_wire(error)
        return self._service.of_reply(reply, many=len(texts) > 1, narrowing=narrowing) or reply

    def _rows(self, reply: Reply, dim: int | None, positions: Sequence[int], name: Callable[[int], str]) -> Matrix:
        try:
            vectors = self._vectors(json_object(reply.body), len(positions))
            return unit_rows(vectors, asked=len(positions), dim=dim)
        except BadReply as bad:
            where = "" if bad.row is None else f" for {name(positions[bad.row])}"
            raise fail("embedder_reply", provider=self._settings.provider, where=where,
                       detail=self._service.clean(bad.detail)) from None


def _header_safe(api_key: str | None, provider: str) -> str | None:
    # Whitespace around a key comes from files and shells; inside a key it would end up, key and all, in a message.
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise fail("config_invalid", where=f"the API key of {provider}", detail="it holds characters that no HTTP header carries")
    return key or None


def _check_endpoint(endpoint: str) -> None:
    try:
        url = httpx.URL(endpoint)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise fail("config_invalid", where="[rag] endpoint", detail="it must start with http:// or https:// and name a host")
