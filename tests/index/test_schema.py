"""The version gate: what is ours is read, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from rag_stdlib import Config, Err, Ok, Runtime, rag_check, rag_compact, rag_delete, rag_ingest, rag_search, rag_stats
from rag_stdlib.index import schema

PATH = "index.db"
STD_RAG = """
CREATE TABLE rag_documents(id TEXT PRIMARY KEY, source TEXT NOT NULL, media_type TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE rag_chunks(chunk_id TEXT PRIMARY KEY, doc_id TEXT NOT NULL REFERENCES rag_documents(id), source TEXT NOT NULL,
  text TEXT NOT NULL, start_char INTEGER NOT NULL, end_char INTEGER NOT NULL, provenance_key TEXT NOT NULL);
CREATE TABLE rag_chunk_embeddings(chunk_id TEXT PRIMARY KEY REFERENCES rag_chunks(chunk_id), dimension INTEGER NOT NULL,
  values_json TEXT NOT NULL);
INSERT INTO rag_documents VALUES ('d', 's', 'text/plain', 'text');
"""


def refused_and_left(runtime: Runtime, file: Path, code: str, said: str) -> None:
    """Every tool refuses the file with this code and these words, and its bytes stay."""
    before = file.read_bytes()
    for result in (rag_search(PATH, "text", 3), rag_ingest(PATH, "e", "s", "text", 10), rag_delete(PATH, "d"), rag_check(PATH),
                   rag_stats(PATH), rag_compact(PATH)):
        assert isinstance(result, Err)
        assert result.error.code == code
        assert said in result.error
    runtime.close()
    assert file.read_bytes() == before


@pytest.mark.parametrize(("sql", "code", "said"), [
    (STD_RAG, "index_foreign_schema", "rag import index.db"),
    ("CREATE TABLE notes(x)", "not_an_index", "another program's"),
    ("PRAGMA application_id = 7", "not_an_index", "another program's"),
    ("PRAGMA user_version = 3", "not_an_index", "another program's"),
    (f"PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = 99", "index_too_new", "version 99"),
    (f"PRAGMA application_id = {schema.APPLICATION_ID}", "index_corrupt", "version is 0"),
])
def test_another_schema_is_refused_and_left_as_it_is(lexical: Runtime, tmp_path: Path, sql: str, code: str, said: str) -> None:
    connection = apsw.Connection(str(tmp_path / PATH))
    list(connection.execute(sql))
    connection.close()
    refused_and_left(lexical, tmp_path / PATH, code, said)
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


@pytest.mark.parametrize("content", [b"plain text, no database " * 50, b"SQLite format 3\x00" + b"\x00" * 500, b"x", b"%PDF-1.7\n" * 200,
                                     b"a line\n" * 40, b"y" * 511, b"y" * 512, b"\x00" * 20, b"SQLite format 3\x00"])
def test_no_database_at_all_is_refused_and_left_as_it_is(lexical: Runtime, tmp_path: Path, content: bytes) -> None:
    (tmp_path / PATH).write_bytes(content)
    for result in (rag_search(PATH, "text", 3), rag_ingest(PATH, "d", "s", "text", 10), rag_check(PATH)):
        assert isinstance(result, Err)
        assert result.error.code in ("not_an_index", "index_corrupt")
    lexical.close()
    assert (tmp_path / PATH).read_bytes() == content


def test_an_empty_file_is_no_index_yet(lexical: Runtime, tmp_path: Path) -> None:
    (tmp_path / PATH).touch()
    for result in (rag_search(PATH, "text", 3), rag_delete(PATH, "d"), rag_check(PATH), rag_compact(PATH)):
        assert isinstance(result, Err)
        assert result.error.code == "index_missing"
    lexical.close()
    assert (tmp_path / PATH).stat().st_size == 0
    assert rag_ingest(PATH, "d", "s", "text", 10) == Ok(1)
    assert rag_check(PATH).unwrap().clean


def test_any_sqlite_with_fts5_reads_the_file(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "Plain words to be found.", 100)
    connection = apsw.Connection(str(tmp_path / PATH))
    assert connection.pragma("page_size") == schema.PAGE_SIZE
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("application_id") == schema.APPLICATION_ID
    assert connection.execute("SELECT c.text FROM rag_lexical l JOIN rag_chunks c ON c.seq = l.rowid WHERE rag_lexical MATCH 'found'"
                              ).fetchall() == [("Plain words to be found.",)]
    connection.close()


@pytest.mark.parametrize(("sql", "code", "said"), [
    ("UPDATE rag_meta SET value = 'rag-terms/2' WHERE key = 'normalizer'", "index_too_new", "'rag-terms/2'"),
    ("DELETE FROM rag_meta WHERE key = 'normalizer'", "index_corrupt", "by which rules"),
    ("UPDATE rag_meta SET value = x'00' WHERE key = 'normalizer'", "index_corrupt", "by which rules")])
def test_terms_by_other_rules_are_refused_and_left_as_they_are(lexical: Runtime, tmp_path: Path, sql: str, code: str, said: str) -> None:
    rag_ingest(PATH, "d", "s", "text", 10)
    lexical.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    connection.execute(sql)
    connection.close()
    refused_and_left(lexical, tmp_path / PATH, code, said)


@pytest.mark.parametrize("sql", ["DELETE FROM rag_meta WHERE key = 'generation'", "UPDATE rag_meta SET value = 'x' WHERE key = 'generation'"])
def test_a_generation_that_cannot_be_counted_up_is_damage(lexical: Runtime, tmp_path: Path, sql: str) -> None:
    rag_ingest(PATH, "d", "s", "text", 10)
    lexical.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    connection.execute(sql)
    connection.close()
    for result in (rag_ingest(PATH, "e", "s", "text", 10), rag_delete(PATH, "d")):
        assert isinstance(result, Err)
        assert result.error.code == "index_corrupt"
        assert "generation" in result.error
    assert [chunk.doc_id for chunk in rag_search(PATH, "text", 5).unwrap()] == ["d"]


def test_facts_are_kept_and_dropped(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / PATH))
    schema.create(connection)
    schema.set_fact(connection, "k", "one")
    schema.set_fact(connection, "k", 2)
    assert schema.get_fact(connection, "k") == 2
    connection.execute("UPDATE rag_meta SET value = x'00' WHERE key = 'k'")
    assert schema.get_fact(connection, "k") is None
    schema.drop_fact(connection, "k")
    assert (schema.get_fact(connection, "k"), schema.stored_identity(connection)) == (None, None)
    connection.close()
