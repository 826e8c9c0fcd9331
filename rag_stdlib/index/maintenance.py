"""Giving bytes back (`compact`), re-embedding (`reembed`) and figures about an index (`stats`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import apsw

from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index import changes, content, corpuswrite, lexical, schema, sharding, vectors
from rag_stdlib.index.journal import log_is_safe
from rag_stdlib.index.sql import number
from rag_stdlib.index.sql import rows as sql_rows
from rag_stdlib.index.store import Store
from rag_stdlib.index.writer import SLICE, prepare_vectors
from rag_stdlib.records import Compacted, IndexStats, Reembedded
from rag_stdlib.text.chunker import embedded_text

Progress = Callable[[int, int], None]


def stats(store: Store, path: str) -> IndexStats:
    """Count what the index holds and cross-check the stores' row counts."""
    with store.reading(path) as connection:
        documents, chunks = (number(connection, f"SELECT count(*) FROM {table}")
                             for table in ("rag_documents", "rag_chunks"))
        text_bytes = number(connection, "SELECT coalesce(sum(bytes), 0) FROM rag_documents")
        terms, held = number(connection, "SELECT count(*) FROM rag_lexical_docsize"), vectors.count(connection)
        identity, mode = schema.stored_identity(connection), str(connection.pragma("journal_mode"))
        described = content.describe(connection)
        unfinished, shard = _unfinished(connection), sharding.shard(connection)
    version = apsw.sqlite_lib_version()
    notices = []
    if terms != chunks:
        notices.append(f"the lexical index has {terms} rows for {chunks} chunks; run check")
    if identity is not None and held != chunks:
        notices.append(f"{chunks - held} of {chunks} chunks have no vector; vector and hybrid searches refuse until reembed")
    notices += unfinished
    if shard is not None:
        notices.append(f"shard {shard} of an index that was split by documents")
    if mode != "wal":
        why = "this SQLite can lose a write in log mode" if not log_is_safe(version) else "log mode is not to be had here"
        notices.append(f"rollback journal ({mode}): {why}; readers and writers wait for each other")
    file_bytes, log_bytes = store.sizes(path)
    return IndexStats(documents, chunks, held, text_bytes, file_bytes, log_bytes, schema.SCHEMA_VERSION,
                      described["generation"], identity.describe() if identity and held else "", mode, version, tuple(notices),
                      described["content"] or "")


def compact(store: Store, path: str) -> Compacted:
    """Rebuild what is derived (lexical index, vector table, digest) and vacuum the file: no deleted text is left in it."""
    before = sum(store.sizes(path))
    with store.writing(path) as connection:
        lexical.rebuild(connection)
        _rebuild_vectors(connection)
        content.rebuild(connection)
        if any(changes.problems(connection)):
            changes.clear(connection)
        _prune_staging(connection)
        corpuswrite.clear_staging(connection)
    with store.exclusive(path) as connection:
        connection.execute("VACUUM")
    return Compacted(before, sum(store.sizes(path)))


def _rebuild_vectors(connection: apsw.Connection) -> None:
    identity = schema.stored_identity(connection)
    if identity is None or not vectors.exists(connection):
        return
    seqs, rows = vectors.load(connection, identity.dim)
    vectors.load_extension(connection)
    connection.execute("DROP TABLE rag_vectors")
    schema.create_vectors(connection, identity.dim)
    order = seqs.argsort()
    vectors.add(connection, seqs[order].tolist(), rows[order])


def _prune_staging(connection: apsw.Connection) -> None:
    """Drop what an unfinished re-embedding staged for texts that are gone."""
    if schema.get_fact(connection, "staging") is None:
        return
    kept = _distinct_texts(connection).keys()
    gone = [(digest,) for (digest,) in sql_rows(connection, "SELECT digest FROM rag_staging") if digest not in kept]
    connection.executemany("DELETE FROM rag_staging WHERE digest = ?", gone)
    if not number(connection, "SELECT count(*) FROM rag_staging"):
        _drop_staging(connection)


def _unfinished(connection: apsw.Connection) -> list[str]:
    staging = schema.get_fact(connection, "staging")
    if not isinstance(staging, str):
        return []
    staged = number(connection, "SELECT count(*) FROM rag_staging")
    by = EmbedderIdentity.from_json(staging).describe()
    return [f"a re-embedding by {by} is unfinished ({staged} texts are staged); run reembed to finish it"]


