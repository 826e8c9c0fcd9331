"""What becomes of one shard in a question: answered, failed with a reason, or not asked (RAG service contract §4.5).

The reasons are types, each with the contract's name. A refusal that the shard itself answered keeps the shard's word for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from rag_stdlib.mesh.errors import CallError, CallTimeout
from rag_stdlib.mesh.federation.payloads import Embedding, Hit, read_answer


@dataclass(frozen=True, slots=True)
class NoSummary:
    """No live summary of the node is known, so nobody can say what its scores are of; it was not asked."""

    name: ClassVar[str] = "no_summary"

    def __str__(self) -> str:
        """Give the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class EmbeddingMismatch:
    """The shard's summary, or its answer, names another embedding than the one of the node that asks."""

    name: ClassVar[str] = "embedding_mismatch"
    theirs: Embedding

    def __str__(self) -> str:
        """Give the name, and theirs."""
        return f"{self.name}: it is of {self.theirs}"


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The shard had not answered when the time was up."""

    name: ClassVar[str] = "timeout"

    def __str__(self) -> str:
        """Give the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class MalformedAnswer:
    """What the shard answered is below the contract."""

    name: ClassVar[str] = "malformed_answer"

    def __str__(self) -> str:
        """Give the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Crashed:
    """Asking the shard failed by a defect on this side; `reason` is what was raised."""

    name: ClassVar[str] = "crashed"
    reason: str

    def __str__(self) -> str:
        """Give the name, then the reason."""
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call failed, or the shard refused; `error` is that, unchanged, and `name` its word."""

    error: CallError

    @property
    def name(self) -> str:
        """The error's name."""
        return self.error.name

    def __str__(self) -> str:
        """Say what failed."""
        return str(self.error)


Reason: TypeAlias = NoSummary | EmbeddingMismatch | TimedOut | MalformedAnswer | Crashed | CallFailed


@dataclass(frozen=True, slots=True)
class Answered:
    """A shard that answered; each hit carries the `node_id` and `shard_id` of where it is from.

    `statistics` are what it sent beside the hits, None where nothing; `took_ms` is the time since the question and no part of equality.
    """

    node: str
    shard_id: str
    hits: tuple[Hit, ...]
    statistics: Mapping[str, Any] | None = None
    took_ms: float = field(default=0.0, compare=False)

    @property
    def left_out(self) -> int:
        """How many of its hits its reply had no room for, as it says itself; the merged hits may lack them."""
        count = (self.statistics or {}).get("left_out")
        return count if type(count) is int and count > 0 else 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A shard that did not contribute, why, and whether it was asked at all."""

    node: str
    reason: Reason
    asked: bool
    took_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class NotAsked:
    """A shard whose filter says that it holds none of the topics which the query asks for."""

    reason: ClassVar[str] = "topics_absent"
    node: str
    shard_id: str


def judged(node: str, reply: object, ours: Embedding, took_ms: float) -> Answered | Failed:
    """Judge the reply of a node that was asked; hits are marked as its, whatever they said of that themselves."""
    answer = read_answer(reply)
    if answer is None:
        return Failed(node, MalformedAnswer(), asked=True, took_ms=took_ms)
    if answer.embedding != ours:
        return Failed(node, EmbeddingMismatch(answer.embedding), asked=True, took_ms=took_ms)
    hits = tuple({**hit, "node_id": node, "shard_id": answer.shard_id} for hit in answer.hits)
    return Answered(node, answer.shard_id, hits, answer.statistics, took_ms)


def failed(node: str, error: Exception, took_ms: float) -> Failed:
    """Judge a call that came to nothing."""
    reason: Reason = Crashed(f"{type(error).__name__}: {error}".rstrip(": "))
    if isinstance(error, CallTimeout):
        reason = TimedOut()
    elif isinstance(error, CallError):
        reason = CallFailed(error)
    return Failed(node, reason, asked=True, took_ms=took_ms)
