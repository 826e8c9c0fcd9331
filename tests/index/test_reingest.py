"""F6 and its kin: what a second ingest, a deletion and an id mean."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import apsw
from asking import LONG, PATH, clean, error_of, ids
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Ok,
    RagDocumentEnvelope,
    Runtime,
    SourceDocument,
    chunk_in_index,
    chunk_is_grounded,
    content_sha256,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_query,
    rag_stats,
)
from rag_stdlib.index import schema
from rag_stdlib.options import QueryOptions


def test_r109_the_returned_count_is_what_is_stored(hybrid: Runtime) -> None:
    for size in (1, 7, 40, 10_000):
        count = rag_ingest(PATH, f"d{size}", "s", LONG[:400], size).unwrap()
        document = rag_get(PATH, f"d{size}").unwrap()
        assert isinstance(document, RagDocumentEnvelope)
        assert document.chunks == count == len([i for i in ids(query="sentence number speaks of topic") | ids("vector")
                                                if i.startswith(f"d{size}:")])
    assert hybrid.has_embedder


def test_r109_a_count_that_does_not_come_out_undoes_the_ingest(lexical: Runtime) -> None:
    rag_ingest(PATH, "d", "s", LONG, 80)
    before = ids()
    with lexical.store.writing(PATH) as connection:
        connection.execute("CREATE TRIGGER stray AFTER INSERT ON rag_chunks WHEN new.ordinal = 1 "
                           "BEGIN DELETE FROM rag_chunks WHERE seq = new.seq; END")
    assert error_of(rag_ingest(PATH, "d", "s", "One sentence here. And another sentence.", 20)) == "internal"
    with lexical.store.writing(PATH) as connection:
        connection.execute("DROP TRIGGER stray")
    assert ids() == before
    assert clean()


def test_r110_a_blank_document_is_unchanged_whatever_the_embedder(tmp_path: Path, embedder: EmbedderDouble) -> None:
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "blank", "s", "  ", 80)
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        for _ in range(2):
            result = rag_ingest(PATH, "blank", "s", "  ", 80)
            assert isinstance(result, Ok)
            assert result.notes == ("unchanged",)
            rag_ingest(PATH, "d", "s", "some words", 80)
        assert embedder.texts == 1


def test_r110_an_unchanged_document_costs_no_embedding_and_no_write(hybrid: Runtime, embedder: EmbedderDouble, tmp_path: Path) -> None:
    rag_ingest(PATH, "d", "s", LONG, 80)
    calls, generation = len(embedder.calls), rag_stats(PATH).unwrap().generation
    hybrid.close()
    before = (tmp_path / PATH).read_bytes()
    for _ in range(3):
        result = rag_ingest(PATH, "d", "s", LONG, 80)
        assert isinstance(result, Ok)
        assert result.notes == ("unchanged",)
    hybrid.close()
    assert (tmp_path / PATH).read_bytes() == before
    assert (len(embedder.calls), rag_stats(PATH).unwrap().generation) == (calls, generation)
    for document, size in ((SourceDocument("d", "other", LONG), 80), (SourceDocument("d", "other", LONG), 81),
                           (SourceDocument("d", "other", LONG, metadata={"a": 1}), 81),
                           (SourceDocument("d", "other", LONG, metadata={"a": True}), 81),
                           (SourceDocument("d", "other", LONG, media_type="text/markdown"), 81),
                           (SourceDocument("d", "other", LONG, lines=((0, 5),)), 81),
                           (SourceDocument("d", "other", LONG, pages=((0, 5),)), 81)):
        generation = rag_stats(PATH).unwrap().generation
        result = rag_ingest_document(PATH, document, size)
        assert isinstance(result, Ok)
        assert result.notes == ()
        assert rag_stats(PATH).unwrap().generation == generation + 1


def test_r110_only_changed_chunks_are_embedded(hybrid: Runtime, embedder: EmbedderDouble) -> None:
    lines = [f"Line {n} stays as it is and fills the window." for n in range(40)]
    rag_ingest(PATH, "d", "s", "\n".join(lines), 50)
    embedder.calls.clear()
    lines[20] = lines[20].replace("stays", "leave")
    chunks = rag_ingest(PATH, "d", "s", "\n".join(lines), 50).unwrap()
    assert chunks >= 40
    assert 0 < embedder.texts <= 3
    assert all("Line 20 leave" in text for _, texts in embedder.calls for text in texts)
    embedder.calls.clear()
    rag_ingest(PATH, "d", "another source", "\n".join(lines), 50)
    assert embedder.calls == []
    assert clean()
    assert hybrid.has_embedder


def test_r196_one_text_is_embedded_once_in_a_call(hybrid: Runtime, embedder: EmbedderDouble) -> None:
    text = "\n".join(["The same line of thirty chars."] * 20 + ["Another line of just as many."])
    chunks = rag_ingest(PATH, "d", "s", text, 4 * 10).unwrap()
    distinct = {chunk.text for chunk in rag_query(PATH, "line", 100, QueryOptions(mode="vector")).unwrap()}
    embedded = [text for role, texts in embedder.calls for text in texts if role == "passage"]
    assert chunks > len(distinct) == len(embedded) == len(set(embedded))
    assert hybrid.has_embedder


def test_r113_a_reader_sees_the_old_or_the_new_document(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def look(_texts: Sequence[str]) -> None:
        seen.append({chunk.source for chunk in rag_query(PATH, "sentence", 100, QueryOptions(mode="lexical")).unwrap_or([])})

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=look)):
        rag_ingest(PATH, "d", "one", LONG, 80)
        rag_ingest(PATH, "d", "two", LONG.replace("topic", "subject"), 80)
    assert seen == [set(), {"one"}]


def test_r120_ids_are_compared_byte_by_byte_and_twins_are_remarked_on(lexical: Runtime) -> None:
    for name in ("Übung.md", "café", "한글"):
        composed, decomposed = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
        first, second = rag_ingest(PATH, composed, "s", "one", 10), rag_ingest(PATH, decomposed, "s", "two", 10)
        assert isinstance(first, Ok)
        assert isinstance(second, Ok)
        assert first.notes == ()
        assert repr(ascii(composed)).strip("'\"") in repr(second.notes[0]) or ascii(composed) in second.notes[0]
        texts = [document.text for document in (rag_get(PATH, composed).unwrap(), rag_get(PATH, decomposed).unwrap())]
        assert texts == ["one", "two"]
    assert rag_stats(PATH).unwrap().documents == 6
    assert lexical.mode == "lexical"


def test_r68_a_deleted_document_is_gone_from_every_part(hybrid: Runtime, tmp_path: Path) -> None:
    rag_ingest(PATH, "d", "s", LONG, 80)
    rag_ingest(PATH, "e", "s", "Sentence of e.", 80)
    count = len(ids()) - 1
    assert rag_delete(PATH, "d") == Ok(count)
    assert ids() == ids("vector") == ids("hybrid") == {"e:0"}
    assert error_of(rag_get(PATH, "d")) == error_of(rag_get(PATH, "d:0")) == error_of(rag_delete(PATH, "d")) == "not_found"
    assert clean()
    hybrid.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    for table in ("rag_documents", "rag_chunks", "rag_lexical_docsize", "rag_vectors_rowids"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(1,)]
    connection.close()


def test_r69_what_was_written_is_found_at_once_in_all_modes(hybrid: Runtime) -> None:
    for number in range(5):
        rag_ingest(PATH, f"d{number}", "s", f"Sentence with marker{number}.", 80)
        for mode in ("lexical", "vector", "hybrid"):
            found = rag_query(PATH, f"marker{number}", 1, QueryOptions(mode=mode)).unwrap()  # type: ignore[arg-type]
            assert [chunk.doc_id for chunk in found] == [f"d{number}"]
    assert hybrid.has_embedder


def test_r213_hashes_are_of_the_exact_bytes(lexical: Runtime) -> None:
    texts = ["if x:\n    a()\nb()", "if x:\n    a()\n    b()", "if x:\r\n    a()\r\nb()", "ﬁle", "file"]
    for number, text in enumerate(texts):
        rag_ingest(PATH, f"d{number}", "s", text, 1000)
    documents = [rag_get(PATH, f"d{number}").unwrap() for number in range(len(texts))]
    assert [document.content_sha256 for document in documents] == [content_sha256(text) for text in texts]
    assert len({document.content_sha256 for document in documents}) == len(texts)
    assert [document.text for document in documents] == texts
    assert lexical.mode == "lexical"


def test_every_envelope_is_grounded_and_in_the_index(hybrid: Runtime) -> None:
    text = "Ünïcödé line one.\r\nLine two 👩‍👩‍👧 here.\rLine three.\n\nLine five ends." * 5
    rag_ingest(PATH, "a:b:0", "source", text, 30)
    for mode in ("lexical", "vector", "hybrid"):
        for chunk in rag_query(PATH, "line", 100, QueryOptions(mode=mode)).unwrap():  # type: ignore[arg-type]
            assert chunk_is_grounded(chunk)
            assert chunk_in_index(PATH, chunk) == Ok(True)
            assert text[chunk.start_char:chunk.end_char] == chunk.text
            assert text.encode()[chunk.start_byte:chunk.end_byte].decode() == chunk.text
            assert chunk.effect_meta.effect_name == chunk.effect_meta.replay_key == "std.rag.search"
            assert chunk.effect_meta.provenance_key == chunk.provenance_key
            assert rag_get(PATH, chunk.chunk_id).unwrap().text == chunk.text
    assert hybrid.has_embedder


def test_schema_statements_issue_no_conflict_clause_on_a_virtual_table(hybrid: Runtime) -> None:
    seen: list[str] = []
    with hybrid.store.writing(PATH, create=True) as connection:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
        from rag_stdlib.index.writer import ingest

        connection.execute("SELECT 1")
    for text in (LONG, "short"):
        ingest(hybrid.store, PATH, SourceDocument("d", "s", text), 80, embedder=hybrid.embedder)
    virtual = [sql for sql in seen if sql.startswith("INSERT") and ("rag_vectors" in sql or "rag_lexical" in sql)]
    assert virtual
    assert not any("OR " in sql or "ON CONFLICT" in sql for sql in virtual)
    assert schema.SCHEMA_VERSION == 1