def reembed(store: Store, path: str, embedder: Embedder, progress: Progress | None = None) -> Reembedded:
    """Give every chunk a vector of `embedder`, replacing those of another, in one switch at the end.

    Vectors are staged in the index as they come, so that a call that was interrupted goes on where it stopped; searches
    see the old state until all are there. `progress` is called with (done, total) distinct texts.
    """
    with store.reading(path):
        pass  # a missing index is refused before a provider is asked
    identity = boundary.identified(embedder)
    embedded = 0
    missing = _stage(store, path, identity, take_over=True)
    while missing is not None:
        for start in range(0, len(missing), SLICE):
            batch = missing[start:start + SLICE]
            rows = boundary.embedded(embedder, [text for _, text in batch], "passage")
            with store.writing(path) as connection:
                if not _is_staging(connection, identity):
                    break
                connection.executemany("INSERT OR REPLACE INTO rag_staging(digest, vector) VALUES (?, ?)",
                                       ((digest, row.astype("<f4").tobytes())
                                        for (digest, _), row in zip(batch, rows, strict=True)))
            embedded += len(batch)
            if progress is not None:
                progress(start + len(batch), len(missing))
        if _switch(store, path, identity):
            break
        missing = _stage(store, path, identity, take_over=False)
    with store.reading(path) as connection:
        return Reembedded(number(connection, "SELECT count(*) FROM rag_chunks"), embedded)


def _stage(store: Store, path: str, identity: EmbedderIdentity, *, take_over: bool) -> list[tuple[str, str]] | None:
    """Return the distinct texts, by digest, that are not staged yet; None where all chunks have their vectors already.

    With `take_over`, what another embedder left staged is thrown away; without, it is another call's work: a mismatch.
    """
    with store.writing(path) as connection:
        if _complete(connection, identity):
            _drop_staging(connection)
            return None
        if not _is_staging(connection, identity):
            staging = schema.get_fact(connection, "staging")
            if isinstance(staging, str) and not take_over:
                raise fail("embedding_mismatch", path=path, given=identity.describe(),
                           stored=EmbedderIdentity.from_json(staging).describe())
            _drop_staging(connection)
            schema.create_staging(connection)
            schema.set_fact(connection, "staging", identity.to_json())
    with store.reading(path) as connection:
        if not _is_staging(connection, identity):
            return []  # another call came in between; the switch will say what became of it
        staged = {digest for (digest,) in connection.execute("SELECT digest FROM rag_staging")}
        return [(digest, text) for digest, text in _distinct_texts(connection).items() if digest not in staged]


def _distinct_texts(connection: apsw.Connection) -> dict[str, str]:
    texts = (embedded_text(context, text) for context, text in
             sql_rows(connection, "SELECT context, text FROM rag_chunks ORDER BY seq"))
    return {content_sha256(text): text for text in texts}


def _is_staging(connection: apsw.Connection, identity: EmbedderIdentity) -> bool:
    return schema.get_fact(connection, "staging") == identity.to_json()


def _drop_staging(connection: apsw.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS rag_staging")
    schema.drop_fact(connection, "staging")


def _complete(connection: apsw.Connection, identity: EmbedderIdentity) -> bool:
    return (schema.stored_identity(connection) == identity
            and vectors.count(connection) == number(connection, "SELECT count(*) FROM rag_chunks"))


def _switch(store: Store, path: str, identity: EmbedderIdentity) -> bool:
    """Replace all vectors by the staged ones; False if a document came in meanwhile, or another call, and more is to do."""
    with store.writing(path) as connection:
        if not _is_staging(connection, identity):
            return False
        staged = {digest for (digest,) in sql_rows(connection, "SELECT digest FROM rag_staging")}
        chunks = [(seq, content_sha256(embedded_text(context, text))) for seq, context, text in
                  sql_rows(connection, "SELECT seq, context, text FROM rag_chunks ORDER BY seq")]
        if any(digest not in staged for _, digest in chunks):
            return False
        vectors.load_extension(connection)
        if vectors.exists(connection):
            connection.execute("DROP TABLE rag_vectors")
        schema.drop_fact(connection, "embedder")
        prepare_vectors(connection, identity)
        for start in range(0, len(chunks), SLICE):
            _take_staged(connection, chunks[start:start + SLICE], identity.dim)
        _drop_staging(connection)
        content.advance(connection)
    return True


def _take_staged(connection: apsw.Connection, chunks: Sequence[tuple[int, str]], dim: int) -> None:
    """Store the staged vectors of some chunks, given as (seq, digest)."""
    import numpy as np

    digests = json.dumps([digest for _, digest in chunks])
    staged: dict[str, bytes] = dict(sql_rows(
        connection, "SELECT digest, vector FROM rag_staging WHERE digest IN (SELECT value FROM json_each(?))", (digests,)))
    rows = np.frombuffer(b"".join(staged[digest] for _, digest in chunks), "<f4").reshape(-1, dim)
    vectors.add(connection, [seq for seq, _ in chunks], rows)
