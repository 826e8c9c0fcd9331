"""Many texts as few requests: equal texts once, batches bounded three ways, a failing batch narrowed to its text.

Either every text gets its vector or a Failure is raised; nothing partial is ever returned (R96).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from rag_stdlib.embed.faults import Fault
from rag_stdlib.errors import Failure, fail

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

MAX_TOKENS: Final = 250_000
MAX_BYTES: Final = 8 * 1024 * 1024


class Send(Protocol):
    """Sends the texts at these positions as one request; `narrowing` says that a larger batch has failed."""

    def __call__(self, positions: Sequence[int], *, narrowing: bool) -> Matrix | Fault:
        """Return one row for each position, in order, or what went wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one request (R90): texts, estimated tokens, UTF-8 bytes of the texts."""

    count: int
    tokens: int = MAX_TOKENS
    size: int = MAX_BYTES


def estimated_tokens(size: int) -> int:
    """Estimate the tokens of `size` UTF-8 bytes, as one for every three bytes, rounded up.

    English prose has over four bytes a token, code and CJK text about three; text that tokenises worse is still caught,
    as a request refused for its number of tokens is halved.
    """
    return -(-size // 3)


def split(texts: Sequence[str], positions: Sequence[int], limits: Limits) -> list[list[int]]:
    """Cut `positions` into consecutive batches within the limits; a text beyond a limit by itself is a batch of one."""
    batches: list[list[int]] = []
    tokens = size = 0
    for position in positions:
        length = len(texts[position].encode())
        estimate = estimated_tokens(length)
        full = not batches or len(batches[-1]) >= limits.count
        if full or tokens + estimate > limits.tokens or size + length > limits.size:
            batches.append([])
            tokens = size = 0
        batches[-1].append(position)
        tokens += estimate
        size += length
    return batches


def embed_in_batches(texts: Sequence[str], send: Send, limits: Limits, name: Callable[[int], str]) -> Matrix:
    """Embed `texts` (at least one): float32 (len(texts), dim). Equal texts are sent once (R196).

    `name(position)` names a text in a message. Raises Failure, with the text's name where one text is the cause.
    """
    first: dict[str, int] = {}
    for position, text in enumerate(texts):
        first.setdefault(text, position)
    search = _Search(send, name)
    for text, position in first.items():
        if (length := len(text.encode())) > limits.size:
            raise search.too_large(position, length, limits.size)
    rows = np.concatenate([search.rows(batch) for batch in split(texts, list(first.values()), limits)])
    row_of = {text: row for row, text in enumerate(first)}
    return rows[[row_of[text] for text in texts]]


class _Search:
    """Sends batches, and halves one that fails on its content or length until the text is found.

    A halving costs two requests, so that a text among n is found in O(log n). Where both halves succeed, the fault was
    the batch's size or a passing one, and the halves' rows are the answer.
    """

    def __init__(self, send: Send, name: Callable[[int], str]) -> None:
        self._send = send
        self._name = name
        self._served = False

    def too_large(self, position: int, length: int, most: int) -> Failure:
        """Refuse a text that no request can hold."""
        detail = f"it has {length:,} bytes, and one request holds {most:,}"
        return fail("embedder_input_too_long", provider="the embedder", where=self._name(position), detail=detail)

    def rows(self, batch: Sequence[int]) -> Matrix:
        """Return the rows of one batch."""
        return self._rows(batch, batch)

    def _rows(self, part: Sequence[int], whole: Sequence[int]) -> Matrix:
        outcome = self._send(part, narrowing=len(part) < len(whole))
        if not isinstance(outcome, Fault):
            self._served = True
            return outcome
        if outcome.split == "no":
            raise outcome.failure()
        if len(part) == 1:
            raise self._blame(outcome, part[0], whole)
        middle = len(part) // 2
        return np.concatenate([self._rows(part[:middle], whole), self._rows(part[middle:], whole)])

    def _blame(self, fault: Fault, position: int, whole: Sequence[int]) -> Failure:
        # A server that fails on everything would make the first text look guilty: another one has to succeed first.
        if fault.split == "content" and not self._served and whole[-1] != position:
            witness = self._send(whole[-1:], narrowing=True)
            if isinstance(witness, Fault):
                return fault.failure()
        return fault.failure(self._name(position))
