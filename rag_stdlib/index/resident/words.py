"""BM25 over an index whose lengths and postings are in memory, in FTS5's own formula and order of operations.

The constants are those of FTS5's bm25() (https://sqlite.org/fts5.html#the_bm25_function): k1 1.2, b 0.75, and a term in more
than half of the chunks counts 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import apsw
import numpy as np

from rag_stdlib.index.collection import Collection
from rag_stdlib.index.resident.postings import RECENT_ROWS, Posting, Postings, Term
from rag_stdlib.index.resident.rows import Column
from rag_stdlib.index.scratch import ZEROS
from rag_stdlib.index.sql import numbers
from rag_stdlib.index.sql import rows as sql_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.index.resident.rows import Rows

    Floats = npt.NDArray[np.float64]
    Positions = npt.NDArray[np.int64]

_K1: Final = 1.2
_B: Final = 0.75
_LEAST_IDF: Final = 1e-6
_PER_ROW: Final = 20  # bytes: seq, length, norm
_AVERAGES: Final = 1  # the row of rag_lexical_data where FTS5 counts rows and terms


def size(rows: int) -> int:
    """Return how many bytes the lengths of so many rows take."""
    return rows * _PER_ROW


def _added_up(totals: Floats, postings: Sequence[Posting]) -> tuple[Positions, Floats]:
    """Add up gains in `totals`, which is zeros before and after: the rows that have some, and their sums."""
    for posting in postings:
        np.add.at(totals, posting.live, posting.gain)
    rows, sums = [], []
    for posting in postings:  # a row counts where it is met first, since its total is taken away
        part = totals.take(posting.live)
        totals[posting.live] = 0.0
        fresh = np.flatnonzero(part)
        rows.append(posting.live[fresh])
        sums.append(part[fresh])
    return np.concatenate(rows).astype(np.int64), np.concatenate(sums)


def _lengths(connection: apsw.Connection, where: str, bound: Sequence[int] = ()) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Read FTS5's table of lengths: a row's length is one varint, most significant byte first, seven bits in a byte."""
    ((seqs, sizes),) = sql_rows(connection, f"SELECT group_concat(id), group_concat(hex(sz), '') FROM rag_lexical_docsize {where}", bound)
    return numbers(seqs), varints(bytes.fromhex(sizes or ""))


def varints(data: bytes) -> npt.NDArray[np.int64]:
    """Decode SQLite's varints of at most eight bytes, one after the other."""
    octets = np.frombuffer(data, np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 128)  # noqa: PLR2004 - the high bit says that another byte follows
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    values = np.zeros(len(ends), np.int64)
    for place in range(int((ends - starts).max(initial=-1)) + 1):
        at = starts + place
        there = at <= ends
        values[there] = values[there] * 128 + (octets[at[there]] & 127)
    return values


def chunks_and_terms(connection: apsw.Connection) -> tuple[int, int]:
    """Return FTS5's count of rows and of terms."""
    for (record,) in sql_rows(connection, "SELECT block FROM rag_lexical_data WHERE id = ?", (_AVERAGES,)):
        found = varints(bytes(record)).tolist()
        if len(found) == 2:  # noqa: PLR2004 - rows, and the terms of the one column
            return found[0], found[1]
    return 0, 0


