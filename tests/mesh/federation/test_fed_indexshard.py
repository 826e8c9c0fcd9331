"""An index as a shard: what it answers, and what it says about itself."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from fed_asked import INDEX, TEXT, hits, put, serving
from fed_indexes import DIM, documents, fill, topic
from fed_mesh import A, ErlangPeer, Run, Shards

from rag_stdlib import Config, Failure, Runtime, SourceDocument, rag_ingest_document, rag_search, rag_stats
from rag_stdlib.mesh.federation import indexshard
from rag_stdlib.mesh.federation.bloom import Bloom, rules_out
from rag_stdlib.mesh.federation.directory import fits
from rag_stdlib.mesh.federation.exchange import Asked, Exchange, read_share
from rag_stdlib.mesh.federation.indexshard import LEXICAL, MOST_HITS, IndexShard, embedding_of
from rag_stdlib.mesh.federation.payloads import Embedding, Summary
from rag_stdlib.mesh.federation.responder import Hits
from rag_stdlib.mesh.federation.searching import query_vector
from rag_stdlib.mesh.procedures import replies, shapes


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- answers ---

def test_a_hit_has_the_contracts_fields_and_those_of_a_search(shard: IndexShard) -> None:
    found = hits(shard, Asked(TEXT, "hybrid").query(), 3)
    (first, *_) = rag_search(INDEX, TEXT, 3).unwrap()
    assert found[0].keys() >= {"id", "chunk_id", "content", "score", "source_path", "provenance", "meta", "doc_id", "ordinal"}
    assert (found[0]["id"], found[0]["content"], found[0]["source_path"]) == (found[0]["chunk_id"], first.text, first.source)
    assert [found[0][name] for name in ("doc_id", "ordinal", "score", "lexical_score", "vector_score")] == [
        first.doc_id, first.ordinal, first.score, first.lexical_score, first.vector_score]
    (lexical,) = hits(shard, Asked(TEXT, "lexical").query(), 1)
    assert "vector_score" not in lexical
    assert type(lexical["lexical_score"]) is float


def test_a_peer_that_knows_of_nothing_but_text_is_answered_by_the_embedding(runtime: Runtime, shard: IndexShard) -> None:
    answer = shard({"text": TEXT.encode()}, 4)
    assert list(answer.hits) == hits(shard, Asked(TEXT, "vector", tuple(query_vector(runtime, TEXT))).query(), 4)
    assert (answer.statistics, answer.embedding, len(list(answer.hits))) == ({"v": 1, "content": shard.content()}, shard.embedding(), 4)


def test_a_peer_that_writes_byte_strings_is_answered_over_the_mesh(run: Run, shard: IndexShard) -> None:
    async def body() -> Any:
        async with Shards() as mesh:
            await serving(mesh, shard, shard.embedding())
            peer = ErlangPeer(mesh.mesh.node(node_id="bb" * 32), shard.embedding())
            found = await peer.ask(A, {"text": TEXT.encode(), "topics": [b"Coast"]}, 3)
            await peer.close()
            return found

    answer = run(body())
    assert [each["id"] for each in answer["hits"]] == [each["id"] for each in hits(shard, {"text": TEXT, "topics": ["coast"]}, 3)]
    assert {topic(each["doc_id"]) for each in answer["hits"]} == {"coast"}


def test_without_vectors_a_peers_text_is_looked_up_by_its_words(plain: Runtime) -> None:
    fill(INDEX, documents(20))
    shard = IndexShard(plain, INDEX)
    answer = shard({"text": TEXT}, 5)
    assert list(answer.hits) == hits(shard, Asked(TEXT, "lexical").query(), 5) != []
    assert answer.embedding is None


@pytest.mark.parametrize("mode", ["vector", "lexical", "hybrid"])
def test_the_texts_vector_may_come_along_or_not(runtime: Runtime, shard: IndexShard, mode: Any) -> None:
    vector = None if mode == "lexical" else tuple(query_vector(runtime, TEXT))
    with_it = shard(Asked(TEXT, mode, vector).query(), 10)
    assert with_it == shard(Asked(TEXT, mode).query(), 10)
    assert with_it.embedding == (None if mode == "lexical" else shard.embedding())


def test_blank_text_finds_nothing(shard: IndexShard) -> None:
    for query in ({"text": " \n"}, {"text": " ", "mode": "hybrid", "vector": [1.0] * DIM}, {"text": " ", "mode": "lexical"}):
        assert hits(shard, query) == []


def test_the_number_of_hits_is_clipped(shard: IndexShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexshard, "MOST_HITS", 4)
    assert MOST_HITS == 1_000
    assert len(hits(shard, Asked("raven", "lexical").query(), 2**63 - 1)) == 4
    assert len(hits(shard, Asked("raven", "lexical").query(), 3)) == 3


def test_hits_beyond_the_bounds_of_an_answer_are_left_out_from_the_end(shard: IndexShard, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hits(shard, Asked("raven", "lexical").query(), 20)
    monkeypatch.setattr(replies, "MAX_HITS_BYTES", 2_000)
    cut = hits(shard, Asked("raven", "lexical").query(), 20)
    assert 0 < len(cut) < len(whole)
    assert cut == whole[:len(cut)]
    left_out = dict(shard(Asked("raven", "lexical").query(), 20).statistics or {})["left_out"]
    assert left_out == len(whole) - len(cut), "and who asked is told"


def test_copies_of_texts_are_named_with_their_topics_regarded(shard: IndexShard) -> None:
    fill(INDEX, dict.fromkeys(("e-0", "e-1", "e-5"), "dunlin"))
    same, other = digest("teal ruff ibis"), digest("dunlin")
    rows = [{"digest": other, "paths": [f"birds/e-{number}.txt" for number in (0, 1, 5)]}, {"digest": same, "paths": [f"birds/{name}-short.txt" for name in "bkx"]}]
    query = Asked(TEXT, "lexical", exchange=Exchange("copies", digests=(same, other, digest("nowhere"))))
    assert shard(query.query(), 1) == Hits((), {"v": 1, "copies": sorted(rows, key=lambda row: str(row["digest"]))})
    coast = Asked(TEXT, "lexical", topics=("coast",), exchange=Exchange("copies", digests=(other, same)))
    assert shard(coast.query(), 1).statistics == {"v": 1, "copies": [{"digest": other, "paths": ["birds/e-0.txt", "birds/e-5.txt"]}]}


def test_very_many_copies_are_counted(shard: IndexShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_ELSEWHERE", 1)
    query = Asked(TEXT, "lexical", exchange=Exchange("copies", digests=(digest("teal ruff ibis"),)))
    (row,) = (shard(query.query(), 1).statistics or {})["copies"]
    assert (row["paths"], row["left_out"]) == (["birds/b-short.txt", "birds/k-short.txt"], 1)


def test_the_counts_of_a_share_add_up_to_the_index(shard: IndexShard) -> None:
    there = rag_stats(INDEX).unwrap().chunks
    count = shard(Asked(TEXT, "hybrid", exchange=Exchange("count")).query(), 1)
    statistics = count.statistics or {}
    assert (list(count.hits), statistics["words"]["chunks"], statistics["by_vector"]["count"]) == ([], there, there)
    query = Asked(TEXT, "hybrid", exchange=Exchange("words", read_share(statistics, 2).words))
    assert (shard(query.query(), 1).statistics or {})["by_words"]["count"] == there > 30
    assert "by_vector" not in (shard(Asked(TEXT, "lexical", exchange=Exchange("count")).query(), 1).statistics or {})


# --- what it says about itself ---

def test_its_embedding_is_that_of_its_vectors(runtime: Runtime, shard: IndexShard) -> None:
    assert shard.embedding() == embedding_of(runtime) == Embedding("words-sha256", DIM)
    with Runtime(Config(), root=runtime.root.path) as without:
        assert IndexShard(without, INDEX).embedding() == Embedding("words-sha256", DIM)
        assert embedding_of(without) == LEXICAL


def test_an_index_without_vectors_is_of_what_it_will_get(runtime: Runtime, plain: Runtime) -> None:
    for index in ("missing.db", "words.db"):
        assert IndexShard(runtime, index).embedding() == embedding_of(runtime)
        assert IndexShard(plain, index).embedding() == LEXICAL
        with plain:
            put("d", TEXT, "words.db")


def test_what_is_no_index_is_refused(runtime: Runtime) -> None:
    (Path(runtime.root.path) / "bad.db").write_text("no database " * 100)
    shard = IndexShard(runtime, "bad.db")
    for tell in (shard.embedding, shard.summary, shard.content):
        with pytest.raises(Failure) as caught:
            tell()
        assert caught.value.error.code == "not_an_index"


def test_a_summary_names_topics_and_its_filter_holds_them_and_frequent_words(shard: IndexShard) -> None:
    summary = shard.summary()
    assert summary.topics == ("coast", "wood")
    bloom = Bloom.read(summary.bloom)
    assert bloom is not None
    assert all(bloom.may_hold("term", term) for term in ("raven", "owl", "東京"))
    assert [rules_out(summary.bloom, [name]) for name in ("coast", " COAST", "inland")] == [False, False, True]
    assert summary.content == shard.content() != ""


def test_a_missing_index_has_an_empty_summary_that_rules_every_topic_out(runtime: Runtime) -> None:
    shard = IndexShard(runtime, "later.db")
    summary = shard.summary()
    assert (summary.topics, summary.content, shard.content()) == ((), "", "")
    assert rules_out(summary.bloom, ["coast"])


def test_the_content_changes_when_the_index_does_and_only_then(shard: IndexShard) -> None:
    before = shard.summary()
    hits(shard, {"text": TEXT})
    assert shard.content() == before.content
    put("new", "a dunlin at the coast")
    after = shard.summary()
    assert after.content == shard.content() != before.content
    assert after.bloom != before.bloom


def test_however_many_and_long_topics_are_the_summary_can_be_published(runtime: Runtime) -> None:
    named = [f"topic {number:03d}" for number in range(150)]
    long = "x" * 2_000
    rag_ingest_document(INDEX, SourceDocument("d", "d.txt", TEXT, metadata={"topics": "\n".join([long, *named])}), 80).unwrap()
    summary = IndexShard(runtime, INDEX).summary()
    assert summary.topics == tuple(named[:100])
    assert not any(rules_out(summary.bloom, [name]) for name in (*named, long))
    assert fits(Summary("s", embedding_of(runtime), summary.topics, summary.bloom, 0))


def test_only_the_most_frequent_words_are_in_the_filter(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexshard, "_TERMS", 1)
    put("a", "raven owl")
    put("b", "raven wren")
    bloom = Bloom.read(IndexShard(runtime, INDEX).summary().bloom)
    assert bloom is not None
    assert [bloom.may_hold("term", term) for term in ("raven", "owl", "wren")] == [True, False, False]
