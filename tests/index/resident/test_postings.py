"""Postings kept of terms: bounded, brought up to date, and right for every generation that asks."""

from __future__ import annotations

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.index import lexical
from rag_stdlib.index.resident import postings
from rag_stdlib.index.resident.postings import Posting, Postings, occurrences
from rag_stdlib.index.resident.rows import Rows

TERM = ("refund", False)


def index_of(texts: dict[int, str]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("""CREATE VIRTUAL TABLE rag_lexical USING fts5(terms, content='', tokenize="ascii tokenchars '+#'")""")
    lexical.add(connection, texts.items())
    return connection


def rows_of(texts: dict[int, str]) -> Rows:
    return Rows.of(np.array(sorted(texts), np.int64))


def times(posting: Posting) -> dict[int, int]:
    assert posting.rows.tolist() == sorted(set(posting.rows.tolist()))
    return dict(zip(posting.rows.tolist(), posting.times.tolist(), strict=True))


TEXTS = {3: "refund refund order", 4: "order", 9: "refund " * 300, 12: "refunded"}


def test_a_posting_says_which_rows_hold_a_term_and_how_often() -> None:
    connection, rows = index_of(TEXTS), rows_of(TEXTS)
    kept = Postings(2**20, len(rows))
    assert times(kept.get(connection, TERM, rows, 1)) == {0: 2, 2: 300}
    assert times(kept.get(connection, ("refund", True), rows, 1)) == {0: 2, 2: 300, 3: 1}
    assert times(kept.get(connection, ("absent", False), rows, 1)) == {}
    assert times(kept.get(connection, ("absent", True), rows, 1)) == {}
    assert kept.get(connection, TERM, rows, 1).times.dtype == np.int32
    assert kept.get(connection, ("order", False), rows, 1).times.dtype == np.uint8
    connection.close()
    assert times(kept.get(connection, TERM, rows, 1)) == {0: 2, 2: 300}, "from memory"


def test_rows_that_came_are_added_without_a_look_at_the_file() -> None:
    connection, rows = index_of(TEXTS), rows_of(TEXTS)
    kept = Postings(2**20, len(rows))
    first = kept.get(connection, TERM, rows, 1)
    kept.get(connection, ("order", False), rows, 1)
    kept.add_recent(["refund one", "nothing", "refund " * 256], 4)
    later = rows.changed([], np.array([20, 21, 22]))
    connection.close()
    assert times(kept.get(connection, TERM, later, 2)) == {0: 2, 2: 300, 4: 1, 6: 256}
    assert times(kept.get(connection, ("order", False), later, 2)) == {0: 1, 1: 1}
    assert times(first) == {0: 2, 2: 300}
    assert kept.recent(len(later)) == 3


def test_an_earlier_generation_gets_what_it_held() -> None:
    """Searches of two generations use the same postings, in any order."""
    connection, rows = index_of(TEXTS), rows_of(TEXTS)
    kept = Postings(2**20, len(rows))
    later_rows = rows.changed([range(3, 4)], np.array([20]))
    later = index_of({**{seq: text for seq, text in TEXTS.items() if seq != 3}, 20: "refund"})
    kept.add_recent(["refund"], 4)
    for _ in range(2):
        assert times(kept.get(later, TERM, later_rows, 2)) in ({2: 300, 4: 1}, {0: 2, 2: 300, 4: 1})
        assert times(kept.get(connection, TERM, rows, 1)) == {0: 2, 2: 300}
    only_gone = rows.changed([range(3, 4)], np.empty(0, np.int64))
    kept = Postings(2**20, len(rows))
    assert times(kept.get(index_of({seq: text for seq, text in TEXTS.items() if seq != 3}), TERM, only_gone, 2)) == {2: 300}
    assert times(kept.get(connection, TERM, rows, 1)) == {0: 2, 2: 300}, "what was read later lacks what has gone since"


@pytest.mark.parametrize("most", [0, 600, 1_500, 10_000])
def test_what_was_not_used_for_longest_goes(most: int) -> None:
    texts = {seq: " ".join(f"w{number}" for number in range(10)) for seq in range(1, 21)}
    connection, rows = index_of(texts), rows_of(texts)
    kept = Postings(most, len(rows))
    for number in (0, 1, 2, 0, 3, 4, 0, 5):
        assert times(kept.get(connection, (f"w{number}", False), rows, 1)) == dict.fromkeys(range(20), 1)
        assert kept.bytes == sum(posting.bytes for posting in kept._kept.values()) <= most
    if most == 10_000:
        assert len(kept._kept) == 6
    elif most == 1_500:
        assert [term for term, _ in kept._kept] == ["w5"] or "w0" in [term for term, _ in kept._kept]


@pytest.mark.parametrize(("word", "after"), [
    ("a", "b"), ("返", "\u8fd5"), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\uffff", "\U00010000")])
def test_the_first_string_behind_all_that_begin_so(word: str, after: str) -> None:
    assert postings._after(word) == after


@given(st.text(st.characters(min_codepoint=33, exclude_categories=("Cs",)), min_size=1, max_size=4), st.text(max_size=4))
def test_every_string_that_begins_so_lies_before_it(word: str, rest: str) -> None:
    if set(word) == {chr(0x10FFFF)}:
        return
    after, longer = postings._after(word).encode(), (word + rest).encode(errors="surrogatepass")
    assert word.encode() <= longer < after
    assert postings._after(word) > word


def test_occurrences_are_looked_up_over_any_connection_and_again_after_a_rollback() -> None:
    connection = index_of(TEXTS)
    for _ in range(2):
        connection.execute("BEGIN")
        assert occurrences(connection, "term = ?", ("refund",)).tolist() == [3, 3, *[9] * 300]
        connection.execute("ROLLBACK")
    connection.execute("DROP TABLE rag_lexical")
    with pytest.raises(apsw.Error):
        occurrences(connection, "term = ?", ("refund",))
