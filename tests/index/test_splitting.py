"""An index cut by document into several: together they hold what it held, to the last bit, and each is an index like any other."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest
from corpus_files import PATH as CORPUS
from corpus_files import repo, switch_to
from embedder_double import EmbedderDouble
from hypothesis import given, settings
from hypothesis import strategies as st
from splits import WHOLE, cut, files, ingest

from rag_stdlib import (
    Config,
    Failure,
    QueryOptions,
    Runtime,
    SourceDocument,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_query,
    rag_reembed,
    rag_stats,
)
from rag_stdlib.corpus import deposits
from rag_stdlib.corpus.describe import describe, keep_signature
from rag_stdlib.index import corpora, corpuswrite, multiset, schema, splitting, vectors, writer
from rag_stdlib.index.sharding import shard_of
from rag_stdlib.index.splitting import Shard, shard_path, split

TABLES = {  # without seq, which each index counts for itself
    "rag_documents": "*",
    "rag_chunks": "chunk_id, doc_id, source, text, start_char, end_char, provenance_key, ordinal, start_byte, end_byte, start_line, end_line, page, "
                  "content_sha256, context",
    "rag_corpus_files": "*", "rag_originals": "*"}


def held(runtime: Runtime, path: str) -> dict[str, list[tuple[Any, ...]]]:
    """Read every row of an index, and the bytes of each vector by its chunk's id."""
    with runtime.store.reading(path) as connection:
        found = {table: connection.execute(f"SELECT {columns} FROM {table}").fetchall() if schema.has_table(connection, table) else []
                 for table, columns in TABLES.items()}
        names = dict(connection.execute("SELECT seq, chunk_id FROM rag_chunks").fetchall())
        identity = schema.stored_identity(connection)
        stored = vectors.load_some(connection, list(names), identity.dim) if identity is not None else {}
        return {**found, "vectors": [(names[seq], vector.tobytes()) for seq, vector in stored.items()]}


def together(runtime: Runtime, made: tuple[Shard, ...]) -> dict[str, list[tuple[Any, ...]]]:
    parts = [held(runtime, shard.index) for shard in made]
    return {what: sorted(row for part in parts for row in part[what]) for what in parts[0]}


def facts(runtime: Runtime, path: str) -> dict[str, Any]:
    with runtime.store.reading(path) as connection:
        return dict(connection.execute("SELECT key, value FROM rag_meta").fetchall())


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12).filter(str.strip)
texts = st.text(st.sampled_from("ab c.\n\té返🙂\u0301# "), max_size=200)
metadata = st.dictionaries(names, st.one_of(names, st.integers(-10, 10), st.booleans(), st.none()), max_size=3)


@settings(max_examples=30)
@given(st.dictionaries(names, st.tuples(texts, metadata, st.booleans(), st.integers(1, 60)), max_size=12), st.integers(2, 6), st.booleans())
def test_the_shards_together_are_the_index_and_each_is_sound(given_documents: dict[str, Any], shards: int, replaced: bool) -> None:
    with tempfile.TemporaryDirectory() as name, Runtime(Config(), root=name, embedder=EmbedderDouble()) as hybrid, \
            Runtime(Config(), root=name) as lexical:
        hybrid.store  # noqa: B018 - opened, so that both are
        for again in range(1 + replaced):
            for doc_id, (text, facts_of, embedded, chars) in given_documents.items():
                document = SourceDocument(doc_id, f"s-{doc_id}", text, metadata=facts_of, lines=((0, 3 + again),), pages=((0, 7),))
                writer.ingest(hybrid.store, WHOLE, document, chars, embedder=hybrid.embedder if embedded else None)
        writer.ingest(lexical.store, WHOLE, SourceDocument("last", "s", "last words"), 10)
        wanted = {what: sorted(rows) for what, rows in held(lexical, WHOLE).items()}
        made = cut(lexical, shards)
        assert together(lexical, made) == wanted
        summed = multiset.EMPTY
        for number, shard in enumerate(made):
            assert (shard.index, shard.shard) == (f"whole-{number}.db", f"{number}/{shards}")
            rows = held(lexical, shard.index)
            assert all(shard_of(row[0], shards) == number for row in rows["rag_documents"])
            assert (shard.documents, shard.chunks, shard.vectors) == (len(rows["rag_documents"]), len(rows["rag_chunks"]), len(rows["vectors"]))
            assert rag_check(shard.index).unwrap().problems == ()
            summed = multiset.plus(summed, multiset.from_bytes(facts(lexical, shard.index)["content_state"]))
            assert facts(lexical, shard.index).get("embedder") == facts(lexical, WHOLE).get("embedder")
        assert multiset.to_bytes(summed) == facts(lexical, WHOLE)["content_state"]


