"""What is known of the shards: the summary that each last published, by the node id that the mesh verified (RAG service contract §4.7).

A payload is never asked who it is from: `shard_id` is a label, two nodes may use the same one, and a withdrawal takes away the summary of
its publisher whatever id it names. How old a summary is goes by when it was heard here, and `at_ms` of another node's clock plays no part.

Any node of the realm may publish on the topics, so what is kept has a bound. Where it is reached, newcomers are passed over and the
shards known already stay.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from rag_stdlib.mesh.federation.clock import Clock
from rag_stdlib.mesh.federation.payloads import Embedding, Summary, read_summary, read_withdrawn

SUMMARY_BYTES: Final = 1024 * 1024  # of one summary; a filter of 100,000 entries at one in a hundred takes 120 kB
DIRECTORY_BYTES: Final = 256 * 1024 * 1024

_ENTRY: Final = 1_024  # bytes of an entry beside its texts and its filter
_TEXT: Final = 64  # of a text beside its characters
_LOG: Final = logging.getLogger("rag_stdlib")


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that is known: its node id, and what it says about itself. `published_at` is its own clock's, in ms since 1970."""

    node_id: str
    shard_id: str
    embedding: Embedding
    topics: tuple[str, ...]
    bloom: bytes
    published_at: int


@dataclass(frozen=True, slots=True)
class _Heard:
    summary: Summary
    at: float
    size: int


class Directory:
    """The summaries of other nodes and this node's own."""

    def __init__(self, clock: Clock, stale_s: float) -> None:
        """Know nobody; by `clock`, a summary that is older than `stale_s` seconds counts no more."""
        self.stale_s = stale_s
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._size = 0
        self._own: tuple[str, Summary] | None = None

    def hear_summary(self, publisher: str, payload: object) -> None:
        """Take in a summary; one that is malformed or oversized is passed over."""
        summary = read_summary(payload)
        if summary is None:
            _LOG.debug("the node %s published a malformed summary", publisher)
            return
        size = _size(summary)
        if not fits(summary):
            _LOG.warning("the node %s published a summary of more than %d bytes", publisher, SUMMARY_BYTES)
            return
        self._forget(publisher)
        if self._size + size > DIRECTORY_BYTES:
            self._prune()
        if self._size + size > DIRECTORY_BYTES:
            _LOG.warning("the directory of shards is full; the summary of the node %s is passed over", publisher)
            return
        self._heard[publisher] = _Heard(summary, self._clock.monotonic(), size)
        self._size += size

    def hear_withdrawal(self, publisher: str, payload: object) -> None:
        """Forget the publisher's summary; a withdrawal that is malformed is passed over."""
        if read_withdrawn(payload) is None:
            _LOG.debug("the node %s published a malformed withdrawal", publisher)
        else:
            self._forget(publisher)

    def keep_own(self, node: str, summary: Summary) -> None:
        """Keep this node's own summary, which does not get stale."""
        self._own = node, summary

    def drop_own(self) -> None:
        """Forget it."""
        self._own = None

    def summary(self, node: str) -> Summary | None:
        """Return the summary of a node; None where there is none, or where it is stale."""
        if self._own is not None and self._own[0] == node:
            return self._own[1]
        heard = self._heard.get(node)
        return heard.summary if heard is not None and not self._is_stale(heard) else None

    def shards(self) -> list[Shard]:
        """List the shards with a live summary, this node among them while it has one, by node id."""
        self._prune()
        live = {node: heard.summary for node, heard in self._heard.items()}
        if self._own is not None:
            live[self._own[0]] = self._own[1]
        return [Shard(node, some.shard_id, some.embedding, some.topics, some.bloom, some.at_ms) for node, some in sorted(live.items())]

    def _is_stale(self, heard: _Heard) -> bool:
        return self._clock.monotonic() - heard.at > self.stale_s

    def _prune(self) -> None:
        for node in [node for node, heard in self._heard.items() if self._is_stale(heard)]:
            self._forget(node)

    def _forget(self, node: str) -> None:
        heard = self._heard.pop(node, None)
        self._size -= heard.size if heard is not None else 0


def fits(summary: Summary) -> bool:
    """Tell whether a summary is small enough to be kept."""
    return _size(summary) <= SUMMARY_BYTES


def _size(summary: Summary) -> int:
    """Return about how many bytes a summary takes in memory."""
    texts = summary.shard_id, summary.embedding.model, *summary.topics
    return _ENTRY + len(summary.bloom) + sum(_TEXT + 4 * len(text) for text in texts)
