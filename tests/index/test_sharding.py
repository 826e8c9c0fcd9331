"""Which shard a document belongs to: a rule that anyone can follow, and what an index says of being a shard."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib import Failure, Runtime, rag_ingest
from rag_stdlib.index import schema, sharding


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40).filter(str.strip), st.integers(2, 1024))
def test_the_rule_is_the_first_eight_bytes_of_sha256_modulo_the_number_of_shards(doc_id: str, shards: int) -> None:
    assert sharding.shard_of(doc_id, shards) == int(hashlib.sha256(doc_id.encode("utf-8")).hexdigest()[:16], 16) % shards


def test_the_rule_never_changes() -> None:
    assert [sharding.shard_of("docs/a.md", shards) for shards in (2, 3, 4, 1024)] == [0, 1, 2, 90]
    assert sharding.shard_of("返金", 1024) == 98
    assert [sharding.shard_of(doc_id, 4) for doc_id in ("a", "b", "corpus:handbook/docs/refunds.md")] == [2, 2, 3]


def test_documents_spread_evenly() -> None:
    counts = Counter(sharding.shard_of(f"docs/page-{number}.md", 8) for number in range(8_000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1_150
    assert min(counts.values()) > 850


@pytest.mark.parametrize("shards", [-1, 0, 1, 1025, 10**9])
def test_a_number_of_shards_that_no_index_is_cut_into_is_refused(shards: int) -> None:
    with pytest.raises(Failure) as refused:
        sharding.shard_of("a", shards)
    assert refused.value.error.code == "invalid_option"
    assert str(shards) in str(refused.value)


@pytest.mark.parametrize(("doc_id", "code"), [("", "invalid_doc_id"), (" ", "invalid_doc_id"), ("x" * 1025, "invalid_doc_id"),
                                              ("a\0", "text_nul"), ("\ud800", "invalid_text")])
def test_what_no_document_is_called_belongs_to_no_shard(doc_id: str, code: str) -> None:
    with pytest.raises(Failure) as refused:
        sharding.shard_of(doc_id, 4)
    assert refused.value.error.code == code


def test_an_index_says_which_shard_it_is_and_a_whole_one_nothing(lexical: Runtime) -> None:
    rag_ingest("a.db", "d", "s", "text", 100).unwrap()
    with lexical.store.writing("a.db") as connection:
        assert sharding.shard(connection) is None
        sharding.refuse_shard(connection, "a.db", "it is whole")
        sharding.mark(connection, 2, 4)
        assert sharding.shard(connection) == sharding.name(2, 4) == "2/4"
        with pytest.raises(Failure, match=r"^the index 'a\.db' is shard 2/4 of a larger one: it is not whole$") as refused:
            sharding.refuse_shard(connection, "a.db", "it is not whole")
        assert refused.value.error.code == "index_is_shard"
        schema.set_fact(connection, "shard", 7)  # whatever it is, it says that the index is not whole
        assert sharding.shard(connection) == "7"
