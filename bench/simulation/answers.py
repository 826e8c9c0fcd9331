"""Answers of shards: one real index answers each round once, and every shard's answers are made of that, with texts and scores of its own."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core import english_like

from rag_stdlib import Config, Runtime, rag_ingest
from rag_stdlib.contract.cbor import Value
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.mesh.federation.exchange import Asked, Exchange, Share, read_share
from rag_stdlib.mesh.federation.indexshard import IndexShard
from rag_stdlib.mesh.federation.payloads import Embedding, Hit, ShardAnswer, ShardQuery
from rag_stdlib.mesh.federation.searching import query_vector
from rag_stdlib.mesh.wire import outgoing, pack
from rag_stdlib.records import Mode

DIM: Final = 384
TOP_K: Final = 10
EMBEDDING: Final = Embedding("words-sha256", DIM)

_INDEX: Final = "one.db"
_CHUNK_CHARS: Final = 800
_CHARS: Final = 240_000

Round = tuple[Mode, str]  # a mode, and a round of it


@dataclass(frozen=True)
class Sample:
    """A question, what is sent for it in each round, and what a real index answers."""

    words: str
    vector: tuple[float, ...]
    sent: Mapping[Round, Value]
    answers: Mapping[Round, ShardAnswer]

    def text(self, number: int) -> str:
        """Make a question of its own, of as many terms."""
        return _text(self.words, number)

    def of_shard(self, shard: int, draw: random.Random) -> dict[Round, Value]:
        """Make the answers of a shard; those with hits have the same in every mode."""
        name = f"shard-{shard:05}"
        statistics = self.answers["hybrid", "hits"].statistics
        with_hits = outgoing(ShardAnswer(name, EMBEDDING, self._hits(name, draw), statistics).payload())
        return {key: with_hits if key[1] == "hits" else outgoing(ShardAnswer(name, EMBEDDING, (), answer.statistics).payload())
                for key, answer in self.answers.items()}

    def _hits(self, name: str, draw: random.Random) -> tuple[Hit, ...]:
        scores = sorted((draw.gauss(0.4, 0.1) for _ in range(TOP_K)), reverse=True)
        found = self.answers["hybrid", "hits"].hits
        return tuple({**hit, "id": f"{name}#{place:013x}", "chunk_id": f"{name}#{place:013x}", "content": f"{name} {place} {hit['content'][14:]}",
                      "doc_id": name, "ordinal": place, "score": score}
                     for place, (hit, score) in enumerate(zip(found, scores, strict=True)))


def sample() -> Sample:
    """Ask a real index of some 370 chunks of 800 characters."""
    text = english_like(_CHARS)
    words = " ".join(dict.fromkeys(text[100_000:101_000].lower().replace(".", "").split()[1:5]))
    with tempfile.TemporaryDirectory() as folder, Runtime(Config(), root=Path(folder), embedder=HashingEmbedder(DIM)) as runtime:
        rag_ingest(_INDEX, "document", "docs/document.md", text, _CHUNK_CHARS).unwrap()
        vector = tuple(query_vector(runtime, _text(words, 0)))
        asking = _Asking(IndexShard(runtime, _INDEX), _text(words, 0), vector)
        asking.ask("vector", None)
        for mode in ("lexical", "hybrid"):
            share = asking.ask(mode, Exchange("count"))
            by_words = asking.ask(mode, Exchange("words", share.words)).by_words if mode == "hybrid" else None
            asking.ask(mode, Exchange("hits", share.words, share.by_vector, by_words))
    return Sample(words, vector, asking.sent, asking.answers)


class _Asking:
    """A real index that is asked round after round."""

    def __init__(self, shard: IndexShard, text: str, vector: tuple[float, ...]) -> None:
        self.sent: dict[Round, Value] = {}
        self.answers: dict[Round, ShardAnswer] = {}
        self._shard, self._text, self._vector = shard, text, vector

    def ask(self, mode: Mode, exchange: Exchange | None) -> Share:
        """Ask a round, and return what it adds to the statistics."""
        query = Asked(self._text, mode, None if mode == "lexical" else self._vector, (), exchange).query()
        found = self._shard(query, TOP_K)
        kind = mode, "hits" if exchange is None else exchange.round
        self.sent[kind] = outgoing(ShardQuery(query, TOP_K, EMBEDDING).payload())
        self.answers[kind] = ShardAnswer("sample", EMBEDDING, tuple(map(dict, found.hits)), found.statistics)
        return read_share(found.statistics or {})


def _text(words: str, number: int) -> str:
    return f"{words} q{''.join(chr(97 + int(digit)) for digit in str(number))}"


def size(payload: object) -> int:
    """Count the bytes of a payload by the encoder of the mesh."""
    return len(pack(payload))
