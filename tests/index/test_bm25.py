"""BM25 asked of FTS5 itself."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_oracle import WORDS
from index_oracle import bm25 as okapi

from rag_stdlib.index import bm25, lexical


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.lists(st.sampled_from(WORDS[:8]), max_size=12), min_size=1, max_size=12),
       st.lists(st.sampled_from(WORDS[:10]), min_size=1, max_size=4, unique=True), st.sets(st.integers(0, 11)))
def test_bm25_after_deletions_is_that_of_what_is_left(texts: list[list[str]], terms: list[str], gone: set[int]) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("""CREATE VIRTUAL TABLE rag_lexical USING fts5(terms, content='', tokenize="ascii tokenchars '+#'")""")
    rows = [(number, " ".join(words)) for number, words in enumerate(texts)]
    lexical.add(connection, rows)
    lexical.remove(connection, [row for row in rows if row[0] in gone])
    left = {number: words for number, words in enumerate(texts) if number not in gone}
    seqs, scores = bm25.scores(connection, [(term, False) for term in terms])
    wanted = okapi(left, terms) if left else {}
    assert dict(zip(seqs.tolist(), scores.tolist(), strict=True)) == pytest.approx(wanted, abs=1e-6)




def test_no_terms_find_nothing() -> None:
    seqs, scores = bm25.scores(apsw.Connection(":memory:"), ())
    assert (seqs.tolist(), scores.tolist()) == ([], [])


@pytest.mark.parametrize(("terms", "expression"), [
    ((("a", False), ("b", False)), '"a" OR "b"'), ((("返", True),), '"返" *'),
    ((('a"b', False), ('"', True)), '"a""b" OR """" *'), ((), "")])
def test_terms_are_quoted(terms: tuple[tuple[str, bool], ...], expression: str) -> None:
    assert bm25.match_expression(terms) == expression
