"""The scores of one query over one snapshot, computed once, asked for the best k: from memory where it may, else from the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import apsw
import numpy as np

from rag_stdlib.index import bm25, fusion, scan
from rag_stdlib.index.collection import Moments, Wider
from rag_stdlib.index.filters import Filters, allowed_chunks
from rag_stdlib.index.fusion import Ranked, Words
from rag_stdlib.index.quantize import Asked
from rag_stdlib.index.resident.cache import RESIDENTS, Limits, State, Wanted
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.resident.words import ResidentWords
from rag_stdlib.index.scratch import ROOM
from rag_stdlib.index.snapshot import Snapshot
from rag_stdlib.index.sql import number, numbers
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.records import Mode

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Vector: TypeAlias = npt.NDArray[np.float32]
    Seqs: TypeAlias = npt.NDArray[np.int64]

_FEW: Final = 8  # of so many rows, one or less allowed: scanning those alone is quicker
_SCORE_BYTES: Final = 64 * 1024 * 1024  # of the scores that queries answered together hold at once
_TOGETHER: Final = 32  # queries in one matrix product


@dataclass(frozen=True, slots=True)
class Question:
    """The terms of a query that count and, where vectors do, its unit vector."""

    terms: tuple[tuple[str, bool], ...]
    vector: Vector | None


class Ranking:
    """What a query's scores are, by row; `seqs` names the chunk of each row."""

    def __init__(self, seqs: Seqs, live: npt.NDArray[np.bool_] | None, allowed: Seqs | None, mode: Mode, words: Words,
                 scanned: scan.Scan | None) -> None:
        """`allowed` are the rows that may answer, ascending, `live` those that count (None: all)."""
        self.seqs = seqs
        self._live, self._allowed, self._mode = live, allowed, mode
        self._words, self._scan = words, scanned
        self._by: tuple[Moments, Moments] | None = None

    def among(self, wider: Wider | None) -> Ranking:
        """Rank by the moments of a wider collection, in whose words the chunks are scored already; returns itself."""
        self._by = wider.moments if wider is not None else None
        return self

    @property
    def vector_moments(self) -> Moments:
        """The scores by vectors, summed up over all chunks."""
        return fusion.vector_moments(self._scan, self._live) if self._scan is not None else Moments(0, 0, 0)

    @property
    def word_moments(self) -> Moments:
        """BM25, summed up over all chunks; of a ranking in mode hybrid."""
        return fusion.word_moments(self._words)

    def best(self, k: int) -> Ranked:
        """Return all rows that can be among the best k, ties with the last included."""
        if self._scan is None:
            passing = None if self._allowed is None else _mask(self._allowed, len(self.seqs))
            return fusion.best_lexical(self._words, passing, k)
        allowed = self._allowed
        if allowed is None and self._live is not None:
            allowed = np.flatnonzero(self._live)
        if self._mode == "vector":
            return fusion.best_vector(self._scan, allowed, k)
        return fusion.best_hybrid(self._scan, self._live, allowed, self._words, k, self._by)


