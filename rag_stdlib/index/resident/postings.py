"""Postings of single terms, read once from FTS5 and kept, the least recently used ones going first.

`fts5vocab` lists every occurrence of a term. Joined into one string inside SQLite, the list costs a tenth of a microsecond an
occurrence and holds no lock of Python's; row by row it would cost four times that.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import apsw
import numpy as np

from rag_stdlib.index.sql import numbers
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.text.normalize import index_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.index.resident.rows import Rows

    Floats = npt.NDArray[np.float64]
    Positions = npt.NDArray[np.int64]

Term = tuple[str, bool]  # as a query has it: the term, and whether it is a prefix
RECENT_ROWS: Final = 2_048  # rows that came later, whose terms are kept beside the postings; beyond, postings are read anew
_BYTE: Final = 255
_LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


@dataclass(slots=True)
class Posting:
    """The rows (ascending) that hold a term among the first `upto`, and how often each does, as read in the generation `born`.

    `gain` is what the score of each row gains by the term, and `live` those rows that are still there, in the generation `stamp`;
    where that is most rows, `spread` is the gain of every row, in their place.
    """

    born: int
    upto: int
    rows: npt.NDArray[np.int32]
    times: npt.NDArray[Any]
    stamp: int = -1
    live: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    gain: Floats = field(default_factory=lambda: np.empty(0))
    spread: Floats | None = None

    @property
    def bytes(self) -> int:
        """The memory it takes, gains included."""
        return self.rows.nbytes * 2 + self.times.nbytes + self.rows.size * 16 + 500


class Postings:
    """The postings kept of one index, shared by the threads of a process."""

    def __init__(self, most_bytes: int, first: int) -> None:
        """Keep up to `most_bytes`; rows from `first` on count as recent."""
        self._most = most_bytes
        self._held = 0
        self._kept: OrderedDict[Term, Posting] = OrderedDict()
        self._recent: dict[str, list[tuple[int, int]]] = {}
        self._recent_from = first
        self._lock = threading.Lock()

    def anew(self, first: int) -> Postings:
        """Begin again with none."""
        return Postings(self._most, first)

    @property
    def bytes(self) -> int:
        """The memory that is kept."""
        return self._held

    def add_recent(self, texts: Iterable[str], first: int) -> None:
        """Take in the texts of rows that came, from row `first` on."""
        for row, text in enumerate(texts, first):
            for term, times in Counter(index_text(text).split()).items():
                self._recent.setdefault(term, []).append((row, times))

    def recent(self, rows: int) -> int:
        """Tell how many of so many rows are recent."""
        return rows - self._recent_from

    def get(self, connection: apsw.Connection, term: Term, rows: Rows, stamp: int) -> Posting:
        """Return the posting of a term over these rows of a generation, from memory or from the snapshot that they are of."""
        with self._lock:
            kept = self._kept.get(term)
            if kept is not None:
                self._kept.move_to_end(term)
        usable = kept is not None and kept.born <= stamp  # what was read later lacks rows that have gone since
        if kept is not None and usable and kept.upto == len(rows):
            return kept
        posting = self._extended(kept, term[0], len(rows)) if kept is not None and usable and not term[1] else None
        if posting is None:
            posting = _read(connection, term, rows, stamp)
        self.put(term, posting)
        return posting

    def put(self, term: Term, posting: Posting) -> None:
        """Keep a posting, and let those go that were not used for longest."""
        with self._lock:
            old = self._kept.pop(term, None)
            self._held += posting.bytes - (old.bytes if old is not None else 0)
            self._kept[term] = posting
            while self._held > self._most and self._kept:
                self._held -= self._kept.popitem(last=False)[1].bytes

    def _extended(self, kept: Posting, term: str, upto: int) -> Posting | None:
        """Add the recent rows to a posting; None where it ends before they begin, or after `upto`."""
        if not self._recent_from <= kept.upto <= upto:
            return None
        more = [pair for pair in self._recent.get(term, ()) if kept.upto <= pair[0] < upto]
        if not more:
            return Posting(kept.born, upto, kept.rows, kept.times)
        rows, times = np.array(more, np.int32).T
        return Posting(kept.born, upto, np.concatenate([kept.rows, rows]),
                       _narrow(np.concatenate([kept.times.astype(np.int32), times])))


def _read(connection: apsw.Connection, term: Term, rows: Rows, stamp: int) -> Posting:
    """Read a term's occurrences out of the FTS5 table."""
    word, prefix = term
    where, bound = ("term >= ? AND term < ?", (word, _after(word))) if prefix else ("term = ?", (word,))
    listed = occurrences(connection, where, bound)
    if prefix:
        listed.sort()
    starts = np.flatnonzero(np.diff(listed, prepend=-1))
    times = np.diff(starts, append=len(listed))
    return Posting(stamp, len(rows), rows.positions(listed[starts]).astype(np.int32), _narrow(times))


def occurrences(connection: apsw.Connection, where: str, bound: Sequence[str]) -> npt.NDArray[np.int64]:
    """List the seq of each occurrence of the terms that fulfil a condition, as FTS5 lists them: by term, then seq."""
    statement = f"SELECT group_concat(doc) FROM temp.rag_instances WHERE {where}"
    try:
        listed = sql_rows(connection, statement, bound).fetchall()[0][0]
    except apsw.SQLError:  # a connection's first look
        connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.rag_instances USING fts5vocab('main', 'rag_lexical', 'instance')")
        listed = sql_rows(connection, statement, bound).fetchall()[0][0]
    return numbers(listed)


def _after(word: str) -> str:
    """Return the least string above all those that begin with `word`."""
    point = ord(word[-1]) + 1
    if _SURROGATES[0] <= point <= _SURROGATES[1]:
        point = _SURROGATES[1] + 1
    return word[:-1] + chr(point) if point <= _LAST else _after(word[:-1])


def _narrow(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return times.astype(np.uint8 if times.max(initial=0) <= _BYTE else np.int32)
