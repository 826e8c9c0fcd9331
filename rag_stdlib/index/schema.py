"""The tables of the one file, their version, and the small table of facts about the index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index.sql import number, rows
from rag_stdlib.text.normalize import NORMALIZER

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x72616731  # "rag1"
PAGE_SIZE: Final = 16_384

_TABLES: Final = (
    """CREATE TABLE rag_meta(key TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE rag_documents(
        id TEXT PRIMARY KEY NOT NULL, source TEXT NOT NULL, media_type TEXT NOT NULL,
        content_sha256 TEXT NOT NULL, metadata TEXT NOT NULL, line_anchors TEXT NOT NULL, page_anchors TEXT NOT NULL,
        chunk_chars INTEGER NOT NULL, chunker TEXT NOT NULL, chunks INTEGER NOT NULL, bytes INTEGER NOT NULL,
        rest TEXT NOT NULL)""",
    """CREATE TABLE rag_chunks(
        seq INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL REFERENCES rag_documents(id),
        source TEXT NOT NULL, text TEXT NOT NULL, start_char INTEGER NOT NULL, end_char INTEGER NOT NULL,
        provenance_key TEXT NOT NULL, ordinal INTEGER NOT NULL, start_byte INTEGER NOT NULL, end_byte INTEGER NOT NULL,
        start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, page INTEGER, content_sha256 TEXT NOT NULL,
        context TEXT NOT NULL, UNIQUE(doc_id, ordinal))""",
    """CREATE VIRTUAL TABLE rag_lexical USING fts5(terms, content='', tokenize="ascii tokenchars '+#'")""",
)
_CHANGES: Final = """CREATE TABLE rag_changes(
    generation INTEGER PRIMARY KEY, gone_first INTEGER NOT NULL, gone_count INTEGER NOT NULL,
    come_first INTEGER NOT NULL, come_count INTEGER NOT NULL, follows TEXT NOT NULL)"""
_CORPUS: Final = (
    """CREATE TABLE rag_corpora(
        id TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, url TEXT NOT NULL, branch TEXT NOT NULL,
        commit_id TEXT NOT NULL, rules TEXT NOT NULL)""",
    """CREATE TABLE rag_corpus_files(
        doc_id TEXT PRIMARY KEY NOT NULL REFERENCES rag_documents(id), repo_id TEXT NOT NULL REFERENCES rag_corpora(id),
        blob TEXT NOT NULL, sections TEXT NOT NULL)""",
)
_ORIGINALS: Final = "CREATE TABLE rag_originals(doc_id TEXT PRIMARY KEY NOT NULL REFERENCES rag_documents(id), sha256 TEXT NOT NULL, bytes BLOB NOT NULL)"
_CORPUS_STAGING: Final = "CREATE TABLE rag_corpus_staging(digest TEXT PRIMARY KEY NOT NULL, vector BLOB NOT NULL)"
_STAGING: Final = "CREATE TABLE rag_staging(digest TEXT PRIMARY KEY NOT NULL, vector BLOB NOT NULL)"
# Blocks of 32 vectors: one vector is read, and one document replaced, by touching little more than itself.
_VECTORS: Final = "CREATE VIRTUAL TABLE rag_vectors USING vec0(embedding float[{dim}] distance_metric=cosine, chunk_size=32)"
_HASH_BYTES: Final = 4 * 1024 * 1024
_SHADOWS: Final = frozenset(  # the tables that FTS5 and vec0 keep their own data in
    [f"rag_lexical_{part}" for part in ("config", "data", "docsize", "idx")]
    + [f"rag_vectors_{part}" for part in ("chunks", "info", "rowids", "vector_chunks00")])


def read_version(connection: apsw.Connection, shown: str) -> int:
    """Return the schema version, 0 for a file without any table yet; refuse what is not ours to read.

    Terms made by other rules than ours would be searched wrongly, and removed wrongly: such an index is refused too.

    Raises:
        Failure: `not_an_index`, `index_foreign_schema`, `index_too_new`, `index_corrupt`.
    """
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise fail("index_too_new", path=shown, found=version, known=SCHEMA_VERSION)
        if version < 1:
            raise fail("index_corrupt", path=shown, detail=f"its schema version is {version}")
        normalizer = get_fact(connection, "normalizer")
        if not isinstance(normalizer, str):
            raise fail("index_corrupt", path=shown, detail="it does not say by which rules its terms were made")
        if normalizer != NORMALIZER:
            raise fail("index_too_new", path=shown, found=f"{version} with terms by {normalizer[:40]!r}",
                       known=f"{SCHEMA_VERSION} with terms by {NORMALIZER!r}")
        return int(version)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if {"rag_documents", "rag_chunks"} <= names:
        raise fail("index_foreign_schema", path=shown)
    if names or application or version:
        raise fail("not_an_index", path=shown, detail="it is another program's SQLite database")
    return 0


def create(connection: apsw.Connection) -> None:
    """Make the tables, inside the caller's transaction; the version is set last."""
    for statement in _TABLES:
        connection.execute(statement)
    # Merging segments in eights instead of FTS5's fours writes less while documents come in one transaction each.
    connection.execute("INSERT INTO rag_lexical(rag_lexical, rank) VALUES ('automerge', 8)")
    # A larger table of terms in memory means fewer, longer segments where many documents come in one transaction.
    connection.execute("INSERT INTO rag_lexical(rag_lexical, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
    create_changes(connection)
    facts = (("normalizer", NORMALIZER), ("generation", 0), ("last_seq", 0))
    connection.executemany("INSERT INTO rag_meta(key, value) VALUES (?, ?)", facts)
    exchange_mark(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def create_changes(connection: apsw.Connection) -> None:
    """Make the table of what came and went with each generation."""
    connection.execute(_CHANGES)


def create_staging(connection: apsw.Connection) -> None:
    """Make the table in which a re-embedding collects its vectors."""
    connection.execute(_STAGING)


def create_corpus(connection: apsw.Connection) -> None:
    """Make the tables of repositories and their files, where they are not there yet."""
    _create_missing(connection, _CORPUS)


def create_originals(connection: apsw.Connection) -> None:
    """Make the table of documents whose bytes are not those of their text, where it is not there yet."""
    _create_missing(connection, (_ORIGINALS,))


def create_corpus_staging(connection: apsw.Connection) -> None:
    """Make the table in which a sync of a corpus collects its vectors, where it is not there yet."""
    _create_missing(connection, (_CORPUS_STAGING,))


def _create_missing(connection: apsw.Connection, statements: tuple[str, ...]) -> None:
    for statement in statements:
        if not has_table(connection, _name(statement)):
            connection.execute(statement)


def has_table(connection: apsw.Connection, name: str) -> bool:
    """Tell whether the file has a table of this name: some are made only when they are needed."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).fetchone() is not None


def create_vectors(connection: apsw.Connection, dim: int) -> None:
    """Make the vector table; sqlite-vec is loaded."""
    connection.execute(_VECTORS.format(dim=dim))


def differences(connection: apsw.Connection) -> Iterator[str]:
    """Say what of the file's schema is not as this module makes it: other or missing tables, indexes, triggers, views."""
    identity = stored_identity(connection)
    wanted = {_name(statement): statement for statement in _TABLES}
    later = (_STAGING, _CHANGES, *_CORPUS, _ORIGINALS, _CORPUS_STAGING)
    known = {**wanted, **{_name(statement): statement for statement in later},
             "rag_vectors": _VECTORS.format(dim=identity.dim if identity else 0)}
    found: set[str] = set()
    for kind, name, sql in rows(connection, "SELECT type, name, sql FROM sqlite_schema WHERE substr(name, 1, 7) <> 'sqlite_'"):
        found.add(name)
        if kind != "table" or name not in known.keys() | _SHADOWS:
            yield f"schema: the {kind} {name!r} does not belong to an index"
        elif name in known and " ".join(str(sql).split()) != " ".join(known[name].split()):
            yield f"schema: the table {name!r} is not as this version makes it"
    for name in sorted(wanted.keys() - found):
        yield f"schema: the table {name!r} is missing"


def _name(statement: str) -> str:
    return statement.partition("(")[0].split(" USING ")[0].split()[-1]


def get_fact(connection: apsw.Connection, key: str) -> str | int | None:
    """Return a fact about the index, or None."""
    for (value,) in connection.execute("SELECT value FROM rag_meta WHERE key = ?", (key,)):
        return value if isinstance(value, (str, int)) else None
    return None


def set_fact(connection: apsw.Connection, key: str, value: str | int | bytes) -> None:
    """Set a fact about the index."""
    connection.execute("INSERT INTO rag_meta(key, value) VALUES (?, ?) "
                       "ON CONFLICT(key) DO UPDATE SET value = excluded.value", (key, value))


def drop_fact(connection: apsw.Connection, key: str) -> None:
    """Remove a fact about the index."""
    connection.execute("DELETE FROM rag_meta WHERE key = ?", (key,))


def exchange_mark(connection: apsw.Connection) -> str:
    """Give the state that this transaction makes a random mark of its own; return that of the state before, empty without one."""
    before = get_fact(connection, "mark")
    connection.execute("INSERT OR REPLACE INTO rag_meta(key, value) VALUES ('mark', lower(hex(randomblob(16))))")
    return before if isinstance(before, str) else ""


def next_seq(connection: apsw.Connection) -> int:
    """Return the number that the next new chunk gets: above all that were ever given, also those of chunks that are gone."""
    last, present = get_fact(connection, "last_seq"), number(connection, "SELECT coalesce(max(seq), 0) FROM rag_chunks")
    return max(last if isinstance(last, int) else 0, present) + 1


def next_generation(connection: apsw.Connection, steps: int = 1) -> None:
    """Count up the generation: every step that changes what a search can answer counts once."""
    connection.execute("UPDATE rag_meta SET value = value + ? WHERE key = 'generation' AND typeof(value) = 'integer'", (steps,))
    if connection.changes() != 1:
        raise apsw.CorruptError("its generation is no whole number that could be counted up")


def stored_identity(connection: apsw.Connection) -> EmbedderIdentity | None:
    """Return the identity of the embedder whose vectors the index holds, or None where it holds none."""
    value = get_fact(connection, "embedder")
    return EmbedderIdentity.from_json(value) if isinstance(value, str) else None
