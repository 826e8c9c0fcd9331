"""What searches must answer, worked out from the stored chunks alone, and the two ways of a search held against it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
from embedder_double import EmbedderDouble

from rag_stdlib import Config, QueryOptions, Runtime, rag_query
from rag_stdlib.index.resident.cache import RESIDENTS, State
from rag_stdlib.text.chunker import embedded_text
from rag_stdlib.text.normalize import index_terms, query_terms

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

PATH = "index.db"
MODES = ("lexical", "vector", "hybrid")
Hit = tuple[str, float, float | None, float | None]  # chunk id, score, lexical score, vector score


def in_memory() -> list[State]:
    """List the states that this process keeps."""
    return [resident._state for resident in RESIDENTS._held.values() if resident._state is not None]


def okapi(counts: Sequence[Mapping[str, int]], lengths: Floats, terms: Iterable[tuple[str, bool]]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """BM25 of every row in FTS5's own order of operations, not rounded, and which rows hold a term."""
    total, scores, held = len(counts), np.zeros(len(counts)), np.zeros(len(counts), bool)
    average = float(lengths.sum()) / total if total else 1.0
    for term, prefix in terms:
        often = np.array([sum(times for word, times in row.items() if word.startswith(term)) if prefix else row.get(term, 0)
                          for row in counts], float)
        holders = int(np.count_nonzero(often))
        if holders:
            idf = math.log((total - holders + 0.5) / (holders + 0.5))
            gain = (idf if idf > 0.0 else 1e-6) * ((often * (1.2 + 1.0)) / (often + 1.2 * (1.0 - 0.75 + 0.75 * lengths / (average or 1.0))))
            scores[often > 0] += gain[often > 0]
            held |= often > 0
    return scores, held


def moments(scores: Floats) -> tuple[float, float]:
    """Mean and deviation of scores in whole millionths."""
    whole = [int(value) for value in np.rint(scores * 1_000_000)]
    total, squares = sum(whole), sum(value * value for value in whole)
    variance = len(whole) * squares - total * total
    return total / (len(whole) * 1_000_000), math.sqrt(variance) / (len(whole) * 1_000_000)


def standard(scores: Floats, sample: Floats) -> Floats:
    mean, deviation = moments(sample)
    return (scores - mean) / deviation if deviation else np.zeros(len(scores))


def coded(rows: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> Floats:
    """The products of the 8-bit codes, summed as Python's whole numbers."""
    unit = float(np.abs(query).max()) / 127
    asked = np.rint(query / np.float32(unit)).astype(int)
    scale = np.abs(rows).max(axis=1) / np.float32(127)
    levels = np.rint(rows / scale[:, None]).astype(int)
    return (levels @ asked).astype(float) * scale.astype(float) * unit


class Stored:
    """Everything that an index holds, read with plain SQL; vectors are made anew from the texts."""

    def __init__(self, file: Path, embedder: EmbedderDouble) -> None:
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
        found: list[Any] = connection.execute("SELECT c.chunk_id, c.doc_id, c.ordinal, c.text, c.context, d.source, d.metadata FROM rag_chunks c "
                                              "JOIN rag_documents d ON d.id = c.doc_id").fetchall()
        connection.close()
        self.keys = [(row[1], row[2]) for row in found]
        self.ids = [row[0] for row in found]
        self.sources = [row[5] for row in found]
        self.metadata = [json.loads(row[6]) for row in found]
        self.counts = [Counter(index_terms(row[3]).split()) for row in found]
        self.lengths = np.array([row.total() for row in self.counts], float)
        texts = [embedded_text(row[4], row[3]) for row in found]
        self.vectors = embedder._inner.embed(texts, "passage") if texts else np.empty((0, embedder.identity().dim), np.float32)
        self._embedder = embedder
        self._scores: dict[str, tuple[Floats, npt.NDArray[np.bool_], Floats, Floats]] = {}

    def _scored(self, query: str) -> tuple[Floats, npt.NDArray[np.bool_], Floats, Floats]:
        """Score every chunk in float64: BM25, whether it holds a word, the cosine, and the sum of both standardised."""
        if query in self._scores:
            return self._scores[query]
        words, held = okapi(self.counts, self.lengths, query_terms(query))
        asked = self._embedder._inner.embed([query], "query")[0]
        cosine = np.zeros(len(self.ids))
        for place in range(len(asked)):
            cosine += self.vectors[:, place].astype(float) * float(asked[place])
        cosine = np.clip(cosine, -1.0, 1.0).round(9)
        fused = (standard(cosine, coded(self.vectors, asked)) + standard(words, words)).round(9)
        self._scores[query] = words, held, cosine, fused
        return self._scores[query]

    def best(self, mode: str, query: str, limit: int, allowed: Sequence[bool] | None = None) -> list[Hit]:
        """Rank every chunk and give the best; a blank query finds nothing."""
        if not query.strip() or not self.ids:
            return []
        words, held, cosine, fused = self._scored(query)
        passing = np.ones(len(self.ids), bool) if allowed is None else np.array(allowed, bool)
        if mode == "lexical":
            final, passing = words.round(9), passing & held
        elif mode == "vector":
            final = cosine
        else:
            final = fused
        order = sorted(np.flatnonzero(passing).tolist(), key=lambda row: (-final[row], self.keys[row]))[:limit]
        return [(self.ids[row], float(final[row]), float(words[row].round(9)) if held[row] and mode != "vector" else None,
                 float(cosine[row]) if mode != "lexical" else None) for row in order]


def hits(query: str, mode: str, limit: int, options: QueryOptions | None = None) -> list[Hit]:
    """Ask the ambient runtime."""
    found = rag_query(PATH, query, limit, options or QueryOptions(mode=mode)).unwrap()  # type: ignore[arg-type]
    assert all(chunk.mode == mode for chunk in found)
    return [(chunk.chunk_id, chunk.score or 0.0, chunk.lexical_score, chunk.vector_score) for chunk in found]


def both(root: Path, embedder: EmbedderDouble, config: Config | None = None) -> tuple[Runtime, Runtime]:
    """Make a runtime that keeps indexes in memory and one that reads the file each time."""
    return tuple(Runtime(config or Config(), root=root, embedder=embedder, resident=resident) for resident in (True, False))  # type: ignore[return-value]


def agree(runtimes: tuple[Runtime, Runtime], root: Path, embedder: EmbedderDouble, queries: Sequence[str], limit: int = 10) -> None:
    """Hold both ways against what the stored chunks alone say, in all modes, bit for bit."""
    stored = Stored(root / PATH, embedder)
    for mode in MODES:
        for query in queries:
            wanted = stored.best(mode, query, limit)
            for runtime in runtimes:
                with runtime:
                    found = hits(query, mode, limit)
                    assert found == wanted, (mode, query, runtime.resident)