@pytest.mark.parametrize("shards", [2, 5])
def test_a_search_by_vectors_gives_exactly_the_scores_of_the_whole(hybrid: Runtime, embedder: EmbedderDouble, shards: int) -> None:
    ingest(40)
    query, options = "word13 of 4", QueryOptions("vector")
    whole = {chunk.chunk_id: chunk for chunk in rag_query(WHOLE, query, 10_000, options).unwrap()}
    asked = embedder.texts
    made = cut(hybrid, shards)
    assert embedder.texts == asked, "nothing was embedded"
    parts = [rag_query(shard.index, query, 10_000, options).unwrap() for shard in made]
    assert {chunk.chunk_id: chunk for part in parts for chunk in part} == whole
    assert sum(map(len, parts)) == len(whole) > 100
    assert all(part == sorted(part, key=lambda chunk: -(chunk.score or 0.0)) for part in parts)
    words = [{chunk.chunk_id for chunk in rag_query(shard.index, "word13", 10_000, QueryOptions("lexical")).unwrap()} for shard in made]
    assert set().union(*words) == {chunk.chunk_id for chunk in rag_query(WHOLE, "word13", 10_000, QueryOptions("lexical")).unwrap()}


def test_a_shard_is_as_if_its_documents_had_been_ingested_in_order(hybrid: Runtime) -> None:
    ingest(30)
    rag_delete(WHOLE, "d7").unwrap()
    made = cut(hybrid, 3)
    assert sum(shard.documents for shard in made) == 29
    for number, shard in enumerate(made):
        fresh = f"fresh-{number}.db"
        with hybrid.store.reading(shard.index) as connection:
            ids = [doc_id for (doc_id,) in connection.execute("SELECT doc_id FROM rag_chunks GROUP BY doc_id ORDER BY min(seq)")]
            seqs = [seq for (seq,) in connection.execute("SELECT seq FROM rag_chunks ORDER BY seq")]
        assert ids == sorted(ids, key=lambda doc_id: int(doc_id[1:]))
        assert seqs == list(range(1, shard.chunks + 1))
        for doc_id in ids:
            document = rag_get(WHOLE, doc_id).unwrap()
            rag_ingest_document(fresh, SourceDocument(doc_id, document.source, document.text, metadata=document.metadata), 80).unwrap()
        assert held(hybrid, fresh) == held(hybrid, shard.index)
        assert rag_stats(fresh).unwrap().content == rag_stats(shard.index).unwrap().content
        assert facts(hybrid, shard.index)["generation"] == shard.documents


