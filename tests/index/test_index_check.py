"""R26, R41: check walks every row, and whatever is damaged is named; a damaged file is never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import numpy as np
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import (
    CheckReport,
    Config,
    Err,
    Ok,
    Runtime,
    UnwrapError,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import vectors
from rag_stdlib.options import QueryOptions
from rag_stdlib.text.normalize import index_terms

PATH = "index.db"
TEXT = "First sentence of words. Second sentence of words. Third sentence of words."


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Callable[..., CheckReport]]:
    """Give a function that damages a sound index by SQL, and checks it."""
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=8)) as runtime:
        for name in ("a", "b"):
            assert rag_ingest(PATH, name, "s", TEXT, 30).is_ok
        assert rag_check(PATH).unwrap().clean
        runtime.close()

        def damage(*statements: str | Callable[[apsw.Connection], object]) -> CheckReport:
            connection = apsw.Connection(str(tmp_path / PATH))
            connection.pragma("foreign_keys", False)
            vectors.load_extension(connection)
            for statement in statements:
                if isinstance(statement, str):
                    list(connection.execute(statement))
                else:
                    statement(connection)
            connection.close()
            return rag_check(PATH).unwrap()

        yield damage


def blob(*values: float) -> str:
    return "x'" + np.array(values, "<f4").tobytes().hex() + "'"


@pytest.mark.parametrize(("statement", "named"), [
    ("UPDATE rag_documents SET rest = rest || ' more' WHERE id = 'a'", "document 'a': its text does not have the stored digest"),
    ("UPDATE rag_documents SET content_sha256 = 'x' WHERE id = 'a'", "document 'a': its text does not have"),
    ("UPDATE rag_documents SET metadata = '[]' WHERE id = 'a'", "document 'a': its metadata is no object"),
    ("UPDATE rag_documents SET metadata = '{' WHERE id = 'a'", "documents: unreadable"),
    ("UPDATE rag_documents SET rest = x'ff00' WHERE id = 'a'", "documents: unreadable"),
    ("UPDATE rag_documents SET rest = CAST(x'ff' AS TEXT) WHERE id = 'a'", "documents: unreadable"),
    ("UPDATE rag_documents SET chunks = chunks + 1 WHERE id = 'b'", "document 'b':"),
    ("UPDATE rag_documents SET bytes = bytes + 1 WHERE id = 'a'", "document 'a': its text has"),
    ("UPDATE rag_chunks SET text = 'other' WHERE chunk_id = 'a:1'", "document 'a': its text does not have the stored digest"),
    ("UPDATE rag_chunks SET text = 'other' WHERE chunk_id = 'a:1'", "chunk 'a:1': has a wrong provenance key"),
    ("UPDATE rag_chunks SET start_char = start_char + 1 WHERE chunk_id = 'a:1'", "chunk 'a:1': has a wrong provenance key"),
    ("UPDATE rag_chunks SET start_byte = start_byte + 1 WHERE chunk_id = 'a:1'", "chunk 'a:1': has wrong byte offsets"),
    ("UPDATE rag_chunks SET end_byte = end_byte - 1 WHERE chunk_id = 'a:1'", "chunk 'a:1': has wrong byte offsets"),
    ("UPDATE rag_chunks SET provenance_key = 'rag_0' WHERE chunk_id = 'a:1'", "chunk 'a:1': has a wrong provenance key"),
    ("UPDATE rag_chunks SET content_sha256 = 'x' WHERE chunk_id = 'a:1'", "chunk 'a:1': has a wrong content digest"),
    ("UPDATE rag_chunks SET chunk_id = 'b:9' WHERE chunk_id = 'a:1'", "chunk 'a:1': is called 'b:9'"),
    ("UPDATE rag_chunks SET ordinal = 9, chunk_id = 'a:9' WHERE chunk_id = 'a:1'", "document 'a':"),
    ("UPDATE rag_chunks SET start_char = 'x' WHERE chunk_id = 'a:1'", "chunk"),
    ("DELETE FROM rag_chunks WHERE chunk_id = 'a:1'", "document 'a': 3 chunks up to number 3, where 4 were stored"),
    ("DELETE FROM rag_documents WHERE id = 'a'", "SQLite: a row of rag_chunks has no rag_documents"),
    ("INSERT INTO rag_lexical(rowid, terms) VALUES (999, 'stray')", "lexical index: 9 rows for 8 chunks"),
    ("DROP TABLE rag_lexical", "lexical: unreadable"),
    ("DELETE FROM rag_lexical_docsize WHERE id = 1", "lexical index: 7 rows for 8 chunks"),
    ("DELETE FROM rag_lexical_data WHERE id > 10", "SQLite:"),
    ("INSERT INTO rag_vectors(rowid, embedding) VALUES (999, " + blob(1, *[0] * 7) + ")", "vectors: 1 belong to no chunk"),
    ("UPDATE rag_vectors SET embedding = " + blob(2, *[0] * 7) + " WHERE rowid = 1", "vectors: 1 are not of unit length"),
    ("UPDATE rag_vectors SET embedding = " + blob(float("nan"), *[0] * 7) + " WHERE rowid = 1", "vectors: 1 are not of unit length"),
    ("UPDATE rag_vectors SET embedding = " + blob(*[0] * 8) + " WHERE rowid = 1", "vectors: 1 are not of unit length"),
    ("UPDATE rag_vectors_vector_chunks00 SET vectors = x'00'", "vectors: unreadable (a block of vectors"),
    ("UPDATE rag_vectors_chunks SET rowids = x'00'", "vectors: unreadable (a block of vectors"),
    ("UPDATE rag_vectors_rowids SET chunk_offset = 1 - chunk_offset WHERE rowid IN (1, 2)", "vectors: the row list points"),
    ("DELETE FROM rag_vectors_rowids WHERE rowid = 1", "vectors: the table's row list and its blobs differ"),
    ("CREATE TRIGGER t AFTER INSERT ON rag_chunks BEGIN DELETE FROM rag_documents; END", "schema: the trigger 't' does not belong"),
    ("CREATE VIEW v AS SELECT rest FROM rag_documents", "schema: the view 'v' does not belong"),
    ("CREATE TABLE notes(x)", "schema: the table 'notes' does not belong"), ("CREATE INDEX i ON rag_chunks(source)", "schema: the index 'i' does not"),
    ("ALTER TABLE rag_chunks ADD COLUMN extra", "schema: the table 'rag_chunks' is not as"),
    ("DROP TABLE rag_lexical", "schema: the table 'rag_lexical' is missing"),
    ("CREATE TABLE rag_staging(x)", "schema: the table 'rag_staging' is not as"),
    ("UPDATE rag_meta SET value = replace(value, '\"dim\":8', '\"dim\":4') WHERE key = 'embedder'", "schema: the table 'rag_vectors' is not as"),
    ("DELETE FROM rag_meta WHERE key = 'embedder'", "vectors: a table of vectors, but no embedder"),
    ("UPDATE rag_meta SET value = '{' WHERE key = 'embedder'", "vectors: unreadable"),
])
def test_r41_damage_is_named(damaged: Callable[..., CheckReport], statement: str, named: str) -> None:
    report = damaged(statement)
    assert not report.clean
    assert any(problem.startswith(named) for problem in report.problems), report.problems


def test_r29_r41_other_terms_and_doubled_rows_of_the_lexical_index_are_seen(damaged: Callable[..., CheckReport]) -> None:
    def other_terms(connection: apsw.Connection) -> None:
        seq, text = connection.execute("SELECT seq, text FROM rag_chunks LIMIT 1").fetchall()[0]
        connection.execute("INSERT INTO rag_lexical(rag_lexical, rowid, terms) VALUES ('delete', ?, ?)", (seq, index_terms(str(text))))
        connection.execute("INSERT INTO rag_lexical(rowid, terms) VALUES (?, ?)", (seq, "other terms"))

    report = damaged(other_terms)
    assert report.problems == ("lexical index: its postings are not those of the chunks' texts; run compact to rebuild them",)
    assert rag_compact(PATH).is_ok
    assert rag_check(PATH).unwrap().clean


def test_a_missing_vector_is_a_notice(damaged: Callable[..., CheckReport]) -> None:
    report = damaged("DELETE FROM rag_vectors WHERE rowid = 1")
    assert report.problems == ()
    assert report.notices == ("1 of 8 chunks have no vector; vector and hybrid searches refuse until reembed",)
    assert report.vectors == 7


def test_many_problems_are_cut_at_a_hundred(lexical: Runtime, tmp_path: Path) -> None:
    assert rag_ingest(PATH, "a", "s", "x " * 400, 2).unwrap() > 200
    lexical.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    connection.execute("UPDATE rag_chunks SET provenance_key = ''")
    connection.close()
    assert len(rag_check(PATH).unwrap().problems) == 100


@pytest.mark.parametrize(("table", "row"), [("rag_lexical", "INSERT INTO rag_lexical(rowid, terms) VALUES (999, 'sentence')"),
                                            ("rag_vectors", f"INSERT INTO rag_vectors(rowid, embedding) VALUES (999, {blob(1, *[0] * 7)})")])
def test_stray_rows_fail_a_search_by_name(damaged: Callable[..., CheckReport], table: str, row: str) -> None:
    damaged(row)
    mode = "lexical" if table == "rag_lexical" else "vector"
    result = rag_query(PATH, "sentence", 100, QueryOptions(mode=mode))  # type: ignore[arg-type]
    assert isinstance(result, Err)
    assert result.error.code == "index_corrupt"
    assert "belong to no chunk" in result.error


@pytest.mark.parametrize("statement", ["DROP TABLE rag_lexical", "DROP TABLE rag_meta", "DROP TABLE rag_chunks",
                                       "ALTER TABLE rag_documents DROP COLUMN metadata",
                                       "UPDATE rag_documents SET metadata = '{'",
                                       "UPDATE rag_documents SET rest = CAST(x'ff' AS TEXT)",
                                       "UPDATE rag_chunks SET text = CAST(x'ff' AS TEXT)",
                                       "UPDATE rag_vectors_vector_chunks00 SET vectors = x'00'",
                                       "UPDATE rag_vectors_chunks SET validity = x''",
                                       "PRAGMA user_version = 0", "PRAGMA user_version = -3"])
def test_no_tool_reports_damage_as_a_defect_of_its_own(damaged: Callable[..., CheckReport], statement: str) -> None:
    with suppress(UnwrapError):
        damaged(statement)
    codes = set()
    for call in (lambda: rag_search(PATH, "sentence", 5), lambda: rag_query(PATH, "sentence", 5, QueryOptions(metadata={"a": 1})),
                 lambda: rag_query(PATH, "sentence", 5, QueryOptions(mode="lexical")), lambda: rag_get(PATH, "a"),
                 lambda: rag_get(PATH, "a:0"), lambda: rag_check(PATH), lambda: rag_stats(PATH),
                 lambda: rag_ingest(PATH, "a", "s", "new text", 30), lambda: rag_delete(PATH, "b"), lambda: rag_compact(PATH)):
        result = call()
        codes.add(result.error.code if isinstance(result, Err) else "ok")
        json.dumps(str(result))
    assert codes <= {"ok", "index_corrupt", "vectors_missing", "not_found"}, codes
    assert "index_corrupt" in codes or statement.startswith("UPDATE rag_documents SET rest")


def test_a_truncated_file_or_flipped_bytes_give_errors_or_problems(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=8)):
        for number in range(30):
            rag_ingest(PATH, f"d{number}", "s", TEXT * 3, 30)
    whole = (tmp_path / PATH).read_bytes()
    rng = random.Random(9)
    noticed = 0
    for number in range(60):
        data = bytearray(whole)
        if number < 12:
            del data[len(whole) * number // 12:]
        else:
            for _ in range(rng.choice((1, 8, 200))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / PATH).write_bytes(data)
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=8)):
            for result in (rag_check(PATH), rag_search(PATH, "sentence words", 50), rag_stats(PATH), rag_get(PATH, "d3"),
                           rag_query(PATH, "words", 5, QueryOptions(mode="vector")), rag_ingest(PATH, "d5", "s", "new", 30),
                           rag_delete(PATH, "d7"), rag_compact(PATH), rag_check(PATH)):
                if isinstance(result, Err):
                    assert result.error.code in ("index_corrupt", "not_an_index", "index_missing", "embedding_mismatch", "index_io",
                                                 "index_too_new", "vectors_missing", "not_found", "index_foreign_schema"), result
            first = rag_check(PATH)
            noticed += isinstance(first, Err) or not first.value.clean
        for side in ("-wal", "-shm", "-journal"):
            (tmp_path / f"{PATH}{side}").unlink(missing_ok=True)
    assert noticed > 30
    (tmp_path / PATH).write_bytes(whole)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=8)):
        assert rag_check(PATH) == Ok(CheckReport(30, 330, 330))
