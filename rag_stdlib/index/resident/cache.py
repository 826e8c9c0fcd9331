"""The indexes of which this process keeps something in memory: one state each, the latest that a search has seen.

A state belongs to one generation of one index and never changes. A search that sees a later generation brings it up to date
from the journal of changes, or reads everything anew; one that sees an earlier one goes to the file. Nothing survives a fork.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.index import changes, vecread
from rag_stdlib.index.resident import codes as resident_codes
from rag_stdlib.index.resident import words as resident_words
from rag_stdlib.index.resident.codes import ResidentCodes
from rag_stdlib.index.resident.passing import Passing
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.resident.signs import Signs
from rag_stdlib.index.resident.words import ResidentWords
from rag_stdlib.index.sql import listed, number, numbers
from rag_stdlib.index.sql import rows as sql_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.index.facts import Facts
    from rag_stdlib.index.snapshot import Snapshot

SERVED_FIRST: Final = 1  # searches of an index that the file serves before anything is kept
_LEAST_GONE: Final = 4_096  # rows; fewer that are gone are never worth a clean-up
_FEW_COME: Final = 2_048  # rows; so many that came are always read by themselves


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes codes, and lengths and postings, may take in this process."""

    vector_bytes: int
    word_bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search needs: codes of vectors of dimension `dim` (0: none), words, and the signs of the codes."""

    dim: int
    words: bool
    signs: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What is in memory of one generation of one index."""

    mark: str
    generation: int
    embedder: EmbedderIdentity | None
    rows: Rows
    passing: Passing
    codes: ResidentCodes | None = None
    words: ResidentWords | None = None
    signs: Signs | None = None

    def bytes(self) -> tuple[int, int]:
        """About how much memory codes and words take."""
        codes = resident_codes.size(len(self.rows), self.codes.dim, signs=self.signs is not None) if self.codes is not None else 0
        return codes, self.words.bytes if self.words is not None else 0

    def is_of(self, facts: Facts) -> bool:
        """Tell whether it is the state that a snapshot is of; a program that knows of no marks counts the generation all the same."""
        return (self.mark, self.generation) == (facts.mark, facts.generation)

    def has(self, wanted: Wanted) -> bool:
        """Tell whether a search finds here what it needs."""
        return ((self.words is not None or not wanted.words) and (self.is_in(wanted.dim) or not wanted.dim)
                and (self.signs is not None or not wanted.signs))

    def is_in(self, dim: int) -> bool:
        """Tell whether there are codes of this dimension; without a chunk, those of any dimension may have been read."""
        return self.codes is not None and self.codes.dim == dim


class Residents:
    """The states, by index file, the least recently used going first."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, _Resident] = OrderedDict()

    def state(self, snapshot: Snapshot, wanted: Wanted, limits: Limits, *, several: bool = False) -> State | None:
        """Return the state of the snapshot with what is wanted, made or brought up to date; None where the file has to serve.

        That is: above the limits, for an index without a mark, for a snapshot older than the state, and for the first search of
        an index, unless it is for `several` queries: a program that asks once does not pay for what it would never use.
        """
        facts = snapshot.facts
        if not facts.mark or (wanted.dim and resident_codes.size(facts.chunks, wanted.dim, signs=wanted.signs) > limits.vector_bytes) or (
                wanted.words and resident_words.size(facts.chunks) > limits.word_bytes):
            return None
        with self._lock:
            resident = self._held.setdefault(snapshot.key, _Resident())
            self._held.move_to_end(snapshot.key)
        if resident.unused(several=several):
            return None
        state = resident.state(snapshot, wanted, limits)
        with self._lock:
            while len(self._held) > 1 and self._exceed(limits):
                self._held.popitem(last=False)
        return state

    def forget(self, key: Hashable) -> None:
        """Forget what is held of an index, for one that turned out to be damaged."""
        with self._lock:
            self._held.pop(key, None)

    def _exceed(self, limits: Limits) -> bool:
        codes, words = (sum(part) for part in zip(*(one.bytes() for one in self._held.values()), strict=True))
        return bool(codes > limits.vector_bytes or words > limits.word_bytes)

    def clear(self) -> None:
        """Forget everything; in a child process the locks are new too."""
        self._lock = threading.Lock()
        self._held = OrderedDict()


RESIDENTS: Final = Residents()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RESIDENTS.clear)


class _Resident:
    """One index: its latest state, made by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: State | None = None
        self._served = 0  # searches, by the file
        self._made = 0.0  # time.monotonic() when the state was there

    def unused(self, *, several: bool) -> bool:
        """Tell whether the file is to serve since too few have asked, and count those."""
        if self._state is not None or several or self._served >= SERVED_FIRST:
            return False
        self._served += 1
        return True

    def bytes(self) -> tuple[int, int]:
        state = self._state
        return state.bytes() if state is not None else (0, 0)

    def state(self, snapshot: Snapshot, wanted: Wanted, limits: Limits) -> State | None:
        facts, state = snapshot.facts, self._state
        if state is not None and state.is_of(facts) and state.has(wanted):
            return state
        with self._lock:
            state = self._state
            if state is not None and state.generation > facts.generation:
                if snapshot.began < self._made:
                    return None
                state = None  # a snapshot that began later is not of an earlier state: the file was exchanged
            try:
                self._state = _brought_up(snapshot.connection, state, facts, wanted, limits)
                self._made = time.monotonic()
            except apsw.CorruptError:
                self._state = None  # the file's own way finds out what is wrong, where it matters
            except BaseException:
                self._state = None  # what it shares with the next one may have been brought up half
                raise
            return self._state