def test_a_corpus_is_kept_whole_and_hits_look_the_same(hybrid: Runtime) -> None:
    alpha, beta = repo("alpha", "1"), repo("beta", "2")
    switch_to(hybrid, alpha, {f"{number}.md": f"# Part {number}\n\nApples of sort {number} ripen in autumn.\n" for number in range(12)})
    switch_to(hybrid, beta, {"b.md": "# Beta\n\nApples again.\n"}, 1)
    document, original = deposits.upload("scan", b"apples \xff\xfe of mine")
    writer.ingest(hybrid.store, CORPUS, document, 80, deposits.OPTIONS, hybrid.embedder, original)
    keep_signature(hybrid.store, CORPUS, "f" * 64, b"signature")
    corpuswrite.stage(hybrid.store, CORPUS, hybrid.embedder.identity(), ["x"], hybrid.embedder.embed(["x"], "passage"))  # type: ignore[union-attr]
    whole = {chunk.chunk_id: chunk for chunk in rag_query(CORPUS, "apples", 100, QueryOptions("vector")).unwrap()}
    wanted = {what: sorted(rows) for what, rows in held(hybrid, CORPUS).items()}
    made = cut(hybrid, 3, CORPUS)
    assert together(hybrid, made) == wanted
    found = {chunk.chunk_id: chunk for shard in made for chunk in rag_query(shard.index, "apples", 100, QueryOptions("vector")).unwrap()}
    assert found == whole
    assert found["corpus:beta/b.md:0"].metadata == {"kind": "corpus", "repo_id": "beta", "commit": "2" * 40, "path": "beta/b.md"}
    for shard in made:
        assert rag_check(shard.index).unwrap().clean
        with hybrid.store.reading(shard.index) as connection, hybrid.store.reading(CORPUS) as source:
            assert corpora.repos(connection) == corpora.repos(source) == [alpha, beta]
            doc_ids = [doc_id for (doc_id,) in connection.execute("SELECT id FROM rag_documents")]
            assert corpora.sections(connection, doc_ids) == corpora.sections(source, doc_ids)
            assert [corpora.original(connection, doc_id) for doc_id in doc_ids] == [corpora.original(source, doc_id) for doc_id in doc_ids]
            assert not schema.has_table(connection, "rag_corpus_staging")
        assert facts(hybrid, shard.index).keys() & {"corpus_signature", "corpus_staging", "staging"} == set()


def test_a_shard_of_a_corpus_is_not_described_as_one_and_one_without_repositories_is(hybrid: Runtime) -> None:
    rag_ingest(WHOLE, "d", "s", "words of mine", 100).unwrap()
    switch_to(hybrid, repo("alpha", "1"), {"a.md": "# Alpha\n\nThe first apple pie.\n"})
    identity = EmbedderDouble().identity()
    for shard in cut(hybrid, 2, CORPUS):
        with hybrid.store.reading(shard.index) as connection, pytest.raises(Failure, match=f"^the index '{shard.index}' is shard") as caught:
            describe(connection, identity)
        assert caught.value.error.code == "index_is_shard"
    for shard in cut(hybrid, 2):
        with hybrid.store.reading(shard.index) as connection:
            assert describe(connection, identity)["repos"] == []


def test_a_shard_works_like_any_index(hybrid: Runtime, embedder: EmbedderDouble) -> None:
    ingest(20)
    first, *_ = cut(hybrid, 2)
    shard = first.index
    rag_ingest(shard, "new", "s", "quite new words", 80).unwrap()
    gone = next(row[0] for row in held(hybrid, shard)["rag_documents"])
    rag_delete(shard, gone).unwrap()
    rag_compact(shard).unwrap()
    assert rag_query(shard, "quite new", 1, QueryOptions("hybrid")).unwrap()[0].doc_id == "new"
    with Runtime(Config(), root=hybrid.config.root, embedder=EmbedderDouble(16)):
        rag_reembed(shard).unwrap()
        assert rag_check(shard).unwrap().clean
    figures = rag_stats(shard).unwrap()
    assert (figures.documents, figures.vectors) == (first.documents, figures.chunks)
    assert figures.notices == ("shard 0/2 of an index that was split by documents",)
    assert rag_stats(WHOLE).unwrap().notices == ()
    assert embedder.calls


def test_shards_without_documents_are_indexes_with_the_embedder_of_the_whole(hybrid: Runtime) -> None:
    rag_ingest(WHOLE, "only", "s", "one document", 80).unwrap()
    made = cut(hybrid, 7)
    assert sorted(shard.documents for shard in made) == [0] * 6 + [1]
    for shard in made:
        assert rag_check(shard.index).unwrap().clean
        assert facts(hybrid, shard.index)["embedder"] == facts(hybrid, WHOLE)["embedder"]
        assert rag_query(shard.index, "document", 5).unwrap() == rag_query(WHOLE, "document", 5).unwrap()[:shard.documents]
        assert rag_stats(shard.index).unwrap().content
        assert rag_ingest(shard.index, "more", "s", "another document", 80).is_ok
        assert rag_check(shard.index).unwrap().clean