@dataclass(frozen=True, slots=True)
class ResidentWords:
    """Lengths and postings of the rows of one generation, which is `stamp`."""

    rows: Rows
    lengths: Column[np.int32]
    norms: Floats
    chunks: int
    postings: Postings
    stamp: int

    @property
    def bytes(self) -> int:
        """The memory it takes, but for the texts' terms of recent rows."""
        return size(len(self.rows)) + self.postings.bytes

    @classmethod
    def read(cls, connection: apsw.Connection, rows: Rows, stamp: int, most_bytes: int) -> ResidentWords:
        """Read the lengths of all rows, none of which is gone, and begin without postings; those to come may take `most_bytes`.

        Raises:
            apsw.CorruptError: lengths of other chunks, or that do not add up to FTS5's own count.
        """
        seqs, lengths = _lengths(connection, "")
        if not np.array_equal(seqs, rows.seqs) or (len(lengths), int(lengths.sum())) != chunks_and_terms(connection):
            raise apsw.CorruptError("the lengths in the lexical index do not add up to its own count")
        return cls._made(connection, rows, Column(lengths.astype(np.int32)), Postings(most_bytes, len(rows)), stamp)

    @classmethod
    def _made(cls, connection: apsw.Connection, rows: Rows, lengths: Column[np.int32], postings: Postings, stamp: int) -> ResidentWords:
        chunks, terms = chunks_and_terms(connection)
        return cls(rows, lengths, _norms(lengths.values, chunks, terms), chunks, postings, stamp)

    def changed(self, connection: apsw.Connection, rows: Rows, stamp: int) -> ResidentWords:
        """Return the words of a later generation, whose `rows` begin with mine; postings go where too much came to add it to them.

        Raises:
            apsw.CorruptError: lengths or texts of other chunks than have come.
        """
        came = rows.seqs[len(self.rows):]
        if not len(came):
            return self._made(connection, rows, self.lengths, self.postings, stamp)
        bound = (int(came[0]), int(came[-1]))
        seqs, more = _lengths(connection, "WHERE id BETWEEN ? AND ?", bound)
        if not np.array_equal(seqs, came):
            raise apsw.CorruptError("the lexical index holds other chunks than there are")
        postings = self.postings
        if postings.recent(len(rows)) > RECENT_ROWS:
            postings = postings.anew(len(rows))
        else:
            texts = dict(sql_rows(connection, "SELECT seq, text FROM rag_chunks WHERE seq BETWEEN ? AND ?", bound))
            if texts.keys() != set(came.tolist()):
                raise apsw.CorruptError("the lexical index holds other chunks than there are")
            postings.add_recent((texts[seq] for seq in came.tolist()), len(self.rows))
        return self._made(connection, rows, self.lengths.appended(more), postings, stamp)

    def holding(self, connection: apsw.Connection, terms: Sequence[Term]) -> tuple[int, ...]:
        """Count the chunks that hold each term."""
        postings = [self.postings.get(connection, term, self.rows, self.stamp).rows for term in terms]
        return tuple(len(rows) if self.rows.alive is None else int(self.rows.alive[rows].sum()) for rows in postings)

    def score(self, connection: apsw.Connection, terms: Sequence[Term], wider: Collection | None = None) -> tuple[Positions | None, Floats]:
        """Score the chunks that hold a term: their rows, in no order, and BM25; or None and every row's, where many hold one.

        `wider` is the collection that the chunks are a part of, with its counts for these terms; by default they are all there is.
        """
        if wider is None:
            found = [self._weighed(connection, term) for term in terms]
        else:
            found = [self._weighed_in(wider, connection, term, holding) for term, holding in zip(terms, wider.holding, strict=True)]
        if not found:
            return np.empty(0, np.int64), np.empty(0)
        many = sum(len(self.rows) if posting.spread is not None else len(posting.live) for posting in found) > len(self.rows) // 2
        if len(found) == 1 and not many:
            return found[0].live.astype(np.int64), found[0].gain
        if many:
            totals = np.zeros(len(self.rows))
            for posting in found:
                if posting.spread is not None:
                    totals += posting.spread
                else:
                    np.add.at(totals, posting.live, posting.gain)
            return None, totals
        with ZEROS.floats(len(self.rows)) as totals:
            return _added_up(totals, found)

    def _weighed(self, connection: apsw.Connection, term: Term) -> Posting:
        """Return a posting with its gains in this generation."""
        posting = self.postings.get(connection, term, self.rows, self.stamp)
        if posting.stamp != self.stamp:
            rows, times = self._there(posting)
            posting = replace(self._gaining(posting, rows, _gain(times, _weight(self.chunks, len(rows)), self.norms[rows])), stamp=self.stamp)
            self.postings.put(term, posting)
        return posting

    def _weighed_in(self, wider: Collection, connection: apsw.Connection, term: Term, holding: int) -> Posting:
        """Return a posting with its gains in a wider collection, in which so many chunks hold the term."""
        posting = self.postings.get(connection, term, self.rows, self.stamp)
        rows, times = self._there(posting)
        norms = _norms(self.lengths.values[rows], wider.chunks, wider.terms)
        return self._gaining(posting, rows, _gain(times, _weight(wider.chunks, holding), norms))

    def _there(self, posting: Posting) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        """Return the rows of a posting that are still there, and how often each holds the term."""
        if self.rows.alive is None:
            return posting.rows, posting.times
        there = self.rows.alive[posting.rows]
        return posting.rows[there], posting.times[there]

    def _gaining(self, posting: Posting, rows: npt.NDArray[np.int32], gain: Floats) -> Posting:
        """Return a posting with the gain of each of the rows: of all rows where most are among them."""
        if len(rows) <= len(self.rows) // 2:
            return replace(posting, live=rows, gain=gain, spread=None)
        spread = np.zeros(len(self.rows))
        spread[rows] = gain
        return replace(posting, live=rows[:0], gain=gain[:0].copy(), spread=spread)


def _norms(lengths: npt.NDArray[np.int32], chunks: int, terms: int) -> Floats:
    """Return what the length of each chunk adds below the fraction of BM25, in a collection of so many chunks and terms."""
    average = terms / chunks if chunks else 1.0
    norms: Floats = _K1 * ((1.0 - _B) + _B * lengths.astype(np.float64) / (average or 1.0))
    return norms


def _gain(times: npt.NDArray[Any], weight: float, norms: Floats) -> Floats:
    """Return the gains of chunks that hold a term so many times each."""
    often = times.astype(np.float64)
    gain: Floats = weight * ((often * (_K1 + 1.0)) / (often + norms))
    return gain


def _weight(chunks: int, holding: int) -> float:
    """The inverse document frequency of a term that so many of the chunks hold."""
    if holding > chunks:
        raise apsw.CorruptError("a term is stored of more chunks than the lexical index counts")
    weight = math.log((chunks - holding + 0.5) / (holding + 0.5))
    return weight if weight > 0.0 else _LEAST_IDF
