"""BM25 from memory is that of FTS5, to the last bit, before anything is rounded."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import bm25, lexical, schema
from rag_stdlib.index.resident import words
from rag_stdlib.index.resident.rows import Rows
from rag_stdlib.index.resident.words import ResidentWords, varints
from rag_stdlib.index.scratch import ZEROS
from rag_stdlib.text.normalize import query_terms

VOCABULARY = ["refund", "order", "c++", "c#", "返金", "返品", "注", "é", "common", "common", "common", "😀", "\U0010fffd",
              "x" * 130]
QUERIES = ["refund", "common", "返", "返金", "c++ c# c", "refund order common 注 返 é", "absent", "😀 common", "\U0010fffd",
           "x" * 130, "refund absent"]
ROOM = 2**30


def index_of(texts: dict[int, str]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    schema.create(connection)
    add(connection, texts)
    return connection


def add(connection: apsw.Connection, texts: dict[int, str]) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    columns = [name for _, name, kind, needed, *_ in connection.execute("PRAGMA table_info(rag_chunks)")
               if needed or name == "seq"]
    for seq, text in texts.items():
        row = {"seq": seq, "chunk_id": f"d:{seq}", "text": text, "ordinal": seq}
        connection.execute(f"INSERT INTO rag_chunks({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                           [row.get(str(name), seq) for name in columns])
    lexical.add(connection, texts.items())


def take_out(connection: apsw.Connection, texts: dict[int, str]) -> None:
    lexical.remove(connection, texts.items())
    connection.executemany("DELETE FROM rag_chunks WHERE seq = ?", [(seq,) for seq in texts])


def from_memory(connection: apsw.Connection, held: ResidentWords, query: str) -> dict[int, float]:
    rows, scores = held.score(connection, query_terms(query))
    found = np.zeros(len(held.rows))
    found[slice(None) if rows is None else rows] = scores
    assert rows is None or len(set(rows.tolist())) == len(rows)
    return {int(held.rows.seqs[row]): float(found[row]) for row in np.flatnonzero(found)}


def same_as_fts5(connection: apsw.Connection, held: ResidentWords, queries: Sequence[str] = QUERIES) -> None:
    for query in queries:
        seqs, scores = bm25.scores(connection, query_terms(query))
        assert seqs.tolist() == sorted(seqs.tolist())
        assert from_memory(connection, held, query) == dict(zip(seqs.tolist(), scores.tolist(), strict=True)), query


def read(connection: apsw.Connection, texts: dict[int, str], most_bytes: int = ROOM) -> ResidentWords:
    return ResidentWords.read(connection, Rows.of(np.array(sorted(texts), np.int64)), 1, most_bytes)


texts_of = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join), min_size=1, max_size=14)


@settings(max_examples=60, derandomize=True)
@given(texts_of, st.sets(st.integers(0, 13)), st.sampled_from([0, 2_000, ROOM]))
def test_the_scores_are_those_of_fts5_bit_for_bit(texts: list[str], gone: set[int], most_bytes: int) -> None:
    stored = {seq * 3 + 1: text for seq, text in enumerate(texts)}
    connection = index_of(stored)
    take_out(connection, {seq: stored.pop(seq) for seq in list(stored) if (seq - 1) // 3 in gone})
    held = read(connection, stored, most_bytes)
    for _ in range(2):  # from the file, then from memory
        same_as_fts5(connection, held)
        assert held.postings.bytes <= most_bytes


@settings(max_examples=50, derandomize=True)
@given(texts_of,
       st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=4), texts_of.filter(lambda some: len(some) < 6)), max_size=5),
       st.booleans(), st.sampled_from([1, 8, 2_048]))
def test_they_are_after_each_change_whatever_is_kept(texts: list[str], steps: list[tuple[set[int], list[str]]],
                                                     asked_between: bool, recent: int) -> None:
    stored = {seq + 1: text for seq, text in enumerate(texts)}
    connection = index_of(stored)
    held = read(connection, stored)
    same_as_fts5(connection, held)
    rows, stamp, last = held.rows, 1, len(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "RECENT_ROWS", recent)
        for gone, come in steps:
            left = {seq: stored.pop(seq) for seq in list(stored) if seq in gone}
            take_out(connection, left)
            new = {last + 1 + place: text for place, text in enumerate(come)}
            last += len(come) + 1  # a gap, as a replaced document leaves
            add(connection, new)
            stored |= new
            stamp += 1
            rows = rows.changed([range(seq, seq + 1) for seq in left], np.array(sorted(new), np.int64))
            held = held.changed(connection, rows, stamp)
            if asked_between:
                same_as_fts5(connection, held, QUERIES[::2])
        same_as_fts5(connection, held)


def test_one_document_empty_documents_and_none_at_all() -> None:
    for texts in ({5: "refund order"}, {1: ""}, {1: "", 2: "", 3: "refund"}, {1: "...", 9: "---"}, {}):
        connection = index_of(texts)
        held = read(connection, texts)
        same_as_fts5(connection, held)
        assert held.chunks == len(texts)
        take_out(connection, texts)
        emptied = held.changed(connection, held.rows.changed([range(100)], np.empty(0, np.int64)), 2)
        same_as_fts5(connection, emptied)
        assert from_memory(connection, emptied, "refund") == {}


def test_lengths_of_one_to_three_bytes() -> None:
    texts = {1: "a " * 127, 2: "a " * 128, 3: "b " * 16_383, 4: "b " * 16_384 + "a", 5: "a b " * 20_000, 6: "", 7: "c"}
    connection = index_of(texts)
    sizes = [len(bytes(size)) for (size,) in  # type: ignore[arg-type]
             connection.execute("SELECT sz FROM rag_lexical_docsize ORDER BY id")]
    assert sizes == [1, 2, 2, 3, 3, 1, 1]
    held = read(connection, texts)
    assert held.lengths.values.tolist() == [127, 128, 16_383, 16_385, 40_000, 0, 1]
    same_as_fts5(connection, held, ["a", "b", "a b c", "c"])


@given(st.lists(st.integers(0, 2**56 - 1), max_size=20))
def test_varints_are_read_back(values: list[int]) -> None:
    def written(value: int) -> bytes:
        parts = [value & 127]
        while value := value >> 7:
            parts.append(value & 127 | 128)
        return bytes(reversed(parts))

    assert varints(b"".join(map(written, values))).tolist() == values


@pytest.mark.parametrize("damage", [
    "UPDATE rag_lexical_docsize SET sz = x'05' WHERE id = 2", "DELETE FROM rag_lexical_docsize WHERE id = 2",
    "UPDATE rag_lexical_docsize SET id = 99 WHERE id = 2", "UPDATE rag_lexical_docsize SET sz = x'' WHERE id = 2",
    "UPDATE rag_lexical_docsize SET sz = x'0101' WHERE id = 2", "UPDATE rag_lexical_docsize SET sz = NULL WHERE id = 2",
    "DELETE FROM rag_lexical_data WHERE id = 1", "UPDATE rag_lexical_data SET block = x'0300' WHERE id = 1",
    "UPDATE rag_lexical_data SET block = x'ff' WHERE id = 1", "DELETE FROM rag_chunks WHERE seq = 2"])
def test_lengths_that_do_not_add_up_are_damage(damage: str) -> None:
    texts = {1: "refund order", 2: "order order", 3: "invoice"}
    connection = index_of(texts)
    connection.execute(damage)
    left = np.array([seq for (seq,) in connection.execute("SELECT seq FROM rag_chunks ORDER BY seq")], np.int64)
    with pytest.raises(apsw.CorruptError):
        ResidentWords.read(connection, Rows.of(left), 1, ROOM)


@pytest.mark.parametrize("damage", ["DELETE FROM rag_chunks WHERE seq = 3", "DELETE FROM rag_lexical_docsize WHERE id = 3"])
def test_rows_that_came_without_their_text_or_length_are_damage(damage: str) -> None:
    connection = index_of({1: "refund order", 2: "order order"})
    held = read(connection, {1: "", 2: ""})
    add(connection, {3: "invoice"})
    connection.execute(damage)
    with pytest.raises(apsw.CorruptError):
        held.changed(connection, held.rows.changed([], np.array([3])), 2)


def test_a_search_that_is_left_in_the_middle_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between the adding up of scores and the clearing of what they were added up in."""
    texts = {seq: ("refund order" if seq < 4 else "invoice") + " rest" * seq for seq in range(1, 30)}
    connection = index_of(texts)
    held = read(connection, texts)

    class Interrupted:
        """Numpy until rows are to be found."""

        def __getattr__(self, name: str) -> object:
            if name == "flatnonzero":
                raise KeyboardInterrupt
            return getattr(np, name)

    same_as_fts5(connection, held, ["refund order"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(words, "np", Interrupted())
        held.score(connection, query_terms("refund order"))
    same_as_fts5(connection, held, ["refund invoice order", "refund order"])


def test_scores_are_added_up_in_a_room_that_nobody_else_has() -> None:
    texts = {seq: ("refund order" if seq < 4 else "invoice") + " rest" * seq for seq in range(1, 30)}
    connection = index_of(texts)
    held = read(connection, texts)
    with ZEROS.floats(len(texts)) as other:
        other[:] = 7.0
        same_as_fts5(connection, held, ["refund order"])
        assert other.tolist() == [7.0] * len(texts)
        other[:] = 0.0
    same_as_fts5(connection, held, ["refund order"])
    with ZEROS.floats(len(texts)) as left:
        assert not left.any()


def test_what_the_words_take_is_counted() -> None:
    texts = {seq: "common " + ("refund" if seq % 9 else "order") for seq in range(1, 400)}
    connection = index_of(texts)
    held = read(connection, texts)
    empty = held.bytes
    for query in ("common", "refund", "order"):
        from_memory(connection, held, query)
    kept = held.postings._kept.values()
    assert held.bytes - empty == held.postings.bytes >= sum(
        part.nbytes for posting in kept
        for part in (posting.rows, posting.times, posting.live, posting.gain, posting.spread) if part is not None)
    assert len(kept) == 3