def _brought_up(connection: apsw.Connection, state: State | None, facts: Facts, wanted: Wanted, limits: Limits) -> State:
    """Return a state of this generation that has what is wanted."""
    if state is not None and not state.is_of(facts):
        state = _changed(connection, state, facts)
    if state is not None and state.rows.alive is not None and not state.has(wanted):
        state = _tidied(state)
    if state is None:
        ((listed,),) = sql_rows(connection, "SELECT group_concat(seq) FROM rag_chunks")
        seqs = numbers(listed)
        seqs.sort()
        state = State(facts.mark, facts.generation, facts.embedder, Rows.of(seqs), Passing())
    if wanted.words and state.words is None:
        room = limits.word_bytes - resident_words.size(len(state.rows))
        state = replace(state, words=ResidentWords.read(connection, state.rows, facts.generation, room))
    if wanted.dim and not state.is_in(wanted.dim):
        state = replace(state, codes=ResidentCodes.read(connection, wanted.dim, state.rows), signs=None)
    if wanted.signs and state.signs is None and state.codes is not None:
        state = replace(state, signs=Signs.of(state.codes))
    return state


def _changed(connection: apsw.Connection, state: State, facts: Facts) -> State | None:
    """Bring a state up to date by the journal; None where that cannot be."""
    steps = changes.since(connection, state.generation, state.mark)
    if steps is None or state.embedder != facts.embedder:
        return None
    gone, come = _net(steps)
    if len(come) > max(_FEW_COME, state.rows.live // 4):  # reading them one by one would take longer than reading all
        return None
    if not _bears_out(connection, state.rows, gone, come):
        return None
    rows = state.rows.changed(gone, come)
    if rows.live != facts.chunks:
        return None
    codes, words = state.codes, state.words
    if codes is not None and len(come):
        codes = codes.appended(vecread.pick(connection, come, codes.dim))
    if words is not None:
        words = words.changed(connection, rows, facts.generation)
    signs = Signs.of(codes, state.signs) if codes is not None and state.signs is not None else None
    state = State(facts.mark, facts.generation, facts.embedder, rows, state.passing, codes, words, signs)
    return _tidied(state) if len(rows) - rows.live > max(_LEAST_GONE, rows.live // 2) else state


def _bears_out(connection: apsw.Connection, rows: Rows, gone: Sequence[range], come: npt.NDArray[np.int64]) -> bool:
    """Hold the journal against the chunks: those behind the last row are those that came, and none that went is there."""
    last = int(rows.seqs[-1]) if len(rows) else -1
    ((listed_seqs,),) = sql_rows(connection, "SELECT group_concat(seq) FROM rag_chunks WHERE seq > ?", (last,))
    went = np.concatenate([np.empty(0, np.int64), *(np.arange(some.start, min(some.stop, last + 1)) for some in gone)])
    table, binding = listed(went)
    back = number(connection, f"SELECT count(*) FROM {table} a CROSS JOIN rag_chunks c ON c.seq = a.value", (binding,))
    return back == 0 and np.array_equal(np.sort(numbers(listed_seqs)), come)


def _net(steps: Sequence[tuple[range, range]]) -> tuple[list[range], npt.NDArray[np.int64]]:
    """Add up steps: the ranges of seqs that went, and the seqs that came and are still there."""
    gone = [gone for gone, _ in steps if gone]
    came = np.concatenate([np.empty(0, np.int64), *(np.arange(come.start, come.stop) for _, come in steps)])
    there = np.ones(len(came), np.bool_)
    for some in gone:
        there[slice(*np.searchsorted(came, (some.start, some.stop)))] = False
    return gone, came[there]


def _tidied(state: State) -> State:
    """Drop the rows that are gone from memory; words are read anew when they are next wanted."""
    kept = state.rows.kept()
    codes = state.codes.only(kept) if state.codes is not None else None
    return replace(state, rows=Rows.of(state.rows.seqs[kept]), passing=Passing(), codes=codes, words=None, signs=None)