def rankings(snapshot: Snapshot, questions: Sequence[Question], mode: Mode, filters: Filters,
             limits: Limits | None, approximate: int = 0, wider: Wider | None = None) -> Iterator[Ranking]:
    """Rank for each question in turn; with several, their vectors are scored together. Each ranking is good until the next is asked for.

    Without `limits`, nothing is kept in memory. `wider` is the collection that the index is a part of, with its counts for the one
    question that there is.

    `approximate` is the number of hits for which a search by signs may do, 0 for an exact search.
    """
    dim = 0 if mode == "lexical" or questions[0].vector is None else len(questions[0].vector)
    state = None
    if limits is not None:
        wanted = Wanted(dim, mode != "vector", bool(approximate))
        state = RESIDENTS.state(snapshot, wanted, limits, several=len(questions) > 1 or wider is not None)
    if state is None:
        seqs = None if filters.empty else allowed_chunks(snapshot.connection, filters)
        for question in questions:
            yield _from_file(snapshot, question, mode, seqs, wider).among(wider)
        return
    allowed = None if filters.empty else state.passing.rows(snapshot.connection, filters, state.rows, state.generation)
    if approximate:
        for question in questions:
            yield _by_signs(snapshot.connection, state, question, allowed, approximate)
        return
    group = max(1, min(_TOGETHER, _SCORE_BYTES // (8 * max(1, len(state.rows)))))
    for start in range(0, len(questions), group):
        for ranking in _from_memory(snapshot.connection, state, questions[start:start + group], mode, allowed, wider):
            yield ranking.among(wider)


def _mask(rows: Seqs, size: int) -> npt.NDArray[np.bool_]:
    """Mark some rows of so many."""
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _from_memory(connection: apsw.Connection, state: State, questions: Sequence[Question], mode: Mode,
                 allowed: Seqs | None, wider: Wider | None) -> Iterator[Ranking]:
    among = wider.words if wider is not None else None
    asked = [Asked.of(question.vector) for question in questions if question.vector is not None and mode != "lexical"]
    few = mode == "vector" and allowed is not None and len(allowed) * _FEW <= len(state.rows)
    with ROOM.floats(len(asked) * len(state.rows) if not few else 0) as room:
        scores = room.reshape(len(asked), -1) if asked else room
        if asked and not few and state.codes is not None:
            state.codes.score(asked, scores)
        for place, question in enumerate(questions):
            words = Words(np.empty(0, np.int64), np.empty(0), state.rows.live)
            if state.words is not None and mode != "vector":
                words = Words(*state.words.score(connection, question.terms, among), state.rows.live)
            if not asked:
                yield Ranking(state.rows.seqs, state.rows.alive, allowed, mode, words, None)
            elif few and allowed is not None:
                scanned = scan.of_some(connection, state, asked[place], allowed)
                yield Ranking(state.rows.seqs[allowed], None, None, mode, words, scanned)
            else:
                scanned = scan.of_state(connection, state, asked[place], scores[place])
                yield Ranking(state.rows.seqs, state.rows.alive, allowed, mode, words, scanned)


def _by_signs(connection: apsw.Connection, state: State, question: Question, allowed: Seqs | None, limit: int) -> Ranking:
    assert state.signs is not None  # noqa: S101 - asked for when the state was
    assert question.vector is not None  # noqa: S101 - an approximate search is by vectors
    asked = Asked.of(question.vector)
    passing = state.rows.alive if allowed is None else _mask(allowed, len(state.rows))
    rows = state.signs.nearest(asked, limit, passing)
    return Ranking(state.rows.seqs[rows], None, None, "vector", Words(rows[:0], np.empty(0), state.rows.live),
                   scan.of_some(connection, state, asked, rows))


def _scored(connection: apsw.Connection, terms: tuple[tuple[str, bool], ...], wider: Wider | None) -> tuple[Seqs, Floats]:
    """Score the chunks that hold a term: seqs ascending, and BM25."""
    if wider is None:
        return bm25.scores(connection, terms)
    ((listed,),) = sql_rows(connection, "SELECT group_concat(seq) FROM rag_chunks")
    rows = Rows.of(np.sort(numbers(listed)))
    positions, scores = ResidentWords.read(connection, rows, 0, 0).score(connection, terms, wider.words)
    if positions is None:
        positions = np.flatnonzero(scores)
        scores = scores[positions]
    order = np.argsort(positions)
    return rows.seqs[positions[order]], scores[order]


def _from_file(snapshot: Snapshot, question: Question, mode: Mode, allowed: Seqs | None, wider: Wider | None) -> Ranking:
    connection = snapshot.connection
    seqs, scores = _scored(connection, question.terms, wider) if mode != "vector" else (np.empty(0, np.int64), np.empty(0))
    if question.vector is None or mode == "lexical":
        rows = None if allowed is None else np.flatnonzero(np.isin(seqs, allowed))
        return Ranking(seqs, None, rows, mode, Words(np.arange(len(seqs)), scores, 0), None)
    all_seqs, scanned = scan.of_file(connection, Asked.of(question.vector), by_codes=mode == "hybrid")
    rows = None if allowed is None else np.flatnonzero(np.isin(all_seqs, allowed))
    at = np.searchsorted(all_seqs, seqs)
    if not np.array_equal(all_seqs.take(at, mode="clip") if len(all_seqs) else at, seqs):
        raise apsw.CorruptError("terms are stored of chunks without a vector")
    words = Words(at, scores, number(connection, "SELECT count(*) FROM rag_chunks"))
    return Ranking(all_seqs, None, rows, mode, words, scanned)
