"""Rows that pass a filter: looked up once, added to, and never those of another generation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_stdlib import Config, Runtime, SourceDocument, rag_delete, rag_ingest_document
from rag_stdlib.index import filters as module
from rag_stdlib.index.filters import Filters, allowed_chunks
from rag_stdlib.index.resident import passing
from rag_stdlib.index.resident.passing import Passing
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.store import Store
from rag_stdlib.records import FrozenDict

PATH = "index.db"
EVEN = Filters(metadata=FrozenDict({"even": True}))


def put(number: int) -> None:
    metadata = {"even": number % 2 == 0, "n": number % 2}
    assert rag_ingest_document(PATH, SourceDocument(f"d{number}", f"s{number % 3}", "one. two.", metadata=metadata), 5).is_ok


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Runtime(Config(), root=tmp_path) as runtime:
        for number in range(6):
            put(number)
        yield runtime.store


def rows_of(store: Store) -> Rows:
    with store.reading(PATH) as connection:
        return Rows.of(np.array([seq for (seq,) in connection.execute("SELECT seq FROM rag_chunks ORDER BY seq")], np.int64))


def test_later_rows_are_looked_at_and_earlier_ones_are_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, rows = Passing(), rows_of(store)
    looked: list[int] = []
    monkeypatch.setattr(passing, "allowed_chunks", lambda connection, some, after=0: (
        looked.append(after), allowed_chunks(connection, some, after))[1])
    with store.reading(PATH) as connection:
        first = kept.rows(connection, EVEN, rows, 1)
        assert kept.rows(connection, EVEN, rows, 1).tolist() == first.tolist()
        assert rows.seqs[first].tolist() == allowed_chunks(connection, EVEN).tolist()
    assert looked == [0]
    put(8)
    rag_delete(PATH, "d0")
    with store.reading(PATH) as connection:
        present = {seq for (seq,) in connection.execute("SELECT seq FROM rag_chunks")}
        come = sorted(present - set(rows.seqs.tolist()))
        gone = sorted(set(rows.seqs.tolist()) - present)
        later = rows.changed([range(gone[0], gone[-1] + 1)], np.array(come))
        found = kept.rows(connection, EVEN, later, 3)
        assert later.seqs[found].tolist() == allowed_chunks(connection, EVEN).tolist()
    assert looked == [0, rows.seqs[-1]]


def test_a_search_of_an_earlier_generation_misses_nothing_of_its_own(store: Store) -> None:
    kept, rows = Passing(), rows_of(store)
    with store.reading(PATH) as early:
        wanted = allowed_chunks(early, EVEN).tolist()
        rag_delete(PATH, "d2")
        with store.reading(PATH) as late:
            gone = sorted(set(rows.seqs.tolist()) - {seq for (seq,) in late.execute("SELECT seq FROM rag_chunks")})
            later = rows.changed([range(gone[0], gone[-1] + 1)], np.empty(0, np.int64))
            assert later.seqs[kept.rows(late, EVEN, later, 2)].tolist() == allowed_chunks(late, EVEN).tolist()
        assert rows.seqs[kept.rows(early, EVEN, rows, 1)].tolist() == wanted


def test_what_came_and_went_between_is_not_missed_either(store: Store) -> None:
    """Known since generation 1; a search of 3 looks at the rows that came in 2 and went in 3; one of 2 still has them."""
    kept, rows = Passing(), rows_of(store)
    with store.reading(PATH) as one:
        kept.rows(one, EVEN, rows, 1)
    put(8)
    with store.reading(PATH) as two:
        come = np.array(sorted({seq for (seq,) in two.execute("SELECT seq FROM rag_chunks")} - set(rows.seqs.tolist())))
        second = rows.changed([], come)
        wanted = allowed_chunks(two, EVEN).tolist()
        rag_delete(PATH, "d8")
        with store.reading(PATH) as three:
            third = second.changed([range(int(come[0]), int(come[-1]) + 1)], np.empty(0, np.int64))
            assert third.seqs[kept.rows(three, EVEN, third, 3)].tolist() == allowed_chunks(three, EVEN).tolist()
        assert second.seqs[kept.rows(two, EVEN, second, 2)].tolist() == wanted


def test_true_and_one_are_two_filters(store: Store) -> None:
    kept, rows = Passing(), rows_of(store)
    with store.reading(PATH) as connection:
        for value in (1, True, 1.0, 0, False, None, "1"):
            some = Filters(metadata=FrozenDict({"n": value}))
            assert rows.seqs[kept.rows(connection, some, rows, 1)].tolist() == allowed_chunks(connection, some).tolist()


@pytest.mark.parametrize("fitting", ["nothing", "everything"])
def test_many_different_filters_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch, fitting: str) -> None:
    monkeypatch.setattr(passing, "_MOST_BYTES", 4_000)
    kept, rows = Passing(), rows_of(store)
    with store.reading(PATH) as connection:
        for number in range(300):
            known = ("s0", "s1", "s2") if fitting == "everything" else ()
            some = Filters(doc_id_prefix="d", sources=(*known, f"no source {number}"))
            assert len(kept.rows(connection, some, rows, 1)) == (len(rows) if fitting == "everything" else 0)
    assert len(kept._kept) < 100


def test_allowed_chunks_are_ascending_and_above_a_seq(store: Store) -> None:
    with store.reading(PATH) as connection:
        everything = allowed_chunks(connection, EVEN).tolist()
        assert everything == sorted(everything)
        for after in (0, everything[2], everything[-1]):
            assert allowed_chunks(connection, EVEN, after).tolist() == [seq for seq in everything if seq > after]
    assert module.NO_FILTERS.empty