def test_an_index_without_vectors_gives_shards_without(lexical: Runtime) -> None:
    ingest(10)
    for shard in cut(lexical, 2):
        assert (shard.vectors, "embedder" in facts(lexical, shard.index)) == (0, False)
        assert rag_check(shard.index).unwrap().clean


def test_documents_that_come_and_go_meanwhile_are_not_in_it(hybrid: Runtime) -> None:
    ingest(60)
    wanted = {what: sorted(rows) for what, rows in held(hybrid, WHOLE).items()}
    told: list[tuple[int, int]] = []

    def meanwhile(done: int, total: int) -> None:
        if not told:
            rag_ingest(WHOLE, "late", "s", "too late", 80).unwrap()
            rag_delete(WHOLE, "d3").unwrap()
        told.append((done, total))

    made = split(hybrid.root, hybrid.store, WHOLE, 4, progress=meanwhile)
    assert together(hybrid, made) == wanted
    assert rag_get(WHOLE, "late").is_ok
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (len(wanted["rag_chunks"]),) * 2


def test_batches_are_bounded_and_make_no_difference(hybrid: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(40)
    wanted = {what: sorted(rows) for what, rows in held(hybrid, WHOLE).items()}
    sizes: list[int] = []
    add = writer.add

    def adding(connection: apsw.Connection, path: str, group: Any, *rest: Any) -> range:
        sizes.append(sum(document.chunks for document in group))
        return add(connection, path, group, *rest)

    monkeypatch.setattr(writer, "add", adding)
    monkeypatch.setattr(splitting, "_SLICE", 3)
    most = max(row[9] for row in wanted["rag_documents"])
    for name, bound in (("MOST_CHUNKS", most), ("MOST_BYTES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(splitting, name, bound)
            made = cut(hybrid, 2)
        assert together(hybrid, made) == wanted
        assert all(rag_check(shard.index).unwrap().clean for shard in made)
        assert max(sizes) <= most
        assert len(sizes) == 40
        sizes.clear()
        hybrid.store.close_idle()
        for shard in made:
            Path(hybrid.config.root, shard.index).unlink()


@pytest.mark.parametrize(("path", "folder", "named"), [
    ("notes.db", None, "notes-2.db"), ("a/notes.db", None, "a/notes-2.db"), ("a/notes.db", "b/c", "b/c/notes-2.db"), ("a/notes.db", ".", "notes-2.db"),
    ("notes", None, "notes-2"), (".notes", None, ".notes-2"), ("notes.tar.db", None, "notes.tar-2.db"), ("a.b/notes", None, "a.b/notes-2"),
    ("./a//notes.db", None, "a/notes-2.db")])
def test_shards_are_named_after_the_index(path: str, folder: str | None, named: str) -> None:
    assert shard_path(path, 2, folder) == named


def test_shards_can_lie_in_another_folder(lexical: Runtime, tmp_path: Path) -> None:
    ingest(6)
    (tmp_path / "out").mkdir()
    made = cut(lexical, 2, folder="out")
    assert [shard.index for shard in made] == ["out/whole-0.db", "out/whole-1.db"]
    assert json.loads(json.dumps([shard.to_dict() for shard in made]))[0]["shard"] == "0/2"
    assert sum(rag_check(shard.index).unwrap().documents for shard in made) == 6


def test_a_split_by_absolute_path_and_without_anchored_folders(tmp_path: Path) -> None:
    from rag_stdlib.index.store import Store
    from rag_stdlib.root import Root

    root = Root(str(tmp_path), anchored=False)
    with Runtime(Config(), root=tmp_path):
        ingest(6)
    store = Store(root)
    try:
        made = split(root, store, str(tmp_path / WHOLE), 2)
    finally:
        store.close()
    assert sum(shard.documents for shard in made) == 6
    assert sorted(files(tmp_path)) == ["whole-0.db", "whole-1.db", WHOLE]
