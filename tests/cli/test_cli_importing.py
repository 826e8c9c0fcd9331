"""`rag import`: an index of ours from one with std/rag's original schema (§1.7 of its text)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble
from interrupting import interrupt_second_document

Write = Callable[..., Path]
Rag = Any  # see conftest

SCHEMA = """
CREATE TABLE rag_documents(id TEXT PRIMARY KEY, source TEXT NOT NULL, media_type TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE rag_chunks(chunk_id TEXT PRIMARY KEY, doc_id TEXT NOT NULL REFERENCES rag_documents(id), source TEXT NOT NULL,
    text TEXT NOT NULL, start_char INTEGER NOT NULL, end_char INTEGER NOT NULL, provenance_key TEXT NOT NULL);
CREATE INDEX rag_chunks_doc ON rag_chunks(doc_id);
CREATE INDEX rag_chunks_key ON rag_chunks(provenance_key);
CREATE TABLE rag_chunk_embeddings(chunk_id TEXT PRIMARY KEY REFERENCES rag_chunks(chunk_id), dimension INTEGER NOT NULL,
    values_json TEXT NOT NULL);
CREATE INDEX rag_chunk_embeddings_dimension ON rag_chunk_embeddings(dimension);
"""
DOCUMENTS = (
    ("b", "notes/b.md", "text/markdown", "# Refunds\n\n" + "Paid in ten days. " * 40),
    ("a", "notes/a.txt", "text/plain", "the first, naïve 返金"),
    ("empty", "notes/empty", "text/plain", ""),
)


def old_index(path: Path, documents: Sequence[tuple[Any, ...]] = DOCUMENTS, schema: str = SCHEMA) -> Path:
    connection = apsw.Connection(str(path))
    list(connection.execute(schema))
    connection.executemany("INSERT INTO rag_documents VALUES (?, ?, ?, ?)", documents)
    connection.execute("INSERT INTO rag_chunks SELECT id || ':0', id, source, text, 0, length(text), 'rag_x' FROM rag_documents")
    connection.execute("INSERT INTO rag_chunk_embeddings SELECT chunk_id, 2, '[0.1, 0.2]' FROM rag_chunks")
    connection.close()
    return path


def test_documents_are_taken_over_with_source_and_media_type(rag: Rag, folder: Path) -> None:
    old = old_index(folder / "old.db")
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    done = rag("import", "old.db", "new.db")
    assert (done.code, done.out, done.err) == (0, "3 documents ingested (2 chunks), 0 unchanged\n", "")
    for doc_id, source, media_type, text in DOCUMENTS:
        found = rag("get", "new.db", doc_id, "--json").json
        assert (found["source"], found["media_type"], found["text"], found["metadata"]) == (source, media_type, text, {})
    assert rag("check", "new.db").code == 0
    assert rag("search", "new.db", "返金", "--json").json[0]["doc_id"] == "a"
    assert hashlib.sha256(old.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in folder.iterdir()) == ["corvid.toml", "new.db", "old.db"]


def test_the_chunk_size_is_an_option_and_a_second_run_changes_nothing(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db")
    assert rag("import", "old.db", "new.db", "--chunk-chars", "100", "--json").json["chunks"] > 5
    again = rag("import", "old.db", "new.db", "--chunk-chars", "100")
    assert (again.code, again.out) == (0, "0 documents ingested (0 chunks), 3 unchanged\n")
    assert rag("import", "old.db", "new.db", "--chunk-chars", "0").code == 2


def test_texts_are_embedded_anew(rag: Rag, folder: Path, configure: Callable[[Any], None]) -> None:
    old_index(folder / "old.db")
    double = EmbedderDouble()
    configure(double)
    rag("import", "old.db", "new.db")
    assert double.texts == 2
    assert rag("stats", "new.db", "--json").json["vectors"] == 2


def test_the_error_about_such_an_index_names_the_command_that_helps(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db")
    refused = rag("search", "old.db", "refund")
    assert refused.err.startswith("rag: error [index_foreign_schema]")
    assert "rag import old.db NEW_INDEX" in refused.err
    same = rag("import", "old.db", "old.db")
    assert (same.code, same.out) == (1, "")
    assert same.err.startswith("rag: error [index_foreign_schema]")


def test_a_document_that_ours_refuses_is_listed_and_the_others_go_on(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db", [*DOCUMENTS, (" ", "blank", "text/plain", "x"), ("c", "s", "text/plain", "a\0b"),
                                  ("late", "s", "text/plain", "late words")])
    connection = apsw.Connection(str(folder / "old.db"))
    connection.execute("UPDATE rag_documents SET text = CAST(x'61ff62' AS TEXT) WHERE id = 'a'")
    connection.execute("UPDATE rag_documents SET id = CAST(x'ff1b' AS TEXT) WHERE id = 'empty'")
    connection.close()
    done = rag("import", "old.db", "new.db")
    assert done.code == 1
    assert done.out == "2 documents ingested (2 chunks), 0 unchanged, 4 failed\n"
    assert sorted(line.split(":")[1] for line in done.err.splitlines()) == [
        " failed [invalid_doc_id]", " failed [not_utf8]", " failed [not_utf8]", " failed [text_nul]"]
    assert "'a' is not UTF-8 text: byte 1 is 0xff" in done.err
    assert rag("get", "new.db", "late").out == "late words\n"


@pytest.mark.parametrize(("old", "code", "said"), [
    ("gone.db", "file_missing", "there is no file 'gone.db'"),
    ("no/folder/old.db", "path_folder_missing", "no/folder"),
    ("ours.db", "file_unreadable", "it has the schema of rag-stdlib already"),
    ("text.db", "file_unreadable", "it is no SQLite file"),
    ("other.db", "file_unreadable", "it has no table rag_documents with their columns"),
    ("half.db", "file_unreadable", "it has no table rag_documents with their columns"),
    ("empty.db", "file_unreadable", "it has no table rag_documents with their columns"),
    ("link.db", "path_symlink", "links are not followed"),
    ("folder", "path_special", "a folder"),
    ("../old.db", "path_parent", "`..`"),
    ("/etc/passwd", "path_outside_root", "escapes"),
])
def test_what_is_no_such_index_is_an_error_and_nothing_is_made(
        rag: Rag, write: Write, folder: Path, old: str, code: str, said: str) -> None:
    write("a.txt")
    rag("ingest", "ours.db", "a.txt")
    write("text.db", "no database at all " * 100)
    write("empty.db", "")
    (folder / "folder").mkdir()
    old_index(folder / "real.db")
    (folder / "link.db").symlink_to("real.db")
    for name, statement in (("other.db", "CREATE TABLE notes(id)"), ("half.db", "CREATE TABLE rag_documents(id, text)")):
        apsw.Connection(str(folder / name)).execute(statement).connection.close()
    before = sorted(folder.rglob("*"))
    refused = rag("import", old, "new.db")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"rag: error [{code}]: ")
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


def test_a_damaged_file_is_an_error_of_one_line(rag: Rag, folder: Path) -> None:
    old = old_index(folder / "old.db", [(f"d{n}", "s", "text/plain", "x" * 3000) for n in range(50)])
    data = bytearray(old.read_bytes())
    data[8192:] = b"\xa5" * (len(data) - 8192)
    old.write_bytes(data)
    refused = rag("import", "old.db", "new.db")
    assert refused.code == 1
    assert "rag: error [index_corrupt]" in refused.err
    assert "Traceback" not in refused.err


def test_a_file_in_log_mode_is_read_with_and_without_a_log_and_gets_no_side_files(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db", schema="PRAGMA journal_mode = wal;" + SCHEMA)
    assert rag("import", "old.db", "new.db").code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["corvid.toml", "new.db", "old.db"]
    writer = apsw.Connection(str(folder / "old.db"))
    writer.execute("INSERT INTO rag_documents VALUES ('late', 's', 'text/plain', 'in the log')")
    done = rag("import", "old.db", "new.db")
    writer.close()
    assert (done.code, done.out) == (0, "1 document ingested (1 chunk), 3 unchanged\n")


def test_a_file_that_is_locked_is_busy(rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_stdlib.index.foreign.BUSY_SECONDS", 0.05)
    old_index(folder / "old.db")
    writer = apsw.Connection(str(folder / "old.db"))
    writer.execute("BEGIN EXCLUSIVE")
    refused = rag("import", "old.db", "new.db")
    writer.close()
    assert (refused.code, refused.err.split(":")[1]) == (1, " error [busy]")
    assert not (folder / "new.db").exists()


def test_it_needs_the_grants_to_read_and_to_write(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db")
    for granted, missing in (("rag_write", "rag_read"), ("rag_read", "rag_write")):
        (folder / "corvid.toml").write_text(f'[io]\nroot = "."\n[effects]\ngrant = ["{granted}"]\n')
        refused = rag("import", "old.db", "new.db")
        assert refused.code == 1
        assert refused.err.startswith("rag: error [effect_not_granted]")
        assert f"the effect {missing}" in refused.err
    assert not (folder / "new.db").exists()


def test_a_document_that_comes_twice_counts_by_its_last_form(rag: Rag, folder: Path) -> None:
    old_index(folder / "old.db")
    connection = apsw.Connection(str(folder / "old.db"))
    connection.execute("CREATE TABLE copy AS SELECT * FROM rag_documents")
    connection.execute("DROP TABLE rag_documents")
    connection.execute("ALTER TABLE copy RENAME TO rag_documents")
    connection.execute("INSERT INTO rag_documents SELECT * FROM rag_documents WHERE id = 'a'")
    connection.execute("UPDATE rag_documents SET text = 'the last form' WHERE rowid = (SELECT max(rowid) FROM rag_documents)")
    connection.close()
    assert rag("import", "old.db", "new.db").code == 0
    assert rag("get", "new.db", "a").out == "the last form\n"
    assert rag("check", "new.db").code == 0


def test_ctrl_c_tells_what_was_done_and_how_to_go_on(rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_index(folder / "old.db")
    with monkeypatch.context() as patch:
        interrupt_second_document(patch)
        stopped = rag("import", "old.db", "new.db")
    assert (stopped.code, stopped.out) == (130, "1 document ingested (1 chunk), 0 unchanged\n")
    assert stopped.err.startswith("rag: stopped; ")
    assert rag("import", "old.db", "new.db").out == "2 documents ingested (1 chunk), 1 unchanged\n"


def test_paths_are_taken_from_the_working_directory(rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    old_index(folder / "sub/old.db")
    monkeypatch.chdir(folder / "sub")
    assert rag("import", "old.db", "../new.db").code == 0
    assert (folder / "new.db").exists()
