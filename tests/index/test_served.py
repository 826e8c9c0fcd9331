"""What a provider reads of an index: sources, chunks by names that stay true, bytes, topics."""

from __future__ import annotations

import hashlib

import pytest
from corpus_files import PATH, repo, switch_to

from rag_stdlib import (
    Failure,
    Runtime,
    SourceDocument,
    rag_check,
    rag_delete,
    rag_ingest,
    rag_ingest_document,
    rag_ingest_many,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import corpora, pruning, served, writer

TEXT = "One sentence about apples. " * 12


def test_a_source_is_found_by_its_path_a_corpus_before_all_others(lexical: Runtime) -> None:
    switch_to(lexical, repo("alpha", "1"), {"a.md": "Corpus words."})
    rag_ingest(PATH, "alpha/a.md", "alpha/a.md", "A deposit under the same path.", 100).unwrap()
    rag_ingest(PATH, "note-2", "shelf", "second", 100).unwrap()
    rag_ingest(PATH, "note-1", "shelf", "first", 100).unwrap()
    rag_ingest(PATH, "corpus:fake/x.md", "elsewhere", "not of a corpus", 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        found = {path: served.source_by_path(connection, path) for path in ("alpha/a.md", "note-1", "shelf", "fake/x.md", "nowhere")}
    assert {path: source and (source.doc_id, source.corpus) for path, source in found.items()} == {
        "alpha/a.md": ("corpus:alpha/a.md", True), "note-1": ("note-1", False), "shelf": ("note-1", False),
        "fake/x.md": None, "nowhere": None}


def test_b1_b2_1005_sources_page_without_loss_or_repeat(lexical: Runtime) -> None:
    rag_ingest_many(PATH, [SourceDocument(f"d{number:04}", "s", "t") for number in range(1005)], 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        sizes = [len(served.sources_page(connection, offset, 10)) for offset in (0, 995, 1000, 2000)]
        walked = [source.doc_id for offset in range(0, 1010, 7) for source in served.sources_page(connection, offset, 7)]
    assert sizes == [10, 10, 5, 0]
    assert walked == [f"d{number:04}" for number in range(1005)]


def test_a_chunks_name_never_comes_to_stand_for_another_text(lexical: Runtime) -> None:
    rag_ingest(PATH, "d", "s", TEXT, 80).unwrap()
    with lexical.store.reading(PATH) as connection:
        chunks = served.chunks_of(connection, "d", 500)
        names = [served.chunk_id(chunk) for chunk in chunks]
        assert [served.chunk(connection, name) for name in names] == chunks
        assert [len(served.chunks_of(connection, "d", limit)) for limit in (1, 2)] == [1, 2]
    assert len(set(names)) == len(names) > 3
    assert all(name.startswith("d#") and len(name) == 2 + 16 for name in names)
    rag_ingest(PATH, "d", "s", "Pears. " * 40, 80).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert [served.chunk(connection, name) for name in names] == [None] * len(names)


@pytest.mark.parametrize("name", ["", "#", "d", "d#", "d#123", "d#0123456789abcdeF", "#0123456789abcdef", "d:0", "d#0123456789abcdef\n"])
def test_a_name_that_is_none_names_nothing(lexical: Runtime, name: str) -> None:
    rag_ingest(PATH, "d", "s", TEXT, 80).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert served.chunk(connection, name) is None


def test_the_bytes_are_those_that_came_in(lexical: Runtime) -> None:
    odd = b"caf\xe9 au lait"
    document = SourceDocument("odd", "s", "caf\N{REPLACEMENT CHARACTER} au lait")
    writer.ingest(lexical.store, PATH, document, 100, original=odd)
    rag_ingest(PATH, "plain", "s", " plain text\r\n", 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert [served.document_bytes(connection, doc_id) for doc_id in ("odd", "plain", "none")] == [odd, b" plain text\r\n", None]
    rag_ingest(PATH, "odd", "s", "now plain", 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert served.document_bytes(connection, "odd") == b"now plain"
        assert corpora.original(connection, "odd") is None
    assert rag_check(PATH).unwrap().clean


def test_topics_match_any_without_regard_to_case(lexical: Runtime) -> None:
    for doc_id, topics in (("a", "Mesh\nRAG"), ("b", "  mesh "), ("c", "meshes"), ("d", None)):
        rag_ingest_document(PATH, SourceDocument(doc_id, "s", doc_id, metadata={"topics": topics} if topics else {}), 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert served.documents_with_topics(connection, [" MESH "]) == ("a", "b")
        assert served.documents_with_topics(connection, ["rag", "meshes"]) == ("a", "c")
        assert served.documents_with_topics(connection, []) == ()


@pytest.mark.parametrize("kind", ["lexical", "hybrid"])
def test_pruned_chunks_are_not_found_and_the_document_stays_whole(kind: str, request: pytest.FixtureRequest) -> None:
    runtime: Runtime = request.getfixturevalue(kind)
    text = "Apples are red. " * 6 + "Bananas are yellow. " * 6 + "Cherries are dark. " * 6
    odd = text.encode() + b"\xff"
    writer.ingest(runtime.store, PATH, SourceDocument("d", "s", text), 100, embedder=runtime.embedder, original=odd)
    with runtime.store.reading(PATH) as connection:
        chunks = served.chunks_of(connection, "d", 500)
    goes = {served.chunk_id(chunk) for chunk in chunks if "Bananas" in chunk.text}
    stays = [served.chunk_id(chunk) for chunk in chunks if served.chunk_id(chunk) not in goes]
    assert set(pruning.prune(runtime.store, PATH, "d", {*goes, "other#0123456789abcdef"})) == goes
    with runtime.store.reading(PATH) as connection:
        assert [served.chunk_id(chunk) for chunk in served.chunks_of(connection, "d", 500)] == stays
        assert served.document_bytes(connection, "d") == odd
    assert all("Bananas" not in chunk.text for chunk in rag_search(PATH, "bananas yellow", 50).unwrap())
    assert rag_check(PATH).unwrap().clean
    stats = rag_stats(PATH).unwrap()
    assert stats.vectors == (stats.chunks if kind == "hybrid" else 0)
    assert pruning.prune(runtime.store, PATH, "d") == stays
    assert pruning.prune(runtime.store, PATH, "d") == []
    assert rag_search(PATH, "apples bananas cherries", 50).unwrap() == []
    assert rag_check(PATH).unwrap().clean
    assert rag_ingest(PATH, "d", "s", text, 100).unwrap() == len(chunks), "who ingests it again makes it whole"


def test_only_what_is_stored_and_no_corpus_is_pruned(lexical: Runtime) -> None:
    switch_to(lexical, repo("alpha", "1"), {"a.md": "Corpus words."})
    for doc_id, code in (("corpus:alpha/a.md", "corpus_document"), ("none", "not_found")):
        with pytest.raises(Failure) as caught:
            pruning.prune(lexical.store, PATH, doc_id)
        assert caught.value.error.code == code


def put_with_topics(doc_id: str, text: str, topics: str | None, source: str | None = None) -> None:
    metadata = {} if topics is None else {"topics": topics}
    rag_ingest_document(PATH, SourceDocument(doc_id, source or f"{doc_id}.txt", text, metadata=metadata), 200).unwrap()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_topics_are_listed_once_without_regard_to_case_and_outer_blanks(lexical: Runtime) -> None:
    put_with_topics("a", "one", "Coast\n wood ")
    put_with_topics("b", "two", "coast")
    put_with_topics("c", "three", "\n \nÜber")
    put_with_topics("d", "four", None)
    put_with_topics("e", "five", "über\nwood")
    with lexical.store.reading(PATH) as connection:
        assert served.topics(connection) == ["Coast", "wood", "Über"]
        assert served.documents_with_topics(connection, ["COAST "]) == ("a", "b")
        assert served.documents_with_topics(connection, ["ÜBER", "nowhere"]) == ("c", "e")
        assert [served.documents_with_topics(connection, none) for none in ([], [""], ["\n", " "])] == [()] * 3


def test_every_topic_that_a_filter_is_made_of_finds_its_documents(lexical: Runtime) -> None:
    for number, topics in enumerate(["a\nb", "B\nÄ", " ä \nstraße", "STRASSE"]):
        put_with_topics(f"d{number}", "text", topics)
    with lexical.store.reading(PATH) as connection:
        found = {topic: served.documents_with_topics(connection, [topic]) for topic in served.topics(connection)}
    assert found == {"a": ("d0",), "B": ("d0", "d1"), "Ä": ("d1", "d2"), "STRASSE": ("d2", "d3")}


def test_an_index_without_topics_lists_none(lexical: Runtime) -> None:
    put_with_topics("a", "one", None)
    with lexical.store.reading(PATH) as connection:
        assert served.topics(connection) == []
        assert served.documents_with_topics(connection, ["a"]) == ()


def test_the_sources_of_a_text_are_sorted_and_each_named_once(lexical: Runtime) -> None:
    for doc_id, source in (("a", "z.md"), ("b", "y.md"), ("c", "y.md"), ("d", "x.md")):
        put_with_topics(doc_id, "the same", None, source)
    put_with_topics("e", "another", None)
    with lexical.store.reading(PATH) as connection:
        wanted = [digest(text) for text in ("the same", "another", "nowhere")]
        everywhere = {digest("the same"): ["x.md", "y.md", "z.md"], digest("another"): ["e.txt"]}
        assert served.sources_of(connection, wanted, None) == everywhere
        assert list(served.sources_of(connection, wanted, None)) == sorted(everywhere)
        assert served.sources_of(connection, wanted, ("a", "c")) == {digest("the same"): ["y.md", "z.md"]}
        assert served.sources_of(connection, wanted, ()) == served.sources_of(connection, [], None) == {}


def test_terms_come_by_the_chunks_that_hold_them(lexical: Runtime) -> None:
    for doc_id, text in (("a", "raven raven raven owl"), ("b", "owl wren"), ("c", "owl raven 東京都"), ("d", "ibis")):
        put_with_topics(doc_id, text, None)
    with lexical.store.reading(PATH) as connection:
        assert served.frequent_terms(connection, 3) == ["owl", "raven", "ibis"]
        assert set(served.frequent_terms(connection, 100)) == {"owl", "raven", "ibis", "wren", "東京", "京都", "都"}
    rag_delete(PATH, "a").unwrap()
    rag_delete(PATH, "b").unwrap()
    with lexical.store.reading(PATH) as connection:
        assert set(served.frequent_terms(connection, 100)) == {"owl", "raven", "ibis", "東京", "京都", "都"}
        assert served.frequent_terms(connection, 0) == []
